"""From a reply to the answer that is scored: the part of one role, then the config's clean-ups."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from kshot.cleanups import CLEANUP_PACKAGES, CLEANUPS
from kshot.cleanups.config_names import SLOW_IMPORTS, TAKE_NO_PATTERNS, cleanup_function
from kshot.configs.confine import CleanupFailed, TookTooLong, cleaned_apart
from kshot.configs.home import Home
from kshot.configs.names import ConfigCallable, Opaque, short
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.extras import missing_package, require
from kshot.core.records import AskFailed, Failed, Sample
from kshot.core.visible import without_text
from kshot.methods.generation import Extract
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault

Cleaner: TypeAlias = Callable[[Any], Any]
"""Takes the answer out of a reply, or brings a reference into the form that is compared."""


def cleaner(config: Any, scope: Scope) -> Cleaner:
    """Return the function that a ``…_postprocessor=dict(type=…)`` names, with its options.

    A name is looked up among what the config registered, then among kshot's clean-ups and those of installed packages.
    """
    body = dict(config) if isinstance(config, Mapping) else {"type": config}
    kind = body.pop("type", None)
    where = scope.where
    function: Any = scope.own(kind)
    if function is None and (function := cleanup_function(short(kind), scope.name(kind).framework)) is not None:
        require(short(kind), *CLEANUP_PACKAGES.get(function, ()))
        _check_options(function, body, kind, where)
        if function in SLOW_IMPORTS or (body and function not in TAKE_NO_PATTERNS):
            return _apart(scope.name(kind), body, where)
    if function is None and (entry := CLEANUPS.find(short(kind))) is not None:
        function = entry.load()
        if isinstance(function, type):  # a clean-up of an installed package may be a class, made with the options
            function, body = function(**body), {}
    if function is None and (home := scope.home("clean-up", scope.name(kind))) is not None:
        function, body = partial(_by_home, home, scope.name(kind).whole, body), {}
    if function is None:
        scope.unknown("clean-up", kind, [entry.name for entry in CLEANUPS.entries()])

    def clean(text: Any) -> Any:
        try:
            return function(text, **body)
        except ImportError as exc:
            missing = missing_package(exc, short(kind))
            raise missing or DataError(f"{short(kind)} needs a package: {exc}", where=where) from exc
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, re.error) as exc:
            what = f"{short(kind)} fails on {text!r:.80}: {exc or type(exc).__name__}"
            raise CleanupFailed(what, where=where) from exc

    return clean


def _check_options(function: Callable[..., Any], options: Mapping[str, Any], kind: Any, where: str) -> None:
    """Refuse options that a clean-up of kshot does not take, or lacks, before a model is asked."""
    signature = inspect.signature(function)
    try:
        signature.bind("", **options)
        if options and function in TAKE_NO_PATTERNS:
            function("", **options)
    except (TypeError, LookupError, re.error) as exc:
        said = f"there is no {exc}" if isinstance(exc, LookupError) else str(exc)
        known = ", ".join(list(signature.parameters)[1:]) or "no options"
        raise DataError(f"{short(kind)}: {said}", where=where, hint=f"It takes: {known}.") from exc


def _apart(name: Name, options: Mapping[str, Any], where: str) -> Cleaner:
    """Return a clean-up that runs in a process of its own, because its options may be regular expressions."""

    def clean(text: Any) -> Any:
        try:
            return cleaned_apart(name.last, text, options, name.framework)
        except DataError as exc:
            exc.where = exc.where or where
            raise

    clean("")  # a pattern that cannot be read is told before a model is asked
    return clean


def _by_home(home: Home, name: str, options: Mapping[str, Any], text: Any) -> Any:
    """Clean a text up by the code of a home. What fails on one text is that text's failure, not the run's."""
    try:
        return home.clean(name, options, text)
    except GuestFault as exc:
        if exc.kind in SETUP_FAULTS:
            raise
        raise TookTooLong(f"{short(name)} of {home.title}: {exc.what}", where=exc.where) from exc


def one_cleaned(clean: Cleaner, reply: Any) -> Any:
    """Clean a reply up. One on which that fails or takes too long is a failed sample and does not stop the run."""
    try:
        cleaned = clean(reply)
    except (CleanupFailed, TookTooLong) as exc:
        raise AskFailed(Failed("clean_up", exc.what)) from exc
    if lost := without_text(cleaned, ConfigCallable, Opaque, known=str(reply)):
        raise AskFailed(Failed("clean_up", f"it gives {lost}, which has no text of its own"))
    return cleaned


def role_part(text: str, role: Any, meta: Mapping[str, Any] | None) -> str:
    """Keep the text of one role: after its ``begin`` and before its ``end``, where the meta template has them."""
    roles = [*(meta or {}).get("round", ()), *(meta or {}).get("reserved_roles", ())]
    entry = next((item for item in roles if isinstance(item, Mapping) and item.get("role") == role), {})
    begin, end = entry.get("begin"), entry.get("end")
    if isinstance(begin, str) and begin in text:
        text = text[text.index(begin) + len(begin) :]
    return text.partition(end)[0] if isinstance(end, str) and end else text


def extraction(
    eval_cfg: Mapping[str, Any],
    meta: Mapping[str, Any] | None,
    model_cfg: Mapping[str, Any],
    scope: Scope,
) -> Extract:
    """Return the function from a sample's reply (or replies) to its answer."""
    steps: list[Cleaner] = []
    role = eval_cfg.get("pred_role")
    if role and meta:
        steps.append(lambda text: role_part(text, role, meta) if isinstance(text, str) else text)
    wanted = (model_cfg.get("pred_postprocessor"), eval_cfg.get("pred_postprocessor"))
    steps += [cleaner(config, scope) for config in wanted if config]

    def extract(sample: Sample, reply: Any) -> Any:
        if isinstance(reply, tuple):
            return tuple(extract(sample, each) for each in reply)
        for step in steps:
            reply = one_cleaned(step, reply)
        return reply

    return extract

"""How an evaluator is made from its name and the options that a config gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kshot.configs.names import ambiguous_name
from kshot.configs.scope import Name, Scope
from kshot.metrics import Metric

Factory: TypeAlias = Callable[[Name, Mapping[str, Any], Scope], Metric | None]
"""Makes a metric of a name, the evaluator's options (its dict without ``type``) and the scope of the entry.

None: kshot has the name, but not what it means with these options.
"""


def version_of(name: Name, scope: Scope, versions: Mapping[str, str]) -> str:
    """Return which version of an evaluator is meant, where modules have different ones under the same name.

    ``versions``: the whole names, by the part of the module's name that identifies each. A bare name is refused.
    """
    found = next((part for part in versions if f".{part}." in name.whole), None)
    if found is None:
        exc = ambiguous_name("evaluator", name.last, " or ".join(versions.values()))
        exc.where = scope.where
        raise exc
    return found


def plain(metric: Callable[[], Metric]) -> Factory:
    """Return the factory of a metric without options."""

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        return metric()

    return make


def named(figure: str, metric: Callable[[], Metric]) -> Factory:
    """Return the factory of a metric whose one figure has this name in configs of another project."""

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        made = metric()
        if name.framework:
            made.name = figure
        return made

    return make


def with_options(metric: Callable[..., Metric], *figure: str) -> Factory:
    """Return the factory of a metric that takes the evaluator's options; ``figure``: the name of its figure."""

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        return metric(*figure, **options)

    return make


def either(own: Callable[[], Metric], theirs: Callable[[], Metric]) -> Factory:
    """Return the factory of two metrics: kshot's, and the one that configs of another project mean."""

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        return theirs() if name.framework else own()

    return make

"""How an evaluator is made from its name and the options that a config gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kshot.configs.evaluators.scores import RightOrWrong
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


def plain(metric: Callable[..., Metric], *given: Any) -> Factory:
    """Return the factory of a metric that is made of what is given, whatever the options are."""
    return lambda name, options, scope: metric(*given)  # noqa: ARG005 - as every factory


def with_options(metric: Callable[..., Metric], *given: Any) -> Factory:
    """Return the factory of a metric that is made of what is given and of the evaluator's options."""
    return lambda name, options, scope: metric(*given, **options)  # noqa: ARG005 - as every factory


def either(own: Callable[[], Metric], theirs: Callable[[], Metric]) -> Factory:
    """Return the factory of two metrics: kshot's, and the one that configs of another project mean."""
    return lambda name, options, scope: theirs() if name.framework else own()  # noqa: ARG005 - as every factory


def compared(same: Callable[[Any, Any], bool], name: str = "accuracy") -> Factory:
    """Return the factory of the share of answers that a function calls right."""
    return plain(RightOrWrong, name, same)

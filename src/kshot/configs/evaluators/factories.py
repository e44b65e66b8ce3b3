"""How an evaluator is made from its name and the options that a config gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kshot.configs.scope import Name, Scope
from kshot.metrics import Metric

Factory: TypeAlias = Callable[[Name, Mapping[str, Any], Scope], Metric]
"""Makes a metric of a name, the evaluator's options (its dict without ``type``) and the scope of the entry."""


def plain(metric: Callable[[], Metric]) -> Factory:
    """Return the factory of a metric without options."""

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        return metric()

    return make

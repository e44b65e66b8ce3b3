"""The evaluator that a config names, as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators import (
    basic,
    bfcl,
    exams,
    judges,
    long_contexts,
    math,
    options,
    program_tests,
    programs,
    row_groups,
    summaries,
    vision,
)
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.foreign import HomeEvaluator, config_evaluator
from kshot.configs.evaluators.judges import cascade_of
from kshot.configs.names import ConfigCallable, merged
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.metrics import Metric

EVALUATORS: dict[str, Factory] = merged(
    *(each.EVALUATORS for each in (basic, bfcl, exams, judges, long_contexts, math, options)),
    *(each.EVALUATORS for each in (program_tests, programs, row_groups, summaries, vision)),
)


_CLEAN_THEMSELVES = ("GenericLLMEvaluator", "LMEvaluator", "CascadeEvaluator")
"""Evaluators that give answers to a judge as they are, and clean them up in their own way."""


def own_cleanup(config: Any, scope: Scope) -> Any:
    """Return the clean-up that an evaluator wants before it compares; None where it wants none."""
    if not isinstance(config, Mapping) or scope.name(config.get("type")).last in _CLEAN_THEMSELVES:
        return None
    return config.get("pred_postprocessor")


def evaluator(config: Mapping[str, Any], scope: Scope) -> Metric:
    """Return the metric that an ``evaluator=dict(type=…)`` names."""
    kind = config.get("type")
    options = {name: value for name, value in config.items() if name != "type"}
    defined = scope.own(kind)
    if isinstance(defined, ConfigCallable):
        return config_evaluator(defined, options)
    if isinstance(defined, type) and issubclass(defined, Metric):
        return defined(**options)
    name = scope.name(kind)
    if name.last == "CascadeEvaluator":
        return cascade_of(name, options, scope, evaluator)
    if own_cleanup(config, scope) is not None:
        options.pop("pred_postprocessor")  # answers are cleaned up before
    make = EVALUATORS.get(name.last)
    try:
        made = None if make is None else make(name, options, scope)
    except TypeError as exc:
        raise DataError(f"{name.last} cannot be made: {exc}", where=scope.where) from exc
    if made is not None:
        return made
    if (home := scope.home("evaluator", name)) is not None:
        return HomeEvaluator(home, name, options, scope.where)
    return scope.unknown("evaluator", kind, EVALUATORS)

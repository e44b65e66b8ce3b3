"""Evaluators of agents: MATH and GSM8K, asked with an interpreter.

kshot gives a model no tools: it is asked once (see ``AgentInferencer``). So no reply has a step with an action; the
share of those is 0, and that of programs that ran (``code_acc``) does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.math import SameMath
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points
from kshot.configs.scope import Name, Scope
from kshot.metrics import Metric

_NEAR = 1e-6


class AgentAnswers(Points):
    """Share of right final answers, and of replies with an action."""

    names = ("follow_acc", "reasoning_acc", "action_pct")

    def __init__(self, version: str | None = None, framework: str = "") -> None:
        super().__init__("follow_acc")
        self.version, self.framework = version, framework

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Compare the final answers."""
        right = self._same(prediction, reference)
        points = RIGHT if right else WRONG
        return {"follow_acc": points, "reasoning_acc": points, "action_pct": WRONG}

    def _same(self, prediction: Any, reference: Any) -> bool:
        if self.version is not None:
            return SameMath(self.version, self.framework).same(prediction, reference)
        try:
            return bool(prediction == reference or abs(float(prediction) - int(reference)) < _NEAR)
        except (TypeError, ValueError, OverflowError):
            return False


def _math(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return AgentAnswers(str(options.get("version", "v1")), name.framework)


def _gsm8k(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return AgentAnswers()


EVALUATORS: dict[str, Factory] = {"MATHAgentEvaluator": _math, "Gsm8kAgentEvaluator": _gsm8k}

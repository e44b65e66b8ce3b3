"""Evaluators of mathematical answers, those of agents too: by rewriting them as text, or by the package math-verify."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kshot.cleanups.config_names import cleanup_function
from kshot.cleanups.formulas import boxed
from kshot.cleanups.math_text import (
    LEADING_ZERO,
    braced_fractions,
    plain_formula,
    replaced,
    slash_as_fraction,
    value_alone,
)
from kshot.configs.evaluators.basic import SameText
from kshot.configs.evaluators.factories import Factory, version_of
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.extras import require
from kshot.core.records import AskFailed, Failed
from kshot.metrics import Metric
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

SAME_VALUE = ConfinedFunction("kshot.configs._math_worker:same", seconds=10, work="compares formulas")
"""Whether the boxed formula of a reply has the value of a reference: formulas that a model wrote may take forever."""


class SameMath(SameText):
    """Share of predictions that are the reference once both are rewritten, as text.

    The rewritten texts are compared, then these without words and wrappings, then the original ones without them, then
    the original ones. A rewriting that fails is left out. ``boxed_first``: of a reply, what its last box holds.
    """

    def __init__(self, version: str = "v1", framework: str = "", *, boxed_first: bool = False) -> None:
        if version not in ("v1", "v2"):
            raise DataError(f"MATHEvaluator has version={version!r}", hint="Give 'v1' or 'v2'.")
        self.version, self.framework, self.boxed_first = version, framework, boxed_first

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare in every way."""
        if prediction is None or reference is None:
            return prediction is reference
        if self.boxed_first:
            prediction, reference = (boxed(str(each)) or str(each) for each in (prediction, reference))
        normal = cleanup_function("normalize_final_answer", self.framework)
        ways: list[tuple[Callable[[Any], Any], ...]] = [(self._rewritten, normal), (normal,)] if normal else []
        return any(_same_after(way, prediction, reference) for way in ways) or bool(prediction == reference)

    def _rewritten(self, text: str) -> str:
        strict = self.framework != "ais_bench"
        if self.version == "v1":
            return plain_formula(text, strict_slash=strict, strict_fraction=False)
        return _rewritten_v2(text, strict_slash=strict)


def _same_after(steps: tuple[Callable[[Any], Any], ...], left: Any, right: Any) -> bool:
    """Whether two answers are equal after one of these steps; a step that fails ends it."""
    try:
        for step in steps:
            left, right = step(left), step(right)
            if left == right:
                return True
    except Exception:  # noqa: BLE001 - whatever a rewriting stumbles over, the next way is tried
        return False
    return False


def _without(text: str, *parts: str) -> str:
    return replaced(text, *((part, "") for part in parts))


def _rewritten_v2(text: str, *, strict_slash: bool) -> str:
    text = str(text).strip().replace("\n", "").rstrip(".")
    text = replaced(_without(text, "\\!", "\\ "), *((("\\\\", "\\"),) * 2), ("tfrac", "frac"), ("dfrac", "frac"))
    text = _without(text, "\\left", "\\right")
    bare = re.sub(r"\\text{.*?}$", "", text).strip()
    text = bare or text
    text = _without(text, "^{\\circ}", "^\\circ", "\\$", "$", "\\text", "x\\in", "\\%", "%")
    text = replaced(_without(replaced(text, *LEADING_ZERO), "\\cdot"), ("infinity", "\\infty"))
    text = text if "\\infty" in text else text.replace("inf", "\\infty")
    text = _without(text.replace("+\\inity", "\\infty"), "and", "\\mathbf")
    text = re.sub(r"\\mbox{.*?}", "", text)
    text = text.replace("j", "i") if "i" not in text else text
    text = re.sub(r"(\d)\.0+$", r"\1", re.sub(r"(\d)\.0+(\D)", r"\1\2", text))
    text = value_alone(text)
    if not text:
        return text
    text = re.sub(r"\\sqrt(\w+)", r"\\sqrt{\1}", text).replace(" ", "")
    return slash_as_fraction(braced_fractions(text), strict=strict_slash)


class VerifiedMath(SameText):
    """Share of replies whose boxed LaTeX has the value of the reference, by the package math-verify.

    A reference that cannot be read makes no reply right. ``bare_first``: it is read as it stands, and as LaTeX if that
    gives nothing.
    """

    def __init__(self, *, bare_first: bool = False) -> None:
        self.bare_first = bare_first
        require("MATHVerifyEvaluator", "math-verify")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare values, in a process that can be killed. A reply for which that fails is a failed sample."""
        latex = f"${reference}$"
        references = [str(reference), latex] if self.bare_first else [latex]
        result = SAME_VALUE(str(prediction), references)
        if not isinstance(result, (TooSlow, Refused)):
            return bool(result)
        message = f"the formula {str(prediction)[-80:]!r} cannot be compared with {references[0]!r:.80}: {result}"
        raise AskFailed(Failed("formula", message))


_OF_AIS_BENCH = {
    "icl_evaluator": "ais_bench.benchmark.openicl.icl_evaluator.MATHEvaluator",
    "datasets": "ais_bench.benchmark.datasets.MATHEvaluator",
}


def _math(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:
    two = name.framework == "ais_bench" and name.last == "MATHEvaluator"
    if two and version_of(name, scope, _OF_AIS_BENCH) == "icl_evaluator":
        metric: SameText = VerifiedMath(bare_first=True)
    else:
        metric = SameMath(options.get("version", "v1"), name.framework, boxed_first=not name.framework)
    metric.name = "accuracy" if name.framework else metric.name
    return metric


def _verified(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    metric = VerifiedMath()
    metric.name = "accuracy" if name.framework else metric.name
    return metric


# ---- agents ----
# kshot gives a model no tools: it is asked once (see AgentInferencer). So no reply has a step with an action; the
# share of those is 0, and that of programs that ran (code_acc) does not exist.

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


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("MATHEvaluator", "MathEvaluator", "AIMEEvaluator"), _math),
    "MATHVerifyEvaluator": _verified,
    "MATHAgentEvaluator": lambda name, options, _: AgentAnswers(str(options.get("version", "v1")), name.framework),
    "Gsm8kAgentEvaluator": lambda *_: AgentAnswers(),
}

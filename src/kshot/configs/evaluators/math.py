"""Evaluators of mathematical answers: by rewriting them as text, or by the package math-verify."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kshot.cleanups.config_names import cleanup_function
from kshot.cleanups.formulas import boxed
from kshot.configs.evaluators.basic import SameText
from kshot.configs.evaluators.factories import Factory
from kshot.configs.math_process import MATH_PROCESS
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.extras import require
from kshot.metrics import Metric

_UNITS = "\\text{ "
"""What stands before a unit after a number."""
_NAME_LENGTH = 2
"""``x=5`` and ``x =5`` are 5; a longer name before the sign is part of the answer."""


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
        if self.version == "v1":
            return _rewritten_v1(text, strict_slash=self.framework != "ais_bench")
        return _rewritten_v2(text, strict_slash=self.framework != "ais_bench")


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


def _replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _without(text: str, *parts: str) -> str:
    return _replaced(text, *((part, "") for part in parts))


_FRACTIONS = (("tfrac", "frac"), ("dfrac", "frac"))
_LEADING_ZERO = ((" .", " 0."), ("{.", "{0."))


def _rewritten_v1(text: str, *, strict_slash: bool) -> str:
    text = _without(text, "\n", "\\!").replace("\\\\", "\\")
    text = _without(_replaced(text, *_FRACTIONS), "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
    if text.count(_UNITS) > 1:
        raise ValueError("two units")
    text = text.partition(_UNITS)[0]
    text = _value_alone(_replaced(text.replace("\\%", ""), *_LEADING_ZERO))
    if not text:
        return text
    text = _braced_fractions(_braced_roots(text).replace(" ", ""))
    return _slash_as_fraction("\\frac{1}{2}" if text == "0.5" else text, strict=strict_slash)


def _rewritten_v2(text: str, *, strict_slash: bool) -> str:
    text = str(text).strip().replace("\n", "").rstrip(".")
    text = _replaced(_without(text, "\\!", "\\ "), *((("\\\\", "\\"),) * 2), *_FRACTIONS)
    text = _without(text, "\\left", "\\right")
    bare = re.sub(r"\\text{.*?}$", "", text).strip()
    text = bare or text
    text = _without(text, "^{\\circ}", "^\\circ", "\\$", "$", "\\text", "x\\in", "\\%", "%")
    text = _replaced(_without(_replaced(text, *_LEADING_ZERO), "\\cdot"), ("infinity", "\\infty"))
    text = text if "\\infty" in text else text.replace("inf", "\\infty")
    text = _without(text.replace("+\\inity", "\\infty"), "and", "\\mathbf")
    text = re.sub(r"\\mbox{.*?}", "", text)
    text = text.replace("j", "i") if "i" not in text else text
    text = re.sub(r"(\d)\.0+$", r"\1", re.sub(r"(\d)\.0+(\D)", r"\1\2", text))
    text = _value_alone(text)
    if not text:
        return text
    text = re.sub(r"\\sqrt(\w+)", r"\\sqrt{\1}", text).replace(" ", "")
    return _slash_as_fraction(_braced_fractions(text), strict=strict_slash)


def _value_alone(text: str) -> str:
    """Write ``.5`` as 0.5, and ``x=5`` as 5."""
    text = f"0{text}" if text.startswith(".") else text
    before, _, after = text.partition("=")
    return after if text.count("=") == 1 and len(before) <= _NAME_LENGTH else text


def _braced_roots(text: str) -> str:
    r"""Write ``\sqrt3`` as ``\sqrt{3}``; a root of nothing is an error."""
    first, *rest = text.split("\\sqrt")
    return first + "".join(f"\\sqrt{part}" if part[0] == "{" else f"\\sqrt{{{part[0]}}}{part[1:]}" for part in rest)


def _braced_fractions(text: str) -> str:
    r"""Write ``\frac12`` as ``\frac{1}{2}``; a text with half a fraction stays as it is."""
    first, *rest = text.split("\\frac")
    if any(len(part) < 2 and part != "{" for part in rest):  # noqa: PLR2004 - above and below
        return text
    return first + "".join(f"\\frac{_braced(part)}" for part in rest)


def _braced(part: str) -> str:
    if part[0] == "{":
        return part
    above, below, rest = part[0], part[1], part[2:]
    return f"{{{above}}}{below if below == '{' else f'{{{below}}}'}{rest}"


def _slash_as_fraction(text: str, *, strict: bool) -> str:
    r"""Write ``1/2`` as ``\frac{1}{2}``; a slash between other things is an error where it is ``strict``."""
    parts = text.split("/")
    if len(parts) != 2:  # noqa: PLR2004 - one slash
        return text
    try:
        above, below = int(parts[0]), int(parts[1])
    except ValueError:
        if strict:
            raise
        return text
    return f"\\frac{{{above}}}{{{below}}}" if text == f"{above}/{below}" else text


class VerifiedMath(SameText):
    """Share of replies whose boxed LaTeX has the value of the reference, by the package math-verify.

    A reference that cannot be read makes no reply right. ``bare_first``: it is read as it stands, and as LaTeX if that
    gives nothing.
    """

    def __init__(self, *, bare_first: bool = False) -> None:
        self.bare_first = bare_first
        require("MATHVerifyEvaluator", "math-verify")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare values, in a process that can be killed."""
        latex = f"${reference}$"
        return MATH_PROCESS.same(str(prediction), (str(reference), latex) if self.bare_first else (latex,))


def _math(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    if name.framework == "ais_bench" and "icl_evaluator" in name.whole:
        metric: SameText = VerifiedMath(bare_first=True)
    else:
        metric = SameMath(options.get("version", "v1"), name.framework, boxed_first=not name.framework)
    metric.name = "accuracy" if name.framework else metric.name
    return metric


def _verified(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    metric = VerifiedMath()
    metric.name = "accuracy" if name.framework else metric.name
    return metric


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("MATHEvaluator", "MathEvaluator", "AIMEEvaluator"), _math),
    "MATHVerifyEvaluator": _verified,
}

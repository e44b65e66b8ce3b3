"""Evaluators of mathematics and science: SMolInstruct, LiveMathBench, DAPO, MuSR, ARC Prize, LLM4Mat and others.

Formulas are compared by rewriting them as text, or by the package math-verify.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kshot.cleanups.config_names import cleanup_function
from kshot.cleanups.formulas import (
    LEADING_ZERO,
    boxed,
    braced_fractions,
    dapo_math_postprocess,
    math_postprocess_v2,
    plain_formula,
    replaced,
    slash_as_fraction,
    value_alone,
)
from kshot.configs.evaluators.basic import same_number
from kshot.configs.evaluators.factories import Factory, compared, plain, version_of
from kshot.configs.evaluators.scores import (
    RIGHT,
    WRONG,
    CorpusMetric,
    Points,
    RightByTurn,
    RightOrWrong,
    ScoredPair,
    SeesRows,
    equal,
    gold_of,
    text_of,
)
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.extras import require
from kshot.core.records import AskFailed, Failed, Sample
from kshot.metrics import Metric
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

SAME_VALUE = ConfinedFunction("kshot.configs._math_worker:same", seconds=10, work="compares formulas")
"""Whether the boxed formula of a reply has the value of a reference: formulas that a model wrote may take forever."""


def same_math(
    prediction: Any, reference: Any, *, version: str = "v1", framework: str = "", boxed_first: bool = False
) -> bool:
    """Whether a prediction is the reference once both are rewritten, as text.

    The rewritten texts are compared, then these without words and wrappings, then the original ones without them, then
    the original ones. A rewriting that fails is left out. ``boxed_first``: of a reply, what its last box holds.
    """
    if prediction is None or reference is None:
        return prediction is reference
    if boxed_first:
        prediction, reference = (boxed(str(each)) or str(each) for each in (prediction, reference))
    strict = framework != "ais_bench"

    def rewritten(text: str) -> str:
        if version == "v1":
            return plain_formula(text, strict_slash=strict, strict_fraction=False)
        return _rewritten_v2(text, strict_slash=strict)

    normal = cleanup_function("normalize_final_answer", framework)
    ways: list[tuple[Callable[[Any], Any], ...]] = [(rewritten, normal), (normal,)] if normal else []
    return any(_same_after(way, prediction, reference) for way in ways) or bool(prediction == reference)


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


def same_value(prediction: Any, reference: Any, *, bare_first: bool = False) -> bool:
    """Whether the boxed LaTeX of a reply has the value of the reference, by the package math-verify.

    A reference that cannot be read makes no reply right. ``bare_first``: it is read as it stands, and as LaTeX if that
    gives nothing. A reply for which the comparison fails, in a process that can be killed, is a failed sample.
    """
    latex = f"${reference}$"
    references = [str(reference), latex] if bare_first else [latex]
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
        return _verified(name, bare_first=True)
    version = _known_version(options.get("version", "v1"))
    framework, boxed_first = name.framework, not name.framework
    return _by_turn(name, partial(same_math, version=version, framework=framework, boxed_first=boxed_first))


def _known_version(version: Any) -> str:
    if version not in ("v1", "v2"):
        raise DataError(f"MATHEvaluator has version={version!r}", hint="Give 'v1' or 'v2'.")
    return str(version)


def _verified(name: Name, *, bare_first: bool) -> Metric:
    require("MATHVerifyEvaluator", "math-verify")
    return _by_turn(name, partial(same_value, bare_first=bare_first))


def _by_turn(name: Name, same: Callable[[Any, Any], bool]) -> Metric:
    return RightByTurn("accuracy" if name.framework else "Accuracy", same)


# ---- agents ----
# kshot gives a model no tools: it is asked once (see AgentInferencer). So no reply has a step with an action; the
# share of those is 0, and that of programs that ran (code_acc) does not exist.


def agent_points(same: Callable[[Any, Any], bool]) -> Points:
    """Return the share of right final answers, and of replies with an action."""

    def rate(prediction: Any, reference: Any) -> Mapping[str, Any]:
        points = RIGHT if same(prediction, reference) else WRONG
        return {"follow_acc": points, "reasoning_acc": points, "action_pct": WRONG}

    return Points("follow_acc", rate, more=("reasoning_acc", "action_pct"))


def _math_agent(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    version = _known_version(str(options.get("version", "v1")))
    return agent_points(partial(same_math, version=version, framework=name.framework))


# ---- science and puzzles ----

_TAGGED = re.compile(r"<(MOLFORMULA|SMILES|IUPAC)>(.*?)</\1>", re.DOTALL)
_REACTANTS = (
    *("reactants and reagents are:\n```\n", "reactants and reagents:\n```\n", "Reactants and Reagents:**\n```\n"),
    *("Reactants and Reagents SMILES:**\n```\n", "Reactants and Reagents:**  \n`"),
)
_TAGGED_NUMBER = re.compile(r"(?:<NUMBER>\s*|\\boxed\{)\s*(-?\d*\.?\d+)\s*(?:</NUMBER>|\})")
_FORMULA = re.compile(r"(?:[A-Za-z]\d*)+(?:[+-]\d*)*")
_ATOM = re.compile(r"([A-Z][a-z]?)(\d+)?")
_NEAR_NUMBER = 1e-3
_CHARGE = re.compile(r"([+-])(\d*)")


def substance(text: str) -> str:
    """Return what the last tag of a text holds, or what stands after a usual lead, or the text."""
    tagged = _TAGGED.findall(text)
    if tagged:
        return str(tagged[-1][1].strip())
    lead = next((each for each in _REACTANTS if each in text), None)
    return text.rpartition(lead)[2].split("\n")[0] if lead else text


def atoms_in(formula: str) -> Counter[str]:
    """Count the atoms of a molecule, and its charge; what is no formula is an error. Signs after the atoms are left."""
    if not _FORMULA.fullmatch(formula.removesuffix("\n")):
        raise ValueError(f"{formula!r:.40} is no formula of a molecule")
    found: Counter[str] = Counter()
    rest = formula
    while atom := _ATOM.match(rest):
        found[atom[1]] += int(atom[2] or 1)
        rest = rest[atom.end() :]
    if charge := _CHARGE.search(formula):
        found[charge[1]] = int(charge[2] or 1)
    return found


def substances(compared: Callable[[str, str], tuple[bool, bool]]) -> Points:
    """Return a share of right answers, and one of answers that can be read; ``compared`` says both of two texts."""

    def rate(prediction: Any, reference: Any) -> Mapping[str, Any]:
        found, wanted = substance(text_of(prediction, "SMolInstruct")), substance(str(reference))
        right, valid = compared(found, wanted)
        return {"score": RIGHT if right else WRONG, "valid_score": RIGHT if valid else WRONG}

    return Points("score", rate, more=("valid_score",))


def same_substance(found: str, wanted: str) -> tuple[bool, bool]:
    """Compare two texts, white space aside; every reply has one (SMolInstruct)."""
    return bool(found) and found.strip() == wanted.strip(), True


def same_atoms(found: str, wanted: str) -> tuple[bool, bool]:
    """Count the atoms of both; an answer without any is not right, and not counted as unreadable (SMolInstruct)."""
    if not found:
        return False, True
    try:
        atoms = atoms_in(found)
    except ValueError:
        return False, False
    try:
        return atoms == atoms_in(wanted), True
    except ValueError as exc:
        raise DataError(f"NCElementMatchEvaluator cannot read the reference: {exc}") from None


def distance_of_numbers(prediction: Any, reference: Any) -> float:
    """Return the distance between the first tagged or boxed number of an answer, or 0, and that of the reference."""
    wanted = _TAGGED_NUMBER.findall(str(reference))
    if not wanted:
        raise DataError(f"RMSEEvaluator finds no number in the reference {reference!r:.80}")
    found = _TAGGED_NUMBER.findall(text_of(prediction, "RMSEEvaluator"))
    return abs((float(found[0]) if found else 0.0) - float(wanted[0]))


def same_dapo(prediction: Any, reference: Any) -> bool:
    """Whether an answer equals the reference, which is written as the clean-up of replies writes it (DAPO)."""
    return bool(prediction == dapo_math_postprocess(f"Answer: {reference}"))


def same_intern(prediction: Any, reference: Any) -> bool:
    """Whether an answer is the reference, once both are written in one way, also bases and thousands."""
    if prediction is None or reference is None:
        return False
    try:
        return _with_bases(prediction) == _with_bases(reference)
    except (AttributeError, IndexError, ValueError):  # it cannot be written in this way
        return bool(prediction == reference)


def _with_bases(text: str) -> str:
    """Write ``101_{2}`` as ``101_2``, and a number without commas."""
    first, *rest = plain_formula(text, strict_slash=True).strip().split("_")
    if rest:
        rest[0] = rest[0].replace("{", "").replace("}", "")
    written = "_".join([first, *rest])
    return written if " " in written.strip() or "(" in written else written.replace(",", "")


def near_number(prediction: Any, reference: Any) -> bool:
    """Whether an answer is within a thousandth of the reference (Math401)."""
    try:
        wanted = float(reference)
    except (TypeError, ValueError):
        raise DataError(f"Math401Evaluator wants a number as the reference, not {reference!r:.80}") from None
    try:
        return abs(float(prediction) - wanted) < _NEAR_NUMBER
    except (TypeError, ValueError):
        return False


def number_after_answer(prediction: Any, reference: Any) -> bool:
    """Whether a reply has the right number first in the first line with ``ANSWER:``, after it (MuSR)."""
    lines = [line for line in text_of(prediction, "MusrEvaluator").split("\n") if "ANSWER:" in line]
    found = re.search(r"\d+", lines[0].rpartition("ANSWER:")[2]) if lines else None
    return found is not None and bool(int(found[0]) == reference)


class SameGrid(RightOrWrong):
    """Share of replies whose first grid of numbers is the reference, as a fraction (ARC Prize)."""

    bounds = (0.0, 1.0)

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 1 for the right grid."""
        wanted = [list(row) for row in reference]
        return float(grid_in(text_of(prediction, "ARCPrizeEvaluator")) == wanted and len({*map(len, wanted)}) == 1)


def grid_in(reply: str) -> list[list[int]]:
    """Return the first list of lists of whole numbers; a grid of one 0 where there is none."""
    start = reply.find("[[")
    end = reply.find("]]", start) + 2
    try:
        grid = ast.literal_eval(reply[start:end]) if start >= 0 and end > 1 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        grid = None
    is_grid = isinstance(grid, list) and all(
        isinstance(row, list) and all(isinstance(value, int) for value in row) for row in grid
    )
    return grid if is_grid and grid is not None else [[0]]


def _live_math(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric | None:  # noqa: ARG001 - as every factory
    """Compare as mathematics; a config that names a judge's server wants another rule."""
    if (options.get("model_name") and options.get("url")) or options.get("use_extract_model"):
        return None

    def same(prediction: Any, reference: Any) -> bool:
        answer = math_postprocess_v2(text_of(prediction, "LiveMathBenchEvaluator"))
        return same_math(answer, reference, version="v2", framework=name.framework)

    return RightByTurn("accuracy", same)


# ---- materials ----

_YES, _NO = ("Direct", "True", True), ("Indirect", "False", False)


class MaterialProperties(SeesRows, CorpusMetric):
    """Errors of numbers, or the area under the curve of labels, as the first reference is (LLM4Mat)."""

    name = "MAE"
    names: tuple[str, ...] = ("MAE", "total", "filtered", "RMSE", "MAD", "MAD/MAE")
    higher_is_better = False

    def see(self, samples: Iterable[Sample]) -> None:
        """Look whether the references are numbers."""
        first = next((gold_of(sample) for sample in samples), 0.0)
        if not _is_number(first):
            self.name, self.names, self.higher_is_better = "AUC", ("AUC",), True

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Compare what can be compared."""
        if self.name == "AUC":
            return _area([(gold, said) for said, gold, _ in pairs])
        known = [pair for said, gold, _ in pairs if (pair := _numbers(gold, said))]
        counted = {"total": float(len(pairs)), "filtered": float(len(known))}
        if not known:
            return counted
        errors = [abs(gold - said) for gold, said in known]
        middle = math.fsum(gold for gold, _ in known) / len(known)
        mad, mae = (math.fsum(each) / len(known) for each in ([abs(gold - middle) for gold, _ in known], errors))
        rmse = math.sqrt(math.fsum(each * each for each in errors) / len(known))
        return {**counted, "MAE": mae, "RMSE": rmse, "MAD": mad} | ({"MAD/MAE": mad / mae} if mae else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(gold: Any, said: Any) -> tuple[float, float] | None:
    try:
        pair = float(gold), float(said)
    except (TypeError, ValueError):
        return None
    return pair if all(map(math.isfinite, pair)) else None


def _area(pairs: Sequence[tuple[Any, Any]]) -> Mapping[str, float]:
    """Return the mean of the shares of right answers to both labels; nothing where one label is missing."""
    known = [(gold in _YES, said in _YES) for gold, said in pairs if gold in (*_YES, *_NO) and said in (*_YES, *_NO)]
    rights = [[gold == said for gold, said in known if gold is label] for label in (True, False)]
    return {"AUC": sum(sum(each) / len(each) for each in rights) / 2} if all(rights) else {}


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("MATHEvaluator", "MathEvaluator", "AIMEEvaluator"), _math),
    "MATHVerifyEvaluator": lambda name, *_: _verified(name, bare_first=False),
    "MATHAgentEvaluator": _math_agent,
    "Gsm8kAgentEvaluator": plain(agent_points, same_number),
    "NCExactMatchEvaluator": plain(substances, same_substance),
    "NCElementMatchEvaluator": plain(substances, same_atoms),
    "RMSEEvaluator": plain(partial(Points, "score", distance_of_numbers, None, higher_is_better=False)),
    "LiveMathBenchEvaluator": _live_math,
    "DAPOMathEvaluator": compared(same_dapo),
    "DAPOMathEvaluatorV2": compared(equal),
    "MATHInternEvaluator": compared(same_intern),
    "Math401Evaluator": compared(near_number),
    "MusrEvaluator": compared(number_after_answer),
    "ARCPrizeEvaluator": plain(SameGrid, "accuracy"),
    "LLM4Mat_Evaluator": plain(MaterialProperties),
}

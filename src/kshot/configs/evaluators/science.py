"""Evaluators of science and puzzles: SMolInstruct, LiveMathBench, DAPO, MuSR, ARC Prize, LLM4Mat."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.cleanups.formulas import dapo_math_postprocess, math_postprocess_v2
from kshot.cleanups.math_text import plain_formula
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.math import SameMath
from kshot.configs.evaluators.scores import (
    RIGHT,
    WRONG,
    CorpusMetric,
    Points,
    RightOrWrong,
    ScoredPair,
    SeesRows,
    gold_of,
    text_of,
)
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Metric

_TAGGED = re.compile(r"<(MOLFORMULA|SMILES|IUPAC)>(.*?)</\1>", re.DOTALL)
_REACTANTS = (
    *("reactants and reagents are:\n```\n", "reactants and reagents:\n```\n", "Reactants and Reagents:**\n```\n"),
    *("Reactants and Reagents SMILES:**\n```\n", "Reactants and Reagents:**  \n`"),
)
_NUMBER = re.compile(r"(?:<NUMBER>\s*|\\boxed\{)\s*(-?\d*\.?\d+)\s*(?:</NUMBER>|\})")
_FORMULA = re.compile(r"(?:[A-Za-z]\d*)+(?:[+-]\d*)*")
_ATOM = re.compile(r"([A-Z][a-z]?)(\d+)?")
_NEAR = 1e-3
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


class _Substances(Points):
    """A share of right answers, and one of answers that can be read."""

    names = ("score", "valid_score")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Compare what is tagged."""
        found, wanted = substance(text_of(prediction, "SMolInstruct")), substance(str(reference))
        right, valid = self.compared(found, wanted)
        return {"score": RIGHT if right else WRONG, "valid_score": RIGHT if valid else WRONG}

    def compared(self, found: str, wanted: str) -> tuple[bool, bool]:
        """Return whether an answer is right, and whether it can be read."""
        raise NotImplementedError


class SameSubstance(_Substances):
    """Share of answers that are the reference, white space aside (SMolInstruct)."""

    def compared(self, found: str, wanted: str) -> tuple[bool, bool]:
        """Compare the texts; every reply has one."""
        return bool(found) and found.strip() == wanted.strip(), True


class SameAtoms(_Substances):
    """Share of answers with the atoms of the reference (SMolInstruct)."""

    def compared(self, found: str, wanted: str) -> tuple[bool, bool]:
        """Count the atoms of both; an answer without any is not right, and not counted as unreadable."""
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


class DistanceOfNumbers(Points):
    """The mean distance between the number in an answer, or 0, and that of the reference (SMolInstruct)."""

    bounds = None
    higher_is_better = False

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare the first numbers that are tagged or boxed."""
        wanted = _NUMBER.findall(str(reference))
        if not wanted:
            raise DataError(f"RMSEEvaluator finds no number in the reference {reference!r:.80}")
        found = _NUMBER.findall(text_of(prediction, "RMSEEvaluator"))
        return abs((float(found[0]) if found else 0.0) - float(wanted[0]))


class SameBoxed(SameMath):
    """Share of replies whose boxed answer is the reference (LiveMathBench without a judge)."""

    name = "accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Take the answer from the reply, and compare."""
        return super().same(math_postprocess_v2(text_of(prediction, "LiveMathBenchEvaluator")), reference)


class SameDapo(RightOrWrong):
    """Share of answers equal to the reference, which is written as the clean-up of replies writes it (DAPO)."""

    name = "accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the texts."""
        return bool(prediction == dapo_math_postprocess(f"Answer: {reference}"))


class SameIntern(RightOrWrong):
    """Share of answers that are the reference, once both are written in one way, also bases and thousands."""

    name = "accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare; no answer is never right."""
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


class NearNumber(RightOrWrong):
    """Share of answers within a thousandth of the reference (Math401)."""

    name = "accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare as numbers; an answer that is none is wrong."""
        try:
            wanted = float(reference)
        except (TypeError, ValueError):
            raise DataError(f"Math401Evaluator wants a number as the reference, not {reference!r:.80}") from None
        try:
            return abs(float(prediction) - wanted) < _NEAR
        except (TypeError, ValueError):
            return False


class NumberAfterAnswer(RightOrWrong):
    """Share of replies with the right number in the first line that has ``ANSWER:`` (MuSR)."""

    name = "accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the first number after it."""
        lines = [line for line in text_of(prediction, "MusrEvaluator").split("\n") if "ANSWER:" in line]
        found = re.search(r"\d+", lines[0].rpartition("ANSWER:")[2]) if lines else None
        return found is not None and bool(int(found[0]) == reference)


class SameGrid(RightOrWrong):
    """Share of replies whose first grid of numbers is the reference, as a fraction (ARC Prize)."""

    bounds = (0.0, 1.0)
    name = "accuracy"

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
    metric = SameBoxed("v2", name.framework)
    metric.name = "accuracy"
    return metric


# ---- materials ----

_YES, _NO = ("Direct", "True", True), ("Indirect", "False", False)


class MaterialProperties(SeesRows, CorpusMetric):
    """Errors of numbers, or the area under the curve of labels, as the first reference is (LLM4Mat)."""

    name = "MAE"
    higher_is_better = False

    def see(self, samples: Iterable[Sample]) -> None:
        """Look whether the references are numbers."""
        first = next((gold_of(sample) for sample in samples), 0.0)
        if not _is_number(first):
            self.name, self.higher_is_better = "AUC", True

    @property
    def names(self) -> tuple[str, ...]:
        """The figures of numbers, or that of labels."""
        return ("MAE", "total", "filtered", "RMSE", "MAD", "MAD/MAE") if self.name == "MAE" else ("AUC",)

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
    "NCExactMatchEvaluator": plain(SameSubstance),
    "NCElementMatchEvaluator": plain(SameAtoms),
    "RMSEEvaluator": plain(DistanceOfNumbers),
    "LiveMathBenchEvaluator": _live_math,
    "DAPOMathEvaluator": plain(SameDapo),
    "DAPOMathEvaluatorV2": lambda *_: RightOrWrong("accuracy"),
    "MATHInternEvaluator": plain(SameIntern),
    "Math401Evaluator": plain(NearNumber),
    "MusrEvaluator": plain(NumberAfterAnswer),
    "ARCPrizeEvaluator": plain(SameGrid),
    "LLM4Mat_Evaluator": plain(MaterialProperties),
}

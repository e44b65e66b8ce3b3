"""Evaluators of puzzles, proofs and questions: ZebraLogic, the game of 24, ProcessBench, SciKnowEval, kaoshi."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kshot.cleanups.formulas import last_box, normalize_final_answer
from kshot.cleanups.literals import NO_VALUE, literal
from kshot.configs.evaluators.exams import ExamLetters
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.options import column
from kshot.configs.evaluators.scores import RightOrWrong, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value
from kshot.metrics import Metric

# ---- ZebraLogic ----

_SAID = re.compile(r"[Tt]he (?:final )?answer is[:\s]+\(?([A-Ja-j])")
_BOLD = re.compile(r"\*\*([A-Ja-j])\*\*")
_ALONE = re.compile(r"\s*\(?([A-Ja-j])\)?\s*")
_IN_BRACKETS = re.compile(r"\(([A-Ja-j])\)")
_RULER = re.compile(r"\|[-| :]+\|")
_HEADS = ("house", "houses", "home", "position")


def puzzle_letter(reply: str) -> str:
    """Return the letter that a reply says, prints bold, has alone in a line, or puts last in brackets."""
    if found := _SAID.search(reply) or _BOLD.search(reply):
        return found[1].upper()
    for line in reversed(reply.strip().split("\n")):
        if alone := _ALONE.fullmatch(line.strip()):
            return alone[1].upper()
    letters = _IN_BRACKETS.findall(reply)
    return letters[-1].upper() if letters else ""


class PuzzleLetter(RightOrWrong):
    """Share of replies with the right letter (ZebraLogic)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the letters."""
        return puzzle_letter(str(prediction)) == str(reference).upper()


class PuzzleGrid(Tally):
    """Share of right cells of a table, and of tables that are all right (ZebraLogic)."""

    name = "score"

    @property
    def names(self) -> tuple[str, ...]:
        """The shares; the first two are one."""
        return ("score", "cell_accuracy", "perfect_accuracy")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Compare cell by cell; in a reply without such a table, cells may stand anywhere."""
        gold, reply = _grid_of(gold_of(sample)), str(answer)
        if gold is None:
            return (0.0, 0.0, 0.0, 1.0)
        found = _grid_in(reply)
        if len(found) == len(gold) + 1 and _cell(found[0][0]) in _HEADS:
            found = found[1:]
        if len(found) == len(gold):
            pairs = [pair for row, said in zip(gold, found, strict=True) for pair in zip(row, said, strict=False)]
            right = sum(_cell(one) == _cell(other) for one, other in pairs)
        else:
            right = sum(bool(re.search(re.escape(str(each)), reply, re.IGNORECASE)) for row in gold for each in row)
        size = sum(map(len, gold))
        return (float(right), float(size), float(right == size), 1.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the shares."""
        cells, perfect = 100 * ratio(sums[0], sums[1]), 100 * ratio(sums[2], sums[3])
        return {"score": cells, "cell_accuracy": cells, "perfect_accuracy": perfect}


def _cell(value: Any) -> str:
    return str(value).strip().lower()


def _grid_of(gold: Any) -> list[list[Any]] | None:
    """Return the rows of a reference: a dict, or one that is written as Python or JSON."""
    for read in (literal, json.loads):
        if isinstance(gold, Mapping):
            break
        try:
            gold = read(gold)
        except NO_VALUE:
            continue
    return gold.get("rows") if isinstance(gold, Mapping) else None


def _grid_in(reply: str) -> list[list[str]]:
    """Return the rows of the tables in a reply; one row is no table."""
    lines = [line.strip() for line in reply.split("\n")]
    rows = [line for line in lines if line.startswith("|") and not _RULER.fullmatch(line)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows] if len(rows) > 1 else []


# ---- the game of 24 ----

_WANTED = 24
_MOST = 10**6
"""How large a number of the game may grow."""


def exact(text: str) -> Fraction:
    """Return the value of whole numbers with ``+ - * / **``, without rounding."""
    return _exact(ast.parse(text.strip().replace("^", "**"), mode="eval").body)


def _exact(node: ast.AST) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -_exact(node.operand) if isinstance(node.op, ast.USub) else _exact(node.operand)
    if not isinstance(node, ast.BinOp):
        raise ValueError(f"{type(node).__name__} is no arithmetic")  # noqa: TRY004 - as for a wrong sign
    left, right = _exact(node.left), _exact(node.right)
    if isinstance(node.op, ast.Pow) and right.denominator == 1 and abs(right) <= _WANTED and abs(left) <= _MOST:
        return left ** int(right)
    for kind, operation in ((ast.Add, Fraction.__add__), (ast.Sub, Fraction.__sub__), (ast.Mult, Fraction.__mul__)):
        if isinstance(node.op, kind):
            return operation(left, right)
    if isinstance(node.op, ast.Div):
        return left / right
    raise ValueError(f"{type(node.op).__name__} is no arithmetic of the game")


class MakesTwentyFour(RightOrWrong):
    """Share of sums that use the numbers of the reference, each once, and come to 24. A fraction of 1."""

    bounds = (0.0, 1.0)

    def __init__(self) -> None:
        super().__init__("acc score")

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 1 for such a sum."""
        return float(self.same(prediction, reference))

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compute it exactly."""
        text = text_of(prediction, "Game24Evaluator")
        if sorted(re.findall(r"\d+", text)) != sorted(re.findall(r"\d+", str(reference))):
            return False
        try:
            return exact(text) == _WANTED
        except NO_VALUE:
            return False


# ---- ProcessBench, SciKnowEval, kaoshi ----


class FirstWrongStep(Tally):
    """Share of proofs whose first wrong step is found, of right proofs (-1), and the mean of both (ProcessBench)."""

    name = "f1"

    @property
    def names(self) -> tuple[str, ...]:
        """The mean, then both shares."""
        return ("f1", "error_acc", "correct_acc")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Compare with what is in the last box."""
        boxes = re.findall(r"boxed\{([^}]*)\}", text_of(answer, "ProcessBenchEvaluator"))
        said = _whole(boxes[-1].replace("{", "").strip()) if boxes else None
        gold = _whole(gold_of(sample))
        right = float(said == gold)
        return (0.0, 0.0, right, 1.0) if gold == -1 else (right, 1.0, 0.0, 0.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the shares and their harmonic mean; proofs of one kind alone have none."""
        wrong = {"error_acc": 100 * sums[0] / sums[1]} if sums[1] else {}
        correct = {"correct_acc": 100 * sums[2] / sums[3]} if sums[3] else {}
        both = [*wrong.values(), *correct.values()]
        f1 = {"f1": ratio(2 * both[0] * both[1], sum(both))} if len(both) > 1 else {}
        return {**wrong, **correct, **f1}


def _whole(value: Any) -> Any:
    try:
        return int(value)
    except ValueError:
        return value


class FirstLabel(RightOrWrong):
    """Share of replies whose first label of a choice that stands alone is the reference (SciKnowEval)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Look for the labels of the row."""
        choices = column(sample, "choices", "SciKnowEval")
        if not isinstance(choices, Mapping) or "label" not in choices:
            raise DataError(f"SciKnowEval wants choices with label, not {choices!r:.80}")
        labels = "|".join(re.escape(str(each)) for each in choices["label"])
        found = re.search(rf"\b({labels})\b", text_of(answer, "SciKnowEvalEvaluator"))
        return {self.name: self.rate(found[1] if found else None, gold_of(sample))}


class MarkedText(RightOrWrong):
    """Share of replies whose text between ``【答案】`` and a space is the reference (exams of kaoshi)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the first such text."""
        found = re.search("【答案】(.*?) ", text_of(prediction, "KaoshiEvaluator"))
        return found is not None and bool(found[1] == reference)


class SameBox(RightOrWrong):
    """Share of replies whose box, or text, is that of the reference in one way of writing (ELBench)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare; an empty reference is never met."""
        boxes = [(last_box(text), text) for text in (str(prediction), str(reference))]
        said, gold = (normalize_final_answer(text if box is None else box) for box, text in boxes)
        return said == gold != ""


def _kaoshi(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    kind = str(options.get("question_type"))
    return MarkedText() if kind in ("cloze", "judgment") else ExamLetters(kind)


EVALUATORS: dict[str, Factory] = {
    "ZebraLogicMCEvaluator": plain(PuzzleLetter),
    "ZebraLogicGridEvaluator": plain(PuzzleGrid),
    "Game24Evaluator": plain(MakesTwentyFour),
    "ProcessBenchEvaluator": plain(FirstWrongStep),
    "SciKnowEvalEvaluator": plain(FirstLabel),
    "KaoshiEvaluator": _kaoshi,
    "ELBenchMathEvaluator": plain(SameBox),
}

"""Evaluators of single datasets with a plain rule: BBEH, CrowS-Pairs, QuALITY, OpenFinData, TyDi QA, S3Eval."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.cleanups.first_option import first_option_postprocess
from kshot.cleanups.patterns import general_postprocess
from kshot.cleanups.phrases import bbeh_freeform_postprocess, bbeh_mcq_postprocess
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, RightOrWrong, Share, text_of, texts_of
from kshot.configs.evaluators.words import overlap, plain_words
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value, reference
from kshot.metrics import Metric
from kshot.metrics.aggregates import share

_COMMA = re.compile(r"\s*,\s*")


class HardAnswer(RightOrWrong):
    """Share of replies whose stated answer is the reference, brackets and spaces at commas aside (BBEH)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare in small letters."""
        answer = bbeh_freeform_postprocess(text_of(prediction, "BBEHEvaluator"))
        wanted = str(reference).lower()
        if answer in (wanted, wanted.strip("'\"()[]")):
            return True
        return "," in wanted and _COMMA.sub(",", answer) == _COMMA.sub(",", wanted)


class HardLetter(RightOrWrong):
    """Share of replies whose stated letter is the reference, brackets aside (BBEH)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare in small letters."""
        return bbeh_mcq_postprocess(text_of(prediction, "BBEHEvaluator_mcq")) == str(reference).lower().strip("()")


class ToFourDigits(Share):
    """Shares that are rounded to four digits before they become percentages."""

    @property
    def aggregates(self) -> Mapping[str, str]:
        """Only the metric rounds in this way."""
        return dict.fromkeys(self.names, "own")

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - one rule for all names
        """Return the share of the summed points."""
        found = share(values)
        return None if found is None else round(found / 100, 4) * 100


class ValidLabels(ToFourDigits):
    """Share of right labels among all, among those that are not ``invalid``, and how many are not (CrowS-Pairs)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The three shares."""
        return ("accuracy", "valid_accuracy", "valid_frac")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Compare the labels."""
        right, valid = float(prediction == reference), float(prediction != "invalid")
        return {"accuracy": (right, 1.0), "valid_accuracy": (right * valid, valid), "valid_frac": (valid, 1.0)}


class AllKeywords(ToFourDigits):
    """Share of replies with all keywords of the reference, which ``、`` divides (OpenFinData)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Look for each keyword."""
        text = text_of(prediction, "OpenFinDataKWEvaluator")
        return float(all(word in text for word in str(reference).split("、"))), 1.0


class ByDifficulty(Share):
    """Share of right answers to easy and hard questions, and to all (QuALITY).

    Right answers to hard questions are divided by the number of easy ones, as the home does.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The three shares."""
        return ("easy_acc", "hard_acc", "all_acc")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Look the difficulty up in the row."""
        if "difficult" not in sample.fields:
            raise DataError("the rows have no column 'difficult'", hint="QuALITY has 0 for easy questions there.")
        right = float(answer == (None if sample.target is None else reference(sample.target)))
        easy = float(sample.fields["difficult"] == 0)
        return {"easy_acc": (right * easy, easy), "hard_acc": (right * (1 - easy), easy), "all_acc": (right, 1.0)}


class FirstLine(Points):
    """Exact match and word overlap of a reply's first line and the best reference (TyDi QA)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Both."""
        return ("exact_match", "f1")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Compare with every reference."""
        line = general_postprocess(text_of(prediction, "TydiQAEvaluator").split("\n")[0].lower())
        known = [general_postprocess(each) for each in texts_of(reference, "TydiQAEvaluator")]
        f1 = max(overlap(line.split(), each.split()) for each in known)
        return {"exact_match": RIGHT if line in known else WRONG, "f1": 100 * f1}


class TableAnswer(Points):
    """Overlap of a reply and the reference: rows of a table, items between commas, or words (S3Eval)."""

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare as the reference is written."""
        text, gold = text_of(prediction, "S3EvalEvaluator"), str(reference)
        if "|" in gold:
            return 100 * overlap(_table_rows(text), _table_rows(gold))
        if "," in gold:
            found, wanted = ({item.strip() for item in each.split(",")} for each in (text, gold))
            return 100 * overlap(list(found), list(wanted))
        try:
            return RIGHT if float(text) == float(gold) else WRONG
        except ValueError:
            return 100 * overlap(plain_words(text), plain_words(gold))


def _table_rows(text: str) -> list[str]:
    """Return the rows of a table in Markdown, without its head."""
    lines = [line for line in text.split("\n")[2:] if line.strip()]
    return ["|".join(cell.strip() for cell in line.split("|")[1:-1]) for line in lines]


class OptionOfRow(RightOrWrong):
    """Share of replies that choose the right one of the row's options (ProteinLMBench)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Read the letter by the rule of ``first_option_postprocess``."""
        if "options" not in sample.fields:
            raise DataError("the rows have no column 'options'", hint="ProteinLMBench has its options there.")
        letters = "".join(chr(ord("A") + number) for number in range(len(sample.fields["options"])))
        chosen = first_option_postprocess(text_of(answer, "ProteinLMBenchEvaluator"), letters)
        gold = None if sample.target is None else reference(sample.target)
        return {self.name: self.rate(chosen, gold)}


def _mastermath(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return RightOrWrong("accuracy")


EVALUATORS: dict[str, Factory] = {
    "BBEHEvaluator": plain(HardAnswer),
    "BBEHEvaluator_mcq": plain(HardLetter),
    "CrowspairsEvaluator": plain(ValidLabels),
    "OpenFinDataKWEvaluator": plain(AllKeywords),
    "QuALITYEvaluator": plain(ByDifficulty),
    "TydiQAEvaluator": plain(FirstLine),
    "S3EvalEvaluator": plain(TableAnswer),
    "ProteinLMBenchEvaluator": plain(OptionOfRow),
    "MastermathDatasetv1Evaluator": _mastermath,
}

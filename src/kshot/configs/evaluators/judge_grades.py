"""What a judge's replies come to where each grades an answer: right, wrong, not attempted.

The answer that these metrics score is the judge's reply. A reply without a grade is one that is not right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kshot.configs.evaluators.tallies import Counts, Tally, ratio, shares
from kshot.core.records import Sample
from kshot.metrics import Metric

Reading = Callable[..., Metric]
"""Makes the metric of a judge's replies from the options of a ``dict_postprocessor``."""

_GRADES = 3
"""Right, wrong, and all others."""


class Grades(Tally):
    """Figures of right, wrong and other grades; the grade is the first of its letters anywhere in the reply."""

    def __init__(self, right: str = "A", wrong: str = "B", others: str = "") -> None:
        self.right, self.wrong, self.others = right, wrong, others

    def counts(self, sample: Sample, answer: Any) -> Counts:  # noqa: ARG002 - others look at the row
        """Count the grade."""
        letters = "|".join(re.escape(each) for each in (self.right, self.wrong, *self.others))
        found = re.search(letters, str(answer))
        grade = found[0] if found else ""
        right, wrong = float(grade == self.right), float(grade == self.wrong and self.wrong != self.right)
        return (right, wrong, 1 - right - wrong)


class JudgedAccuracy(Grades):
    """Accuracy in all and of those that were attempted, their F, and how many there are of each grade."""

    def __init__(
        self, metric_name: str = "accuracy", true_tag: str = "A", false_tag: str = "B", *, with_f1: bool = True
    ) -> None:
        super().__init__(str(true_tag), str(false_tag))
        self.name = self.mean = str(metric_name)
        self.with_f1 = with_f1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        f1 = ("f1",) if self.with_f1 else ()
        counted = ("correct_count", "incorrect_count", "not_attempted_count")
        return (self.name, f"{self.name}_given_attempted", *f1, "attempted_ratio", *counted)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return shares in percent, F as a fraction, and the counts."""
        right, wrong, other = sums
        share, attempted, f1 = _shares(sums)
        return {
            self.name: 100 * share,
            f"{self.name}_given_attempted": 100 * attempted,
            "f1": f1,
            "attempted_ratio": 100 * ratio(right + wrong, right + wrong + other),
            "correct_count": right,
            "incorrect_count": wrong,
            "not_attempted_count": other,
        }


class ThreeGrades(Grades):
    """Figures of the grades A, B and C, not attempted, which is also the grade of a reply without any."""

    def __init__(self, *, with_accuracy: bool = False) -> None:
        super().__init__(others="C")
        self.with_accuracy = with_accuracy
        self.name = "accuracy" if with_accuracy else "accuracy_given_attempted"
        self.mean = "accuracy" if with_accuracy else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return (*(("accuracy",) if self.with_accuracy else ()), "accuracy_given_attempted", "f1")

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return shares in percent, and F as a fraction."""
        share, attempted, f1 = _shares(sums)
        return {"accuracy": 100 * share, "accuracy_given_attempted": 100 * attempted, "f1": f1}


class ChineseSimpleQa(Grades):
    """The shares of the grades A, B and C, and the F of two of them, as fractions."""

    name = mean = "correct"
    names = ("correct", "incorrect", "not_attempted", "given_attempted_accuracy", "F1")

    def __init__(self) -> None:
        super().__init__(others="C")

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return fractions."""
        share, attempted, f1 = _shares(sums)
        wrong, other = (ratio(each, sum(sums)) for each in sums[1:])
        values = (share, wrong, other, attempted, f1)
        return dict(zip(self.names, values, strict=True))


def _shares(sums: Counts) -> tuple[float, float, float]:
    """Return the share of right answers in all, that in those that were attempted, and the F of both."""
    share, attempted = ratio(sums[0], sum(sums)), ratio(sums[0], sums[0] + sums[1])
    return share, attempted, ratio(2 * share * attempted, share + attempted)


class GradesByColumn(Grades):
    """Accuracy in all and by columns of the rows, rounded to two digits; a reply without a grade is wrong.

    ``columns`` are combinations of columns; the name of a figure is the prefix and the values, with dashes between.
    """

    name = "accuracy"

    def __init__(self, prefix: str, *columns: tuple[str, ...]) -> None:
        super().__init__()
        self.prefix, self.columns = prefix, columns
        self._parts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def __repr__(self) -> str:
        """Show the settings alone: the parts are the rows'."""
        return f"{type(self).__name__}({self.prefix!r}, {self.columns!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Those of all rows, then one for each part."""
        return ("accuracy", "total_correct", "total_count", *self._parts)

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the parts that there are; of two with one name the later counts."""
        rows = [sample.fields for sample in samples]
        for columns in self.columns:
            for row in rows:
                values = tuple(str(row.get(column, "unknown")) for column in columns)
                self._parts["-".join((self.prefix, *values))] = (columns, values)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count right grades and rows, in all and in each part."""
        right = super().counts(sample, answer)[0]
        held = [
            float(tuple(str(sample.fields.get(column, "unknown")) for column in columns) == values)
            for columns, values in self._parts.values()
        ]
        return (right, 1.0, *(part * each for part in held for each in (right, 1.0)))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the share of each part."""
        found = {name: round(share, 2) for name, share in shares(("accuracy", *self._parts), sums).items()}
        return {**found, "total_correct": sums[0], "total_count": sums[1]}


class LongContextVerdicts(Tally):
    """Accuracy of replies with the word CORRECT and without INCORRECT, in all and by the rows' document category."""

    name = mean = "accuracy"

    def __init__(self) -> None:
        self._categories: dict[str, str] = {}

    def __repr__(self) -> str:
        """Show the class alone: the categories are the rows'."""
        return "LongContextVerdicts()"

    @property
    def names(self) -> tuple[str, ...]:
        """Those of all rows, then one for each category."""
        counted = ("correct_count", "incorrect_count", "unknown_count", "total")
        return ("accuracy", *counted, *dict.fromkeys(self._categories.values()))

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the categories that there are."""
        for sample in samples:
            category = _category(sample)
            self._categories[category] = "accuracy_" + re.sub(r"\W+", "_", category).strip("_")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count the verdict, and right ones and rows in each category."""
        said = str(answer).upper()
        wrong = bool(re.search(r"\bINCORRECT\b", said))
        right = not wrong and bool(re.search(r"\bCORRECT\b", said))
        held = [float(_category(sample) == each) for each in self._categories]
        verdict = (float(right), float(wrong), float(not right and not wrong))
        return (*verdict, *(part * each for part in held for each in (float(right), 1.0)))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return shares in percent, and the counts."""
        verdicts, parts = sums[:_GRADES], sums[_GRADES:]
        return {
            "accuracy": 100 * ratio(sums[0], sum(verdicts)),
            **dict(zip(("correct_count", "incorrect_count", "unknown_count"), verdicts, strict=True)),
            "total": sum(verdicts),
            **shares(self._categories.values(), parts),
        }


def _category(sample: Sample) -> str:
    return str(sample.fields.get("document_category", "unknown"))


READINGS: dict[str, Reading] = {
    "generic_llmjudge_postprocess": JudgedAccuracy,
    "generic_llmjudge_academic_postprocess": partial(JudgedAccuracy, with_f1=False),
    "livereasonbench_postprocess": ThreeGrades,
    "simpleqa_postprocess": partial(ThreeGrades, with_accuracy=True),
    **dict.fromkeys(("csimpleqa_postprocess", "csimpleqa"), ChineseSimpleQa),
    "aa_lcr_llmjudge_postprocess": LongContextVerdicts,
    "medmcqa_llmjudge_postprocess": partial(
        GradesByColumn, "medmcqa", ("subject_name",), ("topic_name",), ("choice_type",)
    ),
    "medbullets_llmjudge_postprocess": partial(GradesByColumn, "Medbullets", ("question_type",)),
    "MedXpertQA_llmjudge_postprocess": partial(
        GradesByColumn, "MedXpertQA", ("medical_task",), ("body_system",), ("question_type",)
    ),
    "supergpqa_llmjudge_postprocess": partial(
        GradesByColumn,
        "SuperGPQA",
        ("discipline",),
        ("discipline", "field"),
        ("discipline", "field", "subfield"),
    ),
}

"""What a judge's replies come to where each grades an answer (right, wrong, not attempted) or rates it.

The answer that these metrics score is the judge's reply. A reply without a grade is one that is not right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kshot.configs.evaluators.scores import (
    CorpusMetric,
    Counts,
    ScoredPair,
    SeesRows,
    Tally,
    gold_of,
    ratio,
    shares,
)
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Metric

# ---- grades ----

Reading = Callable[..., Metric]
"""Makes the metric of a judge's replies from the options of a ``dict_postprocessor``."""


def grade_counts(right: str = "A", wrong: str = "B", others: str = "") -> Callable[[Sample, Any], Counts]:
    """Return the function that counts right, wrong and other grades: the first of the letters anywhere in a reply."""
    letters = re.compile("|".join(re.escape(each) for each in (right, wrong, *others)))

    def counts(sample: Sample, answer: Any) -> Counts:  # noqa: ARG001 - the reply tells all
        found = letters.search(str(answer))
        grade = found[0] if found else ""
        is_right, is_wrong = float(grade == right), float(grade == wrong and wrong != right)
        return (is_right, is_wrong, 1 - is_right - is_wrong)

    return counts


_COUNTED = ("correct_count", "incorrect_count", "not_attempted_count")


def judged_accuracy(
    metric_name: str = "accuracy", true_tag: str = "A", false_tag: str = "B", *, with_f1: bool = True
) -> Tally:
    """Return accuracy in all and of what was attempted, in percent, their F, and how many there are of each grade."""
    name, given = str(metric_name), f"{metric_name}_given_attempted"

    def figures(sums: Counts) -> Mapping[str, float]:
        share, attempted, f1 = _shares(sums)
        attempts = {"attempted_ratio": 100 * ratio(sums[0] + sums[1], sum(sums))}
        return {
            name: 100 * share,
            given: 100 * attempted,
            "f1": f1,
            **attempts,
            **dict(zip(_COUNTED, sums, strict=True)),
        }

    names = (name, given, *(("f1",) if with_f1 else ()), "attempted_ratio", *_COUNTED)
    return Tally(names, grade_counts(str(true_tag), str(false_tag)), figures, mean=True)


def three_grades(*, with_accuracy: bool = False) -> Tally:
    """Return figures of the grades A, B and C, not attempted, which is also the grade of a reply without any."""

    def figures(sums: Counts) -> Mapping[str, float]:
        share, attempted, f1 = _shares(sums)
        return {"accuracy": 100 * share, "accuracy_given_attempted": 100 * attempted, "f1": f1}

    names = ("accuracy",) if with_accuracy else ()
    return Tally((*names, "accuracy_given_attempted", "f1"), grade_counts(others="C"), figures, mean=with_accuracy)


_CHINESE_NAMES = ("correct", "incorrect", "not_attempted", "given_attempted_accuracy", "F1")


def _chinese_figures(sums: Counts) -> Mapping[str, float]:
    """Return the shares of the grades A, B and C, and the F of two of them, as fractions."""
    share, attempted, f1 = _shares(sums)
    wrong, other = (ratio(each, sum(sums)) for each in sums[1:])
    return dict(zip(_CHINESE_NAMES, (share, wrong, other, attempted, f1), strict=True))


def _shares(sums: Counts) -> tuple[float, float, float]:
    """Return the share of right answers in all, that in those that were attempted, and the F of both."""
    share, attempted = ratio(sums[0], sum(sums)), ratio(sums[0], sums[0] + sums[1])
    return share, attempted, ratio(2 * share * attempted, share + attempted)


class GradesByColumn(Tally):
    """Accuracy in all and by columns of the rows, rounded to two digits; a reply without a grade is wrong.

    ``columns`` are combinations of columns; the name of a figure is the prefix and the values, with dashes between.
    """

    name = "accuracy"
    names: tuple[str, ...] = ("accuracy", "total_correct", "total_count")

    def __init__(self, prefix: str, *columns: tuple[str, ...]) -> None:
        self.prefix, self.columns = prefix, columns
        self._parts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the parts that there are; of two with one name the later counts."""
        rows = [sample.fields for sample in samples]
        for columns in self.columns:
            for row in rows:
                values = tuple(str(row.get(column, "unknown")) for column in columns)
                self._parts["-".join((self.prefix, *values))] = (columns, values)
        self.names = (*GradesByColumn.names, *self._parts)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count right grades and rows, in all and in each part."""
        right = grade_counts()(sample, answer)[0]
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
    names: tuple[str, ...] = ("accuracy", "correct_count", "incorrect_count", "unknown_count", "total")

    def __init__(self) -> None:
        self._categories: dict[str, str] = {}

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the categories that there are."""
        for sample in samples:
            category = _category(sample)
            self._categories[category] = "accuracy_" + re.sub(r"\W+", "_", category).strip("_")
        self.names = (*LongContextVerdicts.names, *dict.fromkeys(self._categories.values()))

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
        verdicts, parts = sums[:3], sums[3:]
        return {
            "accuracy": 100 * ratio(sums[0], sum(verdicts)),
            **dict(zip(("correct_count", "incorrect_count", "unknown_count"), verdicts, strict=True)),
            "total": sum(verdicts),
            **shares(self._categories.values(), parts),
        }


def _category(sample: Sample) -> str:
    return str(sample.fields.get("document_category", "unknown"))


# ---- ratings ----
# The answer that these metrics score is the judge's reply. A reply without a rating is left out of the means.


def told(gold: Any, key: str) -> Any:
    """Return what the reference of a judged sample tells; it is a dict."""
    if not isinstance(gold, Mapping) or key not in gold:
        raise DataError(
            f"the judge's reference has no {key!r}: {gold!r:.80}",
            hint="reader_cfg's output_column must name the column 'judge', a dict of what the figures are grouped by.",
        )
    return gold[key]


class Groups(Tally):
    """Figures of groups of the rows; ``groups_of`` gives those of a reference, first the one of all samples."""

    def __init__(self, groups_of: Callable[[Any], Sequence[str]]) -> None:
        self._groups_of = groups_of
        self.groups: list[str] = []

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the groups that there are."""
        self.groups = list(dict.fromkeys(name for each in samples for name in self._groups_of(gold_of(each))))
        self.names = tuple(self.groups)
        self.name = next(iter(self.groups), "")

    def held(self, gold: Any) -> list[int]:
        """Return how often a row counts in each group."""
        mine = self._groups_of(gold)
        return [mine.count(name) for name in self.groups]


class Ratings(Groups):
    """Means of ratings, in all and by groups; ``pattern`` finds the rating as its first group."""

    def __init__(
        self,
        pattern: str,
        groups_of: Callable[[Any], Sequence[str]],
        *,
        scale: float = 1.0,
        digits: int | None = None,
    ) -> None:
        super().__init__(groups_of)
        self.pattern, self.scale, self.digits = pattern, scale, digits

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Add the rating and 1 in each of the row's groups."""
        held, rating = self.held(gold_of(sample)), self.rating(str(answer))
        pair = (0.0, 0.0) if rating is None else (rating, 1.0)
        return tuple(each * times for times in held for each in pair)

    def rating(self, reply: str) -> float | None:
        """Return the rating in a reply; None where there is none."""
        found = re.search(self.pattern, reply)
        try:
            return float(found[1]) if found else None
        except ValueError:  # such as 7.5.1
            raise DataError(f"the judge's rating {found[1] if found else ''!r} is not a number") from None

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the means of the groups that have a rating."""
        groups = zip(self.groups, sums[::2], sums[1::2], strict=True)
        means = {name: self.scale * total / count for name, total, count in groups if count}
        return means if self.digits is None else {name: round(mean, self.digits) for name, mean in means.items()}


def by_difficulty(gold: Any) -> list[str]:
    """Return the category with the difficulty."""
    return [f"{told(gold, 'category')}_{told(gold, 'difficulty')}"]


def _by_capability(gold: Any) -> list[str]:
    return ["total", str(told(gold, "capability"))]


def _by_format(gold: Any) -> list[str]:
    formats = [str(told(gold, "format"))] if told(gold, "format_type") == "general" else []
    return ["overall", str(told(gold, "domain")), *formats]


class LowestOfTurns(SeesRows, CorpusMetric):
    """MT-Bench-101: the lowest rating of each conversation's turns, their means by task, and the mean of these."""

    name = "avg"
    names: tuple[str, ...] = ("avg",)

    @property
    def details(self) -> tuple[str, ...]:
        """The tasks."""
        return self.names[1:]

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the tasks that there are."""
        self.names = ("avg", *dict.fromkeys(str(told(gold_of(sample), "task")) for sample in samples))

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Take the lowest rating of each conversation; where no reply has a rating, there is no figure."""
        lowest: dict[tuple[str, str], int] = {}
        for reply, gold, _ in pairs:
            if found := re.search(r"\[([0-9]+)\]", str(reply)):
                key = str(told(gold, "task")), str(told(gold, "multi_id"))
                lowest[key] = min(int(found[1]), lowest.get(key, int(found[1])))
        by_task: dict[str, list[int]] = {}
        for (task, _), rating in lowest.items():
            by_task.setdefault(task, []).append(rating)
        means = {task: sum(ratings) / len(ratings) for task, ratings in by_task.items()}
        return {**means, "avg": round(sum(means.values()) / len(means), 3)} if means else {}


_LEVELS = 5


class FollowedLevels(Tally):
    """FollowBench: how many instructions are followed, wholly (HSR) and in part (SSR), by the number of constraints."""

    name = "HSR_AVG"
    names = ("HSR_AVG", "SSR_AVG", *(f"{kind}_L{level}" for kind in ("HSR", "SSR") for level in range(1, _LEVELS + 1)))

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count samples; of the row's level what was followed wholly and in part, unreadable replies, and samples."""
        level = int(told(gold_of(sample), "level"))
        wholly, partly = followed(str(answer), level)
        mine = (0.0, 0.0, 1.0, 1.0) if wholly < 0 else (wholly, partly, 0.0, 1.0)
        return (1.0, *(each for at in range(1, _LEVELS + 1) for each in (mine if at == level else (0.0,) * 4)))

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the levels that there are."""
        self._seen |= {int(told(gold_of(sample), "level")) for sample in samples}

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Divide by a fifth of the samples, less those of the level that could not be read.

        A level of which no reply can be read counts as 0; one whose samples all failed has no figure.
        """
        group = sums[0] // _LEVELS
        found: dict[str, float] = {}
        for kind, name in enumerate(("HSR", "SSR")):
            levels = {}
            for at in range(_LEVELS):
                *followed_ones, unread, samples = sums[1 + 4 * at : 5 + 4 * at]
                if samples or at + 1 not in self._seen:
                    levels[f"{name}_L{at + 1}"] = ratio(followed_ones[kind], group - unread)
            average = {f"{name}_AVG": sum(levels.values()) / _LEVELS} if len(levels) == _LEVELS else {}
            found |= average | levels
        return found


def followed(reply: str, level: int) -> tuple[float, float]:
    """Return whether all constraints are followed and which share of them; -1 for a reply that cannot be read.

    The last line says YES or NO for one constraint, and has a list of such words for several.
    """
    last = reply.strip("`").strip().split("\n")[-1]
    if level == 1:
        return (1.0, 1.0) if "YES" in last else (0.0, 0.0) if "NO" in last else (-1.0, -1.0)
    listed = re.search(r"\[.*\]", last)
    try:
        words = ast.literal_eval(listed[0]) if listed else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        words = None
    known = ("YES", "True", "NO", "False", "PARTIAL", "MAYBE", "UNKNOWN", "N/A")
    if not isinstance(words, list) or len(words) != level or not all(word in known for word in words):
        return (-1.0, -1.0)
    yes = sum(word in ("YES", "True") for word in words)
    return float(yes == level), yes / level


def first_number(sample: Sample, answer: Any) -> Counts:  # noqa: ARG001 - the reply tells all
    """Return the first whole number of a reply, out of 10; 0 where there is none (EESE).

    A reply that is nothing but a number may have a sign.
    """
    try:
        return (float(int(str(answer))),)
    except ValueError:
        found = re.search(r"(?<!\d)\d+(?!\d)", str(answer))
        return (float(found[0]) if found else 0.0,)


_NUMBER = re.compile(r"(?:<NUMBER>|\\boxed\{)\s*(-?\d*\.?\d+)\s*(?:</NUMBER>|\})")


def last_number(sample: Sample, answer: Any) -> Counts:  # noqa: ARG001 - the reply tells all
    """Return the last number between ``<NUMBER>`` marks or in a box, from 0 to 1, else 0, and 1 (ChemExam)."""
    found = _NUMBER.findall(str(answer))
    return (float(found[-1]) if found else 0.0, 1.0)


_KEYED = r"[\"']{}[\"']:\s*({})"


READINGS: dict[str, Reading] = {
    "generic_llmjudge_postprocess": judged_accuracy,
    "generic_llmjudge_academic_postprocess": partial(judged_accuracy, with_f1=False),
    "livereasonbench_postprocess": three_grades,
    "simpleqa_postprocess": partial(three_grades, with_accuracy=True),
    **dict.fromkeys(
        ("csimpleqa_postprocess", "csimpleqa"),
        partial(Tally, _CHINESE_NAMES, grade_counts(others="C"), _chinese_figures, mean=True),
    ),
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
    **dict.fromkeys(
        ("mtbench_postprocess", "mtbench"),
        partial(Ratings, r"Rating:\s*\[\[([\d.]+)\]\]", _by_capability, digits=2),
    ),
    **dict.fromkeys(
        ("commonbench_postprocess", "commenbench"),
        partial(Ratings, r"\[\[([\d.]+)\]\]", _by_capability, digits=2),
    ),
    **dict.fromkeys(
        ("fofo_postprocess", "fofo"), partial(Ratings, _KEYED.format("format_correctness", "[0-1]+"), _by_format)
    ),
    **dict.fromkeys(
        ("writingbench_postprocess", "writingbench"),
        partial(Ratings, _KEYED.format("score", "[0-9]+"), lambda gold: ["overall", str(told(gold, "domain1"))]),
    ),
    **dict.fromkeys(
        ("compassarena_subjectiveeval_pointwise_postprocess", "compassarena_subjectiveeval_pointwise"),
        partial(
            Ratings,
            r"\[\[(\d+)分\]\]",
            lambda gold: ["Average_score", *by_difficulty(gold)],
            scale=20.0,
            digits=3,
        ),
    ),
    **dict.fromkeys(("mtbench101_postprocess", "mtbench101"), LowestOfTurns),
    **dict.fromkeys(("followbench_postprocess", "followbench"), FollowedLevels),
    "eese_score_postprocess_dict": partial(
        Tally, ("overall_score",), first_number, lambda sums: {"overall_score": 10 * sums[0]}, mean=True
    ),
    "chem_exam_score_llmjudge_postprocess": partial(
        Tally, ("final_score",), last_number, lambda sums: {"final_score": round(100 * ratio(*sums), 2)}
    ),
}

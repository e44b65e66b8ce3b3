"""Token lookup scores: what was predicted, how a wrong answer is wrong, how much the tasks differ, and their metric."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.core.records import Sample
from kshot.lookup.generate import LOOKUP_TASKS, answers, parts
from kshot.metrics import Metric
from kshot.metrics.metric import PERCENT
from kshot.statistics.paired import paired

FAILED = "failed"
OPPOSITE = "opposite neighbour"
OTHER = "other occurrence"
QUERY = "the query itself"
LAST = "last token"
ELSEWHERE = "elsewhere in the context"
ABSENT = "not in the context"
KINDS = (OPPOSITE, OTHER, QUERY, LAST, ELSEWHERE, ABSENT)

# An opening tag, whatever precedes its name (``=target>``, ``<|im_start|>target>``), and the text after it.
_TAG = re.compile(r"(?<!/)target\s*>\s*([^<]*)", re.IGNORECASE)


# ---- Predictions ----


def first_character(text: str) -> str:
    """Take the first character that is not white space: the rule for completion models."""
    return text.strip()[:1] or FAILED


def first_word(text: str) -> str:
    """Take the first word, without colons at its end: the rule of the oldest recorded files."""
    return (text.split() or [FAILED])[0].rstrip(":")


def between_tags(text: str) -> str:
    """Take the text between the tags: the original rule for instruct models, which cuts oddly if a tag is missing."""
    return text[text.find("<target>") + 8 : text.find("</target>")].strip()


def tolerant_tags(text: str) -> str:
    """Take the text after the first opening tag that has any; the tag may be damaged or unclosed, the text quoted."""
    for match in _TAG.finditer(text):
        if answer := match.group(1).strip().strip("\"'`“”‘’*").strip():
            return answer
    return FAILED


RULES: dict[str, Callable[[str], str]] = {
    "first_character": first_character,
    "first_word": first_word,
    "between_tags": between_tags,
    "tolerant_tags": tolerant_tags,
}


def rules_for(model_type: str) -> tuple[str, ...]:
    """Return the rules to report: first the one that decides, then the others."""
    return ("between_tags", "tolerant_tags") if model_type == "instruct" else ("first_character",)


def rule(name: str) -> Callable[[str], str]:
    """Return a prediction rule by name."""
    if name not in RULES:
        raise UsageError(f"there is no prediction rule {name!r}", hint=f"Choose from {', '.join(RULES)}.")
    return RULES[name]


# ---- How an answer is wrong ----


def error_kind(text: str, task: str, prediction: str) -> str | None:
    """Return how the answer to an input is wrong, or None if it is right; of several kinds the first in ``KINDS``."""
    context, query = parts(text)
    if prediction == answers(context, query)[task]:
        return None
    last = LOOKUP_TASKS[task].occurrence == "last"
    position = context.rfind(query) if last else context.find(query)
    others = [i for i, c in enumerate(context) if c == query and i != position]
    if prediction in _neighbours(context, position):
        return OPPOSITE
    if any(prediction in _neighbours(context, other) for other in others):
        return OTHER
    if prediction == query:
        return QUERY
    if prediction == context[-1:]:
        return LAST
    return ELSEWHERE if len(prediction) == 1 and prediction in context else ABSENT


def _neighbours(context: str, position: int) -> list[str]:
    return [context[i] for i in (position - 1, position + 1) if 0 <= i < len(context)]


def chance(inputs: Iterable[str], task: str) -> float:
    """Return the accuracy of naming a random token of the context that is not the query."""
    shares = []
    for text in inputs:
        context, query = parts(text)
        others = [c for c in context if c != query]
        shares.append(others.count(answers(context, query)[task]) / len(others))
    return sum(shares) / len(shares) if shares else 0.0


# ---- Gaps between tasks ----

GAPS: dict[str, tuple[tuple[str, str], ...]] = {
    "right - left": (("UR", "UL"), ("NRFirst", "NLFirst"), ("NRLast", "NLLast")),
    "last - first": (("NLLast", "NLFirst"), ("NRLast", "NRFirst")),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """How much more accurate one task is than another on the same records, in points."""

    kind: str
    better: str
    worse: str
    records: int
    difference: float
    interval: tuple[float, float] | None
    p: float


def gaps(correct: Mapping[str, Mapping[Any, bool]]) -> list[Gap]:
    """Compare tasks record by record, from ``correct[task][record]``; what has no partner is left out."""
    found = []
    for kind, pairs in GAPS.items():
        for better, worse in pairs:
            a, b = correct.get(better, {}), correct.get(worse, {})
            common = [record for record in a if record in b]
            if common:
                of_better, of_worse = ([100.0 * right[record] for record in common] for right in (a, b))
                result = paired(of_better, of_worse, bounds=PERCENT)
                found.append(Gap(kind, better, worse, len(common), result.difference, result.interval, result.p))
    return found


_RULE_LABELS = {"first_word": "first word", "tolerant_tags": "tolerant"}


class LookupAccuracy(Metric):
    """Whether the answer is right, by the rule that decides and by others, and which kind of error it is."""

    def __init__(self, task: str, rules: Sequence[str]) -> None:
        """Name the rules; the first decides ``Accuracy`` and the kinds of error."""
        self.task = task
        first, *others = rules
        self._predict = rule(first)
        self._rules = {"Accuracy": self._predict} | {f"Accuracy:{_RULE_LABELS[name]}": rule(name) for name in others}

    @property
    def measures(self) -> Sequence[Measure]:
        """Accuracy; then what breaks it down: accuracy by every other rule, and the kinds of error."""
        names = (*self._rules, *(f"error: {kind}" for kind in KINDS))
        return [Measure(name, bounds=PERCENT, binary=True, detail=name != "Accuracy") for name in names]

    def predict(self, reply: str) -> str:
        """Read a reply by the rule that decides."""
        return self._predict(reply)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:
        """Score one reply."""
        text, target = sample.fields["input"], sample.fields["target"]
        right = {name: 100.0 * (predict(answer) == target) for name, predict in self._rules.items()}
        kind = error_kind(text, self.task, self.predict(answer))
        return right | {f"error: {each}": 100.0 * (each == kind) for each in KINDS}

"""Judges that compare an answer with that of a base model, whose replies a config names by ``given_pred``."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.evaluators.judge_pairs import Wins
from kshot.configs.evaluators.judges import JudgeEvaluator, added
from kshot.configs.evaluators.tallies import gold_of
from kshot.configs.loaders.places import check_place, place_of
from kshot.core.errors import DataError
from kshot.core.records import Gold, Request, RequestGenerator, Sample
from kshot.metrics import Metric
from kshot.metrics.judge import PLACEHOLDER

_COMPARED = "model"
"""What the evaluated model is called in the reference that the figures are grouped by."""
_ORDER_SEED = 666


class PairJudge(JudgeEvaluator):
    """A judge that sees the base model's answer and the evaluated one, as ``prediction`` and ``prediction2``.

    ``order``: ``double`` asks about both orders, ``random`` about one that is drawn for each row, as OpenCompass draws
    it; else the base model comes first.
    """

    def __init__(self, judge: JudgeEvaluator, base: str, replies: Sequence[Sequence[str]], order: str | None) -> None:
        """``replies``: those of the base model, each with one text for a turn."""
        super().__init__(judge.template, judge.reading, max_tokens=judge.max_tokens, whole_replies=judge.whole_replies)
        self._clean, self._clean_reply = judge._clean, judge._clean_reply  # noqa: SLF001 - it is the same judge
        self.base, self.order = base, order
        self._replies, self._draws = list(replies), random.Random(_ORDER_SEED)  # noqa: S311 - no secret
        self._drawn: list[bool] = []

    def __repr__(self) -> str:
        """Show what reads the replies, and the base model."""
        return f"PairJudge({self.reading!r}, {self.base!r}, {self.order!r})"

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to what reads the replies; each needs a reply of the base model."""
        given = list(samples)
        if missing := [sample.position for sample in given if sample.position >= len(self._replies)]:
            raise DataError(
                f"the base model {self.base} has {len(self._replies)} replies, and none to row {missing[0]}"
            )
        super().see([self._paired(sample, swapped=False) for sample in given])

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask about the pair, in one order or in both."""
        orders = self._orders(sample.position)
        requests = [self._pair_request(sample, answer, swapped=swapped) for swapped in orders]
        replies = yield from self.asked(requests)
        pairs = zip(orders, replies, strict=True)
        return added([self.reading.score(self._paired(sample, swapped=s), reply) for s, reply in pairs])

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        return [self._pair_request(sample, answer, swapped=each) for each in self._orders(sample.position)]

    def _orders(self, position: int) -> list[bool]:
        """Return whether the evaluated answer comes first, for each time that the judge is asked."""
        while len(self._drawn) <= position:
            pair = [False, True]
            self._draws.shuffle(pair)
            self._drawn.append(pair[0])
        return [False, True] if self.order == "double" else [self.order == "random" and self._drawn[position]]

    def _paired(self, sample: Sample, *, swapped: bool) -> Sample:
        gold = gold_of(sample)
        names = (_COMPARED, self.base) if swapped else (self.base, _COMPARED)
        told = dict(gold) if isinstance(gold, Mapping) else {}
        told |= {"answer1": names[0], "answer2": names[1], "base_models": [self.base]}
        return replace(sample, target=Gold(told))

    def _pair_request(self, sample: Sample, answer: Any, *, swapped: bool) -> Request:
        turns = answer if isinstance(answer, (list, tuple)) else [answer]
        pair = [self._replies[sample.position], [self.cleaned(each) for each in turns]]
        first, second = reversed(pair) if swapped else pair
        rounds = {f"prediction_r{number}": each for number, each in enumerate(first, 1)}
        rounds |= {f"prediction1_r{number}": each for number, each in enumerate(second, 1)}
        gold = gold_of(self._paired(sample, swapped=swapped))
        return self.request(sample, "\n\n".join(first), gold=gold, prediction2="\n\n".join(second), **rounds)


def with_base(metric: Metric, entry: DatasetEntry) -> Metric:
    """Return a judge that compares pairs, if the entry names replies of a base model; else the metric as it is."""
    given = entry.get("given_pred")
    if not isinstance(metric, JudgeEvaluator) or not isinstance(metric.reading, Wins) or not given:
        return metric
    body = given[0] if isinstance(given, (list, tuple)) else given
    if not isinstance(body, Mapping) or not {"abbr", "path"} <= set(body):
        raise DataError("given_pred must name abbr and path of the base model's replies", where=entry.place)
    file = place_of(entry, str(body["path"])) / f"{entry.abbr}.json"
    check_place(entry, file)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        replies = [_turns(found[str(number)]["prediction"]) for number in range(len(found))]
    except OSError as exc:
        raise DataError(
            f"the base model's replies cannot be read: {exc.strerror or exc}",
            where=f"{entry.place}, {file}",
            hint="given_pred names the folder; the file is called like the entry.",
        ) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise DataError('the file must have {"0": {"prediction": …}, …}', where=str(file)) from exc
    return PairJudge(metric, str(body["abbr"]), replies, entry.get("infer_order"))


def _turns(said: Any) -> list[str]:
    """Return what a base model said: one text, or that of each turn of a conversation."""
    turns = said if isinstance(said, list) else [said]
    return [str(each["assistant"]) if isinstance(each, Mapping) else str(each) for each in turns]

"""A rule first, then a judge: an answer is right if either calls it right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.answers import Cleaner, cleaner, one_cleaned
from kshot.configs.evaluators.judge_readings import OwnVerdict
from kshot.configs.evaluators.judges import JudgeEvaluator, judge_of
from kshot.configs.evaluators.repeats import is_right
from kshot.configs.evaluators.scores import SeesRows
from kshot.configs.evaluators.tallies import Counts, Tally, ratio
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Request, RequestGenerator, Sample
from kshot.metrics import Metric
from kshot.metrics.judge import PLACEHOLDER

Maker = Callable[[Mapping[str, Any], Scope], Metric]
"""Makes the metric that a dict with ``type`` names."""


class Cascade(Tally):
    """Accuracy of a rule and a judge together, and what each of them says alone.

    ``parallel``: the judge sees all answers; else only those that the rule calls wrong. The judge calls an answer right
    by the reply ``A``, or one that begins with CORRECT.
    """

    name = mean = "accuracy"

    def __init__(
        self, rule: Metric, judge: JudgeEvaluator, *, clean: Cleaner | None = None, parallel: bool = True
    ) -> None:
        self.judge, self.parallel = judge, parallel
        self._by = rule
        self._clean = clean

    def __repr__(self) -> str:
        """Show both, and who sees what."""
        return f"Cascade({self._by!r}, {self.judge!r}, parallel={self.parallel})"

    @property
    def names(self) -> tuple[str, ...]:
        """Accuracy, then what the rule and the judge say."""
        counted = ("total_samples", "rule_correct", "rule_accuracy", "llm_evaluated", "llm_correct", "llm_accuracy")
        return ("accuracy", *counted, "final_correct", "final_accuracy")

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to the rule."""
        if isinstance(self._by, SeesRows):
            self._by.see(samples)

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:  # type: ignore[override]  # it asks a judge
        """Apply the rule, then ask the judge where it is wanted."""
        right = self._by_rule(sample, answer)
        asked, agreed = self.parallel or not right, False
        if asked:
            (reply,) = yield from self.judge.replies(sample, answer)
            said = str(reply).strip().upper()
            agreed = said == "A" or said.startswith("CORRECT")
        counts = (1.0, float(right), float(asked), float(agreed), float(right or agreed))
        alone = {"accuracy": 100 * counts[-1]}
        return {name: alone.get(name, counts) for name in self.names}

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        return self.judge.judge_requests(sample, answer)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return shares in percent, and the counts."""
        rows, rule, asked, judged, right = sums
        return {
            "accuracy": 100 * ratio(right, rows),
            "total_samples": rows,
            "rule_correct": rule,
            "rule_accuracy": 100 * ratio(rule, rows),
            "llm_evaluated": asked,
            "llm_correct": judged,
            "llm_accuracy": 100 * ratio(judged, asked),
            "final_correct": right,
            "final_accuracy": 100 * ratio(right, rows),
        }

    def _by_rule(self, sample: Sample, answer: Any) -> bool:
        cleaned = one_cleaned(self._clean, answer) if self._clean else answer
        scored = self._by.score(sample, cleaned)
        if not isinstance(scored, Mapping):
            raise DataError("the rule_evaluator of a cascade asks a judge itself", hint="Name one that compares.")
        return is_right(self._by.measures[0], scored)


def cascade_of(name: Name, options: Mapping[str, Any], scope: Scope, make: Maker) -> Cascade:
    """Return the cascade that a config describes; ``make`` makes its rule of a dict with ``type``."""
    rule, judge = options.get("rule_evaluator"), options.get("llm_evaluator")
    if not isinstance(rule, Mapping) or not isinstance(judge, Mapping):
        raise DataError(
            "CascadeEvaluator needs rule_evaluator and llm_evaluator, each a dict with type",
            where=scope.where,
            hint="A sample_score_fn alone is not supported.",
        )
    clean = rule.get("pred_postprocessor")
    bare = {name: value for name, value in rule.items() if name != "pred_postprocessor"}
    return Cascade(
        make(bare, scope),
        judge_of(judge, scope, name.framework, OwnVerdict()),
        clean=cleaner(clean, scope) if clean else None,
        parallel=bool(options.get("parallel", True)),
    )

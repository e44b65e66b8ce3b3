"""What is known of a sample that is shown: its row, its scale, and what its run recorded of the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.core.records import ResultRow
from kshot.report.sample_responses import ReadResponse, read_response
from kshot.report.sample_texts import FoldedPrompt, TextLimit, folded_prompt, whole_prompt
from kshot.runs.folder import without_defaults
from kshot.runs.sample_filters import MetricScale, SampleFilter, name_of
from kshot.runs.spec_file import read_spec


@dataclass(frozen=True)
class SampleLook:
    """A sample, the scale by which it is right, and how many examples its prompt may show (None: not known).

    ``pattern`` is the one that the user gave to find answers in replies.
    """

    row: ResultRow
    scale: MetricScale
    facts: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None
    full: bool = False
    pattern: str = ""

    def limit(self, usual: TextLimit) -> TextLimit | None:
        """Return how much of a text is shown."""
        return None if self.full else usual

    @cached_property
    def question(self) -> FoldedPrompt:
        """The prompt, or the part of it that asks."""
        prompt = self.row.get("prompt")
        return whole_prompt(prompt) if self.full else folded_prompt(prompt, self.shots)

    @property
    def answer(self) -> Any:
        """The answer that the metric scores: that of its own rule, where a sample was answered by several."""
        answers = self.row.get("answers")
        own = self.row.get("answer")
        return answers.get(self.scale.metric, own) if isinstance(answers, dict) else own

    @cached_property
    def response(self) -> ReadResponse:
        """The parts of the response by their kind."""
        return read_response(self.row, str(self.facts.get("ranking_type", "")))


class SampleLooks:
    """Makes the looks of the samples of one run."""

    def __init__(self, run: str | Path, wanted: SampleFilter, *, full: bool) -> None:
        """Read what the run recorded; ``wanted`` has the scales."""
        self.folder = Path(run).expanduser()
        spec = read_spec(self.folder)
        self._facts, self._settings = spec.get("tasks", {}), without_defaults(spec["identity"])
        self._wanted, self._full = wanted, full

    def of(self, row: ResultRow, scale: MetricScale | None = None) -> SampleLook:
        """Return the look of a sample; the scale is that of its task, unless another one is given."""
        of_model = self._facts.get(name_of(row, "model"), {})
        facts = of_model.get(name_of(row, "task"), {}) if isinstance(of_model, dict) else {}
        own = self._wanted.scale(row) if scale is None else scale
        pattern = self._settings.get("answer_pattern")
        shown = pattern if isinstance(pattern, str) else ""
        return SampleLook(row, own, facts, shots_of(facts, self._settings), self._full, shown)


def shots_of(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """Return how many examples the prompts of a task may show; None if the run does not say."""
    if isinstance(facts.get("shots"), int):
        return int(facts["shots"])
    wanted = settings.get("num_shots") if "kept" in facts else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None

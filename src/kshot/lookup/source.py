"""Token lookup as Tasks: ``lookup`` or ``lookup:UR,UL,…``, by task × length × variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import ResultRow, Sample
from kshot.core.specs import parse_spec
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.core.text_files import FileNames
from kshot.core.watcher import PlannedTask
from kshot.lookup.configurations import (
    LookupConfiguration,
    LookupSamples,
    configurations,
    data_file,
    recorded_completions,
    recorded_configurations,
)
from kshot.lookup.generate import LOOKUP_TASKS, group_of
from kshot.lookup.scoring import GAPS, KINDS, LookupAccuracy, chance, error_kind, gaps
from kshot.lookup.settings import LookupSettings
from kshot.methods.generation import generate as generation
from kshot.metrics.settings import refuse_scoring_options

_MAX_TOKENS = {"base": 6, "chat": 32}

_CHANCE_SAMPLES = 1000
"""The chance level is estimated from at most this many samples."""


@dataclass(frozen=True, slots=True)
class LookupSource(Source[LookupSettings]):
    """What ``-d lookup…`` names."""

    text: str
    folders: FileNames = field(default_factory=lambda: FileNames("_"), compare=False, repr=False)
    """The folders of models among the results."""
    tried: TriedTasks = field(default_factory=TriedTasks, compare=False, repr=False)

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    def default_model(self, settings: LookupSettings) -> str:
        """Return the built-in language model, which was trained on token lookup."""
        del settings  # it can do every form of it
        return "embedded"

    def tasks(
        self, settings: LookupSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Make one Task per task × length × variant, in the order variants → tasks → lengths."""
        del facts  # no task depends on what an earlier run recorded
        refuse_scoring_options(settings, "token lookup, which has rules of its own")
        replayed = _replayed_file(model)
        yield from self.tried.take((settings, replayed), lambda: self._compiled(settings, replayed), keep=model is None)

    def _compiled(self, settings: LookupSettings, replayed: str | None) -> list[Task[Any]]:
        """Compile all tasks; ``replayed``: the file of recorded completions that the model replays."""
        recorded = recorded_completions(data_file(settings)) or recorded_completions(replayed)
        tasks = self._chosen_tasks()
        found = recorded_configurations(recorded, tasks) if recorded else configurations(settings, tasks)
        return [_task(configuration, settings, self.folders) for configuration in found]

    def planned(self, settings: LookupSettings, rehearsed: Sequence[PlannedTask]) -> list[PlannedTask]:
        """Return all tasks; beside their own metrics, the run has the gaps between them."""
        del settings  # the rehearsal has compiled all
        between = tuple(f"gap: {kind}" for kind in GAPS)
        return [replace(task, metrics=(*task.metrics, *between)) for task in rehearsed]

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Compare tasks on the same records: right with left, and last with first."""
        grid: dict[tuple[int, str], dict[str, TaskResult]] = {}
        for result in results:
            if isinstance(result.task.samples, LookupSamples):
                found = result.task.samples.configuration
                grid.setdefault((found.length, str(found.variant)), {})[found.task] = result
        for (length, form), by_task in grid.items():
            for gap in gaps({task: _correct(result) for task, result in by_task.items()}):
                pair = by_task[gap.better], by_task[gap.worse]
                yield {
                    "task": f"lookup:{gap.better}-{gap.worse}:{length}:{form}",
                    "model": results[0].model,
                    "kind": "lookup",
                    "lookup": f"{gap.better}-{gap.worse}",
                    "gap": gap.kind,
                    "better": gap.better,
                    "worse": gap.worse,
                    "length": length,
                    "variant": form,
                    "metric": f"gap: {gap.kind}",
                    "higher_is_better": True,
                    "value": gap.difference,
                    "n": gap.records,
                    "failed": max(len(each.positions) + each.failed for each in pair) - gap.records,
                    "ci95": None if gap.interval is None else list(gap.interval),
                    "p": gap.p,
                }

    def _chosen_tasks(self) -> tuple[str, ...]:
        """Return the tasks that the user named, or all."""
        spec = parse_spec(self.text)
        named = [name.strip() for name in spec.argument.split(",") if name.strip()]
        for name in named:
            group_of(name)  # an unknown task is an error
        return tuple(dict.fromkeys(named)) or tuple(LOOKUP_TASKS)


def _replayed_file(model: Model | None) -> str | None:
    """Return the file of recorded completions that the model replays."""
    recording = model.abilities.recording if isinstance(model, LanguageModel) else None
    return None if recording is None else str(recording)


def _correct(result: TaskResult) -> dict[int, bool]:
    """Return whether each sample was right, by its position."""
    accuracy = result.values.get("Accuracy", ())
    return {position: value > 0 for position, value in zip(result.positions, accuracy, strict=True)}


def _task(configuration: LookupConfiguration, settings: LookupSettings, folders: FileNames) -> Task[Any]:
    kind = settings.model_type or "base"
    metric = LookupAccuracy(configuration.task, configuration.rules)
    stop = settings.stop if settings.stop is not None else (("\n",) if kind == "base" else ())
    sampling: dict[str, Any] = {"max_tokens": settings.max_tokens or _MAX_TOKENS[kind], "stop": stop}
    if settings.temperature:
        sampling |= {"temperature": settings.temperature, "seed": settings.seed}
    samples = LookupSamples(configuration, settings.limit)
    inputs = [sample.fields["input"] for sample in islice(samples, _CHANCE_SAMPLES)]
    return Task(
        f"lookup:{configuration.task}:{configuration.length}:{configuration.variant}",
        samples,
        lambda sample, _: configuration.prompt(sample.position),
        lambda sample, prompt: generation(**sampling, replica=sample.fields["replica"])(sample, prompt),
        (metric,),
        labels={
            "lookup": configuration.task,
            "length": configuration.length,
            "variant": str(configuration.variant),
            "chance": 100 * chance(inputs, configuration.task),
        },
        metric_labels={f"error: {kind}": {"error": kind} for kind in KINDS},
        export=_exporter(configuration, metric, folders),
        kind="lookup",
    )


def _exporter(
    configuration: LookupConfiguration, metric: LookupAccuracy, folders: FileNames
) -> Callable[[Sample, Mapping[str, Any]], tuple[str, ResultRow]]:
    """Write results to the files and in the form of the published ones."""
    task = configuration.task

    def export(sample: Sample, row: Mapping[str, Any]) -> tuple[str, ResultRow]:
        model = folders.of(row["model"])
        path = f"results/{group_of(task)}/{task}/{model}/{configuration.variant.folder}/{configuration.file}"
        reply = row["response"] if isinstance(row["response"], str) else ""
        prediction = metric.predict(reply)
        line: ResultRow = {
            "prediction": prediction,
            "full_output": reply,
            "input": sample.fields["input"],
            "target": sample.fields["target"],
            "prompt": row["prompt"],
            "correct": prediction == sample.fields["target"],
            "error": error_kind(sample.fields["input"], task, prediction),
        }
        return path, line | ({"failed": row["failed"]} if "failed" in row else {})

    return export

"""Token lookup as Tasks: ``lookup`` or ``lookup:UR,UL,…``, by task × length × variant."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import Answers, Prompt, ResultRow, Row, Sample
from kshot.core.specs import parse_spec
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.core.text_files import FileNames, lines_of, regular_file
from kshot.core.watcher import PlannedTask
from kshot.lookup.generate import LOOKUP_TASKS, TASKS, completions, file_name, generate, group_of, parts, read
from kshot.lookup.prompt_writer import VARIANTS, Variant, as_prompt, parse_variant, prompter
from kshot.lookup.scoring import GAPS, KINDS, LookupAccuracy, chance, error_kind, gaps, rules_for
from kshot.lookup.settings import LookupSettings
from kshot.methods.generation import generate as generation
from kshot.metrics.settings import refuse_scoring_options

DEFAULT_LENGTHS = (10, 20, 30)
DEFAULT_SAMPLES = 100
DEFAULT_SHOTS = 5
DEFAULT_VARIANT = "sep|small|simple_rule"
REFERENCE_SEED = 2025
"""The seed of the published stream of draws, whatever seed made the data."""

_RECORDED_FIELDS = {"input", "target", "full_output", "prompt", "task"}
"""The fields by which a file of recorded completions is recognised."""


@dataclass(frozen=True, slots=True)
class LookupConfiguration:
    """One task at one length under one variant: its records, the prompt of each, and the rules that read replies."""

    task: str
    length: int
    variant: Variant
    file: str
    """The name of the data file, which result files take over."""
    records: Sequence[Row]
    prompt: Callable[[int], Prompt]
    """Returns the prompt of the record at a position."""
    rules: tuple[str, ...]
    """The prediction rules to report; the first decides."""


class LookupSamples:
    """The samples of a configuration, made anew on each pass."""

    def __init__(self, configuration: LookupConfiguration, limit: int | None) -> None:
        self.configuration = configuration
        self._size = min(len(configuration.records), limit or len(configuration.records))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sample]:
        task, field = self.configuration.task, self.configuration.variant.input_field
        for position in range(self._size):
            record = self.configuration.records[position]
            text = str(record.get("input") or record[field])
            target = str(record["target"] if "target" in record else record[task])
            fields = {"input": text, "target": target, "replica": record.get("replica", 0)}
            row = {"task": task, **fields, "input": text.replace("|", "")}  # the same under every variant
            yield Sample(str(position), fields, Answers((target,)), position=position, row=row)


# ---- generated or given records ----


@dataclass(frozen=True, slots=True)
class LookupFile:
    """Records of one group and one length."""

    group: str
    length: int
    name: str
    records: Sequence[Row]


def configurations(settings: LookupSettings, tasks: Sequence[str]) -> Iterator[LookupConfiguration]:
    """Yield what the settings ask for, in the order variants → tasks → lengths."""
    named = settings.variant or (DEFAULT_VARIANT,)
    variants = [parse_variant(text) for text in (VARIANTS if "all" in named else dict.fromkeys(named))]
    files = list(_files(settings, {group_of(task) for task in tasks}))
    streams = {group: random.Random(REFERENCE_SEED) for group in TASKS}  # noqa: S311 - reproducible draws
    rules = rules_for("instruct" if settings.model_type == "chat" else "base")
    for form in variants:
        for task in tasks:
            for file in files:
                if file.group == group_of(task):
                    read(file.records, task)  # every record must have an answer to the task
                    prompt = _prompts(file.records, task, form, settings, streams[file.group])
                    yield LookupConfiguration(task, file.length, form, file.name, file.records, prompt, rules)


def data_file(settings: LookupSettings) -> str | None:
    """Return the file that ``--data`` names."""
    given = settings.data or ()
    if len(given) > 1:
        raise UsageError("token lookup takes one --data file", hint="Run the files one after the other.")
    return given[0] if given else None


def _files(settings: LookupSettings, groups: set[str]) -> Iterator[LookupFile]:
    """Read the file of the user, or make records of every length."""
    path = data_file(settings)
    if path is not None:
        yield from _given_files(path, groups)
        return
    samples = settings.samples or settings.limit or DEFAULT_SAMPLES
    for group in (name for name in TASKS if name in groups):
        for length in dict.fromkeys(settings.length or DEFAULT_LENGTHS):
            made = generate(group, length, samples, settings.seed)
            yield LookupFile(group, length, file_name(samples, length, settings.seed), made)


def _given_files(path: str, groups: set[str]) -> Iterator[LookupFile]:
    records: dict[tuple[str, int], list[Row]] = {}
    for record in read(path):
        group = next(group for group, tasks in TASKS.items() if any(task in record for task in tasks))
        records.setdefault((group, len(record["input_no_space"])), []).append(record)
    if not groups & {group for group, _ in records}:
        wanted = " and ".join(sorted(groups))
        raise UsageError(f"it holds no {wanted} records", where=path, hint="Choose tasks of the file's group.")
    for (group, length), found in records.items():
        yield LookupFile(group, length, Path(path).name, found)


def _prompts(
    records: Sequence[Row], task: str, form: Variant, settings: LookupSettings, stream: random.Random
) -> Callable[[int], Prompt]:
    reference = bool(settings.reference)
    make = prompter(
        records if reference and form.pool == "same" else None,
        task=task,
        variant=form,
        shots=settings.shots if settings.shots is not None else settings.num_shots or DEFAULT_SHOTS,
        seed=REFERENCE_SEED if reference else settings.seed,
        templates=settings.templates,
        reference=reference,
        model_type="instruct" if settings.model_type == "chat" else "base",
        rng=stream if reference else None,
    )
    if not reference:
        return lambda position: as_prompt(make(records[position]))
    made = [as_prompt(make(record)) for record in records]  # one stream of draws: all of them, in order
    return made.__getitem__


# ---- recorded completions ----


def recorded_completions(path: str | None) -> list[Row]:
    """Read recorded completions in the published format; a file of another kind has none."""
    if path is None or not Path(path).is_file():
        return []
    with open(path, encoding="utf-8-sig", errors="replace", opener=regular_file) as lines:
        try:
            first = json.loads(next((line for line in lines_of(lines, path) if line.strip()), "null"))
        except (ValueError, RecursionError):
            return []
    return completions(path) if isinstance(first, dict) and set(first) >= _RECORDED_FIELDS else []


def recorded_configurations(rows: Iterable[Row], tasks: Sequence[str]) -> Iterator[LookupConfiguration]:
    """Yield the configurations of recorded completions; a prompt that is recorded again is another reply."""
    groups: dict[tuple[str, str, int, str], list[Row]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        replica = seen[row["prompt"]]
        seen[row["prompt"]] += 1
        if row["task"] in tasks:
            context, _ = parts(row["input"])
            key = (
                str(parse_variant(row.get("variant", DEFAULT_VARIANT))),
                row["task"],
                len(context) + 1,
                Path(str(row.get("file", ""))).name or "recorded.jsonl",
            )
            groups.setdefault(key, []).append({**row, "replica": replica})
    if not groups:
        raise UsageError(f"the recording holds none of {', '.join(tasks)}")
    for (form, task, length, file), found in groups.items():
        prompts = [Prompt(row["prompt"]) for row in found]
        instruct = found[0].get("kind") == "instruct"
        rules = rules_for("instruct") if instruct else (*rules_for("base"), "first_word")
        yield LookupConfiguration(task, length, parse_variant(form), file, found, prompts.__getitem__, rules)


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
        recording = model.abilities.recording if isinstance(model, LanguageModel) else None
        replayed = None if recording is None else str(recording)
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

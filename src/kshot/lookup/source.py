"""Token lookup as Tasks: ``lookup`` or ``lookup:UR,UL,…``, by task × length × variant."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import Answers, Prompt, ResultRow, Sample, Value
from kshot.core.task import Task, TaskResult
from kshot.lookup.data import completions, parts, read
from kshot.lookup.generate import TASKS, file_name, generate, group_of
from kshot.lookup.prompts import as_prompt, prompter
from kshot.lookup.scoring import KINDS, chance, error_kind, gaps, rule, rules_for
from kshot.lookup.templates import VARIANTS, Variant, variant
from kshot.methods.generation import generate as generation
from kshot.metrics import Metric
from kshot.settings import Settings

LENGTHS = (10, 20, 30)
SAMPLES = 100
SHOTS = 5
VARIANT = "sep|small|simple_rule"
REFERENCE_SEED = 2025  # of the published stream of draws, whatever seed made the data
_MAX_TOKENS = {"base": 6, "chat": 32}
_RULES = {"first_word": "first word", "tolerant_tags": "tolerant"}
_MANY = 1000  # samples of which the chance level is estimated

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Cell:
    """One task at one length under one variant: its records, and the prompt of each."""

    task: str
    length: int
    form: Variant
    file: str
    records: Sequence[Record]
    prompt: Callable[[int], Prompt]


class Lookup(Metric):
    """Right or wrong by the rule that counts and those beside it, and the share of every kind of error."""

    bounds = (0.0, 100.0)

    def __init__(self, task: str, rules: Sequence[str]) -> None:
        """The first rule decides ``Accuracy`` and the kinds of error."""
        self.task = task
        self._rules = {
            f"Accuracy:{_RULES[name]}" if index else "Accuracy": rule(name) for index, name in enumerate(rules)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Accuracy by every rule, then the kinds of error."""
        return (*self._rules, *(f"error: {kind}" for kind in KINDS))

    @property
    def details(self) -> tuple[str, ...]:
        """All but ``Accuracy``: they break it down, or read the reply by another rule."""
        return tuple(name for name in self.names if name != "Accuracy")

    def predict(self, reply: str) -> str:
        """Read a reply by the rule that counts."""
        return self._rules["Accuracy"](reply)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Score one reply."""
        text, target = sample.fields["input"], sample.fields["target"]
        right = {name: 100.0 * (read_by(answer) == target) for name, read_by in self._rules.items()}
        kind = error_kind(text, self.task, self.predict(answer))
        return right | {f"error: {each}": 100.0 * (each == kind) for each in KINDS}


class _Records:
    """The samples of a cell, made anew on each pass."""

    def __init__(self, cell: _Cell, limit: int | None) -> None:
        self._cell, self._size = cell, min(len(cell.records), limit or len(cell.records))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sample]:
        for index in range(self._size):
            record = self._cell.records[index]
            text = str(record.get("input") or record[self._cell.form.input_field])
            target = str(record["target"] if "target" in record else record[self._cell.task])
            fields = {"input": text, "target": target, "position": index, "replica": record.get("replica", 0)}
            yield Sample(str(index), fields, Answers((target,)))


@dataclass(frozen=True, slots=True)
class LookupSource(Source[Settings]):
    """What ``-d lookup…`` names."""

    text: str

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """One Task per task × length × variant, in the order variants → tasks → lengths."""
        del facts  # nothing is found out with a model
        data = _data(settings)
        recorded = _recorded(data) or _recorded(_replayed(model))
        cells = _recorded_cells(recorded, self._chosen()) if recorded else self._cells(settings)
        for cell in cells:
            yield _task(cell, settings, recorded=bool(recorded))

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """The paired gaps: right against left, last against first, on the same records."""
        grid: dict[tuple[Any, ...], dict[str, TaskResult]] = {}
        for result in results:
            labels = result.task.labels
            grid.setdefault((labels["length"], labels["variant"]), {})[labels["lookup"]] = result
        for (length, form), by_task in grid.items():
            right = {
                name: dict(zip(t.positions, t.values.get("Accuracy", ()), strict=True)) for name, t in by_task.items()
            }
            for gap in gaps({task: {at: value > 0 for at, value in found.items()} for task, found in right.items()}):
                yield {
                    "task": f"lookup:{gap.better}-{gap.worse}:{length}:{form}",
                    "model": results[0].model,
                    "kind": "lookup",
                    "lookup": f"{gap.better}-{gap.worse}",
                    "length": length,
                    "variant": form,
                    "metric": f"gap: {gap.kind}",
                    "value": gap.difference,
                    "n": gap.records,
                    "failed": 0,
                    "ci95": None if gap.interval is None else list(gap.interval),
                    "p": gap.p,
                }

    def _chosen(self) -> tuple[str, ...]:
        _, _, text = self.label.partition(":")
        named = [name.strip() for name in text.split(",") if name.strip()]
        for name in named:
            group_of(name)
        return tuple(dict.fromkeys(named)) or tuple(task for tasks in TASKS.values() for task in tasks)

    def _cells(self, settings: Settings) -> Iterator[_Cell]:
        forms = [variant(text) for text in _variants(settings)]
        files = list(_files(settings, {group_of(task) for task in self._chosen()}))
        streams = {group: random.Random(REFERENCE_SEED) for group in TASKS}  # noqa: S311 - reproducible draws
        for form in forms:
            for task in self._chosen():
                for group, length, file, records in files:
                    if group == group_of(task):
                        read(records, task)  # every record must have an answer to it
                        prompt = _prompts(records, task, form, settings, streams[group])
                        yield _Cell(task, length, form, file, records, prompt)


def _data(settings: Settings) -> str | None:
    given = settings.data or ()
    if len(given) > 1:
        raise UsageError("token lookup takes one --data file", hint="Run the files one after the other.")
    return given[0] if given else None


def _variants(settings: Settings) -> Sequence[str]:
    asked = settings.variant or (VARIANT,)
    return VARIANTS if "all" in asked else tuple(dict.fromkeys(asked))


def _files(settings: Settings, groups: set[str]) -> Iterator[tuple[str, int, str, list[Record]]]:
    """The data: an existing file, or records made for every length."""
    data = _data(settings)
    if data is not None:
        records = read(data)
        by_length: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            group = "unique" if "UL" in record else "nonunique"
            by_length.setdefault((group, len(record["input_no_space"])), []).append(record)
        if not groups & {group for group, _ in by_length}:
            wanted = " and ".join(sorted(groups))
            raise UsageError(f"it holds no {wanted} records", where=data, hint="Choose tasks of the file's group.")
        for (group, length), found in by_length.items():
            yield group, length, Path(data).name, found
        return
    samples = settings.samples or settings.limit or SAMPLES
    for group in (name for name in TASKS if name in groups):
        for length in dict.fromkeys(settings.length or LENGTHS):
            made: list[Record] = [*generate(group, length, samples, settings.seed)]
            yield group, length, file_name(samples, length, settings.seed), made


def _prompts(
    records: Sequence[Record], task: str, form: Variant, settings: Settings, stream: random.Random
) -> Callable[[int], Prompt]:
    shots = settings.shots if settings.shots is not None else settings.num_shots or SHOTS
    reference = bool(settings.reference)
    make = prompter(
        records if reference and form.pool == "same" else None,
        task=task,
        variant=form,
        shots=shots,
        seed=REFERENCE_SEED if reference else settings.seed,
        templates=settings.templates,
        reference=reference,
        model_type="instruct" if settings.model_type == "chat" else "base",
        rng=stream if reference else None,
    )
    if not reference:
        return lambda index: as_prompt(make(records[index]))
    made = [as_prompt(make(record)) for record in records]  # one stream: in order, and all of them
    return made.__getitem__


def _task(cell: _Cell, settings: Settings, *, recorded: bool) -> Task[Any]:
    kind = settings.model_type
    rules = [*rules_for("instruct" if kind == "chat" else "base")]
    if recorded:
        rules = (
            ["between_tags", "tolerant_tags"]
            if cell.records[0].get("kind") == "instruct"
            else ["first_character", "first_word"]
        )
    metric = Lookup(cell.task, rules)
    stop = settings.stop if settings.stop is not None else (("\n",) if kind == "base" else ())
    sampling: dict[str, Any] = {"max_tokens": settings.max_tokens or _MAX_TOKENS[kind], "stop": stop}
    if settings.temperature:
        sampling |= {"temperature": settings.temperature, "seed": settings.seed}
    samples = _Records(cell, settings.limit)
    inputs = [sample.fields["input"] for sample, _ in zip(samples, range(_MANY), strict=False)]
    return Task(
        f"lookup:{cell.task}:{cell.length}:{cell.form}",
        samples,
        lambda sample, _: cell.prompt(sample.fields["position"]),
        lambda sample, prompt: generation(**sampling, replica=sample.fields["replica"])(sample, prompt),
        (metric,),
        labels={
            "lookup": cell.task,
            "length": cell.length,
            "variant": str(cell.form),
            "chance": 100 * chance(inputs, cell.task),
        },
        export=_exporter(cell, metric),
        kind="lookup",
    )


def _exporter(cell: _Cell, metric: Lookup) -> Callable[[Sample, Mapping[str, Any]], tuple[str, ResultRow]]:
    """Write results where and as the published ones are."""

    def export(sample: Sample, row: Mapping[str, Any]) -> tuple[str, ResultRow]:
        model = re.sub(r"[^A-Za-z0-9._-]+", "_", row["model"]).strip("_")
        path = f"results/{group_of(cell.task)}/{cell.task}/{model}/{cell.form.folder}/{cell.file}"
        reply = row["response"] if isinstance(row["response"], str) else ""
        prediction = metric.predict(reply)
        line: ResultRow = {
            "prediction": prediction,
            "full_output": reply,
            "input": sample.fields["input"],
            "target": sample.fields["target"],
            "prompt": row["prompt"],
            "correct": prediction == sample.fields["target"],
            "error": error_kind(sample.fields["input"], cell.task, prediction),
        }
        return path, line | ({"failed": row["failed"]} if "failed" in row else {})

    return export


# ---- recorded completions ----


def _replayed(model: Model | None) -> str | None:
    """Return the file of recorded completions that the model replays."""
    recording = model.abilities.recording if isinstance(model, LanguageModel) else None
    return None if recording is None else str(recording)


def _recorded(path: str | None) -> list[Record]:
    """Recorded completions in the published format, or nothing where the file holds something else."""
    if path is None or not Path(path).is_file():
        return []
    with Path(path).open(encoding="utf-8-sig", errors="replace") as lines:
        try:
            first = json.loads(next((line for line in lines if line.strip()), "null"))
        except (ValueError, RecursionError):
            return []
    known = isinstance(first, dict) and {"input", "target", "full_output", "prompt", "task"} <= set(first)
    return completions(path) if known else []


def _recorded_cells(rows: Iterable[Record], chosen: Sequence[str]) -> Iterator[_Cell]:
    grid: dict[tuple[str, str, int, str], list[Record]] = {}
    seen: Counter[str] = Counter()
    for given in rows:
        row = {**given, "replica": seen[given["prompt"]]}  # a prompt recorded again is another answer
        seen[given["prompt"]] += 1
        if row["task"] in chosen:
            context, _ = parts(row["input"])
            place = (
                str(variant(row.get("variant", VARIANT))),
                row["task"],
                len(context) + 1,
                Path(str(row.get("file", ""))).name or "recorded.jsonl",
            )
            grid.setdefault(place, []).append(row)
    if not grid:
        raise UsageError(f"the recording holds none of {', '.join(chosen)}")
    for (form, task, length, file), found in grid.items():
        prompts = [Prompt(row["prompt"]) for row in found]
        yield _Cell(task, length, variant(form), file, found, prompts.__getitem__)

"""What a run of token lookup asks: one task at one length under one variant, from generated, given or recorded data."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kshot.core.errors import UsageError
from kshot.core.records import Answers, Prompt, Row, Sample
from kshot.core.text_files import lines_of, regular_file
from kshot.lookup.data import completions, parts, read
from kshot.lookup.generate import TASKS, file_name, generate, group_of
from kshot.lookup.prompt_writer import VARIANTS, Variant, as_prompt, parse_variant, prompter
from kshot.lookup.scoring import rules_for
from kshot.lookup.settings import LookupSettings

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
    variants = [parse_variant(text) for text in _variants(settings)]
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


def _variants(settings: LookupSettings) -> Sequence[str]:
    given = settings.variant or (DEFAULT_VARIANT,)
    return VARIANTS if "all" in given else tuple(dict.fromkeys(given))


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

"""The run folders of shards: whether they are all there, whole, and parts of one run; and what they are together.

Folders may come from other machines and from anybody: they are read as data, and nothing in them is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError, UsageError
from kshot.core.memo import Offsets, address
from kshot.core.settings import Shard
from kshot.core.text_files import path_inside
from kshot.runs.code import KEY as CODE
from kshot.runs.folder import JOURNAL, RunFolder, differences, half_a_line, stored_answers
from kshot.runs.previews import Faults
from kshot.runs.run_state import is_working, state_of
from kshot.runs.samples_file import sample_rows
from kshot.runs.spec_file import SHARD_VERSIONS, read_spec, recorded_versions
from kshot.settings import Settings

_SHARD = "shard"
_MAX_NAMED = 5
"""Folders that one message names."""
_AGAIN = "The command of a shard continues it."


@dataclass(frozen=True, slots=True)
class ShardRun:
    """The run folder of one shard, with its ``spec.json``."""

    path: Path
    spec: Mapping[str, Any]
    shard: Shard

    def __str__(self) -> str:
        """Return how messages call it."""
        return f"shard {self.shard} ({self.path})"

    @property
    def identity(self) -> dict[str, Any]:
        """What the whole run is identified by."""
        return {name: value for name, value in self.spec["identity"].items() if name != _SHARD}


def read_shards(folders: Sequence[Path]) -> list[ShardRun]:
    """Read the folders of all shards of one run, and return them by number.

    Folders that do not belong together are an error that names the difference; so are shards that are missing, there
    twice, unfinished or damaged, and one message names them all.
    """
    if not folders:
        raise UsageError("there is no shard to merge", hint="Name the run folders of all shards.")
    faults = Faults()
    found: list[ShardRun] = []
    for folder in folders:
        with faults.collected():
            found.append(_read(folder))
    for other in found[1:]:
        check_same_run(found[0], other)
    with faults.collected():
        _check_numbers(found, unread=len(folders) - len(found))
    with faults.collected():
        _check_ended(found)
    for shard in found:
        with faults.collected():
            _check_journal(shard)
    faults.tell()
    return sorted(found, key=lambda each: each.shard.number)


def _read(folder: Path) -> ShardRun:
    spec = read_spec(folder)
    text = spec["identity"].get(_SHARD)
    if not isinstance(text, str):
        hint = "kshot run … --shard K/N makes shards."
        raise RunError("this run is no shard", where=str(folder), hint=hint)
    try:
        return ShardRun(folder, spec, Shard.parse(text, "the shard"))
    except UsageError as exc:
        hint = "kshot writes no such number; copy the folder of the shard again."
        raise RunError(exc.what, where=f"{folder}/spec.json", hint=hint) from exc


# ---- one run ----


def check_same_run(first: ShardRun, other: ShardRun) -> None:
    """Refuse a shard that is not a part of the same run as the first one; the message names the difference."""
    if other.shard.of != first.shard.of:
        raise _other(first, other, f"one of {other.shard.of} shards is not one of {first.shard.of}")
    if changes := differences(first.identity, other.identity):
        raise _other(first, other, "; ".join(changes))
    for name, facts in _FACTS.items():
        mine, theirs = facts(first.spec), facts(other.spec)
        for key in {**mine, **theirs}:
            if key in mine and key in theirs and mine[key] != theirs[key]:
                was, now = half_a_line(str(mine[key])), half_a_line(str(theirs[key]))
                raise _other(first, other, f"{name} {key} was {was}, is {now}")


def _other(first: ShardRun, other: ShardRun, what: str) -> RunError:
    hint = "Run the shards with one command, version of kshot, model and data, each into a folder of its own."
    return RunError(f"it is no part of the same run as {first}: {what}", where=str(other.path), hint=hint)


def _versions(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions of kshot that worked in a folder."""
    recorded = [spec.get("versions"), *(session.get("versions") for session in spec.get("sessions", ()))]
    found = {str(each["kshot"]) for each in recorded if isinstance(each, dict) and "kshot" in each}
    return {"of kshot": ", ".join(sorted(found))}


def _models(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{each['name']} ({each['role']})": each["fingerprint"] for each in spec.get("models", ())}


def _data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests of all samples, of the tasks that the shard has read to their ends."""
    records = {name: each for name, each in spec.get("data", {}).items() if isinstance(each, dict) and each.get("all")}
    return {name: f"{each.get('samples')} samples, {each.get('digest')}" for name, each in records.items()}


def _task_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of tasks on models, but for those of single samples: a shard knows its own ones."""
    return {
        f"{task} on {model}": {name: each for name, each in facts.items() if name not in _OF_SAMPLES}
        for model, tasks in spec.get("tasks", {}).items()
        for task, facts in _tasks(tasks).items()
    }


def _tasks(tasks: Any) -> dict[str, dict[str, Any]]:
    return {task: facts for task, facts in tasks.items() if isinstance(facts, dict)} if isinstance(tasks, dict) else {}


def _code(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = spec.get(CODE)
    return dict(found) if isinstance(found, dict) else {}


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are no part of the identity and yet matter: for what is asked, and for what it costs."""
    options = spec.get("options", {})
    return {name: options[name] for name in ("token_logprobs", *Settings.price_options()) if name in options}


_OF_SAMPLES = frozenset({"kept", "token_lengths"})
"""The facts of tasks that hold something of each sample, and grow while a shard runs."""
_FACTS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "the version": _versions,
    "the model": _models,
    "the data of": _data,
    "the recorded facts of": _task_facts,
    "the digest of": _code,
    "the option": _options,
    "the number of": lambda spec: {"planned samples": spec.get("planned_samples")},
}
"""What must be the same in all shards of a run, where they have recorded it."""


# ---- all of it ----


def _check_numbers(found: Sequence[ShardRun], unread: int) -> None:
    """Refuse shards that are there twice, and name the missing ones. ``unread``: some may be among the damaged ones."""
    seen: dict[int, ShardRun] = {}
    for each in found:
        if (earlier := seen.setdefault(each.shard.number, each)) is not each:
            what = f"shard {each.shard} is there twice: {earlier.path} and {each.path}"
            raise RunError(what, hint="Name the folder of each shard once.")
    if not found:
        return
    of = found[0].shard.of
    missing = of - len(seen)
    if missing:
        gaps = _gaps(sorted(seen), of)
        more = f", … and {len(gaps) - _MAX_NAMED} more gaps" if len(gaps) > _MAX_NAMED else ""
        shards, are = ("shard", "is") if missing == 1 else ("shards", "are")
        among = f" ({unread} of the folders cannot be read)" if unread else ""
        hint = "Run what is missing with --shard K/N, and name the folders of all shards."
        named = ", ".join(gaps[:_MAX_NAMED])
        raise RunError(f"{shards} {named}{more} of {of} {are} missing{among}", hint=hint)


def _gaps(present: Sequence[int], of: int) -> list[str]:
    """Return the numbers from 1 to ``of`` that are not present as a reader would write them: 3, 7–9."""
    ends = [0, *present, of + 1]
    gaps = [(before + 1, after - 1) for before, after in pairwise(ends) if after - before > 1]
    return [str(first) if first == last else f"{first}–{last}" for first, last in gaps]


def _check_ended(found: Iterable[ShardRun]) -> None:
    now = datetime.now(timezone.utc)
    open_ones = []
    for each in found:
        state = state_of(each.path, each.spec.get("sessions", ()), now, working=is_working(each.path))
        if state != "done":
            open_ones.append(f"{each}: {state}")
    if open_ones:
        more = f", … and {len(open_ones) - _MAX_NAMED} more" if len(open_ones) > _MAX_NAMED else ""
        what = "1 shard has" if len(open_ones) == 1 else f"{len(open_ones)} shards have"
        named = ", ".join(open_ones[:_MAX_NAMED])
        raise RunError(f"{what} not come to the end: {named}{more}", hint=_AGAIN)


def _check_journal(shard: ShardRun) -> None:
    if not path_inside(shard.path, JOURNAL).is_file():
        raise RunError(f"shard {shard.shard} has no journal", where=str(shard.path), hint=_AGAIN)
    with closing(stored_answers(shard.path)) as journal:
        if journal.notes:
            hint = "The command of this shard asks again for what is damaged."
            raise RunError(f"the journal of shard {shard.shard} is damaged: {journal.notes[0]}", hint=hint)


# ---- together ----


def joined_spec(shards: Sequence[ShardRun]) -> dict[str, Any]:
    """Return what ``spec.json`` says of the whole run."""
    first = shards[0].spec
    return {
        "identity": shards[0].identity,
        "options": {**first.get("options", {}), _SHARD: None},
        "models": list(first.get("models", ())),
        "tasks": _joined_tasks(shards),
        "data": dict(first.get("data", {})),
        CODE: {path: digest for each in shards for path, digest in _code(each.spec).items()},
        SHARD_VERSIONS: _joined_versions(shards),
        "spent": _sums([each.spec.get("spent") for each in shards]),
        **({"notes": first["notes"]} if "notes" in first else {}),
    }


def _joined_versions(shards: Sequence[ShardRun]) -> dict[str, str]:
    """Return what the shards used; machines may differ in versions of packages."""
    joined: dict[str, set[str]] = {}
    for shard in shards:
        for name, version in recorded_versions(shard.spec).items():
            joined.setdefault(name, set()).update(version.split(", "))
    return {name: ", ".join(sorted(several)) for name, several in joined.items()}


def _joined_tasks(shards: Sequence[ShardRun]) -> dict[str, Any]:
    """Join the facts of tasks: each shard knows those of its own samples."""
    joined: dict[str, Any] = {}
    for shard in shards:
        for model, tasks in shard.spec.get("tasks", {}).items():
            of_model = joined.setdefault(model, {})
            for task, facts in _tasks(tasks).items():
                before = of_model.get(task, {})
                of_model[task] = dict(facts)
                for name in _OF_SAMPLES & facts.keys():
                    found = {**before.get(name, {}), **facts[name]}
                    of_model[task][name] = dict(sorted(found.items(), key=_position))
    return joined


def _position(item: tuple[str, Any]) -> tuple[int, str]:
    return (int(item[0]) if item[0].isascii() and item[0].isdecimal() else 0, item[0])


def _sums(parts: Iterable[Any]) -> dict[str, Any]:
    """Return what all shards have spent: by role, counts of requests and tokens."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, dict):
                total[name] = _sums([total.get(name), value])
            elif type(value) is int and value >= 0 and type(total.get(name, 0)) is int:
                total[name] = total.get(name, 0) + value
    return total


def copy_answers(shards: Sequence[ShardRun], folder: RunFolder, progress: Callable[[int], None]) -> None:
    """Put the answers of all shards into a folder, and failures where no shard has an answer.

    Where two shards have asked the same, the answer of the first counts, and in a shard the last answer. The folder may
    have answers already: joining that was killed goes on, and what a shard answers otherwise now replaces them.
    """
    sources = Offsets()  # by the address of a key: the step that its response is from
    steps = [(failures, shard) for failures in (False, True) for shard in shards]
    for step, (failures, shard) in enumerate(steps):
        with closing(stored_answers(shard.path)) as journal:
            for record in journal.records():
                if record.failed is not failures:
                    continue
                place = address(record.key)
                if place not in sources:
                    sources[place] = step
                if sources.get(place) == step and folder.journal.get(record.key) != record.response:
                    folder.put(record.key, record.asked, record.response)
        progress(step + 1)


def shard_of(shards: Iterable[ShardRun], row: Mapping[str, Any]) -> ShardRun | None:
    """Return the shard that had a sample, by its row of ``samples.jsonl``; None if none lists it."""
    wanted = [row.get(name) for name in ("task", "model", "id")]
    for shard in shards:
        if any([each.get(name) for name in ("task", "model", "id")] == wanted for each in _rows(shard)):
            return shard
    return None


def _rows(shard: ShardRun) -> Iterator[Mapping[str, Any]]:
    try:
        yield from sample_rows(shard.path)
    except RunError:
        return  # the file is damaged; nothing is scored by it

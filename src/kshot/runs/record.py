"""What a run found, in memory or read back from its folder."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError
from kshot.core.failed_parts import failure_mark
from kshot.core.records import ResultRow
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.visible import metric_label, one_line
from kshot.runs.folder import SUMMARY, without_defaults
from kshot.runs.headline import failed_samples, first_figure, headline_figures, task_rows
from kshot.runs.samples_file import read_samples, sample_rows
from kshot.runs.spec_file import read_spec, reason_of
from kshot.runs.swept_rows import NUMERIC, SWEEP


@dataclass(repr=False)
class RunRecord:
    """What a run found: ``results`` and ``comparisons`` of ``summary.json``, ``samples`` of ``samples.jsonl``.

    ``settings`` are those of the run: its models and datasets, and every option that is not at its default.
    """

    results: list[ResultRow]
    notes: list[str]
    path: Path | None = None
    first_failures: list[str] = field(default_factory=list)
    comparisons: list[ResultRow] = field(default_factory=list)
    usage: list[ResultRow] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    _samples: list[ResultRow] | None = None

    def __repr__(self) -> str:
        """Return the folder, the first figure, and how many others there are; a notebook has room for a table."""
        figures = headline_figures(self.results)
        counts = {name: len({each[name] for each in figures}) for name in ("model", "task")}
        told = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items()]
        if first := first_figure(figures):
            value = "–" if first["value"] is None else f"{first['value']:.4g}"
            where = f" on {first['task']}, …" if len(figures) > 1 else ""
            told.append(f"{metric_label(first)} {value}{failure_mark(first)}{where}")
        if failed := failed_samples(self.results):
            told.append(f"{failed} failed")
        folder = "" if self.path is None else f" of {self.path}"
        return one_line(f"<{type(self).__name__}{folder}: {', '.join(told)}>")

    @property
    def samples(self) -> list[ResultRow]:
        """Every sample with its prompt, response, answer, target and scores."""
        if self._samples is None and self.path is not None:
            self._samples = read_samples(self.path)
        return self._samples or []

    def iter_samples(self) -> Iterator[ResultRow]:
        """Yield the samples one by one: those of a run folder are read as they are needed."""
        return sample_rows(self.path) if self._samples is None and self.path is not None else iter(self._samples or ())


def read_record(folder: str | Path) -> RunRecord:
    """Read a run folder back. A run that has not come to its end has no figures yet, which is an error."""
    path = Path(folder).expanduser()
    spec = read_spec(path)
    found = read_summary(path)
    if found is None:
        hint = "The command that started it continues it; kshot runs shows how far it came."
        why = reason_of(spec.get("sessions", []))
        what = "this run has not come to its end: it has no figures yet"
        raise RunError(f"{what} (its last session: {why})" if why else what, where=str(path), hint=hint)
    return RunRecord(
        found["results"],
        found.get("notes", []),
        path,
        comparisons=[_second_minus_first(row) for row in found.get("comparisons", []) if row.keys() >= _COMPARED],
        usage=found.get("usage", []),
        settings=without_defaults(spec["identity"]),
    )


def _second_minus_first(row: ResultRow) -> ResultRow:
    """Return a comparison whose difference is ``b`` minus ``a``; earlier it was the other way round, with ``wins``.

    Along the numbers of a sweep ``a`` was the larger value then: there the two change places.
    """
    if not row.keys() >= _EARLIER.keys():
        return row
    kept = {name: value for name, value in row.items() if name not in _EARLIER}
    if row.get(SWEEP) in NUMERIC:
        kept = {_OTHER_SIDE.get(name[:2], name[:2]) + name[2:]: value for name, value in kept.items()}
        return kept | {"won": row["wins"], "lost": row["losses"], "tied": row["ties"]}
    difference, ends = row["difference"], row["ci95"]
    kept |= {"difference": None if difference is None else -difference, "ci95": ends and [-ends[1], -ends[0]]}
    return kept | {name: row[earlier] for earlier, name in _EARLIER.items()}


_EARLIER = {"losses": "won", "wins": "lost", "ties": "tied"}
_OTHER_SIDE = {"a": "b", "b": "a", "a_": "b_", "b_": "a_"}


def read_summary(path: Path) -> dict[str, Any] | None:
    """Read the ``summary.json`` of a run folder, and check it; None if there is none yet."""
    place = path_inside(path, SUMMARY)
    try:
        return _checked_summary(parse_json(read_at_most(place)))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise RunError(f"it cannot be read: {exc.strerror or exc}", where=str(place)) from exc
    except ValueError as exc:
        hint = "kshot score writes it again from the journal."
        raise RunError("summary.json is damaged", where=str(path), hint=hint) from exc


_NUMBER = (int, float, type(None))
_LISTS = ("tasks", "left_out", "partly_failed")
"""The keys of averages that list names of parts."""
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("task", "model", "metric", "a", "b", "a_model", "b_model", "role", "rule"), (str,)),
    **dict.fromkeys(("category", "subset", "dataset", "benchmark", "lookup", "variant", "average"), (str,)),
    **dict.fromkeys(("kind", "chunks", "aggregate"), (str,)),
    **dict.fromkeys(("better", "worse", "error"), (str,)),
    "ahead": (str, type(None)),
    **dict.fromkeys(("n", "failed", "length", "family", "ties", "unanswered", "failed_replies"), (int,)),
    **dict.fromkeys(("wins", "losses", "won", "lost", "tied"), (int,)),
    **dict.fromkeys(("passages", "prompt_tokens", "completion_tokens", "cached_tokens", "requests"), (int,)),
    **dict.fromkeys(("value", "difference", "p", "p_corrected", "cost_usd", "sd", "lowest", "highest"), _NUMBER),
    **dict.fromkeys(("higher_is_better", "detail", "binary", "token_budget", "server"), (bool,)),
    **dict.fromkeys(("ci95", "bounds"), (list, type(None))),
    **dict.fromkeys(_LISTS, (list,)),
}
"""The types of what rows of ``summary.json`` have under these names."""
_NEEDED = {
    "results": {"task", "model", "metric", "value", "n", "failed", "ci95"},
    "comparisons": {"task", "metric", "a", "b", "difference", "ci95"},
    "usage": {"model", "role", "prompt_tokens", "completion_tokens"},
}
_COMPARED = {"a_model", "b_model", "higher_is_better", "p_corrected", "family", "ahead"}
"""What a comparison has since p is corrected; those of earlier versions are left out."""
_NEEDED_BY_KIND = {"lookup": {"lookup", "variant", "length"}, "passages": {"benchmark", "passages"}}


def _checked_summary(found: Any) -> dict[str, Any]:
    """Return what ``summary.json`` holds; what kshot would not have written is a ``ValueError``."""
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise ValueError("it has no results")  # noqa: TRY004 - as any other fault of a text
    for name, needed in _NEEDED.items():
        rows = found.get(name, [])
        if not isinstance(rows, list) or not all(_is_row(row, needed) for row in rows):
            raise ValueError(f"{name} are not rows")
    notes = found.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("notes are not texts")
    return found


def _is_row(row: Any, needed: AbstractSet[str]) -> bool:
    """Whether a row has what it needs, in the types that kshot writes. A list of runs asks this a million times."""
    if not isinstance(row, dict) or not row.keys() >= needed:
        return False
    for name, value in row.items():
        kinds = _TYPES.get(name)
        if kinds is not None and (type(value) not in kinds or (type(value) is int and _is_beyond(value))):
            return False
    return (
        row.keys() >= _NEEDED_BY_KIND.get(row.get("kind", ""), set())
        and _is_interval(row.get("ci95"), _ENDS)
        and _is_interval(row.get("bounds"), _BOUNDS)
        and all(type(part) is str for name in _LISTS for part in row.get(name, ()))
    )


def _is_beyond(value: int) -> bool:
    """Whether a whole number is too large to be computed with."""
    return abs(value) > _LARGEST


_LARGEST = 10**300
_ENDS = {int, float}
_BOUNDS = {int, float, type(None)}


def _is_interval(found: list[Any] | None, kinds: AbstractSet[type]) -> bool:
    if found is None:
        return True
    typed = len(found) == 2 and {type(end) for end in found} <= kinds  # noqa: PLR2004 - its two ends
    return typed and not any(type(end) is int and _is_beyond(end) for end in found)


def failure_line(task: str, model: str, failed: int, replies: int, first: str) -> str:
    """Say how many samples of a task failed, and why the first one did."""
    counts = {"failed": failed, "replies failed": replies}
    many = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{task} on {model}: {many} ({first})"


def first_failures(record: RunRecord) -> list[str]:
    """Return a line for each task with failures: of a run that was read back, from its samples, one after the other."""
    if record.first_failures or not any(any(_counts(row)) for row in record.results):
        return record.first_failures
    first: dict[tuple[str, str], str] = {}
    for sample in record.iter_samples():
        if sample.get("failed"):
            first.setdefault((str(sample.get("task")), str(sample.get("model"))), str(sample["failed"]))
    tasks: dict[tuple[str, str], ResultRow] = {}
    for row in task_rows(record.results):
        tasks.setdefault((row["task"], row["model"]), row)
    lost = {key: _counts(row) for key, row in tasks.items() if any(_counts(row))}
    unknown = "its samples do not say why"
    return [failure_line(*key, *counts, first.get(key, unknown)) for key, counts in lost.items()]


def _counts(row: ResultRow) -> tuple[int, int]:
    """Return how many samples and replies failed."""
    return row["failed"], row.get("failed_replies", 0)

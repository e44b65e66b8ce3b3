"""``merge``: the shards of a run become one run, with the files that one machine would have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kshot.core.arguments import checked_folder
from kshot.core.errors import RunError, UsageError
from kshot.core.task import TaskResult
from kshot.core.watcher import Watcher
from kshot.loggers import make_loggers
from kshot.rescoring import NamedAgain, recorded_settings, scored_run
from kshot.result import Result
from kshot.runs.folder import JOURNAL, RunFolder
from kshot.runs.shard_runs import ShardRun, copy_answers, joined_spec, read_shards, shard_of
from kshot.runs.spec_file import SPEC, read_spec
from kshot.runs.watchers import following

_MERGED = "merged"
"""Where ``spec.json`` says which folders were joined."""


def merge(
    runs: Sequence[str | Path],
    out: str | Path,
    dataset: Any = None,
    *,
    trust: str | Path | Sequence[str | Path] = (),
    dataset_path: str | Path | None = None,
    unsafe_programs: bool = False,
    log: str | Watcher | Sequence[str | Watcher] | None = None,
    watcher: Watcher | Sequence[Watcher] | None = None,
) -> Result:
    """Join the run folders of all shards of a run to one run in the folder ``out``, without its models.

    The shards stay as they are. The answers of all journals go into one, and are scored from there. ``dataset``,
    ``trust``, ``dataset_path`` and ``unsafe_programs`` are as in ``score``: shards may come from other machines, and
    their folders cannot choose code that runs here. ``log`` and ``watcher``: as in ``evaluate``.
    """
    if isinstance(runs, (str, Path)):
        raise UsageError(f"runs is {runs!r:.60}; it must be a list of run folders")
    folders = [checked_folder("a run", run) for run in runs]
    path = checked_folder("out", out)
    loggers = make_loggers(log)
    with following(watcher, loggers) as watching:
        shards = read_shards(_once(folders))
        _check_out(path, shards)
        spec = joined_spec(shards)
        result = scored_run(
            path,
            spec,
            recorded_settings(spec, shards[0].path),
            NamedAgain(dataset, trust, dataset_path, unsafe_programs=unsafe_programs),
            watching,
            fill=partial(_fill, shards=shards, spec=spec, watcher=watching),
            check=partial(_check_answers, shards=shards, path=path),
        )
    result.notes += [note for logger in loggers for note in logger.notes]
    return result


def _once(folders: Sequence[Path]) -> list[Path]:
    """Return the folders; one that is named twice, as patterns of a shell may do, is taken once."""
    return list({folder.resolve(): folder for folder in folders}.values())


def _check_out(path: Path, shards: Sequence[ShardRun]) -> None:
    """Refuse a folder that holds a run of its own; joining that was interrupted goes on."""
    if (path / SPEC).exists() and (path / JOURNAL).exists() and _MERGED not in read_spec(path):
        hint = "Choose another folder with --out."
        raise RunError("this folder holds a run that was not merged", where=str(path), hint=hint)
    inside = next((each.path for each in shards if each.path.resolve() in path.resolve().parents), None)
    if inside is not None:
        raise UsageError("--out lies in the run folder of a shard", where=str(path), hint="Choose another folder.")


def _fill(folder: RunFolder, *, shards: Sequence[ShardRun], spec: Mapping[str, Any], watcher: Watcher) -> None:
    """Describe the whole run in its folder, and put the answers of all shards there."""
    folder.write_spec(**spec, **{_MERGED: [str(each.path) for each in shards]})
    label, steps = "joining journals", 2 * len(shards)
    watcher.step(label, 0, steps)
    copy_answers(shards, folder, lambda done: watcher.step(label, done, steps))
    folder.journal.sync()


def _check_answers(results: Sequence[TaskResult], *, shards: Sequence[ShardRun], path: Path) -> None:
    """Refuse to finish a run to which an answer is missing: no figure may rest on a part of the samples."""
    for result in results:
        if not result.not_asked:
            continue
        sample, count = result.not_asked[0], len(result.not_asked)
        lost = shard_of(shards, {"task": result.task.name, "model": result.model, "id": sample})
        who = "no shard has" if lost is None else f"{lost} does not have"
        more = "" if count == 1 else f", nor have the shards all answers to {count - 1} others"
        raise RunError(
            f"{who} all answers to sample {sample} of {result.task.name} on {result.model}{more}",
            where=str(path),
            hint=f"The command of the shards, without --shard and with --out {path}, asks for what is missing.",
        )

"""Run files on the command line: ``kshot run suite.toml``, ``--save-run-file``; one ``--dataset-path`` per ``-d``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.core.errors import UsageError
from kshot.core.specs import option_text, parse_spec, split_options
from kshot.core.watcher import Watcher

if TYPE_CHECKING:
    import argparse

    from kshot.core.errors import OriginKind

SUFFIX = ".toml"
_OUTPUTS = ("out", "junit", "step_summary", "save_run_file")
"""Options that name what is written: it need not exist yet."""


@contextmanager
def applied(parsed: argparse.Namespace) -> Iterator[None]:
    """Add what a run file asks for to the arguments, and work in its folder; what the command line gives goes first."""
    files = [text for text in vars(parsed).get("config") or () if text.endswith(SUFFIX)]
    if not files:
        pair_paths(parsed)
        yield
        return
    if len(files) > 1:
        raise UsageError(f"{len(files)} run files are named: {', '.join(files)}", hint="Run one after the other.")
    from kshot.core.errors import written_at
    from kshot.run_files.reading import read_run_file

    parsed.config = [text for text in parsed.config if text not in files]
    file = read_run_file(Path(files[0]).expanduser())
    before = Path.cwd()
    folder = Path(os.path.realpath(file.folder))
    if folder != before.resolve():
        _rebase(parsed, before, folder)
        parsed.moved_to = str(folder)
    taken = _merge(parsed, file.values)
    origins = {(kind, text): place for (kind, text), place in file.origins.items() if _is_of(kind, text, taken)}
    os.chdir(folder)
    try:
        with written_at(origins):
            yield
    finally:
        os.chdir(before)


def _is_of(kind: OriginKind, text: str, taken: Collection[str]) -> bool:
    """Whether something of the file is part of the run; ``taken``: what the command line left to the file."""
    return kind == "file" or (text if kind in {"setting", "gate"} else kind) in taken


def _merge(parsed: argparse.Namespace, values: Mapping[str, Any]) -> set[str]:
    """Take each value of the file that the command line does not give, and that the command knows; return these."""
    from kshot.run_files.writing import is_given

    given = vars(parsed)
    evaluated = bool(given.get("config") or given.get("dataset"))
    taken: set[str] = set()
    for name, value in values.items():
        if name not in given or (evaluated and name in {"config", "dataset"}):
            continue  # preview has no gates; -d names other datasets in the place of all
        if not is_given(name, given[name]):
            setattr(parsed, name, value)
            taken.add(name)
    pair_paths(parsed)
    return taken


# ---- one path for each dataset ----


def pair_paths(parsed: argparse.Namespace) -> None:
    """Give each dataset the path that was given for it; one path is for all datasets."""
    given = vars(parsed)
    paths = given.get("dataset_path")
    if not isinstance(paths, list):
        return
    datasets = given.get("dataset") or []
    if len(paths) == 1:
        parsed.dataset_path = paths[0]
        return
    if len(paths) != len(datasets):
        raise UsageError(
            f"--dataset-path is given {len(paths)} times, and -d {len(datasets)} times",
            hint="Give one path for all datasets, or one for each -d in the same order.",
        )
    for text in datasets:
        if "dataset_path" in split_options(text)[1]:
            raise UsageError("the dataset has two paths: in its name, and by --dataset-path", where=text)
    parsed.dataset = [text + option_text({"dataset_path": path}) for text, path in zip(datasets, paths, strict=True)]
    parsed.dataset_path = None


# ---- the paths of a command, as seen from the folder of the file ----


def _rebase(parsed: argparse.Namespace, before: Path, folder: Path) -> None:
    """Write the relative paths that the command line gives so that they mean the same in the folder of the file."""
    for name, value in vars(parsed).items():
        if name in _OUTPUTS:
            if value:
                setattr(parsed, name, str(before / Path(value).expanduser()))
        elif isinstance(value, str):
            setattr(parsed, name, _rebased(value, before, folder))
        elif isinstance(value, (list, tuple)):
            items = [_rebased(each, before, folder) if isinstance(each, str) else each for each in value]
            setattr(parsed, name, type(value)(items))


def _rebased(text: str, before: Path, folder: Path) -> str:
    """Return a text whose path, if it names a file or folder that is there, starts from another folder."""
    head, options = split_options(text)
    spec = parse_spec(head)
    for path in (str(spec.file) if spec.file is not None else head, spec.argument, head.partition("=")[2]):
        if path and not Path(path).is_absolute() and os.path.lexists(before / path):
            moved = os.path.relpath(before / path, folder)
            changed = head.replace(path, moved, 1)
            return changed + option_text({key: _rebased(value, before, folder) for key, value in options.items()})
    return text


# ---- writing one ----


class RunFileWriter(Watcher):
    """Writes the run file of a command when the run starts: by then nothing is known to be wrong with the command."""

    def __init__(self, parsed: argparse.Namespace, file: str) -> None:
        """Make the text. A file that is there must not be lost if it says something else."""
        from kshot.run_files.writing import run_file_text

        self._path = Path(file).expanduser()
        if self._path.suffix != SUFFIX:
            raise UsageError(f"--save-run-file {file!r:.80} does not end in {SUFFIX}", hint="Name another file.")
        here, there = Path.cwd().resolve(), Path(os.path.realpath(self._path)).parent
        self._text = run_file_text(vars(parsed), "" if here == there else os.path.relpath(here, there))
        if self._path.exists() and not self._is_same():
            what = "there is a file already, and it differs from what this command would write"
            raise UsageError(what, where=str(self._path), hint="Remove it, or name another file.")

    def started(self, identity: Mapping[str, Any], path: Path | None) -> None:
        """Write the file."""
        del identity, path  # the file says what the command says
        self.write()

    def write(self) -> None:
        """Write the file, unless it is there."""
        from kshot.core.durable import OTHER_FILE, new_version

        if not self._path.exists():
            with new_version(self._path, otherwise=OTHER_FILE, fsync=False) as file:
                file.write(self._text)

    def _is_same(self) -> bool:
        from kshot.core.text_files import read_text

        try:
            return read_text(self._path) == self._text
        except (OSError, UnicodeDecodeError):
            return False

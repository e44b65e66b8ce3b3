"""Where rows come from: a file, a folder or a pattern of this machine, or a dataset on the hub."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kshot.core.errors import DataError
from kshot.tables.files import FILE_SUFFIXES, LocatedRow, check_text, read_located
from kshot.tables.hub import hub_splits, load_from_hub
from kshot.tables.loading import LocalRows, local_splits
from kshot.tables.splits import Rows, slice_rows, split_name

_EVALUATED = ("test", "validation", "valid", "val", "dev", "eval", "evaluation")
_SHOWN = ("train", "training", "examples", "dev", "validation", "valid", "val", "test")
WHOLE = "all"
"""What the split of a table without splits is called."""
_SLICED = re.compile(r"(?P<file>.*?)(?P<slice>\[[^\]]*\])?")


def is_local(place: str) -> bool:
    """Whether a place is on this machine: it exists, or is written as a path, a pattern or the name of a file."""
    written = place.startswith(("/", "./", "../", "~")) or "{split}" in place
    return written or place.lower().endswith(FILE_SUFFIXES) or Path(place).expanduser().exists()


class RowTables:
    """The tables of one dataset: split by split, from one place."""

    def __init__(self, place: str, subset: str | None) -> None:
        """``place`` is a local path, or the name of a dataset on the hub, which may have subsets."""
        self.place, self._subset = place, subset
        self.left_out = False  # whether empty rows at the end of a file were left out
        self._local = None
        if is_local(place):
            self._local = LocalRows(place, "", subset, check=_check_file, read=read_located, whole=WHOLE)

    def chosen_splits(self, evaluated: str | None, shown: str | None) -> tuple[str, str]:
        """Return the splits that are evaluated and that examples are taken from: the user's, else the usual ones."""
        if evaluated and shown:
            return evaluated, shown
        names = self._splits()
        usual = next((name for name in _EVALUATED if name in names), names[0] if names else WHOLE)
        others = next((name for name in _SHOWN if name in names and name != usual), usual)
        chosen = evaluated or usual
        return chosen, shown or (others if chosen == usual else chosen)

    def _splits(self) -> Sequence[str]:
        if self._local is None:
            return hub_splits(self.place, self._subset, self.place) or ("test",)
        _check_exists(self.place)
        return local_splits(self.place, (*_EVALUATED, *_SHOWN), _checked)

    def load(self, split: str) -> Rows:
        """Return the rows of a split; it may also be a file of its own, such as ``train.csv[:100]``."""
        parts = _SLICED.fullmatch(split)
        if parts is not None and parts["file"].lower().endswith(FILE_SUFFIXES):
            rows = _file_rows(parts["file"])
            found = slice_rows(rows, WHOLE + (parts["slice"] or ""), parts["file"])
        elif self._local is None:
            found = load_from_hub(self.place, self._subset, split, self.place)
        else:
            _check_exists(self.place)
            found = self._local.load(split)
        rows = _without_empty_end(found)
        self.left_out |= len(rows) < len(found)
        if not len(rows):
            raise _nothing(split, self.place)
        return rows


def _nothing(split: str, place: str) -> DataError:
    path = Path(place).expanduser()
    if path.is_file() and not path.read_bytes().strip():
        return DataError("the file is empty", where=f"{place}:1")
    if path.suffix.lower() in {".csv", ".tsv"} and split_name(split) == WHOLE:
        return DataError("below the header there are no rows", where=f"{place}:1")
    named = "" if split_name(split) == WHOLE else f" in the split {split!r}"
    return DataError(f"there are no rows{named}", where=place)


def _file_rows(file: str) -> Rows:
    _check_exists(file)
    found = _checked(Path(file).expanduser())
    if isinstance(found, Mapping):
        raise DataError(f"it has splits: {', '.join(found)}", where=file, hint="Name a file with one list of rows.")
    return found


def _checked(file: Path) -> Rows | Mapping[str, Rows]:
    _check_file(file)
    return read_located(file)


def _check_exists(place: str) -> None:
    path = Path(place).expanduser()
    if "{" in place or path.exists():
        return
    if path.is_symlink():
        raise DataError("this is a link that leads to no file", where=place)
    near = {each.stem.lower(): each for each in path.parent.iterdir()} if path.parent.is_dir() else {}
    close = difflib.get_close_matches(path.stem.lower(), list(near), 1)
    hint = f"Did you mean {str(near[close[0]])!r}?" if close else ""
    raise DataError("there is no such file or folder", where=place, hint=hint)


def _check_file(path: Path) -> None:
    """Refuse a file that is no table: its first bytes tell more than an error about its first line."""
    if path.suffix.lower() not in {".parquet", ".arrow"} and path.is_file():
        try:
            check_text(path)
        except OSError as exc:
            raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(path)) from exc


def _without_empty_end(rows: Rows) -> Rows:
    """Leave out rows at the end in which every cell is empty, as spreadsheets write them."""
    end = len(rows)
    while end and isinstance(rows[end - 1], LocatedRow) and not any(rows[end - 1].values()):
        end -= 1
    return rows if end == len(rows) else [rows[number] for number in range(end)]

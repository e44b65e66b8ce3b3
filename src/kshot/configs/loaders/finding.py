"""The rows at one place: in the layout of the entry's loader, or as files of rows, in raw or in final columns."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders import copies, custom, exams, maths, options, programs, science, texts
from kshot.configs.loaders.places import RowsNotAllowed, check_place, local_path, place_of
from kshot.configs.loaders.reading import ROW_FAULTS, DataPlace, Loader, MissingFileError, changed
from kshot.configs.names import merged, short
from kshot.configs.rows import Splits, all_rows, each_split
from kshot.configs.scope import located
from kshot.core.errors import DataError, KshotError
from kshot.core.records import Row
from kshot.tables.files import FILE_SUFFIXES, read_file
from kshot.tables.loading import get_raw_dataset_loader

LOADERS: dict[str, Loader] = merged(
    *(each.LOADERS for each in (exams, options, maths, programs, texts, science, copies, custom)),
)
"""The loaders that kshot has, by the name of the dataset class."""
_OF_FRAMEWORK: dict[str, dict[str, Loader]] = {"ais_bench": {"HLEDataset": custom.HLE}}
"""Classes of the same name that give other rows in one framework."""
HUB: dict[str, tuple[str, str | None]] = {
    "GSM8KDataset": ("openai/gsm8k", "main"),
    "ARCDataset": ("allenai/ai2_arc", "ARC-Challenge"),
    "MMLUDataset": ("cais/mmlu", None),
    "RaceDataset": ("ehovy/race", None),
    **dict.fromkeys(("BoolQDataset", "BoolQDatasetV2"), ("google/boolq", None)),
    **dict.fromkeys(
        ("WinograndeDataset", "WinograndeDatasetV2", "WinograndeDatasetV3"), ("allenai/winogrande", "winogrande_xl")
    ),
    **dict.fromkeys(
        ("HellaswagDataset", "HellaswagDataset_V2", "HellaswagDatasetwithICE"),
        ("Rowan/hellaswag", None),
    ),
    "OBQADataset": ("allenai/openbookqa", "main"),
    "commonsenseqaDataset": ("tau/commonsense_qa", None),
    "HumanevalDataset": ("openai/openai_humaneval", None),
}
"""The datasets on the hub, and their subsets, that stand for a loader's folder where there is none."""
SPELLINGS = {
    "dev": ("dev", "validation", "val"),
    "val": ("val", "validation", "dev"),
    "validation": ("validation", "val", "dev"),
}
"""How people call a split, the config's own name first."""


def loader_of(name: str, framework: str = "") -> Loader | None:
    """Return the loader of a dataset class; None where kshot has none."""
    return _OF_FRAMEWORK.get(framework, {}).get(name) or LOADERS.get(name)


def entry_loader(entry: DatasetEntry) -> Loader | None:
    """Return kshot's loader of an entry's dataset class; None where it has none."""
    kind = entry.scope.name(entry.get("type", ""))
    return loader_of(kind.last, kind.framework)


def split_names(entry: DatasetEntry) -> dict[str, bool]:
    """Return the splits that the entry reads, and whether each must exist."""
    reader = entry.reader_cfg
    return {str(reader.get("train_split") or "train"): False, str(reader.get("test_split") or "test"): True}


class _LookedAt(UserDict[str, Any]):
    """Options that record which of them were read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)


@dataclass(frozen=True)
class RowsFinder:
    """Reads the rows of an entry at one place. ``given``: the user names the place, so its rows may be final.

    ``check`` is called with every file that is read, and raises for what may not be.
    """

    entry: DatasetEntry
    check: Callable[[Path], object]
    given: bool = False

    @cached_property
    def loader(self) -> Loader | None:
        """The loader of the entry's dataset class."""
        return entry_loader(self.entry)

    @cached_property
    def columns(self) -> list[str]:
        """The columns that the entry reads."""
        return self.entry.columns

    def place(self, root: Path, hub: str = "") -> DataPlace:
        """Return what a loader reads with."""
        path = self.entry.get("path")
        named = {"path": local_path(path)} if isinstance(path, str) else {}
        framework = self.entry.scope.name(self.entry.get("type", "")).framework
        options = {**self.entry.body, **named}
        return DataPlace(root, options, split_names(self.entry), self.entry.place, self.check, framework, hub)

    def load(self, loader: Loader, root: Path, hub: str = "") -> Splits:
        """Return the rows that a loader reads, and note the keys of the entry that it did not read."""
        place = self.place(root, hub)
        options = _LookedAt(place.options)
        rows = loader.rows(replace(place, options=options))
        self.note_ignored(options.seen)
        return rows

    def note_ignored(self, taken: Container[str] = ()) -> None:
        """Note the keys of the entry that were not used to find its rows."""
        ignored = (key for key in self.entry.body if key not in taken and key not in ("path", "name"))
        kind = self.entry.get("type")
        self.entry.note_ignored(ignored, f"{short(kind)} of kshot" if kind else "kshot")

    # ---- a file or a folder ----

    def read(self, root: Path) -> Splits:
        """Return the rows: by the loader if its files are there, else of a file, or of a file for each split."""
        self.check(root)
        loader = self.loader
        if loader is None:
            rows = self._plain(root)
            if not self.given:
                self.note_ignored()
            return rows
        if self.given and loader.change is not None:
            final = self._final_rows(root)
            if final is not None:
                return final
        try:
            return self.load(loader, root)
        except RowsNotAllowed:
            raise
        except DataError as exc:
            return self._instead(root, exc)

    def _instead(self, root: Path, problem: DataError) -> Splits:
        """Return rows that are not in the loader's layout; without such rows, ``problem`` is what is wrong."""
        try:
            found = self.fitted(self._plain(root))
        except RowsNotAllowed:
            raise
        except DataError as exc:
            if not isinstance(problem, MissingFileError) or problem.hint:
                raise problem from exc
            kind = self.entry.scope.name(self.entry.get("type", "")).last
            hint = f"Give the folder that {kind} reads ({problem.what}: {problem.where}), a folder with train and test "
            hint += f"files ({', '.join(FILE_SUFFIXES)}), or one file of rows."
            raise DataError(exc.what, where=exc.where, hint=hint) from exc
        rows = all_rows(found)
        are_final = bool(rows) and all(name in row for row in rows for name in self.columns)
        if isinstance(problem, MissingFileError) or are_final:
            return found
        raise problem

    def _plain(self, root: Path) -> Splits:
        """Return the rows of a file, or of the files of a folder for each split."""
        if root.is_file():
            read = read_file(root)
            return read if isinstance(read, dict) else [*read]
        return self.pattern(str(root))

    def _final_rows(self, root: Path) -> Splits | None:
        """Return the rows of a file or a folder if there are some and all are final; None if they are not."""
        try:
            found = self._plain(root)
        except DataError:
            return None
        rows = all_rows(found)
        return found if rows and not any(self.is_raw(row) for row in rows) else None

    # ---- a pattern, or a folder with a file for each split ----

    def pattern(self, path: str) -> Splits:
        """Return the rows of each split below a folder, or at a pattern with ``{split}`` and ``{subset}``."""
        found: dict[str, Sequence[Row]] = {}
        for split, needed in split_names(self.entry).items():
            rows = self._split(path, split, needed=needed)
            if rows is not None:
                found[split] = rows
        return found

    def _split(self, path: str, split: str, *, needed: bool) -> Sequence[Row] | None:
        name = self.entry.get("name")
        load = get_raw_dataset_loader(self.entry.abbr, path, name if isinstance(name, str) else None, check=self.check)
        problem: KshotError | None = None
        for spelling in (split, *SPELLINGS.get(split.lower(), (split.lower(),))):
            try:
                return load(spelling)
            except RowsNotAllowed:  # noqa: PERF203 - the next spelling may do
                raise
            except DataError as exc:
                problem = problem or exc
        if needed and problem is not None:
            hint = f"Give a folder with train and test files ({', '.join(FILE_SUFFIXES)}), or one file of rows."
            place = path
            if "{" in path:  # a pattern: name what was looked for
                place = problem.where or path
                own = f" (here {name!r})" if isinstance(name, str) else " (it has none)"
                hint = f"In a pattern, {{split}} is the split of the config, and {{subset}} the name of the entry{own}."
            raise DataError(problem.what, where=f"{self.entry.place}: {place}", hint=hint) from problem
        return None

    # ---- raw and final rows ----

    def is_raw(self, row: Row) -> bool:
        """Whether a row has the form of the framework's files, not that which its loader gives."""
        loader = self.loader
        if loader is None or loader.change is None:
            return False
        if loader.is_raw is None:
            return any(name not in row for name in self.columns)
        try:
            return loader.is_raw(row)
        except ROW_FAULTS:
            return True  # the loader will name what is wrong

    def fitted(self, splits: Splits) -> Splits:
        """Give raw rows the columns that the loader gives; other rows stay as they are."""
        return each_split(splits, lambda rows: [new for row in rows for new in self._changed(row)])

    def _changed(self, row: Row) -> list[Row]:
        loader = self.loader
        if loader is None or not self.is_raw(row):
            return [row]
        try:
            return changed([row], loader.change, "")
        except DataError:
            return [row]  # reading the row will name what is missing


# ---- rows of a home's loader ----

_NOT_THE_LOADERS = ("type", "infer_cfg", "eval_cfg")
"""Keys of an entry that the frameworks remove before they make the loader from the others."""


def has_foreign_loader(entry: DatasetEntry) -> bool:
    """Whether the entry names a loader that kshot lacks and a home has."""
    if entry_loader(entry) is not None or not entry.get("type") or short(entry["type"]) == "HFDataset":
        return False
    return entry.scope.home("loader", entry.scope.name(entry["type"])) is not None


def foreign_rows(entry: DatasetEntry, place: Path | None = None) -> Splits:
    """Return the rows that the home's loader gives; ``place`` replaces the path that the config names."""
    name = entry.scope.name(entry["type"])
    home = entry.scope.homes[name.framework]
    options = {key: value for key, value in entry.body.items() if key not in _NOT_THE_LOADERS}
    found = place if place is not None else _named_place(entry)
    if found is not None:
        options["path"] = str(found.resolve())
    try:
        with located(entry.place):
            rows, not_taken = home.rows(name.whole, options, [] if found is None else [found])
            if place is not None and "path" in not_taken:
                raise DataError(f"it takes no path, so it cannot read {place}")
    except KshotError as exc:
        exc.what = f"{name.last} of {home.title} gives no rows: {exc.what}"
        exc.hint = f"{exc.hint} {final_rows_hint(entry)}".strip()
        raise
    entry.note_ignored([key for key in not_taken if key in entry], f"{name.last} of {home.title}")
    return rows


def final_rows_hint(entry: DatasetEntry) -> str:
    """Say how rows are given that need no loader."""
    return f"Or give the rows in final columns: --data {entry.abbr}=FILE_OR_FOLDER."


def _named_place(entry: DatasetEntry) -> Path | None:
    """Return the place that the config names, where kshot finds it and the config may name it."""
    path = entry.get("path")
    if not isinstance(path, str) or not path:
        return None
    place = place_of(entry, path)
    if not place.exists():
        return None
    check_place(entry, place)
    return place


def missing_column(entry: DatasetEntry, splits: Splits) -> str:
    """Return a column that the entry reads and that rows do not have; an empty text if no loader is needed."""
    parts: Sequence[Any] = list(splits.values()) if isinstance(splits, Mapping) else [splits]
    return next((column for rows in parts for row in rows[:1] for column in entry.columns if column not in row), "")

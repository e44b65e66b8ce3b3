"""Where the rows of a dataset come from: a local path if there is one, else the hub.

A local path is a file, a folder in one of the usual layouts, or a pattern with {subset} and {split}.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.text_files import leaves_folder
from kshot.tables.files import FILE_SUFFIXES, Rows, read_file, slice_rows, split_name
from kshot.tables.hub import hub_subsets, is_saved_copy, load_from_hub, load_saved_copy

FileReader: TypeAlias = Callable[[Path], "Rows | Mapping[str, Rows]"]
"""Reads a file: its rows, or the rows of each split."""

_MAX_NAMES = 12
"""A message lists at most this many names of files."""


class LocalRows:
    """The rows of one dataset below a local path, split by split.

    A file without splits may serve one split only: examples drawn from the evaluated rows would give the answers away.
    """

    def __init__(
        self,
        path: str,
        dataset: str,
        subset: str | None,
        check: Callable[[Path], object] = Path,
        read: FileReader = read_file,
        *,
        whole: str | None = None,
    ) -> None:
        """``path`` is a file, a folder or a pattern; a folder may have subfolders for the dataset and the subset.

        ``check`` is called with everything that is read, and raises for what may not be; ``read`` reads a file.
        ``whole``: what rows without splits are called; None: by any name, such as that which a class gives its split.
        """
        self._path, self._dataset, self._subset, self._check, self._read = path, dataset, subset, check, read
        self._whole = whole
        self._served: dict[Path, str] = {}  # files without splits, and the split that each one served

    def load(self, split: str) -> Rows:
        """Return the rows of one split; a slice such as ``test[:100]`` is applied."""
        name = split_name(split)
        for part, what in ((self._dataset, "dataset"), (self._subset or "", "subset"), (name, "split")):
            _check_name(part, what, self._path)
        root = Path(self._path.replace("{subset}", self._subset or "").replace("{split}", name)).expanduser()
        if not root.exists():
            raise DataError("there is no such file or folder", where=str(root))
        self._check(root)
        if root.is_file():
            return slice_rows(self._one_split(self._read(root), root, name), split, str(root))
        if not root.is_dir():
            raise DataError("this is neither a file nor a folder, but a pipe or a device", where=str(root))
        for folder in _candidate_folders(root, self._dataset, self._subset):
            if is_saved_copy(folder):
                for file in folder.rglob("*"):
                    self._check(file)
                return slice_rows(self._one_split(load_saved_copy(folder), folder, name), split, str(folder))
            files = _files_of_split(folder, self._subset, name)
            if files:
                for file in files:
                    self._check(file)
                rows = [row for file in files for row in _split_of(self._read(file), file, name)]
                return slice_rows(rows, split, str(folder))
        raise self._no_file(root, name)

    def _one_split(self, found: Rows | Mapping[str, Rows], place: Path, split: str) -> Rows:
        """Return the rows of one split; rows without splits serve the first split that is asked for."""
        if isinstance(found, Mapping) or "{split}" in self._path:
            return _split_of(found, place, split)
        if self._whole not in (None, split):
            hint = f"Leave it out, or name a slice of all rows: {self._whole}[5:]."
            raise DataError(f"it has no splits, so there is no {split!r}", where=str(place), hint=hint)
        served = self._served.setdefault(place, split)
        if served != split:
            raise DataError(
                f"it has no splits, so it cannot be both {served!r} and {split!r}",
                where=str(place),
                hint="Give a pattern (--dataset-path 'DIR/{split}.jsonl'), or two slices of one split "
                "(--evaluation-set 'test[5:]' --example-set 'test[:5]').",
            )
        return found

    def _no_file(self, root: Path, split: str) -> DataError:
        names = ", ".join(sorted(path.name for path in root.iterdir())[:_MAX_NAMES]) or "nothing"
        subset = f" of subset {self._subset!r}" if self._subset else ""
        return DataError(
            f"there is no file for split {split!r}{subset} (the folder has: {names})",
            where=str(root),
            hint="Give a pattern: --dataset-path 'DIR/{subset}/{split}.jsonl'.",
        )


def _check_name(name: str, what: str, path: str) -> None:
    """Refuse the name of a part that lies elsewhere: rows are read below the path that the user gave."""
    if leaves_folder(name):
        raise DataError(f"the {what} {name!r} would leave this folder", where=path, hint="Give a name without '..'.")


def local_subsets(path: str, dataset: str, split: str) -> list[str] | None:
    """Return the subsets below a local path.

    An empty list means that the rows there have no subsets, None that the path does not say.
    """
    name = split_name(split)
    if not name:
        return None
    for part, what in ((dataset, "dataset"), (name, "split")):
        _check_name(part, what, path)
    if "{subset}" in path:
        return _subsets_of_pattern(path.replace("{split}", name)) or None
    root = Path(path.replace("{split}", name)).expanduser()
    if root.is_file():
        return []
    for folder in _candidate_folders(root, dataset, None):
        if _files_of_split(folder, None, name) or is_saved_copy(folder):
            return []
        below = sorted(path for path in folder.iterdir() if path.is_dir())
        found = [path.name for path in below if is_saved_copy(path) or _files_of_split(path, path.name, name)]
        if found:
            return found
    return None


def local_splits(path: str, names: Iterable[str], read: FileReader = read_file) -> list[str]:
    """Return the splits below a local path, those of a folder or a pattern among ``names``; none: it has none."""
    if "{split}" in path:
        return [name for name in dict.fromkeys(names) if Path(path.replace("{split}", name)).expanduser().exists()]
    root = Path(path).expanduser()
    if root.is_dir() and not is_saved_copy(root):
        return [name for name in dict.fromkeys(names) if _files_of_split(root, None, name)]
    if root.suffix.lower() not in {".json", ""}:
        return []  # only a JSON file or a saved copy can have splits
    found = load_saved_copy(root) if root.is_dir() else read(root)
    return list(found) if isinstance(found, Mapping) else []


def _split_of(found: Rows | Mapping[str, Rows], place: Path, split: str) -> Rows:
    if not isinstance(found, Mapping):
        return found
    if split not in found:
        raise DataError(f"it has no split {split!r}, only {', '.join(found)}", where=str(place))
    return found[split]


def _candidate_folders(root: Path, dataset: str, subset: str | None) -> list[Path]:
    candidates = [root / (dataset or "."), root]
    if subset:
        candidates = [folder / subset for folder in candidates] + candidates
    return [folder for folder in dict.fromkeys(candidates) if folder.is_dir()]


def _files_of_split(folder: Path, subset: str | None, split: str) -> list[Path]:
    """Return the files of a split, by the names that people and the hub give them."""
    name = glob.escape(split)
    stems = [name, f"{name}-[0-9]*", f"data/{name}-[0-9]*", f"data/{name}", f"{name}/[0-9]*"]
    if subset:
        prefix = glob.escape(subset)
        stems = [f"{prefix}_{name}", f"{prefix}-{name}", f"{name}_{prefix}", *stems]
    for stem in stems:
        for suffix in FILE_SUFFIXES:
            found = sorted(folder.glob(f"{stem}{suffix}"))
            if found:
                return found
    return []


def _subsets_of_pattern(pattern: str) -> list[str]:
    """Return the values of ``{subset}`` for which the pattern names something that exists."""
    pattern = str(Path(pattern).expanduser())  # as Path writes it: no ~, no ./, no double slashes
    before, after = pattern.split("{subset}", 1)
    root = Path(before) if before.endswith("/") else Path(before or ".").parent
    expression = re.compile(
        re.escape(pattern).replace(re.escape("{subset}"), "(?P<s>[^/]+)", 1).replace(re.escape("{subset}"), "(?P=s)")
    )
    depth = "/".join(["*"] * (after.count("/") + 1))
    found = (expression.fullmatch(str(path)) for path in (root.glob(depth) if root.is_dir() else ()))
    return sorted({match["s"] for match in found if match})


HUB_PACKAGES = ("datasets",)
"""What reading rows from the hub needs."""


def get_raw_dataset_loader(  # noqa: PLR0917 - dataset classes call it by position
    dataset_name: str = "",
    dataset_path: str | Path | None = None,
    subset_name: str | None = None,
    load_args: tuple[str, ...] | None = None,
    check: Callable[[Path], object] = Path,
    load_kwargs: Mapping[str, Any] | None = None,
) -> Callable[[str], Rows]:
    """Return a function from split to rows: from ``dataset_path`` if it is given, else as ``load_args`` say.

    ``load_kwargs`` are more arguments of ``datasets.load_dataset``, for rows from the hub.
    ``check`` is called with every local file and folder that is read, and raises for what may not be.
    """
    subset = subset_name or "".join((load_args or ())[1:2]) or None
    path = _local_path(dataset_path, load_args)
    local = LocalRows(path, dataset_name, subset, check) if path is not None else None

    def load(split: str) -> Rows:
        if local is not None:
            parts = [local.load(part) for part in split.split("+")]
            return parts[0] if len(parts) == 1 else [row for part in parts for row in part]
        if not load_args:
            raise DataError(
                "nothing says where its rows come from",
                where=f"dataset {dataset_name}",
                hint="Set load_args, override load_raw_dataset, or give --dataset-path.",
            )
        return load_from_hub(load_args[0], subset, split, f"dataset {dataset_name}", load_kwargs)

    return load


def row_packages(dataset_path: str | Path | None, load_args: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the packages of kshot's extras that reading rows from there needs, as far as the name tells."""
    path = _local_path(dataset_path, load_args)
    if path is None:
        return HUB_PACKAGES if load_args else ()
    return ("pyarrow",) if path.lower().endswith(".parquet") else ()


def discover_subsets(
    dataset_path: str | None, name: str, load_args: tuple[str, ...] | None, split: str | None
) -> list[str] | None:
    """Find the subsets when the user names none: folders of a local copy, or the hub's configurations.

    An empty list means that the rows there have no subsets, None that they are unknown.
    """
    path = _local_path(dataset_path, load_args)
    if path is not None:
        return local_subsets(path, name, split or "")
    return hub_subsets(load_args[0], f"dataset {name}") if load_args and len(load_args) == 1 else None


def _local_path(dataset_path: str | Path | None, load_args: tuple[str, ...] | None) -> str | None:
    """Return the path to read; ``load_args`` name one if it exists, is a pattern, or is written as a path."""
    if dataset_path is not None:
        return str(dataset_path)
    if not load_args:
        return None
    name = load_args[0]
    written = name.startswith(("/", "./", "../", "~")) or "{" in name or name.lower().endswith(FILE_SUFFIXES)
    return name if written or Path(name).expanduser().exists() else None

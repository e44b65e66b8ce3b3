"""Rows of a dataset: from files, folders and patterns, from local copies of the hub, or from the hub itself."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError, MissingExtra
from kshot.tables.files import KINDS, load_raw_dataset_from_file, read_file

__all__ = [
    "Later",
    "Row",
    "Rows",
    "discover_subsets",
    "get_raw_dataset_loader",
    "load_raw_dataset_from_file",
    "slice_rows",
]

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]

_SPLIT = re.compile(r"^(?P<name>[^\[\]+]+)(?:\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\])?$")


def slice_rows(rows: Rows, split: str, where: str = "") -> Rows:
    """Apply the slice of a split such as ``test[:100]`` or ``train[10%:20%]``."""
    parts = _SPLIT.match(split.strip())
    if parts is None:
        raise DataError(
            f"the split {split!r} cannot be read", where=where, hint="Write test, test[:100] or test[10%:20%]."
        )
    size = len(rows)
    start, stop = (_bound(parts[name], size) for name in ("start", "stop"))
    if start is None and stop is None:
        return rows
    chosen = range(size)[start:stop]
    return rows.select(chosen) if hasattr(rows, "select") else [rows[i] for i in chosen]


def _bound(text: str | None, size: int) -> int | None:
    if text is None:
        return None
    return round(int(text[:-1]) * size / 100) if text.endswith("%") else int(text)


def _split_name(split: str) -> str:
    parts = _SPLIT.match(split.strip())
    return (parts["name"] if parts else split).strip()


class Later(Sequence[Row]):
    """Rows that are read when somebody first looks at them."""

    def __init__(self, load: Callable[[], Rows]) -> None:
        self._load = load
        self._rows: Rows | None = None

    def _read(self) -> Rows:
        if self._rows is None:
            self._rows = self._load()
        return self._rows

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read())


def get_raw_dataset_loader(
    dataset_name: str = "",
    dataset_path: str | Path | None = None,
    subset_name: str | None = None,
    load_args: tuple[str, ...] | None = None,
) -> Callable[[str], Rows]:
    """Give a function from split to rows: from ``dataset_path`` if there is one, else as ``load_args`` say."""
    served: dict[Path, str] = {}  # files without splits, and the split each stands for
    subset = subset_name or "".join((load_args or ())[1:2]) or None
    path = _local_path(dataset_path, load_args)

    def load(split: str) -> Rows:
        if path is not None:
            parts = [_local_split(path, dataset_name, subset, part, served) for part in split.split("+")]
            return parts[0] if len(parts) == 1 else [row for part in parts for row in part]
        if not load_args:
            raise DataError(
                "nothing says where its rows come from",
                where=f"dataset {dataset_name}",
                hint="Set load_args, override load_raw_dataset, or give --dataset-path.",
            )
        return _hub(load_args[0], subset, split, f"dataset {dataset_name}")

    return load


def _local_path(dataset_path: str | Path | None, load_args: tuple[str, ...] | None) -> str | None:
    """Give the path to read; ``load_args`` name one if it exists, is a pattern, or is written as a path is."""
    if dataset_path is not None:
        return str(dataset_path)
    if not load_args:
        return None
    name = load_args[0]
    written = name.startswith(("/", "./", "../", "~")) or "{" in name or name.lower().endswith(KINDS)
    return name if written or Path(name).expanduser().exists() else None


def _local_split(path: str, name: str, subset: str | None, split: str, served: dict[Path, str]) -> Rows:
    """Rows of one split below a local path."""
    plain = _split_name(split)
    root = Path(path.replace("{subset}", subset or "").replace("{split}", plain)).expanduser()
    if not root.exists():
        raise DataError("there is no such file or folder", where=str(root))
    if root.is_file():
        return slice_rows(_from_file(root, plain, served if "{split}" not in path else {}), split, str(root))
    for folder in _folders(root, name, subset):
        if _is_saved(folder):
            return slice_rows(_saved(folder, plain, served if "{split}" not in path else {}), split, str(folder))
        files = _files_of(folder, subset, plain)
        if files:
            rows = [row for file in files for row in _from_file(file, plain, {})]
            return slice_rows(rows, split, str(folder))
    there = ", ".join(sorted(p.name for p in root.iterdir())[:12]) or "nothing"
    of = f" of subset {subset!r}" if subset else ""
    raise DataError(
        f"no file for split {plain!r}{of} (there is: {there})",
        where=str(root),
        hint="Give a pattern: --dataset-path 'DIR/{subset}/{split}.jsonl'.",
    )


def _folders(root: Path, name: str, subset: str | None) -> list[Path]:
    candidates = [root / (name or "."), root]
    if subset:
        candidates = [folder / subset for folder in candidates] + candidates
    return [folder for folder in dict.fromkeys(candidates) if folder.is_dir()]


def _files_of(folder: Path, subset: str | None, split: str) -> list[Path]:
    """Files that hold a split, by the names people and the hub give them."""
    part = glob.escape(split)
    stems = [part, f"{part}-[0-9]*", f"data/{part}-[0-9]*", f"data/{part}", f"{part}/[0-9]*"]
    if subset:
        one = glob.escape(subset)
        stems = [f"{one}_{part}", f"{one}-{part}", f"{part}_{one}", *stems]
    for stem in stems:
        for kind in KINDS:
            found = sorted(folder.glob(f"{stem}{kind}"))
            if found:
                return found
    return []


def _from_file(file: Path, split: str, served: dict[Path, str]) -> Rows:
    found = read_file(file)
    if not isinstance(found, Mapping):
        return _only(found, file, split, served)
    if split not in found:
        raise DataError(f"no split {split!r}, only {', '.join(found)}", where=str(file))
    return found[split]


def _only(rows: Rows, place: Path, split: str, served: dict[Path, str]) -> Rows:
    """Let rows without splits stand for one: examples drawn from the evaluated rows would give the answers away."""
    first = served.setdefault(place, split)
    if first != split:
        raise DataError(
            f"it has no splits: it cannot be both {first!r} and {split!r}",
            where=str(place),
            hint="Give a pattern (--dataset-path 'DIR/{split}.jsonl'), or two slices of one split "
            "(--evaluation-set 'test[5:]' --example-set 'test[:5]').",
        )
    return rows


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as exc:
        raise MissingExtra("datasets", "datasets", "loading Hugging Face datasets") from exc
    datasets.disable_progress_bars()
    return datasets


def _is_saved(folder: Path) -> bool:
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def _saved(folder: Path, split: str, served: dict[Path, str]) -> Rows:
    """Rows of a folder written by ``save_to_disk``."""
    found = _datasets().load_from_disk(str(folder))
    if not hasattr(found, "keys"):
        return _only(found, folder, split, served)
    if split not in found:
        raise DataError(f"no split {split!r}, only {', '.join(found)}", where=str(folder))
    return found[split]  # type: ignore[no-any-return]


def _hub(name: str, config: str | None, split: str, where: str) -> Rows:
    library = _datasets()
    try:
        return library.load_dataset(name, config, split=split)  # type: ignore[no-any-return]
    except (OSError, ValueError, RuntimeError, LookupError) as exc:
        raise _not_loaded(name, where, exc) from exc


def _not_loaded(name: str, where: str, exc: Exception) -> DataError:
    first = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
    return DataError(
        f"{name!r} cannot be loaded from the hub: {first}",
        where=where,
        hint="Use a local copy with --dataset-path FILE_OR_FOLDER.",
    )


def discover_subsets(
    dataset_path: str | None, name: str, load_args: tuple[str, ...] | None, split: str | None
) -> list[str] | None:
    """Find the subsets when none was named: folders of a local copy, or the hub's configurations.

    An empty list says that the rows there have no subsets; None that nothing can be told.
    """
    path = _local_path(dataset_path, load_args)
    if path is None:
        return _hub_subsets(load_args[0], f"dataset {name}") if load_args and len(load_args) == 1 else None
    plain = _split_name(split or "")
    if "{subset}" in path:
        return _matched(path.replace("{split}", plain)) or None
    root = Path(path.replace("{split}", plain)).expanduser()
    if root.is_file():
        return []
    for folder in _folders(root, name, None):
        if _files_of(folder, None, plain) or _is_saved(folder):
            return []
        below = sorted(p for p in folder.iterdir() if p.is_dir())
        found = [p.name for p in below if _is_saved(p) or _files_of(p, p.name, plain)]
        if found:
            return found
    return None


def _matched(pattern: str) -> list[str]:
    """List the values of ``{subset}`` for which the pattern names something that exists."""
    pattern = str(Path(pattern).expanduser())  # as Path writes it: no ~, no ./, no double slashes
    before, after = pattern.split("{subset}", 1)
    root = Path(before) if before.endswith("/") else Path(before or ".").parent
    expression = re.compile(
        re.escape(pattern).replace(re.escape("{subset}"), "(?P<s>[^/]+)", 1).replace(re.escape("{subset}"), "(?P=s)")
    )
    depth = "/".join(["*"] * (after.count("/") + 1))
    found = (expression.fullmatch(str(path)) for path in (root.glob(depth) if root.is_dir() else ()))
    return sorted({match["s"] for match in found if match})


def _hub_subsets(name: str, where: str) -> list[str] | None:
    try:
        names: list[str] = _datasets().get_dataset_config_names(name)
    except ConnectionError as exc:  # the loader would wait as long and fail too
        raise _not_loaded(name, where, exc) from exc
    except (OSError, ValueError, RuntimeError, LookupError):
        return None  # the loader's own error says more
    return [] if len(names) < 2 else sorted(names)  # noqa: PLR2004


def first_rows(rows: Rows, limit: int) -> Rows:
    """The first rows of a list, or of a Hugging Face dataset without reading the rest."""
    return rows.select(range(limit)) if hasattr(rows, "select") else list(islice(rows, limit))

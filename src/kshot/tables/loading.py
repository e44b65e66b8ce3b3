"""Where the rows of a dataset come from: a local path if there is one, else the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.tables.files import FILE_SUFFIXES
from kshot.tables.folders import LocalRows, local_subsets
from kshot.tables.hub import hub_subsets, load_from_hub
from kshot.tables.splits import Rows

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

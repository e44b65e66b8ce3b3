"""Rows that the Hugging Face library reads: from the hub, and from local copies that ``save_to_disk`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import import_package
from kshot.tables.splits import Rows


def load_from_hub(name: str, subset: str | None, split: str, where: str) -> Rows:
    """Load one split of a dataset on the hub."""
    library = _datasets_library()
    try:
        rows: Rows = library.load_dataset(name, subset, split=split)
    except (OSError, ValueError, RuntimeError, LookupError) as exc:
        raise _not_loaded(name, where, exc) from exc
    return rows


def hub_subsets(name: str, where: str) -> list[str] | None:
    """Return the subsets of a dataset on the hub: none where it has a single one, None where the hub does not say."""
    try:
        names: list[str] = _datasets_library().get_dataset_config_names(name)
    except ConnectionError as exc:  # loading would wait as long, and fail too
        raise _not_loaded(name, where, exc) from exc
    except (OSError, ValueError, RuntimeError, LookupError):
        return None  # the error of loading says more
    return sorted(names) if len(names) > 1 else []


def is_saved_copy(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote this folder."""
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def load_saved_copy(folder: Path) -> Rows | Mapping[str, Rows]:
    """Load a folder that ``save_to_disk`` wrote: its rows, or the rows of each split."""
    library = _datasets_library()
    try:
        found: Rows | Mapping[str, Rows] = library.load_from_disk(str(folder))
    except Exception as exc:  # a damaged copy can raise anything in the library
        hint = "Save it again with save_to_disk."
        raise DataError(
            f"this saved dataset cannot be loaded: {_first_line(exc)}", where=str(folder), hint=hint
        ) from exc
    return found


def _datasets_library() -> Any:
    datasets = import_package("loading Hugging Face datasets", "datasets")
    datasets.disable_progress_bars()
    return datasets


def _not_loaded(name: str, where: str, exc: Exception) -> DataError:
    return DataError(
        f"{name!r} cannot be loaded from the hub: {_first_line(exc)}",
        where=where,
        hint="Use a local copy with --dataset-path FILE_OR_FOLDER.",
    )


def _first_line(exc: Exception) -> str:
    return str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__

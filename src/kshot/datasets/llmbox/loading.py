"""LLMBox's function that loads rows, which some files call themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.tables.loading import get_raw_dataset_loader
from kshot.tables.splits import LazyRows, Rows


def raw_dataset_loader(
    dataset_name: str = "",
    dataset_path: str | None = None,
    subset_name: str | None = None,
    load_args: tuple[str, ...] | None = None,
    load_kwargs: Mapping[str, Any] | None = None,
    *,
    return_msg: bool = False,
) -> Any:
    """Return a function from split to rows; with ``return_msg`` also a text that says where they come from."""
    load = get_raw_dataset_loader(dataset_name, dataset_path, subset_name, load_args, load_kwargs=load_kwargs)

    def rows(split: str) -> Rows:
        if dataset_path is None:  # a file may ask the hub for examples that nothing shows
            return LazyRows(lambda: load(split))
        return [dict(row) for row in load(split)]

    place = dataset_path or "/".join(load_args or (dataset_name,))
    return (rows, f"{dataset_name} from {place}") if return_msg else rows

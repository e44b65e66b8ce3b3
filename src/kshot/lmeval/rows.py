"""Where the rows of a task come from: the user's files, files beside the task, the hub, or a function of the task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError, KshotError
from kshot.core.records import Row
from kshot.core.text_files import leaves_folder
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import Functions
from kshot.tables.files import read_file
from kshot.tables.hub import load_from_urls
from kshot.tables.loading import get_raw_dataset_loader

FILE_KINDS = ("json", "csv", "parquet")
"""What ``dataset_path`` says of a task that lists its files."""
_URL_STARTS = ("https://", "http://", "hf://")
_IGNORED_OPTIONS = ("trust_remote_code", "streaming", "data_files")
_HUB_PLACES = ("data_files", "data_dir")
_OWN_PLACES = ("cache_dir", "storage_options", "download_config", "save_infos", "token")
"""What the library that lm-eval uses would take from a task, and is not the task's to say."""
_DATA_FOLDER = "data"
"""The folder, below the current one, in which a task may name files, as in its own tree."""


class TaskRows(Mapping[str, Sequence[Row]]):
    """The raw rows of a task by split; a split is read when it is first asked for."""

    def __init__(self, config: TaskConfig, functions: Functions, given: str | None = None) -> None:
        """``given``: the file, folder or pattern that the user names for the task."""
        self._config, self._functions, self._given = config, functions, given
        self._loaded: dict[str, Sequence[Row]] = {}
        self._made: dict[str, list[Row]] | None = None
        name = config.dataset_name
        self._local = get_raw_dataset_loader(str(config.task or ""), given, None if name is None else str(name), None)

    def __contains__(self, split: object) -> bool:
        """Answer yes: only reading a split tells whether it is there."""
        return isinstance(split, str)

    def __getitem__(self, split: str) -> Sequence[Row]:
        if split not in self._loaded:
            try:
                self._loaded[split] = self._load(split)
            except KshotError as exc:
                if self._given is None and self._config.custom_dataset is None:
                    exc.hint = f"Give its rows: --data {self._config.task}=FILE_OR_FOLDER."
                raise
        return self._loaded[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def _load(self, split: str) -> Sequence[Row]:
        config = self._config
        if self._given is not None:
            return self._local(split)
        if config.custom_dataset is not None:
            return self._custom(split)
        files = (config.dataset_kwargs or {}).get("data_files")
        if config.dataset_path in FILE_KINDS:
            return self._listed(split, files)
        place = local_place(config, config.dataset_path)
        if place is not None:
            return self._at_place(split, place, files)
        return self._hub(split)

    def _custom(self, split: str) -> Sequence[Row]:
        """Let the task's own function make the splits, once."""
        config = self._config
        if self._made is None and config.custom_dataset is not None:
            options = {**(config.metadata or {}), **(config.dataset_kwargs or {})}
            self._made = self._functions.splits(config.custom_dataset, options)
        return _one_of(self._made or {}, split, config.where("custom_dataset"))

    def _listed(self, split: str, files: Any) -> Sequence[Row]:
        """Read ``data_files``: a file, several, or some for each split."""
        config, where = self._config, self._config.where("dataset_kwargs")
        names = _files_of(files, split, where)
        if all(name.startswith(_URL_STARTS) for name in names):
            options = {
                key: value for key, value in (config.dataset_kwargs or {}).items() if key not in _IGNORED_OPTIONS
            }
            return load_from_urls(str(config.dataset_path), names, where, options)
        found: list[Row] = []
        for name in names:
            place = local_place(config, name)
            if place is None:
                raise DataError(f"the task names the file {name}, which is not here", where=where)
            found += _rows_of(place, split, str(place))
        return found

    def _at_place(self, split: str, place: Path, files: Any) -> Sequence[Row]:
        """Read a file or folder that the task names as its dataset."""
        if files is None:
            name = self._config.dataset_name
            subset = None if name is None else str(name)
            return get_raw_dataset_loader("", place, subset, None, partial(check_place, self._config))(split)
        found: list[Row] = []
        for each in _files_of(files, split, self._config.where("dataset_kwargs")):
            found += _rows_of(check_place(self._config, place / each), split, str(place / each))
        return found

    def _hub(self, split: str) -> Sequence[Row]:
        config = self._config
        if not config.dataset_path:
            raise DataError(
                "the task does not say where its rows are (dataset_path)", where=config.where("dataset_path")
            )
        name = config.dataset_name
        args = (config.dataset_path,) if name is None else (config.dataset_path, str(name))
        options = {key: value for key, value in (config.dataset_kwargs or {}).items() if key != "trust_remote_code"}
        options.pop("streaming", None)
        options.pop("features", None)  # a description of the columns, which the rows have anyway
        _check_hub_options(options, config.where("dataset_kwargs"))
        check = partial(check_place, config)
        load = get_raw_dataset_loader(str(config.task or ""), None, None, args, check, load_kwargs=options)
        return load(split)


def hub_name(config: TaskConfig, given: str | None) -> str | None:
    """Return the dataset on the hub whose rows a run would ask for; None: they are elsewhere."""
    if given is not None or config.custom_dataset is not None or not config.dataset_path:
        return None
    if config.dataset_path in FILE_KINDS or local_place(config, config.dataset_path) is not None:
        return None
    return config.dataset_path if config.dataset_name is None else f"{config.dataset_path} ({config.dataset_name})"


def row_packages(config: TaskConfig, given: str | None) -> tuple[str, ...]:
    """Return the packages of kshot's extras that the rows of a task need, as far as their place tells."""
    if config.process_docs is not None or config.custom_dataset is not None:
        return ("datasets",)  # the functions get its tables
    if given is not None:
        return ("pyarrow",) if given.lower().endswith(".parquet") else ()
    named = config.dataset_path in FILE_KINDS or local_place(config, config.dataset_path) is not None
    return () if named else ("datasets",)


def _rows_of(place: Path, split: str, where: str) -> Sequence[Row]:
    read = read_file(place)
    return read if isinstance(read, list) else _one_of(read, split, where)


def _one_of(found: Mapping[str, Sequence[Row]], split: str, where: str) -> Sequence[Row]:
    if split not in found:
        raise DataError(f"there is no split {split!r}, only {', '.join(found) or 'none'}", where=where)
    return found[split]


def _files_of(files: Any, split: str, where: str) -> list[str]:
    """Return the files of a split; without splits all files are ``train``, as in the library that lm-eval uses."""
    by_split = files if isinstance(files, Mapping) else {"train": files}
    given = by_split.get(split)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        what = f"data_files lists no file for the split {split!r}"
        raise DataError(what, where=where, hint=f"It has: {', '.join(map(str, by_split))}.")
    return names


def _check_hub_options(options: Mapping[str, Any], where: str) -> None:
    """Refuse options of a dataset on the hub that name places of this machine, to read from or to write to."""
    for key, value in options.items():
        if key in _OWN_PLACES:
            raise DataError(f"dataset_kwargs has {key}, which a task may not choose", where=where)
        for text in _texts(value) if key in _HUB_PLACES else ():
            if leaves_folder(text) or text.startswith("~") or text.partition("://")[0].lower() == "file":
                raise DataError(f"{key} of dataset_kwargs names {text!r:.200}, outside the dataset", where=where)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


# ---- places that a task may name ----


def local_place(config: TaskConfig, text: str | None) -> Path | None:
    """Return the file or folder that a task names: seen from its own folder, then from the current one; None: neither.

    An organisation and a name on the hub look like a path too, so only what is there counts.
    """
    if not text or "\0" in text:
        return None
    places = [config.path.parent / text, Path.cwd() / text]
    found = next((place for place in places if os.path.exists(place)), None)  # noqa: PTH110 - any text is allowed
    return None if found is None else check_place(config, found)


def check_place(config: TaskConfig, place: Path) -> Path:
    """Refuse a place outside the task's tree: a stranger's file must not send any file of this machine to a model."""
    try:
        real = place.resolve()
    except (ValueError, RuntimeError) as exc:  # a zero byte; links that lead in a circle
        where = config.where("dataset_path")
        raise DataError(f"the task names rows at {str(place)!r:.200}, which is no path", where=where) from exc
    allowed = [config.path.parent, Path.cwd() / _DATA_FOLDER, *([config.root] if config.root is not None else [])]
    if not any(real.is_relative_to(folder.resolve()) for folder in allowed):
        raise DataError(
            f"the task names rows at {real}, outside its own tree",
            where=config.where("dataset_path"),
            hint=f"If they may be read: --data {config.task}={real}.",
        )
    return real

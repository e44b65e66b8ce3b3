"""Rows that the Hugging Face library reads: from the hub, and from local copies that ``save_to_disk`` wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import import_package
from kshot.core.hub import hub_is_unreachable
from kshot.core.text_files import check_regular, leaves_folder, parse_json, read_at_most
from kshot.tables.files import Rows

_OFFLINE = "HF_HUB_OFFLINE"
_SPLITS, _STATE, _INFO = "dataset_dict.json", "state.json", "dataset_info.json"


def load_from_hub(name: str, subset: str | None, split: str, where: str, more: Mapping[str, Any] | None = None) -> Rows:
    """Load one split of a dataset on the hub.

    ``more`` are further arguments of ``load_dataset``; a ``partial`` among them makes its argument when it is needed.
    """
    library = _datasets_library()
    _check_on_hub(name, where)
    given = {key: value() if isinstance(value, partial) else value for key, value in (more or {}).items()}
    return _loaded(partial(library.load_dataset, name, subset, split=split, **given), library, name, where)


def load_from_urls(kind: str, files: Sequence[str], where: str, more: Mapping[str, Any] | None = None) -> Rows:
    """Load the rows of files on the web or the hub (``https://``, ``hf://``) that are of one kind, such as ``json``."""
    library = _datasets_library()
    load = partial(library.load_dataset, kind, data_files={"rows": list(files)}, split="rows", **(more or {}))
    return _loaded(load, library, files[0], where)


def _loaded(load: Callable[[], Any], library: Any, name: str, where: str) -> Rows:
    """Load rows; an error says what could not be loaded."""
    try:
        with _without_waiting(library):
            rows = load()
    except Exception as exc:  # the library, and the code of a dataset, can raise anything
        raise _not_loaded(name, where, exc) from exc
    return _without_decoding(rows)


def hub_subsets(name: str, where: str) -> list[str] | None:
    """Return the subsets of a dataset on the hub: none where it has a single one, None where the hub does not say."""
    names = _names(where, "get_dataset_config_names", name)
    return names and (sorted(names) if len(names) > 1 else [])


def hub_splits(name: str, subset: str | None, where: str) -> list[str]:
    """Return the splits of a dataset on the hub; none where the hub does not say."""
    return _names(where, "get_dataset_split_names", name, subset) or []


def _names(where: str, question: str, name: str, *more: str | None) -> list[str] | None:
    """Ask the library for names on the hub by one of its functions; None where the hub does not say."""
    library = _datasets_library()
    _check_on_hub(name, where)
    try:
        with _without_waiting(library):
            names: list[str] = getattr(library, question)(name, *more)
    except ConnectionError as exc:  # loading would wait as long, and fail too
        raise _not_loaded(name, where, exc) from exc
    except Exception:  # noqa: BLE001 - as in loading them, whose error says more
        return None
    return names


def _check_on_hub(name: str, where: str) -> None:
    """Refuse the name of a reader of the library, such as ``text``: it would read the files of this folder."""
    if name.isidentifier() and find_spec(f"datasets.packaged_modules.{name}") is not None:
        hint = "Use a local copy with --dataset-path FILE_OR_FOLDER."
        raise DataError(f"{name!r} is a kind of file, not a dataset on the hub", where=where, hint=hint)


def is_saved_copy(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote this folder."""
    return (folder / _SPLITS).exists() or (folder / _STATE).exists()


def load_saved_copy(folder: Path) -> Rows | Mapping[str, Rows]:
    """Load a folder that ``save_to_disk`` wrote: its rows, or the rows of each split."""
    library = _datasets_library()
    try:
        for state_name, part in _parts(folder):
            _check_part(part, state_name)
        found: Rows | Mapping[str, Rows] = library.load_from_disk(str(folder.resolve()))
    except Exception as exc:  # a damaged copy can raise anything in the library
        hint = "Save it again with save_to_disk."
        raise DataError(
            f"this saved dataset cannot be loaded: {_first_line(exc)}", where=str(folder), hint=hint
        ) from exc
    if isinstance(found, Mapping):
        return {split: _without_decoding(rows) for split, rows in found.items()}
    return _without_decoding(found)


def _parts(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders of a saved copy, each with the name of its state: one for each split, or the folder itself."""
    if "::" in str(folder.resolve()):
        raise ValueError("'::' in its path joins file systems for the library that reads it")
    if (folder / _STATE).exists():
        yield _STATE, folder
    if (folder / _SPLITS).exists():
        for split in _read(folder / _SPLITS)["splits"]:
            _check_plain(split, _SPLITS)
            yield f"{split}/{_STATE}", folder / split


def _check_part(folder: Path, state_name: str) -> None:
    """Refuse rows that lie elsewhere: the library reads whatever files the state names."""
    check_regular(folder / _INFO)
    state = _read(folder / _STATE)
    for key in ("_data_files", "_indices_data_files"):
        for file in state.get(key) or ():
            _check_plain(file["filename"], state_name)
            check_regular(folder / file["filename"])


def _check_plain(name: Any, where: str) -> None:
    if not isinstance(name, str) or leaves_folder(name) or Path(name).name != name or not name or "::" in name:
        raise ValueError(f"{where} names {name!r}, which is no name of a file in its folder")


def _read(file: Path) -> dict[str, Any]:
    content = parse_json(read_at_most(file))
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} is no object")  # noqa: TRY004 - the file is damaged, not the call
    return content


def _without_decoding(rows: Any) -> Rows:
    """Leave images, audio and the like as they are stored: decoding opens any file that a row names."""
    info = getattr(rows, "info", None)
    if info is not None:
        _keep_stored(info.features)  # what ``rows.features`` returns is a copy
        rows = rows.with_format(None)
    kept: Rows = rows
    return kept


def _keep_stored(feature: Any) -> None:
    if isinstance(feature, (dict, list, tuple)):
        for each in feature.values() if isinstance(feature, dict) else feature:
            _keep_stored(each)
    elif hasattr(feature, "feature"):  # a list of the library
        _keep_stored(feature.feature)
    elif hasattr(feature, "decode"):
        feature.decode = False


def _datasets_library() -> Any:
    datasets = import_package("loading Hugging Face datasets", "datasets")
    datasets.disable_progress_bars()
    return datasets


@contextmanager
def _without_waiting(library: Any) -> Iterator[None]:
    """Let the library look into its cache alone where the hub cannot be reached: it would try again for a minute."""
    modules = [getattr(library, "config", None), sys.modules.get("huggingface_hub.constants")]
    switches = [each for each in modules if hasattr(each, _OFFLINE)] if hub_is_unreachable() else []
    before = [getattr(each, _OFFLINE) for each in switches]
    try:
        for each in switches:
            setattr(each, _OFFLINE, True)
        yield
    finally:
        for each, was in zip(switches, before, strict=True):
            setattr(each, _OFFLINE, was)


def _not_loaded(name: str, where: str, exc: Exception) -> DataError:
    unreachable = isinstance(exc, ConnectionError) and hub_is_unreachable()
    why = "it cannot be reached, and the cache has no such rows" if unreachable else _first_line(exc)
    return DataError(
        f"{name!r} cannot be loaded from the hub: {why}",
        where=where,
        hint="Use a local copy with --dataset-path FILE_OR_FOLDER.",
    )


def _first_line(exc: Exception) -> str:
    return str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__

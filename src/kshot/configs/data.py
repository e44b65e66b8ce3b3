"""Where the rows of a config's entry come from: ``--data``, its ``path``, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.names import short
from kshot.configs.project import NotAllowed
from kshot.configs.rows import Splits
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.records import Row
from kshot.tables.files import FILE_SUFFIXES, read_file
from kshot.tables.loading import get_raw_dataset_loader

_DATA_FOLDERS = ("data", "ais_bench/datasets")
"""Where the frameworks keep data, below the working directory."""
_SPELLINGS = {
    "dev": ("dev", "validation", "val"),
    "val": ("val", "validation", "dev"),
    "validation": ("validation", "val", "dev"),
}


def read_data(texts: Sequence[str]) -> dict[str, str]:
    """Return the places that ``KEY=FILE_OR_FOLDER`` options name, by key."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, place = text.partition("=")
        if not sign or not key or not place:
            raise UsageError(f"--data {text!r} cannot be read", hint="Write --data NAME=FILE_OR_FOLDER.")
        if found.setdefault(key, place) != place:
            raise UsageError(f"--data {key}=… is given twice, with different places")
    return found


def splits_of(entry: DatasetEntry, data: Mapping[str, str] | None = None, default: str | None = None) -> Splits:
    """Find the rows of an entry: in the user's ``data`` by its abbr, name or loader; at its ``path``; on the hub.

    The user may name any place. A config may name places in its project, and where the frameworks keep data.
    """
    named = data or {}
    given = next((named[key] for key in names_of(entry) if key in named), default)
    if given is not None:
        return _adapted(entry, _local(entry, Path(given).expanduser(), check=Path))
    listed = _listed_files(entry)
    if listed is not None:
        return _adapted(entry, listed)
    path = entry.get("path")
    place = _place(entry, path) if isinstance(path, str) else None
    if place is not None and (place.is_file() or place.is_dir()):
        return _adapted(entry, _local(entry, place, check=partial(_check, entry)))
    return _adapted(entry, _hub(entry))


def _place(entry: DatasetEntry, path: str) -> Path:
    """Return the place that a config names: seen from the current folder, or else from the root of its project."""
    try:
        here = Path(path).expanduser()
    except RuntimeError:  # a ~ of somebody who is not known here
        here = Path(path)
    if entry.project is None or here.is_file() or here.is_dir():
        return here
    inside = entry.project.root / here
    return inside if inside.is_file() or inside.is_dir() else here


class RowsNotAllowed(DataError):  # noqa: N818 - it names what is wrong
    """Rows that a config may not name."""


def _check(entry: DatasetEntry, place: Path) -> None:
    """Refuse a place that a config names and that is not its own; a dict of the user's own may name any."""
    if entry.project is None:
        return
    try:
        entry.project.check(place, also=[Path.cwd() / folder for folder in _DATA_FOLDERS])
    except NotAllowed as exc:
        folders = " or ".join(f"./{folder}" for folder in _DATA_FOLDERS)
        raise RowsNotAllowed(
            f"the config names rows at {exc}",
            where=entry.place,
            hint=f"It may name rows in its project or in {folders}. If these may be read: --data {entry.abbr}={place}.",
        ) from exc


def names_of(entry: DatasetEntry) -> list[str]:
    """Return the names by which ``--data`` may mean an entry."""
    found = [entry.abbr, entry.get("name"), short(entry.get("type", "")), entry.get("path")]
    return [str(key) for key in found if isinstance(key, str) and key]


def _split_names(entry: DatasetEntry) -> dict[str, bool]:
    """Return the splits that the entry reads, and whether each must exist."""
    reader = entry.reader_cfg
    return {str(reader.get("train_split") or "train"): False, str(reader.get("test_split") or "test"): True}


def _local(entry: DatasetEntry, place: Path, check: Callable[[Path], object]) -> Splits:
    if not place.exists():
        raise DataError("there is no such file or folder", where=str(place))
    check(place)
    if place.is_file():
        read = read_file(place)
        return read if isinstance(read, dict) else [*read]
    found: dict[str, Sequence[Row]] = {}
    for split, needed in _split_names(entry).items():
        rows = _split(entry, place, split, check, needed=needed)
        if rows is not None:
            found[split] = rows
    return found


def _split(
    entry: DatasetEntry, place: Path, split: str, check: Callable[[Path], object], *, needed: bool
) -> Sequence[Row] | None:
    subset = entry.get("name") if isinstance(entry.get("name"), str) else None
    problem: KshotError | None = None
    for spelling in (split, *_SPELLINGS.get(split.lower(), (split.lower(),))):
        try:
            return get_raw_dataset_loader(entry.abbr, place, subset, check=check)(spelling)
        except RowsNotAllowed:  # noqa: PERF203 - the next spelling may do
            raise
        except DataError as exc:
            problem = problem or exc
    if needed and problem is not None:
        kinds = ", ".join(FILE_SUFFIXES)
        hint = f"Give a folder with train and test files ({kinds}), or one file of rows."
        raise DataError(problem.what, where=f"{entry.place}: {place}", hint=hint) from problem
    return None


def _listed_files(entry: DatasetEntry) -> dict[str, list[Row]] | None:
    """Read ``dict(type=HFDataset, path='json', data_files=…)``: a file, several, or some for each split."""
    files = entry.get("data_files")
    if not files or entry.get("path") not in ("json", "csv", "parquet"):
        return None
    named = files if isinstance(files, Mapping) else {str(entry.get("split") or "train"): files}
    found: dict[str, list[Row]] = {}
    for split, given in named.items():
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, Sequence) or not all(isinstance(file, str) for file in listed):
            what = f"data_files must name a file, several, or some for each split, not {given!r:.80}"
            raise DataError(what, where=entry.place)
        for file in listed:
            place = _place(entry, file)
            if not place.is_file():
                hint = f"Give its rows: --data {entry.abbr}=FILE_OR_FOLDER."
                raise DataError("there is no such file", where=f"{entry.place}: {place}", hint=hint)
            _check(entry, place)
            read = read_file(place)
            found.setdefault(str(split), []).extend(read if isinstance(read, list) else read.get(str(split), []))
    return found


def _hub(entry: DatasetEntry) -> Mapping[str, Sequence[Row]]:
    kind = short(entry.get("type", "?"))
    path, name = entry.get("path"), entry.get("name")
    known = HUB.get(kind)
    if known is None and kind != "HFDataset":
        lacking = f"kshot has no loader {kind}" if kind != "?" else "it names no loader (type)"
        raise DataError(
            f"{lacking}, and " + ("it has no path" if path is None else f"its path {path!r} is not here"),
            where=entry.place,
            hint=f"Give its rows: --data {entry.abbr}=FILE_OR_FOLDER (train and test as jsonl, json, csv or parquet).",
        )
    hub, subset = known if known is not None else (str(path), None)
    subset = str(name) if isinstance(name, str) else subset
    load = get_raw_dataset_loader(entry.abbr, None, None, (hub, subset) if subset else (hub,), partial(_check, entry))
    found: dict[str, Sequence[Row]] = {}
    for split, needed in _split_names(entry).items():
        spelled = _SPELLINGS.get(split.lower(), (split.lower(),))
        try:
            found[split] = load("validation" if "validation" in spelled else spelled[0])
        except KshotError as exc:
            if needed:
                exc.hint = f"Give its rows: --data {entry.abbr}=FILE_OR_FOLDER."
                raise
    return found


# ---- rows of the hub, in the columns that the frameworks' loaders give them ----


def _lettered(row: Row, options: Sequence[Any], names: str = "ABCD") -> dict[str, Any]:
    return {**row, **dict(zip(names, options, strict=False))}


def _arc(row: Row) -> Row:
    texts, labels = row["choices"]["text"], list(row["choices"]["label"])
    named = {f"text{letter}": text for letter, text in zip("ABCD", texts, strict=False)}
    return {"question": row["question"], **named, "answerKey": "ABCD"[labels.index(row["answerKey"])]}


def _mmlu(row: Row) -> Row:
    return _lettered({"input": row["question"], "target": "ABCD"[int(row["answer"])]}, row["choices"])


def _race(row: Row) -> Row:
    return _lettered(row, row["options"])


def _boolq(row: Row) -> Row:
    return {**row, "label": "A" if row["answer"] else "B"}


def _winogrande(row: Row) -> Row:
    whole = {f"opt{i}": row["sentence"].replace("_", row[f"option{i}"]) for i in (1, 2)}
    alone = {f"only_option{i}": row[f"option{i}"] for i in (1, 2)}
    return {
        **row,
        **whole,
        **alone,
        "prompt": row["sentence"],
        "answer": {"1": "A", "2": "B"}.get(str(row["answer"]), ""),
    }


def _hellaswag(row: Row) -> Row:
    letter = "ABCD"[int(row["label"])] if str(row.get("label", "")).isdigit() else ""
    return _lettered({**row, "label": letter}, row["endings"])


def _openbook(row: Row) -> Row:
    return {**_lettered(row, row["choices"]["text"]), "answerKey": row["answerKey"]}


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
        ("HellaswagDataset", "HellaswagDataset_V2", "HellaswagDataset_V3", "HellaswagDatasetwithICE"),
        ("Rowan/hellaswag", None),
    ),
    **dict.fromkeys(("OBQADataset", "OBQADatasetV2"), ("allenai/openbookqa", "main")),
    "HumanevalDataset": ("openai/openai_humaneval", None),
}
_ROWS: dict[str, Callable[[Row], Row]] = {
    "ARC": _arc, "MMLU": _mmlu, "Race": _race, "BoolQ": _boolq, "Winogrande": _winogrande, "Hellaswag": _hellaswag,
    "OBQA": _openbook,
}  # fmt: skip


def _adapted(entry: DatasetEntry, splits: Splits) -> Splits:
    """Give rows with the hub's columns those that the framework's loader gives; other rows stay as they are."""
    kind = short(entry.get("type", ""))
    change = next((function for name, function in _ROWS.items() if kind.startswith(name)), None)
    columns = entry.reader_cfg.get("input_columns") or ()
    wanted = columns.split() if isinstance(columns, str) else list(columns)

    def fit(row: Row) -> Row:
        if change is None or all(column in row for column in wanted):
            return row
        try:
            return change(row)
        except (KeyError, TypeError, ValueError, IndexError):
            return row  # reading the row will name what is missing

    if isinstance(splits, Mapping):
        return {name: [fit(row) for row in rows] for name, rows in splits.items()}
    return [fit(row) for row in splits]

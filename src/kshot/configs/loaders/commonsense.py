"""Two or three endings: WinoGrande, PIQA, SIQA; yes or no: BoolQ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, known, listed_files, one_file
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

# ---- WinoGrande ----


def _winogrande_row(row: Row, *, lettered: bool) -> Row:
    sentence, answer = row["sentence"], row["answer"]
    if lettered:
        answer = " AB"[int(answer)] if answer != "" else "NULL"
    return {
        "prompt": sentence,
        "only_option1": row["option1"],
        "only_option2": row["option2"],
        "opt1": sentence.replace("_", row["option1"]),
        "opt2": sentence.replace("_", row["option2"]),
        "answer": answer,
        "cont": sentence.split("_")[1],
    }


_NUMBERED, _LETTERED = (partial(_winogrande_row, lettered=lettered) for lettered in (False, True))


def _winogrande_examples(place: DataPlace) -> Splits:
    return place.splits(("train_xs", "dev"), lambda split: place.json_lines(place.file(f"{split}.jsonl"), _LETTERED))


# ---- PIQA and SIQA: a file of rows and a file of labels ----


def _labelled(place: DataPlace, change: Callable[[Row, int], Row]) -> Splits:
    files = {"train": "train", "validation": "dev"}

    def read(split: str) -> list[Row]:
        path, labels = place.file(f"{files[split]}.jsonl"), place.file(f"{files[split]}-labels.lst")
        rows, given = place.json_lines(path), [line for line in place.lines(labels) if line]
        if len(rows) != len(given):
            raise DataError(f"it has {len(given)} labels for {len(rows)} rows of {path.name}", where=str(labels))
        return [
            new
            for number, (row, label) in enumerate(zip(rows, given, strict=True), start=1)
            for new in changed([row], lambda row, label=label: change(row, int(label)), f"{path}:{number}")  # type: ignore[misc]
        ]

    return place.splits(files, read)


def _from_label(change: Callable[[Row, int], Row]) -> Change:
    """Change a row of the hub, which holds its label."""
    return lambda row: change(row, int(row["label"]))


def _without(row: Row, *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _piqa_row(row: Row, label: int) -> Row:
    return {**_without(row, "id"), "label": label}


def _piqa_lettered(row: Row, label: int) -> Row:
    return {**_without(row, "id"), "answer": "NULL" if label < 0 else "AB"[label]}


def _siqa_row(row: Row, label: int) -> Row:
    return {**row, "label": label}


def _siqa_candidates(row: Row, label: int) -> Row:
    """Keep every form in which each answer may be given."""
    candidates = [[f"{letter}. {row[f'answer{letter}']}", letter, row[f"answer{letter}"]] for letter in "ABC"]
    return {**row, "all_labels": {"candidates": candidates, "label": label - 1}, "label": " ABC"[label]}


def _pair(change: Callable[[Row, int], Row]) -> Loader:
    return Loader(lambda place: _labelled(place, change), _from_label(change))


# ---- BoolQ and WiC ----


def is_true(value: object) -> bool:
    """Whether a label says true; the files write it as text, and some copies as a truth value."""
    return value in ("true", True)


def _truth_number(row: Row) -> Row:
    if "answer" in row and "label" not in row:  # the hub's form
        return {**row, "label": "true" if row["answer"] else "false", "answer": int(bool(row["answer"]))}
    return {**row, "answer": int(is_true(row["label"]))}


def _truth_letter(row: Row) -> Row:
    if "label" not in row:  # the hub's form
        return {**row, "label": "A" if row["answer"] else "B"}
    return {**row, "label": known({"true": "A", "false": "B"}, str(row["label"]).lower(), "label")}


def _is_unlettered(row: Row) -> bool:
    return row.get("label") not in ("A", "B")


def _boolq_sentences(row: Row) -> Row:
    """Drop the passage's title, and begin the question with a capital."""
    passage, question = row["passage"].split(" -- ")[1:], row["question"]
    return {**row, "passage": " -- ".join(passage), "question": question[0].upper() + question[1:]}


def _begins_small(row: Row) -> bool:
    """Whether a row is raw: the file writes its questions in small letters."""
    return str(row.get("question"))[:1].islower()


LOADERS = {
    "WinograndeDataset": one_file(_NUMBERED, "dev.jsonl"),
    "WinograndeDatasetV2": one_file(_LETTERED, "dev.jsonl"),
    "WinograndeDatasetV3": Loader(_winogrande_examples, _LETTERED),
    "PIQADataset": _pair(_piqa_row),
    "PIQADatasetV2": _pair(_piqa_lettered),
    "siqaDataset": _pair(_siqa_row),
    "siqaDataset_V2": _pair(_siqa_candidates),
    **dict.fromkeys(("BoolQDataset", "WiCDataset"), listed_files(_truth_number)),
    **dict.fromkeys(("BoolQDatasetV2", "WiCDatasetV2"), one_file(_truth_letter, "val.jsonl", is_raw=_is_unlettered)),
    "BoolQDatasetV3": one_file(_boolq_sentences, "val.jsonl", is_raw=_begins_small),
}

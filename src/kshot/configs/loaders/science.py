"""Chemistry, biology and medicine, and other datasets that are read as the hub has them."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from pathlib import Path

from kshot.configs.loaders.reading import DataPlace, Loader, changed, listed_rows
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_MINI_ROWS = 150
_PREFIX = re.compile(r"Prepend\s+(\S+)\s+to")


# ---- SciReasoner ----


def _tasks(place: DataPlace, *, at_most: bool) -> Splits:
    """Read a task's rows: the first five of ``dev`` are examples; ``mini_set`` draws 150 test rows."""
    task = place.text("task")

    def read(split: str) -> list[Row]:
        path = place.file(task, "dev" if split == "train" else "test", "data.json")
        found = place.json(path)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise DataError("it must hold a list of rows", where=str(path))
        return found[:5] if split == "train" else _drawn(place, found, path, at_most=at_most)

    return place.splits(("train", "test"), read)


def _drawn(place: DataPlace, rows: list[Row], path: Path, *, at_most: bool) -> list[Row]:
    cut = place.number("max_cut", -1)
    rows = rows if cut == -1 else rows[:cut]
    if not place.options.get("mini_set"):
        return rows
    if len(rows) < _MINI_ROWS and not at_most:
        raise DataError(f"mini_set draws {_MINI_ROWS} rows, and it has {len(rows)}", where=str(path))
    return random.Random(1024).sample(rows, min(len(rows), _MINI_ROWS))  # noqa: S311 - the draw of the frameworks


# ---- SmolInstruct, MRCR, HLE, MedMCQA ----


def _smol(place: DataPlace) -> Splits:
    name = place.text("name")

    def read(split: str) -> list[Row]:
        # rows without the column are already those of the task: somebody gave them by --data
        rows = [row for row in place.hub_split(split) if row.get("task", name) == name]
        if not place.options.get("mini_set") or split != "test":
            return rows
        return random.Random(1024).sample(rows, min(500, len(rows)))  # noqa: S311 - the draw of the frameworks

    return place.splits(("validation", "test"), read)


def _mrcr_row(row: Row) -> Row:
    found = _PREFIX.search(row["question"])
    gold = json.dumps({"answer": row["answers"][0], "prefix": found.group(1) if found else ""})
    return {"context": row["context"], "question": row["question"], "gold": gold}


def _mrcr(place: DataPlace) -> Splits:
    subset = place.text("subset", "2needle_in_4096_8192")
    return changed(place.hub_split("test", subset), _mrcr_row, str(place.root))


def _hle_row(row: Row) -> Row | None:
    """Drop a question with an image."""
    if row.get("image"):
        return None
    return {"problem" if name == "question" else name: value for name, value in row.items()}


def _hle(place: DataPlace) -> Splits:
    category = place.options.get("category")
    rows = changed(place.hub_split("test"), _hle_row, str(place.root))
    rows = [row for row in rows if not category or row.get("category", category) == category]
    return {"train": rows, "test": rows}


def _medmcqa_row(row: Row) -> Row:
    options = [row["opa"], row["opb"], row["opc"], row["opd"]]
    shown = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", options, strict=True))
    return {
        **row,
        "options": options,
        "question": f"{row['question']}\n{shown}",
        "label": "ABCD"[row["cop"]],
        "subject_name": row["subject_name"].replace("_", " "),
        "prompt_mode": "zero-shot",
        "start": "A",
        "end": "D",
    }


def _medmcqa(place: DataPlace) -> Splits:
    rows = place.hub_split("validation")
    mode = place.text("prompt_mode", "zero-shot")
    return changed(rows, _medmcqa_row, str(place.root)) if mode == "zero-shot" else rows


# ---- ChemBench ----


def _chembench_row(row: Row) -> Row:
    letters = {letter: row[letter] for letter in "ABCD"}
    return {"input": row["question"], **letters, "target": row["answer"]}


def _chembench(place: DataPlace) -> Splits:
    name = f"{place.text('name')}_benchmark.json"
    return place.splits(("dev", "test"), lambda split: listed_rows(place, split, name, change=_chembench_row))


LOADERS = {
    "ChemBenchDataset": Loader(_chembench, _chembench_row),
    **dict.fromkeys(
        ("Mol_Instructions_Dataset", "Mol_Instructions_Dataset_Protein_Design"),
        Loader(partial(_tasks, at_most=False)),
    ),
    **dict.fromkeys(("Mol_Instructions_Dataset_BioText", "LLM4ChemDataset"), Loader(partial(_tasks, at_most=True))),
    "SmolInstructDataset": Loader(_smol, hub="osunlp/SMolInstruct"),
    "MRCRDataset": Loader(_mrcr, _mrcr_row, hub="giulio98/MRCR_v2_common"),
    "HLEDataset": Loader(_hle, _hle_row, hub="cais/hle"),
    "MedmcqaDataset": Loader(_medmcqa, _medmcqa_row, hub="openlifescienceai/medmcqa"),
}

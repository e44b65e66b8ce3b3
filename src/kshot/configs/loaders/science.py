"""Chemistry, biology and medicine, other datasets that are read as the hub has them, and the functions of BFCL."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kshot.configs.evaluators.bfcl_calls import CLASSES, INSTALL
from kshot.configs.loaders.reading import DataPlace, Loader, changed, columns
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
        parts = (task, "dev" if split == "train" else "test", "data.json")
        found = place.listed_rows(*parts)
        return found[:5] if split == "train" else _drawn(place, found, place.file(*parts), at_most=at_most)

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


_CHEMBENCH = columns(input="question", A="A", B="B", C="C", D="D", target="answer")


def _chembench(place: DataPlace) -> Splits:
    name = f"{place.text('name')}_benchmark.json"
    return place.splits(("dev", "test"), lambda split: place.listed_rows(split, name, change=_CHEMBENCH))


# ---- BFCL ----

_PACKAGE = "bfcl_eval"
_DOCUMENTS = "multi_turn_func_doc"
_ENCODED = ("question", "ground_truth", "function", "missed_function", "involved_classes", "initial_config")


def _functions(place: DataPlace) -> Splits:
    """Read calls of functions and what they should be; whatever is not text becomes JSON."""
    category, wanted = place.text("category"), place.options.get("test_ids")
    name = f"BFCL_v3_{category}.json"
    rows = place.json_lines(place.file(name), lambda row: {**row, "id": row["id"]})
    if "relevance" in category:
        gold: list[Row] = [{"id": row["id"], "ground_truth": ["relevance_mock_gt"]} for row in rows]
    else:
        gold = place.json_lines(place.file("possible_answer", name), columns(id="id", ground_truth="ground_truth"))
    if [row["id"] for row in rows] != [row["id"] for row in gold]:
        raise DataError("the ids of possible_answer are not those of the questions", where=str(place.root / name))
    merged = [{**row, "ground_truth": each["ground_truth"]} for row, each in zip(rows, gold, strict=True)]
    kept = [row for row in merged if not wanted or row["id"] in wanted]
    documents: dict[str, list[Row]] = {}
    path = str(place.root / name)
    return changed(kept, lambda row: _encoded(_documented(row, place, documents)), path)


def _documented(row: Row, place: DataPlace, documents: dict[str, list[Row]]) -> Row:
    """Add the functions of a conversation's classes; those that are missed at first are taken out, and kept by turn."""
    if "multi_turn" not in str(row["id"]):
        return row
    for name in row["involved_classes"]:
        if name not in documents:
            documents[name] = place.json_lines(_document(place, name))
    functions = [each for name in row["involved_classes"] for each in documents[name]]
    if "missed_function" not in row:
        return {**row, "function": functions}
    missed = {turn: [_taken(functions, name) for name in names] for turn, names in row["missed_function"].items()}
    held = {turn: [each for each in found if each is not None] for turn, found in missed.items()}
    return {**row, "function": functions, "missed_function": held}


def _taken(functions: list[Row], name: Any) -> Row | None:
    at = next((at for at, each in enumerate(functions) if each["name"] == name), None)
    return None if at is None else functions.pop(at)


def _document(place: DataPlace, name: str) -> Path:
    """Return the file that describes the functions of a class: beside the rows, or in the package that has them."""
    if name not in CLASSES:
        raise DataError(f"BFCL has no class {name!r:.80}", where=place.where, hint=f"It has: {', '.join(CLASSES)}.")
    file = f"{CLASSES[name]}.json"
    if (place.root / _DOCUMENTS / file).is_file():
        return place.file(_DOCUMENTS, file)
    package = find_spec(_PACKAGE)
    for folder in package.submodule_search_locations or () if package is not None else ():
        if (found := Path(folder, "data", _DOCUMENTS, file)).is_file():
            return found
    what = f"the functions of {name} are described neither in the folder {_DOCUMENTS} nor in the package {_PACKAGE}"
    raise DataError(what, where=str(place.root), hint=INSTALL)


def _encoded(row: Row) -> Row:
    texts = {
        name: json.dumps(row[name], ensure_ascii=False)
        for name in _ENCODED
        if name in row and not isinstance(row[name], str)
    }
    return {**row, **texts}


LOADERS = {
    "ChemBenchDataset": Loader(_chembench, _CHEMBENCH),
    **dict.fromkeys(
        ("Mol_Instructions_Dataset", "Mol_Instructions_Dataset_Protein_Design"),
        Loader(partial(_tasks, at_most=False)),
    ),
    **dict.fromkeys(("Mol_Instructions_Dataset_BioText", "LLM4ChemDataset"), Loader(partial(_tasks, at_most=True))),
    "SmolInstructDataset": Loader(_smol, hub="osunlp/SMolInstruct"),
    "MRCRDataset": Loader(_mrcr, _mrcr_row, hub="giulio98/MRCR_v2_common"),
    "HLEDataset": Loader(_hle, _hle_row, hub="cais/hle"),
    "MedmcqaDataset": Loader(_medmcqa, _medmcqa_row, hub="openlifescienceai/medmcqa"),
    "BFCLDataset": Loader(_functions, _encoded, package=_PACKAGE),
}

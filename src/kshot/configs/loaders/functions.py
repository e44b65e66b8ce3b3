"""BFCL: questions with the functions that may be called, and the calls that are right."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kshot.configs.evaluators.bfcl_calls import CLASSES, INSTALL
from kshot.configs.loaders.reading import DataPlace, Loader, changed
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_PACKAGE = "bfcl_eval"
_DOCUMENTS = "multi_turn_func_doc"
_ENCODED = ("question", "ground_truth", "function", "missed_function", "involved_classes", "initial_config")


def _functions(place: DataPlace) -> Splits:
    """Read calls of functions and what they should be; whatever is not text becomes JSON."""
    category, wanted = place.text("category"), place.options.get("test_ids")
    name = f"BFCL_v3_{category}.json"
    rows = place.json_lines(place.file(name), _with_id)
    if "relevance" in category:
        gold: list[Row] = [{"id": row["id"], "ground_truth": ["relevance_mock_gt"]} for row in rows]
    else:
        gold = place.json_lines(place.file("possible_answer", name), _answer)
    if [row["id"] for row in rows] != [row["id"] for row in gold]:
        raise DataError("the ids of possible_answer are not those of the questions", where=str(place.root / name))
    merged = [{**row, "ground_truth": each["ground_truth"]} for row, each in zip(rows, gold, strict=True)]
    kept = [row for row in merged if not wanted or row["id"] in wanted]
    documents: dict[str, list[Row]] = {}
    path = str(place.root / name)
    return changed(kept, lambda row: _encoded(_documented(row, place, documents)), path)


def _with_id(row: Row) -> Row:
    """Return a row; one without an id is refused."""
    if "id" not in row:
        raise KeyError("id")
    return row


def _answer(row: Row) -> Row:
    """Return what a row of ``possible_answer`` says."""
    return {"id": row["id"], "ground_truth": row["ground_truth"]}


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


LOADERS = {"BFCLDataset": Loader(_functions, _encoded, package=_PACKAGE)}

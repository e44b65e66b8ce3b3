"""Contests and questions with short answers: OlympiadBench, CMO, SimpleQA, LiveStemBench."""

from __future__ import annotations

import random
from functools import partial

from kshot.configs.loaders.columns import typed
from kshot.configs.loaders.reading import DataPlace, Loader, listed_rows, one_file
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.tables.files import read_file

_OLYMPIAD = ("language", "subject", "question_type", "answer_type", "is_multiple_answer", "unit", "error")


def _cmo_row(row: Row) -> Row:
    return {**row, "question": row["origin_prompt"], "answer": row["gold_answer"]}


def _kcle_row(row: Row) -> Row:
    return {"input": row["input"], "target": row["target"]}


def _gaokao_row(row: Row) -> Row:
    return {**row, "extract_answer": str(row["extract_answer"])}


def _olympiad_row(row: Row) -> Row:
    kept = {name: row[name] for name in _OLYMPIAD}
    return {"problem": row["question"], "solution": row["final_answer"][0], **kept, "questions": row}


def _olympiad(place: DataPlace) -> Splits:
    rows = listed_rows(place, f"{place.text('name')}.json", change=_olympiad_row)
    return {"test": rows, "train": rows}


def _bbeh(place: DataPlace) -> Splits:
    path = place.file(place.text("name"), "task.json")
    found = place.json(path)
    rows = found.get("examples") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise DataError("it has no list of rows under 'examples'", where=str(path))
    return rows


# ---- some examples, repeated ----


def _chosen(place: DataPlace, rows: list[Row]) -> Splits:
    """Draw ``num_examples`` rows, or repeat all of them."""
    count, times = place.options.get("num_examples"), place.number("n_repeats", 1)
    if count and times != 1:
        raise DataError("num_examples and n_repeats cannot be combined", where=place.where)
    if count:
        rows = random.Random(0).sample(rows, min(len(rows), place.number("num_examples", 0)))  # noqa: S311 - their draw
    return {"train": rows * times, "test": rows * times}


def _simpleqa(place: DataPlace) -> Splits:
    path = place.only_file("simple_qa_test_set.csv")
    read = read_file(path)
    rows = read if isinstance(read, list) else []
    return _chosen(place, typed(rows) if path.suffix == ".csv" else [*rows])


def _live(place: DataPlace, *, version: str, options: bool) -> Splits:
    change = _stem_row if options else None
    return _chosen(place, listed_rows(place, f"{place.text('version', version)}.json", change=change))


def _stem_row(row: Row) -> Row:
    return {"question": "\n".join([row["question"], *row["options"]]), "answer": row["answer"]}


LOADERS = {
    "CMOFibDataset": one_file(_cmo_row, "cmo.jsonl"),
    "KCLEDataset": one_file(_kcle_row),
    "GaoKaoMATHDataset": Loader(partial(listed_rows, change=_gaokao_row)),
    "OlympiadBenchDataset": Loader(_olympiad, _olympiad_row),
    "BBEHDataset": Loader(_bbeh),
    "SimpleQADataset": Loader(_simpleqa),
    "LiveStemBenchDataset": Loader(partial(_live, version="livestembench-20241227", options=True), _stem_row),
    "LiveReasonBenchDataset": Loader(partial(_live, version="livereasonbench-20241202", options=False)),
}

"""Mathematics and contests: MATH, GSM8K, AIME, MathBench, MGSM, TheoremQA, OlympiadBench, CMO, SimpleQA."""

from __future__ import annotations

import random
from functools import partial

from kshot.cleanups.formulas import last_box
from kshot.configs.loaders.options import cloze_or_options, with_options
from kshot.configs.loaders.reading import DataPlace, Loader, columns, one_file, split_files, typed
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.tables.files import read_file


def _math_row(row: Row) -> Row:
    return {"problem": row["problem"], "solution": last_box(row["solution"])}


def _math(place: DataPlace) -> Splits:
    path = place.file(place.text("file_name", "math.json")) if place.root.is_dir() else place.file()
    rows = place.named_rows(path, _math_row, "a problem and its solution")
    return {"test": rows, "train": rows}


def _has_box(row: Row) -> bool:
    """Whether a row is raw: a solution without a box is an answer already."""
    return "\\boxed" in str(row.get("solution"))


def _aime_row(row: Row) -> Row:
    return {**row, "question": row["origin_prompt"], "answer": row["gold_answer"]}


# ---- MathBench ----


def _mathbench(place: DataPlace) -> Splits:
    name = place.text("name")
    change = cloze_or_options(
        name,
        lambda row: {"question": with_options(row, row["options"]), "answer": row["answer"].strip()},
        circular=bool(place.options.get("with_circular", True)),
    )
    return place.json_lines(place.file(f"{name}.jsonl"), change)


# ---- MGSM, TheoremQA ----


def _mgsm(place: DataPlace) -> Splits:
    path = place.only_file()
    rows: list[Row] = []
    for number, line in enumerate(place.lines(path), start=1):
        question, tab, answer = line.partition("\t")
        if line and (not tab or "\t" in answer):
            raise DataError("this line must hold a question, a tab and an answer", where=f"{path}:{number}")
        if line:
            rows.append({"question": question, "answer": answer})
    return rows


def _theorems(place: DataPlace) -> Splits:
    path = place.only_file("test.csv")
    read = read_file(path)
    return {"test": typed(read) if path.suffix == ".csv" else [*read]} if isinstance(read, list) else read


# ---- contests and short answers ----

_OLYMPIAD = ("language", "subject", "question_type", "answer_type", "is_multiple_answer", "unit", "error")


def _olympiad_row(row: Row) -> Row:
    kept = {name: row[name] for name in _OLYMPIAD}
    return {"problem": row["question"], "solution": row["final_answer"][0], **kept, "questions": row}


def _olympiad(place: DataPlace) -> Splits:
    rows = place.listed_rows(f"{place.text('name')}.json", change=_olympiad_row)
    return {"test": rows, "train": rows}


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
    return _chosen(place, place.listed_rows(f"{place.text('version', version)}.json", change=change))


def _stem_row(row: Row) -> Row:
    return {"question": "\n".join([row["question"], *row["options"]]), "answer": row["answer"]}


def _as_text(column: str) -> Loader:
    """Return a loader of a list of rows, in which a column becomes text."""
    return Loader(lambda place: place.listed_rows(change=lambda row: {**row, column: str(row[column])}))


LOADERS = {
    "MATHDataset": Loader(_math, _math_row, _has_box),
    "GSM8KDataset": split_files(train="train.jsonl", test="test.jsonl"),
    "Aime2024Dataset": one_file(_aime_row, "aime.jsonl"),
    **dict.fromkeys(("Aime2025Dataset", "Aime2026Dataset"), one_file()),
    "MathBenchDataset": Loader(_mathbench),
    "MGSMSDataset": Loader(_mgsm),
    "TheoremQADataset": Loader(_theorems),
    "TheoremQADatasetV3": _as_text("Answer"),
    "CMOFibDataset": one_file(_aime_row, "cmo.jsonl"),
    "KCLEDataset": one_file(columns(input="input", target="target")),
    "GaoKaoMATHDataset": _as_text("extract_answer"),
    "OlympiadBenchDataset": Loader(_olympiad, _olympiad_row),
    "BBEHDataset": Loader(lambda place: place.rows_under("examples", place.file(place.text("name"), "task.json"))),
    "SimpleQADataset": Loader(_simpleqa),
    "LiveStemBenchDataset": Loader(partial(_live, version="livestembench-20241227", options=True), _stem_row),
    "LiveReasonBenchDataset": Loader(partial(_live, version="livereasonbench-20241202", options=False)),
}

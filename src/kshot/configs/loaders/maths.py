"""Mathematics and contests: MATH, GSM8K, AIME, MathBench, MGSM, TheoremQA, OlympiadBench, CMO, SimpleQA."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from itertools import count

from kshot.configs.loaders.options import circular_rows, with_options
from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, listed_rows, one_file, typed
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.tables.files import read_file

_BOX = "\\boxed"


def last_box(text: str) -> str | None:
    r"""Return what the last ``\boxed{…}`` of a solution holds; None where there is none, or where it does not end.

    Of several it is the last by the word alone: a last ``\boxed 5``, without braces, hides those before it.
    """
    start = text.rfind(_BOX)
    if start < 0:
        return None
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if text[place] == "}" and depth == 0:
            inner = text[start:place]
            return inner[len(_BOX) + 1 :] if inner.startswith(f"{_BOX}{{") else None
    return None


def _math_row(row: Row) -> Row:
    return {"problem": row["problem"], "solution": last_box(row["solution"])}


def _math(place: DataPlace) -> Splits:
    path = place.file(place.text("file_name", "math.json")) if place.root.is_dir() else place.file()
    found = place.json(path)
    if not isinstance(found, Mapping):
        raise DataError("it must hold an object: a problem and its solution under each name", where=str(path))
    rows = [row for name, raw in found.items() for row in changed([raw], _math_row, f"{path}, {name!r}")]
    return {"test": rows, "train": rows}


def _has_box(row: Row) -> bool:
    """Whether a row is raw: a solution without a box is an answer already."""
    return _BOX in str(row.get("solution"))


def _aime_row(row: Row) -> Row:
    return {**row, "question": row["origin_prompt"], "answer": row["gold_answer"]}


# ---- MathBench ----


def _mathbench(place: DataPlace) -> Splits:
    name = place.text("name")
    return place.json_lines(place.file(f"{name}.jsonl"), _mathbench_row(name, place.options.get("with_circular", True)))


def _mathbench_row(name: str, circular: object) -> Change:
    numbers = count()

    def change(row: Row) -> Row | list[Row]:
        number = next(numbers)
        if "cloze" in name:
            return {"question": row["question"].strip(), "answer": row["answer"].strip()}
        if circular:
            return circular_rows(row, number)
        return {"question": with_options(row, row["options"]), "answer": row["answer"].strip()}

    return change


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
    "MATHDataset": Loader(_math, _math_row, _has_box),
    "GSM8KDataset": Loader(
        lambda place: place.splits(("train", "test"), lambda split: place.json_lines(place.file(f"{split}.jsonl")))
    ),
    "Aime2024Dataset": one_file(_aime_row, "aime.jsonl"),
    **dict.fromkeys(("Aime2025Dataset", "Aime2026Dataset"), one_file()),
    "MathBenchDataset": Loader(_mathbench),
    "MGSMSDataset": Loader(_mgsm),
    "TheoremQADataset": Loader(_theorems),
    "TheoremQADatasetV3": Loader(partial(listed_rows, change=lambda row: {**row, "Answer": str(row["Answer"])})),
    "CMOFibDataset": one_file(_aime_row, "cmo.jsonl"),
    "KCLEDataset": one_file(lambda row: {"input": row["input"], "target": row["target"]}),
    "GaoKaoMATHDataset": Loader(
        partial(listed_rows, change=lambda row: {**row, "extract_answer": str(row["extract_answer"])})
    ),
    "OlympiadBenchDataset": Loader(_olympiad, _olympiad_row),
    "BBEHDataset": Loader(_bbeh),
    "SimpleQADataset": Loader(_simpleqa),
    "LiveStemBenchDataset": Loader(partial(_live, version="livestembench-20241227", options=True), _stem_row),
    "LiveReasonBenchDataset": Loader(partial(_live, version="livereasonbench-20241202", options=False)),
}

"""Questions with options: ARC, GPQA, OpenBookQA, CommonsenseQA, HellaSwag, WikiBench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from kshot.configs.loaders.reading import Change, DataPlace, Loader, one_file
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

ORDERS = ("ABCD", "BCDA", "CDAB", "DABC")
"""The orders in which four options are shown: each letter comes first once."""


def _choices(row: Row) -> tuple[str, list[str], list[str]]:
    """Return question, texts and labels, in the form of the published files or in the hub's."""
    question = row["question"]
    if isinstance(question, Mapping):
        listed = question["choices"]
        return question["stem"], [each["text"] for each in listed], [each["label"] for each in listed]
    choices = row["choices"]
    return question, list(choices["text"]), list(choices["label"])


# ---- ARC ----


def _arc_row(row: Row) -> Row | None:
    question, texts, labels = _choices(row)
    if len(texts) != len("ABCD"):
        return None
    named = {f"text{letter}": text for letter, text in zip("ABCD", texts, strict=True)}
    return {"question": question, **named, "answerKey": "ABCD"[labels.index(row["answerKey"])]}


def _arc(place: DataPlace) -> Splits:
    name = place.options.get("name")
    if place.framework == "ais_bench" and place.root.is_dir() and isinstance(name, str):
        return place.splits(
            ("Dev", "Test"), lambda split: place.json_lines(place.file(f"{name}-{split}.jsonl"), _arc_row)
        )
    return place.json_lines(place.only_file(), _arc_row)


# ---- GPQA ----


def _gpqa_questions(place: DataPlace) -> Iterator[tuple[str, list[str]]]:
    """Yield each question with its options, the right one first."""
    for where, fields in place.csv(place.file(place.text("name"))):
        question, options = fields[7:8], fields[8:12]
        if len(options) < len("ABCD"):
            raise DataError(f"this row has {len(fields)} fields; question and options are 8 to 12", where=where)
        if question != ["Question"]:
            yield question[0], options


def _gpqa(place: DataPlace) -> Splits:
    rows: list[Row] = []
    for number, (question, options) in enumerate(_gpqa_questions(place), start=1):
        shown = [options["ABCD".index(letter)] for letter in ORDERS[number % 4]]
        letters = dict(zip("ABCD", shown, strict=True))
        rows.append({"question": question, **letters, "answer": "ABCD"[shown.index(options[0])]})
    return rows


# ---- OpenBookQA, CommonsenseQA ----


def _openbook_row(row: Row) -> Row:
    if "question_stem" in row:  # the hub's form
        question, texts = row["question_stem"], list(row["choices"]["text"])
    else:
        question, texts, _ = _choices(row)
    letters = {letter: texts[number] for number, letter in enumerate("ABCD")}
    fact = {"fact1": row["fact1"]} if "fact1" in row else {}
    return {**letters, "question_stem": question, "answerKey": row["answerKey"], **fact}


def _commonsense_row(row: Row) -> Row:
    question, texts, _ = _choices(row)
    letters = {letter: texts[number] for number, letter in enumerate("ABCDE")}
    return {"question": question, **letters, "answerKey": row["answerKey"]}


def _commonsense(place: DataPlace) -> Splits:
    files = {"train": "train_rand_split.jsonl", "validation": "dev_rand_split.jsonl"}
    return place.splits(files, lambda split: place.json_lines(place.file(files[split]), _commonsense_row))


# ---- HellaSwag ----


def _hellaswag_row(row: Row, *, cuts: int, lettered: bool) -> Row:
    letters = {letter: row["choices"][number] for number, letter in enumerate("ABCD")}
    gold = row["gold"]
    return {
        "ctx": row["query"].split(": ", cuts)[-1],
        **letters,
        "label": "ABCD"[gold] if lettered else gold,
    }


_NUMBERED = partial(_hellaswag_row, cuts=2, lettered=False)
_LETTERED = partial(_hellaswag_row, cuts=1, lettered=True)


def _hellaswag_hub(row: Row) -> Row:
    """Change a row of the hub: ``endings``, a number as ``label``."""
    letter = "ABCD"[int(row["label"])] if str(row.get("label", "")).isdigit() else ""
    return {**row, "label": letter, **dict(zip("ABCD", row["endings"], strict=False))}


def _either(change: Change) -> Change:
    return lambda row: change(row) if "query" in row else _hellaswag_hub(row)


def _hellaswag_examples(place: DataPlace) -> Splits:
    files = {"train": "hellaswag_train_sampled25.jsonl", "val": "hellaswag.jsonl"}
    return place.splits(files, lambda split: place.json_lines(place.file(files[split]), _LETTERED))


# ---- questions with four options under one key ----


def circular_rows(row: Row, number: int) -> list[Row]:
    """Return a question four times, its options in another order each; the answer tells question, letter and order."""
    rows: list[Row] = []
    for order in ORDERS:
        options = [row["options"]["ABCD".index(letter)] for letter in order]
        answer = f"{number}--{'ABCD'[order.index(row['answer'])]}--{order}"
        rows.append({**row, "options": options, "answer": answer, "question": with_options(row, options)})
    return rows


def with_options(row: Row, options: Sequence[Any]) -> str:
    """Write a question with its options below it."""
    lines = "".join(f"{chr(ord('A') + number)}. {option}\n" for number, option in enumerate(options))
    return f"{row['question'].strip()}\n{lines}"


def _wikibench(place: DataPlace) -> Splits:
    """Read WikiBench, which names a file, and CompassBench, whose path is one."""
    name, numbers = place.text("name"), count()
    path = place.file(place.text("filename").lstrip("/")) if "filename" in place.options else place.only_file()

    def change(row: Row) -> Row | list[Row]:
        number = next(numbers)
        if "cloze" in name:
            return {"question": row["question"].strip(), "answer": row["answer"].strip()}
        if "circular" in name:
            return circular_rows(row, number)
        return {**row, "question": with_options(row, row["options"])}

    return place.json_lines(path, change)


LOADERS = {
    "ARCDataset": Loader(_arc, _arc_row),
    "GPQADataset": Loader(_gpqa),
    "OBQADataset": one_file(_openbook_row, "test.jsonl"),
    "commonsenseqaDataset": Loader(_commonsense, _commonsense_row),
    "HellaswagDataset": one_file(_either(_NUMBERED), "hellaswag.jsonl"),
    "HellaswagDataset_V2": one_file(_either(_LETTERED), "hellaswag.jsonl"),
    "HellaswagDatasetwithICE": Loader(_hellaswag_examples, _either(_LETTERED)),
    **dict.fromkeys(("WikiBenchDataset", "CompassBenchObjectiveV1_3"), Loader(_wikibench)),
}

"""Exams with lettered options: MMLU, C-Eval, CMMLU, MMLU-Pro, RACE, AGIEval, GAOKAO-Bench."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kshot.configs.loaders.reading import DataPlace, Loader, changed, columns
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_MMLU_COLUMNS = ("input", "A", "B", "C", "D", "target")
_CMMLU_COLUMNS = ("question", "A", "B", "C", "D", "answer")
_CMMLU_RAW = columns(question="Question", A="A", B="B", C="C", D="D", answer="Answer")
_LETTERS = "ABCDEFGHIJKLMNOP"
_OPENING = "A: Let's think step by step."
"""How the worked answers of MMLU-Pro begin."""


# ---- MMLU, C-Eval, CMMLU ----


def _mmlu(place: DataPlace) -> Splits:
    name = place.text("name")

    def read(split: str) -> list[Row]:
        path = place.file(split, f"{name}_{split}.csv")
        return [dict(zip(_MMLU_COLUMNS, fields, strict=True)) for _, fields in place.csv(path, len(_MMLU_COLUMNS))]

    return place.splits(("dev", "test"), read)


def _mmlu_row(row: Row) -> Row:
    """Change a row of the hub: ``question``, ``choices``, a number as ``answer``."""
    letters = dict(zip("ABCD", row["choices"], strict=False))
    return {"input": row["question"], **letters, "target": "ABCD"[int(row["answer"])]}


def _ceval(place: DataPlace) -> Splits:
    name = place.text("name")

    def read(split: str) -> list[Row]:
        rows = place.table(place.file(split, f"{name}_{split}.csv")) or []
        return [{"explanation": "", "answer": "", **row} for row in rows]

    return place.splits(("dev", "val", "test"), read)


def _cmmlu(place: DataPlace) -> Splits:
    def read(split: str) -> list[Row]:
        lines = place.csv(place.file(split, f"{place.text('name')}.csv"))
        next(lines, None)  # the header
        rows: list[Row] = []
        for where, fields in lines:
            if len(fields) != 1 + len(_CMMLU_COLUMNS):
                raise DataError(f"this row has {len(fields)} fields instead of 7", where=where)
            rows.append(dict(zip(_CMMLU_COLUMNS, fields[1:], strict=True)))
        return rows

    return place.splits(("dev", "test"), read)


# ---- MMLU-Pro ----


def _mmlu_pro_row(row: Row) -> Row:
    shown = [(letter, f"{letter}. {text}\n") for letter, text in zip(_LETTERS, row["options"], strict=False)]
    kept = [(letter, line) for (letter, line), text in zip(shown, row["options"], strict=False) if text != "N/A"]
    return {
        **row,
        "answer_string": dict(kept).get(str(row["answer"]), ""),
        "options_str": "".join(line for _, line in kept).strip(),
        "cot_content": row["cot_content"].removeprefix(_OPENING).strip(),
    }


def _mmlu_pro(place: DataPlace) -> Splits:
    category = place.options.get("category")

    def read(split: str) -> list[Row]:
        rows = [row for row in place.hub_split(split) if category is None or row.get("category", category) == category]
        return changed(rows, _mmlu_pro_row, f"{place.root}, {split}")

    return place.splits(("validation", "test"), read)


# ---- RACE, AGIEval, GAOKAO-Bench, BBH, CHARM ----


def _race_row(row: Row) -> Row:
    letters = {letter: row["options"][number] for number, letter in enumerate("ABCD")}
    return {"article": row["article"], "question": row["question"], **letters, "answer": row["answer"]}


def _race(place: DataPlace) -> Splits:
    def read(split: str) -> list[Row]:
        return place.json_lines(place.file(split, f"{place.text('name')}.jsonl"), _race_row)

    return place.splits(("validation", "test"), read)


def _agieval_row(framework: str, row: Row) -> Row:
    label: Any = row["label"] or row["answer"]
    if isinstance(label, Sequence) and not isinstance(label, str):
        label = "".join(map(str, label))
    elif framework != "ais_bench" and label is not None:
        label = str(label)
    return {
        "question": (row["passage"] or "") + row["question"],
        "options": "\n".join(row["options"]) if row["options"] else "",
        "label": label,
    }


def _agieval(place: DataPlace) -> Splits:
    place.only("setting_name", "zero-shot")
    path = place.file(f"{place.text('name')}.jsonl")
    return place.json_lines(path, partial(_agieval_row, place.framework))


def _examples(place: DataPlace) -> Splits:
    """Read BBH and CHARM: a JSON file for each task, its rows under ``examples``."""
    return place.rows_under("examples", place.file(f"{place.text('name')}.json"))


def _gaokao(place: DataPlace) -> Splits:
    return place.rows_under("example", place.file(place.text("filename").lstrip("/")))


LOADERS = {
    **dict.fromkeys(("MMLUDataset", "MMLUArabicDataset"), Loader(_mmlu, _mmlu_row)),
    "CEvalDataset": Loader(_ceval),
    **dict.fromkeys(("CMMLUDataset", "FinanceIQDataset"), Loader(_cmmlu, _CMMLU_RAW)),
    "MMLUProDataset": Loader(_mmlu_pro, _mmlu_pro_row, hub="TIGER-Lab/MMLU-Pro"),
    "RaceDataset": Loader(_race, _race_row),
    "AGIEvalDataset_v2": Loader(
        _agieval, partial(_agieval_row, ""), lambda row: not isinstance(row.get("options"), str)
    ),
    **dict.fromkeys(("BBHDataset", "CharmDataset"), Loader(_examples)),
    "GaokaoBenchDataset": Loader(_gaokao),
}

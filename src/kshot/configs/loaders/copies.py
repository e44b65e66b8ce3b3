"""Datasets that the frameworks take from the hub: read from a copy of it, or from the hub itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, columns, known, one_file, without
from kshot.configs.rows import Splits
from kshot.core.records import Row

_SPLITS = ("train", "validation", "test")


def _subset(name: str) -> Callable[[DataPlace], str | None]:
    return lambda place: value if isinstance(value := place.options.get(name), str) else None


_NAMED = _subset("name")


def _copy(
    hub: str,
    change: Change | None = None,
    *,
    subset: Callable[[DataPlace], str | None] = _NAMED,
    alone: str = "",
    is_raw: Callable[[Row], bool] | None = None,
) -> Loader:
    """Return a loader of a copy's splits; ``alone``: of one split, which is then both train and test."""

    def read(place: DataPlace) -> Splits:
        def split_rows(split: str) -> list[Row]:
            return changed(place.hub_split(split, subset(place)), change, f"{place.root}, {split}")

        return split_rows(alone) if alone else place.splits(_SPLITS, split_rows)

    return Loader(read, change, is_raw, hub)


def _zero_shot(loader: Loader) -> Loader:
    """Return a loader that refuses any other ``prompt_mode``."""

    def read(place: DataPlace) -> Splits:
        place.only("prompt_mode", "zero-shot")
        return loader.read(place)

    return replace(loader, read=read)


# ---- languages and common sense ----


def _winograd_row(row: Row) -> Row:
    first, second = row["options"][:2]
    return {**without(row, "text", "options", "source"), "prompt": row["text"], "opt1": first, "opt2": second}


def _truthful_row(row: Row) -> Row:
    names = ("best_answer", "correct_answers", "incorrect_answers")
    reference = {"answers": {name: row[name] for name in names}, "question": row.get("question")}
    return {**without(row, *names), "reference": reference}


# ---- exams and medicine ----


def _mmlu_cf(place: DataPlace) -> Splits:
    parts = {"dev": "dev", "test": "val"}

    def read(split: str) -> list[Row]:
        rows = place.hub_split(f"{place.text('name')}_{parts[split]}")
        return changed(rows, _mmlu_cf_row, f"{place.root}, {split}")

    return place.splits(parts, read)


def _mmlu_cf_row(row: Row) -> Row:
    return {**row, "input": row["Question"], "target": row["Answer"]}


def _rbench_row(row: Row) -> Row:
    options = {f"RBench_Option_{letter}": row[letter] for letter in "ABCDEF"}
    return {"RBench_Question_Input": row["question"], **options, "target": row["answer"]}


def _medqa_row(row: Row) -> Row:
    choices = "".join(f"{letter}. {text}\n" for letter, text in row["options"].items())
    return {**row, "label": row["answer_idx"], "choices": choices}


def _medxpert_row(row: Row) -> Row:
    end = chr(ord("A") + len(row.get("options") or ()) - 1)
    return {**row, "start": "A", "end": end, "prompt_mode": "zero-shot"}


# ---- files that lie in a folder of their own ----


def _materials(place: DataPlace) -> Splits:
    name = f"matbench_base_fold_0_{place.text('task')}_test.json"
    return place.listed_rows(name, change=columns(problem="problem", answer="answer"))


def _chemistry_row(row: Row) -> Row:
    """Write a question with its parts below it, and the answers of the parts below each other."""
    prompt, output, kinds = row["question"], "", []
    for number, part in enumerate(row.get("sub_question", ()), start=1):
        prompt += f"\nQ{number}: {part['question']}"
        for mark, each in _smallest_parts(number, part):
            prompt += f"\nQ{mark}: {each['question']}" if each is not part else ""
            output += f"\nA{mark}: {each['answer']}"
            kinds.append(each["qa_type"])
    if "sub_question" not in row:
        output, kinds = row["answer"], [row["qa_type"]]
    types = [str(kind) for kind in kinds]
    return {"id": row["id"], "prompt": prompt, "output": output, "has_img": row["has_img"], "qa_type": types}


def _smallest_parts(number: int, part: Row) -> list[tuple[str, Row]]:
    if "sub_question" not in part:
        return [(str(number), part)]
    return [(f"{number}.{below}", each) for below, each in enumerate(part["sub_question"], start=1)]


def _compared_row(row: Row) -> Row:
    letters = {"回复1": "A", "回复2": "B"}
    prompt = row["prompt"].replace("回复1", "回复A").replace("回复2", "回复B")
    return {**row, "prompt": prompt, "label": known(letters, row["label"], "label")}


LOADERS = {
    "IWSLT2017Dataset": _copy("iwslt2017", lambda row: {**without(row, "translation"), **row["translation"]}),
    "CrowspairsDataset": _copy("crows_pairs", lambda row: {**row, "label": 0}),
    "CrowspairsDatasetV2": _copy("crows_pairs", lambda row: {**row, "label": "A"}),
    "WinogradDataset": _copy("winograd_wsc", _winograd_row),
    "wnliDataset": _copy("glue", lambda row: {**row, "label_option": {1: "A", 0: "B", -1: -1}[row["label"]]}),
    "TruthfulQADataset": _copy("truthful_qa", _truthful_row),
    "CValuesDataset": Loader(
        lambda place: {"train": place.json_lines(place.only_file(), _compared_row)},
        _compared_row,
        lambda row: row.get("label") not in ("A", "B"),
    ),
    "OlymMATHDataset": _copy("RUC-AIBOX/OlymMATH", subset=_subset("subset")),
    "OmniMathDataset": _copy("KbsdJames/Omni-MATH", alone="test"),
    "BeyondAIMEDataset": _copy(
        "ByteDance-Seed/BeyondAIME",
        lambda row: {"question" if name == "problem" else name: value for name, value in row.items()},
        alone="test",
    ),
    "CRUXEvalDataset": _copy("cruxeval-org/cruxeval", alone="test"),
    "MMLUCFDataset": Loader(_mmlu_cf, _mmlu_cf_row, hub="microsoft/MMLU-CF"),
    "RBenchDataset": _copy(
        "R-Bench/R-Bench", _rbench_row, subset=lambda place: f"rbench-t_{place.text('subset', 'en')}", alone="test"
    ),
    "MedQADataset": _copy("medqa", _medqa_row, alone="train"),
    "MedXpertQADataset": _zero_shot(
        _copy(
            "TsinghuaC3I/MedXpertQA",
            _medxpert_row,
            subset=lambda _: "Text",
            alone="test",
            is_raw=lambda row: "end" not in row,
        )
    ),
    "Earth_Silver_MCQDataset": _zero_shot(_copy("ai-earth/Earth-Silver", alone="multiple_choice")),
    "MatbenchDataset": Loader(_materials),
    "ChemExamDataset": one_file(_chemistry_row),
}

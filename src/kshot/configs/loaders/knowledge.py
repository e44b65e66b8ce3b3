"""What people know and can reason about: SQuAD 2, TyDi QA, DROP, StoryCloze, C3, Xiezhi, FLORES, P-MMEval, and more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, one_file
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_NO_ANSWER = "impossible to answer"
"""The answer of SQuAD 2 to a question that the text does not answer."""


def listed_rows(place: DataPlace, *names: str, change: Change | None = None) -> list[Row]:
    """Read a JSON file that holds a list of rows; the root itself if there is no name."""
    path = place.file(*names) if names else place.only_file()
    found = place.json(path)
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise DataError("it must hold a list of rows", where=str(path))
    return [row for number, raw in enumerate(found) for row in changed([raw], change, f"{path}, row {number}")]


# ---- texts and questions ----


def _squad2(place: DataPlace) -> Splits:
    path = place.only_file()
    found = place.json(path)
    if not isinstance(found, Mapping) or not isinstance(found.get("data"), list):
        raise DataError("it has no list of documents under 'data'", where=str(path))
    return changed(found["data"], _squad2_rows, str(path))


def _squad2_rows(article: Row) -> list[Row]:
    rows: list[Row] = []
    for paragraph in article["paragraphs"]:
        for asked in paragraph["qas"]:
            impossible = asked["is_impossible"]
            texts = [answer["text"] for answer in asked["plausible_answers" if impossible else "answers"]]
            answers = [*dict.fromkeys(texts), *([_NO_ANSWER] if impossible else [])]
            rows.append({"context": paragraph["context"], "question": asked["question"], "answers": answers})
    return rows


def _tydi_row(row: Row) -> Row:
    return {**row, "answer": list(dict.fromkeys(answer["text"] for answer in row["answers"]))}


def _tydi(place: DataPlace) -> Splits:
    return place.json_lines(place.file("dev", f"{place.text('lang')}-dev.jsonl"), _tydi_row)


def _drop(place: DataPlace) -> Splits:
    path = place.only_file()
    found = place.json(path)
    if not isinstance(found, Mapping):
        raise DataError("it must hold an object: a passage under each name", where=str(path))
    change = partial(_drop_rows, numbers=bool(place.options.get("only_number", True)))
    return {"validation": [row for name, each in found.items() for row in changed([each], change, f"{path}, {name!r}")]}


def _drop_rows(passage: Row, *, numbers: bool) -> list[Row]:
    """Return the questions of a passage; ``numbers``: those alone that have a number as an answer."""
    return [
        {
            "prompt": passage["passage"],
            "question": asked["question"],
            "answers": list(
                dict.fromkeys(text for answer in asked["validated_answers"] for text in _drop_texts(answer))
            ),
        }
        for asked in passage["qa_pairs"]
        if not numbers or any(answer["number"] for answer in asked["validated_answers"])
    ]


def _drop_texts(answer: Row) -> list[str]:
    if answer["number"]:
        return [answer["number"]]
    date = [answer["date"][part] for part in ("day", "month", "year")]
    return [" ".join(date).strip()] if any(date) else list(answer["spans"])


def _story_row(row: Row, *, lettered: bool) -> Row:
    context = " ".join(row[f"input_sentence_{number}"] for number in range(1, 5))
    right = row["answer_right_ending"]
    return {**row, "context": context, "answer_right_ending": " AB"[right] if lettered else right}


def _stories(place: DataPlace, *, lettered: bool) -> Splits:
    names = [f"{place.text('lang')}_{split}.jsonl" for split in ("train", "eval")]
    change = partial(_story_row, lettered=lettered)
    rows = [row for name in names for row in place.json_lines(place.file(name), change)]
    return rows if lettered else {"test": rows}


# ---- options ----


def _c3(place: DataPlace, *, lettered: bool) -> Splits:
    path = place.only_file()
    found = place.json(path)
    if not isinstance(found, list):
        raise DataError("it must hold a list of documents, each with its questions", where=str(path))
    return changed([{"row": row} for row in found], partial(_c3_rows, lettered=lettered), str(path))


def _c3_rows(document: Row, *, lettered: bool) -> list[Row]:
    """Return the questions of a document; fewer than four choices are filled up."""
    paragraphs, questions = document["row"][:2]
    rows: list[Row] = []
    for asked in questions:
        given = asked["choice"]
        right = given.index(asked["answer"])
        choices = [*given, *["[NULL]" if lettered else given[0]] * (4 - len(given))]
        rows.append(
            {
                "content": ("" if lettered else " ").join("".join(paragraph) for paragraph in paragraphs),
                "question": asked["question"],
                **({} if lettered else {"choices": choices}),
                **{f"choice{number}": choice for number, choice in enumerate(choices[:4])},
                "label": "ABCD"[right] if lettered else right,
            }
        )
    return rows


def _xiezhi(place: DataPlace) -> Splits:
    name = place.text("name")
    chinese = "chn" in name
    folders = {"train": "xiezhi_train_chn" if chinese else "xiezhi_train_eng", "test": name}
    change = partial(_xiezhi_row, labels="labels" if chinese else "label")
    return place.splits(folders, lambda split: place.json_lines(place.file(folders[split], "xiezhi.v1.json"), change))


def _xiezhi_row(row: Row, *, labels: str) -> Row | None:
    options = row["options"].removesuffix('"\n').split("\n")
    if len(options) != len("ABCD"):
        return None
    letters = dict(zip("ABCD", options, strict=True))
    sorts = sorted(row[labels], key=len, reverse=True)
    return {"question": row["question"], **letters, "labels": sorts, "answer": "ABCD"[options.index(row["answer"])]}


def _chembench_row(row: Row) -> Row:
    letters = {letter: row[letter] for letter in "ABCD"}
    return {"input": row["question"], **letters, "target": row["answer"]}


def _chembench(place: DataPlace) -> Splits:
    name = f"{place.text('name')}_benchmark.json"
    return place.splits(("dev", "test"), lambda split: listed_rows(place, split, name, change=_chembench_row))


# ---- languages ----


def _flores(place: DataPlace) -> Splits:
    source, _, target = place.text("name").partition("-")

    def read(split: str) -> list[Row]:
        files = [place.file(split, f"{language}.{split}") for language in (source, target)]
        texts = [place.lines(file) for file in files]
        if len(texts[0]) != len(texts[1]):
            raise DataError(f"it has {len(texts[1])} lines, and {files[0]} has {len(texts[0])}", where=str(files[1]))
        pairs = zip(*texts, strict=True)
        return [{f"sentence_{source}": first, f"sentence_{target}": second} for first, second in pairs]

    return place.splits(("dev", "devtest"), read)


def _pmmeval(folder: str, option: str = "lang") -> Loader:
    return Loader(lambda place: place.json_lines(place.file(folder, "test", f"{place.text(option)}.jsonl")))


def _pmmeval_programs(place: DataPlace) -> Splits:
    parts = ("humaneval-xl", "test", place.text("program_lang"), f"{place.text('lang')}.jsonl")
    return place.json_lines(place.file(*parts))


def _pmmeval_mmlu(place: DataPlace) -> Splits:
    wanted = place.text("difficulty")
    levels = ("easy", "hard") if wanted == "all" else (wanted,)
    name = f"mmlu_{place.text('lang')}.jsonl"
    return [row for level in levels for row in place.json_lines(place.file("mmmlu", level, "test", name))]


def _mmmlu_lite(place: DataPlace) -> Splits:
    language = place.text("name").rpartition("_")[2]
    return {"test": place.json_lines(place.file(language, "test.jsonl"))}


def _chinese_questions(place: DataPlace) -> Splits:
    def read(split: str) -> list[Row]:
        first: Change | None = _first_answer if split == "dev" else None
        return place.json_lines(place.file(f"{split}.jsonl"), first)

    return place.splits(("dev", "test"), read)


def _first_answer(row: Row) -> Row:
    return {**row, "answer": row["answer"][0]}


def _json_list(*names: Callable[[DataPlace], str], change: Change | None = None) -> Loader:
    def read(place: DataPlace) -> Splits:
        return listed_rows(place, *[name(place) for name in names], change=change)

    return Loader(read, change)


def _option(name: str, pattern: str = "{}.json") -> Callable[[DataPlace], str]:
    return lambda place: pattern.format(place.text(name))


LOADERS: dict[str, Any] = {
    "SQuAD20Dataset": Loader(_squad2),
    "TydiQADataset": Loader(_tydi, _tydi_row),
    "dropDataset": Loader(_drop),
    "StoryClozeDataset": Loader(partial(_stories, lettered=False), partial(_story_row, lettered=False)),
    "StoryClozeDatasetV2": Loader(partial(_stories, lettered=True), partial(_story_row, lettered=True)),
    "C3Dataset": Loader(partial(_c3, lettered=False)),
    "C3Dataset_V2": Loader(partial(_c3, lettered=True)),
    "XiezhiDataset": Loader(_xiezhi),
    "ChemBenchDataset": Loader(_chembench, _chembench_row),
    "StrategyQADataset": _json_list(),
    "LawBenchDataset": _json_list(_option("index")),
    "HumanevalevalProDataset": _json_list(),
    "MBPPProDataset": one_file(),
    "FloresFirst100Dataset": Loader(_flores),
    "PMMEvalFloresDataset": _pmmeval("flores", "lang_fullname"),
    "PMMEvalMGSMDataset": _pmmeval("mgsm"),
    "PMMEvalMHellaswagDataset": _pmmeval("mhellaswag"),
    "PMMEvalMIFEvalDataset": _pmmeval("mifeval"),
    "PMMEvalMLogiQADataset": _pmmeval("mlogiqa"),
    "PMMEvalXNLIDataset": _pmmeval("xnli"),
    "PMMEvalHumanEvalXLDataset": Loader(_pmmeval_programs),
    "PMMEvalMMMLUDataset": Loader(_pmmeval_mmlu),
    "MMMLULiteDataset": Loader(_mmmlu_lite),
    "NaturalQuestionDatasetCN": Loader(_chinese_questions),
}

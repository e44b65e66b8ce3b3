"""Questions about texts and the world, summaries, long texts: NQ, TriviaQA, CMRC, DROP, XSum, LongBench, L-Eval."""

from __future__ import annotations

import ast
import io
import json
from functools import partial
from typing import Any

from kshot.configs.loaders.reading import (
    Change,
    DataPlace,
    Loader,
    MissingFileError,
    changed,
    columns,
    one_file,
    zipped_text,
)
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.text_files import parse_json

# ---- NQ and TriviaQA ----


def _answers(text: str, where: str) -> Any:
    """Read a list of answers that is written as Python writes it."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as exc:
        raise DataError(f"the answers are no list: {text:.60}", where=where) from exc
    if not isinstance(found, (list, tuple)) or not found:
        raise DataError(f"the answers are no list: {text:.60}", where=where)
    return list(found)


def _tabbed(place: DataPlace, *, prefix: str, first: str) -> Splits:
    """Read a question and a list of answers from each line; the split ``first`` keeps the first answer alone."""

    def read(split: str) -> list[Row]:
        rows: list[Row] = []
        for where, (question, text) in place.csv(place.file(f"{prefix}-{split}.qa.csv"), 2, "\t"):
            answers = _answers(text, where)
            rows.append({"question": question, "answer": answers[0] if split == first else answers})
        return rows

    return place.splits(("dev", "test"), read)


def _first_answer(row: Row) -> Row:
    return {**row, "answer": row["answer"][0]}


def _open_questions(
    place: DataPlace, *, prefix: str, splits: tuple[str, str] = ("validation", "train"), first: str = ""
) -> Splits:
    """Read a file for each split; the split ``first`` keeps the first answer alone."""

    def read(split: str) -> list[Row]:
        change = _first_answer if split == first else None
        return place.json_lines(place.file(f"{prefix}{split}.jsonl"), change)

    return place.splits(splits, read)


# ---- CMRC and DRCD: the form of SQuAD ----


def _passages(place: DataPlace) -> Splits:
    path = place.only_file("dev.json")
    return changed(place.rows_under("data", path, "documents"), _questions_of, str(path))


def _questions_of(document: Row) -> list[Row]:
    return [
        {
            "context": paragraph["context"],
            "question": asked["question"],
            "answers": list(dict.fromkeys(answer["text"] for answer in asked["answers"])),
        }
        for paragraph in document["paragraphs"]
        for asked in paragraph["qas"]
    ]


# ---- DROP, LAMBADA, IFEval, XSum, LCSTS ----


def _one_split(split: str, name: str, change: Change | None = None) -> Loader:
    return Loader(lambda place: {split: place.json_lines(place.only_file(name), change)}, change)


def _xsum_row(row: Row) -> Row | None:
    """Keep two columns; a text that is missing is written as a number that is none (NaN)."""
    made = {"dialogue": row["dialogue"], "summary": row["summary"]}
    return None if any(isinstance(value, float) for value in made.values()) else made


def _lcsts(place: DataPlace) -> Splits:
    texts = (place.lines(place.file("test.src.txt")), place.lines(place.file("test.tgt.txt")))
    return [{"content": content, "abst": summary} for content, summary in zip(*texts, strict=False)]


# ---- LongBench ----

_WITHOUT_INPUT = ("gov_report", "lcc", "multi_news", "passage_count", "vcsum")
_WITH_CLASSES = ("lsht", "trec")
_WITH_INPUT = (
    "2wikimqa", "dureader", "hotpotqa", "multifieldqa_en", "multifieldqa_zh", "musique", "narrativeqa",
    "passage_retrieval_en", "passage_retrieval_zh", "qasper", "qmsum", "repobench", "samsum", "triviaqa",
)  # fmt: skip


def _long_row(task: str, row: Row) -> Row:
    asked = {} if task in _WITHOUT_INPUT else {"input": row["input"]}
    if task not in _WITH_CLASSES:
        return {**asked, "context": row["context"], "answers": row["answers"]}
    labels = {"answers": row["answers"], "all_classes": row["all_classes"]}
    return {**asked, "context": row["context"], "all_labels": labels}


def _longbench(task: str, place: DataPlace) -> Splits:
    """Read a task's file: in the folder ``data``, beside it, or in the archive that the hub holds."""
    change, name = partial(_long_row, task), f"{place.text('name')}.jsonl"
    if place.root.is_file():
        return {"test": place.json_lines(place.file(), change)}
    for parts in (("data", name), (name,)):
        try:
            return {"test": place.json_lines(place.file(*parts), change)}
        except MissingFileError:  # noqa: PERF203 - the next place may do
            continue
    try:
        archive = place.file("data.zip")
    except MissingFileError:
        raise MissingFileError("there is no such file", where=str(place.root / "data" / name)) from None
    rows: list[Row] = []
    for number, line in enumerate(io.StringIO(zipped_text(archive, f"data/{name}")), start=1):
        where = f"{archive}, {name}:{number}"
        try:
            rows += changed([parse_json(line)], change, where) if line.strip() else []
        except json.JSONDecodeError as exc:
            raise DataError(f"this line is not JSON: {exc.msg}", where=where) from exc
    return {"test": rows}


_LONG_COLUMNS = ("question", "context", "answer", *(f"choice_{letter}" for letter in "ABCD"), "difficulty", "length")
_long_columns = columns(**{name: name for name in _LONG_COLUMNS})


def _longbench2(place: DataPlace) -> Splits:
    path = place.only_file("data.json")
    found = place.json(path)
    if not isinstance(found, list):
        raise DataError("it must hold a list of rows", where=str(path))
    return {"train": found, "test": changed(found, _long_columns, str(path))}


# ---- L-Eval and LV-Eval, as the hub has them ----


def _hub_test(change: Change, place: DataPlace) -> Splits:
    rows = place.hub_split("test", place.text("name"))
    return {"test": changed(rows, change, str(place.root))}


def _leval_row(row: Row, *, length: bool, part: int | None = None) -> list[Row]:
    """Ask each question of a text on its own; ``length`` tells the words of the answer."""
    return [
        {
            "question": question,
            "context": row["input"],
            **({"length": len(answer.split())} if length else {}),
            "answer": answer if part is None else answer[part],
        }
        for question, answer in zip(row["instructions"], row["outputs"], strict=False)
    ]


_LEVAL_SHORT = ("Coursera", "GSM100", "TopicRetrieval", "TPO")
_LEVAL_LONG = (
    "FinancialQA", "GovReportSumm", "LegalContractQA", "MeetingSumm", "MultidocQA", "NarrativeQA", "NaturalQuestion",
    "NewsSumm", "PaperAssistant", "PatentSumm", "ReviewSumm", "ScientificQA", "TVShowSumm",
)  # fmt: skip


def _lveval_row(row: Row, *, facts: bool, keywords: bool) -> Row:
    """Keep the columns of a task; its keywords become the last answer."""
    made = {"input": row["input"], "context": row["context"], "answers": row["answers"]}
    if facts:
        made["confusing_facts"] = row["confusing_facts"]
    if keywords:
        made |= {"answers": [*row["answers"], row["answer_keywords"]], "answer_keywords": row["answer_keywords"]}
    return made


_LVEVAL = {
    **dict.fromkeys(("cmrc", "factrecallen", "factrecallzh"), (True, False)),
    "dureader": (False, False),
    **dict.fromkeys(("hotpotwikiqa", "lic", "multifieldqaen", "multifieldqazh"), (True, True)),
    **dict.fromkeys(("looglecr", "looglemir", "looglesd"), (False, True)),
}
"""Which tasks have confusing facts, and which have keywords."""


def _has_no_keyword_answer(row: Row) -> bool:
    """Whether a row of a task with keywords is raw."""
    return [*row.get("answers", ())][-1:] != [row.get("answer_keywords")]


def _lveval(*, facts: bool, keywords: bool) -> Loader:
    change = partial(_lveval_row, facts=facts, keywords=keywords)
    is_raw = _has_no_keyword_answer if keywords else None
    return Loader(partial(_hub_test, change), change, is_raw, "Infinigence/LVEval")


def _leval(*, length: bool, part: int | None = None) -> Loader:
    change = partial(_leval_row, length=length, part=part)
    return Loader(partial(_hub_test, change), change, hub="L4NLP/LEval")


# ---- QASPER ----


def _sections(article: Row) -> str:
    return "\n".join(
        f"{section['section_name'] or ''}\n" + "\n".join(section["paragraphs"]) + "\n"
        for section in article["full_text"]
    )


def _qasper_rows(article: Row) -> list[Row]:
    """Return the questions that have answers in the text."""
    text = _sections(article)
    rows: list[Row] = []
    for asked in article["qas"]:
        given = [each["answer"] for each in asked["answers"]]
        answers = [span for each in given for span in each["extractive_spans"]]
        if answers:
            rows.append({"answer": answers, "question": asked["question"], "evidence": text})
    return rows


LOADERS = {
    "NaturalQuestionDataset": Loader(partial(_tabbed, prefix="nq", first="dev")),
    "TriviaQADataset": Loader(partial(_tabbed, prefix="trivia", first="test")),
    "NQOpenDataset": Loader(partial(_open_questions, prefix="nq-open-", first="train")),
    "TriviaQADatasetV2": Loader(partial(_open_questions, prefix="triviaqa-")),
    "NaturalQuestionDatasetCN": Loader(partial(_open_questions, prefix="", splits=("dev", "test"), first="dev")),
    **dict.fromkeys(("TriviaQADatasetV3", "JsonlDataset"), one_file()),
    **dict.fromkeys(("CMRCDataset", "DRCDDataset"), Loader(_passages)),
    "DropOpenAIDataset": _one_split("validation", "dev.jsonl", columns(prompt="context", answers="ref_text")),
    "lambadaDataset": _one_split("test", "test.jsonl"),
    "IFEvalDataset": one_file(lambda row: {"prompt": row["prompt"], "reference": row}, "input_data.jsonl"),
    "XsumDataset": Loader(
        lambda place: place.json_lines(place.only_file("dev.jsonl"), _xsum_row, limit=1000),
        _xsum_row,
        lambda row: "dialogue" in row,
    ),
    "LCSTSDataset": Loader(_lcsts),
    **{
        f"LongBench{task}Dataset": Loader(partial(_longbench, task), partial(_long_row, task))
        for task in (*_WITHOUT_INPUT, *_WITH_CLASSES, *_WITH_INPUT)
    },
    "LongBenchv2Dataset": Loader(_longbench2, _long_columns),
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_SHORT], _leval(length=False)),
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_LONG], _leval(length=True)),
    "LEvalQualityDataset": _leval(length=False, part=1),
    **{f"LVEval{task}Dataset": _lveval(facts=facts, keywords=keywords) for task, (facts, keywords) in _LVEVAL.items()},
    "QASPERDataset": Loader(
        lambda place: {"dev": place.named_rows(place.only_file("qasper-dev-v0.3.json"), _qasper_rows, "an article")}
    ),
}

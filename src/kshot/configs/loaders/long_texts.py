"""Questions about long texts: L-Eval, LV-Eval, InfiniteBench, QASPER, NarrativeQA, TriviaQA's pages, reports."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from kshot.configs.loaders.reading import Change, DataPlace, Loader, MissingFileError, changed, one_file
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

_PAGE_CHARACTERS = 100_000
"""How much of a page is shown."""


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


# ---- InfiniteBench ----

_CALL = re.compile(r"func_\d+\(-?\d+\)")


def _infinite_row(row: Row, *, asked: str = "") -> Row:
    question = {asked: row["input"]} if asked else {}
    return {"context": row["context"], **question, "answer": row["answer"]}


def _infinite_options(row: Row) -> Row:
    options = {f"option_{letter}": row["options"][number] for number, letter in enumerate("ABCD")}
    answer = chr(ord("A") + row["options"].index(row["answer"][0]))
    return {"context": row["context"], "question": row["input"], **options, "answer": answer}


def _infinite_call(row: Row) -> Row:
    found = _CALL.search(row["input"])
    if found is None:
        raise ValueError("its input calls no function")
    call = found.group()
    return {"context": row["context"], "func": call.partition("(")[0], "func_call": call, "answer": row["answer"]}


_INFINITE: dict[str, Change] = {
    **dict.fromkeys(("endia", "enqa", "zhqa"), partial(_infinite_row, asked="question")),
    **dict.fromkeys(("retrievekv", "retrievenumber", "retrievepasskey"), partial(_infinite_row, asked="input")),
    **dict.fromkeys(("ensum", "mathcalc"), _infinite_row),
    **dict.fromkeys(("codedebug", "enmc"), _infinite_options),
    "coderun": _infinite_call,
}


# ---- QASPER ----


def _sections(article: Row) -> str:
    return "\n".join(
        f"{section['section_name'] or ''}\n" + "\n".join(section["paragraphs"]) + "\n"
        for section in article["full_text"]
    )


def _qasper_rows(article: Row, *, cut: bool) -> list[Row]:
    """Return the questions that have answers in the text; ``cut``: the text begins at the first evidence."""
    text = _sections(article)
    rows: list[Row] = []
    for asked in article["qas"]:
        given = [each["answer"] for each in asked["answers"]]
        answers = [span for each in given for span in each["extractive_spans"]]
        start = min((text.find(clue) for each in given for clue in each["evidence"]), default=0) if cut else 0
        if answers:
            rows.append({"answer": answers, "question": asked["question"], "evidence": text[max(start, 0) :]})
    return rows


def _qasper(place: DataPlace, *, cut: bool) -> Splits:
    path = place.only_file("qasper-dev-v0.3.json")
    articles = place.json(path)
    if not isinstance(articles, dict):
        raise DataError("it must hold an object: an article under each name", where=str(path))
    change = partial(_qasper_rows, cut=cut)
    return {"dev": [row for name, each in articles.items() for row in changed([each], change, f"{path}, {name!r}")]}


# ---- pages and reports in files of their own ----


def _page(place: DataPlace, *parts: str) -> str:
    return place.whole(place.file(*parts))[:_PAGE_CHARACTERS]


def _narratives(place: DataPlace) -> Splits:
    found: dict[str, list[Row]] = {"train": [], "valid": [], "test": []}
    for where, fields in place.csv(place.file("qaps.csv")):
        if len(fields) < len(("document", "set", "question", "answer", "answer")):
            raise DataError(f"this row has {len(fields)} fields instead of 5 or more", where=where)
        document, split, question, *answers = fields
        if split in found and split in place.needed:
            try:
                text = _page(place, "tmp", f"{document}.content")
            except MissingFileError:  # as the frameworks do: a story that was not fetched is not asked
                continue
            found[split].append({"answer": answers[:2], "question": question, "evidence": text})
    return {split: rows for split, rows in found.items() if rows or split in place.needed}


def _trivia_pages(place: DataPlace) -> Splits:
    rows: list[Row] = []
    for name, key, folder in (("web", "SearchResults", "web"), ("wikipedia", "EntityPages", "wikipedia")):
        path = place.file("qa", f"verified-{name}-dev.json")

        def change(row: Row, name: str = name, key: str = key, folder: str = folder) -> Row:
            answer = row["Answer"]
            given = answer["Aliases"] + (answer["HumanAnswers"] if name == "web" else [])
            text = _page(place, "evidence", folder, row[key][0]["Filename"]) if row[key] else ""
            return {"answer": given, "question": row["Question"], "evidence": text}

        found = place.json(path)
        listed = found.get("Data") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise DataError("this file has no list 'Data'", where=str(path))
        rows += changed(listed, change, str(path))
    return {"dev": rows}


def _reports(place: DataPlace) -> Splits:
    def read(split: str) -> list[Row]:
        names = [name for name in place.lines(place.file("gov-report", "split_ids", f"crs_{split}.ids")) if name]
        return [row for name in names for row in _report(place, place.file("gov-report", "crs", f"{name}.json"))]

    return place.splits(("train", "valid", "test"), read)


def _report(place: DataPlace, path: Path) -> list[Row]:
    def change(report: Row) -> Row:
        parts = [
            f"{part['section_title'] or ''}\n" + "\n".join(part["paragraphs"])
            for part in report["reports"]["subsections"]
        ]
        return {"content": "\n".join([report["title"], *parts]), "summary": "\n".join(report["summary"])}

    return changed([place.json(path)], change, str(path))


LOADERS = {
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_SHORT], _leval(length=False)),
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_LONG], _leval(length=True)),
    "LEvalQualityDataset": _leval(length=False, part=1),
    **{f"LVEval{task}Dataset": _lveval(facts=facts, keywords=keywords) for task, (facts, keywords) in _LVEVAL.items()},
    **{f"InfiniteBench{task}Dataset": one_file(change) for task, change in _INFINITE.items()},
    "QASPERDataset": Loader(partial(_qasper, cut=False)),
    "QASPERCUTDataset": Loader(partial(_qasper, cut=True)),
    "NarrativeQADataset": Loader(_narratives),
    "TriviaQArcDataset": Loader(_trivia_pages),
    "GovRepcrsDataset": Loader(_reports),
}

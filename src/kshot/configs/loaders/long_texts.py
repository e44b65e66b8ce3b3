"""Questions about long texts: L-Eval, LV-Eval, QASPER."""

from __future__ import annotations

from functools import partial

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row

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


def _qasper(place: DataPlace) -> Splits:
    path = place.only_file("qasper-dev-v0.3.json")
    articles = place.json(path)
    if not isinstance(articles, dict):
        raise DataError("it must hold an object: an article under each name", where=str(path))
    return {
        "dev": [row for name, each in articles.items() for row in changed([each], _qasper_rows, f"{path}, {name!r}")]
    }


LOADERS = {
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_SHORT], _leval(length=False)),
    **dict.fromkeys([f"LEval{task}Dataset" for task in _LEVAL_LONG], _leval(length=True)),
    "LEvalQualityDataset": _leval(length=False, part=1),
    **{f"LVEval{task}Dataset": _lveval(facts=facts, keywords=keywords) for task, (facts, keywords) in _LVEVAL.items()},
    "QASPERDataset": Loader(_qasper),
}

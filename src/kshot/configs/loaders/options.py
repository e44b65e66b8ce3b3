"""Questions with a few answers: options (ARC, HellaSwag, …), yes or no (BoolQ), labels (CLUE, SuperGLUE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from kshot.configs.loaders.reading import Change, DataPlace, Loader, changed, known, one_file, split_files, without
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


# ---- questions with four options under one key ----


def _circular_rows(row: Row, number: int) -> list[Row]:
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


def cloze_or_options(name: str, change: Change, *, circular: bool) -> Change:
    """Return the change for rows of a task: ``change``, unless its name says cloze, or its options go in a circle."""
    numbers = count()

    def changed_row(row: Row) -> Row | list[Row] | None:
        number = next(numbers)
        if "cloze" in name:
            return {"question": row["question"].strip(), "answer": row["answer"].strip()}
        return _circular_rows(row, number) if circular else change(row)

    return changed_row


def _wikibench(place: DataPlace) -> Splits:
    """Read WikiBench, which names a file, and CompassBench, whose path is one."""
    name = place.text("name")
    path = place.file(place.text("filename").lstrip("/")) if "filename" in place.options else place.only_file()
    change = cloze_or_options(
        name, lambda row: {**row, "question": with_options(row, row["options"])}, circular="circular" in name
    )
    return place.json_lines(path, change)


# ---- WinoGrande ----


def _winogrande_row(row: Row, *, lettered: bool) -> Row:
    sentence, answer = row["sentence"], row["answer"]
    if lettered:
        answer = " AB"[int(answer)] if answer != "" else "NULL"
    return {
        "prompt": sentence,
        "only_option1": row["option1"],
        "only_option2": row["option2"],
        "opt1": sentence.replace("_", row["option1"]),
        "opt2": sentence.replace("_", row["option2"]),
        "answer": answer,
        "cont": sentence.split("_")[1],
    }


_NUMBERED_ANSWER, _LETTERED_ANSWER = (partial(_winogrande_row, lettered=lettered) for lettered in (False, True))


# ---- PIQA and SIQA: a file of rows and a file of labels ----


def _labelled(place: DataPlace, change: Callable[[Row, int], Row]) -> Splits:
    files = {"train": "train", "validation": "dev"}

    def read(split: str) -> list[Row]:
        path, labels = place.file(f"{files[split]}.jsonl"), place.file(f"{files[split]}-labels.lst")
        rows, given = place.json_lines(path), [line for line in place.lines(labels) if line]
        if len(rows) != len(given):
            raise DataError(f"it has {len(given)} labels for {len(rows)} rows of {path.name}", where=str(labels))
        return [
            new
            for number, (row, label) in enumerate(zip(rows, given, strict=True), start=1)
            for new in changed([row], lambda row, label=label: change(row, int(label)), f"{path}:{number}")  # type: ignore[misc]
        ]

    return place.splits(files, read)


def _siqa_candidates(row: Row, label: int) -> Row:
    """Keep every form in which each answer may be given."""
    candidates = [[f"{letter}. {row[f'answer{letter}']}", letter, row[f"answer{letter}"]] for letter in "ABC"]
    return {**row, "all_labels": {"candidates": candidates, "label": label - 1}, "label": " ABC"[label]}


def _pair(change: Callable[[Row, int], Row]) -> Loader:
    """Return a loader of these files; a row of the hub holds its label."""
    return Loader(lambda place: _labelled(place, change), lambda row: change(row, int(row["label"])))


# ---- BoolQ and WiC ----


def is_true(value: object) -> bool:
    """Whether a label says true; the files write it as text, and some copies as a truth value."""
    return value in ("true", True)


def _truth_number(row: Row) -> Row:
    if "answer" in row and "label" not in row:  # the hub's form
        return {**row, "label": "true" if row["answer"] else "false", "answer": int(bool(row["answer"]))}
    return {**row, "answer": int(is_true(row["label"]))}


def _truth_letter(row: Row) -> Row:
    if "label" not in row:  # the hub's form
        return {**row, "label": "A" if row["answer"] else "B"}
    return {**row, "label": known({"true": "A", "false": "B"}, str(row["label"]).lower(), "label")}


def _boolq_sentences(row: Row) -> Row:
    """Drop the passage's title, and begin the question with a capital."""
    passage, question = row["passage"].split(" -- ")[1:], row["question"]
    return {**row, "passage": " -- ".join(passage), "question": question[0].upper() + question[1:]}


def _begins_small(row: Row) -> bool:
    """Whether a row is raw: the file writes its questions in small letters."""
    return str(row.get("question"))[:1].islower()


# ---- CLUE, FewCLUE, SuperGLUE ----

_INFERENCE = {"entailment": "A", "contradiction": "B", "neutral": "C"}
_ENTAILMENT = {"entailment": "A", "not_entailment": "B"}
_BLANK = "#idiom#"
_NEWS = {
    "news_agriculture": "农业新闻",
    "news_travel": "旅游新闻",
    "news_game": "游戏新闻",
    "news_tech": "科技类别公司新闻",
    "news_sports": "体育类别新闻",
    "news_edu": "初升高教育新闻",
    "news_entertainment": "娱乐圈新闻",
    "news_finance": "投资资讯",
    "news_military": "军事类别常识",
    "news_car": "车辆新闻",
    "news_house": "楼市新闻",
    "news_world": "环球不含中国类别新闻",
    "news_culture": "书籍文化历史类别新闻",
    "news_story": "故事类别新闻",
    "news_stock": "股票市场类别新闻",
}
"""The kinds of news of TNews, and what they are called in prompts."""


def _judged(row: Row) -> Row | None:
    """Drop a pair on which people did not agree."""
    return None if row["label"] == "-" else row


def _relabelled(row: Row, *, labels: dict[str, str], disputed: str = "") -> Row | None:
    """Write a label as a letter; a pair on which people did not agree is dropped."""
    label = row["label"]
    return None if disputed and label == disputed else {**row, "label": known(labels, label, "label")}


def _is_unlettered(row: Row, *, letters: str = "ABC") -> bool:
    """Whether the label of a row is none of the letters: the row is raw."""
    return row.get("label") not in tuple(letters)


_THREE_LABELS = partial(_relabelled, labels=_INFERENCE, disputed="-")
_IS_UNDECIDED = partial(_is_unlettered, letters="AB")


# ---- CLUEWSC, CHID, TNews, CSL, EPRSTMT ----


def _with_name(row: Row, *, split: Callable[[str], list[str]], between: str) -> Row:
    """Put the name in the place of the pronoun, which is one part of the text."""
    target = row["target"]
    parts = split(row["text"])
    parts[target["span2_index"]] = target["span1_text"]
    spans = {"span1": target["span1_text"], "span2": target["span2_text"]}
    return {**without(row, "target"), "new_text": between.join(parts), "answer": int(is_true(row["label"])), **spans}


def _chid_row(row: Row) -> Row:
    filled = {f"content{n}": row["content"].replace(_BLANK, idiom) for n, idiom in enumerate(row["candidates"])}
    return {**row, **filled}


def _reviews_row(row: Row) -> Row:
    return {"sentence": row["sentence"], "label": known({"Positive": "A", "Negative": "B"}, row["label"], "label")}


# ---- SuperGLUE and tests like it ----

_COMMITMENT = {"contradiction": "A", "entailment": "B", "neutral": "C"}
_ADVERSARIAL = {"c": "A", "e": "B", "n": "C"}


def _numbered(row: Row, *, letters: str) -> Row:
    return {**row, "label": letters[row["label"]]}


def _wsc_row(row: Row) -> Row:
    """Refuse a pronoun of several words: the name is put in the place of one."""
    if " " in row["target"]["span2_text"]:
        raise ValueError(f"span2_text is {row['target']['span2_text']!r}, not one word")
    return _with_name(row, split=lambda text: text.split(" "), between=" ")


# CLUEWSC, CHID, TNews, CSL, BoolQ, WiC and WSC: their ``data_files`` are read elsewhere, so only rows change.
LOADERS = {
    "ARCDataset": Loader(_arc, _arc_row),
    "GPQADataset": Loader(_gpqa),
    "OBQADataset": one_file(_openbook_row, "test.jsonl"),
    "commonsenseqaDataset": split_files(
        _commonsense_row, train="train_rand_split.jsonl", validation="dev_rand_split.jsonl"
    ),
    "HellaswagDataset": one_file(_either(_NUMBERED), "hellaswag.jsonl"),
    "HellaswagDataset_V2": one_file(_either(_LETTERED), "hellaswag.jsonl"),
    "HellaswagDatasetwithICE": replace(
        split_files(_LETTERED, train="hellaswag_train_sampled25.jsonl", val="hellaswag.jsonl"),
        change=_either(_LETTERED),
    ),
    **dict.fromkeys(("WikiBenchDataset", "CompassBenchObjectiveV1_3"), Loader(_wikibench)),
    "WinograndeDataset": one_file(_NUMBERED_ANSWER, "dev.jsonl"),
    "WinograndeDatasetV2": one_file(_LETTERED_ANSWER, "dev.jsonl"),
    "WinograndeDatasetV3": split_files(_LETTERED_ANSWER, train_xs="train_xs.jsonl", dev="dev.jsonl"),
    "PIQADataset": _pair(lambda row, label: {**without(row, "id"), "label": label}),
    "PIQADatasetV2": _pair(lambda row, label: {**without(row, "id"), "answer": "NULL" if label < 0 else "AB"[label]}),
    "siqaDataset": _pair(lambda row, label: {**row, "label": label}),
    "siqaDataset_V2": _pair(_siqa_candidates),
    **dict.fromkeys(("BoolQDataset", "WiCDataset"), one_file(_truth_number)),
    **dict.fromkeys(
        ("BoolQDatasetV2", "WiCDatasetV2"),
        one_file(_truth_letter, "val.jsonl", is_raw=_IS_UNDECIDED),
    ),
    "BoolQDatasetV3": one_file(_boolq_sentences, "val.jsonl", is_raw=_begins_small),
    "CMNLIDataset": one_file(_judged, "dev.json", is_raw=_is_unlettered),
    "CMNLIDatasetV2": one_file(_THREE_LABELS, "dev.json", is_raw=_is_unlettered),
    "AFQMCDatasetV2": one_file(
        lambda row: {**row, "label": "AB"[int(row["label"])]}, "dev.json", is_raw=_is_unlettered
    ),
    "AXDatasetV2": one_file(partial(_relabelled, labels=_ENTAILMENT), is_raw=_is_unlettered),
    "CluewscDataset": one_file(partial(_with_name, split=list, between="")),
    "CHIDDataset": one_file(_chid_row),
    "TNewsDataset": one_file(lambda row: {**row, "label_desc2": known(_NEWS, row["label_desc"], "label_desc")}),
    "CslDataset": one_file(lambda row: {**row, "keywords": "，".join(row["keyword"])}),
    "EprstmtDatasetV2": one_file(_reviews_row, is_raw=_is_unlettered),
    "WSCDataset": one_file(_wsc_row),
    "COPADatasetV2": one_file(partial(_numbered, letters="AB"), is_raw=_is_unlettered),
    "CBDatasetV2": one_file(partial(_relabelled, labels=_COMMITMENT), is_raw=_is_unlettered),
    "AnliDataset": one_file(partial(_relabelled, labels=_ADVERSARIAL), is_raw=_is_unlettered),
    "SummeditsDataset_V2": one_file(partial(_numbered, letters="BA"), is_raw=_is_unlettered),
}

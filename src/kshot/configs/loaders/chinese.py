"""CLUE, FewCLUE and SuperGLUE: JSON lines whose labels become letters or texts."""

from __future__ import annotations

from functools import partial

from kshot.configs.loaders.commonsense import is_true
from kshot.configs.loaders.reading import known, listed_files, one_file
from kshot.core.records import Row

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


def _relabelled(row: Row, *, labels: dict[str, str]) -> Row | None:
    label = row["label"]
    if label == "-" and len(labels) == len(_INFERENCE):
        return None
    return {**row, "label": known(labels, label, "label")}


def _binary(row: Row) -> Row:
    return {**row, "label": "AB"[int(row["label"])]}


def _is_unlettered(row: Row) -> bool:
    return row.get("label") not in ("A", "B", "C")


# ---- CLUEWSC, CHID, TNews, CSL, EPRSTMT ----


def _cluewsc_row(row: Row) -> Row:
    """Put the name in the place of the pronoun, which is one character."""
    target = row["target"]
    characters = list(row["text"])
    characters[target["span2_index"]] = target["span1_text"]
    rest = {name: value for name, value in row.items() if name != "target"}
    spans = {"span1": target["span1_text"], "span2": target["span2_text"]}
    return {**rest, "new_text": "".join(characters), "answer": int(is_true(row["label"])), **spans}


def _chid_row(row: Row) -> Row:
    filled = {f"content{n}": row["content"].replace(_BLANK, idiom) for n, idiom in enumerate(row["candidates"])}
    return {**row, **filled}


def _tnews_row(row: Row) -> Row:
    return {**row, "label_desc2": known(_NEWS, row["label_desc"], "label_desc")}


def _csl_row(row: Row) -> Row:
    return {**row, "keywords": "，".join(row["keyword"])}


def _reviews_row(row: Row) -> Row:
    return {"sentence": row["sentence"], "label": known({"Positive": "A", "Negative": "B"}, row["label"], "label")}


LOADERS = {
    "CMNLIDataset": one_file(_judged, "dev.json", is_raw=_is_unlettered),
    "CMNLIDatasetV2": one_file(partial(_relabelled, labels=_INFERENCE), "dev.json", is_raw=_is_unlettered),
    "AFQMCDatasetV2": one_file(_binary, "dev.json", is_raw=_is_unlettered),
    "AXDatasetV2": one_file(partial(_relabelled, labels=_ENTAILMENT), is_raw=_is_unlettered),
    "CluewscDataset": listed_files(_cluewsc_row),
    "CHIDDataset": listed_files(_chid_row),
    "TNewsDataset": listed_files(_tnews_row),
    "CslDataset": listed_files(_csl_row),
    "EprstmtDatasetV2": one_file(_reviews_row, is_raw=_is_unlettered),
}

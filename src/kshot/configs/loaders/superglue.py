"""SuperGLUE and tests like it, from JSON lines: WSC, COPA, CB, ANLI, SummEdits."""

from __future__ import annotations

from functools import partial

from kshot.configs.loaders.commonsense import is_true
from kshot.configs.loaders.reading import known, listed_files, one_file
from kshot.core.records import Row

_COMMITMENT = {"contradiction": "A", "entailment": "B", "neutral": "C"}
_ADVERSARIAL = {"c": "A", "e": "B", "n": "C"}


def _is_unlettered(row: Row) -> bool:
    return row.get("label") not in ("A", "B", "C")


def _renamed(row: Row, *, labels: dict[str, str]) -> Row:
    return {**row, "label": known(labels, row["label"], "label")}


def _numbered(row: Row, *, letters: str) -> Row:
    return {**row, "label": letters[row["label"]]}


# ---- WSC ----


def _spans(row: Row) -> dict[str, str]:
    return {"span1": row["target"]["span1_text"], "span2": row["target"]["span2_text"]}


def _wsc_row(row: Row) -> Row:
    """Put the name in the place of the pronoun, which is one word."""
    target, words = row["target"], row["text"].split(" ")
    if " " in target["span2_text"]:
        raise ValueError(f"span2_text is {target['span2_text']!r}, not one word")
    words[target["span2_index"]] = target["span1_text"]
    rest = {name: value for name, value in row.items() if name != "target"}
    return {**rest, "new_text": " ".join(words), "answer": int(is_true(row["label"])), **_spans(row)}


LOADERS = {
    "WSCDataset": listed_files(_wsc_row),
    "COPADatasetV2": one_file(partial(_numbered, letters="AB"), is_raw=_is_unlettered),
    "CBDatasetV2": one_file(partial(_renamed, labels=_COMMITMENT), is_raw=_is_unlettered),
    "AnliDataset": one_file(partial(_renamed, labels=_ADVERSARIAL), is_raw=_is_unlettered),
    "SummeditsDataset_V2": one_file(partial(_numbered, letters="BA"), is_raw=_is_unlettered),
}

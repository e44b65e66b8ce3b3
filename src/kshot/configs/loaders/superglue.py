"""SuperGLUE and tests like it, from JSON lines: WSC, COPA, CB, MultiRC, ReCoRD, ANLI, SummEdits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kshot.configs.loaders.commonsense import is_true
from kshot.configs.loaders.reading import known, listed_files, one_file
from kshot.core.records import Row

_TRUTH = {"true": "A", "false": "B"}
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


def _wsc_lettered(row: Row) -> Row:
    return {**_spans(row), "text": row["text"], "label": known(_TRUTH, str(row["label"]).lower(), "label")}


def _wsc_marked(row: Row) -> Row:
    """Write ``* … *`` around the name and ``# … #`` around the pronoun."""
    return {**_wsc_lettered(row), "text": " ".join(_marked_words(row))}


def _marked_words(row: Row) -> Iterator[str]:
    target = row["target"]
    places = {
        target[f"span{number}_index"] + offset: (offset, f"{sign} {target[f'span{number}_text']} {sign}")
        for number, sign in ((2, "#"), (1, "*"))  # where both cover a word, the first counts
        for offset in range(len(target[f"span{number}_text"].split(" ")))
    }
    for place, word in enumerate(row["text"].split(" ")):
        offset, shown = places.get(place, (0, word))
        if offset == 0:
            yield shown


# ---- MultiRC, ReCoRD ----


def _multirc_row(row: Row, *, letters: str) -> list[Row]:
    passage = row["passage"]
    return [
        {
            "text": passage["text"],
            "question": asked["question"],
            "answer": answer["text"],
            "label": letters[answer["label"]] if letters else answer["label"],
        }
        for asked in passage["questions"]
        for answer in asked["answers"]
    ]


def _record_row(row: Row, *, closer: bool) -> list[Row]:
    text = row["passage"]["text"].replace("@highlight", "")
    return [
        {
            "text": text.replace("\n\n", "\n") if closer else text,
            "question": asked["query"].replace("@placeholder", "____"),
            "answers": [answer["text"] for answer in asked["answers"]],
        }
        for asked in row["qas"]
    ]


LOADERS = {
    "WSCDataset": listed_files(_wsc_row),
    "WSCDatasetV2": one_file(_wsc_lettered, is_raw=lambda row: "target" in row),
    "WSCDatasetV3": one_file(_wsc_marked, is_raw=lambda row: "target" in row),
    "COPADatasetV2": one_file(partial(_numbered, letters="AB"), is_raw=_is_unlettered),
    "CBDatasetV2": one_file(partial(_renamed, labels=_COMMITMENT), is_raw=_is_unlettered),
    "AnliDataset": one_file(partial(_renamed, labels=_ADVERSARIAL), is_raw=_is_unlettered),
    "SummeditsDataset_V2": one_file(partial(_numbered, letters="BA"), is_raw=_is_unlettered),
    "MultiRCDataset": one_file(partial(_multirc_row, letters="")),
    "MultiRCDatasetV2": one_file(partial(_multirc_row, letters="BA")),
    "ReCoRDDataset": one_file(partial(_record_row, closer=False)),
    "ReCoRDDatasetV2": one_file(partial(_record_row, closer=True)),
}

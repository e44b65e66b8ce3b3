"""Rows of seven shapes, the same every time: as ARC, MMLU, HellaSwag, LAMBADA, GSM8K, WikiText and BoolQ have them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TRAIN, TEST, PAGES = 24, 30, 8

# Characters of one to four bytes, so that a share by characters and one by bytes choose differently.
NAMES = ["Ana", "Bjørn", "Zoë", "Łukasz", "Mei", "Tom", "Ünal", "Ivy", "Noé", "Ada"]
PLACES = ["Zürich", "Paris", "København", "Kraków", "Lima", "東京", "Oslo", "Cádiz", "北京市", "Rome"]
THINGS = ["a café", "the old bridge", "a naïve plan", "two apples", "the 日本語 book", "a red kite", "🎻 music", "tea"]
VERBS = ["likes", "sees", "buys", "draws", "forgets", "finds"]
MARKS = ["", " [title] Then", " [step]", " [substeps]"]


def sentence(draw: random.Random) -> str:
    """Return a sentence without a mark at its end."""
    return f"{draw.choice(NAMES)} {draw.choice(VERBS)} {draw.choice(THINGS)} in {draw.choice(PLACES)}"


def choices(draw: random.Random) -> dict[str, Any]:
    """Four options of different lengths, in words."""
    first, second = draw.sample(PLACES, 2)
    options = [first, second, draw.choice(THINGS), f"{sentence(draw)}."]
    draw.shuffle(options)
    return {"question": f"What is near {draw.choice(PLACES)}?", "options": options, "label": draw.randrange(4)}


def endings(draw: random.Random) -> dict[str, Any]:
    """HellaSwag's columns, with the marks of WikiHow."""
    parts = [
        f"{draw.choice(VERBS)} {draw.choice(THINGS)}{draw.choice(MARKS)} in {draw.choice(PLACES)}." for _ in range(4)
    ]
    return {
        "activity_label": f"{draw.choice(THINGS).capitalize()}",
        "ctx_a": f"{sentence(draw)}.{draw.choice(MARKS)}",
        "ctx_b": draw.choice(["", draw.choice(NAMES).lower()]),
        "endings": parts,
        "label": str(draw.randrange(4)),
    }


def passage(draw: random.Random) -> dict[str, Any]:
    """LAMBADA's column: the last word has been said before."""
    place = draw.choice(PLACES)
    return {
        "text": f"{draw.choice(NAMES)} lives in {place}. {sentence(draw)}, but {draw.choice(NAMES)} lives in {place}"
    }


def problem(draw: random.Random) -> dict[str, Any]:
    """GSM8K's columns."""
    one, other = draw.randrange(2, 6), draw.randrange(2, 6)
    return {
        "question": f"{draw.choice(NAMES)} has {one} apples and {other} plums. How many?",
        "answer": f"{one}+{other}={one + other}.\n#### {one + other}",
    }


def page(draw: random.Random) -> dict[str, Any]:
    """A text as WikiText has it; half of them are far longer than a model's window."""
    count = draw.choice([1, 4, 70, 75])
    return {"page": " = Title = \n \n " + " . ".join(sentence(draw) for _ in range(count)) + " . \n"}


def yes_or_no(draw: random.Random) -> dict[str, Any]:
    """BoolQ's columns; a passage of eight is longer than a model's window, and is cut from the left."""
    name, thing, other = draw.choice(NAMES), *draw.sample(THINGS, 2)
    label = draw.randrange(2)
    before = "".join(f"{sentence(draw)}. " for _ in range(draw.choice([0, 0, 0, 0, 0, 0, 0, 130])))
    question = f"does {name.lower()} like {thing if label else other}"
    return {"passage": f"{before}{name} likes {thing}.", "question": question, "label": label}


MAKERS = {
    "text": choices,
    "letters": choices,
    "continuation": endings,
    "lastword": passage,
    "generation": problem,
    "rolling": page,
    "yesno": yes_or_no,
}


def as_text(shape: str, row: dict[str, Any]) -> str:
    """A question with its answer, as a model learns it."""
    match shape:
        case "text":
            return f"Question: {row['question']}\nAnswer: {row['options'][row['label']]}"
        case "letters":
            listed = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", row["options"], strict=True))
            return f"{row['question']}\n{listed}\nAnswer: {'ABCD'[row['label']]}"
        case "continuation":
            return f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()} {row['endings'][int(row['label'])]}"
        case "generation":
            return f"Question: {row['question']}\nAnswer: {row['answer']}"
        case "yesno":
            return f"{row['passage']}\nQuestion: {row['question']}?\nAnswer: {['no', 'yes'][row['label']]}"
        case _:
            return row["text" if shape == "lastword" else "page"]


def rows(shape: str, split: str) -> list[dict[str, Any]]:
    """The rows of a shape; those of the two splits differ."""
    draw = random.Random(f"{shape} {split}")
    size = PAGES if shape == "rolling" else TRAIN if split == "train" else TEST
    return [MAKERS[shape](draw) for _ in range(size)]


def write_rows(folder: Path, most: int | None = None) -> None:
    """Write SHAPE_train.jsonl and SHAPE_test.jsonl of every shape; ``most``: rows of the latter."""
    for shape in MAKERS:
        for split in ("train", "test"):
            some = rows(shape, split)[: most if split == "test" else None]
            lines = [json.dumps(row, ensure_ascii=False) for row in some]
            (folder / f"{shape}_{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

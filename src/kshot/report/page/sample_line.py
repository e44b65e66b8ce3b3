"""A sample as one line of a list: its names, its verdict, and the beginnings of its texts."""

from __future__ import annotations

from typing import Any

from kshot.core.records import UNANSWERED
from kshot.core.visible import one_line
from kshot.report.sample_answers import option_words
from kshot.report.sample_look import SampleLook
from kshot.report.sample_texts import option_letter, written
from kshot.runs.sample_filters import name_of

_MOST = 200
"""Characters of a text in a list."""


def sample_line(look: SampleLook, n: int) -> dict[str, Any]:
    """Return what a list shows of a sample; ``n`` is its line number, from 0. Every text is safe to be shown."""
    row, scale = look.row, look.scale
    return {
        "n": n,
        **{part: one_line(name_of(row, part)) for part in ("task", "model", "id")},
        "category": one_line(row["category"]) if row.get("category") is not None else None,
        "verdict": scale.verdict(row),
        "score": None if row.get("failed") else scale.score(row),
        "answer": short_answer(look),
        "target": _target(look),
        "text": short(asked_text(look)),
    }


def short(text: str) -> str:
    """Return the beginning of a text on one line; "…" says that there is more."""
    told = one_line(" ".join(text[: 4 * _MOST].split()))
    return told if len(told) <= _MOST and len(text) <= 4 * _MOST else f"{told[: _MOST - 1]}…"


def short_answer(look: SampleLook) -> str:
    """Return the beginning of the answer: an option with its letter, a text, or the ids of passages."""
    return short_value(look.answer, look)


def short_value(answer: Any, look: SampleLook) -> str:
    """Return the beginning of an answer to this sample, which may be that of another rule."""
    if answer is None:
        return ""
    if type(answer) is int and look.response.chooses:
        return short(lettered_option(answer, look))
    if isinstance(answer, dict):
        text, nll = answer.get("text"), answer.get("nll")
        told = text if isinstance(text, str) else f"{nll:.2f} nats" if isinstance(nll, float) else written(answer)
        return short(told)
    return short(_list(answer, ", "))


def asked_text(look: SampleLook) -> str:
    """Return what asks, without the examples before it; of a document that is measured, the document."""
    response = look.response
    if response.likelihood is not None and not look.row.get("prompt"):
        return str(response.likelihood["text"])
    text = look.question.messages[-1][1] if look.row.get("prompt") is not None else ""
    return text if len(text) <= _MOST else text[text.rstrip().rfind("\n\n") + 1 :]  # the question is the last paragraph


def _target(look: SampleLook) -> str:
    """Return the beginning of what would be right."""
    target = look.row.get("target")
    if target is None:
        return ""
    if look.response.chooses:
        rights = target if isinstance(target, list) else [target]
        return short(" or ".join(lettered_option(each, look) for each in rights))
    if isinstance(target, dict):
        return short(", ".join(str(name) for name, grade in target.items() if grade))
    if isinstance(target, list) and target and all(isinstance(each, list) for each in target):
        return short(" · ".join(_list(quotes[:1], " or ") for quotes in target))
    return short(_list(target, " or "))


def _list(value: Any, between: str) -> str:
    return between.join(map(written, value[:_MOST])) if isinstance(value, list) else written(value)


def lettered_option(index: Any, look: SampleLook) -> str:
    """Return an option as prompts list it, such as "B. Venus"."""
    text = option_words(index, look.response.options, look.row)
    if type(index) is not int or index == UNANSWERED or not 0 <= index < len(look.response.options.texts):
        return text
    letter = option_letter(index)
    return text if text == letter or text.startswith(f"{letter}.") else f"{letter}. {text}"

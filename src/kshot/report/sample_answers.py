"""The answer to a sample in words: the name of an option, the rule that read the answer, what was not whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kshot.core.records import UNANSWERED, ResultRow
from kshot.report.sample_look import SampleLook
from kshot.report.sample_responses import SampleOptions
from kshot.report.sample_texts import counted, option_letter, parts_of, written

_MAX_LETTERED = 10_000
"""No prompt has more options."""

_STOPS = {
    "length": "the reply was cut: it has all tokens that --max-tokens allows",
    "window": "the reply was cut: the context window was full",
}


def option_words(index: Any, options: SampleOptions, row: ResultRow) -> str:
    """Return the text of an option, or its letter where only the prompt has the texts, as in folders of 0.1."""
    if not isinstance(index, int):
        return written(index)
    if index == UNANSWERED:
        return "none: several options come first" if row.get("tied") else "none"
    if 0 <= index < len(options.texts):
        return options.texts[index]
    return option_letter(index) if 0 <= index < _MAX_LETTERED else written(index)


def rule_words(look: SampleLook) -> str:
    """Return the rule by which the answer was read from the reply, or chosen among the options; "" without one."""
    row, answers = look.row, look.row.get("answers")
    rule = row.get("rule")
    if isinstance(rule, list):
        names = dict.fromkeys(written(each) for each in rule if each is not None)
        return f"the most frequent; read by: {', '.join(names)}" if names else ""
    if rule is not None:
        return f"({written(rule)})" if row.get("answer") == UNANSWERED else f'by the rule "{written(rule)}"'
    if isinstance(answers, dict) and look.response.options.logprobs:
        own = look.scale.metric if look.scale.metric in answers else look.scale.rule
        differ = [name for name, index in answers.items() if index != look.answer]
        return (f"by {own}" + (f" (not by {', '.join(differ)})" if differ else "")) if own else ""
    return ""


def cut_notes(row: ResultRow) -> Iterator[str]:
    """Yield what is not whole: a reply that was cut, or a prompt."""
    reasons = set(map(written, parts_of(row.get("stop_reason"))))
    yield from (note for reason, note in _STOPS.items() if reason in reasons)
    cut = [count for count in parts_of(row.get("cut_tokens")) if isinstance(count, int) and count > 0]
    if cut:
        yield f"the prompt was too long: {counted(max(cut), 'token')} were cut from its beginning"

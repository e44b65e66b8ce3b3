"""A sample as data for pages: its line in a list, and all of it on a card, with the evidence in its passages.

Rows may come from strangers. Every text is made visible, every number is finite, and what a row has beyond what kshot
writes is kept under more as JSON text. No row is an error.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from kshot.core.fixed_text import Fixer
from kshot.core.records import UNANSWERED, ResultRow
from kshot.core.visible import one_line, visible, visible_json
from kshot.report.cells import shared_start
from kshot.report.sample_look import (
    QuestionPlace,
    SampleLook,
    counted,
    cut_notes,
    evidence_quotes,
    evidence_ranks,
    is_conversation,
    likelihood_text,
    option_letter,
    option_words,
    parts_of,
    question_place,
    rule_words,
    whole_prompt,
    with_shown_media,
    written,
)
from kshot.runs.headline import finite
from kshot.runs.sample_filters import name_of

Span: TypeAlias = tuple[int, int, int]
"""Where evidence begins and ends in a text, and the component that it supports, from 1."""

_MAX_ALIGNED = 2_000
"""Characters of a changed piece that are compared one by one; a longer one is marked as a whole."""


def evidence_spans(text: str, quotes: Sequence[Sequence[str]]) -> list[Span]:
    """Return all places of all quotes in a text, in order; ``quotes`` are those of each component."""
    fix = Fixer()
    lines = list(fix.lines(text))
    fixed = "".join(each for _, each in lines)
    places = _Places(lines)
    found = [
        (places.start(at), places.end(at + len(quote)), number)
        for number, each in enumerate(quotes, start=1)
        for quote in dict.fromkeys(fix(one) for one in each)
        for at in _occurrences(fixed, quote)
    ]
    return sorted(set(found))


def script_length(text: str) -> int:
    """Return the length of a text as scripts of pages count it, and as they cut it: an emoji counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _occurrences(text: str, quote: str) -> Iterator[int]:
    at = text.find(quote) if quote else -1
    while at >= 0:
        yield at
        at = text.find(quote, at + len(quote))


class _Places:
    """From places in a fixed text to those in the text that it was made of."""

    def __init__(self, lines: Sequence[tuple[str, str]]) -> None:
        self._lines = lines
        self._fixed = [0, *accumulate(len(fixed) for _, fixed in lines)]
        self._own = [0, *accumulate(len(line) for line, _ in lines)]

    def start(self, at: int) -> int:
        """Return where the character at this place begins."""
        return self._piece(at)[0]

    def end(self, at: int) -> int:
        """Return where the character before this place ends."""
        return self._piece(at - 1)[1]

    def _piece(self, at: int) -> tuple[int, int]:
        """Return the characters that the one at this place of the fixed text came from."""
        number = min(bisect_right(self._fixed, at), len(self._lines)) - 1
        line, fixed = self._lines[number]
        first, last = _origin(line, fixed, at - self._fixed[number])
        return self._own[number] + first, self._own[number] + last


def _origin(line: str, fixed: str, at: int) -> tuple[int, int]:
    if line == fixed:
        return at, at + 1
    before = len(shared_start(line, fixed))
    if at < before:
        return at, at + 1
    after = min(len(shared_start(line[::-1], fixed[::-1])), len(line) - before, len(fixed) - before)
    if at >= len(fixed) - after:
        place = at - len(fixed) + len(line)
        return place, place + 1
    mine, theirs = line[before : len(line) - after], fixed[before : len(fixed) - after]
    first, last = _aligned(mine, theirs, at - before)
    return before + first, before + last


def _aligned(mine: str, theirs: str, at: int) -> tuple[int, int]:
    if max(len(mine), len(theirs)) > _MAX_ALIGNED:
        return 0, len(mine)
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes():
        if i1 <= at < i2:
            if kind == "equal":
                return j1 + at - i1, j1 + at - i1 + 1
            return (j1, j2) if j1 < j2 else (max(j1 - 1, 0), min(j1 + 1, len(mine)))  # new: it came from around there
    return 0, len(mine)


def passage_cards(row: ResultRow, passages: Sequence[ResultRow], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each passage with its rank, grade and text; ``marks`` are the places of the evidence in the text.

    A mark is ``[start, end, components]``; marks do not overlap, and components are counted from 1.
    """
    target, quotes = row.get("target"), evidence_quotes(row)
    grades = target if isinstance(target, dict) else {}
    recorded = evidence_ranks(row)
    cards = []
    for rank, hit in enumerate(passages, start=1):
        text = texts.get(hit["id"])
        marks = [] if text is None else _marks(text, quotes)
        found = {component for _, _, components in marks for component in components}
        told = {number for number, ranks in enumerate(recorded, start=1) if rank in ranks}
        grade = grades.get(hit["id"])
        cards.append(
            {
                "rank": rank,
                "id": one_line(hit["id"]),
                "score": finite(hit["score"]),
                "grade": one_line(written(grade)) if grade else None,
                "text": None if text is None else visible(text),
                "marks": []
                if text is None
                else [[script_length(visible(text[:a])), script_length(visible(text[:b])), of] for a, b, of in marks],
                "components": sorted(found | told),
            }
        )
    return cards


def component_cards(row: ResultRow, passages: Sequence[ResultRow], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each component of the answer: its quotes, any of which is enough, and the first passage that has one.

    ``state`` is ``found``, ``missing`` (in none of the passages that the measures look at), or ``unknown`` where the
    run does not say and has not all texts.
    """
    quotes = evidence_quotes(row)
    recorded = evidence_ranks(row)
    known = bool(recorded) or all(hit["id"] in texts for hit in passages)
    cards = []
    for number, each in enumerate(quotes):
        having = (rank for rank, hit in enumerate(passages, 1) if evidence_spans(texts.get(hit["id"], ""), [each]))
        rank = min(recorded[number], default=None) if recorded else next(having, None)
        state = "found" if rank is not None else "missing" if known else "unknown"
        cards.append({"number": number + 1, "quotes": [visible(quote) for quote in each], "rank": rank, "state": state})
    return cards


def _marks(text: str, quotes: Sequence[Sequence[str]]) -> list[tuple[int, int, list[int]]]:
    """Return the stretches of a text that are evidence, and the components of each; they do not overlap."""
    spans = evidence_spans(text, quotes)
    borders = sorted({border for start, end, _ in spans for border in (start, end)})
    stretches = [
        (start, end, sorted({number for first, last, number in spans if first <= start and end <= last}))
        for start, end in pairwise(borders)
    ]
    return [stretch for stretch in stretches if stretch[2]]


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
        "answer": short_value(look.answer, look),
        "target": _target(look),
        "text": short(asked_text(look)),
    }


def short(text: str) -> str:
    """Return the beginning of a text on one line; "…" says that there is more."""
    told = one_line(" ".join(text[: 4 * _MOST].split()))
    return told if len(told) <= _MOST and len(text) <= 4 * _MOST else f"{told[: _MOST - 1]}…"


def short_value(answer: Any, look: SampleLook) -> str:
    """Return the beginning of an answer to this sample: an option with its letter, a text, or the ids of passages."""
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
        return short(" or ".join(lettered_option(each, look) for each in parts_of(target)))
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


_TOLD = frozenset(
    ("task", "model", "id", "category", "answer", "answers", "rule", "options", "target", "evidence", "stop_reason")
)
"""What a card always tells in its own places."""


def sample_card(look: SampleLook, n: int, passage_texts: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return one sample as the JSON ``SampleCard``; ``n`` is its line in ``samples.jsonl``.

    ``passage_texts`` has the texts of passages by their ids, where the run stored them.
    """
    row, response, texts = look.row, look.response, passage_texts or {}
    pattern = visible(look.pattern) if look.pattern and response.replies else None
    return {
        **sample_line(replace(look, full=False) if look.full else look, n),
        "metric": one_line(look.scale.label),
        "scores": _scores(look),
        "prompt": _prompt(look),
        "query": _query(look),
        "passages": passage_cards(row, response.passages, texts),
        "components": component_cards(row, response.passages, texts),
        "reasoning": [visible(text) for text in response.reasoning],
        "replies": _replies(look),
        "options": list(_options(look)),
        "likelihood": _likelihood(look),
        "read": {"answers": _answers(look), "rule": one_line(rule_words(look)), "pattern": pattern},
        "answers": _by_rule(look),
        "targets": [visible(text) for text in _targets(look)],
        "failed": visible(written(row["failed"])) if row.get("failed") else None,
        "notes": [one_line(note) for note in _notes(row)],
        "judge": _judgements(row),
        # the rest of the row: what the card does not tell, or could not read
        "more": {one_line(name): visible_json(each) for name, each in row.items() if not _is_told(look, name, each)},
    }


def _scores(look: SampleLook) -> dict[str, float | str]:
    found, scale = look.row.get("scores"), look.scale
    scores = found if isinstance(found, dict) else {}
    return {
        one_line(scale.label if name == scale.metric else name): one_line(written(value)) if number is None else number
        for name, value, number in ((name, value, finite(value)) for name, value in scores.items())
    }


# ---- what was asked ----


def _prompt(look: SampleLook) -> dict[str, Any] | None:
    """Return the messages of the prompt, and where it asks; None where nothing was asked."""
    prompt = look.row.get("prompt")
    if prompt is None or (look.response.likelihood and prompt == ""):
        return None
    place = question_place(prompt, look.shots)
    return {**_messages(prompt, place), "above": place.above, "shots": look.shots}


def _messages(prompt: Any, place: QuestionPlace = QuestionPlace()) -> dict[str, Any]:  # noqa: B008 - it is frozen
    messages = whole_prompt(prompt).messages
    before = messages[place.message][1][: place.start]
    return {
        "messages": [{"role": one_line(role), "content": visible(content)} for role, content in messages],
        "asks": place.message,
        "asks_at": script_length(visible(before)),
    }


def _query(look: SampleLook) -> str | None:
    """Return what a rewriter made of the question."""
    if not look.response.rewritten:
        return None
    return visible(next(part for part in parts_of(look.row.get("response")) if isinstance(part, str))).strip()


# ---- what came back ----


def _replies(look: SampleLook) -> list[dict[str, Any]]:
    """Return the replies. How each ended stands in the row; the replies of a rewriter come first there."""
    response = look.response
    texts = [part for part in parts_of(look.row.get("response")) if isinstance(part, str)]
    reasons = list(parts_of(look.row.get("stop_reason")))
    own = reasons[len(texts) - len(response.replies) :] if len(reasons) == len(texts) else []
    return [
        {
            "text": visible(text),
            "tokens": _tokens(tokens),
            "stop_reason": one_line(written(own[at])) if at < len(own) and own[at] is not None else None,
        }
        for at, (text, tokens) in enumerate(zip(response.replies, response.reply_tokens, strict=True))
    ]


def _tokens(found: Sequence[tuple[str, float]] | None) -> list[list[Any]] | None:
    return None if found is None else [[visible(text), finite(logprob)] for text, logprob in found]


def _options(look: SampleLook) -> Iterator[dict[str, Any]]:
    """Yield the options with all that is known of each, in the order of the row."""
    options, row, answer = look.response.options, look.row, look.answer
    if not look.response.chooses:
        return
    rights = {each for each in parts_of(row.get("target")) if type(each) is int}
    shares: Sequence[float | None] = _shares(options.logprobs) or [None] * len(options.texts)
    listed = row.get("options")
    for at, (text, share) in enumerate(zip(options.texts, shares, strict=True)):
        label, own = _labelled(at, text, listed)
        yield {
            "label": one_line(label),
            "text": visible(own),
            "logprob": finite(options.logprobs[at]) if options.logprobs else None,
            "tokens": options.tokens[at] if options.tokens else None,
            "baseline": finite(options.baselines[at]) if options.baselines else None,
            "share": share,
            "chosen": type(answer) is int and answer == at,
            "right": at in rights,
            "token_logprobs": _tokens(options.token_logprobs[at]) if options.token_logprobs else None,
        }


def _labelled(at: int, text: str, listed: Any) -> tuple[str, str]:
    """Return the letter of an option and its text; in the text of a lettered option the letter stands first."""
    own = listed[at] if isinstance(listed, list) and at < len(listed) else None
    if isinstance(own, str) and text.endswith(f". {own.strip()}"):
        return text[: len(text) - len(own.strip()) - 2], own.strip()
    letter = option_letter(at)
    return letter, "" if text == letter else text


def _shares(logprobs: Sequence[float]) -> list[float] | None:
    """Return the share of each option in the probability of all: a softmax over their total log-probabilities."""
    known = [each for each in map(finite, logprobs) if each is not None]
    if not known or len(known) != len(logprobs):
        return None
    largest = max(known)
    weights = [math.exp(each - largest) for each in known]
    whole = sum(weights)
    return [each / whole for each in weights]


def _likelihood(look: SampleLook) -> dict[str, Any] | None:
    """Return the text that was measured, and how likely it is, in words."""
    measured = look.response.likelihood
    if measured is None:
        return None
    told = one_line(likelihood_text(look.row.get("answer")))
    return {"text": visible(measured["text"]), "measured": told, "tokens": _tokens(look.response.likelihood_tokens)}


# ---- how the answer was read, and what would be right ----


def _answers(look: SampleLook) -> list[str]:
    """Return the answer, or each of several, as texts; none where passages or a likelihood are the answer."""
    answer, response = look.answer, look.response
    if look.row.get("failed") or response.likelihood or response.ranks:
        return []
    if response.chooses and isinstance(answer, int):
        return [visible(lettered_option(answer, look))]
    if isinstance(answer, dict) and isinstance(answer.get("text"), str):
        return [visible(answer["text"])]
    return [visible(written(each)) for each in (answer if isinstance(answer, list) else [answer])]


def _by_rule(look: SampleLook) -> dict[str, str]:
    found = look.row.get("answers")
    answers = found if isinstance(found, dict) else {}
    return {one_line(rule): visible(lettered_option(each, look)) for rule, each in answers.items()}


def _targets(look: SampleLook) -> Iterable[str]:
    """Yield what would be right; graded passages and evidence have places of their own."""
    target, response = look.row.get("target"), look.response
    if target is None or (response.likelihood and target == [response.likelihood["text"].strip()]):
        return ()
    if response.chooses:
        return [lettered_option(each, look) for each in parts_of(target)]
    if isinstance(target, dict) and response.ranks:
        return [f"{name} (grade {written(grade)})" for name, grade in target.items() if grade]
    if isinstance(target, list):
        return () if target and all(isinstance(each, list) for each in target) else map(written, target)
    return [written(target)]


def _notes(row: ResultRow) -> Iterator[str]:
    """Yield what is out of the ordinary, in words."""
    yield from cut_notes(row)
    if isinstance(failed := row.get("failed_replies"), int) and failed > 0:
        yield f"{counted(failed, 'more time')} the model was asked, and failed"
    if tied := row.get("tied"):
        rules = [written(each) for each in tied] if isinstance(tied, list) else []
        yield "several options come first" + (f", by {', '.join(rules)}" if rules else "")
    for group in parts_of(row.get("identical_options")):
        places = [each for each in parts_of(group) if type(each) is int]
        yield f"these options are the same: {', '.join(map(option_letter, places))}"


def _judgements(row: ResultRow) -> list[dict[str, Any]]:
    return [
        {"prompt": _messages(each.get("prompt")), "reply": visible(written(each.get("response")))}
        for each in parts_of(row.get("judge"))
        if isinstance(each, dict)
    ]


# ---- everything else ----


def _is_told(look: SampleLook, name: str, value: Any) -> bool:
    """Whether the card tells all that the row has under a name."""
    if value is None or name in _TOLD:
        return True
    tells = _TELLS.get(name)
    return tells is not None and tells(look, value, list(parts_of(value)))


def _is_read(look: SampleLook, parts: Sequence[Any]) -> bool:
    """Whether each part of a response is a reply, a passage, or an option or text that was measured."""
    response = look.response
    if not all(isinstance(part, str | dict) for part in parts):
        return False
    measured = [part for part in parts if isinstance(part, dict) and "logprob" in part]
    texts = sum(isinstance(part, str) for part in parts)
    others = len(parts) - texts - len(measured)
    shown = bool(response.likelihood) or not measured or (response.chooses and bool(response.options.logprobs))
    return shown and others == len(response.passages) and (not measured or len(measured) >= len(response.options.texts))


_TELLS: Mapping[str, Callable[[SampleLook, Any, Sequence[Any]], bool]] = {
    "prompt": lambda _, value, __: isinstance(value, str) or is_conversation(with_shown_media(value)),
    "response": lambda look, _, parts: _is_read(look, parts),
    "reasoning": lambda look, _, parts: len(parts) == len(look.response.reasoning),
    "scores": lambda _, value, __: isinstance(value, dict),
    "judge": lambda _, __, parts: all(isinstance(p, dict) and p.keys() <= {"prompt", "response"} for p in parts),
    "token_logprobs": lambda look, _, __: any(each is not None for each in look.response.reply_tokens),
    "failed": lambda _, value, __: bool(value),
}
"""Whether a card tells all of what a row has under a name: from the look, the value, and its parts."""

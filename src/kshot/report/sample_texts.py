"""The texts of a sample for people: examples are folded away, long texts are cut in their middle, and each says so.

Rows may come from strangers: whatever a part of a message holds, it becomes a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.report.cells import SafeText, assembled, block, cell, joined

_DIGEST_LETTERS = 12


def shown_content(content: Any) -> Any:
    """Return the content of a message as one text, if all its parts are such as kshot writes; else as it is."""
    if not isinstance(content, list) or not all(isinstance(each, dict) and "type" in each for each in content):
        return content
    return "\n".join(_shown(each) for each in content)


def _shown(part: dict[str, Any]) -> str:
    if part["type"] == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    digest, size, pictures = part.get("digest"), part.get("bytes"), part.get("pictures")
    told = [
        part.get("name"),
        part.get("url"),
        part.get("mime"),
        f"{pictures:,} pictures" if type(pictures) is int else None,
        f"{size:,} bytes" if type(size) is int else None,
        digest[:_DIGEST_LETTERS] if isinstance(digest, str) else None,
    ]
    words = " · ".join(each for each in told if isinstance(each, str) and each)
    kind = part["type"] if isinstance(part["type"], str) else json.dumps(part["type"])
    return f"[{kind} {words}]" if words else json.dumps(part, ensure_ascii=False)


_ROUND_BREAK = "\n\n"
_NOTE = "dim italic"
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class TextLimit:
    """How much of a text is shown; a third of it is its beginning, the rest its end, where answers stand."""

    characters: int
    lines: int


def excerpt(text: str, limit: TextLimit | None) -> SafeText:
    """Return a text, without its middle if it is longer than the limit; the count of what is left out stands there."""
    if not text:
        return cell("(empty)", _NOTE)
    if not text.strip():
        return cell(f"(nothing but white space: {json.dumps(text[:40])})", _NOTE)
    if limit is None:
        return block(text)
    text = text.strip("\n")
    head = _beginning(text, limit.characters // 3, max(1, limit.lines // 3))
    tail = len(text) - _beginning(text[::-1], limit.characters - head, limit.lines - max(1, limit.lines // 3))
    if tail <= head:
        return block(text)
    before, after = text[:head].rstrip("\n"), text[tail:].lstrip("\n")
    note = f"… {len(text) - len(before) - len(after):,} characters left out …"
    return joined("\n", [block(before), cell(note, _NOTE), block(after)])


def _beginning(text: str, characters: int, lines: int) -> int:
    """Return where the first lines of a text end, or the first characters if those are fewer."""
    end = -1
    for _ in range(lines):
        end = text.find("\n", end + 1, characters)
        if end == -1:
            return min(characters, len(text))
    return end


# ---- prompts ----


@dataclass(frozen=True, slots=True)
class FoldedPrompt:
    """The messages of a prompt that ask (a text is one message without a role), and what was above them."""

    messages: Sequence[tuple[str, str]]
    above: str = ""
    size: int = 0

    def text(self, limit: TextLimit | None) -> SafeText:
        """Return the prompt, after a note on what is folded away."""
        parts = [cell(f"… {self.above} above ({self.size:,} characters)", _NOTE)] if self.above else []
        for role, content in self.messages:
            parts += [cell(f"[{role}]", "dim")] if role else []
            parts.append(excerpt(content, limit))
        return joined("\n", parts)


@dataclass(frozen=True, slots=True)
class QuestionPlace:
    """Where a prompt asks: the message, and the character in it; ``above`` says in words what is before it."""

    message: int = 0
    start: int = 0
    above: str = ""


def question_place(prompt: Any, shots: int | None) -> QuestionPlace:
    """Return where a prompt begins to ask; ``shots`` is how many examples a prompt of the run may show.

    None: the run does not say. Then only the earlier messages of a conversation are before the question.
    """
    messages = whole_prompt(prompt).messages
    last, system = len(messages) - 1, int(messages[0][0] == "system")
    folded = last if shots is None else min(system + 2 * shots, last)
    if folded > system:
        return QuestionPlace(folded, 0, counted(folded, "message") if shots is None else counted(shots, "example"))
    start, count = _question_start(messages[last][1], shots or 0)  # examples and question are one message, or a text
    return QuestionPlace(last, start, counted(count, "example")) if start else QuestionPlace()


def folded_prompt(prompt: Any, shots: int | None) -> FoldedPrompt:
    """Return a prompt without the examples before its question; ``shots`` as in ``question_place``."""
    messages, place = whole_prompt(prompt).messages, question_place(prompt, shots)
    if place.start:
        return FoldedPrompt([("", messages[place.message][1][place.start :])], place.above, place.start)
    asked, size = messages[place.message :], sum(len(content) for _, content in messages[: place.message])
    alone = len(asked) == 1 and asked[0][0] == "user"
    return FoldedPrompt([("", asked[0][1])] if alone else asked, place.above, size)


def whole_prompt(prompt: Any) -> FoldedPrompt:
    """Return all of a prompt."""
    prompt = with_shown_media(prompt)
    if is_conversation(prompt):
        return FoldedPrompt([(str(message["role"]), message["content"]) for message in prompt])
    return FoldedPrompt([("", prompt if isinstance(prompt, str) else written(prompt))])


def with_shown_media(prompt: Any) -> Any:
    """Return a prompt whose messages are texts: images, sounds and videos stand there in words."""
    if not isinstance(prompt, list) or not any(map(_has_parts, prompt)):
        return prompt
    return [{**each, "content": shown_content(each["content"])} if _has_parts(each) else each for each in prompt]


def _has_parts(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), list)


def is_conversation(prompt: Any) -> bool:
    """Whether a prompt is a list of messages, as kshot writes them."""
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(isinstance(each, dict) and isinstance(each.get("content"), str) and "role" in each for each in prompt)
    )


def _question_start(text: str, shots: int) -> tuple[int, int]:
    """Return where the question begins in a text with examples before it, and how many there are; 0, 0 if unsure.

    Examples are written as the question is: its last line, such as "Answer:", stands in each of them. Otherwise the
    blank lines between them tell, if every one has as many. A prompt that does not fit either way is shown whole.
    """
    last = "\n" + text[text.rfind("\n") + 1 :]
    found = text.count(last) - 1
    if last.strip() and 0 < found <= shots:
        place = text[: -len(last)].rfind(last)
        start = text.find(_ROUND_BREAK, place + len(last))
        return (start + len(_ROUND_BREAK), found) if start >= 0 else (0, 0)
    rounds = text.split(_ROUND_BREAK)
    head = len(rounds) % (shots + 1)
    if shots and len(rounds) > shots and head <= 1:
        asked = (len(rounds) - head) // (shots + 1)
        return len(text) - len(_ROUND_BREAK.join(rounds[-asked:])), shots
    return 0, 0


# ---- values ----


def written(value: Any) -> str:
    """Return a value of a row as a text; texts are shown as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def several(values: Sequence[Any], limit: TextLimit | None, *, numbered: bool) -> SafeText:
    """Return values one below the other: numbered, or as alternatives of which any is right."""
    shown = values if limit is None else values[:_MAX_LISTED]
    more = [cell(f"… {len(values) - len(shown)} more", _NOTE)] if len(shown) < len(values) else []
    lines = [
        assembled((f"{number}. " if numbered else "or " if number > 1 else "", "dim"), excerpt(written(each), limit))
        for number, each in enumerate(shown, start=1)
    ]
    return joined("\n", [*lines, *more])


def option_letter(index: int) -> str:
    """Return the letter that a prompt gives an option: A, B, … Z, AA."""
    name = ""
    while index >= 0:
        index, rest = divmod(index, 26)
        name = chr(ord("A") + rest) + name
        index -= 1
    return name


def figure_text(value: float) -> str:
    """Return a score: four digits are enough to look at."""
    return f"{value:.4g}"


def counted(count: int, what: str) -> str:
    """Return a count of things in words."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def parts_of(response: Any) -> Iterator[Any]:
    """Yield the parts of a response: replies, options or passages."""
    yield from response if isinstance(response, list) else [] if response is None else [response]

"""Conversations turn by turn: where a filled dialogue wants a reply, and what comes before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.prompts.dialogue import TEMPLATE_ROLES, Filled, Messages, PromptList
from kshot.prompts.meta import Meta, MetaTemplate, is_mark, mark

REPLIES = ("BOT", "assistant")
QUESTIONS = ("HUMAN", "user")


def reply_places(filled: PromptList | Messages) -> list[int]:
    """Return the positions of the replies: the model's items in the round, not those of examples."""
    return _places(filled, REPLIES)


def _places(filled: PromptList | Messages, roles: Sequence[str]) -> list[int]:
    sections: list[str] = []
    places = []
    for index, item in enumerate(filled):
        if is_mark(item):
            opens = item["pos"] == "begin" or (item["section"] == "end" and sections[-1:] != ["end"])
            if opens:
                sections.append(item["section"])
            else:
                del sections[-1:]
        elif not isinstance(item, str) and item.get("role") in roles and (not sections or sections[-1] == "round"):
            places.append(index)
    return places


def with_replies(filled: Filled, gold: Any = None) -> PromptList | Messages:
    """Return the conversation with a place for each reply: after every question, if the template itself has none."""
    if isinstance(filled, str):
        filled = PromptList([mark("round", "begin"), {"role": "HUMAN", "prompt": filled}, mark("round", "end")])
    if reply_places(filled):
        return filled
    answers = list(gold) if isinstance(gold, (list, tuple)) else [gold]
    role, content = ("assistant", "content") if isinstance(filled, Messages) else ("BOT", "prompt")
    result = type(filled)(filled)
    for turn, place in reversed(list(enumerate(_places(filled, QUESTIONS)))):
        answer = answers[turn] if turn < len(answers) and answers[turn] is not None else ""
        result.insert(place + 1, {"role": role, content: str(answer)})
    return result


def before_reply(filled: PromptList | Messages, turn: int, replies: Sequence[str] | None) -> PromptList | Messages:
    """Return everything before a reply; ``replies`` replace the earlier ones (None: the right ones stay)."""
    place = reply_places(filled)[turn]
    content = "content" if isinstance(filled, Messages) else "prompt"
    history = type(filled)(dict(item) if isinstance(item, dict) else item for item in filled[:place])
    if replies is not None:
        for earlier, reply in zip(reply_places(history), replies, strict=False):
            history[earlier][content] = reply
    if isinstance(history, PromptList):
        history.extend([{**filled[place], "prompt": ""}, mark("round", "end")])
    return history


def history_text(history: PromptList | Messages, meta: Meta | None) -> str:
    """Return what a base model reads of a conversation before a reply, by the rule of OpenCompass's ChatInferencer.

    Each message stands between the begin and the end of its role, then comes the begin of the reply's role; nothing
    else of the meta template is used. Without one, all messages are joined by line breaks, empty ones too.
    """
    if isinstance(history, PromptList):
        said = [item for item in history[:-2] if not is_mark(item) and item]  # without the place of the reply
        pairs = [("HUMAN", item) if isinstance(item, str) else (item["role"], item.get("prompt", "")) for item in said]
    else:
        pairs = [(TEMPLATE_ROLES.get(item["role"], item["role"]), item["content"]) for item in history]
    if not meta:
        return "\n".join(str(text) for _, text in pairs)
    roles = MetaTemplate.of(meta).roles
    sides = [(roles.get(role, {}), text) for role, text in pairs]
    wrapped = "".join(f"{side.get('begin') or ''}{text}{side.get('end') or ''}" for side, text in sides)
    return wrapped + str(roles.get("BOT", {}).get("begin") or "")


def gold_replies(filled: PromptList | Messages) -> list[Any]:
    """Return the right replies of a conversation."""
    content = "content" if isinstance(filled, Messages) else "prompt"
    return [filled[place].get(content, "") for place in reply_places(filled)]


def given_chat(value: Any) -> Messages | None:
    """Return the messages of a column that holds a conversation; None for any other value."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(item, Mapping) for item in value):
        return None
    for item in value:
        if item.get("role") not in TEMPLATE_ROLES or "content" not in item:
            raise DataError(
                f"a message of the conversation is {item!r:.80}", hint="Write dict(role='user', content=…)."
            )
    return Messages(dict(item) for item in value)

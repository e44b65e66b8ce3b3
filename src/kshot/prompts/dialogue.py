"""Filled dialogues: flat lists of role items, plain strings and section marks, and how each kind of model reads one.

A mark is ``{"section": name, "pos": "begin" | "end"}``, the sections are ``begin``, ``round``, ``end`` and, around an
example, ``ice``; a role item is ``{"role": …, "prompt": …}`` with perhaps ``fallback_role``, ``begin``, ``end`` and
``generate``.

``mode`` is ``gen`` (the text stops where the model is to write) or ``ppl`` (the whole conversation is scored).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from kshot.core.errors import DataError

Meta: TypeAlias = Mapping[str, Any]
Turn: TypeAlias = list[str | dict[str, Any]]
"""Role items in the order of the meta round, and strings."""

# ---- Meta templates: which roles a model knows, and how a filled dialogue is cut into turns of these roles ----


def mark(section: str, pos: str) -> dict[str, str]:
    """Return the mark that opens or closes a section."""
    return {"section": section, "pos": pos}


def is_mark(item: Any) -> bool:
    """Whether an item of a dialogue opens or closes a section."""
    return isinstance(item, dict) and "section" in item


def check_role(item: Any) -> None:
    """Refuse an item whose role, or the role that it falls back to, is no text."""
    for name in ("role", "fallback_role") if isinstance(item, Mapping) else ():
        if not isinstance(item.get(name), str | None):
            raise DataError(f"the {name} of an item is {item[name]!r:.60}; it must be text")


@dataclass(slots=True)
class TurnPart:
    """A part of a dialogue that is one turn of a round; only where strict are there strings among its items."""

    items: Turn
    last: bool
    """Whether the model is to write in this turn."""


@dataclass(slots=True)
class MetaTemplate:
    """The roles of a meta template, checked."""

    round: Sequence[Any]
    roles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, meta: Meta) -> MetaTemplate:
        """Check a meta template; a faulty one is a DataError."""
        entries = meta.get("round")
        if not isinstance(entries, (list, tuple)):
            raise DataError("the meta template has no list 'round'", hint="Write round=[dict(role='HUMAN', …), …].")
        made = cls(entries)
        for place, entry in enumerate([*entries, *(meta.get("reserved_roles") or ())]):
            if isinstance(entry, str):
                continue
            if not isinstance(entry, Mapping) or "role" not in entry:
                raise DataError(f"an entry of the meta template has no role: {entry!r}")
            check_role(entry)
            if entry["role"] in made.roles:
                raise DataError(f"the meta template has the role {entry['role']!r} twice")
            made.roles[entry["role"]] = entry
            if place < len(entries):
                made.places[entry["role"]] = place
        return made

    @property
    def generates(self) -> bool:
        """Whether one of the roles is marked as the one that writes."""
        return any(isinstance(entry, Mapping) and entry.get("generate") for entry in self.round)

    def role_of(self, item: Mapping[str, Any]) -> str:
        """Return the role of an item: its own, or the one that it falls back to."""
        return _known_role(item, self.roles)

    def stands_aside(self, item: Mapping[str, Any]) -> bool:
        """Whether an item has a reserved role and names no role of the round to fall back to."""
        role = item.get("role")
        return role in self.roles and role not in self.places and item.get("fallback_role") not in self.places

    def merged(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an item with everything that the meta template says of its role and the item does not."""
        return {**self.roles[self.role_of(item)], **item}

    def turns(self, items: Turn, *, strict: bool = True) -> list[Turn]:
        """Cut items into turns: a new turn starts where the place of a role does not increase.

        A reserved role has no place in a round. Not strict, its item stays where it is, in the turn that it is in.
        """
        turns: list[Turn] = [[]]
        last = -1
        for item in items:
            if isinstance(item, str) or (not strict and self.stands_aside(item)):
                turns[-1].append(item)
                continue
            place = self.places[_known_role(item, self.places)]
            if place <= last:
                turns.append([])
            turns[-1].append(item)
            last = place
        return turns


def _known_role(item: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    for name in ("role", "fallback_role"):
        if item.get(name) in known:
            return str(item[name])
    raise DataError(
        f"the role {item.get('role')!r} is not in the meta template, and its item names no fallback_role that is",
        hint=f"Roles here: {', '.join(known)}.",
    )


def dialogue_parts(dialogue: Sequence[Any], meta: MetaTemplate, *, strict: bool) -> Iterator[Any]:
    """Yield the parts of a dialogue in reading order: turns of rounds, and items outside of rounds.

    A string inside a round stays in its place where strict; the frameworks read it before the whole round.
    """
    open_sections: list[str] = []
    pending: Turn = []
    for item in dialogue:
        inside = open_sections[-1] if open_sections else "begin"
        if is_mark(item):
            opens = item["pos"] == "begin" or (item["section"] == "end" and inside != "end")
            if opens:
                if pending:  # examples in the middle of a round
                    yield from (TurnPart(turn, last=False) for turn in meta.turns(pending, strict=strict))
                    pending = []
                open_sections.append(item["section"])
                continue
            if not open_sections or open_sections.pop() != item["section"]:
                raise DataError(f"the section {item['section']!r} closes without having been opened")
            if inside in ("round", "ice"):
                turns = meta.turns(pending, strict=strict)
                pending = []
                for index, turn in enumerate(turns):
                    yield TurnPart(turn, last=inside == "round" and index == len(turns) - 1)
        elif inside in ("round", "ice") and (strict or not isinstance(item, str)):
            pending.append(item)
        else:
            yield item


Mode: TypeAlias = Literal["gen", "ppl"]

# ---- Dialogues ----

CHAT_META: Meta = {
    "round": [{"role": "HUMAN", "api_role": "HUMAN"}, {"role": "BOT", "api_role": "BOT", "generate": True}],
    "reserved_roles": [{"role": "SYSTEM", "api_role": "SYSTEM"}],
}
CHAT_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}
TEMPLATE_ROLES = {chat: role for role, chat in CHAT_ROLES.items()}


class PromptList(list[Any]):
    """A filled dialogue, flat: marks, role items and strings, in reading order."""

    def __str__(self) -> str:
        """Join all prompts."""
        return "".join(item if isinstance(item, str) else item.get("prompt", "") for item in self)


class Messages(list[dict[str, Any]]):
    """Messages that a template gave directly, as ``{"role": "user", "content": …}``."""


Filled: TypeAlias = str | PromptList | Messages
"""A template with a row's columns in it."""


def as_dialogue(messages: Messages) -> PromptList:
    """Return messages as a dialogue: leading system messages are its ``begin``, the others its ``round``."""
    items = [{"role": TEMPLATE_ROLES.get(m["role"], m["role"]), "prompt": m["content"]} for m in messages]
    count = next((i for i, item in enumerate(items) if item["role"] != "SYSTEM"), len(items))
    lead = [mark("begin", "begin"), *items[:count], mark("begin", "end")] if count else []
    return PromptList([*lead, mark("round", "begin"), *items[count:], mark("round", "end")])


def plain_text(filled: Filled, *, strict: bool = True) -> str:
    """Return what a base model without a meta template reads: the prompts that are not empty, joined by line breaks.

    In the frameworks an empty first item still brings the line break that follows it.
    """
    if isinstance(filled, str):
        return filled
    prompts: list[str] = []
    for item in as_dialogue(filled) if isinstance(filled, Messages) else filled:
        if is_mark(item):
            continue
        if not isinstance(item, str) and (strict or not isinstance(item.get("prompt", ""), str)):
            _refuse_parts(item)
        prompts.append(item if isinstance(item, str) else item.get("prompt", ""))
    lead = "\n" if not strict and isinstance(filled, PromptList) and prompts and not prompts[0] and any(prompts) else ""
    return lead + "\n".join(filter(None, prompts))


def _refuse_parts(item: Mapping[str, Any]) -> None:
    if "prompt_mm" in item or isinstance(item.get("prompt"), list):
        raise DataError(
            "a base model cannot read images, sound or video, and the prompt has some",
            hint="Use a chat model, or a template of text alone.",
        )


# ---- Base models with a meta template ----


def with_meta(filled: Filled, meta: Meta | None, mode: Mode = "gen", *, strict: bool = True) -> str:
    """Return what a base model reads: each item between its role's begin and end; without ``meta`` the plain text."""
    if isinstance(filled, str):
        return filled
    if not meta:
        return plain_text(filled, strict=strict)
    known = MetaTemplate.of(meta)
    text = _loose_text(meta.get("begin") or "", known, strict=strict)
    for part in dialogue_parts(as_dialogue(filled) if isinstance(filled, Messages) else filled, known, strict=strict):
        if not isinstance(part, TurnPart):
            text += _loose_text(part, known, strict=strict)
            continue
        more, stopped = _turn_text(part, known, generating=mode == "gen", strict=strict)
        text += more
        if stopped:
            return text
    return text + (_loose_text(meta.get("end") or "", known, strict=strict) if mode == "ppl" else "")


def _loose_text(item: Any, known: MetaTemplate, *, strict: bool) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return _wrapped(known.merged(item), strict=strict)
    return "".join(_loose_text(one, known, strict=strict) for one in item)


def _wrapped(merged: Mapping[str, Any], *, strict: bool) -> str:
    if strict:
        _refuse_parts(merged)
    return f"{merged.get('begin') or ''}{merged.get('prompt', '')}{merged.get('end') or ''}"


def _turn_text(turn: TurnPart, known: MetaTemplate, *, generating: bool, strict: bool) -> tuple[str, bool]:
    """Return the text of one turn, with every role of the meta round, and whether the model is to continue it."""
    items: dict[str, Mapping[str, Any]] = {}
    after: dict[str, str] = {}  # strings that follow a role's item
    current = ""
    for item in turn.items:
        if isinstance(item, str):
            after[current] = after.get(current, "") + item
            continue
        if not strict and known.stands_aside(item):
            after[current] = after.get(current, "") + _wrapped(known.merged(item), strict=strict)
            continue
        current = known.role_of(item)
        if strict and current not in known.places:
            raise DataError(
                f"the role {current!r} is reserved in the meta template: in a round its text would be lost",
                hint="Put the item into the template's begin.",
            )
        items[current] = item
    text = after.get("", "")
    for entry in known.round:
        if isinstance(entry, str):
            text += entry
            continue
        merged = {**entry, **items.get(entry["role"], {})}
        if generating and turn.last and merged.get("generate"):
            return text + (merged.get("begin") or ""), True
        text += _wrapped(merged, strict=strict) + after.get(entry["role"], "")
    return text, False


# ---- Chat models ----


def chat_items(
    filled: Filled, meta: Meta | None = None, mode: Mode = "gen", *, strict: bool = True, whole_turns: bool = False
) -> str | PromptList:
    """Return the items of a chat by API role (``HUMAN``, ``BOT``, ``SYSTEM``), neighbours of one role merged.

    ``whole_turns``: a role that a turn lacks is there with an empty text, as in OpenCompass.
    """
    if isinstance(filled, str):
        return filled
    if isinstance(filled, Messages):
        return PromptList({"role": TEMPLATE_ROLES.get(m["role"], m["role"]), "prompt": m["content"]} for m in filled)
    meta = meta or CHAT_META
    known = MetaTemplate.of(meta)
    lead = meta.get("begin") or []
    if isinstance(lead, str):
        _refuse_loss(lead, strict=strict)
        lead = []
    items = PromptList(_chat_item(known, item) for item in ([lead] if isinstance(lead, Mapping) else lead) if item)
    for part in dialogue_parts(filled, known, strict=strict):
        last = mode == "gen" and isinstance(part, TurnPart) and part.last
        for item in _turn_items(part, known, whole=whole_turns) if isinstance(part, TurnPart) else [part]:
            if isinstance(item, str):
                _refuse_loss(item, strict=strict)
            elif last and known.merged(item).get("generate"):
                break
            else:
                _add(items, _chat_item(known, item))
        if last and known.generates:
            break
    if not items:
        raise DataError("nothing of the prompt is left for a chat model to read")
    return items


def _turn_items(turn: TurnPart, known: MetaTemplate, *, whole: bool) -> Turn:
    """Return the items of a turn; ``whole``: with an empty one for each role of the meta round that it lacks."""
    roles = {known.role_of(item): item for item in turn.items if not isinstance(item, str)}
    if not whole or not all(role in known.places for role in roles):  # a reserved role would lose its place
        return turn.items
    return [
        roles.get(entry["role"], {"role": entry["role"], "prompt": ""})
        for entry in known.round
        if not isinstance(entry, str)
    ]


def _refuse_loss(item: str, *, strict: bool) -> None:
    if strict and item.strip():
        raise DataError(
            f"a chat model has no place for the text {item[:60]!r}, which has no role",
            hint="Write it as dict(role='SYSTEM', fallback_role='HUMAN', prompt=…).",
        )


def _chat_item(known: MetaTemplate, item: Any) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise DataError(f"the begin of a chat model's meta template needs roles: {item!r}")
    merged = known.merged(item)
    content = merged.get("prompt_mm", merged.get("prompt", ""))
    if isinstance(content, str):
        content = f"{merged.get('begin') or ''}{content}{merged.get('end') or ''}"
    return {"role": merged.get("api_role") or known.role_of(item), "prompt": content}


def _add(items: PromptList, item: dict[str, Any]) -> None:
    """Append an item, or merge it with the last one if both have the same role."""
    if not items or items[-1]["role"] != item["role"]:
        items.append(item)
        return
    before, more = items[-1]["prompt"], item["prompt"]
    if isinstance(before, str) and isinstance(more, str):
        items[-1]["prompt"] = f"{before}\n{more}"
    else:
        items[-1]["prompt"] = [*_parts(before), *_parts(more)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def chat_messages(
    filled: Filled, meta: Meta | None = None, mode: Mode = "gen", *, strict: bool = True, whole_turns: bool = False
) -> list[dict[str, Any]]:
    """Return what a chat model reads: ``[{"role": "user", "content": …}, …]``; plain text is one user message."""
    if isinstance(filled, Messages):
        return [dict(message) for message in filled]
    items = chat_items(filled, meta, mode, strict=strict, whole_turns=whole_turns)
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    for item in items:
        if item["role"] not in CHAT_ROLES:
            raise DataError(f"a chat model has no role {item['role']!r}", hint=f"It has {', '.join(CHAT_ROLES)}.")
    return [{"role": CHAT_ROLES[item["role"]], "content": item["prompt"]} for item in items]


# ---- conversations ----

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

"""All templates of config files: of text and dialogues, of conversations, of images and sound, and raw messages.

A template is a string, a dialogue, or one of these per label, with ``{column}`` fields. ``strict`` is kshot's own
reading: fields are filled in one pass, inserted text is never changed, and what would be lost without notice is a
DataError. ``strict=False`` fills as AISBench and OpenCompass do, for files written for them.
"""

from __future__ import annotations

import base64
import copy
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, TypeAlias

from kshot.core.content import media_type
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import CHAT_ROLES, TEMPLATE_ROLES, Filled, Messages, PromptList, check_role, is_mark, mark

Shape: TypeAlias = str | PromptList
"""A template without its examples and columns."""

SECTIONS = ("begin", "round", "end")
MAX_LETTERS = 50_000_000
"""How long a prompt may be."""
FIELD = re.compile(r"\{([^{}]*)\}")
"""A field of a template."""


def fill(text: str, row: Row, *, strict: bool = True) -> str:
    """Replace ``{column}`` by the text of that column; other braces stay as they are."""
    if "{" not in text:
        return text
    if strict:
        names = [name for name in FIELD.findall(text) if name in row]
        _check_length(len(text) + sum(len(str(row[name])) * times for name, times in Counter(names).items()))
        return FIELD.sub(lambda found: str(row[found[1]]) if found[1] in row else found[0], text)
    for name, value in row.items():
        field, written = f"{{{name}}}", str(value)
        _check_length(len(text) + text.count(field) * len(written))
        text = text.replace(field, written)
    return text


def _check_length(letters: int) -> None:
    """Refuse a template that makes a prompt of any size from rows of any size."""
    if letters > MAX_LETTERS:
        raise DataError(f"a prompt would have {letters:,} letters; it may have {MAX_LETTERS:,}")


def fill_tree(form: Any, row: Row, *, strict: bool = True) -> Any:
    """Fill every text inside lists and dicts."""
    if isinstance(form, str):
        return fill(form, row, strict=strict)
    if isinstance(form, Mapping):
        return {key: fill_tree(value, row, strict=strict) for key, value in form.items()}
    return [fill_tree(value, row, strict=strict) for value in form] if isinstance(form, (list, tuple)) else form


def splice(shape: Shape, token: str | None, inserted: Shape, write: Callable[[str], str] = str) -> Shape:
    """Put ``inserted`` where the token stands; ``write`` is applied to the text around it, and to nothing else."""
    if isinstance(shape, str):
        return _splice_text(shape, token, inserted, write)
    result = PromptList()
    for item in shape:
        if not isinstance(item, str):
            result.append(dict(item))
            if "prompt" in item:
                result[-1]["prompt"] = _splice_text(item["prompt"], token, inserted, write)
        elif isinstance(inserted, str):
            result.append(_splice_text(item, token, inserted, write))
        else:
            for index, piece in enumerate(item.split(token) if token else [item]):
                result.extend(inserted if index else ())
                result.extend([write(piece)] if piece else ())
    return result


def _splice_text(text: str, token: str | None, inserted: Shape, write: Callable[[str], str]) -> str:
    if not token or token not in text:
        return write(text)
    if not isinstance(inserted, str):
        raise DataError(
            f"dialogue examples cannot stand inside the text {text[:60]!r}",
            hint=f"Make {token!r} an item of its own in the template's begin, or write ice_template as a string.",
        )
    _check_length(len(text) + text.count(token) * len(inserted))
    return inserted.join(write(piece) for piece in text.split(token))


class PromptTemplate:
    """A string, a dialogue (``begin``/``round``/``end``) or a dict of label → either of them."""

    masks_output = True

    def __init__(
        self, template: Any, ice_token: str | None = None, sep_token: str | None = None, *, strict: bool = True
    ) -> None:
        """Check the template; ``ice_token`` marks the place of the examples, ``sep_token`` is removed from prompts."""
        self.template, self.ice_token, self.sep_token, self.strict = template, ice_token, sep_token, strict
        for name, token in (("ice_token", ice_token), ("sep_token", sep_token)):
            if token is not None and not isinstance(token, str):
                raise DataError(f"the {name} is {token!r:.60}; it must be text")
        if not isinstance(template, (str, Mapping)):
            raise DataError(f"a template is a string or a dict, not {type(template).__name__}")
        is_dialogue = isinstance(template, Mapping) and all(key in SECTIONS for key in template)
        self.prompt_type = "meta" if is_dialogue else "origin"
        self._check()

    @property
    def by_label(self) -> Mapping[Any, Any] | None:
        """The template of each label, if labels have templates of their own."""
        return self.template if isinstance(self.template, Mapping) and self.prompt_type == "origin" else None

    def _check(self) -> None:
        values = [self.template] if isinstance(self.template, str) else list(self.template.values())
        for value in values:
            if not isinstance(value, (str, list, tuple, Mapping)):
                raise DataError(f"a template holds {value!r}, which is neither text nor a dialogue")
            if self.ice_token and isinstance(value, str) and self.ice_token not in value:
                raise DataError(
                    f"the ice_token {self.ice_token!r} is not in the template {value[:60]!r}",
                    hint="Put it where the examples belong, or leave ice_token out.",
                )
        if not self.strict:
            return
        whole = [self.template] if self.by_label is None else list(self.by_label.values())
        for value in whole:
            texts = list(texts_of(self._shape(value)))
            if self.ice_token and not any(self.ice_token in text for text in texts):
                raise DataError(
                    f"the ice_token {self.ice_token!r} stands nowhere in the template: its examples would be lost",
                    hint=f"Write begin={self.ice_token!r}, or put it into a prompt.",
                )

    def generate_ice_item(self, entry: Row, label: Any, *, without: Collection[str] = ()) -> Filled:
        """Return an example with its answer; ``without`` names further tokens to remove from the template."""
        shape = self._shape(self._for_label(label), example=True)
        for token in without:
            shape = splice(shape, token, "")
        return self._compose(shape, entry, "", keep_sep=True)

    def generate_item(
        self,
        entry: Row,
        output_field: str | None = None,
        output_field_replace_token: str = "",
        ice_field_replace_token: Filled = "",
    ) -> Filled:
        """Return the prompt to continue, with its examples, and with the output column masked."""
        by_label = self.by_label
        if by_label is not None and self.strict:
            raise DataError(
                "a template for each label scores labels; it cannot say which of them to continue",
                hint="Use PPLInferencer, or give one string or dialogue.",
            )
        template = self.template if by_label is None else next(iter(by_label.values()))
        if output_field is not None and self.masks_output:
            entry = {**entry, output_field: output_field_replace_token}
        return self._compose(self._shape(template), entry, ice_field_replace_token)

    def generate_label_prompt_item(
        self,
        entry: Row,
        ice: Filled,
        label: Any,
        remain_sep: bool = False,  # noqa: FBT001, FBT002 - the signature of the frameworks
    ) -> Filled:
        """Return the prompt that is scored for a label: nothing is masked.

        In the frameworks the examples keep their separator tokens here, and lose them in ``generate_item``.
        """
        shape = self._shape(self._for_label(label))
        if self.sep_token and not remain_sep:
            shape = splice(shape, self.sep_token, "")
        return self._compose(shape, entry, ice, keep_sep=True)

    def _for_label(self, label: Any) -> Any:
        if self.by_label is None:
            return self.template
        if label not in self.by_label:
            known = ", ".join(repr(key) for key in self.by_label)
            raise DataError(f"the template has nothing for the label {label!r}", hint=f"It has {known}.")
        return self.by_label[label]

    def _shape(self, template: Any, *, example: bool = False) -> Shape:
        """Return the flat list of one template, not yet filled; an example has its round alone."""
        if isinstance(template, str):
            return template
        if not isinstance(template, Mapping) or "round" not in template:
            raise DataError("a dialogue needs a 'round'", hint="Write dict(round=[dict(role='HUMAN', prompt=…), …]).")
        shape = PromptList()
        for section in ("round",) if example else SECTIONS:
            if section in template:
                items = template[section]
                opening = "end" if section == "end" and not self.strict else "begin"
                name = "ice" if example else section
                shape.append(mark(name, opening))
                shape.extend(items if isinstance(items, (list, tuple)) else [items])
                shape.append(mark(name, "end"))
        for item in shape:
            if not isinstance(item, str) and not (
                isinstance(item, Mapping) and isinstance(item.get("prompt", ""), str)
            ):
                raise DataError(f"a dialogue has {item!r}, which is neither text nor dict(role=…, prompt=…)")
            check_role(item)
        return shape

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Filled:
        """Put examples and columns into a shape; strict never reads inserted text again."""
        if isinstance(ice, Messages):
            if ice:
                raise DataError("messages cannot stand in a prompt that is no list of messages")
            ice = ""
        if self.strict:
            if self.sep_token and not keep_sep:
                shape = splice(shape, self.sep_token, "")
            return splice(shape, self.ice_token, ice, partial(fill, row=row))
        shape = splice(shape, self.ice_token, ice)
        if self.sep_token and not keep_sep:
            shape = splice(shape, self.sep_token, "")
        return splice(shape, None, "", partial(fill, row=row, strict=False))


def texts_of(shape: Shape) -> Iterable[str]:
    """Return the texts of a shape."""
    if isinstance(shape, str):
        return [shape]
    return (item if isinstance(item, str) else item.get("prompt", "") for item in shape)


EXPAND = "expand_column"
"""The key of an item that stands for all messages of a column."""


class RawPromptTemplate(PromptTemplate):
    """Messages given directly; a chat model gets them as they are.

    The item ``ice_token`` is the place of the examples; other strings are dropped (strict: an error). An item
    ``{"expand_column": name}`` stands for the messages that the row has in that column.
    """

    def __init__(
        self,
        messages: Any,
        format_variables: bool = True,  # noqa: FBT001, FBT002 - the signature of the frameworks
        ice_token: str = "</E>",  # noqa: S107 - a mark in a prompt
        *,
        strict: bool = True,
    ) -> None:
        """Check the messages; without ``format_variables`` their ``{…}`` stay."""
        if not isinstance(messages, (list, tuple)):
            raise DataError(f"messages is a list of dicts, and a message is dict(role=…, content=…); not {messages!r}")
        for message in messages:
            _check_item(message, ice_token, strict=strict)
        self.messages, self.format_variables = messages, format_variables
        super().__init__("", strict=strict)
        self.ice_token, self.prompt_type = ice_token, "raw"
        self.masks_output = strict  # the frameworks do not mask the output column here

    def _compose(self, shape: Shape, row: Row, ice: Any, *, keep_sep: bool = False) -> Messages:  # noqa: ARG002 - the messages are the shape
        """Fill the messages; of those that are scored, whose separators stay, the frameworks leave the examples out."""
        return self._filled(row, self._examples(ice) if self.strict or not keep_sep else Messages())

    def _examples(self, ice: Any) -> Messages:
        """Return examples as messages, also those that a dialogue template made."""
        if isinstance(ice, Messages):
            shown = ice
        elif isinstance(ice, PromptList):
            items = [item for item in ice if not isinstance(item, str) and not is_mark(item)]
            shown = Messages({"role": _chat_role(item["role"]), "content": item.get("prompt", "")} for item in items)
        elif self.strict and ice.strip():
            raise DataError(
                "the examples are text, and the prompt is a list of messages",
                hint="Write ice_template as messages, or as a dialogue.",
            )
        else:
            shown = Messages()
        if self.strict and shown and self.ice_token not in [each for each in self.messages if isinstance(each, str)]:
            raise DataError(
                f"the ice_token {self.ice_token!r} stands nowhere in the messages: the examples would be lost",
                hint=f"Write {self.ice_token!r} between the messages, where the examples belong.",
            )
        return shown

    def _filled(self, row: Row, examples: Messages) -> Messages:
        made = Messages()
        for item in self.messages:
            if isinstance(item, str):
                made.extend(copy.deepcopy(examples) if item == self.ice_token else ())
            elif EXPAND in item:
                made.extend(self._expanded(row, item[EXPAND]))
            else:
                made.append({**item, "role": _chat_role(item["role"]), "content": self._content(item["content"], row)})
        return made

    def _content(self, content: Any, row: Row) -> Any:
        if not self.format_variables:
            return content
        if self.strict:
            return fill_tree(content, row)
        return fill(content, row, strict=False) if isinstance(content, str) else content  # parts stay as they are

    def _expanded(self, row: Row, column: str) -> Iterable[dict[str, Any]]:
        """Return the messages of a column, not filled; the frameworks take a column that is no list for none."""
        held = row.get(column)
        if not isinstance(held, (list, tuple)):
            if self.strict:
                raise DataError(f"the column {column!r} has no list of messages", hint="expand_column names it.")
            return
        for message in held:
            if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
                raise DataError(
                    f"the column {column!r} has {message!r:.80}", hint="Its messages are dict(role=…, content=…)."
                )
            check_role(message)
            yield {**copy.deepcopy(dict(message)), "role": _chat_role(message["role"])}


def _chat_role(role: Any) -> Any:
    return CHAT_ROLES.get(role, role)


def _check_item(item: Any, ice_token: str, *, strict: bool) -> None:
    if isinstance(item, str):
        if strict and item != ice_token:
            raise DataError(
                f"the messages hold the text {item[:60]!r}, which would be lost: a message is dict(role=…, content=…)"
            )
        return
    if isinstance(item, Mapping) and EXPAND in item:
        return
    if not isinstance(item, Mapping) or not {"role", "content"} <= set(item):
        raise DataError(f"a message is dict(role=…, content=…), not {item!r}")
    check_role(item)
    if not isinstance(item["content"], (str, list, tuple)):
        raise DataError(f"the content of a message is text or a list of parts, not {item['content']!r:.60}")
    if strict and item["role"] not in TEMPLATE_ROLES and item["role"] not in CHAT_ROLES:
        raise DataError(f"a message has no role {item['role']!r}", hint=f"Roles: {', '.join(TEMPLATE_ROLES)}.")


class MMPromptTemplate(PromptTemplate):
    """A dialogue with ``prompt_mm`` items: parts (text, image, video, audio) in the order of the row.

    A row says its parts in one text, ``content``, cut by tags, or has a column for each of them. AISBench fills nothing
    but these parts: the prompts of other items, and other fields of a part, stay as they are written.
    """

    cut: ClassVar[str] = "<AIS_CONTENT_TAG>"
    starts: ClassVar[Mapping[str, str]] = {
        f"<AIS_{kind.upper()}_START>": kind for kind in ("text", "image", "video", "audio")
    }

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Filled:
        if isinstance(shape, str):
            return super()._compose(shape, row, ice, keep_sep=keep_sep)
        done: Any = super()._compose(shape, row, ice, keep_sep=keep_sep) if self.strict else self._written(shape, row)
        for item in done:
            if isinstance(item, dict) and isinstance(item.get("prompt_mm"), Mapping):
                item["prompt_mm"] = list(self._parts(item["prompt_mm"], row))
        return PromptList(done)

    @staticmethod
    def _written(shape: PromptList, row: Row) -> PromptList:
        """Return the items as AISBench does: texts without a role are filled, and no others."""
        return PromptList(fill(item, row, strict=False) if isinstance(item, str) else dict(item) for item in shape)

    def _parts(self, forms: Mapping[str, Any], row: Row) -> Iterator[Any]:
        tagged = row.get("content")
        if self.strict or not isinstance(tagged, str):
            tagged = next((v for v in [tagged, *row.values()] if isinstance(v, str) and self.cut in v), None)
        if tagged is None:  # the parts are columns of their own
            yield from self._from_columns(forms, row)
            return
        for piece in filter(None, tagged.split(self.cut)):
            start = next((start for start in self.starts if piece.startswith(start)), "")
            if not start and not self.strict:
                continue  # AISBench leaves it out
            kind = self.starts.get(start, "")
            if kind not in forms:
                raise DataError(
                    f"the row has the part {piece[:60]!r}, for which the template has no form",
                    hint=f"prompt_mm has {', '.join(forms)}; a part starts with one of {', '.join(self.starts)}.",
                )
            yield self._tagged_part(forms[kind], kind, piece, start, row)

    def _tagged_part(self, form: Any, kind: str, piece: str, start: str, row: Row) -> Any:
        if self.strict:
            names = ("text", "question") if kind == "text" else (kind,)
            return fill_tree(form, {**row, **dict.fromkeys(names, piece.removeprefix(start))})
        said = {"question" if kind == "text" else kind: piece.replace(start, "")}
        field = "text" if kind == "text" else f"{kind}_url"
        if not isinstance(form, Mapping) or field not in form:
            raise DataError(f"the form of {kind} parts in prompt_mm has no {field!r}")
        if isinstance(form[field], Mapping):  # of these AISBench fills the address alone
            return {**form, field: {**form[field], "url": fill(str(form[field].get("url", "")), said, strict=False)}}
        return {**form, field: fill(str(form[field]), said, strict=False)}

    def _from_columns(self, forms: Mapping[str, Any], row: Row) -> Iterator[Any]:
        """Yield the parts of a row that has a column for each; a column with a list gives several parts.

        An empty text says that the row has no such part; a column with nothing in it is an error.
        """
        for kind, form in forms.items():
            named = [name for name in _fields(form) if name in row]
            if kind == "text":
                yield fill_tree(form, row, strict=self.strict)
            elif len(named) == 1:
                for each in _several(row[named[0]], named[0]):
                    yield fill_tree(form, {named[0]: _media_text(each)}, strict=self.strict)
            elif named or not list(_fields(form)):
                yield fill_tree(form, row, strict=self.strict)


def _fields(form: Any) -> Iterator[str]:
    """Yield the names of the columns that a form mentions."""
    if isinstance(form, str):
        yield from FIELD.findall(form)
    elif isinstance(form, Mapping):
        for value in form.values():
            yield from _fields(value)


def _several(value: Any, column: str) -> list[Any]:
    """Return what a column of media holds, without empty places; an empty text is no such part."""
    if isinstance(value, str) and not value:
        return []
    several = value if isinstance(value, (list, tuple)) else [value]
    found = [each for each in several if each is not None and each != ""]
    if not found:
        hint = "Give the file, the address or the bytes; an empty text says that the row has none."
        raise DataError(f"the column {column!r} is {value!r:.60}, and the prompt shows it", hint=hint)
    return found


def _media_text(value: Any) -> Any:
    """Return bytes, also those that tables hold with a path, as a data URL; other values as they are."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path") or value.get("url") or value
    if not isinstance(value, (bytes, bytearray)):
        return value
    data = bytes(value)
    return f"data:{media_type(data)};base64,{base64.b64encode(data).decode('ascii')}"


class MultiTurnPromptTemplate(PromptTemplate):
    """A dialogue whose round repeats for each element of its list-valued columns; answers are not masked."""

    masks_output = False

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Filled:
        if isinstance(shape, str):
            return super()._compose(shape, row, ice, keep_sep=keep_sep)
        result = PromptList()
        pending = PromptList()
        for item in shape:
            if is_mark(item) and pending:
                repeats = _turn_rows(pending, row) if item["section"] in ("round", "ice") else [row]
                for turn in repeats:
                    result.extend(super()._compose(pending, turn, ice, keep_sep=keep_sep))
                pending = PromptList()
            (result if is_mark(item) else pending).append(item)
        result.extend(super()._compose(pending, row, ice, keep_sep=keep_sep))
        return result


def _turn_rows(items: PromptList, row: Row) -> list[Row]:
    """Return a row for each turn: list-valued columns that the round names give their elements, empty ones nothing."""
    named = {name for text in texts_of(items) for name in FIELD.findall(text)}
    lists = {name: value for name, value in row.items() if name in named and isinstance(value, (list, tuple))}
    sizes = {len(value) for value in lists.values() if value}
    if len(sizes) > 1:
        lengths = ", ".join(f"{name} has {len(value)}" for name, value in lists.items())
        raise DataError(f"the columns of a conversation differ in length: {lengths}")
    if not lists:
        return [row]
    if not sizes:
        raise DataError(f"the conversation is empty: {', '.join(lists)} has no elements")
    return [
        {**row, **{name: value[turn] if value else "" for name, value in lists.items()}} for turn in range(max(sizes))
    ]

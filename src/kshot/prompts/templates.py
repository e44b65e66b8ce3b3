"""All templates of config files: of text and dialogues, of conversations, of images and sound, and raw messages."""

from __future__ import annotations

import base64
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from kshot.core.content import media_type
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import CHAT_ROLES, TEMPLATE_ROLES, Filled, Messages, PromptList, check_role, is_mark
from kshot.prompts.prompt_template import FIELD, PromptTemplate, Shape, fill, fill_tree, splice, texts_of

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

    def generate_ice_item(self, entry: Row, label: Any, *, without: Collection[str] = ()) -> Messages:  # noqa: ARG002 - messages have no tokens to remove
        """Return an example: all its messages, with the answer in place."""
        return self._filled(entry, Messages())

    def generate_item(
        self,
        entry: Row,
        output_field: str | None = None,
        output_field_replace_token: str = "",
        ice_field_replace_token: Any = "",
    ) -> Messages:
        """Return the messages to answer; the frameworks do not mask the output column here."""
        if output_field is not None and self.strict:
            entry = {**entry, output_field: output_field_replace_token}
        return self._filled(entry, self._examples(ice_field_replace_token))

    def generate_label_prompt_item(
        self,
        entry: Row,
        ice: Any,
        label: Any,  # noqa: ARG002 - messages have no labels
        remain_sep: bool = False,  # noqa: ARG002, FBT001, FBT002 - the signature of the frameworks
    ) -> Messages:
        """Return the messages that are scored; the frameworks leave the examples out."""
        return self._filled(entry, self._examples(ice) if self.strict else Messages())

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

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Shape:
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


__all__ = ["MMPromptTemplate", "MultiTurnPromptTemplate", "PromptTemplate", "RawPromptTemplate", "fill", "splice"]


class MultiTurnPromptTemplate(PromptTemplate):
    """A dialogue whose round repeats for each element of its list-valued columns; answers are not masked."""

    masks_output = False

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Shape:
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

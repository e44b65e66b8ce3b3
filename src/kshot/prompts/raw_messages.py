"""Templates that are messages already: ``[{"role": "user", "content": "{question}"}]``."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import CHAT_ROLES, TEMPLATE_ROLES, Messages, PromptList
from kshot.prompts.meta import check_role, is_mark
from kshot.prompts.prompt_template import PromptTemplate, fill, fill_tree

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

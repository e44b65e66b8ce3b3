"""Prompt templates of config files: a string, a dialogue, or one of these per label, with ``{column}`` fields.

``strict`` is kshot's own reading: fields are filled in one pass, inserted text is never changed, and what would be lost
without notice is a DataError. ``strict=False`` fills as AISBench and OpenCompass do, for files written for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeAlias

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import Filled, Messages, PromptList, check_role, mark

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

    masks_output: ClassVar[bool] = True

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

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Shape:
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

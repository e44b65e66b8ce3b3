"""Templates with images, sounds and videos: ``MMPromptTemplate`` of AISBench."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from kshot.core.content import media_type
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import Filled, PromptList
from kshot.prompts.prompt_template import FIELD, PromptTemplate, Shape, fill, fill_tree


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

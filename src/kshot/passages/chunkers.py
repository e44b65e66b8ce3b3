"""Chunkers by spec: built in, in a file (``mine.py:Class``) or of an installed package; and passages made by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kshot.core.corpus import Chunk, Passage
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.extras import require
from kshot.core.protocols import TextChunker
from kshot.core.registry import Entry, Registry
from kshot.core.specs import parse_spec
from kshot.passages.built_in_chunkers import KINDS, built_in_chunker
from kshot.passages.counting import tokenizer
from kshot.passages.documents import Document

CHUNKERS = Registry(
    "chunkers",
    "chunker",
    [
        Entry(
            name,
            "kshot.passages.built_in_chunkers:Chunker",
            kind.text,
            f"{name}[:SIZE[/OVERLAP]][,key=value…]" if kind.size else name,
        )
        for name, kind in KINDS.items()
    ],
)


def make_chunker(text: str) -> TextChunker:
    """Return the chunker that a spec names: a built-in one, ``file.py:Class``, or one of an installed package.

    A plug-in is a class with a method ``cut(text)``, or a function from a text to its chunks. Chunks are ``Chunk``
    objects or plain texts.
    """
    name = parse_spec(text).name.strip()
    entry = CHUNKERS.find(name) if name else None
    if entry is not None and entry.name in KINDS:
        require(f"the chunker {text}", *chunker_packages(text))
        return built_in_chunker(text)
    made = CHUNKERS.make(text)
    cut = made.cut if isinstance(made, TextChunker) else made
    if not callable(cut):
        raise UsageError(
            "it is not a chunker", where=text, hint="Write a class with cut(text), or a function of a text."
        )
    return PlugInChunker(text, cut)


def chunker_packages(text: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that the chunker of a spec needs."""
    return built_in_chunker(text).packages if parse_spec(text).name.strip() in KINDS else ()


class PlugInChunker:
    """A chunker of a user or a package; results list it under the spec that names it."""

    def __init__(self, spec: str, cut: Callable[[str], Iterable[Chunk | str]]) -> None:
        """Take the function that cuts; it may give plain texts."""
        self._spec, self._cut = spec, cut

    def __str__(self) -> str:
        return self._spec

    def cut(self, text: str) -> list[Chunk]:
        """Cut a text; plain texts are stripped, located in it, and counted in words; blank ones are dropped."""
        chunks: list[Chunk] = []
        earliest = 0
        for piece in self._pieces(text):
            if isinstance(piece, Chunk):
                chunks.append(piece)
                continue
            if not isinstance(piece, str):
                raise self._error(f"it gave {piece!r:.60} where a chunk belongs")
            if stripped := piece.strip():
                start = text.find(stripped, earliest)
                earliest = max(earliest, start + 1)
                chunks.append(Chunk(stripped, start if start >= 0 else None, tokenizer("words").count(stripped)))
        return chunks

    def _pieces(self, text: str) -> list[Chunk | str]:
        """Call the plug-in; an error in it names the plug-in."""
        try:
            found = self._cut(text)
            if not isinstance(found, str):  # the letters of a text are no chunks
                return list(found)
        except KshotError:
            raise
        except Exception as exc:
            raise self._error(f"it failed: {type(exc).__name__}: {exc}") from exc
        raise self._error("it gave one text where a list of chunks belongs")

    def _error(self, what: str) -> DataError:
        return DataError(what, where=f"chunker {self._spec}", hint="It must give Chunk objects or plain texts.")


def passages_of(
    documents: Iterable[Document],
    chunker: TextChunker,
    fields: Callable[[Document], Mapping[str, str]] | None = None,
) -> list[Passage]:
    """Cut documents into passages ``NAME:0``, ``NAME:1``, … in order.

    Their fields are those that ``fields`` gives for the document (default: ``document``, its name), and ``section``
    where the chunker knows the headings above a chunk.
    """
    passages = []
    for document in documents:
        own = {"document": document.name} if fields is None else dict(fields(document))
        for number, chunk in enumerate(chunker.cut(document.text)):
            headings = {"section": " > ".join(chunk.section)} if chunk.section else {}
            passages.append(Passage(f"{document.name}:{number}", chunk.text, {**own, **headings}, chunk.tokens))
    return passages

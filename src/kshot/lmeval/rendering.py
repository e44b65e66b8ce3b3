"""What ``doc_to_text`` and its like give a document: a column, a template, a value of the file, or a function's result.

Templates are rendered as lm-eval renders them, in a sandbox that limits how long and how much they write.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jinja2

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.regexes import SECONDS, compiled
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions
from kshot.prompts.limited import LimitedEnvironment
from kshot.prompts.render_budget import BUDGET_CHARACTERS, RenderingLimitError
from kshot.prompts.strings import Render, compile_jinja

_MARK = re.compile(r"\{\{|\{%|\{#")
_LINE_END = re.compile(r"\r\n|\r")
_SHORTEST_LIST = 2
_SHOWN_COLUMNS = 20


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    """Replace what a pattern finds: the one filter that lm-eval adds to jinja's."""
    if len(string) * max(1, len(repl)) > BUDGET_CHARACTERS:
        raise RenderingLimitError("regex_replace would make too much text")
    found: str = compiled(pattern).sub(repl, string, count=count, timeout=SECONDS)
    return found


@lru_cache(1)
def _environment() -> LimitedEnvironment:
    environment = LimitedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # prompts are not HTML
        keep_trailing_newline=True,
    )
    environment.add_filter("regex_replace", _regex_replace)
    return environment


@lru_cache(512)
def template(text: str, where: str) -> Render:
    """Return a template as a function of a document; a faulty one is a DataError that says what and where."""
    if not _MARK.search(text):
        plain = _LINE_END.sub("\n", text)  # as jinja reads line ends
        return lambda _: plain
    return compile_jinja(text, _environment(), where)


class DocFields:
    """Computes the fields of documents for one task."""

    def __init__(self, config: TaskConfig, functions: Functions, columns: Collection[str]) -> None:
        """``columns``: the columns of the evaluated documents, which decide what is the name of one."""
        self._config, self._functions, self._columns = config, functions, frozenset(columns)
        if config.use_prompt is not None:
            hint = "Write the prompt into doc_to_text."
            raise DataError("use_prompt takes prompts of promptsource", where=config.where("use_prompt"), hint=hint)

    def texts(self, docs: Sequence[Row], how: Any, key: str = "doc_to_text") -> list[Any]:
        """Return the text of each document; a number where there are choices and the text is one."""
        return self._values(docs, self._config.doc_to_text if how is None else how, key, self._number_or_text)

    def targets(self, docs: Sequence[Row], how: Any, key: str = "doc_to_target") -> list[Any]:
        """Return the target of each document: a text, the number of a choice, or a list of either."""
        return self._values(docs, self._config.doc_to_target if how is None else how, key, self._target)

    def choices(self, docs: Sequence[Row], how: Any, key: str = "doc_to_choice") -> list[Any]:
        """Return the choices of each document."""
        how = self._config.doc_to_choice if how is None else how
        if isinstance(how, Mapping):
            how = list(how.values())
        return self._values(docs, how, key, self._literal)

    def prefixes(self, docs: Sequence[Row]) -> list[Any]:
        """Return what each document has the reply begin with; None: nothing."""
        if self._config.gen_prefix is None:
            return [None] * len(docs)
        return self._values(docs, self._config.gen_prefix, "gen_prefix", _same)

    def resolved(self, docs: Sequence[Row], how: Any, key: str) -> list[Any]:
        """Return a text of the file, rendered for each document, or the document's column of that name."""
        if not how:
            return [None] * len(docs)
        if isinstance(how, FunctionRef):
            return self._functions.each(how, [(doc,) for doc in docs])
        return [doc[how] if how in doc else self._rendered(doc, how, key, row) for row, doc in enumerate(docs)]

    def _values(self, docs: Sequence[Row], how: Any, key: str, read: Callable[[str, str], Any]) -> list[Any]:
        if isinstance(how, FunctionRef):
            return self._functions.each(how, [(doc,) for doc in docs])
        if isinstance(how, (int, list)):
            return [how] * len(docs)
        if not isinstance(how, str):
            raise DataError(f"the task has no {key}", where=self._config.where(key), hint=f"Add {key} to the file.")
        if how in self._columns:
            return [self._column(doc, how, key, row) for row, doc in enumerate(docs)]
        return [read(self._rendered(doc, how, key, row), f"{key}, row {row}") for row, doc in enumerate(docs)]

    def _column(self, doc: Row, name: str, key: str, row: int) -> Any:
        if name not in doc:
            raise DataError(f"{key} names the column {name!r}, which row {row} lacks", where=self._config.where(key))
        return doc[name]

    def _rendered(self, doc: Row, how: str, key: str, row: int) -> str:
        try:
            return template(how, self._config.where(key))(doc)
        except DataError as exc:
            columns = ", ".join(str(name) for name in list(doc)[:_SHOWN_COLUMNS])
            hint = exc.hint or f"The columns of that row are: {columns}."
            raise DataError(f"{key} cannot be rendered for row {row}: {exc.what}", where=exc.where, hint=hint) from exc

    # ---- what a rendered text means ----

    def _number_or_text(self, text: str, where: str) -> Any:
        return self._literal(text, where) if self._is_number(text) else text

    def _target(self, text: str, where: str) -> Any:
        if self._is_number(text):
            return self._literal(text, where)
        if len(text) >= _SHORTEST_LIST and text[0] == "[" and text[-1] == "]":
            try:
                return ast.literal_eval(text)
            except (SyntaxError, ValueError):
                return text
            except (RecursionError, MemoryError, TypeError) as exc:
                raise self._unreadable(text, where) from exc
        return text

    def _is_number(self, text: str) -> bool:
        return text.isdigit() and self._config.doc_to_choice is not None

    def _literal(self, text: str, where: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError) as exc:
            raise self._unreadable(text, where) from exc

    def _unreadable(self, text: str, where: str) -> DataError:
        key = where.partition(",")[0]
        what = f"{where}: the rendered text is no number or list that Python could read: {text!r:.120}"
        return DataError(what, where=self._config.where(key))


def _same(text: str, where: str) -> str:
    del where
    return text

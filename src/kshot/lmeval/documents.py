"""The documents of a task: the rows of a split as they come out of ``process_docs``, and what is asked about them.

``doc_to_text`` and its like give a document a column, a template, a value of the file, or a function's result.
Templates are rendered as lm-eval renders them, in a sandbox that limits how long and how much they write.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import jinja2

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.regexes import SECONDS, compiled
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions
from kshot.prompts.strings import BUDGET_CHARACTERS, LimitedEnvironment, Render, RenderingLimitError, compile_jinja

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

    def texts(self, docs: Sequence[Row], how: Any = None) -> list[Any]:
        """Return the text of each document; a number where there are choices and the text is one."""
        return self._values(docs, how, "doc_to_text", self._number_or_text)

    def targets(self, docs: Sequence[Row], how: Any = None) -> list[Any]:
        """Return the target of each document: a text, the number of a choice, or a list of either."""
        return self._values(docs, how, "doc_to_target", self._target)

    def choices(self, docs: Sequence[Row], how: Any = None) -> list[Any]:
        """Return the choices of each document."""
        how = self._config.doc_to_choice if how is None else how
        return self._values(
            docs, list(how.values()) if isinstance(how, Mapping) else how, "doc_to_choice", self._literal
        )

    def prefixes(self, docs: Sequence[Row]) -> list[Any]:
        """Return what each document has the reply begin with; None: nothing."""
        if self._config.gen_prefix is None:
            return [None] * len(docs)
        return self._values(docs, None, "gen_prefix", lambda text, _: text)

    def resolved(self, docs: Sequence[Row], how: Any, key: str) -> list[Any]:
        """Return a text of the file, rendered for each document, or the document's column of that name."""
        if not how:
            return [None] * len(docs)
        if isinstance(how, FunctionRef):
            return self._functions.each(how, [(doc,) for doc in docs])
        return [doc[how] if how in doc else self._rendered(doc, how, key, row) for row, doc in enumerate(docs)]

    def _values(self, docs: Sequence[Row], how: Any, key: str, read: Callable[[str, str], Any]) -> list[Any]:
        """Return a field of each document, made as ``how`` says; None: as the task says."""
        how = getattr(self._config, key) if how is None else how
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


class TaskSplits:
    """The splits of a task's dataset, processed as lm-eval processes them."""

    def __init__(self, config: TaskConfig, functions: Functions, rows: Mapping[str, Sequence[Row]]) -> None:
        """``rows``: the raw rows by split."""
        self._config, self._functions, self._rows = config, functions, rows
        self._pool: list[Row] | None = None

    @property
    def evaluated_split(self) -> str:
        """The name of the split whose documents are evaluated."""
        split = self._config.test_split or self._config.validation_split
        if split is None:
            what = "the task names neither a test_split nor a validation_split"
            raise DataError(what, where=str(self._config.path), hint="Add the split to evaluate.")
        return split

    @cached_property
    def evaluated(self) -> tuple[list[Row], list[str]]:
        """The evaluated documents and their columns."""
        process = self._config.process_docs
        if process is not None:
            self._functions.seed()
        docs, columns, drew = self._processed(self.evaluated_split, process)
        if drew:  # what it draws depends on what was drawn before: lm-eval makes the examples first, these twice
            self._functions.seed()
            self._pool = self._made_pool()
            self._processed(self.evaluated_split, process)
            docs, columns, _ = self._processed(self.evaluated_split, process)
        if not docs:
            what = f"the split {self.evaluated_split!r} has no documents"
            raise DataError(what, where=str(self._config.path), hint="Nothing is left to evaluate.")
        return docs, columns

    @property
    def pool(self) -> list[Row]:
        """The documents that examples are taken from."""
        docs, _ = self.evaluated  # first: they may draw from the same generator
        if self._pool is None:
            shot = self._config.fewshot_config
            same = shot.split == self.evaluated_split and shot.process_docs == self._config.process_docs
            self._pool = docs if same else self._made_pool()
        return self._pool

    def _made_pool(self) -> list[Row]:
        config, shot = self._config, self._config.fewshot_config
        if shot.split is not None:
            return self._processed(shot.split, shot.process_docs)[0]
        if shot.samples is not None:
            samples = self._functions.value(shot.samples) if isinstance(shot.samples, FunctionRef) else shot.samples
            if not isinstance(samples, list) or not all(isinstance(each, dict) for each in samples):
                what = "the samples of fewshot_config must be a list of documents, or a function that gives one"
                raise DataError(what, where=config.where("fewshot_config"))
            return list(samples)
        split = config.training_split or config.validation_split or self.evaluated_split
        return self._processed(split, config.process_docs)[0]

    def _processed(self, split: str, process: FunctionRef | None) -> tuple[list[Row], list[str], bool]:
        if split not in self._rows:
            there = ", ".join(map(str, self._rows)) or "none"
            what = f"the dataset has no split {split!r}"
            raise DataError(what, where=str(self._config.path), hint=f"The splits are: {there}.")
        rows = as_table(_checked(self._rows[split], f"{self._config.path}, split {split}"))
        if process is None:
            return rows, list(rows[0]) if rows else [], False
        docs, columns, drew = self._functions.documents(process, rows)
        return docs, columns if columns is not None else list(dict.fromkeys(key for doc in docs for key in doc)), drew


class Documents:
    """The evaluated documents of a task."""

    def __init__(
        self,
        config: TaskConfig,
        functions: Functions,
        rows: Mapping[str, Sequence[Row]],
        *,
        limit: int | None = None,
    ) -> None:
        """``rows``: the raw rows by split; ``limit``: only the first so many documents."""
        self.config, self.functions = config, functions
        self.splits = TaskSplits(config, functions, rows)
        docs, self.columns = self.splits.evaluated
        self.docs = docs[:limit]
        self.fields = DocFields(config, functions, self.columns)

    @cached_property
    def multiple_inputs(self) -> bool:
        """Whether the choices stand in the context: the first document decides."""
        return self.config.doc_to_choice is not None and isinstance(self.texts[0], int)

    @cached_property
    def multiple_targets(self) -> bool:
        """Whether documents have several right answers: the first document decides."""
        return isinstance(self.targets[0], list)

    @cached_property
    def texts(self) -> list[Any]:
        """The text of each document."""
        return self.fields.texts(self.docs)

    @cached_property
    def targets(self) -> list[Any]:
        """The target of each document."""
        return self.fields.targets(self.docs)

    @cached_property
    def choices(self) -> list[Any]:
        """The choices of each document."""
        found = self.fields.choices(self.docs)
        for row, each in enumerate(found):
            if not isinstance(each, (list, tuple)) or not each:
                what = f"doc_to_choice must give a list of choices; for row {row} it gives {each!r:.80}"
                raise DataError(what, where=self.config.where("doc_to_choice"))
        return found


# ---- rows as a table has them ----


def _checked(rows: Iterable[Any], where: str) -> list[Row]:
    """Return rows; what is no row is an error that names it."""
    found = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"row {number} is no row of named values: {row!r:.80}", where=where)
        if other := [name for name in row if not isinstance(name, str)]:
            raise DataError(f"row {number} has a column whose name is no text: {other[0]!r:.80}", where=where)
        found.append(row)
    return found


def as_table(rows: Sequence[Row]) -> list[Row]:
    """Return rows as an Arrow table gives them back: the same columns in each, and one type in each column."""
    columns = dict.fromkeys(name for row in rows for name in row)
    made = [_column([row.get(name) for row in rows]) for name in columns]
    return [dict(zip(columns, values, strict=True)) for values in zip(*made, strict=True)]


def _column(values: list[Any]) -> list[Any]:
    """Return the values of a column in one type: dicts with the keys of all, numbers as floats if one is a float."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {list, tuple}:
        return _lists(values)
    if kinds and all(issubclass(kind, Mapping) for kind in kinds):
        return _structs(values)
    if kinds == {int, float}:
        return [value if value is None else float(value) for value in values]
    return values


def _lists(values: Iterable[Any]) -> list[Any]:
    kept = list(values)
    inner = iter(_column([each for value in kept if value is not None for each in value]))
    return [value if value is None else [next(inner) for _ in value] for value in kept]


def _structs(values: list[Any]) -> list[Any]:
    names = dict.fromkeys(name for value in values if value is not None for name in value)
    columns = [_column([None if value is None else value.get(name) for value in values]) for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * len(values)
    return [
        value if value is None else dict(zip(names, row, strict=True)) for value, row in zip(values, rows, strict=True)
    ]

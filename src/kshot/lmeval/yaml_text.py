"""Reading YAML that strangers wrote: limits before anything is built, tags as data, the place of every key."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import importing
from kshot.core.text_files import FileTooLargeError, read_at_most

MAX_FILE_BYTES = 32 << 20
MAX_DEPTH = 100
MAX_NODES = 2_000_000
"""How many values a file may have, with all its aliases written out."""
_MAX_NUMBER_CHARACTERS = 1000
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

Tag = Callable[[str, str], Any]
"""Makes a value from the text behind ``!function`` and its place."""


def read_mapping(path: Path, function_tag: Tag) -> tuple[dict[Any, Any], dict[Any, str]]:
    """Return the mapping of a YAML file, and the place (``file:line:column``) of each of its keys."""
    with importing("a task file", "pyyaml"):
        import yaml
    text = _text_of(path)
    loader_class = _loader_class()
    try:
        _check_size(yaml.parse(text, Loader=loader_class), path)
        loader = loader_class(text)
        try:
            loader.path, loader.function_tag = path, function_tag
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
            keys = [key for key, _ in node.value] if isinstance(value, dict) else []
            places = {loader.construct_object(key, deep=True): _place(path, key.start_mark) for key in keys}
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        what = " ".join(filter(None, (exc.context, exc.problem))) or "the file cannot be read as YAML"
        raise DataError(what, where=_place(path, mark), hint="Correct the YAML there.") from exc
    except yaml.YAMLError as exc:  # a character that YAML does not allow
        raise DataError(f"it is no YAML: {exc}".replace("\n", " "), where=str(path)) from exc
    if not isinstance(value, dict):
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"it holds {kind}, where keys with values are needed", where=str(path))
    return value, places


def _place(path: Path, mark: Any) -> str:
    """Write where something stands in a file."""
    return str(path) if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"


def _text_of(path: Path) -> str:
    try:
        content = read_at_most(path, MAX_FILE_BYTES)
    except FileTooLargeError as exc:
        raise DataError(f"it is above {MAX_FILE_BYTES >> 20} MB", where=str(path)) from exc
    except OSError as exc:
        raise DataError(f"the task file cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        column = exc.start - content.rfind(b"\n", 0, exc.start)
        where = f"{path}:{line}:{column}"
        raise DataError("a byte here is no UTF-8", where=where, hint="Save the file as UTF-8.") from exc


def _check_size(events: Any, path: Path) -> None:
    """Refuse a file that nests too deep, or whose aliases stand for more values than memory holds.

    It reads the events of the parser, so nothing is built and nothing recurses.
    """
    count = _Count()
    for event in events:
        if count.is_inside_itself(event):
            raise DataError(f"*{event.anchor} stands inside itself", where=_place(path, event.start_mark))
        count.take(event)
        if len(count.open) > MAX_DEPTH:
            raise DataError(f"it nests deeper than {MAX_DEPTH} levels", where=_place(path, event.start_mark))
        if count.values > MAX_NODES:
            raise DataError(f"it stands for more than {MAX_NODES:,} values", where=_place(path, event.start_mark))


class _Count:
    """Counts the values of a file by the events of its parser; an alias counts as all that it stands for."""

    def __init__(self) -> None:
        self.values = 0
        self.open: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}

    def is_inside_itself(self, event: Any) -> bool:
        """Whether an alias names a value that has not ended yet."""
        import yaml

        return isinstance(event, yaml.AliasEvent) and any(anchor == event.anchor for anchor, _ in self.open)

    def take(self, event: Any) -> None:
        """Count an event."""
        import yaml

        if isinstance(event, yaml.AliasEvent):
            self.values += self._sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.open.append((event.anchor, self.values))
            self.values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, start = self.open.pop()
            if anchor is not None:
                self._sizes[anchor] = self.values - start
        elif isinstance(event, yaml.ScalarEvent):
            self.values += 1


@cache
def _loader_class() -> Any:
    """Return the class that reads plain data and ``!function``; PyYAML's C parser is used where it is there."""
    import yaml

    parent: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

    class TaskFileLoader(parent):  # type: ignore[misc]
        """A safe loader; what cannot be made from a text is an error that names its place."""

        path: Path
        function_tag: Tag

        def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
            long = isinstance(node, yaml.ScalarNode) and len(node.value) > _MAX_NUMBER_CHARACTERS
            if long and node.tag in _NUMBER_TAGS:
                raise yaml.constructor.ConstructorError(None, None, "this number is too long", node.start_mark)
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as exc:
                kind = node.tag.rpartition(":")[2]
                raise yaml.constructor.ConstructorError(None, None, f"this is no {kind}", node.start_mark) from exc

    def function(loader: TaskFileLoader, node: Any) -> Any:
        return loader.function_tag(loader.construct_scalar(node), _place(loader.path, node.start_mark))

    TaskFileLoader.add_constructor("!function", function)
    return TaskFileLoader

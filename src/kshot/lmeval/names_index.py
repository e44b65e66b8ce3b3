"""The names of a tree of task files: which tasks, groups and tags there are, read from the first keys of each file.

A tree may have 14,000 files. Only lines that name something are parsed, and what was read is kept, by file times.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core.durable import new_version
from kshot.core.errors import KshotError, RunError
from kshot.core.text_files import read_at_most
from kshot.core.work_folders import cache_folder
from kshot.lmeval.files import FunctionRef
from kshot.lmeval.yaml_text import MAX_FILE_BYTES, read_mapping

Kind: TypeAlias = Literal["task", "class", "group", "tag"]
Head: TypeAlias = dict[str, Any]
"""Of the keys ``task``, ``group``, ``class``, ``tag`` and ``include`` those that a file has, as plain values."""

_IGNORED = {"__pycache__", ".ipynb_checkpoints"}
_SLOW_SECONDS = 1.0
_VERSION = 1
_KEYS = ("task", "group", "class", "tag", "include")
_KEY_LINE = re.compile(rb"^([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+([^\r\n]*?))?[ \t]*\r?$", re.MULTILINE)
_PLAIN = re.compile(rb"(?:\.{0,2}/)*[A-Za-z_][\w./+-]*")
_LIST = re.compile(rb"\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*-[ \t]")
_INDENTED = re.compile(rb"\n(?:[ \t]*\r?\n)*[ \t]+[^ \t\r\n#]")
"""A line, after that of a key, which goes on with its value."""
_INDENTED_START = re.compile(rb"(?:[ \t]*(?:#[^\n]*|---[^\n]*)?\r?\n)*[ \t]")
_NO_TEXT = {b"null", b"true", b"false", b"yes", b"no", b"on", b"off", b"y", b"n", b"none"}
_OTHER_LINE = re.compile(
    rb"^(?![ \t\r\n#]|-(?:[ \t\r\n]|$)|---|\.\.\.|[A-Za-z_][\w-]*[ \t]*:(?:[ \t\r\n]|$)|$)", re.MULTILINE
)
"""A line at the left edge that is neither a key nor a comment nor an item: the file is then parsed whole."""


@dataclass(frozen=True, slots=True)
class NamedEntry:
    """What a name stands for; ``tasks`` are those of a tag."""

    name: str
    kind: Kind
    path: Path | None = None
    tasks: tuple[str, ...] = ()


def index_tree(root: Path) -> dict[str, NamedEntry]:
    """Return what the names of a tree stand for; of two files with one name the first stays, in the order of paths."""
    heads = _Heads(root)
    found: dict[str, NamedEntry] = {}
    tagged: dict[str, list[str]] = {}
    for path in heads.files:
        head = heads.merged(path)
        kind = _kind_of(head)
        name = None if kind is None else head.get("group" if kind == "group" else "task")
        if kind is None or not isinstance(name, str) or name in found:
            continue
        found[name] = NamedEntry(name, kind, Path(path))
        for tag in _texts(head.get("tag")) if kind != "group" else ():
            found.setdefault(tag, NamedEntry(tag, "tag"))
            tagged.setdefault(tag, []).append(name)
    heads.keep()
    tags = {tag: tuple(sorted(set(names))) for tag, names in tagged.items() if found[tag].kind == "tag"}
    return found | {tag: NamedEntry(tag, "tag", None, names) for tag, names in tags.items()}


def _kind_of(head: Mapping[str, Any]) -> Kind | None:
    kinds: tuple[Kind, ...] = ("class", "group", "task")
    return next((kind for kind in kinds if kind in head), None)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value]) if each is not None]


class _Heads:
    """The heads of the files of a tree, from the cache where the file has not changed since."""

    def __init__(self, root: Path) -> None:
        self._root, self._start = root, time.monotonic()
        digest = blake2b(os.fsencode(root), digest_size=12).hexdigest()
        self._cache = cache_folder() / "lmeval" / f"{digest}.json"
        self._known = self._read_cache()
        self._heads: dict[str, tuple[list[int], Head]] = {}
        self._real_paths: dict[str, str] = {}
        self._read_anew = 0
        self.files = sorted(_yaml_files(root))

    def merged(self, path: str, seen: tuple[str, ...] = ()) -> Head:
        """Return the head of a file with those that it includes; an empty one where that cannot be read.

        Files outside the tree are skipped here; reading the task itself refuses them.
        """
        head = self._head(path)
        if "include" not in head:
            return head
        merged: Head = {}
        for text in _texts(head["include"]):
            inner = os.path.join(os.path.dirname(path), text)  # noqa: PTH118, PTH120 - Path is slow for 14,000 files
            inner = self._real(inner)
            if inner in seen or inner == path:
                return {}
            if inner.startswith(os.path.join(self._root, "")):  # noqa: PTH118 - as above
                merged |= self.merged(inner, (*seen, path))
        return {**merged, **{key: value for key, value in head.items() if key != "include"}}

    def _real(self, path: str) -> str:
        """Return the real path, "" if the text is not a path. It is cached: many tasks include the same few files."""
        if path not in self._real_paths:
            with suppress(ValueError):  # a zero byte
                self._real_paths[path] = os.path.realpath(path)
        return self._real_paths.setdefault(path, "")

    def _head(self, key: str) -> Head:
        if key in self._heads:
            return self._heads[key][1]
        try:
            status = os.stat(key)  # noqa: PTH116 - as above
            stamp = [status.st_mtime_ns, status.st_size]
            kept = self._known.get(key)
            if kept is not None and kept[0] == stamp:
                self._heads[key] = (stamp, kept[1])
            else:
                self._read_anew += 1
                self._heads[key] = (stamp, read_head(Path(key)))
        except (OSError, KshotError):  # lm-eval passes over such a file too; one that is named itself is an error
            self._heads[key] = ([], {})
        return self._heads[key][1]

    def _read_cache(self) -> dict[str, tuple[list[int], Head]]:
        try:
            kept = json.loads(read_at_most(self._cache))
            files = kept["files"] if kept["version"] == _VERSION else {}
            return {str(key): (stamp, dict(head)) for key, (stamp, head) in files.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def keep(self) -> None:
        """Write the cache if reading took long; a cache that cannot be written is no error."""
        if not self._read_anew or time.monotonic() - self._start < _SLOW_SECONDS:
            return
        files = {key: pair for key, pair in self._heads.items() if pair[0]}
        with suppress(OSError, RunError):
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            with new_version(self._cache) as out:
                json.dump({"version": _VERSION, "files": files}, out)


def _yaml_files(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _IGNORED]
        yield from (f"{folder}/{name}" for name in names if name.endswith(".yaml"))


def read_head(path: Path) -> Head:
    """Return the keys of a file that name something, without those of files that it includes."""
    content = read_at_most(path, MAX_FILE_BYTES)
    found = _scanned(content)
    if found is None:
        values, _ = read_mapping(path, lambda text, where: FunctionRef(None, "", text, where))
        found = {key: _plain(key, values[key]) for key in _KEYS if key in values}
    return found


def _scanned(content: bytes) -> Head | None:
    """Read the keys at the left edge of a file in block style; None where only a parser can tell."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return None
    if _OTHER_LINE.search(content) or _INDENTED_START.match(content):
        return None
    found: Head = {}
    for match in _KEY_LINE.finditer(content):
        value = match[2] or b""
        if value[:1] in (b'"', b"'") and (len(value) == 1 or value[-1:] != value[:1]):
            return None  # a quoted text may go on at the left edge
        key = match[1].decode()
        if key not in _KEYS:
            continue
        if key == "class" or (key == "task" and not value and _LIST.match(content, match.end())):
            found[key] = True  # its presence says the kind; a list of tasks is a group's
        elif _PLAIN.fullmatch(value) and value.lower() not in _NO_TEXT and not _INDENTED.match(content, match.end()):
            found[key] = value.decode()
        else:
            return None
    return found


def _plain(key: str, value: Any) -> Any:
    if key == "class" or (key == "task" and not isinstance(value, (str, int))):
        return True
    return _texts(value) if isinstance(value, list) else None if value is None else str(value)


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Return names that a user may have meant."""
    from difflib import get_close_matches

    inside = [each for each in names if name.lower() in each.lower()]
    return [*dict.fromkeys([*get_close_matches(name, names, n=3), *sorted(inside, key=len)[:3]])][:5]

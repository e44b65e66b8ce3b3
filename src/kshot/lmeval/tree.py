"""A tree of task files: what a name, a pattern, a file or a folder stands for, as groups and tasks.

A tree may have 14,000 files. Only lines that name something are parsed, and what was read is kept, by file times.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core.durable import new_version
from kshot.core.errors import DataError, KshotError, RunError, UsageError
from kshot.core.text_files import read_at_most
from kshot.core.work_folders import cache_folder
from kshot.lmeval.files import (
    DROPPED,
    MAX_FILE_BYTES,
    ROOT_HINT,
    Body,
    FunctionRef,
    TaskConfig,
    installed_root,
    read_body,
    read_mapping,
    root_around,
    root_of,
    task_config,
)

Kind: TypeAlias = Literal["task", "class", "group", "tag"]
Head: TypeAlias = dict[str, Any]
"""Of the keys ``task``, ``group``, ``class``, ``tag`` and ``include`` those that a file has, as plain values."""

_IGNORED = {"__pycache__", ".ipynb_checkpoints"}
_SLOW_SECONDS = 1.0
_VERSION = 1
_KEYS = ("task", "group", "class", "tag", "include")
_KINDS: tuple[Kind, ...] = ("class", "group", "task")
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
        kind = next((kind for kind in _KINDS if kind in head), None)
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


GROUP_KEYS = ("group", "group_alias", "task", "aggregate_metric_list", "metadata")
"""The keys of a group itself; others replace those of all its tasks."""
MAX_GROUP_DEPTH = 32
MAX_MEMBERS = 200_000
"""Limits on groups inside groups, and on all that they list; lm-eval's own groups are 4 deep, and its tasks 14,000."""
_AGGREGATE_KEYS = ("metric", "filter_list", "aggregation", "weight_by_size")


@dataclass(frozen=True, slots=True)
class GroupAggregate:
    """A figure over the tasks of a group: the mean of a metric, weighted by the number of documents or not."""

    metric: str
    filters: tuple[str, ...] | None = None
    """None: every filter that the tasks have for the metric."""
    weighted: bool = True


@dataclass(frozen=True)
class Leaf:
    """A task of a tree; its file is read when it is needed."""

    name: str
    path: Path
    root: Path | None
    overrides: Body = field(default_factory=lambda: Body({}, {}))
    inline: bool = False
    """Whether a group's file holds the whole task."""

    @cached_property
    def config(self) -> TaskConfig:
        """The checked keys of the task, with what its groups say."""
        body = Body({}, {}, (self.path,)) if self.inline else read_body(self.path, self.root)
        whole = Body({**body, **self.overrides}, {**body.places, **self.overrides.places}, body.files)
        return task_config(Body({**whole, "task": self.name}, whole.places, whole.files), self.path, self.root)


@dataclass(frozen=True, slots=True)
class Group:
    """Several tasks and groups; a tag, a pattern and a folder are groups without aggregates."""

    name: str
    alias: str | None = None
    children: tuple[Node, ...] = ()
    aggregates: tuple[GroupAggregate, ...] = ()


Node: TypeAlias = "Leaf | Group"


def leaves(node: Node) -> list[Leaf]:
    """Return the tasks below a node, each once.

    Of two with one name the later one stays, as in lm-eval, at the place of the first.
    """
    return list({leaf.name: leaf for leaf in _all_leaves(node)}.values())


def groups(node: Node) -> Iterator[Group]:
    """Yield a node and all below it that are groups, the outer ones first."""
    if isinstance(node, Group):
        yield node
        for child in node.children:
            yield from groups(child)


def _all_leaves(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from _all_leaves(child)


# ---- what a user names ----


def find(text: str, root: str | Path | None = None) -> Node:
    """Return what a user names: a file, a folder, or the name or pattern of tasks, groups and tags of a tree."""
    path, tree = _existing(text), None
    looks_like_path = text.endswith((".yaml", ".yml")) or "/" in text or os.sep in text or text in {".", ".."}
    if root is not None or path is None:
        folder = root_of(root) if root is not None or not looks_like_path else installed_root()
        tree = None if folder is None else TaskTree(folder)
        path = path or (None if tree is None else _existing(text, tree.root))
    if path is None and looks_like_path and not (is_pattern(text) and tree is not None):
        hint = "Paths start from the current folder, or from that of --lmeval-root." if root is None else ""
        raise UsageError("there is no such task file or folder", where=text, hint=hint)
    if path is None or (tree is not None and not looks_like_path and text in tree.entries):
        return (tree or TaskTree(root_of(root))).named(text)
    tree = tree or TaskTree(root_around(path))
    return tree.folder(path, text) if path.is_dir() else tree.file(path)


def listed(root: str | Path | None) -> Iterator[tuple[str, str]]:
    """Yield every name of a tree, and what it stands for."""
    folder = root_of(root)
    for name, entry in sorted(index_tree(folder).items()):
        if entry.kind == "tag":
            count = len(entry.tasks)
            yield name, f"tag of {count} task{'s' if count > 1 else ''}"
        elif entry.path is not None:
            kind = "task written in Python, which kshot does not run" if entry.kind == "class" else entry.kind
            yield name, f"{kind} in {entry.path.relative_to(folder).as_posix()}"


def is_pattern(text: str) -> bool:
    """Whether a text stands for all names that match it."""
    return any(sign in text for sign in "*?[")


def _existing(text: str, folder: Path | None = None) -> Path | None:
    own = Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib raises for users that there are not
    place = own if folder is None else folder / own
    return place.resolve() if os.path.exists(place) else None  # noqa: PTH110 - pathlib raises for long names


# ---- names ----


class TaskTree:
    """The tasks, groups and tags of a folder."""

    def __init__(self, root: Path) -> None:
        """Name the folder; its files are looked through when a name is needed."""
        self.root = root
        self._members_found = 0

    @cached_property
    def entries(self) -> dict[str, NamedEntry]:
        """What each name stands for."""
        return index_tree(self.root)

    def named(self, text: str) -> Node:
        """Return a task, a group, the tasks of a tag, or all that match a pattern."""
        if text in self.entries:
            return self._node(self.entries[text], Body({}, {}), ())
        if not is_pattern(text):
            near = near_names(text, list(self.entries))
            hint = f"Did you mean {', '.join(near)}?" if near else f"kshot list lmeval --lmeval-root {self.root}"
            raise UsageError(f"no task, group or tag is called {text!r}", where=str(self.root), hint=hint)
        matching = [self.entries[name] for name in sorted(self.entries) if fnmatchcase(name, text)]
        if not matching:
            raise UsageError(f"no task, group or tag matches {text!r}", where=str(self.root))
        return self._several(text, matching)

    def folder(self, path: Path, name: str) -> Node:
        """Return all groups and tasks whose files are in a folder."""
        inside = [each for each in self.entries.values() if each.path is not None and path in each.path.parents]
        if not inside:
            raise DataError("no file in this folder defines a task or a group", where=str(path))
        return self._several(name.rstrip("/"), sorted(inside, key=lambda each: each.name))

    def file(self, path: Path) -> Node:
        """Return the task or the group that a file defines."""
        body = read_body(path, self.root)
        if "group" in body and "class" not in body:
            return self._group(_name_in(body, "group"), body, path, Body({}, {}), ())
        if "task" not in body:
            hint = "A file that others include is no task by itself."
            raise DataError("it has neither the key 'task' nor 'group'", where=str(path), hint=hint)
        return Leaf(_name_in(body, "task"), path, self.root)

    def _several(self, name: str, entries: Sequence[NamedEntry]) -> Group:
        """Join groups and tasks; what is in one of the groups already does not stand beside it."""
        built = [self._node(each, Body({}, {}), ()) for each in entries if each.kind == "group"]
        inner = {each.name for node in built for each in groups(node) if each is not node}
        outer = [node for node in built if isinstance(node, Group) and node.name not in inner]
        held = {leaf.name for node in outer for leaf in _all_leaves(node)}
        tags = [task for each in entries if each.kind == "tag" for task in each.tasks]
        tasks = [each.name for each in entries if each.kind in {"task", "class"}]
        single = [task for task in dict.fromkeys([*tasks, *tags]) if task not in held]
        alone = [self._node(self.entries[task], Body({}, {}), ()) for task in single]
        return Group(name, children=(*outer, *alone))

    def _node(self, entry: NamedEntry, overrides: Body, above: tuple[str, ...]) -> Node:
        if entry.kind == "tag":
            inner = [self._node(self.entries[name], overrides, above) for name in entry.tasks]
            return Group(entry.name, children=tuple(inner))
        path = entry.path or self.root
        if entry.kind == "group":
            return self._group(entry.name, read_body(path, self.root), path, overrides, above)
        return Leaf(entry.name, path, self.root, overrides)

    # ---- groups ----

    def _group(self, name: str, body: Body, path: Path, overrides: Body, above: tuple[str, ...]) -> Group:
        """Build a group; ``overrides`` are those of the groups around it, which are ``above``."""
        if name in above:
            where = body.places.get("task", str(path))
            raise DataError(f"the group {name} is inside itself: {' → '.join((*above, name))}", where=where)
        if len(above) >= MAX_GROUP_DEPTH:
            where = body.places.get("task", str(path))
            raise DataError(f"the group {name} is inside {len(above)} others; at most {MAX_GROUP_DEPTH}", where=where)
        own = {key: value for key, value in body.items() if key not in (*GROUP_KEYS, *DROPPED)}
        merged = Body({**own, **overrides}, {**body.places, **overrides.places}, body.files)
        items = body.get("task") or []
        children: list[Node] = []
        for item in items if isinstance(items, list) else [items]:
            children += self._members(item, name, _GroupFile(path, body), merged, (*above, name))
        alias = body.get("group_alias")
        return Group(name, None if alias is None else str(alias), tuple(children), _aggregates(body, path))

    def _members(
        self, item: Any, group: str, file: _GroupFile, overrides: Body, above: tuple[str, ...]
    ) -> Sequence[Node]:
        """Return what an item of a group's list stands for: a tag for all its tasks."""
        self._members_found += 1
        if self._members_found > MAX_MEMBERS:
            raise DataError(f"the groups around {group} list more than {MAX_MEMBERS:,} tasks", where=file.place)
        if isinstance(item, str):
            name, own = item, {}
        elif isinstance(item, dict) and "group" in item:
            return [self._inner_group(item, group, file, overrides, above)]
        elif isinstance(item, dict) and isinstance(item.get("task"), str):
            name, own = item["task"], {key: value for key, value in item.items() if key not in ("task", *DROPPED)}
        else:
            raise DataError(f"the group {group} lists {item!r:.80}, which names no task or group", where=file.place)
        merged = file.over(overrides, own)
        if name not in self.entries:
            if not own:
                near = near_names(name, list(self.entries))
                hint = f"Did you mean {', '.join(near)}?" if near else ROOT_HINT
                what = f"the group {group} lists {name!r}, which is not in {self.root}"
                raise DataError(what, where=file.place, hint=hint)
            return [Leaf(f"{group}::{name}", file.path, self.root, merged, inline=True)]
        node = self._node(self.entries[name], merged, above)
        return node.children if isinstance(node, Group) and self.entries[name].kind == "tag" else [node]

    def _inner_group(
        self, item: Mapping[str, Any], group: str, file: _GroupFile, overrides: Body, above: tuple[str, ...]
    ) -> Node:
        name = str(item["group"])
        if name in self.entries:
            own = {key: value for key, value in item.items() if key not in (*GROUP_KEYS, *DROPPED)}
            return self._node(self.entries[name], file.over(overrides, own), above)
        body = Body(item, dict.fromkeys(item, file.place), file.body.files)
        return self._group(f"{group}::{name}", body, file.path, overrides, above)


@dataclass(frozen=True, slots=True)
class _GroupFile:
    """A file with a group, whose items give keys to tasks of other files."""

    path: Path
    body: Body

    @property
    def place(self) -> str:
        """Where its list of tasks stands."""
        return self.body.places.get("task", str(self.path))

    def over(self, overrides: Body, own: Mapping[str, Any]) -> Body:
        """Put the keys of an item over those of the groups around it."""
        return Body({**overrides, **own}, {**overrides.places, **dict.fromkeys(own, self.place)}, self.body.files)


def _name_in(body: Body, key: str) -> str:
    name = body[key]
    if not isinstance(name, (str, int)) or isinstance(name, bool) or not str(name).strip():
        raise DataError(f"{key} is {name!r:.80}; it must be a name", where=body.places.get(key, ""))
    return str(name)


def _aggregates(body: Body, path: Path) -> tuple[GroupAggregate, ...]:
    """Read ``aggregate_metric_list``: a list, or one entry. A function may stand there: lm-eval takes the mean, too."""
    given, where = body.get("aggregate_metric_list"), body.places.get("aggregate_metric_list", str(path))
    found: list[GroupAggregate] = []
    for each in given if isinstance(given, list) else [] if given is None else [given]:
        if not isinstance(each, dict) or "metric" not in each or any(key not in _AGGREGATE_KEYS for key in each):
            hint = f"It has the keys {', '.join(_AGGREGATE_KEYS)}."
            raise DataError(f"an entry of aggregate_metric_list cannot be read: {each!r:.80}", where=where, hint=hint)
        how, filters = each.get("aggregation", "mean"), each.get("filter_list")
        if how != "mean" and not isinstance(how, FunctionRef):
            raise DataError(f"a group's aggregation is 'mean' or a !function, not {how!r}", where=where)
        names = None if filters is None else tuple(map(str, [filters] if isinstance(filters, str) else filters))
        found.append(GroupAggregate(str(each["metric"]), names, bool(each.get("weight_by_size", True))))
    return tuple(found)

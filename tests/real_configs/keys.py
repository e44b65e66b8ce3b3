"""What becomes of the keys of a home's entries in kshot: each reaches the loader, or is named in a note.

A loader of the home is asked in a copy of it whose loaders give back what reaches them. One of kshot's own reads a small
folder in its layout (``tests/configs/loader_cases``), and what it looks up is written down from outside.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

TAKEN_OUT = ("type", "abbr", "reader_cfg", "infer_cfg", "eval_cfg", "n", "k")
"""Keys that the homes take out before they call ``load``: ``BaseDataset.__init__`` and ``build_dataset_from_cfg``."""
NOT_ABOUT_ROWS = ("judge_infer_cfg", "local_mode", "trust_remote_code")
"""Keys that are for judges, or say where copies of the same rows lie."""
REACHED, NAMED, APART, LABEL, LOST = "reaches the loader", "named in a note", "not about rows", "label alone", "LOST"
SORTS = (REACHED, NAMED, APART, LABEL, LOST)


def recording_home(home: Path, folder: Path) -> Path:
    """A copy of a home's code in which every ``load`` of a class returns one row: what was given to it."""
    for source in home.rglob("*"):
        if not source.is_file() or source.suffix == ".pyc":
            continue
        target = folder / source.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py" and "datasets" in source.parts and "configs" not in source.parts:
            target.write_text(_recording(source.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    return folder


def _recording(text: str) -> str:
    tree = ast.parse(text)
    for held in ast.walk(tree):
        for each in held.body if isinstance(held, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef) and each.name == "load":
                names = [one.arg for one in (*each.args.args, *each.args.kwonlyargs) if one.arg not in ("self", "cls")]
                told = [f"{name!r}: {name}" for name in names]
                told += [f"**{each.args.kwarg.arg}"] if each.args.kwarg else []
                given = f"__import__('json').dumps({{{', '.join(told)}}}, default=str)"
                each.body = ast.parse(f"return [{{'reached': {given}}}]").body
                each.decorator_list = [one for one in each.decorator_list if isinstance(one, ast.Name)]
    return ast.unparse(ast.fix_missing_locations(tree))


def compare(lines: list[dict[str, Any]], home: Path) -> list[dict[str, Any]]:
    """For each kind of entry: what became of each key; whose loader read it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        recording = recording_home(home, Path(folder) / "home")
        return [line | _told(line, recording, Path(folder)) for line in lines]


def _told(line: dict[str, Any], home: Path, folder: Path) -> dict[str, Any]:
    from kshot.configs import load
    from kshot.core.errors import KshotError

    if "error" in line:
        return {"loader": "", "sorts": {}}
    try:
        config = load(home / line["file"], home=home)
    except KshotError as exc:
        return {"loader": "", "sorts": {}, "failed": str(exc)[:200]}
    try:
        entries = config.datasets[line["variable"]]  # some files list them in the order of a set
        entry = next((one for one in entries if one.get("abbr") == line["abbr"] is not None), entries[line["index"]])
        return _sorted(line, entry, folder)
    except Exception as exc:  # whatever happens is told
        return {
            "loader": "",
            "sorts": dict.fromkeys(line["given"], LOST),
            "failed": f"{type(exc).__name__}: {exc}"[:300],
        }
    finally:
        config.close()


def _sorted(line: dict[str, Any], entry: Any, folder: Path) -> dict[str, Any]:
    from kshot.configs.loaders.finding import entry_loader, has_foreign_loader

    if has_foreign_loader(entry):
        whose, taken = "home", _taken_by_home(line, entry)
    elif entry_loader(entry) is not None:
        whose, taken = "kshot", _looked_up(entry, folder)
    else:
        whose, taken = "hub or files", _asked_of_hub(entry, folder)
    named = {key for note in entry.notes for key in re.findall(r"\w+", note.partition(" take ")[2].partition(":")[0])}
    return {"loader": whose, "sorts": {key: _sort(key, taken, named) for key in line["given"]}}


def _sort(key: str, taken: set[str], named: set[str]) -> str:
    if key in taken:
        return REACHED
    if key in named:
        return NAMED
    return APART if key in NOT_ABOUT_ROWS else LABEL if key == "name" else LOST


def _taken_by_home(line: dict[str, Any], entry: Any) -> set[str]:
    """The keys that reached the loader of the home with the same value as in the home itself."""
    from kshot.configs import splits_of

    rows = splits_of(entry, online=False)
    reached = json.loads(rows[0]["reached"])
    more = set(reached) & set(TAKEN_OUT) - set(line["given"])
    assert not more, f"its loader got {sorted(more)}"
    return {key for key, value in line["given"].items() if key in reached and reached[key] == value}


def _looked_up(entry: Any, folder: Path) -> set[str]:
    """The keys that kshot's own loader looks up while it reads a folder in its layout."""
    from kshot.configs import splits_of
    from kshot.configs.loaders.reading import Loader
    from kshot.core.errors import KshotError

    case = _case_of(entry)
    place = Path(tempfile.mkdtemp(dir=folder))
    case.write(place)
    body = {**entry.body, **case.options}
    train, test = case.splits
    body["reader_cfg"] = {**entry.reader_cfg, "train_split": train, "test_split": test}
    copy = entry.with_body(**body)
    copy.project = None
    seen: set[str] = {"path"}
    read = Loader.rows

    def rows(self: Any, place: Any) -> Any:
        return read(self, replace(place, options=_Recorder(place.options, seen)))

    with contextlib.chdir(place), mock.patch.object(Loader, "rows", rows):
        try:
            splits_of(copy)
        except KshotError:  # the small folder has not what these values name: it is read without those looked up
            for key in seen - {"path", *case.options}:
                copy.body.pop(key, None)
            with contextlib.suppress(KshotError):
                splits_of(copy)
    entry.notes.update(copy.notes)
    return seen | _listed(copy)


def _listed(entry: Any) -> set[str]:
    """``data_files`` and ``split`` of an entry that lists its files: they say what was read."""
    return (
        {"path", "data_files", "split"} if entry.get("data_files") and entry.get("path") in ("json", "csv") else set()
    )


class _Recorder(Mapping[str, Any]):
    def __init__(self, options: Mapping[str, Any], seen: set[str]) -> None:
        self._options, self._seen = options, seen

    def __getitem__(self, key: str) -> Any:
        self._seen.add(key)
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


def _case_of(entry: Any) -> Any:
    """A folder for the entry's loader: of its class, or of another class with the same code."""
    from kshot.configs.loaders.finding import entry_loader, loader_of
    from tests.configs.loader_case import Case, lines
    from tests.configs.loader_cases import CASES

    asked = lines({"question_id": 1, "image": "a.png", "question": "?"})
    answers = json.dumps({"annotations": [{"question_id": 1, "answers": ["a"]}]})
    media = [
        Case(
            "MMCustomDataset",
            {"q.jsonl": lines({"type": "image", "path": ["a.png"], "question": "?"})},
            {"path": "q.jsonl"},
        ),
        Case("TEXTVQADataset", {"q.json": asked, "q_annotations.json": answers}, {"path": "q.json"}),
    ]
    name = entry.scope.name(entry["type"])
    own = [case for case in (*CASES, *media) if case.loader == name.last]
    alike = [case for case in CASES if _code(loader_of(case.loader, case.framework)) == _code(entry_loader(entry))]
    near = sorted(own or alike, key=partial(_likeness, name, entry), reverse=True)
    if not near:
        raise LookupError(f"there is no folder for {name.last}")
    return near[0]


def _likeness(name: Any, entry: Any, case: Any) -> tuple[int, bool, int]:
    pairs = zip(case.loader, name.last, strict=False)
    begin = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
    return begin, case.framework == name.framework, len(set(case.options) & set(entry.body))


def _code(loader: Any) -> Any:
    read = None if loader is None else loader.read
    while isinstance(read, partial):
        read = read.func
    return getattr(read, "__code__", None)


def _asked_of_hub(entry: Any, folder: Path) -> set[str]:
    """The keys whose values reach the hub, or that name files."""
    from kshot.configs import data, splits_of

    if listed := _listed(entry):
        files = entry["data_files"]
        for each in [files] if isinstance(files, str) else files:
            path = folder / each
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "a\n1\n" if path.suffix == ".csv" else '{"a": 1}\n' if path.suffix == ".jsonl" else '[{"a": 1}]'
            )
        splits_of(entry)
        return listed
    asked: list[Any] = []

    def loader(abbr: str, path: Any, name: Any, args: tuple[str, ...], *more: Any) -> Any:
        asked.extend(args)
        return lambda split: []

    with mock.patch.object(data, "get_raw_dataset_loader", loader):
        splits_of(entry)
    return {key for key, value in entry.body.items() if value in asked}


def table(results: list[dict[str, Any]]) -> list[str]:
    """How many keys of how many entries became what, by whose loader."""
    counts: Counter[tuple[str, str]] = Counter()
    entries: Counter[str] = Counter()
    for one in results:
        whose = one["loader"] or ("kshot cannot load it" if "failed" in one else "the home cannot make it")
        entries[whose] += one["count"]
        for sort in one["sorts"].values():
            counts[whose, sort] += one["count"]
    lines = [f"  {'loader of':<24}{'entries':>9}" + "".join(f"{sort:>20}" for sort in SORTS)]
    return lines + [
        f"  {whose:<24}{count:>9}" + "".join(f"{counts[whose, sort]:>20}" for sort in SORTS)
        for whose, count in entries.most_common()
    ]


def lost(results: list[dict[str, Any]]) -> list[str]:
    """A line for each kind of entry with a key that is neither taken nor named, or that kshot cannot read."""
    told = []
    for one in results:
        keys = [key for key, sort in one["sorts"].items() if sort == LOST]
        if keys or "failed" in one:
            told.append(f"{one['file']}, {one['type']}: {', '.join(keys)} {one.get('failed', '')}".strip())
    return told

"""kshot new KIND: a file with a class that works, and its test, as a start for your own."""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.core.errors import RunError, UsageError

if TYPE_CHECKING:
    import argparse

    from kshot.settings import Settings


_KINDS = {
    "metric": ("a metric: how a reply is scored", "-m MODEL -d DATASET --metric PLACE:NAME"),
    "retriever": ("a retriever: which examples a prompt shows", "-m MODEL -d DATASET -k 5 --retriever PLACE:NAME"),
    "model": ("a language model", "-m PLACE:NAME -d DATASET"),
    "search-engine": ("a search engine over passages", "-m PLACE:NAME -d handbook"),
    "chunker": ("a chunker: how documents are cut into passages", "-m fts5 -d handbook --chunker PLACE:NAME"),
}
"""By kind: what it is, and how it is used. ``starters`` holds a module and a test of each."""
_STARTERS = Path(__file__).parent / "starters"
_WRITTEN = ("instruction", "metric", "evaluation_set", "example_set")
"""Beside the columns: the options that the written class has as attributes."""


def plugin_files(kind: str, name: str, module: str, folder: Path) -> tuple[dict[str, str], str]:
    """Return the files of a plug-in by their names, and the command that uses it."""
    words = {"NAME": name, "FILE": f"{module}.py", "SPOKEN": module.replace("_", "-"), "PLACE": f"{folder / module}.py"}
    files = {}
    for prefix in ("", "test_"):
        starter = _STARTERS / f"{prefix}{kind.replace('-', '_')}.py.txt"
        files[f"{prefix}{module}.py"] = _filled(starter.read_text(encoding="utf-8"), words)
    return files, _filled(f"kshot run {_KINDS[kind][1]}", words)


def _filled(text: str, words: dict[str, str]) -> str:
    """Put the words in the place of their marks, at once: a word may contain another mark."""
    return re.sub("|".join(words), lambda found: words[found[0]], text)


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    from kshot.cli.parser import add_settings
    from kshot.core.options import settings_names
    from kshot.datasets.rows.settings import RowSettings

    command.description = "Write a file with a class that works, and a test of it, as a start for your own."
    kinds = command.add_subparsers(dest="kind", metavar="KIND", required=True)
    dataset = kinds.add_parser(
        "dataset",
        help="a dataset class that does what a table and flags do",
        description="Write the class that does what kshot run -d ROWS does with the same flags. Without flags, columns "
        "are found by the names that they usually have.",
    )
    dataset.add_argument("rows", metavar="ROWS", help="table of rows: csv, tsv, json, jsonl or parquet")
    dataset.add_argument("name", nargs="?", metavar="NAME", help="name of the class (default: that of the table)")
    add_settings(dataset, only=settings_names(RowSettings).union(_WRITTEN))
    for kind, (text, _) in _KINDS.items():
        plugin = kinds.add_parser(kind, help=text)
        plugin.add_argument("name", metavar="NAME", help="name of the class, such as WordCount or word_count")
    for each in kinds.choices.values():
        each.add_argument("--out", default=".", metavar="DIR", help="folder to write to (default: here)")


def execute(parsed: argparse.Namespace) -> int:
    """Write the file and its test, and say what to do with them."""
    from kshot.cli.streams import show

    folder = Path(parsed.out).expanduser()
    if parsed.kind == "dataset":
        from kshot.cli.parser import settings_of

        written, use = _dataset(parsed.rows, parsed.name, settings_of(parsed), folder)
    else:
        written, use = plugin_files(parsed.kind, class_name(parsed.name), module_name(parsed.name), folder)
    _write(folder, written)
    show(f"wrote {' and '.join(str(folder / name) for name in written)}")
    show(f"use it:  {use}")
    show(f"test it: pytest {folder / [*written][-1]}")
    return 0


def _dataset(place: str, name: str | None, settings: Settings, folder: Path) -> tuple[dict[str, str], str]:
    from kshot.cli.streams import say
    from kshot.core.options import flag
    from kshot.datasets.rows.writing import written_table

    if settings.sweep:
        several = ", ".join(flag(option) for option, _ in settings.sweep)
        raise UsageError(f"{several} has several values", hint="A class has one; kshot run evaluates each of several.")
    stem = name or _usual_name(Path(place).stem)
    module = module_name(stem)
    table = written_table(place, class_name(stem), f"{module}.py", settings, folder)
    for note in table.reading.notes:
        say(f"{place}: {note}")
    use = f"kshot run -m MODEL -d {folder / module}.py:{table.name}"
    return {f"{module}.py": table.module(), f"test_{module}.py": table.test()}, use


def _usual_name(stem: str) -> str:
    """Return a name for the class of a table, after that of its file."""
    words = re.sub(r"\W+", "_", stem).strip("_") or "rows"
    try:
        module_name(words)
    except UsageError:  # it begins with a digit, or another module has the name
        return f"rows_{words}"
    return words


def class_name(name: str) -> str:
    """Return the name of a class: ``word_count`` becomes ``WordCount``."""
    parts = [part for part in re.split(r"[_\-\s]+", name) if part]
    written = "".join(part[0].upper() + part[1:] for part in parts)
    plain = unicodedata.normalize("NFKC", written) == written  # Python would give the class another name
    if not written.isidentifier() or keyword.iskeyword(written) or not plain:
        raise UsageError(f"{name!r} cannot be the name of a class", hint="Use letters, digits and underscores.")
    return written


def module_name(name: str) -> str:
    """Return the name of the file of a class: ``WordCount`` becomes ``word_count``."""
    from importlib.metadata import packages_distributions

    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name(name))
    written = words.lower()
    if keyword.iskeyword(written) or written in {*sys.stdlib_module_names, *packages_distributions(), "kshot"}:
        hint = "Choose a name that says more."
        raise UsageError(f"a file {written}.py would hide the Python module {written!r}", hint=hint)
    return written


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write files that are not there yet: all of them, or none."""
    for name in files:
        if (folder / name).exists():
            what = "this file exists already, and nothing was written"
            raise UsageError(what, where=str(folder / name), hint="Choose another name or another --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as exc:
        raise RunError(f"it cannot be written: {exc.strerror or exc}", where=str(folder)) from exc

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


_METRIC = '''"""A metric of kshot."""

from kshot import Metric


class NAME(Metric):
    """Share of replies that contain a reference."""

    name = "NAME"
    bounds = (0.0, 100.0)

    def __init__(self, ignore_case: bool = True) -> None:
        self.fold = str.lower if ignore_case else str

    def rate(self, prediction, reference):
        """Return the score of one reply; ``reference`` is the list of right texts."""
        reply = self.fold(prediction)
        return 100.0 * any(self.fold(text) in reply for text in reference)
'''

_METRIC_TEST = '''"""Tests of FILE: pytest test_FILE"""

from pathlib import Path

import kshot

METRIC = f"{Path(__file__).with_name('FILE')}:NAME"


class Capitals(kshot.GenerationDataset):
    """Two questions."""

    instruction = "What is the capital of {country}?"
    metrics = (METRIC,)

    def load_raw_dataset(self, *places):
        self.evaluation_data = [
            {"country": "France", "city": "Paris"},
            {"country": "Italy", "city": "Rome"},
        ]

    def format_instance(self, instance):
        return {"country": instance["country"], "target": instance["city"]}


def test_it_scores_replies():
    result = kshot.evaluate(lambda prompt: "I think that it is paris.", Capitals)
    assert result.results[0]["value"] == 50.0


def test_its_option():
    metric = f"{METRIC},ignore_case=no"
    result = kshot.evaluate(lambda prompt: "paris", Capitals, metric=metric)
    assert result.results[0]["value"] == 0.0
'''

_RETRIEVER = '''"""A retriever of kshot."""

from kshot import Retriever


class NAME(Retriever):
    """Shows the training rows with the fewest words."""

    def ranked(self):
        """Yield for each test row the numbers of the training rows to show, the best first."""
        sizes = [len(str(row).split()) for row in self.train]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        for number, _ in enumerate(self.test):
            hidden = self.excluded(number)  # the row itself, if it is a training row
            yield [each for each in order if each not in hidden][: self.ice_num]
'''

_RETRIEVER_TEST = '''"""Tests of FILE: pytest test_FILE"""

from pathlib import Path

import kshot

RETRIEVER = f"{Path(__file__).with_name('FILE')}:NAME"


class Capitals(kshot.GenerationDataset):
    """One question, and two examples."""

    instruction = "What is the capital of {country}?"
    metrics = (kshot.Em(),)

    def load_raw_dataset(self, *places):
        self.evaluation_data = [{"country": "France", "city": "Paris"}]
        self.example_data = [
            {"country": "the United Kingdom", "city": "London"},
            {"country": "Italy", "city": "Rome"},
        ]

    def format_instance(self, instance):
        return {"country": instance["country"], "target": instance["city"]}


def test_it_shows_the_shortest_row():
    (shown,) = kshot.preview(Capitals, num_shots=1, retriever=RETRIEVER)
    prompt = shown.requests[0].prompt.text
    assert "Rome" in prompt
    assert "London" not in prompt
'''

_MODEL = '''"""A language model of kshot."""

from kshot import Generate, Generated


class NAME:
    """Repeats the last words of the prompt."""

    name, answers = "SPOKEN", (Generate,)

    def __init__(self, words: int = 1) -> None:
        self.words = words
        self.fingerprint = f"SPOKEN {words}"  # it covers what changes the answers

    def serve(self, queue):
        """Answer the requests of a queue, one by one."""
        for request in queue:
            words = request.prompt.text.split()
            yield request, Generated(" ".join(words[-self.words :]))
'''

_MODEL_TEST = '''"""Tests of FILE: pytest test_FILE"""

from pathlib import Path

import kshot

MODEL = f"{Path(__file__).with_name('FILE')}:NAME"


class Echoes(kshot.GenerationDataset):
    """One question that holds its answer."""

    instruction = "{text}"
    metrics = (kshot.Em(),)

    def load_raw_dataset(self, *places):
        self.evaluation_data = [{"text": "one two three"}]

    def format_instance(self, instance):
        return {"text": instance["text"], "target": "two three"}


def test_it_answers():
    assert kshot.evaluate(f"{MODEL},words=2", Echoes).results[0]["value"] == 100.0
    assert kshot.evaluate(MODEL, Echoes).results[0]["value"] == 0.0
'''

_SEARCH_ENGINE = '''"""A search engine of kshot."""

from kshot import Found, IndexSearchEngine


class NAME(IndexSearchEngine):
    """Finds the passages that share most words with the query."""

    # the fingerprint covers what changes the rankings, but for the corpus
    name = fingerprint = "SPOKEN"

    def open(self, corpus, store):
        """Read the passages; ``store.built(…)`` can keep the files of an index."""
        self.words = [set(passage.text.lower().split()) for passage in corpus]
        return self

    def search(self, queries, k, among):
        """Return the best passages of each query.

        ``among``: the positions that may be found, or None for all.
        """
        return [self._best(set(query.lower().split()), k, among) for query in queries]

    def _best(self, words, k, among):
        places = range(len(self.words)) if among is None else among
        scores = {place: float(len(words & self.words[place])) for place in places}
        best = sorted(scores, key=lambda place: (-scores[place], place))[:k]
        return Found(best, [scores[place] for place in best])
'''

_SEARCH_ENGINE_TEST = '''"""Tests of FILE: pytest test_FILE"""

from pathlib import Path

import kshot

ENGINE = f"{Path(__file__).with_name('FILE')}:NAME"


def test_it_finds_passages():
    result = kshot.evaluate(ENGINE, "handbook", limit=5)
    assert result.results
    assert max(row["value"] for row in result.results if row["value"] is not None) > 0
'''

_CHUNKER = '''"""A chunker of kshot."""


class NAME:
    """Cuts every document into parts of equal size."""

    def __init__(self, characters: int = 500) -> None:
        self.characters = characters

    def cut(self, text):
        """Return the passages of a document, in order."""
        size = self.characters
        parts = [text[at : at + size].strip() for at in range(0, len(text), size)]
        return [part for part in parts if part]
'''

_CHUNKER_TEST = '''"""Tests of FILE: pytest test_FILE"""

from pathlib import Path

import kshot

CHUNKER = f"{Path(__file__).with_name('FILE')}:NAME"


def test_it_cuts_the_documents_of_a_benchmark():
    chunker = f"{CHUNKER},characters=300"
    result = kshot.evaluate("fts5", "handbook", chunker=chunker, limit=3)
    assert result.results
    assert max(row["value"] for row in result.results if row["value"] is not None) > 0
'''

_TEXTS = {
    "metric": (_METRIC, _METRIC_TEST, "kshot run -m MODEL -d DATASET --metric PLACE:NAME"),
    "retriever": (_RETRIEVER, _RETRIEVER_TEST, "kshot run -m MODEL -d DATASET -k 5 --retriever PLACE:NAME"),
    "model": (_MODEL, _MODEL_TEST, "kshot run -m PLACE:NAME -d DATASET"),
    "search-engine": (_SEARCH_ENGINE, _SEARCH_ENGINE_TEST, "kshot run -m PLACE:NAME -d handbook"),
    "chunker": (_CHUNKER, _CHUNKER_TEST, "kshot run -m fts5 -d handbook --chunker PLACE:NAME"),
}
"""By kind: the module, its test, and the command that uses it."""


def plugin_files(kind: str, name: str, module: str, folder: Path) -> tuple[dict[str, str], str]:
    """Return the files of a plug-in by their names, and the command that uses it."""
    code, test, use = _TEXTS[kind]
    words = {"NAME": name, "FILE": f"{module}.py", "SPOKEN": module.replace("_", "-"), "PLACE": f"{folder / module}.py"}
    files = {f"{module}.py": code, f"test_{module}.py": test}
    return {file: _filled(text, words) for file, text in files.items()}, _filled(use, words)


def _filled(text: str, words: dict[str, str]) -> str:
    """Put the words in the place of their marks, at once: a word may contain another mark."""
    return re.sub("|".join(words), lambda found: words[found[0]], text)


_WRITTEN = ("instruction", "metric", "evaluation_set", "example_set")
"""Beside the columns: the options that the written class has as attributes."""
_KINDS = {
    "metric": "a metric: how a reply is scored",
    "retriever": "a retriever: which examples a prompt shows",
    "model": "a language model",
    "search-engine": "a search engine over passages",
    "chunker": "a chunker: how documents are cut into passages",
}


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
    for kind, text in _KINDS.items():
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

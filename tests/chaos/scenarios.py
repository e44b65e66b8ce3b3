"""What is killed: commands of every kind, each with the files that it needs and those that it leaves."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from tests.fake_server import chat, completion
from tests.passages.books import small_book

DATA = '''
from kshot import Em, GenerationDataset, GPTEval, MultipleChoiceDataset

CITIES = ("Paris", "Rome", "Oslo", "Lima", "Havana")


class Numbered:
    evaluation_set, example_set = "test", "dev"

    def load_raw_dataset(self, dataset_path, *rest):
        self.evaluation_data = [{"number": number} for number in range(int(dataset_path))]
        self.example_data = [{"number": 1000 + number} for number in range(9)]


class Cities(Numbered, GenerationDataset):
    """Cities in free text."""

    instruction = "The capital of country {country} is"
    metrics = [Em()]

    def format_instance(self, row):
        return {"country": row["number"], "target": CITIES[row["number"] % 5]}


class Towns(Cities):
    """The same, asked in other words."""

    instruction = "Which town governs country {country}?"


class Choices(Numbered, MultipleChoiceDataset):
    """Cities among options."""

    instruction = "What is the capital of country {{country}}?{{' ' + options if options}}\\nAnswer:"

    def format_instance(self, row):
        return {"country": row["number"], "options": list(CITIES[: 2 + row["number"] % 4]), "target_idx": row["number"] % 2}


class Judged(Cities):
    """The same, rated by a judge."""

    metrics = [Em(), GPTEval()]


class Talks(Numbered, GenerationDataset):
    """Conversations of three turns, rated by a judge."""

    instruction = "{{source[turn_idx]}}"
    metrics = [GPTEval(multi_turn=True)]
    multi_turn = True

    def format_instance(self, row):
        return {"source": [f"Tell me about {row['number']}.", "And then?", "Why?"], "target": []}
'''

CITIES = ("Paris", "Rome", "Oslo", "Lima", "Havana")


def content_of(path, body):
    """Return a number for the content of an HTTP request. Replies carry it as their prompt tokens, so a journal tells
    which requests were answered."""
    text = path + json.dumps(body, sort_keys=True)
    return int(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(), 16) % 10**8


@cache
def _zipped_book():
    with tempfile.TemporaryDirectory() as name:
        small_book(Path(name) / "book")
        return Path(shutil.make_archive(f"{name}/made", "zip", f"{name}/book")).read_bytes()


def answer(call):
    """Answer as this content always is answered."""
    if call.path == "/book.zip":
        return _zipped_book()
    number = content_of(call.path, call.body)
    judging = call.body["model"].startswith("judge")
    text = f"I see. Rating: [[{number % 10 + 1}]]" if judging else CITIES[number % 5]
    return (chat if "messages" in call.body else completion)(text, usage=(number, 2))


@dataclass(frozen=True)
class Scenario:
    """A command that is killed and repeated.

    ``{url}`` and ``{model}`` in its arguments stand for the server and a tiny model. ``before`` are commands that come
    first and are never killed; ``prepare`` then changes what they left. ``results`` are the folders that are compared.
    ``rounded``: the last digits of numbers may differ, because they depend on what is computed together.
    """

    name: str
    family: str
    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    prepare: Callable[[Path], None] = lambda _: None
    results: tuple[str, ...] = ("run",)
    rounded: bool = False


def write_data(folder):
    """Write the datasets and documents of all scenarios."""
    (folder / "data.py").write_text(DATA, encoding="utf-8")
    small_book(folder / "book")


def _outdated(folder):
    """Put other results into a run folder, so that scoring has something to replace."""
    (folder / "run" / "summary.json").write_text('{"results": [], "notes": ["outdated"]}\n', encoding="utf-8")
    (folder / "run" / "samples.jsonl").write_text('{"outdated": true}\n', encoding="utf-8")


def _damaged(folder):
    """Change a byte of every index, and remove the run that used them."""
    shutil.rmtree(folder / "run")
    for manifest in (folder / "cache" / "indexes").glob("*/files.json"):
        name = max(json.loads(manifest.read_bytes()), key=lambda each: (manifest.parent / each).stat().st_size)
        file = manifest.parent / name
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)


def _flipped(folder):
    """Flip a bit in every fourth line of the journal, and put other results into the run folder."""
    journal = folder / "run" / "journal.jsonl"
    lines = [bytearray(line) for line in journal.read_bytes().splitlines(keepends=True)]
    for line in lines[::4]:
        line[len(line) // 2] ^= 4
    journal.write_bytes(b"".join(lines))
    _outdated(folder)


def _run(*arguments):
    return ("run", *arguments, "--out", "run")


_SERVER = ("--base-url", "{url}", "--model-type", "chat", "--max-concurrency", "6")
_BOOK = ("-d", "passages", "--data", "book")
_SEARCH = _run(
    "-d", "handbook", "--limit", "12", "-m", "fts5", "-m", "bm25", "-m", "bm25:disk", "-m", "hybrid:rrf:fts5+bm25"
)
_TWO_TASKS = ("-d", "data.py:Cities", "-d", "data.py:Towns", "--dataset-path", "24", "-k", "2")
_JUDGED = _run("-m", "openai:m", *_SERVER, "-d", "data.py:Judged", "--dataset-path", "16", "--judge", "openai:judge")

SCENARIOS = (
    Scenario("two models, two tasks", "server", _run("-m", "openai:m", "-m", "openai:n", *_SERVER, *_TWO_TASKS)),
    Scenario(
        "votes", "server",
        _run("-m", "openai:m", *_SERVER, "-d", "data.py:Cities", "--dataset-path", "16", "--sample-num", "3", "--temperature", "0.7", "--fsync", "always"),
    ),
    Scenario("damaged journal", "server", _JUDGED, before=(_JUDGED,), prepare=_flipped),
    Scenario("judge", "server", _JUDGED),
    Scenario(
        "conversations and judge", "server",
        _run("-m", "openai:m", *_SERVER, "-d", "data.py:Talks", "--dataset-path", "8", "--judge", "openai:judge"),
    ),
    Scenario("rag", "server", _run("-m", "openai:m", *_SERVER, *_BOOK, "--method", "rag", "--search", "fts5")),
    Scenario(
        "answers of another run", "server",
        (*_run("-m", "openai:m", *_SERVER, *_TWO_TASKS), "--reuse", "first"),
        before=(("run", "-m", "openai:m", *_SERVER, "-d", "data.py:Cities", "--dataset-path", "24", "-k", "2", "--out", "first"),),
    ),
    Scenario(
        "hf", "hf",
        _run("-m", "hf:{model}", "--deterministic", "-d", "data.py:Choices", "-d", "data.py:Cities", "--dataset-path", "8", "-k", "2", "--max-tokens", "4"),
    ),
    Scenario("search", "search indexing", _SEARCH),
    Scenario("search, dense", "search indexing", _run(*_BOOK, "-m", "dense:{encoder}", "-m", "fts5"), rounded=True),
    Scenario("download", "search indexing", _run("-d", "passages", "--data", "{url}/book.zip", "-m", "fts5")),
    Scenario("damaged indexes", "search indexing", _SEARCH, before=(_SEARCH,), prepare=_damaged),
    Scenario("score", "score", ("score", "run"), before=(_JUDGED,), prepare=_outdated),
    Scenario("score searches", "score", ("score", "run"), before=(_SEARCH,), prepare=_outdated),
    Scenario(
        "exported searches", "summary and exports",
        ("passages", "export", "run", "exported"), before=(_SEARCH,), results=("exported",),
    ),
    Scenario(
        "lookup", "summary and exports",
        _run("-m", "openai:m", *_SERVER, "-d", "lookup:UR", "--length", "10", "--samples", "4"),
    ),
)  # fmt: skip

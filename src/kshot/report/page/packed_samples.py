"""The samples within a report: failed, flipped and wrong ones first, as many as fit, compressed."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

from kshot.report.page.cut_cards import cut_card
from kshot.report.page.packed_columns import BLOCK, MetricScales, PackedColumns
from kshot.report.page.sample_card import sample_card
from kshot.report.page.samples_read import SamplesRead
from kshot.report.sample_look import SampleLook, shots_of
from kshot.runs.folder import without_defaults
from kshot.runs.passages_file import PassageTexts
from kshot.runs.sample_filters import name_of

_MOST_CHARACTERS = 100_000
"""The JSON of one sample: a longer one is cut, so that it does not push out all others."""
_MAX_METRICS = 8
"""Metrics besides the headline by which samples can be filtered and sorted."""

KINDS = {"failed": "f", "flipped": "", "wrong": "wp", "other": "ru"}
"""In the order in which samples are taken, with the letters of their verdicts."""


class Counted(NamedTuple):
    """How many samples of a kind are in the report, and how many the run has."""

    here: int
    all: int


@dataclass
class PackedRun:
    """The samples of one run that are in the report, as files for its script; ``counts`` by kind."""

    files: dict[str, bytes] = field(default_factory=dict)
    counts: dict[str, Counted] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    cut: int = 0
    """How many of them have lost the middle of a text."""

    @property
    def size(self) -> int:
        """The characters that the files take in the page."""
        return sum(map(packed_size, self.files.values()))


def packed_size(content: bytes) -> int:
    """Return how many characters a compressed file takes in the page."""
    return 4 * ((len(content) + 2) // 3) + _TAG


_TAG = 120
"""The characters of the element around a file, at most."""


def pack(value: Any) -> bytes:
    """Return a value as compressed JSON; the same value is the same bytes at any time."""
    return _compressed(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode("utf-8", "backslashreplace"), compresslevel=6, mtime=0)


def element_text(content: bytes) -> str:
    """Return a compressed file as it stands in the page."""
    return base64.b64encode(content).decode("ascii")


def packed_run(read: SamplesRead, flipped: Collection[int], room: int) -> PackedRun:
    """Choose samples of a run that fit into so many characters of the page; ``flipped`` are numbers of samples."""
    packed = PackedRun()
    maker = _Cards(read)
    folder = f"data/runs/{read.run.key}"
    columns = PackedColumns(list(maker.scales.by_metric), maker.scales.downward())
    left, kinds = _Room(room - _TAG), dict.fromkeys(KINDS, 0)
    kept = list(_in_turn(read, flipped))
    for start in range(0, len(kept), BLOCK):
        wanted = kept[start : start + BLOCK]
        made = list(maker.of([number for _, number in wanted]))
        while made:
            content = _compressed(f"[{','.join(each.json for each in made)}]")
            lines = pack([(each.line, list(each.judged.values())) for each in made])
            if left.take(packed_size(content), packed_size(lines)):
                break
            if not left.measured:
                left.measure(packed_size(pack(columns.as_dict(total=len(read)))))
            else:
                made = made[: len(made) * 4 // 5]
        if not made:
            break
        packed.files[f"{folder}/block-{start // BLOCK}.json"] = content
        for (kind, number), each in zip(wanted, made, strict=False):
            columns.add(each.line, each.judged)
            packed.numbers.append(number)
            packed.cut += each.cut
            kinds[kind] += 1
        if len(made) < len(wanted):
            break
    packed.files[f"{folder}/columns.json"] = pack(columns.as_dict(total=len(read)))
    packed.counts = _counts(read, flipped, kinds)
    return packed


class _Room:
    """The room for blocks of samples and for their columns, whose size is known only when all are packed together.

    Until then, the lines of each block are packed alone, which takes more.
    """

    def __init__(self, room: int) -> None:
        self._room, self._blocks, self._lines, self._share = room, 0, 0, 1.0
        self.measured = True
        """Whether the columns of what was taken have been measured."""

    def take(self, block: int, lines: int) -> bool:
        """Take so many characters for a block and for its lines, if there are as many."""
        blocks, every = self._blocks + block, self._lines + lines
        if blocks + self._share * every > self._room:
            return False
        self._blocks, self._lines, self.measured = blocks, every, False
        return True

    def measure(self, columns: int) -> None:
        """Take up how much the columns of all lines really need."""
        self._share, self.measured = columns / self._lines, True


def _counts(read: SamplesRead, flipped: Collection[int], here: Mapping[str, int]) -> dict[str, Counted]:
    """Return the counts of the kinds that the run has."""
    every = {kind: sum(read.verdicts.count(letter.encode()) for letter in letters) for kind, letters in KINDS.items()}
    for number in flipped:
        letter = chr(read.verdicts[number])
        every[next(kind for kind, letters in KINDS.items() if letter in letters)] -= letter != "f"
        every["flipped"] += letter != "f"
    return {kind: Counted(here[kind], count) for kind, count in every.items() if count}


def _in_turn(read: SamplesRead, flipped: Collection[int]) -> Iterator[tuple[str, int]]:
    """Yield the samples in the order in which they are wanted; within a kind, the tasks take turns."""
    held: dict[str, list[list[int]]] = {kind: [[] for _ in read.names] for kind in KINDS}
    kind_of = {letter: kind for kind, letters in KINDS.items() for letter in letters.encode()}
    turned = set(flipped)
    failed = ord("f")
    for number, (letter, task) in enumerate(zip(read.verdicts, read.tasks, strict=True)):
        kind = "flipped" if number in turned and letter != failed else kind_of[letter]
        held[kind][task].append(number)
    for kind, tasks in held.items():
        for turn in zip_longest(*tasks):
            yield from ((kind, number) for number in turn if number is not None)


class _Card(NamedTuple):
    json: str
    line: dict[str, Any]
    judged: dict[str, tuple[str, float | None]]
    cut: bool


_LINE = ("n", "task", "model", "id", "category", "answer", "target", "text")


class _Cards:
    """Makes the cards of the samples of one run."""

    def __init__(self, read: SamplesRead) -> None:
        self._read = read
        self.scales = MetricScales(read.run.record.results, _MAX_METRICS)
        self._facts = read.run.spec.get("tasks", {})
        self._settings = without_defaults(read.run.spec.get("identity", {}))
        path = read.run.record.path
        self._texts = None if path is None else PassageTexts(path)
        pattern = self._settings.get("answer_pattern")
        self._pattern = pattern if isinstance(pattern, str) else ""

    def of(self, numbers: Sequence[int]) -> Iterator[_Card]:
        for number, row in zip(numbers, self._read.rows(numbers), strict=True):
            facts = self._facts_of(name_of(row, "task"), name_of(row, "model"))
            scale = self._read.wanted.scale(row)
            look = SampleLook(row, scale, facts, shots_of(facts, self._settings), pattern=self._pattern)
            card = sample_card(look, number, None if self._texts is None else self._texts.of(row))
            text, cut = cut_card(card, _MOST_CHARACTERS)
            yield _Card(text, {name: card[name] for name in _LINE}, self.scales.of(row), cut)

    def _facts_of(self, task: str, model: str) -> Mapping[str, Any]:
        of_model = self._facts.get(model, {})
        facts = of_model.get(task, {}) if isinstance(of_model, dict) else {}
        return facts if isinstance(facts, dict) else {}

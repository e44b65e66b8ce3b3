"""The samples of a report: what one pass over all finds, and those within it, the failed and wrong ones first."""

from __future__ import annotations

import gzip
import json
import math
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.page.page_run import PageRun
from kshot.report.page.sample_card import sample_card, script_length
from kshot.report.sample_look import SampleLooks, read_response
from kshot.runs.headline import TaskOnModel, finite, task_rows
from kshot.runs.sample_filters import HEADLINE, SampleFilter, SampleVerdict, metric_scales, name_of
from kshot.runs.samples_file import SAMPLES, PassageTexts, placed_rows, rows_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kshot.runs.comparing import Comparison


BINS = 10
_EDGES = [at / BINS for at in range(1, BINS + 1)]
"""The upper ends of the bins; each belongs to the bin below it."""


@dataclass(slots=True)
class Bin:
    """The samples whose confidence lies between two edges."""

    samples: int = 0
    right: int = 0
    confidence: float = 0.0
    """The sum over the samples."""

    @property
    def accuracy(self) -> float:
        """The share of samples whose likeliest option is right."""
        return self.right / self.samples

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the likeliest option."""
        return self.confidence / self.samples


@dataclass(slots=True)
class Calibration:
    """How far the probabilities that one model gives to options of one task can be trusted, in ten bins.

    The probability of an option is the softmax of the options' total log-probabilities. The confidence of a sample is
    the probability of its likeliest option, and the sample counts as right if that option is the right one, whatever
    rule the headline goes by. The expected calibration error is that of Guo et al. 2017 (arXiv:1706.04599): the mean,
    weighted by the samples in each bin, of the distance between accuracy and mean confidence.
    """

    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])

    @property
    def whole(self) -> Bin:
        """All samples with two or more measured options, of which a known one is right."""
        sums = (sum(getattr(each, part) for each in self.bins) for part in ("samples", "right", "confidence"))
        return Bin(*sums)

    @property
    def error(self) -> float:
        """The expected calibration error, from 0 to 1."""
        return sum(abs(each.right - each.confidence) for each in self.bins) / self.whole.samples

    def add(self, confidence: float, *, right: bool) -> None:
        """Count a sample."""
        chosen = self.bins[min(bisect_left(_EDGES, confidence), BINS - 1)]
        chosen.samples += 1
        chosen.right += right
        chosen.confidence += confidence


def confidence_of(row: ResultRow) -> tuple[float, bool] | None:
    """Return the probability of the likeliest option of a sample, and whether it is right; None where none is known.

    Of options that are equally likely, the first one counts, as in the answers of kshot.
    """
    response = row.get("response")
    if not isinstance(response, list) or len(response) < 2 or row.get("failed"):  # noqa: PLR2004 - a choice
        return None
    if not isinstance(response[0], dict) or "logprob" not in response[0]:
        return None
    target = row.get("target")
    rights = [each for each in (target if isinstance(target, list) else [target]) if type(each) is int]
    logprobs = read_response(row, "").options.logprobs
    if not rights or len(logprobs) < 2:  # noqa: PLR2004 - a choice
        return None
    likeliest = _likeliest(logprobs)
    return None if likeliest is None else (likeliest[0], likeliest[1] in rights)


def _likeliest(logprobs: Sequence[float]) -> tuple[float, int] | None:
    """Return the largest softmax of log-probabilities, and where it stands; None if one of them is no number."""
    if any(finite(each) is None and each != -math.inf for each in logprobs):
        return None
    top = max(logprobs)
    if top == -math.inf:
        return None
    return 1 / math.fsum(math.exp(each - top) for each in logprobs), logprobs.index(top)


VERDICT_LETTERS: dict[SampleVerdict, str] = {"right": "r", "partly": "p", "wrong": "w", "failed": "f", "unrated": "u"}
"""How files for pages write a verdict."""


@dataclass
class SamplesRead:
    """Where each sample of a run stands, its verdict and its task; and what was computed of all on the way.

    ``places`` are bytes of the file, or numbers of rows in memory. ``tasks`` are numbers of ``names``.
    """

    run: PageRun
    wanted: SampleFilter
    places: array[int] = field(default_factory=lambda: array("Q"))
    verdicts: bytearray = field(default_factory=bytearray)
    tasks: array[int] = field(default_factory=lambda: array("L"))
    names: dict[TaskOnModel, int] = field(default_factory=dict)
    calibrations: dict[TaskOnModel, Calibration] = field(default_factory=dict)
    failures: dict[TaskOnModel, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, numbers: Iterable[int]) -> Iterator[ResultRow]:
        """Yield the rows of samples, by their numbers, in this order."""
        record = self.run.record
        if record.path is None:
            return (record.samples[at] for at in numbers)
        return rows_at(record.path, (self.places[at] for at in numbers))

    def numbers_at(self, places: NDArray[np.uint64]) -> list[int]:
        """Return the numbers of the samples that begin at these bytes of the file."""
        import numpy as np

        known = np.array(self.places, dtype=np.uint64)
        if not np.isin(places, known).all():
            raise RunError("the file has changed while it was read", where=f"{self.run.name}: {SAMPLES}")
        numbers: list[int] = np.searchsorted(known, places).tolist()
        return numbers

    def add(self, row: ResultRow, place: int) -> None:
        """Note where a sample stands, and what is computed of all."""
        key = name_of(row, "task"), name_of(row, "model")
        verdict = self.wanted.scale(row).verdict(row)
        self.places.append(place)
        self.verdicts += VERDICT_LETTERS[verdict].encode()
        self.tasks.append(self.names.setdefault(key, len(self.names)))
        if verdict == "failed":
            self.failures.setdefault(key, str(row["failed"]))
        elif (found := confidence_of(row)) is not None:
            self.calibrations.setdefault(key, Calibration()).add(found[0], right=found[1])


def read_run_samples(run: PageRun) -> SamplesRead:
    """Read the samples of a run once; a run without ``samples.jsonl`` has none."""
    record = run.record
    read = SamplesRead(run, SampleFilter(metric_scales(record.results)))
    if record.path is None:
        for at, row in enumerate(record.samples):
            read.add(row, at)
    elif (record.path / SAMPLES).exists():
        for placed in placed_rows(record.path):
            read.add(placed.row, placed.place)
    return read


_LIMITS = (20_000, 4_000, 1_000, 200)
"""Characters of a text, tried in turn until the sample is small enough."""
_MAX_ITEMS = 200
"""Tokens, passages or options that the smallest form keeps."""


def cut_card(card: Mapping[str, Any], most: int) -> tuple[str, bool]:
    """Return the JSON of a sample in at most about so many characters, and whether it lost something."""
    written = _json(card)
    if len(written) <= most:
        return written, False
    for limit in _LIMITS:
        written = _json(_cut(card, limit, None))
        if len(written) <= most:
            return written, True
    return _json(_cut(card, _LIMITS[-1], _MAX_ITEMS)), True


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, limit: int, items: int | None) -> Any:
    """Return a value without the middle of its texts, the places within texts moved, and only some items of lists."""
    if isinstance(value, str):
        return _Shortened(value, limit).text
    if isinstance(value, list):
        return [_cut(each, limit, items) for each in value[:items]]
    if not isinstance(value, dict):
        return value
    made = {name: _cut(each, limit, items) for name, each in value.items()}
    if isinstance(value.get("messages"), list) and isinstance(value.get("asks_at"), int):
        made |= {"asks_at": _asks_at(value, limit)}
    if isinstance(value.get("tokens"), list) and isinstance(value.get("text"), str):
        made |= {"tokens": made["tokens"] if len(value["text"]) <= limit and items is None else None}
    if isinstance(value.get("marks"), list) and isinstance(value.get("text"), str):
        text = _Shortened(value["text"], limit)
        moved = [(text.moved(start), text.moved(end), *rest) for start, end, *rest in value["marks"]]
        made |= {"marks": [list(mark) for mark in moved if mark[0] < mark[1]]}
    return made


def _asks_at(prompt: Mapping[str, Any], limit: int) -> int:
    """Return where the question begins in a message that may have lost its middle."""
    at, messages = prompt.get("asks"), prompt["messages"]
    if type(at) is not int or not 0 <= at < len(messages):
        return 0
    return _Shortened(str(messages[at].get("content", "")), limit).moved(prompt["asks_at"])


class _Shortened:
    """A text without its middle: a third of what is left is its beginning, the rest its end, where answers stand.

    Places within it are counted as scripts count them.
    """

    def __init__(self, text: str, limit: int) -> None:
        self.text, self._note = text, ""
        self._head = self._tail = sys.maxsize
        if len(text) > limit:
            head, tail = limit // 3, len(text) - (limit - limit // 3)
            self._note = f"\n… {tail - head:,} characters are not in this report …\n"
            self.text = text[:head] + self._note + text[tail:]
            self._head, self._tail = script_length(text[:head]), script_length(text[:tail])

    def moved(self, place: int) -> int:
        """Return where a character of the whole text stands now; one of the middle, where its beginning ends."""
        if place <= self._head:
            return place
        if place < self._tail:
            return self._head
        return place - self._tail + self._head + len(self._note)


# ---- the table of samples ----


BLOCK = 50
"""Samples that are stored together: a page reads a block to show one of them."""
_NAMED = ("task", "model", "category", "answer")
_TEXTS = ("id", "text", "target")


Judged: TypeAlias = dict[str, tuple[str, float | None]]
"""The letter of the verdict, and the score, of a sample by each metric."""


class PackedColumns:
    """The columns of the samples that are at hand; ``web/packed.js`` describes them."""

    def __init__(self, results: Sequence[ResultRow], most: int) -> None:
        """Take the figures of a run. Samples are judged by the headlines and the first metrics, at most so many."""
        metrics = list(dict.fromkeys(row["metric"] for row in task_rows(results)))[:most]
        self._scales = {HEADLINE: metric_scales(results)} | {name: metric_scales(results, name) for name in metrics}
        self._names: dict[str, dict[str, int]] = {name: {} for name in _NAMED}
        self._columns: dict[str, list[Any]] = {name: [] for name in ("n", *_TEXTS, *_NAMED)}
        self._verdicts: dict[str, list[str]] = {}
        self._scores: dict[str, list[float | None]] = {}

    def __len__(self) -> int:
        return len(self._columns["n"])

    def judged(self, row: ResultRow) -> Judged:
        """Judge a sample by each metric."""
        if row.get("failed"):
            return dict.fromkeys(self._scales, (VERDICT_LETTERS["failed"], None))
        key, unrated = (name_of(row, "task"), name_of(row, "model")), (VERDICT_LETTERS["unrated"], None)
        found = {name: scales.get(key) for name, scales in self._scales.items()}
        return {
            name: unrated if scale is None else (VERDICT_LETTERS[scale.verdict(row)], scale.score(row))
            for name, scale in found.items()
        }

    def add(self, line: Mapping[str, Any], judged: Judged) -> None:
        """Add a sample: its ``SampleLine``, and how it was judged."""
        for name in ("n", *_TEXTS):
            self._columns[name].append(line[name])
        for name in _NAMED:
            known, value = self._names[name], line[name]
            self._columns[name].append(-1 if value is None else known.setdefault(value, len(known)))
        for metric, (letter, score) in judged.items():
            self._verdicts.setdefault(metric, []).append(letter)
            self._scores.setdefault(metric, []).append(score)

    def as_dict(self, *, total: int) -> dict[str, Any]:
        """Return the file; ``total`` are the samples of the run. ``downward``: tasks whose lower scores are better."""
        downward = {
            name: sorted({one_line(task) for (task, _), scale in scales.items() if not scale.upwards})
            for name, scales in self._scales.items()
        }
        return {
            "total": total,
            "blocks": BLOCK,
            "metrics": list(self._scales),
            "downward": {name: tasks for name, tasks in downward.items() if tasks},
            "names": {name: list(known) for name, known in self._names.items()},
            "columns": {
                **self._columns,
                "verdict": {metric: "".join(letters) for metric, letters in self._verdicts.items()},
                "score": self._scores,
            },
        }


# ---- the samples of a run ----


_MOST_CHARACTERS = 100_000
"""The JSON of one sample: a longer one is cut, so that it does not push out all others."""
_MAX_METRICS = 8
"""Metrics besides the headline by which samples can be filtered and sorted."""

KINDS = {"failed": "f", "flipped": "", "wrong": "wp", "other": "ru"}
"""In the order in which samples are taken, with the letters of their verdicts."""


class Counted(NamedTuple):
    """How many samples are in the report, and how many there are."""

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


def packed_run(read: SamplesRead, flipped: Collection[int], room: int) -> PackedRun:
    """Choose samples of a run that fit into so many characters of the page; ``flipped`` are numbers of samples."""
    packed = PackedRun()
    folder = f"data/runs/{read.run.key}"
    columns = PackedColumns(read.run.record.results, _MAX_METRICS)
    left, kinds = _Room(room - _TAG), dict.fromkeys(KINDS, 0)
    kept = list(_in_turn(read, flipped))
    cards = _cards(read, columns, [number for _, number in kept])
    for start in range(0, len(kept), BLOCK):
        wanted = kept[start : start + BLOCK]
        made = list(islice(cards, BLOCK))
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
    every = Counter(kind for kind, _ in kept)
    packed.counts = {kind: Counted(here, every[kind]) for kind, here in kinds.items() if every[kind]}
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


def _in_turn(read: SamplesRead, flipped: Collection[int]) -> Iterator[tuple[str, int]]:
    """Yield the samples in the order in which they are wanted; within a kind, the tasks take turns."""
    held: dict[str, list[list[int]]] = {kind: [[] for _ in read.names] for kind in KINDS}
    kind_of = {letter: kind for kind, letters in KINDS.items() for letter in letters.encode()}
    turned, failed = set(flipped), ord("f")
    for number, (letter, task) in enumerate(zip(read.verdicts, read.tasks, strict=True)):
        kind = "flipped" if number in turned and letter != failed else kind_of[letter]
        held[kind][task].append(number)
    for kind, tasks in held.items():
        for turn in zip_longest(*tasks):
            yield from ((kind, number) for number in turn if number is not None)


class _Card(NamedTuple):
    json: str
    line: dict[str, Any]
    judged: Judged
    cut: bool


_LINE = ("n", "task", "model", "id", "category", "answer", "target", "text")


def _cards(read: SamplesRead, columns: PackedColumns, numbers: Sequence[int]) -> Iterator[_Card]:
    """Yield the cards of samples of one run, by their numbers."""
    path = read.run.record.path
    looks = SampleLooks(path or Path(), read.wanted, full=False, spec=read.run.spec)
    texts = None if path is None else PassageTexts(path)
    for number, row in zip(numbers, read.rows(numbers), strict=True):
        card = sample_card(looks.of(row), number, None if texts is None else texts.of(row))
        text, cut = cut_card(card, _MOST_CHARACTERS)
        yield _Card(text, {name: card[name] for name in _LINE}, columns.judged(row), cut)


# ---- pairs of samples ----


_FLIPPED = frozenset("wl")


@dataclass(frozen=True)
class SamplePairs:
    """The pairs of samples of a run with its baseline, by their numbers, with a letter for who is right."""

    baseline: str
    run: str
    pairs: list[tuple[int, int]] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def file(self, here: Mapping[str, Collection[int]]) -> tuple[str, bytes]:
        """Return the name and the content of the file that pairs the samples that are in the report."""
        own, other = here[self.baseline], here[self.run]
        kept = [at for at, (one, two) in enumerate(self.pairs) if one in own and two in other]
        value: dict[str, Any] = {
            "state": "ready",
            "pairs": [self.pairs[at] for at in kept],
            "flips": "".join(self.outcomes[at] for at in kept),
        }
        return f"data/compare/{self.baseline}/{self.run}.json", pack(value)


def sample_pairs(comparison: Comparison | None, read: Sequence[SamplesRead]) -> list[SamplePairs]:
    """Pair the samples of runs with those of their baseline, by the headline of each task."""
    if comparison is None:
        return []
    from kshot.runs.sample_flips import paired_places

    by_name = {each.run.name: each for each in read}
    found: dict[tuple[str, str], SamplePairs] = {}
    for paired in paired_places(comparison):
        one, other = by_name.get(paired.match.baseline.run.label), by_name.get(paired.match.other.run.label)
        if one is None or other is None or one is other:
            continue
        keys = one.run.key, other.run.key
        pairs = found.setdefault(keys, SamplePairs(*keys))
        numbers = zip(one.numbers_at(paired.baseline), other.numbers_at(paired.run), strict=True)
        pairs.pairs.extend(numbers)
        pairs.outcomes.extend(paired.outcomes)
    return list(found.values())


def flipped_numbers(pairs: Sequence[SamplePairs]) -> dict[str, set[int]]:
    """Return by run the numbers of the samples that flipped against another run of the report."""
    found: dict[str, set[int]] = {}
    for each in pairs:
        for (one, other), outcome in zip(each.pairs, each.outcomes, strict=True):
            if outcome in _FLIPPED:
                found.setdefault(each.baseline, set()).add(one)
                found.setdefault(each.run, set()).add(other)
    return found

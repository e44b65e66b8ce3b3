"""Journals that are damaged at random: each damaged line is named and asked again, and no result is ever different.

A journal holds replies, likelihoods, rankings and failures. Whatever happens to its bytes, a run that continues it gives
the rows and figures of an undisturbed one; ``kshot score`` and ``replay:`` read a response as it was written, or none.
"""

import json
import random
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

import kshot
from kshot.backends.replay import Replay
from kshot.core.errors import BackendError, RunError
from kshot.core.records import (
    Failed,
    Generate,
    Generated,
    Gold,
    Hit,
    Likelihood,
    Loglik,
    Prompt,
    Ranking,
    Sample,
    Scored,
    Search,
    Usage,
    ask,
)
from kshot.core.serialization import decoded_line, digest, encoded_line
from kshot.core.task import Task, TaskResult
from kshot.runs.folder import RunFolder, stored_answers
from kshot.runs.journal import Journal
from kshot.runs.results import result_rows
from kshot.runs.task_run import TaskRun, run_tasks
from tests.cases import ALL
from tests.journals import without_checksums

SAMPLES = 12
CITIES = ("Paris", "Rome", "Oslo", "Lima", "Zürich", "Havana\n")


class Deterministic:
    """Answers every kind of request from its digest, and counts them."""

    name = fingerprint = "deterministic"
    answers = (Generate, Loglik, Search)

    def __init__(self):
        self.asked = []

    def serve(self, queue):
        for request in queue:
            self.asked.append(digest(request))
            yield request, self.answer(request, int(digest(request)[:8], 16))

    def answer(self, request, mark):
        if isinstance(request, Loglik):
            return Scored(
                tuple(Likelihood(-((mark >> at) % 1000) / 7, 1 + mark % 3) for at in range(2)), Usage(9, mark % 50)
            )
        if isinstance(request, Search):
            return Ranking(tuple(Hit(f"d{(mark + at) % 97}", 3.0 - at, "text") for at in range(request.k)))
        if request.prompt.text == "question 5":
            return Failed("timeout", "it took too long", retryable=True)
        reasoning = "hm" if mark % 2 else ""
        return Generated(CITIES[mark % len(CITIES)], "stop", Usage(mark % 30, mark % 9), reasoning)


class Figures(kshot.Metric):
    """Turns the whole answer into numbers, so that any change of it changes a figure."""

    name, bounds = "Figures", None

    def rate(self, prediction, reference):
        return float(int(digest(Generate(Prompt(str(prediction))))[:6], 16))


def method(sample, prompt):
    (reply,) = yield from ask(Generate(prompt))
    (scored,) = yield from ask(Loglik(prompt, (" a", " b")))
    (found,) = yield from ask(Search(prompt.text, 2))
    return [reply.text, [each.logprob for each in scored.likelihoods], [hit.id for hit in found.hits]]


TASK = Task(
    name="mixed",
    samples=[Sample(str(at), {}, Gold("x"), position=at) for at in range(SAMPLES)],
    template=lambda sample, shots: Prompt(f"question {sample.id}"),
    method=method,
    metrics=(Figures(),),
)


def run_in(folder):
    """Run the task in a folder; return all that a user sees of it, the notes, and what was asked."""
    model, rows = Deterministic(), []
    with RunFolder(folder, {"task": "mixed"}, fsync="never") as opened:
        notes = opened.notes
        result = TaskResult(TASK, model.name)
        run = TaskRun(result, lambda _, row: rows.append(row), lambda _: None, lambda _: None)
        assert list(run_tasks(iter([run]), {"model": model, "corpus": model}, opened)) == [run]
    return json.dumps([rows, list(result_rows(result)), result.usage]), notes, model.asked


def flip(data, rng, at):
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def a_range(data, rng, at, most=200):
    return at, min(len(data), at + rng.randint(1, most))


def replaced(make):
    def damage(data, rng, at):
        start, end = a_range(data, rng, at)
        return data[:start] + make(data[start:end], rng) + data[end:]

    return damage


def elsewhere(data, rng, at):
    start, end = a_range(data, rng, rng.randrange(len(data)))
    return data[:at] + data[start:end] + data[at + end - start :]


def lines_damage(change):
    def damage(data, rng, at):
        lines = data.splitlines(keepends=True)
        return b"".join(change(lines, rng, rng.randrange(len(lines))))

    return damage


def with_swapped_halves(lines, rng, at):
    other = rng.randrange(len(lines))
    one, two = lines[at], lines[other]
    lines[at] = one[: len(one) // 2] + two[len(two) // 2 :]
    lines[other] = two[: len(two) // 2] + one[len(one) // 2 :]
    return lines


def moved(lines, rng, at):
    rng.shuffle(lines)
    return lines


def other_answer(lines, rng, at):
    """A change that leaves JSON: a digit, or a word of the answer."""
    line = lines[at]
    digits = [place for place, byte in enumerate(line) if 48 <= byte <= 57]
    place = rng.choice(digits)
    lines[at] = line[:place] + bytes([48 + (line[place] - 47) % 10]) + line[place + 1 :]
    lines[at] = lines[at].replace(b"Paris", b"Rome")
    return lines


def without_checksum(lines, rng, at):
    """The checksum itself is gone or is another field: the line must not pass as one of an earlier version."""
    change = rng.choice([(b',"v":2,"sum"', b',"x":2,"y"'), (b'"sum"', b'"sun"'), (b"Rome", b"Oslo")])
    lines[at] = lines[at].replace(*change)
    return lines


def early_with_another_answer(lines, rng, at):
    """A line that an earlier version might have written, in a journal of this one."""
    at = max(at, 1)
    lines[at] = without_checksums(lines[at].decode()).replace("a", "e").encode()
    return lines


DAMAGES = {
    "bit": flip,
    "bits": lambda data, rng, at: flip(flip(flip(data, rng, at), rng, rng.randrange(len(data))), rng, at // 2),
    "byte": lambda data, rng, at: data[:at] + rng.randbytes(1) + data[at + 1 :],
    "noise": replaced(lambda part, rng: rng.randbytes(len(part))),
    "deleted": replaced(lambda part, rng: b""),
    "deleted byte": lambda data, rng, at: data[:at] + data[at + 1 :],
    "inserted": lambda data, rng, at: data[:at] + rng.randbytes(rng.randint(1, 40)) + data[at:],
    "inserted text": lambda data, rng, at: (
        data[:at] + rng.choice([b'"', b"}", b",", b"\\", b" ", b'"text":"x",']) + data[at:]
    ),
    "inserted newline": lambda data, rng, at: data[:at] + b"\n" + data[at:],
    "not UTF-8": lambda data, rng, at: data[:at] + b"\xff\xfe\xc0" + data[at:],
    "zeros": replaced(lambda part, rng: bytes(len(part))),
    "a page of zeros": lambda data, rng, at: data[: at - at % 512] + bytes(512) + data[at - at % 512 + 512 :],
    "zeros at the end": lambda data, rng, at: data[:at] + bytes(len(data) - at),
    "more zeros": lambda data, rng, at: data + bytes(rng.choice([1, 4096])) + rng.choice([b"", b"\n"]),
    "cut": lambda data, rng, at: data[:at],
    "binary at the end": lambda data, rng, at: data + rng.randbytes(100) + rng.choice([b"", b"\n"]),
    "another place": elsewhere,
    "byte order mark": lambda data, rng, at: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data, rng, at: data.replace(b"\n", b"\r\n"),
    "UTF-16": lambda data, rng, at: data.decode().encode("utf-16"),
    "joined": lines_damage(lambda lines, rng, at: [*lines[:at], lines[at].rstrip(b"\n"), *lines[at + 1 :]]),
    "twice": lines_damage(lambda lines, rng, at: [*lines, lines[at]]),
    "removed": lines_damage(lambda lines, rng, at: lines[:at] + lines[at + 1 :]),
    "halves": lines_damage(with_swapped_halves),
    "order": lines_damage(moved),
    "other answer": lines_damage(other_answer),
    "checksum": lines_damage(without_checksum),
    "early line": lines_damage(early_with_another_answer),
}
TIMES = 20 if ALL else 4
"""How often each kind of damage is tried, at another place each time."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The journal of a run, and what a user sees of the run."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    seen, notes, asked = run_in(folder)
    assert (len(asked), notes) == (3 * SAMPLES - 2, [])
    return folder, seen


def responses(data):
    """The responses of a whole journal by key; the answer counts, not a failure before it."""
    records = [decoded_line(line, early=False) for line in data.splitlines()]
    return {record.key: record for record in records}


def never_different(journal, whole):
    for key, record in whole.items():
        assert journal.get(key) in (None, record.response)


@pytest.mark.parametrize("kind", DAMAGES)
def test_results_are_those_of_an_undisturbed_run(kind, undisturbed, tmp_path):
    assert not ALL or TIMES * len(DAMAGES) > 500
    before, seen = undisturbed
    data = (before / "journal.jsonl").read_bytes()
    whole, rng = responses(data), random.Random(kind)
    for number in range(TIMES):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps({"identity": {"task": "mixed"}}))
        damaged = DAMAGES[kind](data, rng, rng.randrange(1, len(data)))
        journal = folder / "journal.jsonl"
        journal.write_bytes(damaged)
        with closing(stored_answers(folder)) as stored:  # as ``kshot score`` reads it
            never_different(stored, whole)
        assert journal.read_bytes() == damaged
        _check_replay(journal, whole)
        again, notes, asked = run_in(folder)
        assert again == seen, (number, damaged)
        if damaged != data and len(asked) > 1 and kind not in {"removed", "cut", "zeros at the end"}:
            assert "damaged (" in "".join(notes) or not damaged.endswith(b"\n"), (number, damaged)
        again, notes, asked = run_in(folder)  # what was damaged is repaired for good: only the failure is asked again
        assert (again, notes, len(asked)) == (seen, [], 1)


def _check_replay(path, whole):
    by_request = {record.asked: record.response for record in whole.values()}
    try:
        model = Replay(path)
    except (BackendError, RunError) as exc:
        assert str(path) in str(exc)
        return
    with closing(model):
        for sample in TASK.samples:
            request = Generate(Prompt(f"question {sample.id}"))
            ((_, found),) = model.serve(iter([request]))
            assert found == by_request[digest(request)] or found.kind == "not_recorded"


def test_a_flipped_bit_anywhere_in_a_line_is_found():
    line = encoded_line("0a" * 16, "0b" * 16, Generated("Paris", usage=Usage(3, 4)))
    for place in range(len(line) - 1):
        for bit in range(8):
            damaged = bytearray(line)
            damaged[place] ^= 1 << bit
            assert decoded_line(bytes(damaged), early=True) is None, damaged


@given(st.text(), st.integers(0, 2**53), st.data())
def test_a_line_is_read_as_it_was_written_or_not_at_all(text, tokens, data):
    written = Generated(text, usage=Usage(tokens, 1))
    line = encoded_line("0a" * 16, "0b" * 16, written)
    assert decoded_line(line, early=False).response == written
    start = data.draw(st.integers(0, len(line) - 1))
    end = data.draw(st.integers(start, len(line)))
    damaged = line[:start] + data.draw(st.binary(max_size=end - start + 3)) + line[end:]
    record = decoded_line(damaged, early=True)
    assert record is None or record.response == written


IMPOSSIBLE = [-1, True, None, "3", 1.0, 1e308, float("nan"), float("inf"), 10**400, 2**53 + 1, [], {}]


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("place", ["prompt", "completion", "cut_tokens", "usage"])
def test_impossible_counts_are_damage(tmp_path, place, value):
    usage = {"prompt": [value, 1], "completion": [1, value], "usage": value}.get(place, [1, 1])
    body = {"text": "x", "stop_reason": "stop", "usage": usage, "cut_tokens": value if place == "cut_tokens" else 0}
    line = {"key": "0a" * 16, "asked": "0b" * 16, "response": body}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    with closing(Journal(tmp_path / "journal.jsonl")) as journal:
        assert journal.get("0a" * 16) is None
        assert "1 line is damaged (1 at byte 0)" in journal.notes[0]


@pytest.mark.parametrize(
    "body",
    [
        *(
            {},
            {"text": 3},
            {"text": None},
            {"text": ["x"]},
            {"text": "x", "stop_reason": 3},
            {"text": "x", "reasoning": {}},
            {"text": "x", "whole": {}},
            {"text": "x", "whole": ["<think>"]},
            {"text": "x", "whole": ["<think>", 3]},
        ),
        *(
            {"scored": 3},
            {"scored": [3]},
            {"scored": [[-1.0]]},
            {"scored": [["x", 1]]},
            {"scored": [[float("nan"), 1]]},
        ),
        *(
            {"scored": [[float("inf"), 1]]},
            {"scored": [[-1.0, -1]]},
            {"scored": [[-1.0, 1, "yes"]]},
            {"scored": [[True, 1]]},
        ),
        *({"hits": 3}, {"hits": [[]]}, {"hits": [["d", "x"]]}, {"hits": [[3, 1.0]]}, {"hits": [["d", float("nan")]]}),
        *({"failed": "x"}, {"failed": 3, "message": "x"}, {"failed": "x", "message": "x", "retryable": 3}),
    ],
    ids=str,
)
def test_impossible_responses_are_damage(tmp_path, body):
    line = {"key": "0a" * 16, "asked": "0b" * 16, "response": body}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    with closing(stored_answers(tmp_path)) as stored:
        assert stored.get("0a" * 16) is None


def test_early_lines_stay_valid_before_those_with_checksums(undisturbed, tmp_path):
    before, seen = undisturbed
    lines = (before / "journal.jsonl").read_text().splitlines(keepends=True)
    half = len(lines) // 2
    (tmp_path / "journal.jsonl").write_text(without_checksums("".join(lines[:half])) + "".join(lines[half:]))
    again, notes, asked = run_in(tmp_path)
    assert (again, notes, len(asked)) == (seen, [], 1)


def test_an_answer_that_fits_another_request_is_asked_again(undisturbed, tmp_path):
    """An early line has no checksum, so its key may be damaged, and its answer be one to another kind of request."""
    before, seen = undisturbed
    rows = [json.loads(without_checksums(line)) for line in (before / "journal.jsonl").read_text().splitlines()]
    rows[1]["response"], rows[2]["response"] = rows[-1]["response"], {"scored": [[-1.0, 1]]}
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_in(tmp_path)[0] == seen

"""The journal: lines of any bytes, real lines that were damaged, and what is read back."""

import os
import shutil

from hypothesis import strategies as st

from kshot.core import serialization
from kshot.core.errors import RunError
from kshot.core.records import Failed
from kshot.runs.journal import Journal
from tests.fuzz import records
from tests.fuzz.harness import DEEP, HUGE_INT, Told, folder, fuzz, grafted, json_bytes, mutated, told

# Keys are digests: the index knows them by their first 64 bits.
keys = st.integers(0, 99).map(lambda number: serialization.key("fuzz", str(number)))
entries = st.lists(st.tuples(keys, keys, records.responses), max_size=5)


def written(path, entries):
    """Write a journal, and return its bytes."""
    journal = Journal(path)
    for key, asked, response in entries:
        journal.put(key, asked, response)
    journal.close()
    return path.read_bytes()


def read_all(path, keys, **how):
    """Open a journal and read these keys, as a run and as ``score`` do; an error of any of it is told."""
    journal = told(Journal, path, kind=RunError, where=path, **how)
    if isinstance(journal, Told):
        return journal
    try:
        return {key: told(journal.get, key, kind=RunError, where=path) for key in keys}
    finally:
        journal.close()


@fuzz(entries, st.booleans())
def test_what_is_read_back_is_what_was_written(entries, use_failures):
    with folder() as place:
        path = place / "journal.jsonl"
        whole = written(path, entries)
        answers = {key: response for key, _, response in entries if not isinstance(response, Failed)}
        failures = {key: response for key, _, response in entries if use_failures and key not in answers}
        last = {**answers, **failures}
        found = read_all(path, last, use_failures=use_failures)
        assert found == last
        assert path.read_bytes() == whole


@fuzz(
    st.one_of(
        st.binary(max_size=200),
        st.lists(st.sampled_from([b"{}", b"[]", b"null", b"\n", b"\r\n", b'{"key":', b'"', b"\xff", b"\x00"])).map(
            b"".join
        ),
        st.sampled_from([DEEP.encode() + b"\n", HUGE_INT.encode() + b"\n", b'{"key":' + HUGE_INT.encode() + b"}\n"]),
    )
)
def test_any_bytes_are_read_or_refused(raw):
    with folder() as place:
        path = place / "journal.jsonl"
        path.write_bytes(raw)
        read_only = read_all(path, ["00" * 16], read_only=True)
        assert path.read_bytes() == raw
        writable = read_all(path, ["00" * 16])
        assert isinstance(read_only, Told) == isinstance(writable, Told)


@st.composite
def damaged(draw):
    """Draw entries, and the bytes of their journal with some damage."""
    given = draw(entries)
    with folder() as place:
        whole = written(place / "journal.jsonl", given)
    return given, draw(mutated(st.just(whole)))


@fuzz(damaged())
def test_a_damaged_journal_gives_a_response_that_was_written_or_none(case):
    """A line has a checksum, so damage may lose a response; it never changes one."""
    given, raw = case
    with folder() as place:
        path = place / "journal.jsonl"
        path.write_bytes(raw)
        found = read_all(path, [key for key, _, _ in given], use_failures=True)
        if isinstance(found, Told):
            return
        for key, response in found.items():
            possible = [r for k, _, r in given if k == key]
            assert response is None or isinstance(response, Told) or response in possible


@fuzz(
    grafted({"key": "00" * 16, "asked": "11" * 16, "response": {"text": "a", "stop_reason": "stop", "usage": [1, 2]}}),
    st.data(),
)
def test_records_of_another_shape_are_read_or_refused(row, data):
    """These have no checksum, as those of earlier versions; what they hold may be anything."""
    with folder() as place:
        path = place / "journal.jsonl"
        path.write_bytes(json_bytes(row) + b"\n")
        read_all(path, ["00" * 16])
        read_all(path, ["00" * 16], use_failures=True)


@fuzz(entries, entries, st.integers(0, 400))
def test_a_torn_journal_goes_on(before, after, cut):
    """A process that dies leaves a line that is not whole; the next one writes on, and all whole lines are there.

    A line that lacks nothing but its end is whole: its checksum says so.
    """
    with folder() as place:
        path, other = place / "journal.jsonl", place / "torn.jsonl"
        whole = written(path, before)
        shutil.copy(path, other)
        os.truncate(other, max(0, len(whole) - cut))
        torn = other.read_bytes()
        kept = torn.count(b"\n") + whole.startswith(torn + b"\n")
        written(other, after)
        expected = {key: response for key, _, response in [*before[:kept], *after] if not isinstance(response, Failed)}
        assert read_all(other, expected) == expected

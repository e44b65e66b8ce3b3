"""Slices of splits, and rows that are read when they are first used."""

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.tables.files import LazyRows, slice_rows
from tests.tables.rows import ROWS, load, write

NUMBERS = [{"n": i} for i in range(40)]


@pytest.mark.parametrize(
    ("split", "numbers"),
    [
        ("test", range(40)),
        (" test ", range(40)),
        ("test[:3]", [0, 1, 2]),
        ("test[38:]", [38, 39]),
        ("test[-2:]", [38, 39]),
        ("test[:-38]", [0, 1]),
        ("test[1:3]", [1, 2]),
        ("test[:]", range(40)),
        ("test[:5%]", [0, 1]),
        ("test[95%:]", [38, 39]),
        ("test[-5%:]", [38, 39]),
        ("test[5%:10%]", [2, 3]),
        ("test[:1000]", range(40)),
        ("test[39:]+test[:1]", [39, 0]),
    ],
)
def test_slices(tmp_path, split, numbers):
    assert [row["n"] for row in load(write(tmp_path / "a.jsonl", NUMBERS), split)] == list(numbers)


@pytest.mark.parametrize(
    "split", ["test[", "test[5]", "test[a:b]", "test[1:2:3]", "[:5]", "test[:5]]", "", f"test[:{'9' * 5000}]"]
)
def test_a_slice_that_cannot_be_read(tmp_path, split):
    with pytest.raises(DataError, match="cannot be read"):
        load(write(tmp_path / "a.jsonl"), split)


BOUND = st.one_of(st.none(), st.integers(-100, 100))


@given(st.integers(1, 60), BOUND, BOUND)
def test_percents_are_rounded_as_hugging_face_does(size, start, stop):
    reading = pytest.importorskip("datasets").ReadInstruction(
        "test", from_=start, to=stop, unit="%", rounding="closest"
    )
    (absolute,) = reading.to_absolute({"test": size})
    text = f"test[{'' if start is None else f'{start}%'}:{'' if stop is None else f'{stop}%'}]"
    rows = [{"n": i} for i in range(size)]
    assert slice_rows(rows, text) == rows[absolute.from_ : absolute.to]


def test_lazy_rows_are_read_once_when_they_are_first_used():
    calls = []
    rows = LazyRows(lambda: calls.append(1) or ROWS)
    assert calls == []
    assert (len(rows), rows[1], list(rows)) == (3, ROWS[1], ROWS)
    assert calls == [1]

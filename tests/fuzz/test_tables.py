"""Table files: json, jsonl, csv, tsv and parquet of any bytes; what was written by another library is read back."""

import csv
import io
import json

from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.core.extras import is_installed
from kshot.tables.files import first_rows, load_raw_dataset_from_file, read_file, slice_rows, split_name
from tests.fuzz.harness import (
    DEEP,
    HUGE_INT,
    Told,
    any_text,
    folder,
    fuzz,
    json_bytes,
    json_values,
    mutated,
    plain_text,
    told,
)

names = plain_text.filter(lambda name: name and "\x00" not in name)
rows = st.lists(st.dictionaries(any_text, json_values(depth=2), min_size=1, max_size=4), max_size=4)
REAL = [
    b'{"question": "a", "answer": "b"}\n{"question": "c", "answer": "d"}\n',
    b'[{"question": "a", "options": ["b", "c"]}, {"question": 1.5}]',
    b'{"train": [{"x": 1}], "test": [{"x": 2}]}',
    b'question,answer\n"a ""quoted"" text","b\nc"\nd,e\n',
    b"question\tanswer\na\tb\n",
    DEEP.encode(),
    b'{"x": ' + HUGE_INT.encode() + b"}",
    b'{"x": ' + DEEP.encode() + b"}\n",
]
SUFFIXES = [".json", ".jsonl", ".csv", ".tsv"]


def read_bytes(raw, suffix):
    """Write bytes to a file of this type, and read its rows."""
    with folder() as place:
        path = place / f"rows{suffix}"
        path.write_bytes(raw)
        found = told(read_file, path, kind=DataError, where=path)
        told(load_raw_dataset_from_file, path, kind=DataError, where=path)
    if not isinstance(found, Told):
        for part in found.values() if isinstance(found, dict) else [found]:
            assert isinstance(part, list)
            assert all(isinstance(row, dict) and all(isinstance(name, str) for name in row) for row in part)
    return found


@fuzz(mutated(st.sampled_from(REAL) | st.binary(max_size=100)), st.sampled_from(SUFFIXES), examples=60)
def test_any_bytes_are_rows_or_refused(raw, suffix):
    read_bytes(raw, suffix)


@fuzz(rows, st.booleans())
def test_json_rows_come_back(given, lines):
    if lines:
        found = read_bytes(b"".join(json_bytes(row) + b"\n" for row in given), ".jsonl")
    else:
        found = read_bytes(json_bytes(given), ".json")
    assert json.dumps(found) == json.dumps(given)  # NaN is not equal to itself


@fuzz(st.lists(names, min_size=1, max_size=3, unique=True), st.data(), st.sampled_from([".csv", ".tsv"]))
def test_a_table_of_the_csv_module_comes_back(header, data, suffix):
    cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=10)
    body = data.draw(st.lists(st.lists(cells, min_size=len(header), max_size=len(header)), max_size=4))
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if suffix == ".tsv" else ",", quoting=csv.QUOTE_ALL)
    writer.writerows([header, *body])
    found = read_bytes(text.getvalue().encode(), suffix)
    assert found == [dict(zip(header, row, strict=True)) for row in body]


def parquet_bytes(columns):
    """Write a table as parquet."""
    import pyarrow as pa
    import pyarrow.parquet

    target = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


columns = st.fixed_dictionaries(
    {
        "a": st.lists(plain_text, min_size=2, max_size=2),
        "b": st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=2),
    }
)

if is_installed("pyarrow"):

    @fuzz(columns.map(parquet_bytes).flatmap(lambda raw: mutated(st.just(raw))) | st.binary(max_size=60), examples=20)
    def test_parquet_of_any_bytes_is_rows_or_refused(raw):
        read_bytes(raw, ".parquet")

    @fuzz(columns, examples=15)
    def test_parquet_rows_come_back(given):
        found = read_bytes(parquet_bytes(given), ".parquet")
        assert found == [{"a": a, "b": b} for a, b in zip(given["a"], given["b"], strict=True)]


bounds = st.none() | st.integers(-12, 12).map(str) | st.integers(-150, 150).map("{}%".format) | st.just(HUGE_INT)


@fuzz(st.integers(0, 10), st.text(max_size=3), bounds, bounds)
def test_a_slice_of_a_split_is_that_of_python(size, name, start, stop):
    split = f"{name}[{start or ''}:{stop or ''}]"
    found = told(slice_rows, [{"n": n} for n in range(size)], split, kind=DataError)
    if isinstance(found, Told) or HUGE_INT in (start, stop):
        return
    at = [None if b is None else round(int(b[:-1]) * size / 100) if b.endswith("%") else int(b) for b in (start, stop)]
    assert [row["n"] for row in found] == list(range(size))[at[0] : at[1]]


@fuzz(any_text, st.integers(0, 5))
def test_a_split_of_any_text_is_sliced_or_refused(split, limit):
    split_name(split)
    found = told(slice_rows, [{"n": n} for n in range(9)], split, kind=DataError)
    if not isinstance(found, Told):
        assert len(first_rows(found, limit)) == min(limit, len(found))

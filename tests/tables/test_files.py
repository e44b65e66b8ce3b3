"""Rows from one file: every format, and the errors of broken files."""

import csv
import json
import os

import pytest

from kshot.core.errors import DataError
from kshot.datasets import get_raw_dataset_loader, load_raw_dataset_from_file
from tests.tables.rows import ROWS, load, marked, saved, write

JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)

# ---- one file ----


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_every_format(tmp_path, kind):
    file = write(tmp_path / f"rows.{kind}")
    assert load_raw_dataset_from_file(file) == ROWS
    assert load_raw_dataset_from_file(str(file)) == ROWS
    assert load(file) == ROWS


def test_capital_suffixes_byte_order_marks_and_blank_lines(tmp_path):
    (tmp_path / "a.JSONL").write_bytes(b"\xef\xbb\xbf\r\n" + JSONL.replace("\n", "\r\n\n").encode())
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfq,a\r\n\r\nx,1\r\n")
    assert load_raw_dataset_from_file(tmp_path / "a.JSONL") == ROWS
    assert load_raw_dataset_from_file(tmp_path / "a.csv") == [{"q": "x", "a": "1"}]


def test_json_lines_under_the_name_of_json(tmp_path):
    (tmp_path / "a.json").write_text(JSONL)
    assert load_raw_dataset_from_file(tmp_path / "a.json") == ROWS


def test_a_line_separator_inside_text_is_not_the_end_of_a_row(tmp_path):
    rows = [{"q": "a\u2028b\x85c", "a": "1"}]
    (tmp_path / "a.jsonl").write_text(json.dumps(rows[0], ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_raw_dataset_from_file(tmp_path / "a.jsonl") == rows


def test_csv_fields_may_be_long(tmp_path):
    before = csv.field_size_limit()
    rows = [{"q": "x" * 300_000, "a": "1"}]
    assert load_raw_dataset_from_file(write(tmp_path / "a.csv", rows)) == rows
    assert csv.field_size_limit() == before


def test_json_with_splits(tmp_path):
    file = write(tmp_path / "a.json", {"dev": marked("dev"), "test": marked("test")})
    assert load(file, "dev") == marked("dev")
    assert load(file, "test") == marked("test")
    assert load_raw_dataset_from_file(file, "dev") == marked("dev")
    with pytest.raises(DataError, match=r"no split 'train', only dev, test"):
        load(file, "train")
    with pytest.raises(DataError, match="several splits: dev, test"):
        load_raw_dataset_from_file(file)
    assert load_raw_dataset_from_file(write(tmp_path / "b.json", {"dev": marked("dev")})) == marked("dev")


def test_one_row_whose_fields_are_lists_is_a_row(tmp_path):
    row = {"turns": ["first", "second"], "answers": []}
    assert load_raw_dataset_from_file(write(tmp_path / "a.json", row)) == [row]


def test_examples_are_not_taken_from_the_evaluated_file(tmp_path):
    file = write(tmp_path / "a.jsonl")
    loader = get_raw_dataset_loader("mine", file)
    assert loader("test") == ROWS
    with pytest.raises(DataError, match="cannot be both 'test' and 'train'"):
        loader("train")
    sliced = get_raw_dataset_loader("mine", file)
    assert sliced("test[1:]") == ROWS[1:]
    assert sliced("test[:1]") == ROWS[:1]
    saved(tmp_path / "saved", whole=ROWS)
    loader = get_raw_dataset_loader("mine", tmp_path / "saved")
    assert list(loader("test")) == ROWS
    with pytest.raises(DataError, match="cannot be both"):
        loader("train")


# ---- what cannot be read ----


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"q": 1}\n\n{"q": \n', r"a\.jsonl:3: this line is not JSON"),
        ("a.jsonl", b'{"q": 1}\n[1]\n', r"a\.jsonl:2: a row must be an object .*not list"),
        ("a.json", b'[{"q": 1},\n{"q"]', r"a\.json:2: this is not JSON"),
        ("a.json", b'{"q": 1}\n{"q"\n', r"a\.json:2: this line is not JSON"),
        ("a.json", b'[{"q": 1}, 5]', r"a\.json, row 1: a row must be"),
        ("a.json", b'{"test": [{"q": 1}, 5]}', r"a\.json, test row 1: a row must be"),
        ("a.json", b"5", "must hold a list of rows"),
        ("a.json", b"[" * 100_000, r"a\.json: its JSON cannot be read: it is nested too deeply"),
        ("a.jsonl", b'{"q": 1}\n' + b'{"q": ' * 100_000, r"a\.jsonl:2: this line is not JSON: it is nested too deeply"),
        ("a.json", b'[{"q": ' + b"9" * 5000 + b"}]", r"a\.json: its JSON cannot be read: .*digits"),
        ("a.jsonl", b'{"q": ' + b"9" * 5000 + b"}", r"a\.jsonl:1: this line is not JSON: .*digits"),
        ("a.json", b"", r"a\.json:1: this is not JSON"),
        ("a.csv", b"q,a\nx,1\ny\n", r"a\.csv:3: this row does not have the 2 fields"),
        ("a.csv", b'q,a\n"x\ny",1\nz,1,2\n', r"a\.csv:4: this row does not have the 2 fields"),
        ("a.csv", b'q,a\n"x"y,1\n', r"a\.csv:2: this line is not CSV"),
        ("a.csv", b'q,a\n"x,1\n', "this line is not CSV"),
        ("a.jsonl", b'{"q": "\xff"}\n', r"not UTF-8 text \(byte"),
        ("a.csv", "q,a\né,1\n".encode("latin-1"), r"not UTF-8 text \(byte"),
        ("a.parquet", b"nonsense", "not a parquet file"),
        ("a.xlsx", b"", r"files of type '\.xlsx' cannot be read.*\.jsonl"),
        ("a", b"", "files of type '' cannot be read"),
    ],
)
def test_a_broken_file_is_named_with_the_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_raw_dataset_from_file(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_raw_dataset_from_file(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="no such file or folder"):
        load(tmp_path / "a.jsonl")
    (tmp_path / "d.json").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        load_raw_dataset_from_file(tmp_path / "d.json")


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", '{"a": "%s"}'), ("a.csv", "a\n%s\n"), ("a.tsv", "a\n%s\n")])
def test_a_line_without_end_is_one_message(tmp_path, monkeypatch, name, text):
    monkeypatch.setattr("kshot.core.text_files.MAX_LINE_CHARACTERS", 1000)
    (tmp_path / name).write_text(text % ("x" * 2000))
    with pytest.raises(DataError, match=rf"{name}:\d: this line is above the limit of .* a line of its own"):
        load_raw_dataset_from_file(tmp_path / name)


def test_a_field_without_end_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr("kshot.tables.files.MAX_LINE_CHARACTERS", 1000)
    (tmp_path / "a.csv").write_text('a\n"' + "x\n" * 2000 + '"\n')
    with pytest.raises(DataError, match=r"a\.csv:2: a field is above the limit"):
        load_raw_dataset_from_file(tmp_path / "a.csv")


def test_a_file_that_is_too_large_to_be_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("kshot.core.text_files.MAX_WHOLE_BYTES", 10)
    (tmp_path / "a.json").write_text('[{"a": 1}, {"a": 2}]')
    with pytest.raises(DataError, match=r"above the limit of .* for a file that is read whole"):
        load_raw_dataset_from_file(tmp_path / "a.json")


def test_a_device_or_a_pipe_is_not_read(tmp_path):
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("zero.jsonl", "pipe.json"):
        with pytest.raises(DataError, match="it is a device or a pipe, not a file"):
            load_raw_dataset_from_file(tmp_path / name)


@pytest.mark.needs("pyarrow")
def test_a_small_parquet_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": ["x" * 1000] * 5000}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    assert len(load_raw_dataset_from_file(tmp_path / "a.parquet")) == 5000
    monkeypatch.setattr("kshot.tables.files.MAX_PARQUET_BYTES", 2_000_000)
    with pytest.raises(DataError, match=r"its rows are above the limit .* Cut it into several files"):
        load_raw_dataset_from_file(tmp_path / "a.parquet")


def test_a_header_that_is_no_csv_is_named(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b'"\x00\x00')
    with pytest.raises(
        DataError, match=r"rows\.csv:\d: this line is not CSV: in the field 1 a quote is opened and never closed"
    ):
        load_raw_dataset_from_file(tmp_path / "rows.csv")

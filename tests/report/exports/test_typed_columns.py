"""Columns have one type each, and csv, parquet and what reads them have the same values."""

import csv
import io
import json
import math

import pytest

from kshot.core.errors import RunError
from kshot.core.shareable import well_formed
from kshot.report.exports.columns import Columns, write_csv, write_parquet

HOSTILE = [
    "=1+1",
    "'=1",
    "a|b\\c$d&e",
    "two\nlines\r\n",
    "\x1b[31m\x00",
    "half \ud800",
    "日本 \u202e",
    "",
    " ",
    '"',
    "a,b;c\td",
]
ROWS = [
    {
        "id": str(at),
        "text": text,
        "whole": at,
        "large": 2**60 + at,
        "number": 0.1 * at if at else 3,
        "truth": at % 2 == 0,
        "mixed": [text, at, None, {"a": [text]}][at % 4],
        "response": [{"text": text}],
        "scores": {"EM": 100.0 / (at + 1), text or "empty": at},
        "ci95": None if at == 1 else [0.1, 1 / 3],
    }
    for at, text in enumerate(HOSTILE)
]


def values_of(rows=ROWS):
    columns = Columns(lambda: rows)
    return columns.types, [dict(zip(columns.types, values, strict=True)) for values in columns.values()]


def as_csv(rows, *, raw):
    file = io.StringIO(newline="")
    write_csv(file, lambda: rows, raw=raw)
    return file.getvalue().encode("utf-8", "backslashreplace").decode()


def test_each_column_has_one_type():
    types, rows = values_of()
    assert {name: types[name] for name in ("id", "text", "whole", "large", "number", "truth", "mixed", "response")} == {
        "id": "text",
        "text": "text",
        "whole": "whole",
        "large": "whole",
        "number": "number",
        "truth": "truth",
        "mixed": "json",
        "response": "json",
    }
    assert types["score_EM"] == types["ci95_low"] == "number"
    assert [row["large"] for row in rows] == [2**60 + at for at in range(len(ROWS))]
    assert [row["mixed"] and json.loads(row["mixed"]) for row in rows] == [row["mixed"] for row in ROWS]
    assert (rows[1]["ci95_low"], rows[2]["ci95_high"]) == (None, 1 / 3)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, None], "text"),
        ([1, 2.5], "number"),
        ([2**60, 2.5], "json"),
        ([2**70], "json"),
        ([True, 1], "json"),
        (["1", 1], "json"),
        ([[1], [2]], "json"),
        ([1, 2**60], "whole"),
    ],
)
def test_types(values, kind):
    rows = [{"a": value} for value in values]
    types, found = values_of(rows)
    assert types == {"a": kind}
    assert [json.loads(row["a"]) if kind == "json" else row["a"] for row in found] == values


def test_figures_are_numbers_also_where_none_is_known_or_all_are_whole():
    types, _ = values_of([{"value": None, "ci95": None, "scores": {"EM": 1}}, {"value": None, "scores": {"EM": 0}}])
    assert set(types.values()) == {"number"}


def test_a_text_that_no_encoding_has_becomes_its_escape():
    assert [well_formed(text) for text in ("a\ud800", "日", "\x00")] == ["a\\ud800", "日", "\x00"]


def test_names_that_no_encoding_has_stay_distinct():
    assert Columns(lambda: [{"a\ud800": 1, "a\\ud800": 2, "b": 3}]).names == ["a\\ud800", "a\\ud800_", "b"]


def test_rows_of_a_stranger_do_not_make_a_table_without_end():
    with pytest.raises(RunError, match="more than 2,000 columns"):
        Columns(lambda: ({f"name {at}": 1} for at in range(5_000)))


@pytest.mark.parametrize("change", [{"id": 1}, {"new": "x"}])
def test_a_run_that_changes_meanwhile_is_told(change):
    read = iter([ROWS, [{**ROWS[0], **change}]])
    columns = Columns(lambda: next(read))
    with pytest.raises(RunError, match="changed while it was exported"):
        list(columns.values())


def test_csv_for_programs_reads_back_equal():
    types, expected = values_of()
    header, *lines = csv.reader(io.StringIO(as_csv(ROWS, raw=True), newline=""))
    assert header == [well_formed(name) for name in types]
    for line, row in zip(lines, expected, strict=True):
        for text, (name, value) in zip(line, row.items(), strict=True):
            if value is None:
                assert text == ""
            elif types[name] == "number":
                assert float(text) == value
            else:
                assert text == str(value)


def test_csv_for_spreadsheets_has_no_formula_and_equal_numbers():
    types, expected = values_of()
    text = as_csv(ROWS, raw=False)
    assert "\x1b" not in text
    assert "\x00" not in text
    _, *lines = csv.reader(io.StringIO(text, newline=""))
    at = list(types).index("text")
    assert lines[0][at] == "'=1+1"
    for line, row in zip(lines, expected, strict=True):
        for cell, (name, value) in zip(line, row.items(), strict=True):
            if types[name] in {"number", "whole"}:
                assert (float(cell) if cell else None) == value or int(cell) == value


@pytest.mark.needs("pyarrow")
def test_parquet_reads_back_equal():
    import pyarrow.parquet as pq

    types, expected = values_of()
    file = io.BytesIO()
    write_parquet(file, lambda: ROWS)
    table = pq.read_table(file)
    assert table.to_pylist() == [{well_formed(name): value for name, value in row.items()} for row in expected]
    marked = {each.name for each in table.schema if each.metadata == {b"kshot": b"json"}}
    assert marked == {well_formed(name) for name, kind in types.items() if kind == "json"}


@pytest.mark.needs("pyarrow", "pandas", "polars")
def test_pandas_and_polars_read_both_files_alike(tmp_path):
    import pandas as pd
    import polars as pl

    rows = [
        {name: value for name, value in row.items() if name != "scores"} | {"text": str(row["text"]) or "x"}
        for row in ROWS[:2] + ROWS[6:7]
    ]
    with (tmp_path / "a.parquet").open("wb") as file:
        write_parquet(file, lambda: rows)
    (tmp_path / "a.csv").write_text(as_csv(rows, raw=True))
    one, other = pd.read_parquet(tmp_path / "a.parquet"), pd.read_csv(tmp_path / "a.csv", dtype={"id": str})
    for name in ("id", "text", "whole", "large", "number", "truth"):
        assert list(one[name]) == list(other[name])
    assert list(one["ci95_low"].fillna(-1)) == list(other["ci95_low"].fillna(-1))
    assert pl.read_parquet(tmp_path / "a.parquet")["number"].to_list() == [row["number"] for row in rows]


@pytest.mark.needs("pyarrow")
def test_parquet_is_written_in_groups():
    import pyarrow.parquet as pq

    file = io.BytesIO()
    write_parquet(file, lambda: ({"id": str(at), "text": "x" * 20_000} for at in range(2_500)))
    sizes = [pq.ParquetFile(file).metadata.row_group(at).num_rows for at in range(pq.ParquetFile(file).num_row_groups)]
    assert sum(sizes) == 2_500
    assert max(sizes) < 1_000  # 16 million characters are fewer rows than that


def test_numbers_beyond_all_numbers_are_empty_cells_in_spreadsheets_and_told_to_programs():
    rows = [{"value": math.inf}, {"value": math.nan}]
    assert as_csv(rows, raw=False) == '"value"\n""\n""\n'
    assert as_csv(rows, raw=True) == '"value"\ninf\nnan\n'

"""Csv files: which delimiter they have, and where their rows and faults stand."""

import pytest

from kshot.tables.files import csv_rows, quote_fault, read_file, read_located


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a,b\n1;2,3\n", {"a": "1;2", "b": "3"}),
        ("a;b\n1,2;3,4\n5,6;7,8\n", {"a": "1,2", "b": "3,4"}),
        ("a, if any;b;c\n1;2;3\n", {"a, if any": "1", "b": "2", "c": "3"}),
        ("a\tb\n1,5\t2\n", {"a": "1,5", "b": "2"}),
        ("a|b\n1|2\n", {"a": "1", "b": "2"}),
        ("a;b,c\n1,2\n3,4\n5;6,7\n", {"a;b": "1", "c": "2"}),
        ("a\n1\n", {"a": "1"}),
        ('"a;x","b;y"\n"1","2"\n', {"a;x": "1", "b;y": "2"}),
        ("sep=|\na|b,c\n1|2\n", {"a": "1", "b,c": "2"}),
        ("sep=?\n1\n", {"sep=?": "1"}),
    ],
)
def test_the_delimiter_is_the_one_that_fits(tmp_path, text, first):
    (tmp_path / "a.csv").write_text(text)
    assert read_file(tmp_path / "a.csv")[0] == first


def test_a_row_has_the_number_of_its_first_line(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n\n"x\ny",1\nz,2\n')
    assert [line for line, _ in csv_rows(tmp_path / "a.csv")] == [3, 5]
    assert [row.place for row in read_located(tmp_path / "a.csv")] == [f"{tmp_path}/a.csv:3", f"{tmp_path}/a.csv:5"]


def test_rows_of_json_have_lines(tmp_path):
    (tmp_path / "a.json").write_text('\n[ {"a": 1},\n\n {"a":\n [2, 3]}, {"a": "]"}\n]\n')
    assert [row.place.rpartition(":")[2] for row in read_located(tmp_path / "a.json")] == ["2", "4", "5"]
    (tmp_path / "a.jsonl").write_text('\n{"a": 1}\n\n{"a": 2}\n')
    assert [row.place.rpartition(":")[2] for row in read_located(tmp_path / "a.jsonl")] == ["2", "4"]
    (tmp_path / "b.json").write_text('{"test": [{"a": 1}], "train": []}')
    assert read_located(tmp_path / "b.json")["test"][0].place == f"{tmp_path}/b.json, test row 0"


@pytest.mark.parametrize(
    ("text", "field", "lines", "what"),
    [
        ('a,"b', 1, 0, "never closed"),
        ('"a""b,c\n', 0, 0, "never closed"),
        ('x,"a\nb","c\n', 2, 1, "never closed"),
        ('x,"a\nb"c,d\n', 1, 1, "text follows the closing quote: 'c,d'"),
        ('"a" ,b\n', 0, 0, "text follows the closing quote: ' ,b'"),
    ],
)
def test_where_the_quotes_are_wrong(text, field, lines, what):
    fault = quote_fault(text, ",")
    assert (fault.field, fault.lines) == (field, lines)
    assert what in fault.what


@pytest.mark.parametrize("text", ["", "a,b\n", '"a","b""c"\n', '"a\n,b",c\r\n', 'a"b,c\n'])
def test_quotes_in_order(text):
    assert quote_fault(text, ",") is None

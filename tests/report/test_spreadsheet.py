"""CSV for spreadsheets: no text is a formula, numbers stay numbers, and nothing else is lost."""

import csv
import io

import pytest

from kshot.report.exports.columns import spreadsheet_cell, write_spreadsheet

FORMULAS = [
    "=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", '=HYPERLINK("http://x")',
    "＝1", "＋1", "－1", "＠x", "\ufeff=1", "\u200b=1", "--1", "-A1", "+", "=",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_texts(text):
    assert spreadsheet_cell(text).startswith("'")


@pytest.mark.parametrize(
    "value", [1, -1, 0.5, -2.5e-7, "-5", "+3.2e5", "-.5", "a=b", "x-y", "plain", "", "日本", "(1)"]
)
def test_numbers_and_plain_texts_stay(value):
    assert spreadsheet_cell(value) == value


def test_what_is_no_number_and_control_characters():
    assert [spreadsheet_cell(value) for value in (None, float("nan"), float("inf"), True)] == ["", "", "", "True"]
    assert spreadsheet_cell("a\x1b[31m\u202e") == r"a\x1b[31m\u202e"


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_table_keeps_its_shape(delimiter):
    rows = [["name", "value"], ['a",=1,"b', -1.5], ["c;=2\t=3\n=4", 7], ["=5", None]]
    file = io.StringIO()
    write_spreadsheet(file, rows, delimiter)
    read = list(csv.reader(io.StringIO(file.getvalue()), delimiter=delimiter))
    assert read == [["name", "value"], ['a",=1,"b', "-1.5"], ["c;=2\t=3\n=4", "7"], ["'=5", ""]]
    assert '"c;=2' in file.getvalue()  # quoted whatever the separator is

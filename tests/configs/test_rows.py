"""Which rows are asked and which are shown."""

import random

import pytest
from hypothesis import given, strategies as st

from kshot.configs.rows import chosen, read_rows
from kshot.core.errors import DataError

TEN = [{"q": f"q{i}", "a": str(i)} for i in range(10)]
READER = {"input_columns": ["q"], "output_column": "a"}


def asked(reader, splits=None, **options):
    rows = read_rows(
        {**READER, **reader}, {"train": TEN, "test": TEN} if splits is None else splits, strict=True, **options
    )
    return [row["q"] for row in rows.test]


@given(st.integers(-12, 12) | st.none(), st.integers(-12, 12) | st.none(), st.integers(-3, 3) | st.none())
def test_slices_are_those_of_python(start, stop, step):
    text = ":".join("" if part is None else str(part) for part in (start, stop, step))
    rows = list(range(10))
    if step == 0:
        with pytest.raises(DataError, match="cannot be read"):
            chosen(rows, f"[{text}]")
    else:
        assert chosen(rows, f"[{text}]") == rows[start:stop:step]


def test_slices_of_two_parts():
    assert asked({"test_range": "[:3]"}) == ["q0", "q1", "q2"]
    assert asked({"test_range": " [ -2 : ] "}) == ["q8", "q9"]
    assert asked({"test_range": ""}) == [row["q"] for row in TEN]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[:2]+index_list[-1:]", [0, 1, 9]),
        ("[0:2] + index_list[4:8:2] + [7, -1]", [0, 1, 4, 6, 7, 9]),
        ("[::-1][:2]", [9, 8]),
        ("[8:]*2", [8, 9, 8, 9]),
        ("[2*3:17//2]", [6, 7]),
        ("[index_list[1]:index_list[-7]]", [1, 2]),
        ("+index_list", [*range(10), *range(10)]),
    ],
)
def test_ranges_of_several_parts(text, numbers):
    """The frameworks run ``index_list`` and the text as Python; kshot reads the same without running it."""
    index_list = list(range(10))  # noqa: F841 - the name in the ranges
    assert [number % 10 for number in eval("index_list" + text)] == numbers
    assert chosen(list(range(10)), text) == numbers


@pytest.mark.parametrize(
    "bad",
    [
        "[0:9].clear()",
        "[:2]+[x for x in index_list]",
        "[:2]+__import__('os').listdir('/')",
        "[:2]+rows",
        "[:2]+'ab'",
        "[:10**9]",
        "*9999999999999",
        "[:2]-[1]",
        "[1//0:]",
        "[:True]",
        "[50]",
        "[:" + "1+" * 2000 + "1]",
    ],
)
def test_other_python_in_a_range_is_not_run(bad):
    with pytest.raises(DataError, match="cannot be read"):
        chosen(list(range(10)), bad)


def test_a_range_names_the_row_that_does_not_exist():
    with pytest.raises(DataError, match="asks for row 12; there are 10 rows"):
        chosen(list(range(10)), "[:2]+[12]")


def test_numbers_and_fractions_are_seeded_by_themselves():
    order = list(range(10))
    random.Random(3).shuffle(order)
    drawn = [f"q{i}" for i in order[:3]]
    assert asked({"test_range": 3}) == asked({"test_range": 0.35}) == drawn
    for everything in (10, 100, 0, -1, None):
        assert asked({"test_range": everything}) == [row["q"] for row in TEN]


@pytest.mark.parametrize(
    "bad",
    ["abc", "[3]", "[::0]", "[-:]", "[1:2:3:4]", "[0:len(index_list)]", "[:5]; import os", 2.5, 1.0, True, [1], (0, 3)],
)
@pytest.mark.parametrize("strict", [True, False])
def test_ranges_that_cannot_be_read(bad, strict):
    with pytest.raises(DataError, match=r"mine test_range: the range .* cannot be read. Write a slice"):
        read_rows({**READER, "test_range": bad}, {"test": TEN}, strict=strict, abbr="mine")


def test_columns_may_be_one_string():
    rows = read_rows({"input_columns": "q a", "output_column": None}, TEN, strict=True)
    assert (rows.input_columns, rows.output_column) == (("q", "a"), None)


def test_one_dataset_is_both_train_and_test():
    rows = read_rows({**READER, "train_split": "dev", "test_split": "val"}, TEN, strict=True)
    assert rows.train == rows.test == TEN
    assert rows.train[3] is TEN[3]  # the very rows, so that a retriever can tell which is which


def test_a_missing_split():
    with pytest.raises(DataError, match=r"mine: there is no split 'val'. There is 'train', 'test'"):
        asked({"test_split": "val"}, abbr="mine")
    rows = read_rows(READER, {"test": TEN}, strict=True, abbr="mine")
    assert rows.train == []
    with pytest.raises(
        DataError, match=r"example 0 does not exist: there are 0 training rows. Give rows for the split"
    ):
        rows.shown(0)


def test_repeats():
    strict, compat = (
        read_rows(READER, {"train": TEN, "test": TEN[:2]}, strict=strict, n=2) for strict in (True, False)
    )
    assert [row["q"] for row in strict.test] == [row["q"] for row in compat.test] == ["q0", "q0", "q1", "q1"]
    assert (len(strict.train), len(compat.train)) == (10, 20)
    assert [strict.asked(i)["idx"] for i in range(4)] == [0, 0, 1, 1]
    assert [compat.shown(i)["idx"] for i in range(4)] == [0, 0, 1, 1]


def test_opencompass_repeats_all_rows_one_round_after_the_other():
    splits = {"train": TEN, "test": TEN[:2]}
    rows = read_rows(READER, splits, strict=False, n=2, framework="opencompass")
    assert [row["q"] for row in rows.test] == ["q0", "q1", "q0", "q1"]
    assert [rows.asked(i)["idx"] for i in range(4)] == [0, 1, 0, 1]
    assert rows.train == TEN * 2
    assert [rows.first_copy(number) for number in range(2)] == [0, 1]
    each = read_rows(READER, splits, strict=False, n=2, framework="ais_bench")
    assert [each.first_copy(number) for number in range(2)] == [0, 2]


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_repeats_that_make_no_sense(n):
    with pytest.raises(DataError, match="n is"):
        read_rows(READER, TEN, strict=False, n=n)


def test_copies_of_rows_have_a_limit():
    rows = [{"q": "q", "a": "a"}] * 6_000
    with pytest.raises(DataError, match=r"n is 10,000, and there are 6,000 rows; all copies may be 50,000,000"):
        read_rows(READER, {"test": rows}, strict=False, n=10_000)


def test_own_columns():
    rows = read_rows({**READER, "test_range": "[5:]"}, {"train": TEN, "test": TEN}, strict=True, abbr="mine")
    assert rows.asked(1) == {"q": "q6", "a": "6", "subdivision": "mine_test", "idx": 1}
    assert rows.shown(2)["subdivision"] == "mine_train"
    assert read_rows(READER, [{"q": 1, "a": 2, "idx": "own"}], strict=True).asked(0)["idx"] == "own"


def test_the_split_named_train_after_train_was_read():
    splits = {"train": TEN[:1], "test": TEN[1:2]}
    reader = {**READER, "train_split": "test", "test_split": "train"}
    assert read_rows(reader, splits, strict=False).test == TEN[1:2]
    assert read_rows(reader, splits, strict=True).test == TEN[:1]
    ranged = {**READER, "test_split": "train", "train_range": "[:3]"}
    assert len(read_rows(ranged, {"train": TEN}, strict=False).test) == 3
    assert len(read_rows(ranged, {"train": TEN}, strict=True).test) == 10


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ({"input_columns": 3}, "input_columns is 3"),
        ({"input_columns": []}, "no input_columns"),
        ({"input_columns": ["q"], "output_column": ["a"]}, "output_column is"),
        ({"input_columns": ["q"], "train_split": {"a": 1}}, "train_split is {'a': 1}; it must be text"),
        ({"input_columns": ["q"], "output_colunm": "a"}, "reader_cfg has 'output_colunm'"),
        ({"input_columns": ["question"]}, "row 0 has no column 'question'. It has q, a"),
    ],
)
def test_faulty_readers(reader, message):
    with pytest.raises(DataError, match=message):
        read_rows(reader, TEN, strict=True)

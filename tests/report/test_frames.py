"""Rows as data frames."""

import pytest

from kshot.report.exports.columns import flat_rows, pandas_frame, polars_frame

ROWS = [
    {"task": "t", "value": 50.0, "n": 2, "ci95": [1.0, 99.0], "scores": {"EM": 100.0}, "answer": 1, "prompt": "p"},
    {"task": "t", "value": None, "n": 2, "ci95": None, "scores": {}, "answer": "B", "prompt": [{"role": "user"}]},
    {
        "task": "t",
        "value": 1,
        "n": 2**70,
        "ci95": [0, 1],
        "scores": {"EM": 0.0, "F1": 50.0},
        "answer": None,
        "new": True,
    },
]


def test_intervals_and_scores_are_columns_of_their_own():
    first, second, third = flat_rows(ROWS)
    assert first == {"task": "t", "value": 50.0, "n": 2, "ci95_low": 1.0, "ci95_high": 99.0, "score_EM": 100.0,
                     "answer": 1, "prompt": "p"}  # fmt: skip
    assert (second["ci95_low"], second["ci95_high"]) == (None, None)
    assert third["score_F1"] == 50.0


def test_pandas_keeps_every_value():
    pytest.importorskip("pandas")
    frame = pandas_frame(ROWS)
    assert list(frame["score_EM"].fillna(-1)) == [100.0, -1, 0.0]
    assert frame["prompt"][1] == [{"role": "user"}]
    assert frame["answer"][1] == "B"


def test_polars_has_one_type_in_each_column():
    pytest.importorskip("polars")
    frame = polars_frame(ROWS)
    assert frame["value"].to_list() == [50.0, None, 1.0]
    assert frame["answer"].to_list() == ["1", '"B"', None]
    assert frame["prompt"].to_list() == ['"p"', '[{"role": "user"}]', None]
    assert frame["n"].to_list() == ["2", "2", str(2**70)]
    assert frame["new"].to_list() == [None, None, True]


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
def test_no_rows_are_an_empty_frame(frame):
    pytest.importorskip(frame.__name__.removesuffix("_frame"))
    assert len(frame([])) == 0


@pytest.mark.parametrize(("package", "frame_of"), [("pandas", pandas_frame), ("polars", polars_frame)])
def test_half_of_a_character_becomes_its_escape(package, frame_of):
    pytest.importorskip(package)
    frame = frame_of([{"id": "a\ud800", "half \udfff": ["\udc00"], "n": 1}, {"id": "b", "n": 2}])
    assert list(frame["id"]) == ["a\\ud800", "b"]
    assert list(frame.columns) == ["id", "half \\udfff", "n"]
    assert "\\udc00" in frame["half \\udfff"][0][0 if package == "pandas" else slice(None)]

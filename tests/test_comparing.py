"""``kshot.compare``: what a script or a notebook gets. tests/runs/test_comparing.py has the figures."""

import pytest

import kshot
from kshot.core.errors import RunError, UsageError
from tests.datasets.fakes import generation, says

ROWS = [{"q": "one", "target": "1"}, {"q": "two", "target": "2"}, {"q": "three", "target": "1"}]


@pytest.fixture(scope="module")
def compared():
    return kshot.compare(kshot.evaluate(says("1"), generation(ROWS)), kshot.evaluate(says("2"), generation(ROWS)))


@pytest.mark.parametrize("tool", ["pandas", "polars"])
def test_frames_hold_the_rows_of_a_part(compared, tool):
    pytest.importorskip(tool)
    to_frame = getattr(compared, f"to_{tool}")
    assert list(to_frame()["difference"]) == [compared.rows[0]["difference"]]
    assert sorted(to_frame("flips")["id"]) == ["0", "1", "2"]
    assert len(to_frame("categories")) == 0
    with pytest.raises(UsageError, match="a comparison has no part 'row'"):
        to_frame("row")


def test_a_notebook_shows_who_is_ahead(compared):
    assert "cannot be told apart" in compared._repr_html_()


def test_no_run_is_an_error():
    with pytest.raises(UsageError, match="there is no run to compare"):
        kshot.compare()


def test_a_run_that_shares_no_task_is_an_error():
    ones = [kshot.evaluate(says(text), generation(ROWS)) for text in ("1", "2")]
    other = kshot.evaluate(says("1"), "lookup:UR", length=(10,), samples=3)
    with pytest.raises(RunError, match="this run has nothing in common with those it is compared with"):
        kshot.compare(*ones, other)

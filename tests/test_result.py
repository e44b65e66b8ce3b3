"""What evaluate, score and load return."""

import pytest

import kshot
from kshot.core.errors import UsageError
from tests.datasets.fakes import generation, says

ROWS = [{"q": "one", "target": "1"}, {"q": "two", "target": "2"}]


@pytest.fixture
def result(tmp_path):
    return kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run")


@pytest.mark.parametrize("tool", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("part", "column", "values"), [("results", "value", [50.0]), ("samples", "score_EM", [100.0, 0.0])]
)
def test_frames_hold_the_rows_of_a_part(result, tool, part, column, values):
    pytest.importorskip(tool)
    for each in (result, kshot.load(result.path), kshot.score(result.path, generation(ROWS))):
        frame = getattr(each, f"to_{tool}")(part)
        assert list(frame[column]) == values
    assert len(getattr(result, f"to_{tool}")("comparisons")) == 0


def test_an_unknown_part_lists_the_known_ones(result):
    with pytest.raises(UsageError, match=r"a run has no part 'rows'. Its parts: results, comparisons, usage, samples"):
        result.to_pandas("rows")


def test_a_notebook_shows_the_figures_and_the_folder(result):
    text = result._repr_html_()
    assert "50.00" in text
    assert str(result.path) in text


def test_samples_are_found_by_what_they_are(result):
    assert [row["id"] for row in result.find(wrong=True)] == ["1"]
    assert [row["id"] for row in kshot.load(result.path).find(right=True, id=["0", "1"])] == ["0"]
    assert list(result.find(contains="two", right=True)) == []
    with pytest.raises(UsageError, match="no task"):
        list(result.find(task="nowhere"))


def test_samples_are_found_that_another_run_answers_differently(result):
    other = kshot.evaluate(says("2"), generation(ROWS))
    for run in (result, kshot.load(result.path), kshot.evaluate(says("1"), generation(ROWS))):
        assert [row["id"] for row in run.find(flipped=other)] == ["0", "1"]
        assert [row["id"] for row in run.find(flipped=other, wrong=True)] == ["1"]
        assert list(run.find(flipped=result.path)) == list(run.find(flipped=str(result.path))) == []
    with pytest.raises(UsageError, match="is not a run"):
        result.find(flipped=3)

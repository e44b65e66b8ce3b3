"""``kshot.export``: what the command writes, from Python."""

from pathlib import Path

import pytest

import kshot
from kshot.core.export_formats import FORMATS, PARTS, TEXTS
from tests.commands import kshot as command
from tests.finished_runs import Item, finished, task


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    zero = {str(at): Item(100 if at < 3 else 0, f"{at}?", "red" if at % 2 else "blue") for at in range(20)}
    five = {key: item._replace(score=100) for key, item in zero.items()}
    return [finished(folder / name, task("quiz", own)) for name, own in (("zero", zero), ("five", five))]


@pytest.mark.parametrize("to", TEXTS)
@pytest.mark.parametrize("what", [None, "comparisons"])
def test_texts_are_those_that_the_command_prints(runs, capsys, to, what):
    more = () if what is None else ("--what", what)
    printed = command(capsys, "export", *runs, "--to", to, *more).out
    assert printed
    assert kshot.export(*runs, to=to, what=what) == printed
    assert kshot.export(*map(kshot.load, runs), to=to, what=what) == printed


def test_files_are_returned_by_their_paths(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert kshot.export(runs[0], to="latex", out="t.tex", label="tab:x", caption="Mine", intervals=False) == [
        Path("t.tex")
    ]
    assert r"\caption{Mine.}\label{tab:x}" in Path("t.tex").read_text()
    (path,) = kshot.export(runs[0], to="hf", dataset_id="a/b", out=tmp_path / "hub")
    assert path.is_relative_to(tmp_path / "hub")
    assert 'id: "a/b"' in path.read_text()


@pytest.mark.needs("pyarrow")
def test_files_without_a_name_are_named_after_the_run(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert kshot.export(runs[0], to="parquet", what="samples") == [Path("zero-samples.parquet")]
    result = finished(None, task("quiz", {"a": Item(100)}))
    assert kshot.export(result, to="parquet") == [Path("run-results.parquet")]


def test_a_result_in_memory_is_a_table(tmp_path):
    result = finished(None, task("quiz", {"a": Item(100)}))
    assert "| quiz" in kshot.export(result, to="markdown")
    assert "=1" not in kshot.export(result, to="csv", what="samples")
    with pytest.raises(kshot.KshotError, match="needs a run folder"):
        kshot.export(result, to="trec", out=tmp_path)


def test_raw_csv_is_a_text_too():
    result = finished(None, task("=1+1", {"a": Item(100)}))
    assert '"=1+1"' in kshot.export(result, to="csv", raw=True)
    assert '"=1+1"' not in kshot.export(result, to="csv")


def test_what_could_not_be_compared_is_a_warning(runs, tmp_path):
    other = finished(tmp_path / "other", task("else", {"x": Item(100)}))
    with pytest.warns(UserWarning, match="the runs are not compared: the runs have no task in common"):
        table = kshot.export(runs[0], other, to="markdown")
    assert "quiz" in table
    assert "Bold" not in table


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "xml"}, "--to is 'xml'.*csv"),
        ({"to": "csv", "what": "all"}, "--what is 'all'.*samples"),
        ({"to": "csv", "label": "x"}, "--label is for --to latex"),
        ({"to": "csv", "out": ""}, "--out is empty"),
        ({"to": "hf"}, "unknown for quiz"),
    ],
)
def test_what_makes_no_sense_is_refused(runs, given, message):
    with pytest.raises(kshot.KshotError, match=f"(?s){message}"):
        kshot.export(runs[0], **given)
    with pytest.raises(kshot.KshotError, match="no run to export"):
        kshot.export(to="csv")
    assert {*TEXTS} < {*FORMATS}
    assert PARTS[0] == "results"

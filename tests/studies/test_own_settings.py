"""Settings after the name of a dataset whose front end has none there: token lookup, passages, config files."""

import json

import pytest

import kshot
from kshot.core.errors import UsageError
from kshot.settings import settings_from
from kshot.sources import source_of
from tests.commands import kshot as command


def figures(result):
    return {row["task"]: row["n"] for row in result.results if row["metric"] == "Accuracy"}


def test_each_dataset_has_its_own(tmp_path, capsys):
    datasets = ["lookup:UR,length=10+20,samples=3", "lookup:UL"]
    result = kshot.evaluate("embedded", datasets, out=tmp_path / "run", length=10, samples=2, variant="sep|small|bare")
    found = {f"lookup:{name}:sep|small|bare": n for name, n in (("UR:10", 3), ("UR:20", 3), ("UL:10", 2))}
    assert figures(result) == found
    again = command(capsys, "score", tmp_path / "run", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["results"] == result.results


def test_a_sweep_and_a_setting_of_one_dataset():
    result = kshot.evaluate("embedded", "lookup:UR,shots=0+2,samples=2", length=10)
    assert sorted(figures(result).values()) == [2, 2]


def test_passages_have_them_too():
    (row,) = [
        row for row in kshot.evaluate("fts5", "handbook,limit=3,measures=AC_Recall@10").results if "category" not in row
    ]
    assert (row["metric"], row["n"]) == ("AC_Recall@10", 3)


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("lookup:UR,device=cpu", "lookup:UR,device=cpu: its setting device has no effect"),
        ("lookup:UR,seeds=1", "there is no option 'seeds'"),
        ("lookup:UR,samples=many", "the option 'samples' is 'many'; it must be a whole number"),
        ("handbook,method=rag", "its setting method is for a whole run"),
        (["lookup:UR,samples=2", "lookup:UR"], "two datasets of the run are called 'lookup:UR:10:sep|small|simple_rule'"),
    ],
)  # fmt: skip
def test_what_cannot_be(dataset, said):
    with pytest.raises(UsageError) as caught:
        kshot.evaluate("embedded" if "lookup" in str(dataset) else "fts5", dataset, length=10)
    assert said in str(caught.value)


def test_a_stop_text_has_its_escapes():
    source = source_of(r"lookup:UR,stop=\n+1\+1", settings_from({"length": 10, "samples": 1}))
    assert source.own(settings_from({})).stop == ("\n", "1+1")
    reads = set()
    assert list(source.rehearsals(settings_from({}).noting(reads)))
    assert "stop" not in reads, "its own goes before that of the run"
    assert "max_tokens" in reads

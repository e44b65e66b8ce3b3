"""The rule that a figure goes by stands beside its name wherever it is shown."""

import csv
import json
import re

import pytest

import kshot
from kshot.core.records import Generate, Generated, Likelihood, Scored
from kshot.core.visible import metric_label
from kshot.report.gates import step_summary
from tests.commands import kshot as command
from tests.datasets.fakes import Fake, choice

BARE = re.compile(r"\bAccuracy\b(?!\s+\(acc_| goes by)(?!=99)")
ROWS = [{"q": f"Well {at}?", "options": ["no", "yes indeed"], "target_idx": at % 2} for at in range(12)]


def likelihoods(right):
    def answer(request):
        return Scored(tuple(Likelihood(-1.0 if text.strip() == right else -9.0, 2) for text in request.continuations))

    return Fake(answer)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made = {"tokens": ("acc_token", "no"), "chars": ("acc_norm", "yes indeed"), "again": ("acc_norm", "no")}
    for name, (rule, right) in made.items():
        kshot.evaluate(likelihoods(right), choice(ROWS), out=folder / name, accuracy=rule, fsync="never")
    return folder


def test_a_label_has_the_rules_of_its_figures():
    assert metric_label({"metric": "EM"}) == "EM"
    assert metric_label({"metric": "Accuracy", "rule": "acc"}) == "Accuracy (acc)"
    compared = {"metric": "Accuracy", "rule": "acc", "run_rule": "acc_norm"}
    assert metric_label(compared, {"metric": "Accuracy", "rule": "acc"}) == "Accuracy (acc / acc_norm)"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "chars"),
        ("runs", "."),
        ("compare", "chars", "again"),
        ("compare", "tokens", "chars"),
        ("samples", "chars", "--limit", "1"),
        ("gate", "chars", "--fail-under", "Accuracy=99", "--fail-if-worse", "again"),
        ("export", "chars", "again", "--to", "markdown"),
        ("export", "chars", "again", "--to", "markdown", "--what", "comparisons"),
        ("export", "chars", "--to", "latex"),
    ],
)
def test_screens_and_texts_say_the_rule(runs, monkeypatch, capsys, arguments):
    monkeypatch.chdir(runs)
    done = command(capsys, *arguments)
    told = (done.out + done.err).replace("\\_", "_")
    assert "Accuracy (acc_norm" in told or "Accuracy (acc_token / acc_norm)" in told, told
    assert not BARE.findall(told), told


def test_files_say_the_rule(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    gates = ("--fail-under", "Accuracy=99", "--junit", "junit.xml", "--step-summary", "summary.md")
    command(capsys, "gate", "chars", *gates)
    command(capsys, "report", "chars", "again", "--out", "page.html")
    kshot.export("chars", to="hf", dataset_id="a/b", out="hub")
    for name in ("junit.xml", "summary.md", "page.html", *(runs / "hub").rglob("*.yaml")):
        told = (runs / name).read_text()
        assert "Accuracy (acc_norm)" in told, name
        text = re.sub(r"<script.*?</script>", "", told, flags=re.DOTALL)
        assert not BARE.findall(text), (name, text)
    kshot.export("chars", to="lmeval", out="lmeval")
    assert (
        "Accuracy (acc_norm),none"
        in json.loads(next(iter(runs.rglob("results_*.json"))).read_text())["results"]["mine"]
    )
    assert not BARE.findall(kshot.load(runs / "chars")._repr_html_())
    assert "Accuracy (acc_norm)" in step_summary(kshot.load(runs / "chars"), [])


def test_two_rules_in_a_comparison_are_noted(runs):
    found = kshot.compare(runs / "tokens", runs / "chars")
    (row,) = found.rows
    assert (row["metric"], row["rule"], row["run_rule"]) == ("Accuracy", "acc_token", "acc_norm")
    assert any("acc_token in" in note and "acc_norm in" in note for note in found.notes)


def test_summaries_keep_the_name_and_the_rule(runs):
    first = json.loads((runs / "chars" / "summary.json").read_text())["results"][0]
    assert (first["metric"], first["rule"]) == ("Accuracy", "acc_norm")


def test_rows_of_samples_have_the_rule(runs, tmp_path):
    kshot.export(runs / "tokens", runs / "chars", to="csv", what="samples", out=tmp_path / "samples.csv")
    rows = list(csv.DictReader((tmp_path / "samples.csv").open()))
    assert {(row["run"], row["rule"]) for row in rows} == {("tokens", "acc_token"), ("chars", "acc_norm")}
    assert {*kshot.load(runs / "chars").to_pandas("samples")["rule"]} == {"acc_norm"}


def letters(request):
    return Generated("A" if isinstance(request, Generate) else "")


def test_figures_with_and_without_a_rule_do_not_stand_under_the_rule_alone(runs, tmp_path, capsys):
    """Where replies decide there is no rule: next to an accuracy by likelihood, the name says so."""
    both = "Accuracy (acc_norm / no rule)"
    kshot.evaluate(Fake(letters), choice(ROWS), out=tmp_path / "replies", ranking_type="generation", fsync="never")
    pairs = [(runs / "chars", tmp_path / "replies"), (tmp_path / "replies", runs / "chars")]
    for first, second in pairs:
        found = kshot.compare(first, second)
        assert {metric_label(row) for row in found.rows} <= {both, "Accuracy (no rule / acc_norm)"}
        (note,) = [note for note in found.notes if "by no rule in" in note]
        assert note.endswith("--ranking-type chooses one way for both")
        kshot.export(first, second, to="markdown", out=tmp_path / "table.md")
        assert "no rule" in (tmp_path / "table.md").read_text()
        told = command(capsys, "compare", str(first), str(second)).out
        assert "no rule" in told
        assert "Accuracy (acc_norm)" not in told
    swept = kshot.evaluate(
        Fake(lambda request: letters(request) if isinstance(request, Generate) else scored(request)),
        choice(ROWS, accuracy="acc_norm"), ranking_type=["ppl_no_option", "generation"], out=tmp_path / "swept",
        fsync="never",
    )  # fmt: skip
    (row,) = swept.comparisons
    assert row["rule"] == "acc_norm / no rule"
    assert both in command(capsys, "show", str(tmp_path / "swept")).out


def scored(request):
    return Scored(tuple(Likelihood(-1.0, 2) for _ in request.continuations))


def test_a_result_names_the_rule_of_its_figure(runs):
    assert "Accuracy (acc_norm) 50" in repr(kshot.load(runs / "chars"))

"""What a run found, read back from its folder."""

import copy
import json
import re
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import kshot
from kshot.core.errors import RunError
from kshot.core.records import Answers, AnyOption, Gold, Option, Sample
from kshot.runs.data_digest import question_digest
from kshot.runs.record import RunRecord
from tests.datasets.fakes import generation, says

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"
ROWS = [{"q": "one", "target": "1"}, {"q": "two", "target": "2"}]


@pytest.fixture
def run(tmp_path):
    return kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run", limit=2)


def test_a_run_is_read_back_as_it_was(run):
    read = kshot.load(run.path)
    for part in ("results", "comparisons", "notes", "usage", "samples"):
        assert getattr(read, part) == getattr(run, part), part
    assert list(read.iter_samples()) == run.samples
    assert read.settings == json.loads((run.path / "spec.json").read_text())["identity"]
    assert read.settings["limit"] == 2


def test_a_run_says_in_one_line_what_it_is(run):
    assert repr(run) == f"<Result of {run.path}: 1 model, 1 task, EM 50>"
    failing = kshot.evaluate(
        [says("1"), lambda _: kshot.Failed("no", "no")], [generation(ROWS), "lookup:UR"], samples=2
    )
    line = repr(failing)
    assert re.fullmatch(r"<Result: 2 models, \d+ tasks, EM 50 on mine, …, \d+ failed>", line), line
    assert repr(RunRecord([], [])) == "<RunRecord: 0 models, 0 tasks>"


def test_a_run_without_a_folder_has_the_same_parts():
    found = kshot.evaluate(says("1"), generation(ROWS))
    assert found.settings["models"] == ["fake"]
    assert list(found.iter_samples()) == found.samples
    assert len(found.samples) == 2


@pytest.mark.parametrize("name", ["planets", "rag", "search", "seeds"])
def test_folders_of_early_versions_are_read(name):
    found = kshot.load(EARLY / name)
    assert found.results
    assert found.samples
    assert None not in found.settings.values()  # they held every default


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"results": {}}', '{"results": [1]}', '{"results": [{}]}',
        '{"results": [{"task": 1, "metric": "EM"}]}', '{"results": [{"task": "t", "metric": "EM", "value": "x"}]}',
        '{"results": [{"task": "t", "metric": "EM", "ci95": [1]}]}', '{"results": [], "notes": [1]}',
        '{"results": [], "usage": [{"model": "m"}]}',
        '{"results": [], "comparisons": [{"task": "t", "metric": "EM", "a": "x"}]}', "[" * 200 + "]" * 200,
    ],
)  # fmt: skip
def test_a_damaged_summary_is_one_message(run, text):
    (run.path / "summary.json").write_text(text)
    with pytest.raises(RunError, match=r"summary.json is damaged. kshot score"):
        kshot.load(run.path)


@pytest.mark.parametrize(
    "more",
    [
        {"n": True}, {"value": "50"}, {"model": None}, {"ci95": [1, "2"]}, {"bounds": [0]}, {"bounds": "ab"},
        {"category": 3}, {"kind": "lookup"}, {"kind": "passages"}, {"higher_is_better": 1}, {"sd": []}, {"rule": {}},
        {"value": 10**400}, {"ci95": [0, 10**400]}, {"n": -(10**400)},
    ],
)  # fmt: skip
def test_a_row_with_a_value_of_another_type_is_damage(run, more):
    summary = json.loads((run.path / "summary.json").read_text())
    summary["results"][0] |= more
    (run.path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match=r"summary.json is damaged"):
        kshot.load(run.path)


def test_a_run_that_has_not_ended_has_no_figures(run):
    (run.path / "summary.json").unlink()
    with pytest.raises(RunError, match="has not come to its end"):
        kshot.load(run.path)


def test_a_run_that_failed_says_why_where_its_figures_are_wanted(run):
    (run.path / "summary.json").unlink()
    spec = json.loads((run.path / "spec.json").read_text())
    spec["sessions"][-1] |= {"state": "failed", "why": "dataset quiz: no row"}
    (run.path / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(RunError, match=r"no figures yet \(its last session: dataset quiz: no row\)"):
        kshot.load(run.path)


def test_a_link_out_of_the_folder_is_refused(run, tmp_path):
    shutil.move(run.path / "summary.json", tmp_path / "elsewhere")
    (run.path / "summary.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="lies outside the folder"):
        kshot.load(run.path)


def test_the_digest_of_a_question_knows_neither_prompt_nor_id():
    row = {"q": "one", "gold": "1"}
    first = Sample("0", {"source": "Question: one"}, Answers(("1 a",)), row=row)
    other = Sample(
        "7", {"source": "one?"}, Answers((" 1  A",)), category="c", position=3, row=dict(reversed(row.items()))
    )
    assert question_digest(first) == question_digest(other)
    assert question_digest(first) != question_digest(Sample("0", first.fields, first.target, row={**row, "gold": "2"}))


def test_what_is_right_belongs_to_the_question_also_where_code_decides_it():
    row, choices = {"q": "one"}, ("red", "green", "blue")
    digests = [
        question_digest(Sample("0", {}, target, choices, row=row))
        for target in (
            Option(0),
            Option(1),
            AnyOption((0, 1)),
            AnyOption((1, 2)),
            Answers(("red",)),
            Answers(("red", "x")),
        )
    ]
    assert len(set(digests)) == 5  # the option "red" and the answer "red" are the same
    shuffled = Sample("0", {}, Option(2), ("green", "blue", "Red "), row=row)
    assert question_digest(shuffled) == digests[0]
    cleaned = [Sample("0", row, Gold(gold), row=row) for gold in ("1", "one")]
    assert question_digest(cleaned[0]) == question_digest(cleaned[1])  # a clean-up works on the gold of a config
    decided = [Sample("0", {"source": "?"}, Gold({"sum": gold}), row=row) for gold in (1, 2)]
    assert question_digest(decided[0]) != question_digest(decided[1])


class Opaque:
    """A value that shows nothing but its place in memory."""


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (np.int64(1), np.int64(2)), (np.array(["paris"]), np.array(["rome"])), (date(2026, 1, 1), date(2026, 1, 2)),
        (Decimal("1.0"), Decimal("2.0")), (Path("a"), Path("b")), (1j, 2j), (b"a", b"b"), ({1}, {2}),
    ],
)  # fmt: skip
def test_values_that_json_does_not_know_are_told_apart(value, other):
    digest, same, different = (
        question_digest(Sample("0", {}, row={"gold": each})) for each in (value, copy.deepcopy(value), other)
    )
    assert digest == same
    assert digest != different


def test_a_place_in_memory_is_no_part_of_a_question():
    assert question_digest(Sample("0", {}, row={"x": Opaque()})) == question_digest(
        Sample("0", {}, row={"x": Opaque()})
    )


def test_without_a_row_all_that_is_known_is_the_question():
    plain = Sample("0", {"q": "one"}, Option(0), ("a", "b"))
    same = Sample("9", {"q": "one"}, Option(0), ("a", "b"), "category")
    others = [
        Sample("0", {"q": "two"}, Option(0), ("a", "b")),
        Sample("0", {"q": "one"}, Option(1), ("a", "b")),
        Sample("0", {"q": "one"}, Option(0), ("a", "c")),
    ]
    assert question_digest(plain) == question_digest(same)
    assert len({question_digest(each) for each in (plain, *others)}) == 4


def test_two_prompts_of_one_dataset_have_the_same_questions():
    zero = kshot.evaluate(says("1"), generation(ROWS))
    other = kshot.evaluate(says("1"), generation(ROWS), system_prompt="Be brief.", model_type="chat")
    assert [row["question"] for row in zero.samples] == [row["question"] for row in other.samples]
    assert [row["prompt"] for row in zero.samples] != [row["prompt"] for row in other.samples]


def test_comparisons_of_earlier_runs_are_the_second_minus_the_first(run):
    """They were the first minus the second, and along the numbers of a sweep the larger value came first."""
    found = {"metric": "EM", "higher_is_better": True, "p_corrected": 0.01, "family": 1, "a_model": "m", "b_model": "m"}
    counts = {"wins": 7, "losses": 2, "ties": 1}
    models = {"task": "t", "a": "x", "b": "y", "difference": 5.0, "ci95": [1.0, 9.0], "ahead": "x", **counts, **found}
    sweep = models | {"sweep": "num_shots", "a_value": 5, "b_value": 0}
    path = run.path / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "comparisons": [models, sweep]}))
    between, along = kshot.load(run.path).comparisons
    names = ("a", "b", "difference", "ci95", "won", "lost", "tied", "ahead")
    assert [between[name] for name in names] == ["x", "y", -5.0, [-9.0, -1.0], 2, 7, 1, "x"]
    assert [along[name] for name in names] == ["y", "x", 5.0, [1.0, 9.0], 7, 2, 1, "x"]
    assert (along["a_value"], along["b_value"]) == (0, 5)
    assert "wins" not in between

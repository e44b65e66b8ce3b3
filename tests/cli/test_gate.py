"""Gates on the command line: exit codes, what is said where, the files for CI, and what must never pass."""

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import kshot as package
from tests.commands import kshot, kshot_process

EXAM = '''
from kshot import Em, Failed, Generate, Generated, GenerationDataset


class Exam(GenerationDataset):
    """Thirty questions, each with its number."""

    instruction = "Question {number}\\nAnswer:"
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [{"number": n, "field": "odd" if n % 2 else "even"} for n in range(int(dataset_path or 30))]
        self.example_data = []

    def format_instance(self, row):
        return {"number": row["number"], "target": "yes"}

    category_column = "field"


class Parts(Exam):
    """Two subsets, the second of which is hard."""

    categorized_subsets = {"all": ["easy", "hard"]}
    instruction = "{part} {number}\\nAnswer:"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        base = 0 if subset_name == "easy" else 100
        self.evaluation_data = [{"number": base + n, "part": "Question", "field": subset_name} for n in range(10)]
        self.example_data = []

    def format_instance(self, row):
        return {"number": row["number"], "part": row["part"], "target": "yes"}


class Pupil:
    """Knows the first questions, if they are asked in the way that it has learned; some it cannot answer."""

    name, answers = "pupil", (Generate,)

    def __init__(self, knows: int = 30, fails: int = 0) -> None:
        self.knows, self.fails, self.fingerprint = knows, fails, f"pupil {knows} {fails}"

    def serve(self, queue):
        for request in queue:
            text = request.prompt.text
            number = int("".join(filter(str.isdigit, text)))
            learned = self.knows if text.endswith("Answer:") else self.knows // 3
            if number < self.fails:
                yield request, Failed("broken", "no pencil")
            else:
                yield request, Generated("yes" if number < learned else "no")
'''


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Finished runs: one that is right, one with another prompt, one that fails, one in parts, one of two models."""
    place = tmp_path_factory.mktemp("gates")
    (place / "exam.py").write_text(EXAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, dataset, model, options in (
            ("good", "Exam", "Pupil", {}),
            ("near", "Exam", "Pupil,knows=28", {}),
            ("prompt", "Exam", "Pupil", {"instruction": "Question {number}\nReply:"}),
            ("failing", "Exam", "Pupil,fails=3", {}),
            ("silent", "Exam", "Pupil,fails=99", {}),
            ("parts", "Parts", "Pupil", {}),
        ):
            package.evaluate(f"exam.py:{model}", f"exam.py:{dataset}", out=f"runs/{name}", **options)
        (place / "folder.xml").mkdir()
        package.evaluate(["exam.py:Pupil", "exam.py:Pupil,knows=5"], "exam.py:Exam", out="runs/two")
    return place


@pytest.fixture
def at(runs, monkeypatch):
    """Work beside the finished runs, outside of GitHub."""
    monkeypatch.chdir(runs)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return runs


# ---- kshot gate ----


def test_a_run_that_is_good_enough_passes(at, capsys):
    done = kshot(
        capsys, "gate", "runs/good", "--fail-under", "EM=90", "--fail-on-failed", "--fail-if-worse", "runs/near"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.count("✓ passed") == 3
    assert "100.00 after 93.33" in done.out


def test_one_line_says_why_a_gate_fails(at, capsys):
    done = kshot(capsys, "gate", "runs/near", "--fail-under", "EM=95")
    assert (done.code, done.err) == (
        3,
        "kshot: gate: the check failed: exam EM on pupil,knows=28 is 93.33, below 95\n",
    )
    assert "✗ failed" in done.out


def test_a_lower_number_alone_is_not_worse(at, capsys):
    done = kshot(capsys, "gate", "runs/near", "--fail-if-worse", "runs/good")
    assert (done.code, done.err) == (0, "")
    assert "93.33 after 100.00, p 0.5\ncompared with good: 30 samples paired\n" in done.out


def test_a_prompt_change_that_makes_things_worse_stops_a_build(at, capsys):
    done = kshot(capsys, "gate", "runs/prompt", "--fail-if-worse", "runs/good")
    assert done.code == 3
    assert re.fullmatch(
        r"kshot: gate: the check failed: exam EM on prompt is worse than good: 33.33 after 100.00, p < 0.0001\n",
        done.err,
    )


def test_samples_that_failed_are_counted(at, capsys):
    done = kshot(capsys, "gate", "runs/failing", "--fail-on-failed", "--fail-if-worse", "runs/good", "--json")
    rows = {row["gate"]: row for row in json.loads(done.out)["gates"]}
    assert (done.code, rows["fail_on_failed"]["failed"], rows["fail_on_failed"]["ids"]) == (3, 3, ["0", "1", "2"])
    assert (rows["fail_if_worse"]["passed"], rows["fail_if_worse"]["n"]) == (True, 27)
    assert "(3 failed in the run)" in rows["fail_if_worse"]["reason"]
    assert "3 of 30 samples failed (0, 1, 2)" in done.err


@pytest.mark.parametrize("gate", [("--fail-under", "EM=0"), ("--fail-if-worse", "runs/good"), ("--fail-on-failed",)])
def test_a_run_without_answers_passes_no_gate(at, capsys, gate):
    done = kshot(capsys, "gate", "runs/silent", *gate)
    assert (done.code, len(done.err.splitlines())) == (3, 1)


def test_without_a_gate_that_fails_nothing_answered_is_its_own_code(at, capsys, tmp_path):
    shutil.copytree("runs/silent", tmp_path / "run")
    assert kshot(capsys, "score", tmp_path / "run", "-d", "exam.py:Exam", "--json").code == 1
    assert kshot(capsys, "score", tmp_path / "run", "-d", "exam.py:Exam", "--fail-on-failed").code == 3


def test_every_model_must_pass(at, capsys):
    done = kshot(capsys, "gate", "runs/two", "--fail-under", "EM=50")
    assert done.code == 3
    assert "1 of 2 checks failed: exam EM on pupil,knows=5 is 16.67" in done.err


def test_the_average_is_checked_and_a_subset_by_name(at, capsys):
    assert kshot(capsys, "gate", "runs/parts", "--fail-under", "EM=50").code == 0
    assert kshot(capsys, "gate", "runs/parts", "--fail-under", "parts:EM=51").code == 3
    done = kshot(capsys, "gate", "runs/parts", "--fail-under", "parts:hard:EM=50")
    assert (done.code, "parts:hard EM on pupil is 0.00" in done.err) == (3, True)


def test_a_model_without_baseline_is_told_everywhere(at, capsys, tmp_path):
    files = ("--junit", tmp_path / "j.xml", "--step-summary", tmp_path / "s.md")
    done = kshot(capsys, "gate", "runs/two", "--fail-if-worse", "runs/good", *files)
    assert (done.code, done.out.count("✓ passed")) == (0, 1)
    assert re.search(r"– skipped +EM not worse than good +exam · pupil,knows=5 +only the run has this", done.out)
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("2", "1", "0")
    assert "the check passed, 1 not compared" in (tmp_path / "s.md").read_text()
    shown = json.loads(kshot(capsys, "gate", "runs/two", "--fail-if-worse", "runs/good", "--json").out)
    assert (shown["passed"], [row["passed"] for row in shown["gates"]]) == (True, [True, None])
    assert (shown["gates"][1]["model"], shown["gates"][1]["lacks"]) == ("pupil,knows=5", "model")
    done = kshot(capsys, "gate", "runs/two", "--fail-if-worse", "runs/good", "--fail-if-worse", "runs/near")
    assert (done.code, "pupil,knows=5" in done.err) == (3, True)  # near has another model, with which both are compared


def test_a_model_that_only_the_baseline_has_is_told(at, capsys):
    shown = json.loads(kshot(capsys, "gate", "runs/good", "--fail-if-worse", "runs/two", "--json").out)
    assert [(row["passed"], row["model"], row.get("only")) for row in shown["gates"]] == [
        (True, "pupil", None),
        (None, "pupil,knows=5", "baseline"),
    ]


def test_tasks_that_one_side_has_are_told(at, capsys, tmp_path):
    package.evaluate("exam.py:Pupil", ["exam.py:Exam", "exam.py:Parts"], out=tmp_path / "more")
    more = tmp_path / "more"
    for run, base, side in ((more, "runs/good", "run"), ("runs/good", more, "baseline")):
        done = kshot(capsys, "gate", run, "--fail-if-worse", base, "--json")
        found = json.loads(done.out)
        left = [(row["task"], row["only"], row["lacks"]) for row in found["gates"] if row["passed"] is None]
        assert (done.code, [task for task, *_ in left][:2]) == (0, ["parts:easy", "parts:hard"])
        assert {rest for _, *rest in map(tuple, left) for rest in [tuple(rest)]} == {(side, "task")}
        assert any("parts:easy" in note for note in found["notes"])


def test_categories_are_checked_by_name_alone(at, capsys):
    done = kshot(capsys, "gate", "runs/prompt", "--fail-under", "exam[odd]:EM=40", "--json")
    (row,) = json.loads(done.out)["gates"]
    assert (done.code, row["task"], row["passed"]) == (3, "exam[odd]", False)


# ---- what must not pass ----


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (("--fail-under", "Accuracy=1"), "the run has no figure 'Accuracy'. It has: EM."),
        (("--fail-under", "em=1"), "It has: EM."),
        (("--fail-under", "other:EM=1"), "It has: EM."),
        (("--fail-under", "EM"), "METRIC=NUMBER"),
        (("--fail-under", "EM=nan"), "METRIC=NUMBER"),
        (("--fail-under", "EM=inf"), "METRIC=NUMBER"),
        (("--fail-under", ""), "METRIC=NUMBER"),
        (("--fail-if-worse", "runs/none"), "this is not a run folder"),
        (("--fail-if-worse", ""), "must be a run folder"),
        (("--fail-if-worse", "runs/good"), "the baseline is the run itself"),
        (("--fail-if-worse", "runs/../runs/good/."), "the baseline is the run itself"),
        (("--fail-if-worse", "runs/parts"), "no task in common"),
        (("--junit", "j.xml"), "no gate is named"),
        ((), "no gate is named"),
        (("--fail-on-failed", "--step-summary"), "GITHUB_STEP_SUMMARY is not set"),
        (("--fail-on-failed", "--step-summary", "exam.py"), "does not end in .md"),
        (("--fail-on-failed", "--junit", "runs/good/summary.json"), "does not end in .xml"),
        (("--fail-on-failed", "--junit", "folder.xml"), "is not a file"),
        (("--fail-on-failed", "--junit", ""), "is not a file"),
        (("--fail-on-failed", "--junit", "exam.py/j.xml"), "cannot be written"),
    ],
)
def test_what_makes_no_sense_is_wrong_input(at, capsys, gate, said):
    done = kshot(capsys, "gate", "runs/good", *gate)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert said in done.err


def test_other_questions_under_the_same_ids_are_no_baseline(at, capsys, tmp_path):
    base = changed(tmp_path, lambda row: row | {"question": f"other {row['id']}"} if row["id"] == "7" else row)
    done = kshot(capsys, "gate", "runs/good", "--fail-if-worse", base)
    assert (done.code, "ask other questions (ids: 7)" in done.err) == (2, True)


def test_missing_ids_are_told(at, capsys, tmp_path):
    shutil.copytree("runs/good", tmp_path / "all")
    package.evaluate("exam.py:Pupil", "exam.py:Exam", out=tmp_path / "some", limit=20)
    done = kshot(capsys, "gate", tmp_path / "some", "--fail-if-worse", tmp_path / "all", "--json")
    (row,) = json.loads(done.out)["gates"]
    assert (done.code, row["n"], row["only_baseline"], row["only_run"]) == (0, 20, 10, 0)
    assert "20 samples paired (10 only in the baseline)" in row["reason"]
    shown = kshot(capsys, "gate", tmp_path / "some", "--fail-if-worse", tmp_path / "all").out
    assert "compared with all: 20 samples paired; not paired: 10 only in the baseline\n" in shown


def changed(tmp_path, change):
    """A copy of the good run with other rows."""
    base = shutil.copytree("runs/good", tmp_path / "base")
    rows = [change(json.loads(line)) for line in (base / "samples.jsonl").read_text().splitlines()]
    (base / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return base


def test_a_run_of_an_earlier_kshot_must_be_scored_again_first(at, capsys, tmp_path):
    base = changed(tmp_path, lambda row: {name: value for name, value in row.items() if name != "question"})
    done = kshot(capsys, "gate", "runs/near", "--fail-if-worse", base)
    assert (done.code, "kshot score" in done.err) == (2, True)
    asked = kshot(
        capsys, "run", "-m", "exam.py:Pupil", "-d", "exam.py:Exam", "--out", tmp_path / "new", "--fail-if-worse", base
    )
    assert (asked.code, (tmp_path / "new").exists()) == (2, False)


def test_a_run_that_goes_on_is_neither_checked_nor_a_baseline(at, capsys, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    base = shutil.copytree("runs/good", tmp_path / "base")
    with (base / "journal.jsonl").open("a") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        for command in (("gate", base, "--fail-on-failed"), ("gate", "runs/near", "--fail-if-worse", base)):
            done = kshot(capsys, *command)
            assert (done.code, "another process is working" in done.err) == (2, True)
    assert kshot(capsys, "gate", base, "--fail-on-failed").code == 0
    (base / "summary.json").unlink()
    done = kshot(capsys, "gate", "runs/near", "--fail-if-worse", base)
    assert (done.code, "has not come to its end" in done.err) == (2, True)


def test_a_stopped_session_after_the_figures_is_not_checked(at, capsys, tmp_path):
    run = shutil.copytree("runs/good", tmp_path / "run")
    spec = json.loads((run / "spec.json").read_text())
    spec["sessions"].append({**spec["sessions"][-1], "state": "stopped"})
    (run / "spec.json").write_text(json.dumps(spec))
    done = kshot(capsys, "gate", run, "--fail-on-failed")
    assert (done.code, "stopped" in done.err) == (2, True)


def test_no_code_of_the_folder_is_imported(at, capsys, tmp_path, monkeypatch):
    shutil.copytree("runs", tmp_path / "runs")
    (tmp_path / "exam.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert kshot(capsys, "gate", "runs/good", "--fail-under", "EM=90", "--fail-if-worse", "runs/near").code == 0


def test_names_of_strangers_do_not_steer_the_terminal(at, capsys, tmp_path):
    run = shutil.copytree("runs/near", tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    for row in summary["results"]:
        row |= {"task": "a\x1b[2J\nkshot: all gates passed\u202e", "model": "[red]m[/red]\x07"}
    (run / "summary.json").write_text(json.dumps(summary))
    done = kshot(
        capsys, "gate", run, "--fail-under", "EM=95", "--junit", tmp_path / "j.xml", "--step-summary", tmp_path / "s.md"
    )
    assert (done.code, len(done.err.splitlines())) == (3, 1)
    for text in (done.out, done.err, (tmp_path / "j.xml").read_text(), (tmp_path / "s.md").read_text()):
        assert not set(text) & set("\x1b\x07\u202e")
        assert not any(line.startswith("kshot: all") for line in text.splitlines())


# ---- kshot run and kshot score ----


def run(capsys, out, *more, model="Pupil"):
    return kshot(capsys, "run", "-m", f"exam.py:{model}", "-d", "exam.py:Exam", "--out", out, *more)


def test_a_run_shows_and_stores_its_figures_before_a_gate_fails(at, capsys, tmp_path):
    done = run(capsys, tmp_path / "run", "--fail-under", "EM=95", "--fail-if-worse", "runs/good", model="Pupil,knows=9")
    assert done.code == 3
    assert done.out.index("30.00") < done.out.index("run folder:") < done.out.index("✗ failed")
    assert "2 of 2 checks failed" in done.err.splitlines()[-1]
    assert package.load(tmp_path / "run").results[-1]["value"] == 30
    again = run(capsys, tmp_path / "run", "--fail-under", "EM=25", model="Pupil,knows=9")  # resumed, with another gate
    assert again.code == 0


def test_json_stays_json_when_a_gate_fails(at, capsys, tmp_path):
    done = run(capsys, tmp_path / "run", "--json", "--fail-under", "EM=95", "--fail-on-failed", model="Pupil,knows=9")
    found = json.loads(done.out)
    assert (done.code, [row["passed"] for row in found["gates"]]) == (3, [False, True])
    assert {"gate", "passed", "reason", "task", "model", "metric", "value", "threshold"} <= found["gates"][0].keys()
    assert found["results"][-1]["value"] == 30
    assert json.loads(run(capsys, tmp_path / "run", "--json", model="Pupil,knows=9").out)["gates"] == []


def test_figures_are_shown_if_a_gate_cannot_be_decided(at, capsys, tmp_path):
    other = changed(tmp_path, lambda row: row | {"question": f"other {row['id']}"})
    done = run(capsys, tmp_path / "run", "--fail-if-worse", other)
    assert (done.code, "100.00" in done.out, "other questions" in done.err) == (2, True, True)
    done = run(capsys, tmp_path / "run", "--fail-if-worse", other, "--json")
    found = json.loads(done.out)
    assert (done.code, found["results"][-1]["value"]) == (2, 100)
    assert [(row["gate"], row["passed"]) for row in found["gates"]] == [(None, False)]


def error_in(path):
    """What the test case says that is an error; there is no other one beside figures."""
    (case,) = (case for case in ET.parse(path).iter("testcase") if case.find("error") is not None)
    return case.find("error").get("message")


def test_the_files_say_why_a_gate_cannot_be_decided(at, capsys, tmp_path):
    other = changed(tmp_path, lambda row: row | {"question": f"other {row['id']}"})
    files = ("--junit", tmp_path / "j.xml", "--step-summary", tmp_path / "s.md")
    for run_folder, gate, said in (
        ("runs/near", ("--fail-if-worse", other), "ask other questions"),
        ("runs/near", ("--fail-if-worse", "runs/none"), "not a run folder"),
        ("runs/near", ("--fail-under", "Accuracy=1"), "It has: EM."),
        ("runs/none", ("--fail-on-failed",), "not a run folder"),
    ):
        (tmp_path / "s.md").unlink(missing_ok=True)
        done = kshot(capsys, "gate", run_folder, *gate, *files, "--json")
        assert (done.code, said in done.err, said in error_in(tmp_path / "j.xml")) == (2, True, True)
        assert "❌ **a check could not be made**" in (tmp_path / "s.md").read_text()
        (row,) = json.loads(done.out)["gates"]
        assert (row["gate"], row["passed"], said in row["reason"]) == (None, False, True)
    for name, gate, said in (
        ("Pupil", ("--fail-if-worse", "runs/none"), "not a run folder"),
        ("Pupil", ("--fail-under", "Accuracy=1"), "It has: EM."),
        ("Nobody", (), "Nobody"),
    ):
        (tmp_path / "j.xml").unlink()
        assert run(capsys, tmp_path / "new", *gate, *files, model=name).code == 2
        assert said in error_in(tmp_path / "j.xml")


def test_a_gate_that_cannot_be_decided_hides_no_other(at, capsys):
    done = kshot(capsys, "gate", "runs/near", "--fail-if-worse", "runs/parts", "--fail-under", "EM=95")
    assert (done.code, "below 95" in done.err, "no task in common" in done.err) == (3, True, True)
    assert ("✗ failed" in done.out, "! error" in done.out) == (True, True)
    done = kshot(capsys, "gate", "runs/near", "--fail-if-worse", "runs/parts", "--fail-under", "EM=90")
    assert (done.code, "✓ passed" in done.out, len(done.err.splitlines())) == (2, True, 1)


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (("--fail-under", "Accuracy=1"), "It has: EM."),
        (("--fail-under", "EM=x"), "METRIC=NUMBER"),
        (("--fail-if-worse", "runs/none"), "not a run folder"),
        (("--step-summary",), "GITHUB_STEP_SUMMARY"),
    ],
)
def test_what_cannot_be_right_is_told_before_anything_is_asked(at, capsys, tmp_path, gate, said):
    done = run(capsys, tmp_path / "run", *gate)
    assert (done.code, said in done.err) == (2, True)
    journal = tmp_path / "run" / "journal.jsonl"
    assert not journal.exists() or not journal.read_bytes()


def test_the_run_itself_is_no_baseline_of_a_run(at, capsys, tmp_path):
    shutil.copytree("runs/good", tmp_path / "run")
    done = run(capsys, tmp_path / "run", "--fail-if-worse", tmp_path / "run")
    assert (done.code, "the baseline is the run itself" in done.err) == (2, True)


def test_a_limit_ends_a_run_before_its_gates(at, capsys, tmp_path):
    done = run(capsys, tmp_path / "run", "--max-requests", "3", "--fail-under", "EM=99", "--junit", tmp_path / "j.xml")
    assert (done.code, (tmp_path / "j.xml").exists()) == (4, False)


def test_score_has_the_same_gates(at, capsys, tmp_path):
    shutil.copytree("runs/near", tmp_path / "run")
    done = kshot(
        capsys, "score", tmp_path / "run", "-d", "exam.py:Exam", "--fail-under", "EM=95", "--fail-if-worse", "runs/good"
    )
    assert (done.code, "1 of 2 checks failed" in done.err) == (3, True)


def test_a_threshold_that_looks_like_a_share_of_one_is_noticed(at, capsys):
    done = kshot(capsys, "gate", "runs/good", "--fail-under", "EM=0.9")
    assert (done.code, "between 0 and 100" in done.err) == (0, True)


# ---- output that is lost ----


def test_a_reader_who_has_gone_does_not_let_a_gate_pass(at, tmp_path):
    command = [
        sys.executable,
        "-m",
        "kshot",
        "gate",
        "runs/near",
        "--fail-under",
        "EM=95",
        "--junit",
        str(tmp_path / "j.xml"),
    ]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(command, cwd=at, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    assert (done.returncode, "is 93.33, below 95" in done.stderr) == (3, True)
    assert (tmp_path / "j.xml").exists()


def full(path, *_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.mark.parametrize(("least", "code"), [("95", 3), ("90", 2)])
def test_a_full_disk_does_not_hide_a_gate(at, capsys, monkeypatch, tmp_path, least, code):
    file = tmp_path / "full.md"
    done = kshot(capsys, "gate", "runs/near", "--fail-under", f"EM={least}", "--step-summary", file)
    assert done.code == (3 if code == 3 else 0)
    monkeypatch.setattr("kshot.report.gates.regular_file", full)
    done = kshot(capsys, "gate", "runs/near", "--fail-under", f"EM={least}", "--step-summary", file)
    assert (done.code, f"{file}: it cannot be written" in done.err, "93.33" in done.out) == (code, True, True)


# ---- files for CI ----


def test_junit_and_summary_tell_the_same(at, capsys, tmp_path):
    (tmp_path / "summary.md").write_text("# before\n")
    done = kshot(
        *(capsys, "gate", "runs/prompt", "--fail-if-worse", "runs/good", "--fail-on-failed"),
        *("--junit", tmp_path / "reports" / "j.xml", "--step-summary", tmp_path / "summary.md"),
    )
    assert done.code == 3
    suite = ET.parse(tmp_path / "reports" / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "worse than good: 33.33 after 100.00" in suite.find("testcase/failure").text
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("# before\n## kshot: prompt\n\n❌ **1 of 2 checks failed**\n")
    assert "### Compared with runs/good" in text


def test_github_names_the_summary(at, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step_summary_1"))
    assert kshot(capsys, "gate", "runs/good", "--fail-on-failed", "--step-summary").code == 0
    assert kshot(capsys, "gate", "runs/near", "--fail-on-failed", "--step-summary").code == 0
    assert (tmp_path / "step_summary_1").read_text().count("## kshot: ") == 2


@pytest.mark.parametrize("name", ["spec.json", "journal.jsonl", "samples.jsonl", "summary.json"])
@pytest.mark.parametrize("way", ["{run}/{name}", "{run}/../run/./{name}", "{links}/{name}", "{links}.md"])
def test_no_report_is_written_into_the_files_of_a_run(at, capsys, tmp_path, monkeypatch, name, way):
    run, links = shutil.copytree("runs/near", tmp_path / "run"), tmp_path / "links"
    links.symlink_to(run)
    (tmp_path / "links.md").symlink_to(run / name)
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", way.format(run=run, links=links, name=name))
    done = kshot(capsys, "gate", "runs/good", "--fail-on-failed", "--step-summary")
    assert (done.code, done.out) == (2, "")
    assert "this is a file of a run. Choose another name." in done.err
    assert before == {path: path.read_bytes() for path in before}


def test_no_report_is_written_into_the_files_of_the_run_that_it_is_about(at, capsys, tmp_path, monkeypatch):
    """The folder is not there yet when the options are read."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "run" / "journal.jsonl"))
    done = run(capsys, tmp_path / "run", "--step-summary")
    assert (done.code, "this is a file of a run" in done.err) == (2, True)
    assert all(json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines())


def test_devices_and_pipes_are_no_reports(at, capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "null.md").symlink_to("/dev/null")
    for option in (("--junit", tmp_path / "pipe.xml"), ("--step-summary", tmp_path / "null.md")):
        done = kshot(capsys, "gate", "runs/good", "--fail-on-failed", *option)
        assert (done.code, done.out) == (2, "")
        assert "is not a file. Name a file." in done.err


def test_a_report_that_cannot_be_written_names_no_option_that_a_gate_lacks(at, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("kshot.core.durable.open_new", full)
    monkeypatch.setattr("kshot.report.gates.regular_file", full)
    for option in (("--junit", tmp_path / "j.xml"), ("--step-summary", tmp_path / "s.md")):
        done = kshot(capsys, "gate", "runs/good", "--fail-on-failed", *option)
        assert done.code == 2
        assert "Free some space, or name another file. The figures are in the run folder runs/good." in done.err


def test_baselines_whose_folders_have_the_same_name_are_told_apart(at, capsys, tmp_path):
    for place in ("old", "new"):
        shutil.copytree("runs/near", tmp_path / place / "main")
    more = [part for place in ("old", "new") for part in ("--fail-if-worse", tmp_path / place / "main")]
    done = kshot(capsys, "gate", "runs/prompt", *more, "--json", "--junit", tmp_path / "j.xml")
    rows = json.loads(done.out)["gates"]
    assert [row["baseline"] for row in rows] == ["old/main", "new/main"]
    names = [case.get("name") for case in ET.parse(tmp_path / "j.xml").getroot().iter("testcase")]
    assert names == ["EM not worse than old/main", "EM not worse than new/main"]
    assert "on prompt is worse than old/main" in done.err


def test_the_summary_of_a_finished_run_shows_what_failed(at, capsys, tmp_path):
    assert kshot(capsys, "gate", "runs/failing", "--fail-under", "EM=1", "--step-summary", tmp_path / "s.md").code == 0
    shown = (tmp_path / "s.md").read_text().partition("### Failed samples\n\n")[2]
    assert re.match(r"- exam on pupil,fails=3: 3 failed \(broken: no pencil\)", shown)


def test_files_are_written_without_gates_too(at, capsys, tmp_path):
    done = run(
        capsys,
        tmp_path / "run",
        "--junit",
        tmp_path / "j.xml",
        "--step-summary",
        tmp_path / "s.md",
        model="Pupil,fails=2",
    )
    assert done.code == 0
    assert [case.get("name") for case in ET.parse(tmp_path / "j.xml").iter("testcase")] == ["EM"]
    assert "### Failed samples" in (tmp_path / "s.md").read_text()


# ---- the examples ----

CI = Path(__file__).parents[2] / "examples" / "ci"
MAIN = "github.ref == 'refs/heads/main' && (success() || steps.gate.outputs.code == '2')"


class Builds:
    """What runs the files of CI systems: the shell lines for real, and a cache that lasts from build to build."""

    def __init__(self, folder, capsys):
        self.folder, self.cache, self._capsys = folder, folder / "cache", capsys
        shutil.copytree(CI.parent, folder / "examples")
        (folder / "bin").mkdir()
        self._program("kshot", f'exec "{sys.executable}" -m kshot "$@"')
        self._program("pip", "exit 0")

    def _program(self, name, line):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def shell(self, script):
        """Run lines as CI systems do; the run itself in this process, which takes less time."""
        words = shlex.split(script, comments=True)
        if words[:2] == ["kshot", "run"]:
            return kshot(self._capsys, *words[1:]).code
        output = self.folder / "output"
        output.write_text("")
        files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.folder / "summary")}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": path, **files},
            capture_output=True,
            timeout=300,
            check=False,
        )
        return done.returncode

    def begin(self, *, restore=True):
        """Make a workspace as a new build has it."""
        for name in ("runs", "baseline", "kshot-junit.xml"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if restore and self.cache.exists():
            shutil.copytree(self.cache, self.folder / "baseline")

    def save(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.folder / "baseline", self.cache)

    def on_github(self, steps, ref="refs/heads/main", event="push"):
        """Return the exit code of the first step that fails; the conditions are those that the file has, and no others."""
        self.begin(restore=False)
        code, outputs = 0, ""
        for step in steps:
            holds = {
                None: code == 0,
                "always()": True,
                "github.event_name != 'workflow_dispatch'": code == 0 and event != "workflow_dispatch",
                MAIN: ref == "refs/heads/main" and (code == 0 or "code=2" in outputs.splitlines()),
            }
            if not holds[step.get("if")]:
                continue
            action = step.get("uses", "").partition("@")[0]
            if action == "actions/cache/restore" and self.cache.exists():
                shutil.copytree(self.cache, self.folder / "baseline")
            elif action == "actions/cache/save":
                self.save()
            elif "run" in step:
                found = self.shell(step["run"])
                code = code or found
                outputs += (self.folder / "output").read_text() if step.get("id") == "gate" else ""
        return code

    def on_gitlab(self, script, variables=""):
        """Return the exit code of a job of the main branch; the cache is saved whatever it is."""
        self.begin()
        lines = [line for line in script if not line.startswith("kshot run")]
        assert [self.shell(line) for line in script if line not in lines] == [0]
        code = self.shell("\n".join([variables, *lines]))
        self.save()
        return code

    def fix_data(self):
        """Change an answer of the data, as a pull request may."""
        path = self.folder / "examples" / "planets.py"
        text = path.read_text()
        wrong, right = '("Which planet is the largest?", 3)', '("Which planet is the largest?", 0)'
        assert wrong in text
        path.write_text(text.replace(wrong, right))

    def questions(self):
        """The questions of the baseline that the next build gets."""
        return {json.loads(line)["question"] for line in (self.cache / "samples.jsonl").read_text().splitlines()}


@pytest.fixture
def builds(tmp_path, capsys, monkeypatch):
    if shutil.which("bash") is None:
        pytest.skip("CI systems run bash")
    monkeypatch.chdir(tmp_path)
    return Builds(tmp_path, capsys)


def ci_file(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CI / name).read_text())


def test_the_workflow_for_github_goes_on_after_the_data_change(builds):
    workflow = ci_file("github-actions.yml")
    steps = workflow["jobs"]["evaluate"]["steps"]
    assert workflow[True].keys() == {"pull_request", "push", "workflow_dispatch"}  # YAML reads "on" as true
    assert builds.on_github(steps) == 0
    before = builds.questions()
    builds.fix_data()
    assert builds.on_github(steps, ref="refs/pull/1/merge", event="pull_request") == 2
    assert "ask other questions" in (builds.folder / "kshot-junit.xml").read_text()
    assert builds.questions() == before  # a pull request does not replace the baseline
    assert builds.on_github(steps) == 2
    assert len(builds.questions() - before) == 1
    assert builds.on_github(steps) == 0
    assert "Compared with baseline" in (builds.folder / "summary").read_text()


def test_a_run_that_fails_its_gates_is_no_baseline_on_github(builds):
    steps = ci_file("github-actions.yml")["jobs"]["evaluate"]["steps"]
    strict = [step | {"run": step["run"].replace("=20", "=99")} if "run" in step else step for step in steps]
    assert (builds.on_github(strict), builds.cache.exists()) == (3, False)
    assert builds.on_github(steps, event="workflow_dispatch") == 0
    before = builds.questions()
    builds.fix_data()
    assert (builds.on_github(strict), builds.questions() == before) == (3, True)  # 3, although it cannot be compared
    assert (builds.on_github(steps, event="workflow_dispatch"), builds.questions() == before) == (0, False)


def test_the_file_for_gitlab_does_the_same(builds):
    job = ci_file("gitlab-ci.yml")["evaluate"]
    script, strict = job["script"], [line.replace("=20", "=99") for line in job["script"]]
    assert set(re.findall(r"--junit (\S+)", "\n".join(script))) == {job["artifacts"]["reports"]["junit"]}
    assert job["cache"]["when"] == "always"
    steps = "\n".join(step.get("run", "") for step in ci_file("github-actions.yml")["jobs"]["evaluate"]["steps"])
    for line in re.findall(r"kshot (?:run|gate) .*", "\n".join(script)):
        assert line in steps.replace(" --step-summary", "")
    assert builds.on_gitlab(script) == 0
    before = builds.questions()
    builds.fix_data()
    assert (builds.on_gitlab(strict), builds.questions() == before) == (3, True)
    assert (builds.on_gitlab(script), builds.questions() == before) == (2, False)
    assert builds.on_gitlab(script) == 0
    assert builds.on_gitlab(script, "NEW_BASELINE=yes") == 0


def test_the_page_shows_what_happens(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
    commands = re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1].splitlines()
    _, second, third = (kshot(capsys, *shlex.split(line, comments=True)[1:]) for line in commands)
    assert (second.code, "p 0.25\n" in second.out) == (0, True)
    shown = [line.rstrip() for line in (*third.out.splitlines(), *third.err.splitlines())]
    for line in re.search(r"```text\n(.*?)```", page, re.DOTALL)[1].splitlines():
        assert line in shown
    rows = package.compare("runs/main", "runs/two").rows + package.compare("runs/main", "runs/one").rows
    assert [(row["won"], row["lost"], row["n"]) for row in rows] == [(0, 3, 50), (0, 16, 50)]


# ---- Python ----


def test_python_has_the_same_gates(at):
    near = package.load("runs/near")
    rows = near.check(fail_under={"EM": 90}, fail_if_worse="runs/good", fail_on_failed=True)
    assert [row["gate"] for row in rows] == ["fail_under", "fail_if_worse", "fail_on_failed"]
    with pytest.raises(package.GateFailed, match="below 95") as failed:
        near.check(fail_under=["EM=95", "EM=10"])
    assert [row["passed"] for row in failed.value.gates] == [False, True]
    with pytest.raises(package.KshotError, match="no gate"):
        near.check()


def test_results_in_memory_have_gates_too(at):
    before = package.evaluate("exam.py:Pupil", "exam.py:Exam")
    after = package.evaluate("exam.py:Pupil", "exam.py:Exam", instruction="Question {number}\nReply:")
    with pytest.raises(package.GateFailed, match=r"EM on this run is worse than the baseline: 33.33 after 100.00"):
        after.check(fail_if_worse=before)
    assert before.check(fail_if_worse=after, fail_on_failed=True)
    with pytest.raises(package.KshotError, match="the run itself"):
        after.check(fail_if_worse=after)
    other = package.evaluate("exam.py:Pupil", "exam.py:Parts")
    with pytest.raises(package.KshotError, match="the baseline has parts:easy, parts:hard; this run has exam"):
        after.check(fail_if_worse=other)


def test_python_tells_what_was_not_compared(at):
    with warnings.catch_warnings(record=True):
        *_, row = package.load("runs/two").check(fail_if_worse="runs/good")
    assert (row["passed"], row["model"], row["lacks"]) == (None, "pupil,knows=5", "model")
    with pytest.warns(UserWarning, match="between 0 and 100"):
        package.load("runs/good").check(fail_under={"EM": 0.9})
    with pytest.raises(package.KshotError, match="the run itself"):
        package.load("runs/good").check(fail_if_worse=package.load("runs/good"))


def test_help_says_what_the_gates_are(capsys):
    for command in ("run", "score", "gate"):
        shown = kshot(capsys, command, "--help").out
        assert {"--fail-under", "--fail-if-worse", "--fail-on-failed", "--junit", "--step-summary"} <= set(
            re.findall(r"--[a-z-]+", shown)
        )


def test_a_gate_is_a_command_of_its_own(at):
    done = kshot_process("gate", "runs/near", "--fail-under", "EM=95", cwd=at)
    assert (done.code, done.err.startswith("kshot: gate: ")) == (3, True)

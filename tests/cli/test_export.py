"""``kshot export``: every format of every kind of run, what is printed, what is refused."""

import csv
import io
import json
import shutil
from itertools import combinations
from pathlib import Path

import pytest

from kshot import Generated, evaluate
from kshot.core.export_formats import FORMATS
from kshot.report.exports.columns import Columns
from tests.commands import kshot
from tests.finished_runs import Item, Points, Replies, Right, finished, task
from tests.lacking import lack

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"
HOSTILE = "=1+1 | \\x{y} $z$ & # % _ ~ ^ \x1b[31m\n\u202e"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of the same questions, 0-shot and 5-shot so to say, and one with names that a stranger chose."""
    folder = tmp_path_factory.mktemp("made")
    zero = {str(at): Item(100 if at < 8 else 0, f"{at}?", "red" if at % 2 else "blue") for at in range(20)}
    five = {key: item._replace(score=100 if int(key) < 19 else None) for key, item in zero.items()}
    finished(folder / "zero", task("quiz", zero), task("essay", {"a": Item(31.25)}, Points()), model="m")
    finished(folder / "five", task("quiz", five), task("essay", {"a": Item(50)}, Points()), model="m")
    odd = {f"{HOSTILE}{at}": Item(100, HOSTILE, HOSTILE) for at in range(2)}
    finished(folder / "odd", task(f"t{HOSTILE}", odd, Right()), model="strange")
    for name in ("summary.json", "samples.jsonl"):  # kshot takes no such name of a model
        text = (folder / "odd" / name).read_text()
        (folder / "odd" / name).write_text(text.replace('"strange"', json.dumps(f"m{HOSTILE}")))
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def results_of(run):
    return json.loads(Path(run, "summary.json").read_text())["results"]


def refused(capsys, *words):
    before = sorted(Path.cwd().rglob("*"))
    done = kshot(capsys, "export", *words)
    assert (done.code, done.out) == (2, "")
    assert "fault in kshot" not in done.err
    assert sorted(Path.cwd().rglob("*")) == before
    return done.err


def test_csv_has_the_figures_of_the_summary(here, capsys):
    done = kshot(capsys, "export", "zero", "five", "--to", "csv")
    assert (done.code, done.err) == (0, "")
    expected = [("zero", row) for row in results_of("zero")] + [("five", row) for row in results_of("five")]
    found = read_csv(done.out)
    assert [row["run"] for row in found] == [run for run, _ in expected]
    for row, (_, result) in zip(found, expected, strict=True):
        assert (row["task"], row["metric"]) == (result["task"], result["metric"])
        assert float(row["value"]) == result["value"]
        assert [float(row["ci95_low"]), float(row["ci95_high"])] == result["ci95"]
        assert (int(row["n"]), int(row["failed"])) == (result["n"], result["failed"])


def test_samples_are_flat_and_failures_told(here, capsys):
    done = kshot(capsys, "export", "five", "--to", "csv", "--what", "samples", "--out", "s.csv")
    assert (done.code, done.out) == (0, "s.csv\n")
    rows = [row for row in read_csv(Path("s.csv").read_text()) if row["task"] == "quiz"]
    assert [row["score_Right"] for row in rows] == ["100.0"] * 19 + [""]
    assert [row["failed"] for row in rows] == [""] * 19 + ["timeout: no answer"]
    assert rows[0]["response"] == rows[0]["answer"] == "100"
    assert {"prompt", "target", "category", "question", "id", "model"} <= rows[0].keys()


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("what", ["results", "samples"])
def test_parquet_and_csv_read_back_equal(here, capsys, what):
    import pyarrow.parquet as pq

    for run in ("zero", "odd"):
        assert kshot(capsys, "export", run, "--to", "parquet", "--what", what).out == f"{run}-{what}.parquet\n"
        assert kshot(capsys, "export", run, "--to", "csv", "--what", what, "--raw", "--out", "a.csv").code == 0
        stored = pq.read_table(f"{run}-{what}.parquet").to_pylist()
        with Path("a.csv").open(newline="", encoding="utf-8") as file:
            texts = list(csv.DictReader(file))
        assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in stored] == texts
        if what == "samples":
            rows = [json.loads(line) for line in Path(run, "samples.jsonl").read_text().splitlines()]
            assert [row["prompt"] for row in stored] == [row["prompt"] for row in rows]
            assert [row["id"] for row in stored] == [row["id"] for row in rows]


def test_two_runs_side_by_side_for_a_paper(here, capsys):
    done = kshot(capsys, "export", "zero", "five", "--to", "latex")
    assert (done.code, done.err) == (0, "")
    quiz = next(line for line in done.out.splitlines() if line.startswith("quiz & "))
    assert quiz.split(" & ")[:4] == ["quiz", "Right", "20 / 19", "0 / 1"]
    assert r"& 40.0 &" in quiz
    assert r"& 100.0 &" in quiz  # not bold: the test is on 19 questions, and the 40.0 is of 20
    assert "Not all systems answered the same samples of quiz[red] by Right, quiz by Right, so" in done.out
    essay = next(line for line in done.out.splitlines() if line.startswith("essay"))
    assert "textbf" not in essay  # 50 is more than 31.2, but one sample shows nothing
    assert r"\multicolumn{2}{c}{zero} & \multicolumn{2}{c}{five}" in done.out
    table = kshot(capsys, "export", "zero", "five", "--to", "markdown").out
    assert bold_cells(table) == []
    assert "No figure is known to be ahead of all others by a paired test" in table


def scored(right, questions, failed=()):
    """Items of some questions, of which some are answered right, and some fail."""
    return {str(at): Item(None if at in failed else 100 * (at in right), f"{at}?") for at in questions}


@pytest.mark.parametrize(
    ("one", "other", "ahead", "bold"),
    [
        # on the 50 that both have, the second is ahead with 44 % to 0 %; on all, the first has more
        (scored(range(50, 300), range(300)), scored(range(22), range(50)), "other", []),
        (scored(range(22), range(50)), scored(range(50, 300), range(300)), "one", []),
        (
            scored((), range(20), failed=[3]),
            scored(range(19), range(20), failed=[4]),
            "other",
            [],
        ),  # 19 each, 18 in common
        (scored((), range(20), failed=[3]), scored(range(20), range(20), failed=[3]), "other", [("quiz", "other")]),
        (scored((), range(20)), scored(range(19), range(20)), "other", [("quiz", "other")]),
    ],
    ids=["more first", "more second", "other failures", "same failures", "all"],
)
def test_bold_needs_figures_of_the_samples_that_were_compared(tmp_path, monkeypatch, capsys, one, other, ahead, bold):
    monkeypatch.chdir(tmp_path)
    for name, items in (("one", one), ("other", other)):
        finished(name, task("quiz", items))
    table = kshot(capsys, "export", "one", "other", "--to", "markdown").out
    assert bold_cells(table) == bold
    assert ("Not all systems answered the same samples of quiz, so" in table) is not bool(bold)
    rows = read_csv(kshot(capsys, "export", "one", "other", "--to", "csv", "--what", "comparisons").out)
    assert [row["ahead"] for row in rows] == [ahead]  # the test itself says so, of the samples that it has


def test_comparisons_of_runs(here, capsys):
    done = kshot(capsys, "export", "zero", "five", "--to", "csv", "--what", "comparisons")
    quiz = next(row for row in read_csv(done.out) if row["task"] == "quiz")
    assert (quiz["a"], quiz["b"], quiz["ahead"], quiz["n"]) == ("zero", "five", "five", "19")
    found = json.loads(kshot(capsys, "compare", "zero", "five", "--json").out)["rows"]
    expected = next(row for row in found if row["task"] == "quiz")
    assert float(quiz["difference"]) == expected["difference"]
    assert float(quiz["p_corrected"]) == expected["p_corrected"]
    table = kshot(capsys, "export", "zero", "five", "--to", "markdown", "--what", "comparisons").out
    assert "| zero  | five" in table
    assert "there are no comparisons" in refused(capsys, "zero", "--to", "csv", "--what", "comparisons")


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    """Two runs of the same two models: the second model of the second run is ahead of all others, on one colour."""
    folder = tmp_path_factory.mktemp("systems")
    questions = {str(at): Item(0, f"{at}?", "red" if at % 2 else "blue") for at in range(40)}
    for name, red in (("one", {"a": 0, "b": 4}), ("two", {"a": 4, "b": 20})):
        models = [_Answers(model, {str(2 * at + 1) for at in range(count)}) for model, count in red.items()]
        evaluate(models, task("quiz", questions), out=folder / name, fsync="never")
    return folder


class _Answers(Replies):
    """Gives the right answers to some questions."""

    def __init__(self, name, right):
        super().__init__(name)
        self._right = right

    def serve(self, queue):
        for request in queue:
            yield request, Generated("100" if request.prompt.text.split()[1] in self._right else "0")


def bold_cells(table):
    """The bold cells of a Markdown table: its task and its system."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    return [(line[0], name) for line in lines for name, cell in zip(lines[0], line, strict=True) if "**" in cell]


def test_every_two_systems_of_a_table_are_compared(systems, monkeypatch, capsys):
    monkeypatch.chdir(systems)
    done = kshot(capsys, "export", "one", "two", "--to", "markdown")
    assert (done.code, done.err) == (0, "")
    assert bold_cells(done.out) == [("quiz\\[red\\]", "two · b"), ("quiz", "two · b")]
    assert "corrected for 6 comparisons, on categories for 12)" in done.out
    rows = read_csv(kshot(capsys, "export", "one", "two", "--to", "csv", "--what", "comparisons").out)
    names = ["one · a", "one · b", "two · a", "two · b"]
    assert [(row["a"], row["b"]) for row in rows if not row["category"]] == list(combinations(names, 2))
    assert {row["ahead"] for row in rows if row["category"] == "red" and "two · b" in row["b"]} == {"two · b"}
    assert len(rows) == 18


def test_models_of_one_run_are_compared_by_category_too(systems, monkeypatch, capsys):
    monkeypatch.chdir(systems)
    table = kshot(capsys, "export", "two", "--to", "markdown").out
    assert bold_cells(table) == [("quiz\\[red\\]", "b"), ("quiz", "b")]
    rows = read_csv(kshot(capsys, "export", "two", "--to", "csv", "--what", "comparisons").out)
    whole, blue, red = rows
    assert (whole["category"], blue["category"], red["category"]) == ("", "blue", "red")
    for row in (whole, red):  # the order of the models is that of summary.json
        assert (row["a"], row["b"], row["ahead"]) == ("a", "b", "b")
        assert float(row["difference"]) > 0
    assert (red["won"], red["lost"], red["a_value"], red["b_value"]) == ("16", "0", "20.0", "100.0")
    assert float(red["difference"]) == 80.0
    assert 0 < float(red["ci95_low"]) < 80.0 < float(red["ci95_high"])
    paper = kshot(capsys, "export", "two", "--to", "latex", "--what", "comparisons").out
    assert r"quiz[red] & a & b & 20 &" in paper


def test_a_run_that_shares_nothing_leaves_the_others_compared(systems, made, monkeypatch, capsys):
    monkeypatch.chdir(systems)
    done = kshot(capsys, "export", "one", "two", made / "odd", "--to", "markdown")
    assert "odd has nothing in common with the other runs" in done.err
    assert ("quiz", "two · b") in bold_cells(done.out)


def test_captions_labels_and_no_intervals(here, capsys):
    done = kshot(capsys, "export", "zero", "--to", "latex")
    assert r"\label{tab:zero-results}" in done.out
    assert (
        r"\label{tab:zero-comparisons}"
        in kshot(capsys, "export", "zero", "five", "--to", "latex", "--what", "comparisons").out
    )
    words = ("--label", "tab:main", "--caption", "All of it", "--no-intervals")
    paper = kshot(capsys, "export", "zero", "--to", "latex", *words).out
    assert r"\caption{All of it.}\label{tab:main}" in paper
    assert "scriptsize" not in paper
    assert kshot(capsys, "export", "zero", "--to", "markdown", *words[2:]).out.startswith("All of it\n\n")


def test_runs_that_cannot_be_compared_still_stand_side_by_side(here, capsys):
    done = kshot(capsys, "export", "zero", "odd", "--to", "markdown")
    assert done.code == 0
    assert "the runs are not compared" in done.err
    assert "quiz" in done.out


@pytest.mark.parametrize("name", ["planets", "rag", "search", "seeds"])
@pytest.mark.parametrize(
    "to", ["csv", pytest.param("parquet", marks=pytest.mark.needs("pyarrow")), "markdown", "latex"]
)
def test_folders_of_earlier_versions(name, to, tmp_path, capsys):
    parts = ("results", "samples") if to in {"csv", "parquet"} else ("results",)
    for what in parts:
        done = kshot(capsys, "export", EARLY / name, "--to", to, "--what", what, "--out", tmp_path / "file")
        assert done.code == 0, done.err
        assert (tmp_path / "file").stat().st_size > 100


@pytest.mark.needs("pyarrow")
def test_hostile_names_in_every_format(here, capsys):
    for to in ("csv", "parquet", "markdown", "latex", "hf"):  # test_inspect.py has the sixth: it takes long to import
        more = ("--dataset-id", "a/b") if to == "hf" else ()
        for out in ((), ("--out", f"out-{to}")):
            done = kshot(capsys, "export", "odd", "--to", to, *more, *out)
            assert done.code == 0, done.err
            assert not set("\x1b\u202e") & set(done.out + done.err)
    inside = {path.resolve() for path in here.rglob("*")}
    assert all(path.is_relative_to(here) for path in inside)
    assert not [path for path in inside if path.name.endswith(".draft")]


def test_a_file_is_replaced_as_a_whole_and_runs_are_spared(here, capsys):
    Path("t.csv").write_text("old")
    Path("link.csv").symlink_to("t.csv")
    assert kshot(capsys, "export", "zero", "--to", "csv", "--out", "link.csv").code == 0
    assert Path("t.csv").read_text() == "old"  # nothing is written through a link
    Path("linked").symlink_to("five")
    for out in ("zero/spec.json", "zero/../zero/summary.json", "linked/samples.jsonl", "five/journal.jsonl"):
        assert "a file of a run" in refused(capsys, "zero", "--to", "csv", "--out", out)
    assert "cannot be written" in refused(capsys, "zero", "--to", "csv", "--out", "five")
    damaged = Path("zero/samples.jsonl").read_text()[:-9]
    Path("zero/samples.jsonl").write_text(damaged)
    Path("s.csv").write_text("old")
    assert "this line is damaged" in refused(capsys, "zero", "--to", "csv", "--what", "samples", "--out", "s.csv")
    assert Path("s.csv").read_text() == "old"


@pytest.mark.parametrize(
    "words",
    [
        ("csv", "--what", "samples"),
        pytest.param(("parquet", "--what", "samples"), marks=pytest.mark.needs("pyarrow")),
    ],
    ids=lambda words: words[0],
)
def test_samples_that_are_not_those_of_the_figures_are_refused(here, capsys, words):
    lines = Path("zero/samples.jsonl").read_text().splitlines(keepends=True)
    Path("zero/samples.jsonl").write_text("".join(lines[:-1]))
    assert "disagree about Points of essay on m" in refused(capsys, "zero", "--to", *words)


def end_session(run, state):
    spec = json.loads(Path(run, "spec.json").read_text())
    spec["sessions"][-1]["state"] = state
    Path(run, "spec.json").write_text(json.dumps(spec))


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (("zero", "five"), ("--to", "csv")),
        (("zero", "five"), ("--to", "markdown")),
        (("zero",), ("--to", "hf", "--dataset-id", "quiz=a/b:q", "--dataset-id", "essay=a/b:e")),
    ],
)
def test_figures_that_are_older_than_the_last_session_are_told(here, capsys, runs, words):
    assert kshot(capsys, "export", *runs, *words).err == ""
    for state in ("stopped", "failed", "running"):
        end_session("zero", state)
        done = kshot(capsys, "export", *runs, *words)
        assert done.code == 0
        told = f"zero: its latest session did not come to its end ({state!r}), so its figures are older"
        assert [line for line in done.err.splitlines() if told in line] == done.err.splitlines() != []
    assert told in " ".join(json.loads(kshot(capsys, "compare", "zero", "five", "--json").out)["notes"])
    assert "so its figures are older" in " ".join(kshot(capsys, "compare", "zero", "five").out.split())


@pytest.mark.parametrize("to", [to for to in FORMATS if to not in {"trec", "inspect"}])
def test_a_run_without_figures_is_refused_in_every_format(here, capsys, to):
    Path("five/summary.json").write_text('{"results": [], "notes": []}')
    runs = ("five",) if to in {"hf", "lmeval"} else ("zero", "five")
    assert "five: the run has no figures" in refused(capsys, *runs, "--to", to)


def test_the_hub_knows_the_datasets_of_kshot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    for split in ("test", "train"):
        choices = {"text": ["yes", "no"], "label": ["A", "B"]}
        Path(f"rows/{split}.jsonl").write_text(json.dumps({"question": "Wet?", "choices": choices, "answerKey": "A"}))
    run = ("run", "-m", "embedded", "-d", "arc:ARC-Easy", "--dataset-path", "rows", "--out", "run")
    assert kshot(capsys, *run).code == 0
    assert "unknown for arc:ARC-Easy" in refused(capsys, "run", "--to", "hf")  # the rows may be anybody's
    spec = json.loads(Path("run/spec.json").read_text())
    del spec["identity"]["dataset_path"]
    Path("run/spec.json").write_text(json.dumps(spec))
    assert kshot(capsys, "export", "run", "--to", "hf").out == "run-hf/.eval_results/run.yaml\n"
    assert 'id: "allenai/ai2_arc"\n    task_id: "ARC-Easy"' in Path("run-hf/.eval_results/run.yaml").read_text()
    spec["identity"]["datasets"] = ["evil.py:Arc", "evil"]  # a folder of a stranger names code
    Path("run/spec.json").write_text(json.dumps(spec))
    Path("evil.py").write_text("open('imported', 'w')")
    assert "unknown for arc:ARC-Easy" in refused(capsys, "run", "--to", "hf")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("zero", "five", "--to", "inspect"), "--to inspect takes one run"),
        (("zero", "five", "--to", "trec"), "--to trec takes one run"),
        (("zero", "five", "--to", "lmeval"), "--to lmeval takes one run"),
        (("zero", "--to", "markdown", "--raw"), "--raw is for --to csv"),
        (("zero", "--to", "csv", "--raw"), "--raw needs --out"),
        (("zero", "--to", "csv", "--trust", "a.py"), "--trust is for --to trec"),
        (("zero", "--to", "csv", "--dataset-id", "a/b"), "--dataset-id is for --to hf"),
        (("zero", "--to", "hf", "--what", "samples"), "--what is for --to csv"),
        (("zero", "--to", "latex", "--what", "samples"), "too long for a table"),
        (("zero", "--to", "csv", "--out", ""), "--out is empty"),
        (("zero", "--to", "csv", "--label", "x"), "--label is for --to latex"),
        (("zero", "--to", "latex", "--label", "a b"), "letters, digits"),
        (("zero", "--to", "latex", "--label", ""), "--label is empty"),
        (("zero", "--to", "csv", "--caption", "x"), "--caption is for --to markdown, latex"),
        (("zero", "--to", "csv", "--no-intervals"), "--no-intervals is for --to markdown, latex"),
        (("zero", "--to", "hf"), "unknown for quiz, essay"),
        (("zero", "--to", "trec"), "searched no passages"),
        (("nowhere", "--to", "csv"), "not a run folder"),
        (("zero", "--to", "lmeval", "--out", "zero"), "zero: this is a run folder. Choose another folder."),
        (("zero", "--to", "inspect", "--out", "five/../zero/"), "this is a run folder"),
        (("zero",), "--to"),
        (("zero", "--to", "xml"), "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_refused(here, capsys, words, message):
    assert message in refused(capsys, *words)


@pytest.mark.parametrize("to", sorted(set(FORMATS) - {"trec"}))
def test_a_run_that_is_not_finished(here, capsys, to):
    Path("zero/summary.json").unlink()
    assert "has not come to its end" in refused(capsys, "zero", "--to", to)


@pytest.mark.parametrize(("to", "package"), [("parquet", "pyarrow"), ("inspect", "inspect-ai")])
def test_a_missing_package_is_told_with_its_extra(here, capsys, monkeypatch, to, package):
    lack(monkeypatch, package)
    message = refused(capsys, "zero", "--to", to)
    assert f"--to {to} needs the package '{package}'" in message
    assert f"pip install 'kshot[{to}]'" in message


def test_rankings_as_trec_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert kshot(capsys, "run", "-d", "handbook", "-m", "fts5", "--limit", "3", "--out", "run").code == 0
    done = kshot(capsys, "export", "run", "--to", "trec")
    assert done.code == 0, done.err
    alias = kshot(capsys, "passages", "export", "run", "other")
    assert alias.out == done.out.replace("run-trec", "other")
    names = [Path(line).relative_to("run-trec") for line in done.out.splitlines()]
    assert [(tmp_path / "run-trec" / name).read_bytes() for name in names] == [
        (tmp_path / "other" / name).read_bytes() for name in names
    ]
    table = kshot(capsys, "export", "run", "--to", "markdown").out
    assert "AC_MRR@10" in table


def test_memory_does_not_grow_with_the_samples(monkeypatch):
    """Rows are read twice, one at a time: no list of them is made."""
    alive, most = set(), 0

    class Row(dict):
        def __init__(self, at):
            super().__init__(id=str(at), value=1.0)
            alive.add(at)
            self.at = at

        def __del__(self):
            alive.discard(self.at)

    for _ in Columns(lambda: map(Row, range(500))).values():
        most = max(most, len(alive))
    assert most <= 2

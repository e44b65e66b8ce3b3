"""What people do after the number, as a new user would, by commands alone."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.commands import kshot

QUIZ = '''
from kshot import Em, GenerationDataset

TOPICS = ["algebra", "botany", "chess", "dance", "economy", "film", "geology"]


class Quiz(GenerationDataset):
    """Sums of small numbers, in seven topics; the instruction may be changed."""

    instruction = "{{question}}"
    evaluation_set = "test"
    category_column = "topic"
    metrics = [Em()]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [
            {"question": f"What is {n} + {n % 5}?", "topic": TOPICS[n % 7], "sum": n + n % 5} for n in range(84)
        ]
        self.example_data = []

    def format_instance(self, row):
        return {"question": row["question"], "target": str(row["sum"])}
'''

MODEL = '''
import re

from kshot import Failed, Generate, Generated


class Calculator:
    """Adds, and knows some topics badly; with "roughly" in its prompt it rounds down to tens."""

    name, fingerprint, answers = "calculator", "calculator 1", (Generate,)

    def serve(self, queue):
        for request in queue:
            a, b = map(int, re.findall(r"\\d+", request.prompt.text)[:2])
            if a in (10, 20, 30):
                yield request, Failed("overloaded", f"the calculator is too hot for {a}", retryable=False)
                continue
            wrong = a % 7 >= 5 or (a % 7 >= 2 and a % 4 == 0)
            found = a + b + wrong
            if "roughly" in request.prompt.text:
                found -= found % 10
            yield request, Generated(str(found))
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("quiz.py").write_text(QUIZ)
    Path("calculator.py").write_text(MODEL)


def run(capsys, out, *more):
    return kshot(capsys, "run", "-m", "calculator.py:Calculator", "-d", "quiz.py:Quiz", "--out", out, *more)


def rows(folder):
    return [json.loads(line) for line in (Path(folder) / "samples.jsonl").read_text().splitlines()]


def test_find_the_five_worst_categories(here, capsys):
    assert run(capsys, "run").code == 0
    scores = {}
    for row in rows("run"):
        if "failed" not in row:
            scores.setdefault(row["category"], []).extend(row["scores"].values())
    worst = sorted(sum(each) / len(each) for each in scores.values())[:5]
    lines = kshot(capsys, "show", "run", "--worst", "5").out.splitlines()
    assert [float(line.split()[3].rstrip("†‡")) for line in lines[1:6]] == pytest.approx(worst, abs=0.005)
    assert [line.split()[0] for line in lines[1:3]] == ["film", "geology"]
    assert lines[6] == "the 5 worst of 7 figures"


def test_see_why_three_samples_failed(here, capsys):
    assert "3 failed" in run(capsys, "run").err
    shown = kshot(capsys, "samples", "run", "--failed").out
    for number in (10, 20, 30):
        assert f"the calculator is too hot for {number}" in shown
    assert "3 of 84" in shown
    told = [json.loads(line) for line in kshot(capsys, "samples", "run", "--failed", "--json").out.splitlines()]
    assert [row["id"] for row in told] == ["10", "20", "30"]


def test_show_that_five_examples_beat_none_and_on_which_questions(here, capsys):
    lookup = (
        "run",
        "-m",
        "embedded",
        "-d",
        "lookup:UR",
        "--length",
        "20",
        "--variant",
        "sep|small|bare",
        "--samples",
        "40",
    )
    for shots in ("0", "5"):
        assert kshot(capsys, *lookup, "--shots", shots, "--out", f"shots{shots}").code == 0
    compared = kshot(capsys, "compare", "shots0", "shots5")
    assert compared.code == 0, compared.err
    assert "shots5 is ahead of shots0 on lookup:UR:20:sep|small|bare" in re.sub(r"\s+", " ", compared.out)
    assert re.search(r"--shots +0 +5", compared.out)
    (row,) = json.loads(kshot(capsys, "compare", "shots0", "shots5", "--json").out)["rows"]
    scores = [{each["id"]: each["scores"]["Accuracy"] for each in rows(f"shots{shots}")} for shots in (0, 5)]
    won = [number for number, score in scores[1].items() if score > scores[0][number]]
    assert (row["won"], row["verdict"]) == (len(won), "better")
    flipped = kshot(capsys, "samples", "shots5", "--flipped", "shots0", "--right", "--json").out
    assert [json.loads(line)["id"] for line in flipped.splitlines()] == won


def test_stop_a_build_when_a_change_of_the_prompt_makes_things_worse(here, capsys):
    assert run(capsys, "baseline").code == 0
    Path("quiz.py").write_text(
        QUIZ.replace('instruction = "{{question}}"', 'instruction = "{{question}} Exactly, please."')
    )
    same = run(capsys, "harmless", "--fail-if-worse", "baseline", "--junit", "same.xml")
    assert same.code == 0, same.err
    Path("quiz.py").write_text(
        QUIZ.replace('instruction = "{{question}}"', 'instruction = "{{question}} Answer roughly."')
    )
    worse = run(
        capsys, "harmful", "--fail-if-worse", "baseline", "--junit", "worse.xml", "--step-summary", "summary.md"
    )
    assert worse.code == 3
    assert "worse than baseline" in worse.err.splitlines()[-1]
    assert 'failures="0"' in Path("same.xml").read_text()
    assert 'failures="1"' in Path("worse.xml").read_text()
    assert "baseline" in Path("summary.md").read_text()
    assert kshot(capsys, "gate", "harmful", "--fail-if-worse", "baseline").code == 3  # the run is stored all the same


def test_hand_a_table_to_a_paper(here, capsys):
    for name, more in (("plain", ()), ("rough", ("--system-prompt", "Answer roughly.", "--model-type", "chat"))):
        assert run(capsys, name, *more).code == 0
    latex = kshot(capsys, "export", "plain", "rough", "--to", "latex").out
    rows = [json.loads((Path(name) / "summary.json").read_text())["results"][-1] for name in ("plain", "rough")]
    values = [row["value"] for row in rows]
    (line,) = [line for line in latex.splitlines() if line.startswith(f"{rows[0]['task']} & ")]
    cells = [re.sub(r"\\textbf\{(.*)\}", r"\1", cell.strip()) for cell in line.split("&")]
    assert [float(cell) for cell in cells[-4::2]] == pytest.approx(values, abs=0.06)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    table = kshot(capsys, "export", "plain", "--to", "csv").out
    (whole,) = [row for row in csv.DictReader(io.StringIO(table)) if not row.get("category")]
    assert float(whole["value"]) == values[0]
    assert whole["failed"] == "3"

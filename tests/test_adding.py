"""What it takes to add something to kshot, counted by doing it in a copy.

An option is two places: where it is declared and where it is used. A metric, a model and a section of pages are a file
and a line each.
"""

import json

import pytest

from tests.changed_copy import changed_copy, run_copy
from tests.commands import CAPITALS

OPTION = {
    (
        "core/settings.py",
        '(None, "end the reply before this text (repeatable)", repeat=True)\n',
    ): '    repetition_penalty: float | None = _option(None, "above 1, a reply repeats less", kind=float, above=0)\n',
    (
        "core/settings.py",
        '            "top_k": self.top_k,\n',
    ): '            "repetition_penalty": self.repetition_penalty,\n',
}
MODEL = """
from kshot import Generate, Generated
class Noting:
    name = fingerprint = "noting"
    answers = (Generate,)
    def serve(self, queue):
        for request in queue:
            print(request.repetition_penalty, file=open("asked", "a"))
            yield request, Generated("2")
"""
CONFIG = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
mine_datasets = [dict(
    abbr="mine",
    reader_cfg=dict(input_columns=["q"], output_column="a"),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template="{q}"),
        retriever=dict(type=ZeroRetriever),
        inferencer=dict(type=GenInferencer),
    ),
    eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
)]
"""
TASK_FILE = """
task: mine
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    return changed_copy(tmp_path_factory.mktemp("changed"), OPTION)


@pytest.fixture
def here(tmp_path):
    for name, text in {"capitals.py": CAPITALS, "mine.py": CONFIG, "mine.yaml": TASK_FILE, "noting.py": MODEL}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "1+1=", "a": "2"}) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        (("-d", "capitals.py:Cities"), True),
        (("-d", "rows.jsonl", "--question", "q", "--target", "a"), True),
        (("mine.py", "--data", "mine=rows.jsonl"), True),
        (("-d", "lmeval:mine.yaml"), True),
        (("-d", "handbook", "--method", "rag"), True),
        (("-d", "capitals.py:Cities,repetition_penalty=1.5"), True),
        (("-d", "handbook", "-m", "fts5"), False),
        (("-d", "lookup:UR", "--samples", "2"), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_is_declared_and_used(changed, here, command, reads):
    asked = here / "asked"
    model = () if "-m" in command else ("-m", "noting.py:Noting")
    given = () if "penalty" in command[1] else ("--repetition-penalty", "1.5")
    done = run_copy(changed, "run", *model, *command, *given, "--limit", "1", "--out", "run", cwd=here)
    assert done.returncode == 0, done.stderr
    assert ("--repetition-penalty has no effect on" in done.stderr) != reads
    if model:
        assert set(asked.read_text().split()) == {"1.5" if reads else "None"}


def test_it_is_in_help_and_python(changed, here):
    assert "--repetition-penalty X" in run_copy(changed, "run", "--help", cwd=here).stdout
    (here / "script.py").write_text(
        "import kshot\nkshot.evaluate('noting.py:Noting', 'capitals.py:Cities', repetition_penalty=1.2, limit=1)\n"
    )
    done = run_copy(changed, cwd=here, program=("script.py",))
    assert done.returncode == 0, done.stderr
    assert (here / "asked").read_text().split()[0] == "1.2"


METRIC = '''
"""The share of short replies."""

from kshot.metrics.metric import Metric


class Short(Metric):
    """Share of replies with one word at most."""

    name, bounds = "Short", (0.0, 100.0)

    def rate(self, prediction, reference):
        return 100.0 * (len(prediction.split()) < 2)
'''
BACKEND = '''
"""A model that answers with the last word of the prompt."""

from kshot.core.records import Generate, Generated


class Last:
    """Answers with the last word of the prompt."""

    name = fingerprint = "last"
    answers = (Generate,)

    def serve(self, queue):
        for request in queue:
            yield request, Generated(request.prompt.text.split()[-1])
'''
SECTION = '''
"""How many samples each task has."""

from kshot.report.subjects import Subject
from kshot.report.view import TableView, count_cell, words


def _views(record, places):
    rows = [[str(row["task"]), count_cell(row["n"], "n", places(row))] for row in record.results]
    return [TableView(words("task", "asked"), rows, "Sizes of tasks")]


SIZES = Subject("sizes", lambda views: "Sizes", _views, lambda record: ["Large tasks are more certain."])
'''


@pytest.fixture
def run_in_copy(tmp_path):
    """Return a function that adds a line and a file to kshot, and runs commands there."""
    (tmp_path / "capitals.py").write_text(CAPITALS)

    def add(place, line, file, text):
        copy = changed_copy(tmp_path, {place: line}, {file: text})

        def run(*command):
            done = run_copy(copy, *command, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    return add


def test_a_metric_is_a_file_and_a_line(run_in_copy, tmp_path):
    line = '        Entry("Short", "kshot.metrics.short:Short"),\n'
    place = "metrics/making.py", 'Entry("Ter", "kshot.metrics.overlap:Ter"),\n'
    run = run_in_copy(place, line, "metrics/short.py", METRIC)
    run("run", "-m", "embedded", "-d", "capitals.py:Cities", "--metric", "em,short", "--out", "run")
    results = json.loads((tmp_path / "run" / "summary.json").read_text())["results"]
    assert [row["metric"] for row in results] == ["EM", "Short"]
    assert "Share of replies with one word at most." in run("list", "metrics")


def test_a_model_is_a_file_and_a_line(run_in_copy, tmp_path):
    line = '        Entry("last", "kshot.backends.last:Last", "the last word of the prompt"),\n'
    run = run_in_copy(("backends/making.py", '    "language model",\n    [\n'), line, "backends/last.py", BACKEND)
    run("run", "-m", "last", "-d", "capitals.py:Cities", "--out", "run")
    rows = (tmp_path / "run" / "samples.jsonl").read_text().splitlines()
    assert [json.loads(row)["answer"] for row in rows] == ["is"] * 5
    assert "the last word of the prompt" in run("list", "models")


def test_a_section_of_pages_is_a_file_and_a_line(run_in_copy, tmp_path):
    place = "report/subjects.py", '"kshot.report.sweeps:SWEEPS",'
    run = run_in_copy(place, ' "kshot.report.sizes:SIZES",', "report/sizes.py", SECTION)
    screen = run("run", "-m", "embedded", "-d", "capitals.py:Cities", "--out", "run")
    page = (tmp_path / "run" / "report.html").read_text()
    for shown in (screen, page):
        assert "Sizes of tasks" in shown
        assert "Large tasks are more certain." in shown

"""Two configs of one run whose entries have the same names, and the averages of a config's variables."""

import json

import pytest

import kshot
from kshot.core.errors import KshotError
from kshot.core.records import Gold, Sample
from kshot.core.task import Task
from kshot.methods import generate
from kshot.metrics import Em

_CONFIG = """
def entry(abbr, template):
    return dict(
        abbr=abbr,
        reader_cfg=dict(input_columns=["q"], output_column="a"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template=template),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=8),
        ),
        eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
    )
quiz_datasets = [entry("quiz", "TEMPLATE {q}"), entry("other", "TEMPLATE other {q}")]
MORE
"""
_GROUPS = 'summarizer = dict(summary_groups=[dict(name="all", subsets=["quiz", "other"])])'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"q": "1", "a": "1"}\n', encoding="utf-8")

    def write(name, template, more=""):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(_CONFIG.replace("TEMPLATE", template).replace("MORE", more), encoding="utf-8")

    return write


def first_word(prompt: str) -> str:
    return "1" if prompt.startswith("right") else "0"


def run(*datasets, **options):
    return kshot.evaluate(first_word, list(datasets), data=("quiz=rows.jsonl", "other=rows.jsonl"), **options)


def values(result):
    return {row["task"]: row["value"] for row in result.results}


def test_configs_that_share_a_name_are_told_apart(here, tmp_path):
    here("a.py", "right", _GROUPS)
    here("b.py", "wrong")
    result = run("a.py", "b.py", out="o")
    assert values(result) == {
        "quiz (a)": 100,
        "other (a)": 100,
        "quiz_datasets (a)[Macro Average]": 100,
        "all (a)": 100,
        "quiz (b)": 0,
        "other (b)": 0,
        "quiz_datasets (b)[Macro Average]": 0,
    }
    assert values(kshot.score("o")) == values(result)
    tasks = json.loads((tmp_path / "o/spec.json").read_text(encoding="utf-8"))["tasks"]["first_word"]
    assert list(tasks) == ["quiz (a)", "other (a)", "quiz (b)", "other (b)"]


def test_files_of_one_name_are_told_apart_by_their_folders(here):
    here("x/a.py", "right")
    here("y/a.py", "wrong")
    found = values(run("x/a.py", "y/a.py", only=("quiz",)))
    assert found == {"quiz (x/a.py)": 100, "quiz (y/a.py)": 0}


def test_a_config_alone_keeps_its_names(here):
    here("a.py", "right")
    assert list(values(run("a.py"))) == ["quiz", "other", "quiz_datasets[Macro Average]"]


def test_the_list_of_all_datasets_has_no_average(here):
    here("a.py", "right", "datasets = quiz_datasets + [entry('third', 'wrong {q}')]")
    assert list(values(run("a.py", dataset_path="rows.jsonl"))) == [
        "quiz", "other", "third", "quiz_datasets[Macro Average]",
    ]  # fmt: skip


def test_a_config_and_a_task_of_one_name_are_refused(here):
    here("a.py", "right")
    samples = [Sample("0", {"q": "1"}, Gold("1"))]
    task = Task("quiz", samples, lambda *_: kshot.Prompt("1"), generate(lambda _, reply: reply), (Em(),))
    with pytest.raises(KshotError, match=r"two datasets of the run are called 'quiz': a\.py and quiz"):
        run("a.py", task)

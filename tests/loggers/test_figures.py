"""The names of figures, settings without secrets, and the table of samples."""

import re

import pytest

from kshot.loggers.run_logger import FigureNames, figures_of, sample_table, settings_of_run, usage_of

OF_MLFLOW = re.compile(r"[/\w.\- :]{1,250}")


def row(**more):
    return {
        "task": "t",
        "model": "m",
        "metric": "Accuracy",
        "value": 50.0,
        "n": 4,
        "failed": 1,
        "ci95": [10.0, 90.0],
    } | more


STRANGE = [
    "a@b",
    "a|b",
    "a_b",
    "A|B",
    "",
    ".",
    "..",
    "../x",
    "x/",
    " x ",
    "x\ny",
    "\ud800",
    "中文",
    "é" * 300,
    "é" * 301,
    "a" * 300,
]


def test_names_are_what_every_tool_takes_and_no_two_are_the_same():
    names = FigureNames()
    found = [
        names.of(task, metric, aspect=aspect)
        for task in STRANGE
        for metric in STRANGE
        for aspect in ("", "n", "ci95_low")
    ]
    assert len({name.casefold() for name in found}) == len(found)
    for name in found:
        assert OF_MLFLOW.fullmatch(name), name
        name.encode()
        assert len(name.split("/")) == 2
        assert not any(part in {"", ".", ".."} for part in name.split("/")), name


def test_a_figure_keeps_its_name():
    names = FigureNames()
    assert names.of("arc:Easy", "AC_MRR@10") == "arc:Easy/AC_MRR_at_10" == names.of("arc:Easy", "AC_MRR@10")
    assert names.of("arc:Easy", "AC_MRR_at_10") != "arc:Easy/AC_MRR_at_10"


def test_a_metric_that_is_called_like_a_count_is_told_apart():
    rows = [row(metric="acc"), row(metric="acc_n", value=7.0, detail=True)]
    found = figures_of(rows, FigureNames(), by_model=False)
    assert found["t/acc_n"] == 4
    assert 7.0 in found.values()
    assert len(found) == 6


def test_a_value_that_does_not_exist_is_left_out():
    found = figures_of([row(value=None, n=0, failed=4, ci95=None)], FigureNames(), by_model=True)
    assert found == {"m/t/Accuracy_n": 0, "m/t/Accuracy_failed": 4}
    assert "t/Accuracy" not in figures_of([row(value=float("nan"))], FigureNames(), by_model=False)


def test_usage_has_the_tokens_of_each_role_and_the_cost_of_all():
    usage = [
        {"model": "m", "role": "model", "prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.5},
        {"model": "m", "role": "judge", "prompt_tokens": 3, "completion_tokens": 1, "cost_usd": 0.25},
        {"model": "cost_usd", "role": "model", "prompt_tokens": 1, "completion_tokens": 1},
    ]
    found = usage_of(usage, FigureNames())
    assert found["usage/m_prompt_tokens"] == 10
    assert found["usage/m as judge_cost_usd"] == 0.25
    assert found["usage/cost_usd"] == 0.75
    assert usage_of(usage[2:], FigureNames()).keys() == {
        "usage/cost_usd_prompt_tokens",
        "usage/cost_usd_completion_tokens",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("models", ["openai:m@https://me:hunter2-abc@host/v1"]),
        ("base_url", "https://host/v1?api_key=hunter2-abc"),
        ("request_option", ["extra.token=hunter2-abc"]),
        ("judge", "openai:j,api_key=hunter2-abc"),
    ],
)
def test_settings_have_no_secrets(name, value):
    found = settings_of_run({name: value})
    assert "hunter2-abc" not in str(found)
    assert "***" in str(found)


def test_other_settings_stay_as_they_are():
    given = {"instruction": "password: {{q}}", "limit": 3, "length": (10, 20), "temperature": 0.5, "cot": None}
    assert settings_of_run(given) == given | {"length": [10, 20]}
    assert settings_of_run({"stop": ["\ud800"]}) == {"stop": ["\\ud800"]}


def test_the_table_has_a_column_for_each_metric_of_any_sample():
    samples = [
        {
            "task": "t",
            "model": "m",
            "id": "1",
            "prompt": "p",
            "response": [{"text": "é"}],
            "answer": 2,
            "scores": {"a": 1.0},
        },
        {"task": "t", "model": "m", "id": "2", "prompt": "\ud800", "failed": "why", "scores": {"task": 0.0}},
        {"task": "t", "model": "m", "id": "3", "prompt": "q", "failed": "why"},
    ]
    columns, rows = sample_table(samples)
    assert columns == ["task", "model", "id", "prompt", "response", "answer", "failed", "a", "score: task"]
    assert rows == [
        ["t", "m", "1", "p", '[{"text": "é"}]', "2", None, 1.0, None],
        ["t", "m", "2", "\\ud800", None, None, "why", None, 0.0],
        ["t", "m", "3", "q", None, None, "why", None, None],
    ]

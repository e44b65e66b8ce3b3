"""Groups of rows whose samples all failed: they have no figure, and no 0 either."""

import pytest

from tests.configs.scored import judge_template, run_entry, scored_entry

BAD = "bad"


def cleaned(reply):
    """Return the reply; a bad one cannot be cleaned up, so that its sample fails."""
    if reply == BAD:
        raise ValueError("no answer")
    return reply


def found(evaluator, replies, golds, rows=None, judge=None):
    made, test = scored_entry(evaluator, golds, rows, clean=cleaned)
    result = run_entry(made, test, lambda number, _: replies[number], judge)
    assert [sample["id"] for sample in result.samples if "failed" in sample] == [str(replies.index(BAD))]
    return {row["metric"]: row["value"] for row in result.results}


def test_a_difficulty_of_longbench():
    rows = [{"difficulty": "easy", "length": "short"}, {"difficulty": "hard", "length": "long"}]
    figures = found({"type": "opencompass.datasets.LongBenchv2Evaluator"}, ["A", BAD], ["A", "A"], rows)
    assert figures == {"accuracy": 100, "accuracy_easy": 100, "accuracy_short": 100}


def test_a_kind_of_contamination():
    rows = [{"is_clean": "clean"}, {"is_clean": "input contamination"}]
    kind = "opencompass.openicl.icl_evaluator.AccContaminationEvaluator"
    assert found({"type": kind}, ["A", BAD], ["A", "A"], rows) == {"accuracy - clean": 100}


@pytest.mark.parametrize("kind", ["MMStarEvaluator"])
def test_a_category_of_pictures(kind):
    golds = [{"choices": '{"A": "x"}', "answer": "A", "category": name} for name in ("one", "two")]
    figures = found({"type": f"ais_bench.benchmark.datasets.{kind}"}, ["A", BAD], golds)
    assert figures == {"Overall": 100, "one": 100}


def test_the_attacked_half():
    kind = {"type": "opencompass.openicl.icl_evaluator.AccDropEvaluator"}
    assert found(kind, [BAD, "A"], ["A", "A"]) == {"acc_before": 100}


def test_a_subject_that_a_judge_graded():
    judge = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": "medbullets_llmjudge_postprocess"},
    }
    rows = [{"question_type": "one"}, {"question_type": "two"}]
    figures = found(judge, ["x", BAD], ["x", "x"], rows, judge=lambda *_: "A")
    assert figures == {"accuracy": 100, "total_correct": 1, "total_count": 1, "Medbullets-one": 100}


def test_a_level_of_followbench():
    judge = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": "followbench_postprocess"},
    }
    golds = [{"level": level} for level in (1, 1, 2, 3, 4, 5)]
    replies = ["x", "x", "x", "x", "x", BAD]
    figures = found(judge, replies, golds, judge=lambda number, _: str(["YES"] * golds[number]["level"]))
    assert figures["HSR_L1"] == 2
    assert not {"HSR_L5", "SSR_L5", "HSR_AVG", "SSR_AVG"} & set(figures)


CIRCULAR = {"type": "opencompass.x.CircularEvaluator"}
ORDERS = ("ABCD", "BCDA", "CDAB", "DABC")


def circular(replies, questions=2):
    golds = [f"{number}--A--{order}" for number in range(questions) for order in ORDERS]
    made, test = scored_entry(CIRCULAR, golds, clean=cleaned)
    return {row["metric"]: row for row in run_entry(made, test, lambda number, _: replies[number]).results}


def test_circular_intervals_stay_on_the_scale():
    for replies in (["A"] * 8, ["B"] * 8, ["A", "B", "B", "B", "B", "A", "A", "A"]):
        rows = circular(replies)
        assert rows["acc_1"]["value"] == 50 * (replies[0] == "A") + 50 * (replies[4] == "A")
        ends = [end for row in rows.values() if row["ci95"] for end in row["ci95"]]
        assert ends
        assert 0 <= min(ends) <= max(ends) <= 100


def test_a_question_whose_first_order_failed_is_not_counted_as_wrong():
    rows = circular([BAD, "A", "A", "A", "A", "B", "B", "B"])
    first = {name: rows[name]["value"] for name in ("acc_1", "perf_1", "more_1_1", "vote_1")}
    assert first == {"acc_1": 100, "perf_1": 100, "more_1_1": 100, "vote_1": 100}
    alone = circular([BAD, "A", "A", "A"], questions=1)
    assert not {"acc_1", "perf_1", "vote_1"} & set(alone)
    assert alone["acc_4"]["value"] == 100

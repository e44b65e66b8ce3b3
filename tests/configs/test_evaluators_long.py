"""Evaluators of long contexts: what of their rules the golden sets do not show."""

import pytest

from kshot.configs.evaluators.summaries import bare
from kshot.core.errors import DataError
from kshot.metrics.words import bag_f1, likeness, plain_words
from tests.configs.scored import figures


def score(evaluator, predictions, references, rows=None, framework="opencompass", **options):
    return figures({"type": evaluator, **options}, predictions, references, rows=rows, framework=framework)


def test_words():
    assert plain_words("The Cat, an ant & a dog!") == ["cat", "ant", "dog"]
    assert plain_words("theatre a-the") == ["theatre", "athe"]
    assert bare("“你好”， World_1。") == "你好world1"
    assert bag_f1(["a", "b", "b"], ["b", "c"]) == pytest.approx(0.4)
    assert bag_f1([], ["x"]) == 0


@pytest.mark.parametrize(
    ("left", "right", "alike"), [("abcd", "abd", 86), ("", "", 100), ("", "x", 0), ("kitten", "sitting", 62)]
)
def test_likeness_is_twice_the_common_letters_by_all(left, right, alike):
    assert likeness(left, right) == likeness(right, left) == alike


def test_the_best_reference_counts():
    assert score("LongBenchF1Evaluator", ["red fox"], [["a blue bird", "the red fox"]]) == {"score": 100}
    assert score("LongBenchRougeEvaluator", ["red fox", ""], [["red fox"], ["fox"]])["score"] == pytest.approx(50)


def test_a_class_within_the_right_one_does_not_count_against_it():
    classes = {"answers": ["Food origin"], "all_classes": ["Food", "Food origin", "City"]}
    assert score("LongBenchClassificationEvaluator", ["Food origin", "City: Food origin"], [classes] * 2) == {
        "score": 75
    }


def test_the_first_line_of_code_is_compared():
    replies = ["```python\n# here\nx = 1\n```", "// no\n"]
    assert score("LongBenchCodeSimEvaluator", replies, [["x = 1"], ["y"]]) == {"score": 50}


def test_accuracy_by_columns_has_a_figure_for_each_value_that_there_is():
    rows = [{"difficulty": "easy", "length": "long"}, {"difficulty": "hard", "length": "other"}]
    found = score("LongBenchv2Evaluator", ["A", "B"], ["A", "A"], rows)
    assert found == {"accuracy": 50, "accuracy_easy": 100, "accuracy_hard": 0, "accuracy_long": 100}


def test_a_keyword_must_be_found_first():
    gold = ["Johann Sebastian Bach", "Bach"]
    assert score("LVEvalOPTF1Evaluator", ["Johann Sebastian"], [gold]) == {"LVEval_f1": 0}
    assert score("LVEvalOPTF1Evaluator", ["Bach"], [gold]) == {"LVEval_f1": 50}
    with pytest.raises(DataError, match="keyword"):
        score("LVEvalOPTF1Evaluator", ["Bach"], [["Bach", "the"]])


def test_the_second_needle_bench_gives_nothing_for_likeness():
    reply, gold = ["the hidden kettle"], ["the hidden kettles*copper"]
    first = score("opencompass.datasets.needlebench.origin.NeedleBenchOriginEvaluator", reply, gold)
    assert 15 < first["score"] < 20
    for kind in ("opencompass.datasets.needlebench_v2.origin", "ais_bench.benchmark.datasets.needlebench_v2.origin"):
        assert score(f"{kind}.NeedleBenchOriginEvaluator", reply, gold) == {"score": 0}
    assert score("NeedleBenchOriginEvaluator", ["copper"], gold, framework="ais_bench") == {"score": 100}


@pytest.mark.parametrize("framework", ["opencompass", ""])
@pytest.mark.parametrize("kind", ["NeedleBenchOriginEvaluator", "opencompass.datasets.NeedleBenchOriginEvaluator"])
def test_a_needle_bench_without_its_module_is_refused_with_both_names(framework, kind):
    with pytest.raises(DataError, match="NeedleBenchOriginEvaluator is the name of more than one evaluator") as caught:
        score(kind, ["the kettle"], ["the kettles*copper"], framework=framework)
    for version in ("needlebench", "needlebench_v2"):
        assert f"opencompass.datasets.{version}.origin.NeedleBenchOriginEvaluator" in caught.value.hint


def test_needles_by_depth_have_the_depths_of_the_first_row():
    found = score("NeedleBenchParallelEvaluator", ["moss kelp", "kelp"], ["moss*kelp#0*50", "moss*kelp#10*90"])
    assert found == {"Depth0": 50, "Depth50": 100, "average_score": 75}


def test_shares_of_references_are_rounded():
    assert score("RulerNiahEvaluator", ["a B", "x", "x"], [["A", "b"], ["y"], ["z"]]) == {"score": 33.33}
    assert score("RulerQaEvaluator", ["a", "x", "z"], [["A", "b"], ["y"], ["z"]]) == {"score": 66.67}
    assert score("BabiLongEvaluator", ["No. Kitchen", "the Kitchen."], [["kitchen"]] * 2) == {"score": 50}


def test_numbers_count_up_to_the_first_wrong_one():
    assert score("InfiniteBenchmathcalcEvaluator", ["1, 2, 4", "9"], [[1, 2, 3], [1]]) == {"score": 100}


@pytest.mark.parametrize(
    ("evaluator", "prediction", "gold", "message"),
    [
        ("LongBenchF1Evaluator", None, ["x"], "wants text as the answer"),
        ("LongBenchRetrievalEvaluator", "3", ["Chapter 3"], "number of a paragraph"),
        ("LongBenchClassificationEvaluator", "x", ["x"], "answers and all_classes"),
        ("opencompass.datasets.needlebench.origin.NeedleBenchOriginEvaluator", "x", "no keyword", r"text\*keyword"),
        ("NeedleBenchParallelEvaluator", "x", "no depth", "depth"),
        ("MRCREvaluator", "x", "no json", "JSON with answer and prefix"),
        ("RulerNiahEvaluator", "x", 7, "list of texts"),
    ],
)
def test_rows_of_another_form_are_an_error_that_says_so(evaluator, prediction, gold, message):
    with pytest.raises(DataError, match=message):
        score(evaluator, [prediction], [gold])


@pytest.mark.parametrize(
    "evaluator",
    [
        *("RulerNiahEvaluator", "RulerQaEvaluator", "BabiLongEvaluator", "LongBenchF1Evaluator"),
        *("LongBenchRougeEvaluator", "LongBenchCodeSimEvaluator", "LVEvalF1Evaluator", "LVEvalOPTF1Evaluator"),
    ],
)
def test_one_text_is_a_list_of_one(evaluator):
    replies, golds = ["kelp", "moss"], ["kelp", "kelp"]
    assert score(evaluator, replies, golds) == score(evaluator, replies, [[gold] for gold in golds])


def test_another_language_is_refused():
    with pytest.raises(DataError, match="language='fr'"):
        score("LongBenchF1Evaluator", ["x"], [["x"]], language="fr")

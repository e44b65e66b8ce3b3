"""Evaluators of genes, proteins and materials, puzzles and plants: by OpenCompass's own code on made-up replies."""

import math

import pytest

from kshot.configs.evaluators.materials import affirmed, measured
from kshot.configs.evaluators.puzzles import exact, puzzle_letter
from kshot.core.errors import DataError
from tests.configs.scored import figures


def score(evaluator, predictions, references, rows=None, **options):
    return figures({"type": evaluator, **options}, predictions, references, rows=rows)


def test_labels_of_genes_are_correlated_with_and_without_other_replies():
    replies = ["positive", "negative", "", "positive"]
    assert score("GUE_Evaluator", replies, ["positive", "negative", "positive", "negative"]) == {
        "matthews_correlation_all": 0.0,
        "matthews_correlation_filtered": pytest.approx(50.0),
        "non_pos_neg_count": 1,
        "total_count": 4,
    }


def test_numbers_of_materials_are_measured_where_there_are_some():
    assert score("LLM4Mat_Evaluator", [1.0, "", 5.0], [2.0, 3.0, 2.0]) == {
        "MAE": 2.0,
        "total": 3,
        "filtered": 2,
        "RMSE": pytest.approx(math.sqrt(5)),
        "MAD": 0.0,
        "MAD/MAE": 0.0,
    }


def test_labels_of_materials_have_an_area_under_the_curve():
    assert score(
        "LLM4Mat_Evaluator", ["Direct", "Indirect", "Direct", ""], ["Direct", "Direct", "Indirect", "Null"]
    ) == {"AUC": 0.25}


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("The band gap of Fe2O3 is 2.1 eV", 2.1),
        ("Answer: -3.5, not 4", 3.5),
        ("answer : 25", 0.0),
        ("2e-1", 0.2),
        ("none", 0.0),
    ],
)
def test_the_number_that_a_reply_measures(reply, number):
    assert measured(reply) == number


@pytest.mark.parametrize(
    ("reply", "yes"),
    [("Answer: TRUE, no doubt", True), ("Answer: false", False), ("it is not", False), ("it has", True), ("", True)],
)
def test_a_reply_says_yes_unless_it_says_no(reply, yes):
    assert affirmed(reply) is yes


def test_materials_of_matbench():
    assert score("MatbenchEvaluator_regression", ["2", "5", "1"], [1, "4.5", "?"]) == {"mae": 0.75}
    assert score("MatbenchEvaluator_classification", ["yes", "yes", "no", "no"], [True, False, True, False]) == {
        "accuracy": 0.5,
        "precision": 0.5,
        "recall": 0.5,
        "f1_score": 0.5,
    }
    with pytest.raises(DataError, match="True or False"):
        score("MatbenchEvaluator_classification_glass", ["yes"], ["perhaps"])


def test_proteins_by_task():
    assert score("PEERRuleEvaluator", ["it is soluble", "No", "?"], ["Yes", "yes", "No"])["accuracy"] == pytest.approx(
        100 / 3
    )
    assert score("Opi_Evaluator", ["A b; c", "d"], ["c", ""], task="Keywords") == {
        "F1 Score": 0.6667,
        "Precision": 0.5,
        "Recall": 1.0,
    }
    assert score("Opi_Evaluator", ["Golgi", "golgi "], ["golgi"] * 2, task="Fold_type") == {"Accuracy": 0.5}
    assert score("Opi_Evaluator", ["binding of a protein"], ["binds proteins"], task="Function") == {"ROUGE-L": 0.6667}


def test_lists_of_numbers_are_filled_up_and_cut():
    replies = ["so [1.0, 2.0]", "[1.0]", "[1.0, 2.0, 9.0]", "[1, 2]"]
    found = score("OpenSWIMSEEvaluator", replies, [[1.0, 2.0]] * 4)
    assert found == {"score": pytest.approx((math.sqrt(2) + math.sqrt(2.5)) / 4), "valid": 25.0}


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The final answer is: (c).", "C"),
        ("it is **d**", "D"),
        ("B\nso (a)\n (e) \n", "E"),
        ("(a) or (b)", "B"),
        ("x", ""),
    ],
)
def test_the_letter_of_a_puzzle(reply, letter):
    assert puzzle_letter(reply) == letter


def test_grids_are_compared_by_cells():
    gold = {"rows": [["1", "Eric"], ["2", "Arnold"]]}
    replies = ["| House | Name |\n|---|---|\n| 1 | eric |\n| 2 | Bob |", "Eric is in 1, Arnold in 2", "none"]
    assert score("ZebraLogicGridEvaluator", replies, [gold, str(gold), gold]) == {
        "score": pytest.approx(700 / 12),
        "cell_accuracy": pytest.approx(700 / 12),
        "perfect_accuracy": pytest.approx(100 / 3),
    }


def test_twenty_four_is_computed_exactly():
    replies = ["8/(3-8/3)", "3*8", "(1+2+3)*4", "open(24)", "24/0"]
    golds = ["3 3 8 8", "3 8 1", "1 2 3 4", "24", "24 0"]
    assert score("Game24Evaluator", replies, golds) == {"acc score": 0.4}
    with pytest.raises(ValueError, match="no arithmetic"):
        exact("2 % 3")


def test_answers_of_seed_bench():
    assert score("F1ScoreEvaluator", ["A, B", "C"], ["a,c", "C"]) == {"F1Score": pytest.approx(200 / 3)}
    assert score("AccScoreStr_Evaluator", ["It is Wheat", "rice"], ["wheat ", "maize"]) == {"ACCStrScore": 50.0}
    found = score("AverageRougeScoreEvaluator", ["正确答案:水稻", "小麦"], ["水稻", "小麦,玉米"])
    assert found == {"AvgRougeScore": pytest.approx(75.0, abs=0.01)}


def test_first_wrong_steps_are_found():
    replies = ["\\boxed{2}", "\\boxed{1} or \\boxed{0}", "\\boxed{-1}", "none"]
    assert score("ProcessBenchEvaluator", replies, ["2", "1", "-1", "-1"]) == {
        "f1": 50.0,
        "error_acc": 50.0,
        "correct_acc": 50.0,
    }


def test_labels_of_choices():
    rows = [{"choices": {"label": ["A", "B"], "text": ["x", "y"]}}] * 2
    assert score("SciKnowEvalEvaluator", ["so (B), not A", "C"], ["B", "C"], rows) == {"accuracy": 50.0}


def test_exams_of_kaoshi():
    assert score("KaoshiEvaluator", ["【答案】水 了", "水"], ["水", "水"], question_type="cloze") == {"score": 50.0}
    assert score("KaoshiEvaluator", ["A, so B"], [["B"]], question_type="single_choice") == {"score": 100.0}


def test_boxes_of_elbench():
    replies = ["so \\boxed{5}", "5 dollars", "x", ""]
    assert score("ELBenchMathEvaluator", replies, ["\\boxed{5}", "5", "y", ""]) == {"accuracy": 50.0}


def test_answers_of_theorems():
    rows = [
        {"Answer_type": kind} for kind in ("option", "bool", "float", "float", "integer", "integer", "list of float")
    ]
    golds = ["(b)", "True", "2.0", "2.0", "3", "3", "[1.0, 2.0]"]
    replies = ["It is (B)", "true", "2.07", "2.1", "2.6", "8/2", "[1, 2]"]
    assert score("TheoremQAEvaluatorV3", replies, golds, rows) == {"score": pytest.approx(400 / 7)}
    with pytest.raises(DataError, match="reference of a float"):
        score("TheoremQAEvaluatorV3", ["1"], ["x"], [{"Answer_type": "float"}])


def test_a_reference_that_is_no_list_of_numbers():
    with pytest.raises(DataError, match="a list of numbers"):
        score("OpenSWIMSEEvaluator", ["[1.0]"], ["text"])

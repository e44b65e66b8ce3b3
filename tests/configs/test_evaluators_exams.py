"""Evaluators of exams, puzzles, chemistry and images: what of their rules the golden sets do not show."""

import pytest

from kshot.configs.evaluators.exams import answer_in
from kshot.configs.evaluators.math import atoms_in, grid_in, substance
from kshot.configs.evaluators.vision import chosen
from kshot.core.errors import DataError
from tests.configs.scored import figures


def score(evaluator, predictions, references, framework="opencompass", **options):
    return figures({"type": evaluator, **options}, predictions, references, framework=framework)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"so \boxed{x = \frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and \boxed 2", None),
        (r"\boxed{1", None),
        ("The answer is therefore $y=3$ or $z=4$", "4"),
        ("a = b = 5.", "5"),
        ("first 3, then $7", "$7"),
        ("答案是 12 个", "12"),
        ("12apples", None),
        ("none", None),
    ],
)
def test_the_answer_of_a_reply(reply, answer):
    assert answer_in(reply) == answer


def test_the_homes_differ_in_a_dollar_sign():
    assert score("AGIEvalEvaluator", ["it costs $7"], ["7"]) == {"score": 0}
    assert score("AGIEvalEvaluator", ["it costs $7"], ["7"], "ais_bench") == {"score": 100}


def test_some_of_several_right_letters_are_worth_a_half():
    replies = ["解【答案】AB", "解【答案】A", "解【答案】AD", "none"]
    assert score("GaokaoBenchEvaluator", replies, [["AB"]] * 4, question_type="multi_choice") == {"score": 37.5}
    assert score("GaokaoBenchEvaluator_subjective", ["A"], [["A"]]) == {"score": 0}
    with pytest.raises(DataError, match="question_type='riddle'"):
        score("GaokaoBenchEvaluator", ["A"], [["A"]], question_type="riddle")


def test_questions_with_more_points_weigh_more():
    found = score("GaokaoBenchEvaluator_multi_question_choice", ["A B C", "D"], [["A", "B", "C"], ["A"]])
    assert found == {"score": 75}


def test_a_backslash_is_a_part_of_a_word():
    assert score("LambadaEvaluator", [r"a\b c", "the-end"], ["ab", "the"]) == {"accuracy": 100}


def test_letters_in_any_order():
    replies = ["Answer: B and A", "I think so\nC, A", "Because of A it is B", None]
    assert score("ELBenchChoiceEvaluator", replies, ["AB", "AC", "B", "A"]) == {"accuracy": 50}


def test_options_by_letter_or_text():
    options = {"A": "red fox", "B": "blue bird"}
    assert chosen("(B).", options) == "B"
    assert chosen("A or B", options) == ""
    assert chosen("A red herring that is not at all near", options) == ""
    assert chosen("It is the Red Fox", options) == "A"
    assert chosen("Cannot determine the answer", options) == "Z"
    gold = '[{"A": "red fox", "B": "blue bird"}, "B", "Animals"]'
    assert score("MMMUProEvaluator", ["B<|im_end|>", "A"], [gold] * 2, "ais_bench") == {"Overall": 50, "Animals": 50}
    # The A of "Answer" counts as a letter, so that "B" is read from the rest of the line.
    assert score("MMMUProCotEvaluator", ["Hm.\nAnswer: B"], [gold], "ais_bench") == {"Overall": 100, "Animals": 100}


def test_boxes_overlap():
    gold = {"bbox": [0, 0, 100, 100], "image_width": 200, "image_height": 200}
    replies = [[0, 0, 500, 500], [0, 0, 500, 240], [500, 0, 0, 500], None]
    assert score("BBoxIoUEvaluator", replies, [gold] * 4, "ais_bench") == {"Accuracy@0.5": 25}


def test_answers_about_documents_are_worth_their_likeness_from_a_half_up():
    found = score("DocVQAEvaluator", ["lantern", "lanterns", "x"], [["Lantern"], "['lantern']", ["moss"]], "ais_bench")
    assert found["ANLS Acc"] == pytest.approx(100 * (1 + 7 / 8) / 3)


def test_chemistry():
    assert substance("so <SMILES> CCO </SMILES>") == "CCO"
    assert substance("CCO") == "CCO"
    assert atoms_in("C2H6O+2") == {"C": 2, "H": 6, "O": 1, "+": 2}
    with pytest.raises(ValueError, match="no formula"):
        atoms_in("C=O")
    replies = ["<MOLFORMULA> H2O </MOLFORMULA>", "OH2", "C=O"]
    assert score("NCElementMatchEvaluator", replies, ["H2O"] * 3) == {
        "score": pytest.approx(200 / 3),
        "valid_score": pytest.approx(200 / 3),
    }
    assert score("NCExactMatchEvaluator", replies, ["H2O"] * 3)["score"] == pytest.approx(100 / 3)
    assert score("RMSEEvaluator", [r"\boxed{2.5}", "?"], ["<NUMBER> 1 </NUMBER>"] * 2) == {"score": 1.25}


def test_puzzles():
    assert grid_in("so [[1, 2], [3, 4]].") == [[1, 2], [3, 4]]
    assert grid_in("[[1, x]]") == grid_in("nothing") == [[0]]
    assert score("ARCPrizeEvaluator", ["[[1]]", "[[2]]"], [[[1]]] * 2) == {"accuracy": 0.5}
    assert score("MusrEvaluator", ["ANSWER: 2\nANSWER: 1", "2"], [2, 2]) == {"accuracy": 50}


def test_bases_and_thousands():
    replies, golds = ["101_{2}", "10,800", "x/2", None, "(1,2)"], ["101_2", "10800", "x/2", None, "(12)"]
    assert score("MATHInternEvaluator", replies, golds) == {"accuracy": 60}
    assert score("Math401Evaluator", ["1.0004", "x", "2"], ["1", "1", "1"])["accuracy"] == pytest.approx(100 / 3)


def test_live_math_without_a_judge_is_compared_as_mathematics():
    replies = [r"\boxed{\dfrac{1}{2}}", r"\boxed{3}"]
    found = score("LiveMathBenchEvaluator", replies, [r"\frac{1}{2}", "4"], model_name="", url=[])
    assert found == {"accuracy": 50}
    with pytest.raises(DataError, match="kshot has no evaluator LiveMathBenchEvaluator"):
        score("LiveMathBenchEvaluator", replies, ["1", "4"], model_name="judge", url=["http://localhost"])


def test_instructions_are_followed_strictly_and_loosely():
    asked = {
        "instruction_id_list": ["punctuation:no_comma", "keywords:forbidden_words"],
        "kwargs": [{"num_words": None}, {"forbidden_words": ["sir"]}],
    }
    found = score("IFEvaluator", ["Here it is, sir:\nall is well", "all is well"], [asked] * 2)
    assert found == {
        "Prompt-level-strict-accuracy": 50,
        "Inst-level-strict-accuracy": 50,
        "Prompt-level-loose-accuracy": 100,
        "Inst-level-loose-accuracy": 100,
    }
    with pytest.raises(DataError, match="instruction_id_list"):
        score("IFEvaluator", ["x"], ["y"])


@pytest.mark.parametrize(
    ("evaluator", "reply", "gold", "said"),
    [
        ("ais_bench.benchmark.openicl.icl_evaluator.BBoxIoUEvaluator", [1, 2, 3, 4], {"box": [1, 2, 3, 4]}, "bbox"),
        ("ais_bench.benchmark.openicl.icl_evaluator.BBoxIoUEvaluator", "A", "no json", "image_width"),
        ("ais_bench.benchmark.datasets.VideoBenchEvaluator", "A", "A", "'answer'"),
        ("opencompass.datasets.MMLUProBaseEvaluator", "A", "B", r"LETTER\. text"),
        ("opencompass.datasets.LCBTestOutputEvaluator", "assert f() == 1", {"output": "no json"}, "wants JSON"),
        ("opencompass.datasets.Math401Evaluator", "1", "one", "a number"),
        ("opencompass.datasets.ELBenchChoiceEvaluator", "A", "?", "letters"),
    ],
)
def test_a_reference_that_lacks_what_is_read_is_an_error(evaluator, reply, gold, said):
    with pytest.raises(DataError, match=said):
        figures({"type": evaluator}, [reply], [gold])


def test_a_reply_without_a_box_is_wrong():
    gold = {"bbox": [0, 0, 10, 10], "image_width": 10, "image_height": 10}
    kind = {"type": "ais_bench.benchmark.openicl.icl_evaluator.BBoxIoUEvaluator"}
    assert figures(kind, [[0, 0, 1000, 1000], "none"], [gold, gold]) == {"Accuracy@0.5": 50}

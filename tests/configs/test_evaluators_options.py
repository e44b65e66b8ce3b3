"""Evaluators of options, numbers and translations, and of agents: by OpenCompass's own code on made-up replies."""

import math

import pytest

from kshot.configs.evaluators.options import letter_in, option_of, plain_sum, table_answer
from kshot.core.errors import DataError
from tests.configs.scored import figures


def score(evaluator, predictions, references, rows=None, **options):
    return figures({"type": evaluator, **options}, predictions, references, rows=rows)


@pytest.mark.parametrize(
    ("reply", "language", "letter"),
    [
        ('{"answer": "B"} then {"answer": "C. text"}', "en", "C"),
        ("{'answer': 'D'}", "FR-FR", "D"),
        ('"answer": A', "zh", "A"),
        ("B, so la réponse est c.", "fr", "c"),
        ("答案是 D", "ZH-CN", "D"),
        ("答案是", "zh", None),
        ("The answer is (C), not B", "en", "B"),
        ("no letter", "th", None),
    ],
)
def test_the_letter_of_a_reply_in_any_language(reply, language, letter):
    assert letter_in(reply, language) == letter


def test_options_in_many_languages_are_scored_with_two_digits():
    replies = [["the answer is B", "en"], ["答案是 A", "zh"], ["none", "en"]]
    assert score("PMMEvalMHellaswagEvaluator", replies, [1, 0, 2]) == {"accuracy": 66.67}
    assert score("PMMEvalXNLIEvaluator", replies, ["B", "B", "C"]) == {"accuracy": 33.33}


def test_a_reply_without_its_language_is_refused():
    with pytest.raises(DataError, match="wants a reply and its language"):
        score("PMMEvalMMMLUEvaluator", ["the answer is B"], ["B"])


def test_the_last_number_counts_without_commas():
    replies = ["first 3, then 1,234.", "+7 of them", "12,34", "none"]
    assert score("PMMEvalMGSMEvaluator", replies, ["1,234", "7", "1234", "1"]) == {"accuracy": 50.0}


def test_a_translation_is_the_lines_most_like_the_reference():
    reply = "Here it is:\nthe cat sat on the mat today\nI hope this helps"
    assert score("PMMEvalFloresEvaluator", [[reply, "English"]], ["the cat sat on the mat today"]) == {"BLEU": 100.0}
    assert score("PMMEvalFloresEvaluator", [["猫坐在垫子上面", "Chinese"]], ["猫坐在垫子上面"]) == {"BLEU": 100.0}
    assert score("PMMEvalFloresEvaluator", [["", "English"]], ["a cat"]) == {"BLEU": 0.0}


@pytest.mark.parametrize("evaluator", ["MedbulletsEvaluator", "MedmcqaEvaluator", "NejmaibenchEvaluator"])
def test_the_first_letter_of_an_option_that_stands_alone_counts(evaluator):
    replies = ["I understand A through D. It is (B), not A", "As said: C", "E", "Bad"]
    rows = [{"options": ["w", "x", "y", "z"], "prompt_mode": "zero-shot", "label": "B"}] * 4
    assert score(evaluator, replies, ["B", "C", "E", "B"], rows) == {"accuracy": 50.0}


def test_options_must_be_in_the_rows():
    with pytest.raises(DataError, match="no column 'options'"):
        score("MedmcqaEvaluator", ["A"], ["A"], [{}])


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        (r"The answer is $\boxed{C}$.", "C"),
        ("I think.\n**Answer:** D", "D"),
        ("A\nThe correct option is: B", "B"),
        ("the answer is b.", "b"),
        ("The answer is red cat.", "A"),
        ("Answer \\text{2 (x)}", "B"),
        ("Apples are red", None),
    ],
)
def test_the_option_that_a_reply_says(reply, letter):
    assert option_of(reply, ["red cat", "2 (x)", "blue"]) == letter


def test_graduate_exams_are_scored_by_difficulty():
    rows = [
        {"options": ["u", "v"], "prompt_mode": mode, "difficulty": level}
        for mode, level in [("zero-shot", "hard"), ("five-shot", "easy"), ("five-shot", "easy"), ("zero-shot", "hard")]
    ]
    replies = ["Answer: A", "Answer: B\nQuestion: next? Answer: A", "Question: A", "nothing"]
    assert score("SuperGPQAEvaluator", replies, ["A", "B", "B", "A"], rows) == {
        "accuracy": 0.5,
        "error_rate": 0,
        "miss_rate": 0.5,
        "hard_accuracy": 0.5,
        "easy_accuracy": 0.5,
    }


@pytest.mark.parametrize(
    ("reply", "choices", "answer"),
    [
        ("The answer is B.", ["yes", "no"], "no"),
        ("a red car", ["a red bus", "a red car today"], "a red car today"),
        (r"It costs $\frac{3}{4}$.", None, "3/4"),
        ("There are 12 apples, so 3+4=7.", None, "7"),
        ("It opens at 2:30 P.M.", None, "2:30 P.M."),
        ("no number", None, "no number"),
    ],
)
def test_the_answer_of_a_reply_about_a_table(reply, choices, answer):
    assert table_answer(reply, choices) == answer


@pytest.mark.parametrize(
    ("text", "unit", "plain"),
    [("$1,234.50", "", "1234.5"), ("3/4", "", "0.75"), ("12.0", "", "12"), ("5 kg", "kg", "5"), ("yes.", "", "yes")],
)
def test_sums_are_written_in_one_way(text, unit, plain):
    assert plain_sum(text, unit) == plain


def test_sums_of_tables_are_compared_after_that():
    gold = {"answer": "1,234.5", "unit": "kg", "choices": None}
    assert score("TabMWPEvaluator", ["The answer is $1234.50.", "12", "1/0"], [gold] * 3)["accuracy"] == pytest.approx(
        100 / 3
    )


def test_a_judge_chooses_the_better_model():
    replies = ['{"Choice": "Model A"}', '"Choice": "Model B', "", "A"]
    assert score("JudgeEvaluator", replies, [{"winner": "A"}] * 4) == {"accuracy": 50.0}


# ---- science ----


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


def test_labels_of_choices():
    rows = [{"choices": {"label": ["A", "B"], "text": ["x", "y"]}}] * 2
    assert score("SciKnowEvalEvaluator", ["so (B), not A", "C"], ["B", "C"], rows) == {"accuracy": 50.0}


# ---- agents ----


def test_agents_without_tools_are_scored_by_their_answers():
    right = {"follow_acc": 50.0, "reasoning_acc": 50.0, "action_pct": 0.0}
    assert score("Gsm8kAgentEvaluator", ["12.0", "13"], ["12", "12"]) == right
    assert score("MATHAgentEvaluator", [r"\frac12", "3"], [r"\frac{1}{2}", "4"], version="v2") == right


def test_an_unknown_language_is_an_error():
    with pytest.raises(DataError, match="no language 'xx'"):
        letter_in("x", "xx")

"""Clean-ups by name: what each takes from a reply, and where names come from."""

import pytest

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.cleanups.formulas import boxed


def clean(name, text, **more):
    return CLEANUP_FUNCTIONS[name](text, **more)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("first_capital_postprocess", "the answer B, not C", "B"),
        ("first_capital_postprocess", "none", ""),
        ("last_capital_postprocess", "B or C?", "C"),
        ("first_capital_postprocess_multi", "so ACD it is", "ACD"),
        ("multiple_select_postprocess", "C and A and C", "AC"),
        ("general_postprocess", "The cat, and a dog.", "cat"),
        ("general_postprocess", " A  big\nthing", "big"),
        ("gsm8k_postprocess", "3 + 4.5 is 7.5. Question: 9", "7.5"),
        ("gsm8k_postprocess", "none", "NULL"),
        ("gsm8k_dataset_postprocess", "First 3.\n#### 1,200", "1200"),
        ("math_postprocess_v2", r"so \boxed{\frac{1}{2}} is it", r"\frac{1}{2}"),
        ("math_postprocess_v2", "We think. The answer is $x = 12$. Good.", "12"),
        ("math_postprocess", "Hm. The final answer is $42$. I hope", "42"),
        ("humaneval_postprocess", "Sure:\n```python\ndef f():\n    return 1\n```\nbye", "def f():\n    return 1\n"),
        ("humaneval_postprocess_v3", "```\na\n```\n```\nb\n```", "b\n"),
        ("extract_non_reasoning_content", "<think>hm\nhm</think> yes", "yes"),
        ("extract-non-reasoning-content", "hm hm</think> yes", "yes"),
        ("bbh_mcq_postprocess", "So the answer is (C).", "C"),
        ("bbh_freeform_postprocess", "so the answer is **left turn**.", "left turn"),
        ("first_number_postprocess", "about 3.5 or 4", 3.5),
        ("general_eval_wrapper_postprocess", "'yes'", "yes"),
    ],
)
def test_clean_ups(name, text, answer):
    assert clean(name, text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is B", "B"),
        ("A is wrong, so the answer is (C).", "C"),
        ("The correct answer is: **D**", "D"),
        ("答案是 C", "C"),
        ("答案：B", "B"),
        ("故选 D。", "D"),
        ("B. because A is wrong", "B"),
        (r"hence \boxed{C}", "C"),
        ("C", "C"),
        ("Answer: A", "A"),
        ("nothing", ""),
        ("I choose option (B) here", "B"),
    ],
)
def test_first_option(text, answer):
    assert clean("first_option_postprocess", text, options="ABCD") == answer


def test_clean_ups_with_options():
    assert clean("first_option_postprocess", "hmmB:", options="ABCD", cushion=False) == ""
    assert clean("last_option_postprocess", "B then A", options="AB") == "A"
    assert clean("last_option_postprocess", "none", options="AB") == ""
    assert clean("match_answer_pattern", "Answer: 3\nAnswer: 4", answer_pattern=r"Answer: (\d)") == "4"
    assert clean("xml_tag_postprocessor", "<a>1</a><a>2</a>", tag="<a>") == "2"
    assert clean("think_pred_postprocess", "x [y]", re_pattern=r"\[(.)\]") == "y"
    assert clean("general_eval_wrapper_postprocess", "['The b']", postprocess="general") == "b"


def test_boxed_braces_balance():
    assert boxed(r"\boxed{a} and \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{a") is None
    assert boxed("none") is None

"""One way of writing a formula, by the rule of MATH."""

import pytest

from kshot.cleanups.formulas import plain_formula, same_formula
from kshot.datasets.llmbox.imports import equivalent


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        (r"\dfrac12", r"\frac{1}{2}"),
        ("0.5", r"\frac{1}{2}"),
        (".5", r"\frac{1}{2}"),
        (".25", "0.25"),
        ("k=3", "3"),
        ("3/4", r"\frac{3}{4}"),
        ("x/4", "x/4"),
        (r"\sqrt3 \text{ cm}", r"\sqrt{3}"),
        (r"\frac1", r"\frac1"),
        (r"\frac1{72}", r"\frac{1}{72}"),
    ],
)
def test_formulas_are_written_in_one_way(formula, plain):
    assert plain_formula(formula) == plain


def test_what_is_an_error_differs():
    for strict, text in ((False, r"1 + \frac"), (False, r"\frac1")):
        assert plain_formula(text, strict_fraction=strict) == text.replace(" ", "")
    with pytest.raises(IndexError):
        plain_formula(r"1 + \frac")
    assert plain_formula("a/b") == "a/b"
    with pytest.raises(ValueError, match="invalid literal"):
        plain_formula("a/b", strict_slash=True)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (r"\frac12", "0.5", True),
        ("x = 5", "5", True),
        (r"5\text{ cm}", "5", True),
        (r"5\%", "5", True),
        ("5%", "5", False),  # only LaTeX's sign is left out
        ("$5", "5", False),
        (r"\sqrt", r"\sqrt", True),
        (r"\sqrt", "2", False),
        ("2, 3", "2,3", True),
    ],
)
def test_answers_of_llmbox(one, other, same):
    assert same_formula(one, other) is same
    assert equivalent(one, other) is same

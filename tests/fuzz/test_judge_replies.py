"""What a judge decided: a rating on the scale, a verdict, or nothing, whatever it writes."""

from hypothesis import strategies as st

from kshot.metrics.judge_replies import parse_rating, parse_verdict
from tests.fuzz.harness import fuzz
from tests.fuzz.replies import replies

scales = st.tuples(st.integers(-10, 10), st.integers(1, 100)).map(
    lambda ends: (float(ends[0]), float(ends[0] + ends[1]))
)


@fuzz(replies, scales, examples=50)
def test_a_rating_lies_on_the_scale(reply, scale):
    found = parse_rating(reply, scale)
    assert found is None or scale[0] <= found <= scale[1]


@fuzz(replies, examples=50)
def test_a_verdict_is_one_of_three(reply):
    assert parse_verdict(reply) in (None, "A", "B", "C")


@fuzz(
    scales,
    st.data(),
    st.sampled_from(["Rating: [[{}]]", "[[{}]]", "Good.\n\nRating: [[{}]]", "**Rating: [[{}]]**", "\\boxed{{{}}}"]),
    st.sampled_from(["", "\n", " \n\n"]),
)
def test_the_form_that_the_prompt_asks_for_is_read(scale, data, form, end):
    rating = data.draw(st.integers(int(scale[0]), int(scale[1])))
    assert parse_rating(form.format(rating) + end, scale) == rating


@fuzz(st.sampled_from("ABC"), st.sampled_from(["[[{}]]", "My verdict is: [[{}]]", "Both are good.\n\n[[{}]]\n"]))
def test_the_verdict_that_the_prompt_asks_for_is_read(verdict, form):
    assert parse_verdict(form.format(verdict)) == verdict

"""Words and distances, against slow computations of the same."""

import random

import pytest

from kshot.metrics.words import bag_f1, edit_distance, likeness, plain_words

ALPHABETS = ("ab", "abc \n", "aé漢\U0001f600\ud800\x00")


def pairs():
    draw = random.Random(7)
    for _ in range(300):
        letters = draw.choice(ALPHABETS)
        yield tuple("".join(draw.choices(letters, k=draw.choice((0, 1, 4, 20)))) for _ in range(2))


def slow_distance(left, right):
    before = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            current.append(min(before[j] + 1, current[-1] + 1, before[j - 1] + (a != b)))
        before = current
    return before[-1]


def slow_common_length(left, right):
    before = [0] * (len(right) + 1)
    for a in left:
        current = [0]
        for j, b in enumerate(right, 1):
            current.append(before[j - 1] + 1 if a == b else max(before[j], current[-1]))
        before = current
    return before[-1]


def test_edits_and_common_letters():
    for left, right in pairs():
        assert edit_distance(left, right) == slow_distance(left, right)
        longest = slow_common_length(left, right)
        expected = 100 if left == right else round(200 * longest / (len(left) + len(right)))
        assert likeness(left, right) == expected


@pytest.mark.parametrize(
    ("words", "gold", "f1"), [("a b b", "b b c", 2 / 3), ("a", "b", 0.0), ("", "a", 0.0), ("", "", 0.0)]
)
def test_words_as_bags(words, gold, f1):
    assert bag_f1(words.split(), gold.split()) == pytest.approx(f1)


def test_words_of_squads_normal_form():
    assert plain_words("The  Cat's, a HAT\n") == ["cats", "hat"]

"""The messages of a context: where delimiters stand, what an answer is, and how turns become one message."""

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.requests import ContextMessage, Delimiters, chat_turns, joined, plain_text, turn

MARKS = Delimiters("->", "##")


def text(question, **given):
    return plain_text(turn(question, MARKS, where="birds.yaml", **given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "Which bird?"),
        ({"answer": "wren"}, "Which bird?->wren##"),
        ({"answer": ""}, "Which bird?"),
        ({"answer": 1, "choices": ["owl", "wren"]}, "Which bird?->wren##"),
        ({"answer": 0, "choices": ["owl", "wren"]}, "Which bird?->owl##"),
        ({"answer": ["wren", "owl"]}, "Which bird?->wren##"),
        ({"prefix": "It is"}, "Which bird?->It is"),
        ({"prefix": "\nIt is"}, "Which bird?\nIt is"),
        ({"answer": "a wren", "prefix": "It is"}, "Which bird?->It is a wren##"),
        ({"answer": "a wren", "prefix": "It is\n"}, "Which bird?->It is\na wren##"),
    ],
)
def test_a_turn_as_plain_text(given, expected):
    assert text("Which bird?", **given) == expected


def test_no_delimiter_before_a_prefix_where_white_space_is_there_or_nothing():
    assert text("Which bird? ", prefix="It is") == "Which bird? It is"
    assert text("", prefix="It is") == "It is"


@pytest.mark.parametrize("answer", [3, 1.5, ["a", "b"][:0], [1]])
def test_an_answer_that_is_no_text(answer):
    with pytest.raises(DataError, match=r"birds\.yaml: the answer of an example"):
        text("Which bird?", answer=answer, choices=["owl"])


def test_a_question_that_is_no_text():
    with pytest.raises(DataError, match="must be a text; it is 7"):
        text(7)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("a", "b", "a--b"), ("a ", "b", "a b"), ("a", "\nb", "a\nb"), ("", "b", "b"), ("a", None, "a"), (None, None, "")],
)
def test_texts_are_joined_by_a_delimiter_unless_white_space_meets(first, second, expected):
    assert joined(first, second, "--") == expected


MESSAGES = [
    ContextMessage("system", "Birds.\n\n"),
    *turn("q1", MARKS, where="", answer="a1"),
    *turn("q2", MARKS, where=""),
]


def test_turns_stay_turns_without_their_delimiters():
    assert [each["content"] for each in chat_turns(MESSAGES, multiturn=True)] == ["Birds.\n\n", "q1", "a1", "q2"]


def test_turns_become_one_user_message():
    turns = chat_turns(MESSAGES, multiturn=False)
    assert turns == [{"role": "system", "content": "Birds.\n\n"}, {"role": "user", "content": "q1->a1##q2"}]


def test_an_open_reply_stays_a_message_of_its_own():
    messages = [*MESSAGES[:-1], *turn("q2", MARKS, where="", prefix="It is")]
    turns = chat_turns(messages, multiturn=False)
    assert [(each["role"], each["content"]) for each in turns[1:]] == [("user", "q1->a1##q2"), ("assistant", "It is")]

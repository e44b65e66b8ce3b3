"""Records: digests tell requests apart, JSON comes back equal, joining follows the rule."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from kshot.core.content import glue
from kshot.core.records import Generate, Loglik, Message, Prompt, Repeats, Search, plain
from kshot.core.serialization import digest, key, request_body, response_from_json, response_to_json
from tests.runs.test_journal import RESPONSES

CHAT = Prompt(messages=(Message("user", "q"),))
DIFFERENT = [
    Generate(Prompt("q")),
    Generate(Prompt("q"), max_tokens=5),
    Generate(Prompt("q"), temperature=0.5),
    Generate(Prompt("q"), temperature=0.5, seed=1),
    Generate(Prompt("q"), replica=1),
    Generate(Prompt("q"), stop=("\n",)),
    Generate(Prompt("q"), role="judge"),
    Generate(CHAT),
    Generate(Prompt(messages=(Message("assistant", "q"),))),
    Loglik(Prompt("q"), (" a",)),
    Loglik(Prompt("q"), (" a", " b")),
    Loglik(CHAT, (" a",)),
    Loglik(Prompt(), (" a",)),
    Loglik(Prompt(), (" a",), rolling="auto"),
    Loglik(Prompt(), (" a",), rolling="none"),
    Loglik(Prompt(), (" a",), listed=True),
    Loglik(Prompt("q "), (" a",)),
    Loglik(Prompt("q "), (" a",), spaced=True),
    Loglik(Prompt("q ", rules="lm-eval"), (" a",)),
    Loglik(replace(CHAT, rules="lm-eval"), (" a",)),
    Loglik(replace(CHAT, opened=True), (" a",)),
    Loglik(replace(CHAT, opened=True, rules="lm-eval"), (" a",)),
    Search("q", 3),
    Search("q", 4),
    Search("q", 3, where=(("chapter", "1"),)),
]


def test_requests_that_differ_have_different_digests():
    assert len({digest(request) for request in DIFFERENT}) == len(DIFFERENT)


def test_equal_requests_have_equal_digests_and_the_backend_matters():
    assert digest(Generate(Prompt("q"))) == digest(Generate(Prompt("q")))
    assert key("a", digest(DIFFERENT[0])) != key("b", digest(DIFFERENT[0]))


def test_new_fields_leave_the_keys_of_earlier_journals_alone():
    assert request_body(Loglik(Prompt("q"), (" a",))) == ["Loglik", "model", "q", [" a"]]
    assert request_body(Loglik(Prompt("q"), (" a",), listed=True)) == ["Loglik", "model", "q", [" a"], "listed"]
    assert digest(Loglik(Prompt("q"), (" a",))) == "7a00e8b20a017a61de376f9417d8aa77"


def test_an_empty_stop_text_is_none():
    assert Generate(Prompt("q"), stop=("", "\n", "")) == Generate(Prompt("q"), stop=("\n",))
    assert Generate(Prompt("q"), stop=("",)).stop == ()


@pytest.mark.parametrize("response", RESPONSES.values())
def test_responses_survive_json(response):
    assert response_from_json(response_to_json(response)) == response


def test_a_chat_prompt_reads_as_plain_text():
    messages = (Message("user", "Largest ocean?"), Message("assistant", "Pacific"), Message("user", "H2O is?\n"))
    assert plain(messages) == "Largest ocean? Pacific\n\nH2O is?"
    assert Prompt(messages=messages).text == plain(messages)
    assert Prompt("as it is \n").text == "as it is \n"


@given(st.text(), st.text())
def test_glue_puts_one_space_exactly_where_no_white_space_is(left, right):
    joined = glue(left, right)
    assert joined.startswith(left)
    assert joined.endswith(right)
    extra = len(joined) - len(left) - len(right)
    needed = bool(left and right and not left[-1].isspace() and not right[0].isspace())
    assert extra == needed


def test_the_majority_is_the_first_on_a_tie_and_takes_unhashable_answers():
    assert Repeats((1, 2, 2, 1)).majority == 1
    assert Repeats((["a"], ["b"], ["b"])).majority == ["b"]

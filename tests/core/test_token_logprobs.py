"""The log-probabilities of tokens in records: asked only where they are wanted, cut with their text, stored, checked."""

import pytest

from kshot.core.errors import BackendError
from kshot.core.reasoning import asking_token_logprobs, tokens_of, without_thoughts
from kshot.core.records import (
    AskFailed,
    Failed,
    Generate,
    Generated,
    Likelihood,
    Loglik,
    Message,
    Prompt,
    Scored,
    Search,
    Usage,
    ask,
)
from kshot.core.serialization import (
    decoded_line,
    digest,
    encoded_line,
    response_from_json,
    response_to_json,
    sampling_digest,
)
from kshot.core.validation import checked_response

TOKENS = (("The", -0.5), (" an", -1.0), ("swer", -0.25), ("\n", -2.0), ("The", -3.0))
REPLY = Generate(
    Prompt("Which planet?"), max_tokens=8, temperature=0.5, stop=("\n",), seed=3, replica=1, token_logprobs=True
)


# ---- asking ----


def test_only_what_is_asked_of_the_evaluated_model_asks_for_its_tokens():
    def method():
        found = yield from ask(Generate(Prompt("a")), Loglik(Prompt("b"), ("c",)), Search("d", 3))
        judged = yield from ask(Generate(Prompt("e"), role="judge"))
        return found, judged

    driven = asking_token_logprobs(method())
    first = next(driven)
    assert [getattr(each, "token_logprobs", None) for each in first] == [True, True, None]
    assert driven.send(["A", "B", "C"]) == [Generate(Prompt("e"), role="judge")]
    with pytest.raises(StopIteration) as end:
        driven.send(["D"])
    assert end.value.value == (("A", "B", "C"), ("D",))


def test_a_failure_reaches_the_method_which_may_go_on():
    def method():
        try:
            yield from ask(Generate(Prompt("a")))
        except AskFailed as exc:
            (reply,) = yield from ask(Generate(Prompt("b")))
            return exc.failed.kind, reply

    driven = asking_token_logprobs(method())
    next(driven)
    assert driven.throw(AskFailed(Failed("busy", "try again"))) == [Generate(Prompt("b"), token_logprobs=True)]
    with pytest.raises(StopIteration) as end:
        driven.send(["B"])
    assert end.value.value == ("busy", "B")


def test_what_is_no_list_of_requests_is_left_to_the_engine_and_closing_closes_the_method():
    closed = []

    def method():
        try:
            yield Generate(Prompt("a"))
        except TypeError:
            yield [Generate(Prompt("b"))]
        finally:
            closed.append(True)

    driven = asking_token_logprobs(method())
    assert next(driven) == Generate(Prompt("a"))
    driven.throw(TypeError("no list"))
    driven.close()
    assert closed == [True]


# ---- digests and stored lines ----


def test_without_the_option_digests_and_lines_are_those_of_earlier_versions():
    plain = Generate(Prompt("Which planet?"), max_tokens=8, temperature=0.5, stop=("\n",), seed=3, replica=1)
    options = Loglik(Prompt(messages=(Message("user", "Which?"),)), (" A", " B"), listed=True, spaced=True)
    document = Loglik(Prompt(), ("A text.",), rolling="auto")
    known = [
        "cc311a1936984c42cf0c466fe15094f1",
        "011804f36f3a102e72bde7cd5e345290",
        "db148ad8b97b5cd5ef1c045a24716868",
    ]
    assert [digest(each) for each in (plain, options, document)] == known
    assert encoded_line("0" * 32, known[0], Generated("Venus", "length", Usage(3, 2), "hm", 1)) == (
        b'{"key":"00000000000000000000000000000000","asked":"cc311a1936984c42cf0c466fe15094f1","response":{"text":'
        b'"Venus","stop_reason":"length","usage":[3,2],"reasoning":"hm","cut_tokens":1},"v":2,"sum":"9b1d2b5c1db17274"}\n'
    )
    scored = Scored((Likelihood(-1.5, 2, greedy=True), Likelihood(-2.5, 1)), Usage(3, 0), 2)
    assert encoded_line("0" * 32, known[1], scored) == (
        b'{"key":"00000000000000000000000000000000","asked":"011804f36f3a102e72bde7cd5e345290","response":{"scored":'
        b'[[-1.5,2,true],[-2.5,1]],"usage":[3,0],"cut_tokens":2},"v":2,"sum":"afaeaa5727234df4"}\n'
    )


def test_asking_for_tokens_is_another_request_with_the_same_sampling():
    plain = Generate(Prompt("Which planet?"), max_tokens=8, temperature=0.5, stop=("\n",), seed=3, replica=1)
    assert digest(REPLY) != digest(plain)
    assert sampling_digest(REPLY) == sampling_digest(plain) == digest(plain)
    assert digest(Loglik(Prompt("a"), ("b",), token_logprobs=True)) != digest(Loglik(Prompt("a"), ("b",)))


@pytest.mark.parametrize(
    "response",
    [
        Generated("The answer\nThe", usage=Usage(3, 5), token_logprobs=TOKENS),
        Generated("", token_logprobs=()),
        Scored((Likelihood(-1.5, 2, token_logprobs=(("a", -1.0), ("b", -0.5))), Likelihood(-2.0, 1))),
    ],
)
def test_stored_tokens_come_back_equal(response):
    assert response_from_json(response_to_json(response)) is not response
    assert decoded_line(encoded_line("0" * 32, "1" * 32, response), early=False).response == response


@pytest.mark.parametrize(
    "tokens", [5, "ab", [["a"]], [["a", "b"]], [[1, -1.0]], [["a", -1.0, 2]], [["a", float("nan")]]]
)
def test_stored_tokens_of_another_form_are_damage(tokens):
    for body in ({"text": "a", "token_logprobs": tokens}, {"scored": [[-1.0, 1]], "token_logprobs": [tokens]}):
        with pytest.raises(ValueError, match="is no"):
            response_from_json(body)
    with pytest.raises(ValueError, match="is no list"):
        response_from_json({"scored": [[-1.0, 1]], "token_logprobs": []})


# ---- the tokens of a part of a text ----


def test_tokens_are_cut_with_their_text():
    assert tokens_of(TOKENS, "The answer\nThe") is TOKENS
    assert tokens_of(TOKENS, "The ans") == (("The", -0.5), (" an", -1.0), ("s", -0.25))
    assert tokens_of(TOKENS, "The") == (("The", -0.5),)
    assert tokens_of(TOKENS, "The", last=True) == (("The", -3.0),)
    assert tokens_of(TOKENS, "answer") == (("an", -1.0), ("swer", -0.25))
    assert tokens_of(TOKENS, "") == ()
    assert tokens_of(TOKENS, "another text") is None


def test_thoughts_leave_with_their_tokens():
    tokens = (("<think>", -1.0), ("B", -2.0), ("</think>", -3.0), ("\n\n", -4.0), ("B", -5.0), (".", -6.0))
    reply = without_thoughts(Generated("<think>B</think>\n\nB.", token_logprobs=tokens))
    assert (reply.text, reply.reasoning, reply.token_logprobs) == ("B.", "B", (("B", -5.0), (".", -6.0)))
    twice = without_thoughts(Generated("A<think>x</think>B", token_logprobs=(("A<think>x</think>B", -1.0),)))
    assert (twice.text, twice.token_logprobs) == ("AB", None)  # it stands nowhere as it is


# ---- checks ----


def test_tokens_that_nobody_asked_for_are_left_out():
    given = Generated("The answer\nThe", token_logprobs=TOKENS)
    assert checked_response(REPLY, given, "m") is given
    assert checked_response(Generate(Prompt("a")), given, "m") == Generated("The answer\nThe")
    scored = Scored((Likelihood(-1.5, 1, token_logprobs=(("b", -1.5),)),))
    assert checked_response(Loglik(Prompt("a"), ("b",), token_logprobs=True), scored, "m") is scored
    assert checked_response(Loglik(Prompt("a"), ("b",)), scored, "m") == Scored((Likelihood(-1.5, 1),))


def test_tokens_of_a_plug_in_become_plain_pairs():
    numpy = pytest.importorskip("numpy")
    given = Generated("ab", token_logprobs=[["a", -1], ("b", numpy.float32(-0.5))])
    found = checked_response(REPLY, given, "m").token_logprobs
    assert found == (("a", -1.0), ("b", -0.5))
    assert [type(value) for _, value in found] == [float, float]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (5, "gave 5 where a token with its log-probability belongs"),
        ((("a",),), r"gave \('a',\) where a token"),
        (((b"a", -1.0),), "where a token"),
        ((("a", -float("inf")),), "gave the token 'a' the log-probability -inf"),
        ((("a", 0.5),), "gave the token 'a' the log-probability 0.5"),
        ((("a", True),), "gave the token 'a' the log-probability True"),
    ],
)
def test_tokens_that_cannot_be_are_an_error_of_the_model(tokens, message):
    with pytest.raises(BackendError, match=message):
        checked_response(REPLY, Generated("a", token_logprobs=tokens), "m")
    scored = Scored((Likelihood(-1.0, 1, token_logprobs=tokens),))
    with pytest.raises(BackendError, match=message):
        checked_response(Loglik(Prompt("a"), ("b",), token_logprobs=True), scored, "m")

"""Methods one by one: what they ask, and what they make of the responses."""

import pytest

from kshot.core.records import (
    UNANSWERED,
    Choice,
    Dialogue,
    Generate,
    Generated,
    Hit,
    Likelihood,
    Loglik,
    Message,
    Prompt,
    Ranking,
    Repeats,
    Sample,
    Scored,
    Search,
    ask,
)
from kshot.methods import converse, generate, highest, likelihood, perplexity, probability, repeat
from kshot.methods.rag import Grounded, rag
from kshot.methods.search import REWRITER, search

SAMPLE = Sample("s", {"q": "?"}, choices=("red", "blue", "green"))
PROMPT = Prompt("The sky is")


def play(method, answer):
    """Run a method to its end; each request is answered by a function. Return the answer and the rounds of requests."""
    rounds = []
    try:
        requests = next(method)
        while True:
            rounds.append(list(requests))
            requests = method.send([answer(request) for request in requests])
    except StopIteration as stop:
        return stop.value, rounds


def nlls(**by_text):
    """Answer likelihood requests from a table: the negative log-likelihood of each text, over one token per letter."""

    def answer(request):
        texts = [text.strip() for text in request.continuations]
        return Scored(tuple(Likelihood(-by_text[text], len(text)) for text in texts))

    return answer


# ---- generation and conversation ----


def test_generate():
    answer, rounds = play(generate(max_tokens=5, stop=("\n",))(SAMPLE, PROMPT), lambda _: Generated(" blue"))
    assert answer == " blue"
    assert rounds == [[Generate(PROMPT, max_tokens=5, stop=("\n",))]]
    taken, _ = play(
        generate(lambda sample, reply: (sample.id, reply.strip()))(SAMPLE, PROMPT), lambda _: Generated(" x")
    )
    assert taken == ("s", "x")


def test_a_conversation_is_asked_turn_by_turn():
    replies = iter([" one ", "two"])
    answer, rounds = play(
        converse(max_tokens=3)(SAMPLE, Dialogue(Prompt("A"), ("B",))), lambda _: Generated(next(replies))
    )
    assert answer == (" one ", "two")
    assert [request.prompt for (request,) in rounds] == [Prompt("A"), Prompt("A one\n\nB")]
    assert {request.max_tokens for (request,) in rounds} == {3}


def test_a_conversation_in_messages():
    start = Prompt(messages=(Message("user", "A"),))
    _, rounds = play(converse()(SAMPLE, Dialogue(start, ("B",))), lambda _: Generated("one"))
    history = (Message("user", "A"), Message("assistant", "one"), Message("user", "B"))
    assert rounds[1][0].prompt == Prompt(messages=history)


# ---- likelihoods ----


def test_perplexity_is_per_token():
    answer, rounds = play(perplexity()(SAMPLE, PROMPT), nlls(red=2.0, blue=2.4, green=5.0))
    assert answer == 1  # 2.4 / 4 is less than 2 / 3
    assert rounds == [[Loglik(PROMPT, (" red", " blue", " green"))]]


def test_perplexity_against_a_baseline():
    baseline = Prompt("Answer:")
    choices = [Choice(PROMPT, f" {text}", baseline) for text in SAMPLE.choices]

    def answer(request):
        return (nlls(red=1, blue=2, green=9) if request.prompt == baseline else nlls(red=3, blue=3, green=10))(request)

    chosen, rounds = play(perplexity()(SAMPLE, choices), answer)
    assert chosen == 1  # of the differences 2, 1, 1 the first that is lowest
    assert [request.prompt for request in rounds[0]] == [PROMPT, baseline]
    both, _ = play(
        perplexity(lambda after_prompt, after_baseline: (after_prompt, after_baseline))(SAMPLE, choices), answer
    )
    assert both == ([(3, 3), (3, 4), (10, 5)], [(1, 3), (2, 4), (9, 5)])


def test_texts_after_the_same_prompt_share_a_request():
    other = Prompt("Grass is")
    choices = [Choice(PROMPT, " red"), Choice(other, " blue"), Choice(PROMPT, " green")]
    pairs, rounds = play(perplexity(lambda pairs, _: pairs)(SAMPLE, choices), nlls(red=1, blue=2, green=3))
    assert rounds == [[Loglik(PROMPT, (" red", " green")), Loglik(other, (" blue",))]]
    assert pairs == [(1, 3), (2, 4), (3, 5)]


def test_probability_takes_the_best_spelling():
    choices = [Choice(PROMPT, space + letter) for space in (" ", "") for letter in "ABC"]

    def answer(request):
        return Scored(tuple(Likelihood(-1.0 if text == "B" else -2.0, 1) for text in request.continuations))

    assert play(probability()(SAMPLE, choices), answer)[0] == 1
    assert highest([0.1, 0.2, 0.0, 0.0, 0.1, 0.7], 3) == 2
    logprobs, _ = play(probability(list)(SAMPLE, choices), answer)
    assert logprobs == [-2.0, -2.0, -2.0, -2.0, -1.0, -2.0]


@pytest.mark.parametrize(("listed", "expected"), [(True, UNANSWERED), (False, 0)])
def test_no_letter_on_the_list_of_likely_tokens_is_no_answer(listed, expected):
    def bound(request):
        assert request.listed is listed
        return Scored(tuple(Likelihood(-9.0, 1) for _ in request.continuations))

    assert play(probability(listed=listed)(SAMPLE, PROMPT), bound)[0] == expected


def test_likelihood_of_one_text():
    pair, _ = play(likelihood(SAMPLE, Choice(PROMPT, " blue")), nlls(blue=2.5))
    assert pair == (2.5, 4)


# ---- repeats ----


def test_repeats_differ_by_their_replica():
    answer, rounds = play(repeat(generate(), 3)(SAMPLE, PROMPT), lambda r: Generated(str(r.replica % 2)))
    assert [request.replica for request in rounds[0]] == [0, 1, 2]
    assert answer == Repeats(("0", "1", "0"))
    assert answer.majority == "0"


def test_repeats_may_end_at_different_times():
    def method(sample, prompt):
        (reply,) = yield from ask(Generate(prompt))
        while reply.text == "more":
            (reply,) = yield from ask(Generate(Prompt("again")))
        return reply.text

    replies = {(0, "The sky is"): "done", (1, "The sky is"): "more", (1, "again"): "late"}
    answer, rounds = play(repeat(method, 2)(SAMPLE, PROMPT), lambda r: Generated(replies[r.replica, r.prompt.text]))
    assert answer == Repeats(("done", "late"))
    assert [len(requests) for requests in rounds] == [2, 1]


# ---- search and rag ----

HITS = Ranking((Hit("b", 2.0, "bee"), Hit("a", 1.0)))


def respond(request):
    return HITS if isinstance(request, Search) else Generated(" sky\n colour ")


def test_search():
    answer, rounds = play(search()(SAMPLE, Search("sky", 2, topic="s")), respond)
    assert answer == ("b", "a")
    assert rounds == [[Search("sky", 2, topic="s")]]


def test_search_with_a_rewritten_query():
    def rewrite(sample):
        return Prompt(f"Query for {sample.id}:")

    _, rounds = play(search(rewrite)(SAMPLE, Search("sky", 2)), respond)
    (asked,), (searched,) = rounds
    assert (asked.prompt.text, asked.role) == ("Query for s:", REWRITER)
    assert searched == Search("sky colour", 2)
    _, (_, (searched,)) = play(
        search(rewrite)(SAMPLE, Search("sky", 2)), lambda r: HITS if isinstance(r, Search) else Generated(" ")
    )
    assert searched.query == "sky"  # an empty reply is no query


def test_rag():
    method = rag(lambda sample, passages: Prompt(" | ".join(passages)), {"a": "ant"}.__getitem__, max_tokens=9)
    answer, rounds = play(method(SAMPLE, Search("sky", 2)), respond)
    assert answer == Grounded("sky\n colour", ("b", "a"))
    assert rounds[1] == [Generate(Prompt("bee | ant"), max_tokens=9)]

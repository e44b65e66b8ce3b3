"""Methods one by one: what they ask, and what they make of the responses."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from kshot.core import records
from kshot.methods import (
    converse,
    generate,
    highest,
    likelihood,
    perplexity,
    probability,
    repeat,
    rolling_likelihood,
)
from kshot.methods.search import REWRITER, Grounded, rag, search

SAMPLE = records.Sample("s", {"q": "?"}, choices=("red", "blue", "green"))
PROMPT = records.Prompt("The sky is")


def play(method, answer):
    """Run a method to its end; each request is answered by a function. Return the answer and the rounds of requests."""
    rounds = []
    try:
        requests = next(method)
        while True:
            rounds.append(list(requests))
            requests = records.resume(method, [answer(request) for request in requests])
    except StopIteration as stop:
        return stop.value, rounds


def nlls(**by_text):
    """Answer likelihood requests from a table: the negative log-likelihood of each text, over one token per letter."""

    def answer(request):
        texts = [text.strip() for text in request.continuations]
        return records.Scored(tuple(records.Likelihood(-by_text[text], len(text)) for text in texts))

    return answer


# ---- generation and conversation ----


def test_generate():
    answer, rounds = play(generate(max_tokens=5, stop=("\n",))(SAMPLE, PROMPT), lambda _: records.Generated(" blue"))
    assert answer == " blue"
    assert rounds == [[records.Generate(PROMPT, max_tokens=5, stop=("\n",))]]
    taken, _ = play(
        generate(lambda sample, reply: (sample.id, reply.strip()))(SAMPLE, PROMPT), lambda _: records.Generated(" x")
    )
    assert taken == ("s", "x")


def test_a_conversation_is_asked_turn_by_turn():
    replies = iter([" one ", "two"])
    answer, rounds = play(
        converse(max_tokens=3)(SAMPLE, records.Dialogue(records.Prompt("A"), ("B",))),
        lambda _: records.Generated(next(replies)),
    )
    assert answer == (" one ", "two")
    assert [request.prompt for (request,) in rounds] == [records.Prompt("A"), records.Prompt("A one\n\nB")]
    assert {request.max_tokens for (request,) in rounds} == {3}


def test_a_conversation_in_messages():
    start = records.Prompt(messages=(records.Message("user", "A"),))
    _, rounds = play(converse()(SAMPLE, records.Dialogue(start, ("B",))), lambda _: records.Generated("one"))
    history = (records.Message("user", "A"), records.Message("assistant", "one"), records.Message("user", "B"))
    assert rounds[1][0].prompt == records.Prompt(messages=history)


# ---- likelihoods ----


def test_perplexity_is_per_token():
    found, rounds = play(perplexity()(SAMPLE, PROMPT), nlls(red=2.0, blue=2.4, green=5.0))
    assert found.answer == 1  # 2.4 / 4 is less than 2 / 3
    assert found.others == {"acc": 0, "acc_norm": 1, "acc_bytes": 1, "acc_token": 1}
    assert found.tied == ()
    assert rounds == [[records.Loglik(PROMPT, (" red", " blue", " green"))]]


def test_perplexity_against_a_baseline():
    baseline = records.Prompt("Answer:")
    choices = [records.Choice(PROMPT, f" {text}", baseline) for text in SAMPLE.choices]

    def answer(request):
        return (nlls(red=1, blue=2, green=9) if request.prompt == baseline else nlls(red=3, blue=3, green=10))(request)

    found, rounds = play(perplexity()(SAMPLE, choices), answer)
    assert (found.answer, found.tied) == (
        records.UNANSWERED,
        ("acc", "acc_mutual_info", ""),
    )  # the differences are 2, 1, 1
    first, _ = play(perplexity(on_tie="first")(SAMPLE, choices), answer)
    assert (first.answer, first.tied) == (1, found.tied)
    by_tokens, _ = play(perplexity(rule="acc_token")(SAMPLE, choices), answer)
    assert (by_tokens.answer, by_tokens.others["acc_mutual_info"]) == (1, records.UNANSWERED)
    assert [request.prompt for request in rounds[0]] == [PROMPT, baseline]
    both, _ = play(
        perplexity(lambda after_prompt, after_baseline: (after_prompt, after_baseline))(SAMPLE, choices), answer
    )
    assert both == records.Explained(([(3, 3), (3, 4), (10, 5)], [(1, 3), (2, 4), (9, 5)]), tied=("",))


def test_texts_after_the_same_prompt_share_a_request():
    other = records.Prompt("Grass is")
    choices = [records.Choice(PROMPT, " red"), records.Choice(other, " blue"), records.Choice(PROMPT, " green")]
    pairs, rounds = play(perplexity(lambda pairs, _: pairs)(SAMPLE, choices), nlls(red=1, blue=2, green=3))
    assert rounds == [[records.Loglik(PROMPT, (" red", " green")), records.Loglik(other, (" blue",))]]
    assert pairs == [(1, 3), (2, 4), (3, 5)]


def test_probability_takes_the_best_spelling():
    choices = [records.Choice(PROMPT, space + letter) for space in (" ", "") for letter in "ABC"]

    def answer(request):
        return records.Scored(
            tuple(records.Likelihood(-1.0 if text == "B" else -2.0, 1) for text in request.continuations)
        )

    assert play(probability()(SAMPLE, choices), answer)[0] == records.Explained(1)
    assert highest([0.1, 0.2, 0.0, 0.0, 0.1, 0.7], 3) == 2
    logprobs, _ = play(probability(list)(SAMPLE, choices), answer)
    assert logprobs == [-2.0, -2.0, -2.0, -2.0, -1.0, -2.0]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(True, records.UNANSWERED), (False, records.Explained(records.UNANSWERED, tied=("",)))],
    ids=["listed", "scored"],
)
def test_no_letter_on_the_list_of_likely_tokens_is_no_answer(listed, expected):
    def bound(request):
        assert request.listed is listed
        return records.Scored(tuple(records.Likelihood(-9.0, 1) for _ in request.continuations))

    assert play(probability(listed=listed)(SAMPLE, PROMPT), bound)[0] == expected


@pytest.mark.parametrize("method", [perplexity, probability])
def test_identical_options_tie_whatever_their_likelihoods(method):
    sample = replace(SAMPLE, choices=("red", "blue", "red"))
    choices = [records.Choice(PROMPT, f" {text}") for text in sample.choices]
    logprobs = iter([-2.0, -3.0, -1.999])

    def answer(request):
        return records.Scored(tuple(records.Likelihood(next(logprobs), 1) for _ in request.continuations))

    found, _ = play(method()(sample, choices), answer)
    assert found.answer == records.UNANSWERED
    assert "" in found.tied
    logprobs = iter([-2.0, -3.0, -1.999])
    both_right = replace(sample, target=records.AnyOption((0, 2)))
    assert play(method()(both_right, choices), answer)[0].answer == 0  # whichever it is, it is right


@given(st.lists(st.tuples(st.floats(-90, -0.1), st.integers(1, 9), st.text(min_size=1)), min_size=1, max_size=6))
def test_each_rule_takes_the_highest_value_by_its_formula(options):
    choices = [records.Choice(PROMPT, f" {number}", option=text) for number, (_, _, text) in enumerate(options)]
    scored = records.Scored(tuple(records.Likelihood(logprob, tokens) for logprob, tokens, _ in options))
    found, _ = play(perplexity(on_tie="first")(SAMPLE, choices), lambda _: scored)
    sizes = {
        "acc": [1 for _ in options],
        "acc_norm": [len(text) for _, _, text in options],
        "acc_bytes": [len(text.encode()) for _, _, text in options],
        "acc_token": [tokens for _, tokens, _ in options],
    }
    for rule, divisors in sizes.items():
        values = [logprob / size for (logprob, _, _), size in zip(options, divisors, strict=True)]
        assert found.others[rule] == values.index(max(values))
        assert (rule in found.tied) == (values.count(max(values)) > 1)


def test_likelihood_of_one_text():
    found, rounds = play(likelihood(SAMPLE, records.Choice(PROMPT, " blue")), nlls(blue=2.5))
    assert found == records.TextLikelihood(2.5, 4, words=1, bytes=4)
    assert tuple(found) == (2.5, 4)
    other, _ = play(likelihood(SAMPLE, records.Choice(PROMPT, " blue", option="b l\nü")), nlls(blue=2.5))
    assert (other.words, other.bytes) == (3, 6)
    assert rounds == [[records.Loglik(PROMPT, (" blue",))]]


def test_likelihood_of_a_document():
    found, rounds = play(
        rolling_likelihood("eos")(SAMPLE, " one two\n"),
        lambda _: records.Scored((records.Likelihood(-3.0, 5, greedy=False),)),
    )
    assert found == records.TextLikelihood(3.0, 5, words=4, bytes=9, greedy=False)
    assert rounds == [[records.Loglik(records.Prompt(), (" one two\n",), rolling="eos")]]


# ---- repeats ----


def test_repeats_differ_by_their_replica():
    answer, rounds = play(repeat(generate(), 3)(SAMPLE, PROMPT), lambda r: records.Generated(str(r.replica % 2)))
    assert [request.replica for request in rounds[0]] == [0, 1, 2]
    assert answer == records.Repeats(("0", "1", "0"))
    assert answer.majority == "0"


def test_repeats_may_end_at_different_times():
    def method(sample, prompt):
        (reply,) = yield from records.ask(records.Generate(prompt))
        while reply.text == "more":
            (reply,) = yield from records.ask(records.Generate(records.Prompt("again")))
        return reply.text

    replies = {(0, "The sky is"): "done", (1, "The sky is"): "more", (1, "again"): "late"}
    answer, rounds = play(
        repeat(method, 2)(SAMPLE, PROMPT), lambda r: records.Generated(replies[r.replica, r.prompt.text])
    )
    assert answer == records.Repeats(("done", "late"))
    assert [len(requests) for requests in rounds] == [2, 1]


BROKEN = records.Failed("broken", "no answer")


def fails_for(*replicas):
    return lambda request: BROKEN if request.replica in replicas else records.Generated(str(request.replica))


def test_one_failed_repeat_of_three_leaves_two():
    answer, _ = play(repeat(generate(), 3)(SAMPLE, PROMPT), fails_for(1))
    assert answer == records.Repeats(("0", "2"), failures=(BROKEN,))
    answer, _ = play(repeat(generate(), 3, at_least=2)(SAMPLE, PROMPT), fails_for(1))
    assert answer == records.Repeats(("0", "2"), failures=(BROKEN,))


@pytest.mark.parametrize(("failing", "at_least"), [((0, 1, 2), 1), ((0, 2), 2), ((1,), 3)])
def test_too_many_failed_repeats_fail_the_sample(failing, at_least):
    with pytest.raises(records.AskFailed) as caught:
        play(repeat(generate(), 3, at_least=at_least)(SAMPLE, PROMPT), fails_for(*failing))
    assert caught.value.failed == BROKEN


def test_the_failure_of_a_repeat_reaches_its_own_method():
    caught = []

    def method(sample, prompt):
        try:
            (reply,) = yield from records.ask(records.Generate(prompt))
        except records.AskFailed as exc:
            caught.append(exc)
            (reply,) = yield from records.ask(records.Generate(records.Prompt("once more")))
        return reply.text

    def answer(request):
        again = request.prompt.text == "once more"
        return BROKEN if request.replica == 1 and not again else records.Generated(f"{request.replica}{again}")

    found, rounds = play(repeat(method, 3)(SAMPLE, PROMPT), answer)
    assert found == records.Repeats(("0False", "1True", "2False"))
    assert [exc.failed for exc in caught] == [BROKEN]
    assert [[request.replica for request in requests] for requests in rounds] == [[0, 1, 2], [1]]


def test_a_failure_carries_the_responses_that_came_with_it():
    def method(sample, prompt):
        try:
            yield from records.ask(*(records.Generate(prompt, max_tokens=n) for n in (1, 2, 3)))
        except records.AskFailed as exc:
            return exc.responses

    answers, _ = play(method(SAMPLE, PROMPT), lambda r: BROKEN if r.max_tokens == 2 else records.Generated("x"))
    assert answers == (records.Generated("x"), BROKEN, records.Generated("x"))


def test_repeats_of_repeats():
    inner = repeat(generate(), 2)
    answer, rounds = play(repeat(inner, 3)(SAMPLE, PROMPT), fails_for(1))
    assert sorted(request.replica for request in rounds[0]) == [0, 1, 2, 3, 4, 5]  # six different questions
    assert answer == records.Repeats(
        (records.Repeats(("0", "3")), records.Repeats(("4",), failures=(BROKEN,)), records.Repeats(("2", "5")))
    )


def test_repeats_of_a_method_that_asks_nothing_or_asks_an_empty_list():
    def silent(sample, prompt):
        return "known"
        yield

    def empty(sample, prompt):
        yield from records.ask()
        return "asked"

    assert play(repeat(silent, 3)(SAMPLE, PROMPT), None)[0] == records.Repeats(("known",) * 3)
    assert play(repeat(empty, 3)(SAMPLE, PROMPT), None)[0] == records.Repeats(("asked",) * 3)


def test_the_repeats_are_closed_with_the_whole():
    closed = []

    def method(sample, prompt):
        try:
            yield from records.ask(records.Generate(prompt))
        finally:
            closed.append(True)

    whole = repeat(method, 3)(SAMPLE, PROMPT)
    next(whole)
    whole.close()
    assert len(closed) == 3


# ---- search and rag ----

HITS = records.Ranking((records.Hit("b", 2.0, "bee"), records.Hit("a", 1.0)))


def respond(request):
    return HITS if isinstance(request, records.Search) else records.Generated(" sky\n colour ")


def test_search():
    answer, rounds = play(search()(SAMPLE, records.Search("sky", 2, topic="s")), respond)
    assert answer == ("b", "a")
    assert rounds == [[records.Search("sky", 2, topic="s")]]


def test_search_with_a_rewritten_query():
    def rewrite(sample):
        return records.Prompt(f"Query for {sample.id}:")

    _, rounds = play(search(rewrite)(SAMPLE, records.Search("sky", 2)), respond)
    (asked,), (searched,) = rounds
    assert (asked.prompt.text, asked.role) == ("Query for s:", REWRITER)
    assert searched == records.Search("sky colour", 2)
    _, (_, (searched,)) = play(
        search(rewrite)(SAMPLE, records.Search("sky", 2)),
        lambda r: HITS if isinstance(r, records.Search) else records.Generated(" "),
    )
    assert searched.query == "sky"  # an empty reply is no query


def test_rag():
    method = rag(lambda sample, passages: records.Prompt(" | ".join(passages)), {"a": "ant"}.__getitem__, max_tokens=9)
    answer, rounds = play(method(SAMPLE, records.Search("sky", 2)), respond)
    assert answer == Grounded("sky\n colour", ("b", "a"))
    assert rounds[1] == [records.Generate(records.Prompt("bee | ant"), max_tokens=9)]

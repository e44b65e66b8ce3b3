"""The log-probabilities of tokens that the embedded model gives, and that they change nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from kshot.backends.embedded import Embedded, choose_token
from kshot.core.records import Generate, Generated, Loglik, Prompt
from tests.backends.embedded.test_embedded import ids_of, logprob_table
from tests.tiny_models import ask_all

ODD = ["Hello", "naïve 日本 🙂", "The rule: take", "x y z\n\n"]
CONTINUATIONS = (" Paris", " 日本🙂 naïve", "!")


@pytest.fixture(scope="module")
def model():
    return Embedded(batch_size=4, threads=1)


def both(model, requests):
    """Each request, and its responses without and with the log-probabilities of tokens."""
    plain = ask_all(model, requests)
    return zip(requests, plain, ask_all(model, [replace(each, token_logprobs=True) for each in requests]), strict=True)


def joined(tokens):
    return "".join(text for text, _ in tokens)


def written_values(model, request):
    """The log-probabilities of the tokens that the model writes, computed one by one without a cache."""
    prompt, new, values = ids_of(model, request.prompt.text), [], []
    while len(new) < request.max_tokens:
        row = logprob_table(model, [*prompt, *new])[-1]
        token = choose_token(row.astype(np.float32), request, prompt, new)
        if token == model._eos_id:
            break
        new.append(token)
        values.append(row[token])
    return values


def test_texts_are_the_same_and_each_token_has_the_log_probability_of_the_model(model):
    requests = [Generate(Prompt(text), max_tokens=6) for text in ODD]
    requests += [Generate(Prompt(text), max_tokens=8, temperature=6.0, top_k=50, seed=1) for text in ODD]
    sizes = set()
    for request, plain, found in both(model, requests):
        assert isinstance(found, Generated)
        assert replace(found, token_logprobs=None) == plain
        assert joined(found.token_logprobs) == found.text
        values, own = written_values(model, request), [value for _, value in found.token_logprobs]
        assert sum(own) == pytest.approx(sum(values), abs=1e-4)
        sums = np.cumsum(values)  # a piece of several tokens has the sum of their values
        assert all(np.isclose(sums, each, atol=1e-4).any() for each in np.cumsum(own))
        sizes.add(len(own) == len(values))
    assert True in sizes  # where no character has several tokens


def test_a_text_that_is_cut_at_a_stop_text_keeps_the_tokens_of_what_is_left(model):
    options = {"max_tokens": 8, "temperature": 6.0, "stop": ("e", "a", "o", "t", "\n"), "token_logprobs": True}
    replies = ask_all(model, [Generate(Prompt(ODD[0]), seed=seed, **options) for seed in range(20)])
    assert any(reply.stop_reason == "stop" and reply.text for reply in replies)
    assert all(joined(reply.token_logprobs) == reply.text for reply in replies)


@pytest.mark.parametrize("size", [1, 4])
def test_measured_texts_have_tokens_that_add_up(size):
    model = Embedded(batch_size=size, threads=1)
    requests = [
        Loglik(Prompt("The capital of France is"), CONTINUATIONS),
        Loglik(Prompt(), ("Hello world",)),  # its first token is given, not predicted
        Loglik(Prompt("Hello  "), ("Paris", " x"), spaced=True),
        Loglik(Prompt(), ("日本語 🙂 a document",), rolling="auto"),
        Loglik(Prompt(), ("one two three " * 200,), rolling="auto"),  # longer than the window
        Loglik(Prompt(), ("one two three",), rolling="none"),
    ]
    shown = []
    for request, plain, found in both(model, requests):
        for text, before, each in zip(request.continuations, plain.likelihoods, found.likelihoods, strict=True):
            assert replace(each, token_logprobs=None) == before
            assert sum(value for _, value in each.token_logprobs) == pytest.approx(each.logprob, abs=1e-6)
            assert len(each.token_logprobs) <= each.tokens
            shown.append((text, joined(each.token_logprobs)))
    first = model._tokenizer.decode(ids_of(model, "Hello world")[:1])
    assert shown[:4] == [*((text, text) for text in CONTINUATIONS), ("Hello world", "Hello world".removeprefix(first))]
    assert [own for _, own in shown[4:6]] == ["  Paris", "   x"]
    assert all(text == own for text, own in shown[6:8])
    assert shown[8][1] == "one two three".removeprefix(model._tokenizer.decode(ids_of(model, "one two three")[:1]))


def test_each_token_of_a_continuation_has_its_own_log_probability(model):
    (found,) = ask_all(model, [Loglik(Prompt("The capital of France is"), (" Paris",), token_logprobs=True)])
    ids = ids_of(model, "The capital of France is Paris")
    start, table = len(ids_of(model, "The capital of France is")), logprob_table(model, ids)
    own = [(model._tokenizer.decode([ids[at]]), table[at - 1, ids[at]]) for at in range(start, len(ids))]
    tokens = found.likelihoods[0].token_logprobs
    assert [text for text, _ in tokens] == [text for text, _ in own]
    assert [value for _, value in tokens] == pytest.approx([value for _, value in own], abs=1e-4)


def test_cut_prompts_keep_their_continuations_whole():
    model = Embedded(truncate="left", threads=1)
    (found,) = ask_all(model, [Loglik(Prompt("word " * 3000), CONTINUATIONS, token_logprobs=True)])
    assert found.cut_tokens > 0
    assert tuple(joined(each.token_logprobs) for each in found.likelihoods) == CONTINUATIONS

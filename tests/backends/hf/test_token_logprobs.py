"""The log-probabilities of tokens that ``hf:`` models give, against torch itself, on every way of computing them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt, Scored  # noqa: E402
from tests.tiny_models import ask_all, build  # noqa: E402

SHOTS = "Question: what is the answer? Answer: the answer is B.\n\n" * 4
OPTIONS = (" Paris", " 日本🙂 naïve", "!")
WRITTEN = [
    Generate(Prompt(f"{SHOTS}The capital of France is"), max_tokens=12),
    Generate(Prompt(f"{SHOTS}The capital of Germany is"), max_tokens=12),
    Generate(Prompt("People say"), max_tokens=20, temperature=1.5, top_k=40, top_p=0.9, seed=3),
    Generate(Prompt("People say"), max_tokens=20, temperature=1.5, top_k=40, top_p=0.9, seed=3, replica=1),
    Generate(Prompt("The quick"), max_tokens=20, repetition_penalty=1.3, no_repeat_ngram_size=2),
]
MEASURED = [
    Loglik(Prompt(f"{SHOTS}The capital of France is"), OPTIONS),
    Loglik(Prompt(f"{SHOTS}The capital of Germany is"), OPTIONS),
    Loglik(Prompt("Hello  "), ("Paris", " x"), spaced=True),
    Loglik(Prompt("Hello  ", rules="lm-eval"), ("Paris", " x")),
    Loglik(Prompt(), ("日本語 🙂 a document " * 40,), rolling="auto"),  # longer than the window
    Loglik(Prompt(), ("hello there",), rolling="none"),
]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(request, tmp_path_factory):
    return build(request.param, tmp_path_factory.mktemp("models") / "tiny", bos=request.param == "llama")


@pytest.fixture(params=["trie", "plain", "alone"])
def model(request, folder):
    made = Transformers(str(folder), device="cpu", batch_size=3, deterministic=request.param == "alone")
    if request.param == "plain":
        made._runner._packed = None
    return made


def joined(tokens):
    return "".join(text for text, _ in tokens)


@torch.no_grad()
def log_softmax(model, ids):
    return model._model(torch.tensor([ids])).logits[0].float().log_softmax(-1)


def both(model, requests):
    """Each request, and its responses without and with the log-probabilities of tokens."""
    plain = ask_all(model, requests)
    return zip(requests, plain, ask_all(model, [replace(each, token_logprobs=True) for each in requests]), strict=True)


def test_replies_are_the_same_and_their_tokens_have_the_log_probabilities_of_the_model(model, monkeypatch):
    rows = {}
    from kshot.backends.hf import model as module

    original = module.generated_response

    def kept(row, tokenizer):
        rows[row.request] = list(row.new_tokens), list(row.prompt)
        return original(row, tokenizer)

    monkeypatch.setattr(module, "generated_response", kept)
    for request, plain, found in both(model, WRITTEN):
        assert replace(found, token_logprobs=None) == plain
        assert joined(found.token_logprobs) == found.text
        new, prompt = rows[replace(request, token_logprobs=True)]
        ended = found.stop_reason == "stop"
        table = log_softmax(model, [*prompt, *new])
        values = [table[len(prompt) - 1 + at, token].item() for at, token in enumerate(new)][: -1 if ended else None]
        own = [value for _, value in found.token_logprobs]
        assert sum(own) == pytest.approx(sum(values), abs=1e-4)
        sums = np.cumsum(values)  # a piece of several tokens has the sum of their values
        assert all(np.isclose(sums, each, atol=1e-4).any() for each in np.cumsum(own))


def test_the_tokens_of_measured_texts_add_up_and_agree_with_torch(model):
    for request, plain, found in both(model, MEASURED):
        assert isinstance(found, Scored), found
        for text, before, each in zip(request.continuations, plain.likelihoods, found.likelihoods, strict=True):
            assert replace(each, token_logprobs=None) == replace(before, token_logprobs=None)
            assert sum(value for _, value in each.token_logprobs) == pytest.approx(each.logprob, abs=1e-6)
            whole = ("  " if request.prompt.text == "Hello  " else "") + text
            own = joined(each.token_logprobs)
            assert own == whole if request.rolling != "none" else whole.endswith(own) and own != whole
    tokenizer = model._tokenizer
    for option, each in zip(
        OPTIONS, ask_all(model, [replace(MEASURED[0], token_logprobs=True)])[0].likelihoods, strict=True
    ):
        (span,) = tokenizer.spans(MEASURED[0].prompt, [option])
        table, ids = log_softmax(model, list(span.tokens)), span.tokens
        values = [table[at - 1, ids[at]].item() for at in range(span.start, len(ids))]
        if len(values) == len(each.token_logprobs):
            assert [value for _, value in each.token_logprobs] == pytest.approx(values, abs=1e-4)
        assert each.logprob == pytest.approx(sum(values), abs=1e-4)


def test_a_stop_text_and_a_slow_tokenizer(folder, monkeypatch):
    model = Transformers(str(folder), device="cpu")
    request = replace(WRITTEN[0], token_logprobs=True)
    (whole,) = ask_all(model, [request])
    stop = whole.token_logprobs[2][0][-1]
    (cut,) = ask_all(model, [replace(request, stop=(stop,))])
    assert joined(cut.token_logprobs) == cut.text == whole.text[: whole.text.index(stop)]
    fast = ask_all(model, [replace(each, token_logprobs=True) for each in MEASURED])
    monkeypatch.setattr(model._tokenizer, "_backend", None)  # as of a tokenizer that does not say where tokens end
    slow = ask_all(model, [replace(each, token_logprobs=True) for each in MEASURED])
    for one, other in zip(fast, slow, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert joined(a.token_logprobs) == joined(b.token_logprobs)
            assert a.logprob == pytest.approx(b.logprob)

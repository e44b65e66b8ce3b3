"""Greedy flags, documents longer than the window, and cut prompts, against one forward pass at a time.

The rules are those of lm-evaluation-harness, written here from their description: the tokens that a window reads, and
those that it scores.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf import model_runner  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.errors import BackendError  # noqa: E402
from kshot.core.records import Failed, Generate, Likelihood, Loglik, Prompt, Scored  # noqa: E402
from tests.shapes import shaped  # noqa: E402
from tests.tiny_models import CORPUS, ask_all, build  # noqa: E402

WINDOW = 64
TOLERANCE = 1e-4
LONG = " ".join(CORPUS)
TEXTS = ["A", "hello there", CORPUS[0], LONG, f"  {LONG}\n", LONG * 2, "日本語 " * 30]


class Reference:
    """The same model, one sequence at a time."""

    def __init__(self, folder) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    @torch.no_grad()
    def scored(self, read: list[int], wanted: list[int]) -> tuple[float, bool]:
        """Score the last tokens that follow those that are read, one after the other."""
        assert len(read) <= WINDOW
        logits = self.model(torch.tensor([read])).logits[0].float()[-len(wanted) :]
        total = sum(float(row.log_softmax(-1)[token]) for row, token in zip(logits, wanted, strict=True))
        return total, logits.argmax(-1).tolist() == wanted

    def rolling(self, text: str, first: int | None) -> tuple[float, int, bool]:
        """Score every token once: windows of as many read tokens as fit, each with new targets."""
        tokens = self.ids(text)
        if first is None:
            first, *tokens = tokens
        done, total, greedy = 0, 0.0, True
        while done < len(tokens):
            end = min(done + WINDOW, len(tokens))
            before = [first, *tokens][:end]  # all that may be read to predict up to ``end``
            found, best = self.scored(before[-WINDOW:], tokens[done:end])
            total, greedy, done = total + found, greedy and best, end
        return total, len(tokens), greedy


@pytest.fixture(scope="module", params=["llama", "gpt2", "bloom"])
def model(request, tmp_path_factory):
    """A trie, a trie with learned positions, and (bloom) plain batches."""
    changes = {"llama": {"max_position_embeddings": WINDOW}, "gpt2": {"n_positions": WINDOW}, "bloom": {}}
    folder = shaped(request.param, tmp_path_factory.mktemp(request.param), **changes[request.param])
    return folder, Reference(folder)


def opened(folder, **options):
    return Transformers(str(folder), device="cpu", max_length=WINDOW, **options)


@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("start", ["auto", "bos", "eos", "none"])
def test_rolling_documents(model, size, start):
    folder, reference = model
    first = {"auto": 0, "bos": 0, "eos": 1, "none": None}[start]
    texts = TEXTS[1:] if start == "none" else TEXTS
    assert len(reference.ids(LONG)) > 2 * WINDOW
    found = ask_all(opened(folder, batch_size=size), [Loglik(Prompt(), (text,), rolling=start) for text in texts])
    for text, response in zip(texts, found, strict=True):
        assert isinstance(response, Scored)
        (one,) = response.likelihoods
        total, count, greedy = reference.rolling(text, first)
        assert (one.tokens, one.greedy) == (count, greedy)
        assert one.logprob == pytest.approx(total, abs=TOLERANCE * count / WINDOW + TOLERANCE)


def test_rolling_as_lm_eval_does_where_the_tokenizer_adds_bos(tmp_path):
    """lm-eval puts BOS before the text as the tokenizer encodes it, so that the tokenizer's own BOS is scored."""
    folder = build("llama", tmp_path, bos=True)
    reference = Reference(folder)
    bos = reference.tokenizer.bos_token_id
    backend = Transformers(str(folder), device="cpu")
    plain, twice = ask_all(
        backend, [Loglik(Prompt(), ("hello there",), rolling=start) for start in ("auto", "lm-eval")]
    )
    tokens = reference.ids("hello there")
    for found, wanted in ((plain, tokens), (twice, [bos, *tokens])):
        total, greedy = reference.scored([bos, *wanted][:-1], wanted)
        assert found.likelihoods == (Likelihood(pytest.approx(total, abs=1e-4), len(wanted), greedy=greedy),)


def test_few_rows_are_computed_together_where_their_logits_are_large(model, monkeypatch):
    folder, reference = model
    asked = [Loglik(Prompt(), (text,), rolling="auto") for text in TEXTS]
    monkeypatch.setattr(model_runner, "_MAX_LOGITS", 1 << 14)
    backend = opened(folder)
    widths = []
    run = model_runner.PlainModel._run
    monkeypatch.setattr(
        model_runner.PlainModel,
        "_run",
        lambda self, batch: widths.append([len(s.tokens) for s in batch]) or run(self, batch),
    )
    for text, response in zip(TEXTS, ask_all(backend, asked), strict=True):
        assert response.likelihoods[0].logprob == pytest.approx(reference.rolling(text, 0)[0], abs=1e-3)
    vocabulary = len(reference.tokenizer)
    assert all(len(batch) == 1 or sum(batch) * vocabulary <= 1 << 14 for batch in widths)
    assert not widths or max(map(len, widths)) > 1  # bloom alone runs in plain batches


def test_several_documents_of_one_request(model):
    folder, reference = model
    (found,) = ask_all(opened(folder), [Loglik(Prompt(), tuple(TEXTS), rolling="auto")])
    for text, one in zip(TEXTS, found.likelihoods, strict=True):
        total, count, _ = reference.rolling(text, 0)
        assert (one.tokens, one.logprob) == (count, pytest.approx(total, abs=1e-3))


def test_a_document_of_exactly_one_window(model):
    folder, reference = model
    ids = reference.ids(LONG)
    for count in (WINDOW - 1, WINDOW, WINDOW + 1):
        text = reference.tokenizer.decode(ids[:count])
        assert reference.ids(text) == ids[:count]
        (found,) = ask_all(opened(folder), [Loglik(Prompt(), (text,), rolling="auto")])
        total, tokens, _ = reference.rolling(text, 0)
        assert (found.likelihoods[0].tokens, found.likelihoods[0].logprob) == (tokens, pytest.approx(total, abs=1e-4))


def test_rolling_needs_its_first_token(model):
    folder, _ = model
    (failed,) = ask_all(opened(folder), [Loglik(Prompt(), ("A",), rolling="none")])
    assert isinstance(failed, Failed)
    assert failed.kind == "no_tokens"
    backend = opened(folder)
    backend._tokenizer.tokenizer.bos_token = None
    (by_eos,) = ask_all(backend, [Loglik(Prompt(), (LONG,), rolling="auto")])
    assert by_eos == ask_all(opened(folder), [Loglik(Prompt(), (LONG,), rolling="eos")])[0]
    with pytest.raises(BackendError, match="no BOS token to begin a document"):
        ask_all(backend, [Loglik(Prompt(), (LONG,), rolling="bos")])


# ---- greedy ----


@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_continuation_is_greedy_if_the_model_would_write_it(model, size):
    folder, reference = model
    backend = opened(folder, batch_size=size)
    prompts = [Prompt(text[:end]) for text in CORPUS for end in range(5, 25)]
    own = [reply.text for reply in ask_all(backend, [Generate(prompt, max_tokens=1) for prompt in prompts])]
    texts = [(reply, f"{reply} A", " Paris", "B") if reply else (" A", "B") for reply in own]
    asked = [Loglik(prompt, some) for prompt, some in zip(prompts, texts, strict=True)]
    seen = set()
    for request, response in zip(asked, ask_all(backend, asked), strict=True):
        for text, found in zip(request.continuations, response.likelihoods, strict=True):
            (span,) = backend._tokenizer.spans(request.prompt, (text,))
            ids = span.tokens
            _, greedy = reference.scored(list(ids[:-1]), list(ids[span.start :]))
            assert found.greedy is greedy, (request.prompt, text)
            seen.add(greedy)
    assert seen == {True, False}


# ---- cut from the left ----


@pytest.mark.parametrize("size", [1, 16])
def test_prompts_are_cut_from_the_left(model, size):
    folder, reference = model
    texts = (" Paris", " the answer is B", " A")
    asked = [Loglik(Prompt(LONG), texts), Loglik(Prompt("A quick"), texts)]
    refused = ask_all(opened(folder, batch_size=size), asked)[0]
    assert isinstance(refused, Failed)
    long, short = ask_all(opened(folder, batch_size=size, truncate="left"), asked)
    wholes = [reference.ids(LONG + text) for text in texts]
    assert long.cut_tokens == max(map(len, wholes)) - WINDOW - 1
    assert short.cut_tokens == 0
    for text, ids, found in zip(texts, wholes, long.likelihoods, strict=True):
        count = len(ids) - len(reference.ids(LONG))
        total, greedy = reference.scored(ids[-WINDOW - 1 : -1], ids[-count:])
        assert (found.tokens, found.greedy) == (count, greedy), text
        assert found.logprob == pytest.approx(total, abs=TOLERANCE)


def test_a_continuation_longer_than_the_window_cannot_be_saved(model):
    folder, _ = model
    failed, fine = ask_all(opened(folder, truncate="left"), [Loglik(Prompt("A"), (LONG,)), Loglik(Prompt("A"), ("B",))])
    assert isinstance(failed, Failed)
    assert (failed.kind, "the continuation has" in failed.message) == ("too_long", True)
    assert isinstance(fine, Scored)


def test_a_cut_prompt_leaves_room_for_the_reply(model):
    folder, reference = model
    ids = reference.ids(LONG)
    backend = opened(folder, truncate="left")
    long, short, none = ask_all(
        backend,
        [
            Generate(Prompt(LONG), max_tokens=20),
            Generate(Prompt("A quick"), max_tokens=20),
            Generate(Prompt("A quick"), max_tokens=WINDOW),
        ],
    )
    assert (long.cut_tokens, long.usage.prompt_tokens) == (len(ids) - (WINDOW - 20), WINDOW - 20)
    assert short.cut_tokens == 0
    assert isinstance(none, Failed)
    assert long.stop_reason in ("length", "stop")
    written = ids[-(WINDOW - 20) :]
    for _ in range(long.usage.completion_tokens):
        with torch.no_grad():
            written = [*written, int(reference.model(torch.tensor([written])).logits[0, -1].argmax())]
    new = [token for token in written[WINDOW - 20 :] if token != 1]
    assert long.text == backend._tokenizer.decode_after(written[: WINDOW - 20], new)


def test_a_reply_that_fills_the_window_says_so(model):
    folder, reference = model
    prompt = reference.tokenizer.decode(reference.ids(LONG)[: WINDOW - 5])
    asked = [Generate(Prompt(prompt), max_tokens=count) for count in (3, 5, 6, 40)]
    found = ask_all(opened(folder), asked)
    for request, reply in zip(asked, found, strict=True):
        if reply.stop_reason != "stop":
            assert reply.stop_reason == ("length" if request.max_tokens <= 5 else "window")
    assert {reply.stop_reason for reply in found} >= {"length", "window"}

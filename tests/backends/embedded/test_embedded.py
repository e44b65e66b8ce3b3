"""The contract of the embedded model: what it writes, scores and refuses, in any batch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from kshot.backends import embedded, open_model
from kshot.backends.embedded import FOLDER, Embedded, choose_token
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed, Generate, Generated, Loglik, Message, Prompt, Scored, Usage
from kshot.lookup.generate import generate
from kshot.lookup.prompt_writer import prompts
from tests.tiny_models import Queue, ask_all

RECORDS = [record for length in (10, 25, 40) for record in generate("unique", length, 2, 31_000 + length)]
TEXTS = prompts(RECORDS, task="UR", variant="sep|small|bare")
TARGETS = [record["UR"] for record in RECORDS]
ODD = ["Hello", " a", "naïve 日本 🙂", "The rule: take", "x y z\n\n"]
# A high temperature, because the model is sure of a blank line almost everywhere.
SAMPLED = [
    Generate(Prompt(text), max_tokens=8, temperature=6.0, seed=seed, replica=replica)
    for text in (*ODD, *TEXTS[:2])
    for seed in (1, 2)
    for replica in (0, 1)
]


@pytest.fixture(scope="module")
def model():
    return Embedded(batch_size=4, threads=1)


def written(response) -> str:
    assert isinstance(response, Generated), response
    return response.text


def ids_of(model, text):
    return model._tokenizer.encode(text).ids


def logprob_table(model, ids):
    """Log-probabilities after every token of one sequence, run alone and without a cache."""
    size = len(ids)
    layers, pair, heads, width = model._cache_shape
    inputs = {
        "tokens": np.array([ids]),
        "position_ids": np.arange(size)[None],
        "mask": np.ones((1, size), np.int64),
        "past": np.zeros((layers, pair, 1, heads, 0, width), np.float32),
        "wanted": np.arange(size)[None],
    }
    logits = model._session.run(["logits"], inputs)[0][0].astype(np.float64)
    peak = logits.max(axis=1, keepdims=True)
    return logits - peak - np.log(np.exp(logits - peak).sum(axis=1, keepdims=True))


# ---- what it is ----


def test_name_answers_and_tokens(model):
    assert model.name == "embedded"
    assert model.answers == (Generate, Loglik)
    assert model.count_tokens(" a b | a:") == 5
    assert model.count_tokens("") == 0
    assert isinstance(open_model("embedded", {"batch_size": 2}), Embedded)
    with pytest.raises(UsageError, match="nothing can follow its name: 'other'"):
        open_model("embedded:other")


def test_it_and_its_fingerprint_need_no_torch(model):
    code = (
        "import sys, kshot\n"
        "from kshot.backends.embedded import Embedded\n"
        "found = kshot.evaluate('embedded', 'lookup:UR', length=10, samples=2)\n"
        "assert found.results[0]['n'] == 2\n"
        "assert not {'torch', 'transformers', 'onnx'} & set(sys.modules)\n"
        "print(Embedded(batch_size=1, threads=1).fingerprint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == model.fingerprint == Embedded(batch_size=7).fingerprint
    assert model.fingerprint.startswith("embedded:")


def test_fingerprint_covers_weights_graph_and_tokenizer(model, tmp_path, monkeypatch):
    for path in FOLDER.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr("kshot.backends.embedded.FOLDER", tmp_path)
    seen = {Embedded().fingerprint}
    assert seen == {model.fingerprint}
    for name in ("model.onnx", "model.safetensors", "tokenizer.json"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
        seen.add(Embedded().fingerprint)
    assert len(seen) == 4


def test_it_opens_nothing_before_the_first_request():
    fresh = Embedded()
    assert fresh.fingerprint
    assert "_session" not in vars(fresh)


def test_requests_that_arrive_later_are_served_too(model):
    first, second = Generate(Prompt(" a"), max_tokens=2), Loglik(Prompt(" a"), (" b",))
    assert {request for request, _ in model.serve(Queue([first], later=[second]))} == {first, second}
    assert list(model.serve(Queue([]))) == []


@pytest.mark.parametrize("kind", [Generate, lambda prompt: Loglik(prompt, (" a",))])
def test_messages_are_refused_with_a_hint(model, kind):
    with pytest.raises(BackendError, match=r"chat template.*--model-type base"):
        ask_all(model, [kind(Prompt(messages=(Message("user", "Hi"),)))])


# ---- Generate ----


def test_greedy_text_is_the_likeliest_token_again_and_again(model):
    asked = [Generate(Prompt(text), max_tokens=5) for text in (*TEXTS, *ODD)]
    for request, response in zip(asked, ask_all(model, asked), strict=True):
        ids = ids_of(model, request.prompt.text)
        start = len(ids)
        for _ in range(5):
            ids.append(int(logprob_table(model, ids)[-1].argmax()))
        assert written(response) == model._tokenizer.decode(ids[start:])
        assert (response.stop_reason, response.usage) == ("length", Usage(start, 5))


def test_it_answers_lookups_and_stops_at_the_newline(model):
    responses = ask_all(model, [Generate(Prompt(text), max_tokens=6, stop=("\n",)) for text in TEXTS])
    assert [written(response) for response in responses] == [f" {target}" for target in TARGETS]
    assert {response.stop_reason for response in responses} == {"stop"}
    # the answer and the blank line, though the latter is cut off
    assert {response.usage.completion_tokens for response in responses} == {2}


def test_the_earliest_stop_text_cuts(model):
    (whole,) = ask_all(model, [Generate(Prompt(TEXTS[0]), max_tokens=6)])
    text = written(whole)
    stops = (text[3], text[1], "never there", "")
    (response,) = ask_all(model, [Generate(Prompt(TEXTS[0]), max_tokens=6, stop=stops)])
    assert (response.text, response.stop_reason) == (text[: min(text.find(text[3]), text.find(text[1]))], "stop")


@pytest.mark.parametrize("count", [1, 2, 7])
def test_max_tokens_is_kept_row_by_row(model, count):
    asked = [Generate(Prompt(text), max_tokens=count + i) for i, text in enumerate(TEXTS)]
    for i, response in enumerate(ask_all(model, asked)):
        assert response.usage.completion_tokens == count + i
        assert response.stop_reason == "length"


def test_the_end_token_ends(monkeypatch):
    own = Embedded(batch_size=3, threads=1)
    (blank,) = ids_of(own, "\n\n")
    monkeypatch.setattr(own, "_eos_id", blank)
    responses = ask_all(own, [Generate(Prompt(text), max_tokens=6) for text in TEXTS])
    assert [(r.text, r.stop_reason) for r in responses] == [(f" {target}", "stop") for target in TARGETS]


def test_an_empty_prompt_begins_after_the_end_token(model):
    (response,) = ask_all(model, [Generate(Prompt(""), max_tokens=2)])
    assert response.usage == Usage(1, 2)


def test_a_full_context_fails_and_a_nearly_full_one_is_cut_short(model):
    full, nearly = " a" * 2048, " a" * 2046
    failed, short = ask_all(model, [Generate(Prompt(text), max_tokens=6) for text in (full, nearly)])
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retryable) == ("too_long", False)
    assert "2048" in failed.message
    assert (short.stop_reason, short.usage) == ("window", Usage(2046, 2))


# ---- sampling ----


def test_samples_follow_the_seed_and_nothing_else(model):
    alone = [ask_all(Embedded(batch_size=1, threads=1), [request])[0] for request in SAMPLED[::5]]
    together = ask_all(Embedded(batch_size=16, threads=1), SAMPLED)
    backwards = ask_all(model, SAMPLED[::-1])[::-1]
    assert together == backwards
    assert together[::5] == alone
    texts = [written(response) for response in together]
    assert len(set(texts)) > len(texts) * 0.8  # seeds and replicas differ


def test_temperature_flattens():
    logits = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    asked = [Generate(Prompt("x"), temperature=t, seed=seed) for t in (0.3, 1.0, 30.0) for seed in range(2000)]
    drawn = np.array([choose_token(logits, request, [0], []) for request in asked]).reshape(3, 2000)
    for row, temperature in zip(drawn, (0.3, 1.0, 30.0), strict=True):
        weights = np.exp(logits / temperature)
        shares = np.bincount(row, minlength=4) / 2000
        assert np.abs(shares - weights / weights.sum()).max() < 0.045  # 4 standard errors of the widest


def test_one_candidate_is_the_greedy_one(model):
    greedy = [Generate(Prompt(text), max_tokens=5) for text in (*ODD, *TEXTS)]
    expected = [written(response) for response in ask_all(model, greedy)]
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-5}):
        asked = [replace(request, **{"temperature": 6.0, "seed": 3, **narrow}) for request in greedy]
        assert [written(response) for response in ask_all(model, asked)] == expected


def test_top_k_and_top_p_keep_the_likeliest():
    logits = np.log(np.array([0.05, 0.5, 0.15, 0.3], np.float32))
    base = Generate(Prompt("x"), temperature=1.0)

    def seen(**options):
        return {choose_token(logits, replace(base, seed=seed, **options), [0], []) for seed in range(300)}

    assert seen() == {0, 1, 2, 3}
    assert seen(top_k=2) == {1, 3}
    assert seen(top_k=9) == {0, 1, 2, 3}
    assert seen(top_p=0.4) == {1}
    assert seen(top_p=0.6) == {1, 3}
    assert seen(top_p=0.9) == {1, 2, 3}
    assert seen(top_p=1.0) == {0, 1, 2, 3}
    assert seen(top_k=3, top_p=0.6) == {1, 3}


def test_repetition_penalty_and_ngram_ban(model):
    plain = Generate(Prompt(" a b a b a b"), max_tokens=12)
    free, penalised, banned = ask_all(
        model, [plain, replace(plain, repetition_penalty=50.0), replace(plain, no_repeat_ngram_size=2)]
    )
    assert len({written(response) for response in (free, penalised, banned)}) == 3
    ids = ids_of(model, " a b a b a b") + ids_of(model, written(banned))
    pairs = [tuple(ids[i : i + 2]) for i in range(5, len(ids) - 1)]
    assert len(pairs) == len(set(pairs))
    assert not set(pairs) & {tuple(ids[i : i + 2]) for i in range(5)}
    new = ids_of(model, written(penalised))
    assert len(new) == len(set(new))
    assert not set(new) & set(ids_of(model, " a b"))


def test_penalty_and_ban_by_their_definitions():
    logits = np.array([3.0, 2.5, -1.0, -2.0], np.float32)
    asked = Generate(Prompt("x"))
    assert choose_token(logits, replace(asked, repetition_penalty=1.0), [0], []) == 0
    assert choose_token(logits, replace(asked, repetition_penalty=2.0), [0], []) == 1
    assert choose_token(logits, replace(asked, repetition_penalty=2.0), [0], [1]) == 0  # 1.5 against 1.25
    negative = np.array([-1.0, -1.5], np.float32)
    assert choose_token(negative, replace(asked, repetition_penalty=2.0), [0], []) == 1
    assert choose_token(logits, replace(asked, no_repeat_ngram_size=1), [0, 1], []) == 2
    assert choose_token(logits, replace(asked, no_repeat_ngram_size=3), [2, 3, 0, 2], [3]) == 1
    assert choose_token(logits, replace(asked, no_repeat_ngram_size=3), [2, 3], []) == 0


# ---- Loglik ----

PAIRS = [
    (TEXTS[0], f" {TARGETS[0]}"),
    (TEXTS[3], f" {TARGETS[3]}\n\n"),
    (" a b | a", ":"),
    (" a b ", "c d"),  # " c" is one token: it straddles the seam
    ("a\n", "\nb"),  # so is a blank line
    ("The rul", "e of the task"),
    ("naïve caf", "é"),
    ("日本", "語 and 中文 🙂"),
    ("🙂", "🙃"),
    ("", " a b c"),
    ("", "The context: 日本"),
]


def by_hand(model, context, continuation):
    """Find where each token ends by counting bytes, without offsets."""
    ids = ids_of(model, context + continuation)
    reached, start = 0, len(ids)
    for index, token in enumerate(ids):
        reached += len(model._tokenizer.id_to_token(token))
        if reached > len(context.encode()):
            start = index
            break
    start = max(start, 1)
    rows = logprob_table(model, ids)
    return sum(rows[at - 1, ids[at]] for at in range(start, len(ids))), len(ids) - start


@pytest.mark.parametrize("size", [1, 3, 16])
def test_loglik_equals_a_single_forward(model, size):
    backend = Embedded(batch_size=size, threads=1)
    scored = ask_all(backend, [Loglik(Prompt(context), (text,)) for context, text in PAIRS])
    for (context, text), response in zip(PAIRS, scored, strict=True):
        assert isinstance(response, Scored)
        (found,) = response.likelihoods
        logprob, count = by_hand(model, context, text)
        assert found.tokens == count, (context, text)
        assert found.logprob == pytest.approx(logprob, abs=1e-5 * max(1, count)), (context, text)
        assert found.logprob <= 0


def test_a_token_across_the_seam_is_the_continuations(model):
    straddling, clean = ask_all(model, [Loglik(Prompt(" a b "), ("c",)), Loglik(Prompt(" a b"), (" c",))])
    assert straddling == clean
    assert straddling.likelihoods[0].tokens == 1


def test_by_lm_evals_rule_the_prompt_is_encoded_alone_and_its_tokens_are_counted(model):
    for context, continuation in [("The rul", "e of the task"), (" a b ", "c d"), ("a\n", "\nb"), ("The rule", " of")]:
        before, whole = ids_of(model, context.rstrip()), ids_of(model, context + continuation)
        (response,) = ask_all(model, [Loglik(Prompt(context, rules="lm-eval"), (continuation,))])
        ids = [*before, *whole[len(before) :]]
        table = logprob_table(model, ids)
        logprob = sum(table[at - 1, ids[at]] for at in range(len(before), len(ids)))
        (found,) = response.likelihoods
        assert (found.tokens, found.logprob) == (len(ids) - len(before), pytest.approx(logprob, abs=1e-4))


def test_the_first_token_of_all_is_given(model):
    (response,) = ask_all(model, [Loglik(Prompt(""), (" a b c",))])
    assert response.likelihoods[0].tokens == 2
    for prompt, text in (("", " a"), (" a", "")):
        (failed,) = ask_all(model, [Loglik(Prompt(prompt), (text,))])
        assert (failed.kind, failed.message[:36]) == ("no_tokens", "no token of the text can be scored: ")


def test_continuations_of_different_lengths_keep_their_order(model):
    texts = (" a", " b c d e f g", "\n\n", " a", "日本", f" {TARGETS[1]}")
    (response,) = ask_all(model, [Loglik(Prompt(TEXTS[1]), texts)])
    for text, found in zip(texts, response.likelihoods, strict=True):
        logprob, count = by_hand(model, TEXTS[1], text)
        assert (found.tokens, found.logprob) == (count, pytest.approx(logprob, abs=1e-4))
    assert max(response.likelihoods, key=lambda each: each.logprob) == response.likelihoods[-1]


def test_the_probabilities_of_all_single_tokens_sum_to_one(model):
    ids = range(1, model._tokenizer.get_vocab_size())
    alone = [text for token in ids if ids_of(model, text := model._tokenizer.decode([token])) == [token]]
    prompt = "x\n\n a b | a:"
    safe = tuple(text for text in alone if ids_of(model, prompt + text) == ids_of(model, prompt) + ids_of(model, text))
    (response,) = ask_all(model, [Loglik(Prompt(prompt), safe)])
    total = sum(np.exp(each.logprob) for each in response.likelihoods)
    assert 0.9 < total <= 1 + 1e-9


def test_no_continuations(model):
    assert ask_all(model, [Loglik(Prompt("x"), ())]) == [Scored(())]


def test_batching_changes_no_likelihood(model):
    asked = [Loglik(Prompt(text), (" a", " b\n\n", " c d e")) for text in (*TEXTS, *ODD)]
    first, second, third = (
        [each.logprob for response in ask_all(backend, asked) for each in response.likelihoods]
        for backend in (Embedded(batch_size=1, threads=1), Embedded(batch_size=5, threads=2), Embedded(batch_size=64))
    )
    assert first == pytest.approx(second, abs=1e-5, rel=1e-6)
    assert first == pytest.approx(third, abs=1e-5, rel=1e-6)


def test_a_deterministic_answer_depends_on_its_request_alone():
    asked: list = [Loglik(Prompt(text), (" a", " b\n\n", " c d e")) for text in (*TEXTS, *ODD)]
    asked += SAMPLED[::5]
    together = ask_all(Embedded(threads=1, deterministic=True), asked)
    assert ask_all(Embedded(threads=1, deterministic=True, batch_size=3), asked[::-1]) == together[::-1]
    assert [ask_all(Embedded(threads=1, deterministic=True), [one])[0] for one in asked] == together
    plain, one, two = (Embedded(threads=count, deterministic=count < 3).fingerprint for count in (3, 1, 2))
    assert plain == Embedded().fingerprint
    assert len({plain, one, two}) == 3


def test_a_deterministic_fingerprint_tells_versions_and_processors_apart(monkeypatch):
    found = {Embedded(threads=1, deterministic=True).fingerprint}
    plain = Embedded(threads=1).fingerprint
    for module, name, value in (
        (embedded, "__version__", "0.0"),
        (embedded.platform, "machine", lambda: "another"),
        (np, "show_config", lambda mode: {"SIMD Extensions": {"found": ["AVX9"]}}),
        (sys.modules["onnxruntime"], "__version__", "0.0"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            found.add(Embedded(threads=1, deterministic=True).fingerprint)
            assert Embedded(threads=1).fingerprint == plain
    assert len(found) == 5


def test_a_continuation_past_the_context_fails_alone(model):
    fits, over = Loglik(Prompt(" a" * 2047), (" b",)), Loglik(Prompt(" a" * 2047), (" b", " b c"))
    good, bad = ask_all(model, [fits, over])
    assert isinstance(good, Scored)
    assert isinstance(bad, Failed)
    assert bad.kind == "too_long"


# ---- greedy texts, long documents, prompts that are cut ----


def test_a_continuation_is_greedy_if_it_is_what_the_model_writes(model):
    prompts = [Prompt(text) for text in (*TEXTS, *ODD)]
    own = [*(f" {target}" for target in TARGETS), *ODD]  # the model knows the answers to token lookup
    seen = set()
    for prompt, text in zip(prompts, own, strict=True):
        for tried in (text, f"{text} zz", " q"):
            ids = ids_of(model, prompt.text + tried)
            (found,) = ask_all(model, [Loglik(prompt, (tried,))])[0].likelihoods
            best = logprob_table(model, ids).argmax(axis=1)
            greedy = all(best[at - 1] == ids[at] for at in range(len(ids) - found.tokens, len(ids)))
            assert found.greedy is greedy, (prompt, tried)
            seen.add(greedy)
    assert seen == {True, False}


@pytest.mark.parametrize("start", ["auto", "eos", "none"])
def test_documents_longer_than_the_window(model, start, monkeypatch):
    monkeypatch.setattr(model, "_context_limit", 48)
    text = TEXTS[-1] + TEXTS[0]
    ids = ids_of(model, text)
    assert len(ids) > 96
    whole = ids if start == "none" else [model._eos_id, *ids]
    total, done = 0.0, 1
    while done < len(whole):
        end = min(done + 48, len(whole))
        first = max(end - 49, 0)
        rows = logprob_table(model, whole[first : end - 1])
        total += sum(rows[at - 1 - first, whole[at]] for at in range(done, end))
        done = end
    (one,) = ask_all(model, [Loglik(Prompt(), (text,), rolling=start)])[0].likelihoods
    assert (one.tokens, one.logprob) == (len(whole) - 1, pytest.approx(total, abs=1e-3))
    both = ask_all(model, [Loglik(Prompt(), (text, "Hello there"), rolling=start)])[0].likelihoods
    assert both[0].logprob == pytest.approx(one.logprob)


def test_documents_that_cannot_be_measured(model):
    with pytest.raises(BackendError, match="it has no BOS token"):
        ask_all(model, [Loglik(Prompt(), ("Hello",), rolling="bos")])
    (failed,) = ask_all(model, [Loglik(Prompt(), (" a",), rolling="none")])
    assert failed.kind == "no_tokens"


def test_prompts_are_cut_from_the_left_if_that_is_asked_for(monkeypatch):
    cutting = Embedded(threads=1, truncate="left")
    monkeypatch.setattr(cutting, "_context_limit", 48)
    prompt, text = TEXTS[-1], " a b"
    ids = ids_of(cutting, prompt + text)
    scored, reply, full = ask_all(
        cutting,
        [
            Loglik(Prompt(prompt), (text,)),
            Generate(Prompt(prompt), max_tokens=8),
            Generate(Prompt(" a"), max_tokens=48),
        ],
    )
    rows = logprob_table(cutting, ids[-49:-1])
    expected = rows[-2, ids[-2]] + rows[-1, ids[-1]]
    assert scored.likelihoods[0].logprob == pytest.approx(expected, abs=1e-4)
    assert scored.cut_tokens == len(ids) - 49
    assert (reply.cut_tokens, reply.usage.prompt_tokens) == (len(ids_of(cutting, prompt)) - 40, 40)
    assert full.kind == "too_long"
    assert cutting.fingerprint != Embedded().fingerprint
    with pytest.raises(UsageError, match="truncate is 'right'"):
        Embedded(truncate="right")

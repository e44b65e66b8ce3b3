"""The real vLLM against ``hf:``, on the same tiny model (``make vllm-check``)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vLLM, in its own environment: make vllm-check", allow_module_level=True)

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

from kshot.backends.hf.model import Transformers
from kshot.backends.vllm.model import Vllm
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed, Generate, Generated, Loglik, Message, Prompt, Scored, Usage
from tests.tiny_models import ask_all, build

ROOT = Path(__file__).parents[2]
SHOTS = "Question: what is the answer to this question? Answer: the answer is B.\n\n" * 14
EAGER = ("enforce_eager=true",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build("llama", tmp_path_factory.mktemp("models") / "tiny", bos=True, chat=True, head_dim=32)


@pytest.fixture(scope="module")
def hf(folder):
    return Transformers(str(folder), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def vllm(folder):
    return Vllm(str(folder), dtype="float32", engine_option=EAGER)


@pytest.fixture
def calls(vllm, monkeypatch):
    """For each call of vLLM, the tokens and the cached tokens of each sequence."""
    run, seen = vllm._runtime.run, []

    def counted(prompts, sampling):
        outputs = run(prompts, sampling)
        seen.extend([[(len(p), o.num_cached_tokens) for p, o in zip(prompts, outputs, strict=True)]] if prompts else [])
        return outputs

    monkeypatch.setattr(vllm._runtime, "run", counted)
    return seen


def largest_difference(requests, hf, vllm):
    """Return the largest difference between the two in any log-probability."""
    difference = 0.0
    for one, other in zip(ask_all(hf, requests), ask_all(vllm, requests), strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        for left, right in zip(one.likelihoods, other.likelihoods, strict=True):
            assert left.tokens == right.tokens
            difference = max(difference, abs(left.logprob - right.logprob))
    print(f"largest difference over {len(requests)} requests: {difference:.1e}")
    return difference


# ---- Loglik ----


def test_letters(hf, vllm, calls):
    prompts = [Prompt(f"{SHOTS}Question: {word}? Answer:") for word in ("hello", "the dog", "Paris", "Berlin")]
    assert largest_difference([Loglik(prompt, (" A", " B", " C", " D")) for prompt in prompts], hf, vllm) < 1e-3
    ((*first, last),) = calls
    assert len(first) == 3, "one sequence for each prompt, whatever the number of letters"
    assert last[1] >= 128, "the examples come from the prefix cache"


def test_texts_of_many_lengths(hf, vllm, calls):
    contexts = ["", "The", "The capital of France is", SHOTS[:200], SHOTS, "naïve café, 日本語"]
    texts = (" B", " Paris.", " the lazy dog; the dog sleeps.", " 中文 and 10 11 12", "\n\nPeople say hello", "x")
    requests = [Loglik(Prompt(context), texts) for context in contexts]
    assert largest_difference(requests, hf, vllm) < 1e-3
    assert len(calls) == 1


def test_prompt_logprobs_are_computed_for_the_continuation_only(hf, vllm, calls):
    requests = [
        Loglik(Prompt(SHOTS + "People say"), (" that hello is a greeting", " that the dog sleeps", " 0 1 2 3 4"))
    ]
    assert largest_difference(requests, hf, vllm) < 1e-3
    (seen,) = calls
    assert len(seen) == 4
    assert min(cached for _, cached in seen[1:]) >= 128


def test_log_probabilities_of_cached_tokens_are_computed_again(hf, vllm, calls):
    long = " A quick brown fox jumps over the lazy dog; the dog sleeps." * 12
    requests = [Loglik(Prompt("Hello"), (f"{long} hello there", f"{long} the answer"))]
    assert largest_difference(requests, hf, vllm) < 1e-3
    assert len(calls) == 2
    assert all(cached == 0 for _, cached in calls[1])
    assert largest_difference([Loglik(Prompt(f"Hello{long}"), (" hello there, world",))], hf, vllm) < 1e-3


def test_more_options_than_vllm_lists_at_once(hf, vllm, calls):
    vocabulary = vllm._tokenizer.tokenizer.get_vocab()
    words = [vllm._tokenizer.tokenizer.decode([token]) for token in range(5, len(vocabulary))]
    words = tuple(dict.fromkeys(word for word in words if word and "\ufffd" not in word))
    assert largest_difference([Loglik(Prompt("Question:"), words)], hf, vllm) < 1e-3
    assert len(words) > 128


def test_a_prompt_may_fill_the_context_and_not_exceed_it(hf, vllm):
    fitting = Loglik(Prompt("hello" * 500), (" B",))
    while len(vllm._tokenizer.spans(fitting.prompt, (" B",))[0].tokens) < 512:
        fitting = Loglik(Prompt(fitting.prompt.text + "x"), (" B", " B C D"))
    count = len(vllm._tokenizer.spans(fitting.prompt, (" B",))[0].tokens)
    assert count == 512
    fitting = Loglik(fitting.prompt, (" B",))
    assert largest_difference([fitting], hf, vllm) < 1e-3
    beyond = [
        Loglik(fitting.prompt, (" B C D",)),
        Generate(Prompt("hello " * 600)),
        Generate(Prompt("ok"), max_tokens=2),
    ]
    one, other = ask_all(hf, beyond), ask_all(vllm, beyond)
    assert [type(each) for each in other] == [Failed, Failed, Generated]
    assert [each.message.replace("vllm:", "hf:") for each in other[:2]] == [each.message for each in one[:2]]
    assert {each.kind for each in other[:2]} == {"too_long"}


def test_greedy_continuations_are_those_of_hf(hf, vllm):
    prompts = [Prompt(SHOTS[:length]) for length in range(3, 200, 9)]
    own = [reply.text or " A" for reply in ask_all(hf, [Generate(prompt, max_tokens=1) for prompt in prompts])]
    asked = [Loglik(prompt, (text, f"{text} is", " Paris")) for prompt, text in zip(prompts, own, strict=True)]
    expected = [[each.greedy for each in found.likelihoods] for found in ask_all(hf, asked)]
    assert [[each.greedy for each in found.likelihoods] for found in ask_all(vllm, asked)] == expected
    assert {flag for flags in expected for flag in flags} == {True, False}


def test_an_empty_prompt(hf, vllm, folder):
    assert largest_difference([Loglik(Prompt(""), ("The capital of France", "B", " hello"))], hf, vllm) < 1e-3
    requests = [Generate(Prompt(""), max_tokens=8)]
    assert ask_all(vllm, requests) == ask_all(hf, requests)
    assert ask_all(vllm, [Loglik(Prompt("A"), ())]) == [Scored(())]


def test_conversations(hf, vllm):
    prompt = Prompt(messages=(Message("system", "Be brief."), Message("user", "What is the capital of France?")))
    assert largest_difference([Loglik(prompt, ("Paris", "The capital is Berlin."))], hf, vllm) < 1e-3
    requests = [Generate(prompt, max_tokens=12)]
    assert ask_all(vllm, requests) == ask_all(hf, requests)


# ---- Generate ----


def test_greedy_texts_equal_those_of_hf(hf, vllm, calls):
    prompts = ["The capital of", "Question: what is", "hello\nhello\n", SHOTS, "naïve café", "A quick brown fox"]
    requests = [Generate(Prompt(text), max_tokens=count) for text in prompts for count in (1, 7, 40)]
    requests.append(Generate(Prompt("hello"), max_tokens=0))
    requests.append(Generate(Prompt("hello " * 240), max_tokens=400))
    expected = ask_all(hf, requests)
    assert ask_all(vllm, [*requests, Loglik(Prompt("A"), (" B",))])[:-1] == expected
    assert len(calls) == 1, "texts and log-probabilities in one call"
    assert expected[-1].stop_reason == "window"


def test_stop_strings_are_left_out(hf, vllm):
    prompt = Prompt("The capital of France is")
    whole = ask_all(hf, [Generate(prompt, max_tokens=30)])[0].text
    stops = [(whole[4:6],), (whole[10:13], whole[3:5]), ("never to be seen",), ("",), ("</s>", whole[7:9])]
    requests = [Generate(prompt, max_tokens=30, stop=stop) for stop in stops]
    found = ask_all(vllm, requests)
    assert found == ask_all(hf, requests)
    assert found[0].stop_reason == "stop"
    assert found[0].text == whole.split(whole[4:6])[0]
    assert found[2] == Generated(whole, "length", Usage(found[2].usage.prompt_tokens, 30))


def test_a_repetition_penalty_works_as_in_hf(hf, vllm):
    requests = [Generate(Prompt("hello hello hello"), max_tokens=20, repetition_penalty=value) for value in (1.3, 0.8)]
    assert ask_all(vllm, requests) == ask_all(hf, requests)


def test_sampling_depends_on_seed_and_replica(vllm):
    def texts(**more):
        requests = [Generate(Prompt("The"), max_tokens=12, temperature=1.0, replica=n, **more) for n in range(4)]
        return [response.text for response in ask_all(vllm, requests)]

    assert texts(seed=1) == texts(seed=1)
    assert len(set(texts(seed=1))) > 1
    assert texts(seed=1) != texts(seed=2)
    greedy = ask_all(vllm, [Generate(Prompt("The"), max_tokens=12)])[0].text
    assert set(texts(top_k=1)) == {greedy}
    assert set(texts(top_p=1e-6)) == {greedy}


def test_requests_that_vllm_cannot_answer(vllm):
    with pytest.raises(BackendError, match="no_repeat_ngram_size"):
        ask_all(vllm, [Generate(Prompt("A"), no_repeat_ngram_size=2)])
    with pytest.raises(BackendError, match="temperature must be in"):
        ask_all(vllm, [Generate(Prompt("A"), temperature=3.0)])


# ---- the engine ----


def test_engine_options_reach_vllm_and_wrong_ones_are_named(folder):
    small = Vllm(
        str(folder), dtype="float32", engine_option=(*EAGER, "max_model_len=64", "enable_prefix_caching=false")
    )
    (failed, fine) = ask_all(small, [Generate(Prompt("hello " * 80)), Loglik(Prompt("hello " * 40), (" a b c d",))])
    assert isinstance(failed, Failed)
    assert isinstance(fine, Scored)
    assert not small._runtime.caches_prefixes
    with pytest.raises(UsageError, match="nonsense"):
        ask_all(Vllm(str(folder), engine_option=("nonsense=1",)), [Generate(Prompt("A"))])
    with pytest.raises(BackendError, match="could not start"):
        ask_all(Vllm(str(folder), engine_option=("max_model_len=100000",)), [Generate(Prompt("A"))])


def test_two_models_one_after_the_other(folder, tmp_path, hf):
    other = build("llama", tmp_path / "other", head_dim=32, seed=7)
    requests = [Loglik(Prompt("The capital"), (" of France", " B"))]
    assert (
        largest_difference(requests, Transformers(str(other), device="cpu"), Vllm(str(other), engine_option=EAGER))
        < 1e-3
    )
    assert largest_difference(requests, hf, Vllm(str(folder), engine_option=EAGER)) < 1e-3


def test_documents_and_cut_prompts_leave_room_for_one_token(folder):
    long = SHOTS * 2
    here = Transformers(str(folder), device="cpu", dtype="float32", max_length=127, truncate="left")
    there = Vllm(str(folder), dtype="float32", truncate="left", engine_option=(*EAGER, "max_model_len=128"))
    asked = [Loglik(Prompt(), (long, "hello there"), rolling=start) for start in ("auto", "bos", "eos", "none")]
    asked.append(Loglik(Prompt(long), (" A", " the answer")))
    assert largest_difference(asked, here, there) < 1e-2  # a sum over 700 tokens
    assert ask_all(there, asked[-1:])[0].cut_tokens == ask_all(here, asked[-1:])[0].cut_tokens > 0
    (reply,) = ask_all(there, [Generate(Prompt(long), max_tokens=9)])
    assert reply.usage.prompt_tokens == 128 - 9
    there.close()


def test_the_command_line(folder, tmp_path):
    def run(model):
        words = [
            "run",
            "-m",
            model,
            "-d",
            str(ROOT / "examples/planets.py:Planets"),
            "-k",
            "1",
            "--json",
            "--dtype",
            "float32",
        ]
        words += ["--engine-option", "enforce_eager=true", "--out", str(tmp_path / model[:2])]
        done = subprocess.run(
            [sys.executable, "-m", "kshot", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    one, other = run(f"hf:{folder}"), run(f"vllm:{folder}")
    strip = [{name: value for name, value in row.items() if name != "model"} for row in other["results"]]
    assert strip == [{name: value for name, value in row.items() if name != "model"} for row in one["results"]]

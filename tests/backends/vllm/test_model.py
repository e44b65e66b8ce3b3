"""``vllm:`` models over a stand-in for vLLM: options, what is asked of it, and answers equal to those of ``hf:``."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from kshot.backends import MODELS, open_model
from kshot.backends.hf.model import Transformers
from kshot.backends.vllm import model as module
from kshot.backends.vllm.model import MIN_CONTEXT_TOKENS, Vllm, parse_engine_options, plan_queries, span_logprobs
from kshot.core.errors import BackendError, MissingExtra, UsageError
from kshot.core.records import Failed, Generate, Generated, Likelihood, Loglik, Message, Prompt, Scored
from kshot.settings import settings_from
from tests import fake_vllm
from tests.tiny_models import Queue, ask_all, build

SHOTS = "Question: what is the answer to this question? Answer: the answer is B.\n\n" * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build("llama", tmp_path_factory.mktemp("models") / "tiny", bos=True, chat=True)


@pytest.fixture(scope="module")
def hf(folder):
    return Transformers(str(folder), device="cpu")


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    for name in module._QUIET_ENVIRONMENT:
        monkeypatch.setenv(name, os.environ.get(name, ""))
        monkeypatch.delenv(name)
    fake_vllm.install(monkeypatch)


@pytest.fixture
def vllm(folder):
    return Vllm(str(folder))


def span(tokens, start):
    return SimpleNamespace(tokens=tokens, start=start)


def calls(backend):
    return backend._runtime._llm.calls


def largest_difference(asked, one, other):
    pairs = zip(ask_all(one, asked), ask_all(other, asked), strict=True)
    found = [(a, b) for left, right in pairs for a, b in zip(left.likelihoods, right.likelihoods, strict=True)]
    assert all(a.tokens == b.tokens for a, b in found)
    return max(abs(a.logprob - b.logprob) for a, b in found)


# ---- options ----


def test_engine_options_are_json_or_text():
    given = ("tensor_parallel_size=2", "gpu-memory-utilization=0.5", "kv_cache_dtype=fp8", "enforce_eager=True", "x=")
    assert parse_engine_options(given) == {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.5,
        "kv_cache_dtype": "fp8",
        "enforce_eager": True,
        "x": "",
    }
    assert parse_engine_options(('hf_overrides={"rope_theta": 1e6}', "a=b=c", "--seed=null")) == {
        "hf_overrides": {"rope_theta": 1e6},
        "a": "b=c",
        "seed": None,
    }


def test_a_model_is_split_over_gpus_by_vllm_itself(folder, hf):
    split = Vllm(str(folder), engine_option=("tensor_parallel_size=2", "pipeline_parallel_size=2"))
    asked = [Loglik(Prompt("The capital of France is"), (" Paris", " Berlin"))]
    assert largest_difference(asked, hf, split) < 1e-4
    given = split._runtime._llm.options
    assert (given["tensor_parallel_size"], given["pipeline_parallel_size"]) == (2, 2)


def test_copies_in_one_process_are_refused_before_vllm_starts(folder):
    """vLLM 0.33 refuses them itself ("may hang"), after minutes."""
    with pytest.raises(UsageError, match=r"vLLM runs one copy .*--data-parallel-size N.*openai:MODEL"):
        Vllm(str(folder), engine_option=("data_parallel_size=2",))
    launched = ("data_parallel_size=2", "distributed_executor_backend=external_launcher")
    assert parse_engine_options(launched)["data_parallel_size"] == 2


@pytest.mark.parametrize("text", ["tensor_parallel_size", "=2", "a b=2"])
def test_an_engine_option_is_a_name_and_a_value(text):
    with pytest.raises(UsageError, match=r"NAME=VALUE"):
        parse_engine_options((text,))


def test_an_engine_option_that_another_option_sets_is_refused():
    with pytest.raises(UsageError, match="set by --dtype"):
        parse_engine_options(("dtype=float16",))


def test_the_setting_reaches_vllm_models_only(folder):
    settings = settings_from({"engine_option": "max_model_len=64"})
    assert settings.identity()["engine_option"] == ["max_model_len=64"]
    options = {"engine_option": settings.engine_option, "batch_size": 4, "dtype": None}
    opened = open_model(f"vllm:{folder}", options)
    assert isinstance(ask_all(opened, [Generate(Prompt("hello " * 80))])[0], Failed)
    assert isinstance(open_model(f"hf:{folder}", options), Transformers)
    assert MODELS.find("vllm") is not None


def test_without_vllm_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtra, match=r"needs the package 'vllm'.*pip install 'kshot\[vllm\]'"):
        Vllm(str(folder))


def test_vllm_chooses_its_device(folder):
    Vllm(str(folder), device="cpu")
    Vllm(str(folder), device="auto")
    with pytest.raises(UsageError, match=r"CUDA_VISIBLE_DEVICES"):
        Vllm(str(folder), device="cpu:0")


def test_wrong_options_and_failed_starts_are_errors(folder):
    with pytest.raises(UsageError, match="nonsense"):
        ask_all(Vllm(str(folder), engine_option=("nonsense=1",)), [Generate(Prompt("A"))])
    with pytest.raises(BackendError, match=r"could not start \(no memory\)"):
        ask_all(Vllm(str(folder), engine_option=("gpu_memory_utilization=2",)), [Generate(Prompt("A"))])


# ---- identity ----


def test_name_answers_and_abilities(vllm, hf, folder):
    assert vllm.name == f"vllm:{folder}"
    assert vllm.answers == (Generate, Loglik)
    assert vllm.abilities.chat_template
    assert vllm.count_tokens("hello") == 1
    assert "_runtime" not in vars(vllm), "vLLM starts with the first request"


def test_fingerprint_covers_what_changes_answers(folder, hf):
    base = Vllm(str(folder)).fingerprint
    assert base == Vllm(str(folder), engine_option=("tensor_parallel_size=2", "gpu_memory_utilization=0.5")).fingerprint
    assert base == Vllm(str(folder), engine_option=("pipeline_parallel_size=2", "data_parallel_size=1")).fingerprint
    different = {
        hf.fingerprint,
        Vllm(str(folder), dtype="bfloat16").fingerprint,
        Vllm(str(folder), add_bos=False).fingerprint,
        Vllm(str(folder), chat_template="{{ messages[0].content }}").fingerprint,
        Vllm(str(folder), engine_option=("max_model_len=64",)).fingerprint,
        Vllm(str(folder), engine_option=("quantization=fp8",)).fingerprint,
    }
    assert len(different | {base}) == 7


def test_it_starts_quietly_and_stops(vllm, capfd):
    ask_all(vllm, [Generate(Prompt("A"), max_tokens=1)])
    llm = vllm._runtime._llm
    assert "noise" not in capfd.readouterr().out
    assert llm.options["enable_prefix_caching"] is True
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    vllm.close()
    assert llm.stopped
    ask_all(vllm, [Generate(Prompt("A"), max_tokens=1)])
    assert not vllm._runtime._llm.stopped
    vllm.close()


# ---- Loglik ----


def test_a_plan_reads_contexts_once():
    long, start = tuple(range(100, 100 + MIN_CONTEXT_TOKENS)), MIN_CONTEXT_TOKENS
    letters = [span((*long, token), start) for token in (1, 2, 3)]
    queries = plan_queries(letters, cached=True).values()
    assert [(query.tokens, list(query.next_tokens), query.own_from) for query in queries] == [(long, [1, 2, 3], None)]
    text = [span((*long, 1, 2, 3, 4), start)]
    context, whole = plan_queries(text, cached=True).values()
    assert (context.tokens, list(context.next_tokens), context.own_from) == (long, [1], None)
    assert (whole.tokens, list(whole.next_tokens), whole.own_from) == ((*long, 1, 2, 3), [4], start + 1)
    (alone,) = plan_queries(text, cached=False).values()
    assert (list(alone.next_tokens), alone.own_from) == ([4], start)
    (short,) = plan_queries([span((7, 1, 2, 3), 1)], cached=True).values()
    assert short.own_from == 1


def test_the_logprob_of_a_span_is_the_sum_of_what_its_queries_found():
    text = span((*range(100, 100 + MIN_CONTEXT_TOKENS), 1, 2, 3), MIN_CONTEXT_TOKENS)
    queries = plan_queries([text], cached=True)
    for query in queries.values():
        query.next_tokens = dict.fromkeys(query.next_tokens, -1.0)
        if query.own_from is not None:
            query.own = dict.fromkeys(range(query.own_from, len(query.tokens)), -10.0)
    values, greedy = span_logprobs(text, queries)
    assert (sum(values), len(values), greedy) == (-12.0, 3, False)
    for query in queries.values():
        query.likeliest = next(iter(query.next_tokens))
        query.greedy = set(query.own)
    values, greedy = span_logprobs(text, queries)
    assert (sum(values), len(values), greedy) == (-12.0, 3, True)


@pytest.mark.parametrize("short_rows", [False, True])
@pytest.mark.parametrize("cache", [True, False])
def test_log_probabilities_are_those_of_hf(folder, hf, monkeypatch, short_rows, cache):
    monkeypatch.setattr(fake_vllm.LLM, "short_rows", short_rows)
    vllm = Vllm(str(folder), engine_option=(f"enable_prefix_caching={cache}",))
    texts = (" A", " B", " Paris.", " the lazy dog; the dog sleeps.", "\n\nPeople say hello", " 0 1 2 3 4 5", "x")
    contexts = ["", "The", "The capital of France is", SHOTS, SHOTS + "Question: hello? Answer:", "naïve café, 日本語"]
    asked = [Loglik(Prompt(context), texts) for context in contexts]
    asked.append(Loglik(Prompt(messages=(Message("user", "What is the capital of France?"),)), ("Paris", " is B.")))
    assert largest_difference(asked, hf, vllm) < 1e-4
    first = calls(vllm)[0]
    assert (max(cached for _, cached in first) > 100) is cache


@pytest.mark.parametrize("short_rows", [False, True])
def test_log_probabilities_of_cached_tokens_are_computed_again(vllm, hf, monkeypatch, short_rows):
    monkeypatch.setattr(fake_vllm.LLM, "short_rows", short_rows)
    long = " A quick brown fox jumps over the lazy dog; the dog sleeps." * 3
    assert largest_difference([Loglik(Prompt("Hello"), (f"{long} hello there", f"{long} the answer"))], hf, vllm) < 1e-4
    once, again = calls(vllm)
    assert len(once) == 2
    assert [cached for _, cached in again] == [0]


@pytest.mark.parametrize("cache", [True, False])
def test_greedy_continuations_are_those_of_hf(folder, hf, cache):
    vllm = Vllm(str(folder), engine_option=(f"enable_prefix_caching={cache}",))
    prompts = [Prompt(SHOTS[:length]) for length in range(3, 200, 9)]
    own = [reply.text or " A" for reply in ask_all(hf, [Generate(prompt, max_tokens=1) for prompt in prompts])]
    asked = [Loglik(prompt, (text, f"{text} is", " Paris")) for prompt, text in zip(prompts, own, strict=True)]
    expected = [[each.greedy for each in found.likelihoods] for found in ask_all(hf, asked)]
    assert [[each.greedy for each in found.likelihoods] for found in ask_all(vllm, asked)] == expected
    assert {flag for flags in expected for flag in flags} == {True, False}


def test_long_documents_and_cut_prompts_are_those_of_hf_with_room_for_one_token(folder):
    long = SHOTS * 2
    cutting = Vllm(str(folder), truncate="left", engine_option=("max_model_len=65",))
    hf = Transformers(str(folder), device="cpu", max_length=64, truncate="left")
    documents = [Loglik(Prompt(), (long, "hello there"), rolling=start) for start in ("auto", "bos", "eos", "none")]
    asked = [*documents, Loglik(Prompt(long), (" A", " the answer"))]
    for one, other in zip(ask_all(hf, asked), ask_all(cutting, asked), strict=True):
        for here, there in zip(one.likelihoods, other.likelihoods, strict=True):
            assert (there.tokens, there.greedy) == (here.tokens, here.greedy)
            assert there.logprob == pytest.approx(here.logprob, abs=1e-3)
        assert one.cut_tokens == other.cut_tokens
    assert one.cut_tokens > 0
    (reply,) = ask_all(cutting, [Generate(Prompt(long), max_tokens=9)])
    assert reply.usage.prompt_tokens == 65 - 9
    assert reply.cut_tokens == len(cutting._tokenizer.encode_prompt(Prompt(long))) - (65 - 9)
    assert cutting.abilities.cuts_prompts
    assert cutting.fingerprint != Vllm(str(folder), engine_option=("max_model_len=65",)).fingerprint


def test_a_reply_that_fills_the_window_says_so(folder):
    vllm = Vllm(str(folder), engine_option=("max_model_len=64",))
    asked = [Generate(Prompt(SHOTS[:150]), max_tokens=count) for count in (2, 500)]
    short, full = ask_all(vllm, asked)
    assert short.usage.prompt_tokens < 60
    assert (short.stop_reason, full.stop_reason) == ("length", "window")
    assert full.usage.prompt_tokens + full.usage.completion_tokens == 64


def test_letters_take_one_sequence_a_prompt(vllm, hf):
    asked = [Loglik(Prompt(f"{SHOTS}{word} Answer:"), (" A", " B", " C", " D")) for word in ("hello", "Paris", "the")]
    assert largest_difference(asked, hf, vllm) < 1e-4
    ((*_, last),) = calls(vllm)
    assert len(calls(vllm)[0]) == 3
    assert last[1] > 100


def test_more_options_than_vllm_gives_at_once(vllm, hf):
    words = tuple(chr(code) for code in range(33, 127)) + tuple(f" {chr(code)}" for code in range(65, 123))
    assert largest_difference([Loglik(Prompt("Question:"), words)], hf, vllm) < 1e-4
    assert len(calls(vllm)[0]) > 1


def test_logits_that_are_not_numbers_are_an_error(vllm):
    vllm._runtime._llm.model.lm_head.weight.data.fill_(math.nan)
    with pytest.raises(BackendError, match="NaN"):
        ask_all(vllm, [Loglik(Prompt("A"), (" B",))])


# ---- Generate ----


def test_texts_are_those_of_hf_in_one_call(vllm, hf):
    prompt = Prompt("The capital of France is")
    whole = ask_all(hf, [Generate(prompt, max_tokens=20)])[0].text
    asked = [Generate(prompt, max_tokens=20, stop=stop) for stop in ((), (whole[4:6],), ("",), ("</s>", whole[6:8]))]
    asked += [Generate(Prompt(""), max_tokens=5), Generate(Prompt("hello"), max_tokens=0)]
    asked += [Generate(Prompt(messages=(Message("user", "hello"),)), max_tokens=5), Generate(Prompt("x" * 508))]
    expected = ask_all(hf, asked)
    answers = ask_all(vllm, [*asked, Loglik(Prompt("A"), (" B",)), Loglik(Prompt("A"), ())])
    assert answers[:-2] == expected
    assert answers[-1] == Scored(())
    assert len(calls(vllm)) == 1


def test_a_request_that_is_too_long_fails_alone(vllm, hf):
    long = "Question: what is the answer? " * 60
    asked = [Generate(Prompt(long)), Loglik(Prompt(long), (" A",)), Generate(Prompt("A"), max_tokens=2)]
    one, other = ask_all(hf, asked), ask_all(vllm, asked)
    assert [type(each) for each in other] == [Failed, Failed, Generated]
    assert [(each.kind, each.message.replace("vllm:", "hf:")) for each in other[:2]] == [
        (each.kind, each.message) for each in one[:2]
    ]


def test_sampling_fields_are_handed_on(vllm):
    asked = Generate(Prompt("A"), max_tokens=9, temperature=0.7, top_p=0.9, top_k=5, repetition_penalty=1.2, seed=3)
    given = vllm._sampling_params(asked, 9)
    assert (given.max_tokens, given.temperature, given.top_p, given.top_k) == (9, 0.7, 0.9, 5)
    assert given.repetition_penalty == 1.2
    assert not given.detokenize
    other = vllm._sampling_params(Generate(Prompt("A"), temperature=0.7, replica=1, seed=3), 2)
    assert other.max_tokens == 2
    assert 0 <= given.seed < 2**63
    assert given.seed != other.seed
    assert vllm._sampling_params(Generate(Prompt("A"), seed=3, stop=("</s>", "x")), 1).stop_token_ids == [1]
    assert vllm._sampling_params(Generate(Prompt("A"), seed=3), 1).seed is None


def test_settings_that_vllm_does_not_take_are_errors(vllm):
    with pytest.raises(BackendError, match="no_repeat_ngram_size"):
        ask_all(vllm, [Generate(Prompt("A"), no_repeat_ngram_size=2)])
    with pytest.raises(BackendError, match=r"refused a request \(temperature"):
        ask_all(vllm, [Generate(Prompt("A"), temperature=3.0)])


def test_a_text_that_vllm_aborts_is_a_failure(vllm, monkeypatch):
    monkeypatch.setattr(fake_vllm.LLM, "_write", lambda *_: ([5], None, "abort"))
    (failed,) = ask_all(vllm, [Generate(Prompt("A"))])
    assert isinstance(failed, Failed)
    assert failed.retryable


def test_requests_that_arrive_later_are_served_too(vllm):
    first, second = Generate(Prompt("A"), max_tokens=2), Loglik(Prompt("A"), ("B",))
    assert {request for request, _ in vllm.serve(Queue([first], later=[second]))} == {first, second}
    assert len(calls(vllm)) == 2


# ---- log-probabilities of tokens ----


def test_the_tokens_are_those_of_hf(vllm, hf):
    requests = [
        Generate(Prompt(f"{SHOTS}The capital of France is"), max_tokens=12),
        Generate(Prompt("The quick"), max_tokens=12, stop=("e",)),
        Loglik(Prompt(f"{SHOTS}The capital of France is"), (" Paris", " 日本🙂 naïve", "!")),
        Loglik(Prompt("Hello"), (" there", " world, hello")),
        Loglik(Prompt(), ("hello there, people",), rolling="auto"),
    ]
    asked = [replace(each, token_logprobs=True) for each in requests]
    plain = ask_all(vllm, requests)
    for one, found, known in zip(plain, ask_all(vllm, asked), ask_all(hf, asked), strict=True):
        mine, theirs, before = (
            [each] if isinstance(each, Generated) else each.likelihoods for each in (found, known, one)
        )
        for a, b, c in zip(mine, theirs, before, strict=True):
            assert replace(a, token_logprobs=None) == c
            assert [text for text, _ in a.token_logprobs] == [text for text, _ in b.token_logprobs]
            assert [p for _, p in a.token_logprobs] == pytest.approx([p for _, p in b.token_logprobs], abs=1e-3)
            if isinstance(a, Likelihood):
                assert sum(p for _, p in a.token_logprobs) == pytest.approx(a.logprob, abs=1e-6)

"""The contract of ``hf:`` models: what they answer, and what they refuse."""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import weakref
from collections import Counter
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import kshot  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.backends.hf.sampling import apply_penalties, apply_sampling, gumbel_noise  # noqa: E402
from kshot.backends.hf.tokens import PromptTokenizer  # noqa: E402
from kshot.core import hub  # noqa: E402
from kshot.core.errors import BackendError, MissingExtra, UsageError  # noqa: E402
from kshot.core.records import (  # noqa: E402
    Failed,
    Generate,
    Generated,
    Loglik,
    Message,
    Prompt,
    Scored,
)
from tests.datasets.fakes import choice  # noqa: E402
from tests.tiny_models import CHAT, Queue, ask_all, build, copied, tokenizer_of  # noqa: E402

LONG = "Question: what is the answer to this question? " * 60


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {
        "llama": build("llama", base / "llama"),
        "bos": build("llama", base / "bos", bos=True, chat=True),
        "gpt2": build("gpt2", base / "gpt2"),
    }


@pytest.fixture(scope="session")
def llama(folders):
    return Transformers(str(folders["llama"]), device="cpu", batch_size=4)


@pytest.fixture(scope="session")
def chat(folders):
    return Transformers(str(folders["bos"]), device="cpu", batch_size=4)


def text_of(response) -> str:
    assert isinstance(response, Generated), response
    return response.text


@torch.no_grad()
def greedy_ids(backend, prompt: str, count: int) -> list[int]:
    ids = list(backend._tokenizer.encode_prompt(Prompt(prompt)))
    for _ in range(count):
        ids.append(int(backend._model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-count:]


# ---- identity ----


def test_a_closed_model_is_gone_at_once_and_can_be_asked_again(folders):
    backend = Transformers(str(folders["llama"]), device="cpu")
    asked = [Loglik(Prompt("The answer"), (" is", " is B")), Generate(Prompt("The answer"), max_tokens=3)]
    before = ask_all(backend, asked)
    model = weakref.ref(backend._model)
    gc.disable()  # the memory of a GPU cannot wait for the garbage collector
    try:
        backend.close()
        assert model() is None
    finally:
        gc.enable()
    assert ask_all(backend, asked) == before
    backend.close()
    backend.close()


def test_name_answers_and_abilities(llama, chat, folders):
    assert llama.name == f"hf:{folders['llama']}"
    assert llama.answers == (Generate, Loglik)
    assert (llama.abilities.chat_template, chat.abilities.chat_template) == (False, True)
    assert llama.abilities.count_tokens is not None
    assert llama.context_limit == 512
    assert chat.count_tokens("hello") == 1
    assert chat.count_tokens("") == 0
    assert chat.count_tokens("\ud800") > 0


def test_fingerprint_covers_what_changes_answers(folders, tmp_path):
    def fingerprint(folder, **options):
        return Transformers(str(folder), device="cpu", **options).fingerprint

    base = fingerprint(folders["bos"])
    assert base == fingerprint(folders["bos"], batch_size=1, padding_side="right")
    assert base == fingerprint(copied(folders["bos"], tmp_path / "moved"))
    different = {
        fingerprint(folders["llama"]),
        fingerprint(folders["gpt2"]),
        fingerprint(folders["bos"], dtype="bfloat16"),
        fingerprint(folders["bos"], add_bos=False),
        fingerprint(folders["bos"], chat_template="{{ messages[0].content }}"),
        fingerprint(build("llama", tmp_path / "seed", bos=True, chat=True, seed=1)),
    }
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        changed = copied(folders["bos"], tmp_path / f"changed-{name}")
        file = changed / name
        file.write_text(file.read_text() + " ")
        different.add(fingerprint(changed))
    assert len(different | {base}) == 11


def test_big_weights_are_sampled_at_both_ends_and_between(tmp_path):
    file = tmp_path / "model.safetensors"
    whole = bytearray(hub._BLOCK_BYTES * 40)
    file.write_bytes(whole)
    seen = {b"".join(hub._sampled_blocks(file))}
    for place in (0, len(whole) - 1, (len(whole) - hub._BLOCK_BYTES) * 5 // 17 + 3):
        file.write_bytes(whole[:place] + b"\1" + whole[place + 1 :])
        seen.add(b"".join(hub._sampled_blocks(file)))
    assert len(seen) == 4


def test_the_weights_wait_for_the_first_request(folders):
    backend = Transformers(str(folders["llama"]), device="cpu")
    assert backend.fingerprint
    assert "_model" not in vars(backend)
    ask_all(backend, [Generate(Prompt("A"), max_tokens=1)])
    assert "_model" in vars(backend)


# ---- the queue ----


def test_requests_that_arrive_later_are_served_too(llama):
    first, second = Generate(Prompt("A"), max_tokens=2), Loglik(Prompt("A"), ("B",))
    assert {request for request, _ in llama.serve(Queue([first], later=[second]))} == {first, second}
    assert list(llama.serve(Queue([]))) == []


def test_longest_first_and_each_as_soon_as_it_is_known(llama):
    asked = [Loglik(Prompt("hello " * count), (" world", " there")) for count in (1, 30, 5, 60)]
    order = [request for request, _ in llama.serve(Queue(asked))]
    assert order == sorted(asked, key=lambda request: -len(request.prompt.text))
    serving = llama.serve(Queue(asked * 2))
    assert isinstance(next(serving)[1], Scored)


# ---- Loglik ----


def test_equal_inputs_are_run_once(llama):
    letters = Loglik(Prompt("The answer is"), (" A", " B", " C", " D", " A"))
    before = llama.token_counts.computed
    (scored,) = ask_all(llama, [letters])
    assert llama.token_counts.computed - before == llama.count_tokens("The answer is")
    assert scored.likelihoods[0] == scored.likelihoods[4]
    assert math.exp(sum(item.logprob for item in scored.likelihoods[:4])) < 1


def test_a_straddling_token_belongs_to_the_continuation(llama):
    tokenizer = llama._tokenizer
    assert len(tokenizer.encode("hello")) == 1
    (span,) = tokenizer.spans(Prompt("Say hel"), ("lo",))
    assert tokenizer._decode(list(span.tokens[span.start :])) == " hello"
    # The tokenizer's own offsets leave out a token's spaces; ours do not.
    (span,) = tokenizer.spans(Prompt("Say"), (" hello",))
    assert tokenizer._decode(list(span.tokens[span.start :])) == " hello"


def test_a_tokenizer_without_offsets_uses_the_common_prefix():
    fast = PromptTokenizer(tokenizer_of(bos=True), "x", chat_template=None, add_bos=None)
    slow = PromptTokenizer(tokenizer_of(bos=True), "x", chat_template=None, add_bos=None)
    slow._backend = None
    for context, text in [("The capital of France is", " Paris"), ("Say hel", "lo world"), ("", "hello there")]:
        assert slow.spans(Prompt(context), (text,)) == fast.spans(Prompt(context), (text,))


def test_bos_exactly_where_the_tokenizer_adds_it_and_never_eos(folders):
    def prompt_ids(name, **options):
        backend = Transformers(str(folders[name]), device="cpu", **options)
        return backend._tokenizer.encode_prompt(Prompt("hello"))

    hello = prompt_ids("llama")
    assert len(hello) == 1
    assert prompt_ids("bos") == (0, *hello)
    assert prompt_ids("bos", add_bos=False) == hello
    assert prompt_ids("llama", add_bos=True) == (0, *hello)
    assert prompt_ids("bos", add_bos=True) == (0, *hello)


def test_bos_is_not_written_twice(chat, folders):
    messages = Prompt(messages=(Message("user", "hello"),))
    assert chat._tokenizer.encode_prompt(messages).count(0) == 1
    assert chat._tokenizer.encode_prompt(Prompt("<s>hello")).count(0) == 1
    forced = Transformers(str(folders["bos"]), device="cpu", add_bos=True)
    assert forced._tokenizer.encode_prompt(messages).count(0) == 1


def test_an_empty_prompt_scores_the_text_itself(llama, chat):
    text = "hello there"
    (plain,) = ask_all(llama, [Loglik(Prompt(), (text,))])
    (with_bos,) = ask_all(chat, [Loglik(Prompt(), (text,))])
    assert plain.likelihoods[0].tokens == llama.count_tokens(text) - 1
    assert with_bos.likelihoods[0].tokens == llama.count_tokens(text)


def test_white_space_at_the_end_of_a_prompt_may_be_scored_with_the_text(llama):
    """lm-eval's rule, by the sums: the space's own log-probability is added to that of the text after it."""
    whole, after, moved = ask_all(
        llama,
        [
            Loglik(Prompt("hello"), ("\n the", "\n")),
            Loglik(Prompt("hello\n"), (" the",)),
            Loglik(Prompt("hello\n"), (" the",), spaced=True),
        ],
    )
    both, space = (each.logprob for each in whole.likelihoods)
    assert after.likelihoods[0].logprob == pytest.approx(both - space, abs=1e-4)
    assert moved.likelihoods[0] == whole.likelihoods[0]


def test_by_lm_evals_rule_the_prompt_is_encoded_alone_and_its_tokens_are_counted(llama):
    encode = llama._tokenizer.encode
    cases = [("Say hel", "lo world"), ("the answer is", " B."), ("Say hello\n", " there"), ("A:\n\n", "hello")]
    straddled = 0
    for context, text in cases:
        bare = context.rstrip()
        before, whole = encode(bare), encode(context + text)
        straddled += whole[: len(before)] != before
        (span,) = llama._tokenizer.spans(Prompt(context, rules="lm-eval"), (text,))
        assert (span.tokens, span.start) == ((*before, *whole[len(before) :]), len(before))
        (scored,) = ask_all(llama, [Loglik(Prompt(context, rules="lm-eval"), (text,), token_logprobs=True)])
        assert scored.likelihoods[0].tokens == len(whole) - len(before)
    assert straddled


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_token_that_the_model_rules_out_fails_its_request_alone(folders, batch_size):
    model = Transformers(str(folders["llama"]), device="cpu", batch_size=batch_size)
    (banned,) = model._tokenizer.encode("z")

    def rule_out(module, arguments, logits):
        logits[..., banned] = -float("inf")
        return logits

    model._model.lm_head.register_forward_hook(rule_out)
    asked = [Loglik(Prompt("A"), (" b", "z")), Loglik(Prompt("A"), (" b", " c"))]
    ruled_out, scored = ask_all(model, asked)
    assert ruled_out.likelihoods[1].logprob == -math.inf  # the engine makes a failure of it
    assert len(scored.likelihoods) == 2
    rows = [{"q": "Well?", "options": [end, "x"], "target_idx": 0} for end in ("no", "z", "y")]
    result = kshot.evaluate(model, choice(rows))
    assert [sample.get("failed", "")[:11] for sample in result.samples] == ["", "impossible:", ""]


def test_one_option_that_cannot_be_scored_is_one_failed_sample(llama):
    rows = [{"q": q, "options": ["no", "x"], "target_idx": 0} for q in ("Well?", "", "So?")]
    result = kshot.evaluate(llama, choice(rows))
    assert [sample["id"] for sample in result.samples if "failed" in sample] == ["1"]
    assert (result.results[0]["n"], result.results[0]["failed"]) == (2, 1)


def test_a_text_without_scorable_tokens_fails_its_request_alone(llama):
    good = Loglik(Prompt("A"), (" b", " c"))
    first, empty, scored = ask_all(llama, [Loglik(Prompt(), ("hello",)), Loglik(Prompt("A"), ("B", "")), good])
    assert (first.kind, empty.kind) == ("no_tokens", "no_tokens")
    assert first.message == (
        "no token of the text can be scored: 'hello' after ''; "
        "a first token is predicted only after a prompt, or after BOS (add_bos)"
    )
    assert empty.message == "no token of the text can be scored: '' after 'A'"
    assert len(scored.likelihoods) == 2
    assert ask_all(llama, [Loglik(Prompt("A"), ())]) == [Scored(())]


def test_lone_surrogates_are_replaced(llama):
    (scored,) = ask_all(llama, [Loglik(Prompt("A\ud800"), ("\udc00B",))])
    assert scored.likelihoods[0].tokens > 0


# ---- the context limit ----


def test_too_long_is_a_failure_with_its_lengths(llama):
    count = llama.count_tokens(LONG)
    assert count > 512
    scored, written, fine = ask_all(
        llama, [Loglik(Prompt(LONG), (" A", " B")), Generate(Prompt(LONG)), Loglik(Prompt("A"), ("B",))]
    )
    assert isinstance(fine, Scored)
    for failed in (scored, written):
        assert isinstance(failed, Failed)
        assert failed.kind == "too_long"
        assert not failed.retryable
        assert "512" in failed.message
    assert str(count) in written.message


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_max_tokens_are_limited_to_the_context(folders, name):
    backend = Transformers(str(folders[name]), device="cpu", batch_size=16)
    full = "A" * 512
    assert backend.count_tokens(full) == 512
    asked = [Generate(Prompt(full[:length]), max_tokens=40) for length in (512, 511, 500, 10)]
    none, one, some, all_ = ask_all(backend, asked)
    assert isinstance(none, Failed)
    assert one.usage.completion_tokens == 1
    assert some.usage.completion_tokens <= 12
    assert all_.usage.completion_tokens <= 40
    # Exactly the context's length can still be scored.
    scored, failed = ask_all(backend, [Loglik(Prompt(full[:511]), ("A",)), Loglik(Prompt(full), ("A",))])
    assert isinstance(scored, Scored)
    assert isinstance(failed, Failed)


def test_a_smaller_window(folders):
    path = str(folders["gpt2"])
    small = Transformers(path, device="cpu", max_length=8)
    assert small.context_limit == 8
    fine, failed = ask_all(small, [Loglik(Prompt("A"), (" B",)), Loglik(Prompt("A quick brown fox jumps"), (" over",))])
    assert isinstance(fine, Scored)
    assert (failed.kind, failed.message[-2:]) == ("too_long", " 8")
    prints = {Transformers(path, **more).fingerprint for more in ({}, {"max_length": 8}, {"truncate": "left"})}
    assert len(prints) == 3
    for wrong, message in (({"max_length": 0}, "max_length is 0"), ({"max_length": 513}, "window has 512 tokens")):
        with pytest.raises(UsageError, match=message):
            Transformers(path, **wrong)
    with pytest.raises(UsageError, match="truncate is 'right'"):
        Transformers(path, truncate="right")


def test_no_tokens_asked_none_written(llama):
    (response,) = ask_all(llama, [Generate(Prompt("A"), max_tokens=0)])
    assert (response.text, response.stop_reason, response.usage.completion_tokens) == ("", "length", 0)


# ---- Generate ----


def test_stop_strings_cut_before_their_first_occurrence(llama):
    prompts = [Prompt(text) for text in ("The capital of", "hello", "Question: what", "A quick")]
    plain = ask_all(llama, [Generate(prompt, max_tokens=30) for prompt in prompts])
    stops = [(whole.text[6:9], "not in there") for whole in plain]
    asked = [Generate(prompt, max_tokens=30, stop=stop) for prompt, stop in zip(prompts, stops, strict=True)]
    for whole, stop, found in zip(plain, stops, ask_all(llama, asked), strict=True):
        assert found.text == whole.text[: whole.text.index(stop[0])]
        assert found.stop_reason == "stop"
        assert found.usage.completion_tokens < 30
    for request, found in zip(asked, ask_all(llama, asked), strict=True):
        assert ask_all(llama, [request]) == [found]


def test_a_batch_ends_when_all_its_rows_are_finished(llama, monkeypatch):
    steps = []
    forward = llama._model.forward
    monkeypatch.setattr(llama._model, "forward", lambda *args, **kwargs: steps.append(1) or forward(*args, **kwargs))
    prompt = Prompt("The capital of")
    (whole,) = ask_all(llama, [Generate(prompt, max_tokens=40)])
    steps.clear()
    ask_all(llama, [Generate(prompt, max_tokens=40, stop=(whole.text[3],))])
    assert 0 < len(steps) < 20


def test_a_special_token_may_be_a_stop(llama, monkeypatch):
    (whole,) = ask_all(llama, [Generate(Prompt("hello"), max_tokens=12)])
    monkeypatch.setattr(llama._tokenizer, "_added_vocabulary", {"<|user|>": greedy_ids(llama, "hello", 4)[-1]})
    (cut,) = ask_all(llama, [Generate(Prompt("hello"), max_tokens=12, stop=("<|user|>",))])
    assert cut.stop_reason == "stop"
    assert whole.text.startswith(cut.text)
    assert len(cut.text) < len(whole.text)


def test_the_models_own_sampling_settings_are_ignored(folders, llama, tmp_path):
    folder = copied(folders["llama"], tmp_path / "sampling")
    own = {
        "do_sample": True,
        "temperature": 9.0,
        "top_k": 3,
        "repetition_penalty": 5.0,
        "max_length": 4,
        "num_beams": 3,
    }
    (folder / "generation_config.json").write_text(json.dumps({**own, "eos_token_id": [1]}))
    backend = Transformers(str(folder), device="cpu")
    asked = [Generate(Prompt("The capital of"), max_tokens=20), Generate(Prompt("A"), temperature=0.8, max_tokens=20)]
    assert ask_all(backend, asked) == ask_all(llama, asked)


def test_eos_ends_a_text(folders, tmp_path):
    backend = Transformers(str(folders["llama"]), device="cpu")
    (whole,) = ask_all(backend, [Generate(Prompt("hello"), max_tokens=12)])
    folder = copied(folders["llama"], tmp_path / "eos")
    settings = json.loads((folder / "generation_config.json").read_text())
    third = greedy_ids(backend, "hello", 3)[-1]
    (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": [1, third]}))
    (cut, other) = ask_all(
        Transformers(str(folder), device="cpu"), [Generate(Prompt(text), max_tokens=12) for text in ("hello", "A")]
    )
    assert cut.stop_reason == "stop"
    assert cut.usage.completion_tokens <= 3
    assert whole.text.startswith(cut.text)
    assert isinstance(other, Generated)


def test_a_sample_depends_on_its_request_alone(folders, llama):
    base = Generate(Prompt("The capital of"), max_tokens=16, temperature=1.0, seed=3)
    others = [Generate(Prompt(text), max_tokens=9, temperature=0.7, top_k=5) for text in ("A", "hello " * 30, "é")]
    greedy = Generate(Prompt("The capital of"), max_tokens=16)
    alone = text_of(ask_all(llama, [base])[0])
    assert text_of(ask_all(llama, [*others, base, greedy])[1 + 2]) == alone
    single = Transformers(str(folders["llama"]), device="cpu", batch_size=1)
    assert text_of(ask_all(single, [greedy, *others, base])[-1]) == alone
    changed = [replace(base, replica=number) for number in range(1, 5)] + [replace(base, seed=4)]
    assert len({alone, *map(text_of, ask_all(llama, changed))}) == 6


def test_samples_follow_the_models_distribution(llama):
    prompt, count = Prompt("The capital of France is"), 600
    draws = [Generate(prompt, max_tokens=1, temperature=0.5, top_k=4, replica=number) for number in range(count)]
    backend_size, llama._batch_size = llama._batch_size, 200
    try:
        found = Counter(text_of(response) for response in ask_all(llama, draws))
    finally:
        llama._batch_size = backend_size
    ids = torch.tensor([llama._tokenizer.encode_prompt(prompt)])
    with torch.no_grad():
        logits = llama._model(ids).logits[0, -1].float() / 0.5
    best = logits.topk(4)
    shares: Counter[str] = Counter()
    for share, token in zip(best.values.softmax(0).tolist(), best.indices.tolist(), strict=True):
        shares[llama._tokenizer.decode_after(ids[0].tolist(), [token])] += share
    assert len(shares) > 1
    for text, share in shares.items():
        assert abs(found.pop(text, 0) / count - share) < 4 * math.sqrt(share * (1 - share) / count) + 1 / count
    assert not found


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    for top_p, kept in [(0.4, {0}), (0.5, {0}), (0.6, {0, 1}), (0.9, {0, 1, 2}), (1.0, {0, 1, 2, 3}), (0.0, {0})]:
        asked = Generate(Prompt("x"), temperature=1.0, top_p=top_p)
        shaped = apply_sampling(scores.clone(), asked, 0)
        assert {index for index, value in enumerate(shaped.tolist()) if value > -math.inf} == kept


def test_gumbel_noise_is_gumbel():
    asked = Generate(Prompt("x"), temperature=1.0)
    drawn = gumbel_noise(asked, 0, 20000)
    assert drawn.mean().item() == pytest.approx(0.5772, abs=0.03)
    assert drawn.var().item() == pytest.approx(math.pi**2 / 6, abs=0.08)
    assert not torch.equal(drawn, gumbel_noise(asked, 1, 20000))


def test_penalties_by_hand():
    scores, seen = torch.tensor([1.0, -1.0, 2.0, 0.5]), torch.tensor([0, 1, 0, 1, 0])
    asked = Generate(Prompt("x"), repetition_penalty=2.0)
    assert apply_penalties(scores, seen, asked).tolist() == [0.5, -2.0, 2.0, 0.5]
    asked = Generate(Prompt("x"), no_repeat_ngram_size=2)
    assert apply_penalties(scores, seen, asked).tolist() == [1.0, -math.inf, 2.0, 0.5]
    asked = Generate(Prompt("x"), no_repeat_ngram_size=1)
    assert apply_penalties(scores, seen, asked).tolist() == [-math.inf, -math.inf, 2.0, 0.5]
    assert apply_penalties(scores, seen[:1], Generate(Prompt("x"), no_repeat_ngram_size=4)).tolist() == scores.tolist()


def test_the_first_space_survives_sentencepiece():
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "▁Say": 3, "▁hello": 4, "▁": 5, "hello": 6}
    core = tokenizers.Tokenizer(tokenizers.models.Unigram([(text, -1.0) for text in vocabulary], unk_id=0))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    core.decoder = tokenizers.decoders.Metaspace()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer = PromptTokenizer(wrapped, "x", chat_template=None, add_bos=None)
    assert tokenizer._decode([4]) == "hello"
    assert tokenizer.decode_after([3], [4, 4]) == " hello hello"
    assert tokenizer.decode_after([], [4]) == "hello"


# ---- chat ----


def test_messages_go_through_the_models_template(chat):
    prompt = Prompt(messages=(Message("system", "Be brief."), Message("user", "hello")))
    assert chat._tokenizer._prompt_text(prompt) == "<s><|system|>Be brief.</s>\n<|user|>hello</s>\n<|assistant|>"
    (written, scored) = ask_all(chat, [Generate(prompt, max_tokens=4), Loglik(prompt, ("hello", " world"))])
    assert isinstance(written, Generated)
    assert len(scored.likelihoods) == 2


def test_in_lm_evals_chats_white_space_at_the_end_of_the_template_is_scored_and_bos_is_added(folders):
    template = "{% for m in messages %}[{{ m.role }}]\n{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}Answer:\n{% endif %}"
    model = Transformers(str(folders["bos"]), device="cpu", chat_template=template)
    encode = model._tokenizer.encode
    prompt = Prompt(messages=(Message("user", "Say hello"),), rules="lm-eval")
    before, whole = encode("[user]\nSay hello\nAnswer:"), encode("[user]\nSay hello\nAnswer:\nhello")
    (span,) = model._tokenizer.spans(prompt, ("hello",))
    assert (span.tokens, span.start) == ((0, *before, *whole[len(before) :]), 1 + len(before))
    assert model._tokenizer.encode_prompt(prompt) == (0, *encode("[user]\nSay hello\nAnswer:\n"))
    assert model._tokenizer.encode_prompt(replace(prompt, rules="kshot")) == encode("[user]\nSay hello\nAnswer:\n")
    with_bos = Transformers(str(folders["bos"]), device="cpu")._tokenizer  # its template writes <s>
    assert with_bos.encode_prompt(prompt).count(0) == 1
    assert [span.tokens.count(0) for span in with_bos.spans(prompt, (" yes", "no"))] == [1, 1]


def test_a_given_template_wins_and_system_text_is_folded(folders):
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHAT
    ignoring = "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    prompt = Prompt(messages=(Message("system", "Be brief."), Message("user", "hello")))
    for template, expected in [
        (refusing, "<s><|user|>Be brief.\nhello</s>\n<|assistant|>"),
        (ignoring, "[user]Be brief.\nhello"),
    ]:
        backend = Transformers(str(folders["llama"]), device="cpu", chat_template=template)
        assert backend.abilities.chat_template
        assert backend._tokenizer._prompt_text(prompt) == expected


def test_no_template_and_broken_templates(llama, folders):
    prompt = Prompt(messages=(Message("user", "hello"),))
    with pytest.raises(BackendError, match="--chat-template FILE"):
        ask_all(llama, [Generate(prompt)])
    with pytest.raises(BackendError, match="chat template failed"):
        Transformers(str(folders["llama"]), device="cpu", chat_template="{% for %}")
    broken = Transformers(str(folders["llama"]), device="cpu", chat_template="{{ messages + 1 }}")
    with pytest.raises(BackendError, match="chat template failed"):
        ask_all(broken, [Generate(prompt)])


# ---- faults ----


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_weights_are_fatal(folders, tmp_path, name, value):
    folder = copied(folders[name], tmp_path / "nan")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        next(parameter for parameter in model.parameters() if parameter.dim() == 1)[0] = value
    model.save_pretrained(folder)
    backend = Transformers(str(folder), device="cpu")
    for request in (Loglik(Prompt("hello there"), (" world",)), Generate(Prompt("hello there"), max_tokens=3)):
        with pytest.raises(BackendError, match=r"NaN.*dtype") as caught:
            ask_all(backend, [request])
        assert backend.name in str(caught.value)


def test_bad_paths(tmp_path, folders):
    with pytest.raises(BackendError, match=r"no such folder.*saved model"):
        Transformers(str(tmp_path / "nowhere"))
    with pytest.raises(BackendError, match=r"no config\.json"):
        Transformers(str(tmp_path))
    with pytest.raises(BackendError, match="is a file"):
        Transformers(str(folders["llama"] / "config.json"))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(BackendError, match="adapter"):
        Transformers(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer cannot be loaded"),
        (lambda f: (f / "config.json").write_text("{"), "configuration cannot be loaded"),
        (lambda f: (f / "config.json").write_text('{"model_type": "t5"}'), "weights cannot be loaded"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: (f / "model.safetensors").write_bytes(b"version https://git-lfs"), "damaged"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "damaged"),
        (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]), "damaged"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}'),
            "lacks 1",
        ),
        (lambda f: (f / "x.index.json").write_text("["), "does not map weights to files"),
        (lambda f: (f / "x.index.json").write_text("[" * 100_000), "does not map weights to files"),
        (lambda f: (f / "x.index.json").write_text('{"weight_map": {"a": 1}}'), "does not map weights to files"),
        (lambda f: (f / "x.index.json").write_text('{"weight_map": {"a": "../x"}}'), "does not map weights to files"),
        (lambda f: _set(f, num_hidden_layers=3), "weights are missing"),
        (lambda f: _set(f, intermediate_size=80), "weights"),
    ],
)
def test_damaged_folders(folders, tmp_path, damage, message):
    folder = copied(folders["llama"], tmp_path / "faulty")
    damage(folder)
    with pytest.raises(BackendError, match=message) as caught:
        ask_all(Transformers(str(folder), device="cpu"), [Generate(Prompt("A"), max_tokens=1)])
    assert "faulty" in str(caught.value)
    assert caught.value.hint


def test_another_models_tokenizer(folders, tmp_path):
    folder = copied(folders["llama"], tmp_path / "mixed")
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    content["added_tokens"].append({**content["added_tokens"][0], "id": 400, "content": "<far>"})
    file.write_text(json.dumps(content))
    backend = Transformers(str(folder), device="cpu")
    with pytest.raises(BackendError, match="token 400 and the model knows 400"):
        ask_all(backend, [Generate(Prompt("A<far>"), max_tokens=1)])


def _set(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_hub_name_without_a_network(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert hub.hub_is_unreachable()
    with pytest.raises(BackendError, match=r"nobody/nothing.*hub.*downloaded folder"):
        Transformers("nobody/nothing")


def test_bad_options(folders):
    path = str(folders["llama"])
    for options in (
        {"dtype": "float33"},
        {"dtype": "int8"},
        {"device": "toaster"},
        {"device": "cuda:99"},
        {"batch_size": 0},
        {"padding_side": "top"},
    ):
        with pytest.raises(UsageError):
            Transformers(path, **{"device": "cpu", **options})


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"pip install 'kshot\[hf\]'"):
        Transformers("gpt2")


def test_nothing_on_the_terminal_and_nothing_heavy_on_import(folders):
    code = (
        "import sys, kshot.backends.hf.model as t\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
        "from kshot.core.records import *\n"
        "from tests.tiny_models import ask_all\n"
        f"b = t.Transformers({str(folders['bos'])!r}, device='cpu')\n"
        f"ask_all(b, [Generate(Prompt('A'), temperature=0.5, max_tokens=3), Loglik(Prompt('A'), ('B',)),"
        f" Loglik(Prompt({LONG!r}), ('B',))])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_config_that_names_fewer_layers_than_there_are_is_refused(tmp_path):
    folder = build("llama", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": config["num_hidden_layers"] - 1}))
    with pytest.raises(BackendError, match=r"the weights have more layers than config\.json names"):
        ask_all(Transformers(str(folder)), [Generate(Prompt("a"), max_tokens=1)])


def test_a_chat_template_in_a_spec_is_a_file(tiny_llama, tmp_path):
    from kshot.backends import open_model

    (tmp_path / "own.jinja").write_text("{{ messages[0].content }}!")
    named = open_model(f"hf:{tiny_llama},chat_template={tmp_path / 'own.jinja'}")
    given = open_model(f"hf:{tiny_llama}", {"chat_template": str(tmp_path / "own.jinja")})
    assert named.abilities.chat_template
    assert named.fingerprint == given.fingerprint
    assert named.name == f"{given.name},chat_template={tmp_path / 'own.jinja'}"

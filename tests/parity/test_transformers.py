"""Batched ``hf:`` models against one unpadded forward pass at a time, written here from the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.records import Generate, Generated, Loglik, Message, Prompt, Scored  # noqa: E402
from kshot.prompts.chat import fold_system, opened_text, renderer  # noqa: E402
from tests.tiny_models import CHAT, ask_all, build, tokenizer_of  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = 1e-4
PAIRS = [
    ("The capital of France is", " Paris"),
    ("The capital of France is", " Berlin."),
    ("The capital of France is ", "Paris"),
    ("hel", "lo world"),  # "hello" is one token: it straddles
    ("The answer ", " is B"),
    ("The answer is", "\n\nB"),
    ("Question: what is the answer to this question? " * 6, "The lazy dog"),
    ("naïve caf", "é"),
    ("日本", "語 and 中文 🙂"),
    ("🙂", "🙃"),
    ("A", "B"),
    ("", "Hello world, hello there!"),
    ("", "The capital of France is Paris."),
]
PROMPTS = [
    "The capital of",
    "Question: what is the answer to this question? Answer:",
    "日本",
    "A",
    "hello " * 40,
    "é🙂",
]


class Reference:
    """The same model, run one sequence at a time."""

    def __init__(self, folder: Path, *, bos: bool) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.leading_ids = [self.tokenizer.bos_token_id] if bos else []

    @torch.no_grad()
    def loglik(self, context: str, continuation: str) -> tuple[float, int]:
        ids = self.leading_ids + self.tokenizer.encode(context + continuation, add_special_tokens=False)
        # Counting bytes finds where each token ends, without an offset mapping.
        edge = len(context.encode())
        reached, start = 0, len(ids)
        for index, token in enumerate(ids):
            if index >= len(self.leading_ids):
                reached += len(self.tokenizer.convert_ids_to_tokens(token))
            if reached > edge:
                start = index
                break
        start = max(start, 1)
        table = self.model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        return sum(table[at - 1, ids[at]].item() for at in range(start, len(ids))), len(ids) - start

    @torch.no_grad()
    def greedy(self, prompt: str, count: int) -> tuple[str, int, str]:
        ids = self.leading_ids + self.tokenizer.encode(prompt, add_special_tokens=False)
        first = len(ids)
        for _ in range(count):
            best = int(self.model(torch.tensor([ids])).logits[0, -1].argmax())
            ids.append(best)
            if best == self.tokenizer.eos_token_id:
                return self.tokenizer.decode(ids[first:-1], skip_special_tokens=True), len(ids) - first, "stop"
        return self.tokenizer.decode(ids[first:], skip_special_tokens=True), count, "length"


@pytest.fixture(scope="session", params=["llama", "gpt2"])
def kind(request):
    return request.param


@pytest.fixture(scope="session", params=[False, True], ids=["plain", "bos"])
def model(request, kind, tmp_path_factory):
    folder = build(kind, tmp_path_factory.mktemp(f"{kind}-{request.param}"), bos=request.param)
    return folder, Reference(folder, bos=request.param)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_loglik_equals_a_single_forward(model, side, size):
    folder, reference = model
    backend = Transformers(str(folder), device="cpu", batch_size=size, padding_side=side)
    scored = ask_all(backend, [Loglik(Prompt(context), (text,)) for context, text in PAIRS])
    for (context, text), response in zip(PAIRS, scored, strict=True):
        assert isinstance(response, Scored)
        (found,) = response.likelihoods
        logprob, count = reference.loglik(context, text)
        assert found.tokens == count, (context, text)
        assert found.logprob == pytest.approx(logprob, abs=TOLERANCE), (context, text)


def test_many_continuations_of_one_prompt(model):
    folder, reference = model
    letters = [f"{space}{letter}" for letter in "ABCD" for space in ("", " ")]
    texts = (*letters, " A", " the answer is B.", "A")
    prompts = ["Question: what is the answer? Answer:", "Options:"]
    backend = Transformers(str(folder), device="cpu", batch_size=3)
    for prompt, response in zip(prompts, ask_all(backend, [Loglik(Prompt(p), texts) for p in prompts]), strict=True):
        assert isinstance(response, Scored)
        for text, found in zip(texts, response.likelihoods, strict=True):
            logprob, count = reference.loglik(prompt, text)
            assert (found.tokens, found.logprob) == (count, pytest.approx(logprob, abs=TOLERANCE))


@pytest.mark.parametrize("size", [1, 3, 16])
def test_greedy_text_equals_a_loop_by_hand(model, size):
    folder, reference = model
    backend = Transformers(str(folder), device="cpu", batch_size=size)
    requests = [Generate(Prompt(text), max_tokens=5 + 6 * index) for index, text in enumerate(PROMPTS)]
    for request, response in zip(requests, ask_all(backend, requests), strict=True):
        assert isinstance(response, Generated)
        assert response.usage is not None
        found = (response.text, response.usage.completion_tokens, response.stop_reason)
        assert found == reference.greedy(request.prompt.text, request.max_tokens)


def test_penalties_equal_those_of_transformers(model):
    folder, reference = model
    backend = Transformers(str(folder), device="cpu", batch_size=4)
    settings_ = {"repetition_penalty": 1.7, "no_repeat_ngram_size": 2}
    requests = [Generate(Prompt(text), max_tokens=24, **settings_) for text in PROMPTS]
    for request, response in zip(requests, ask_all(backend, requests), strict=True):
        ids = torch.tensor(
            [reference.leading_ids + reference.tokenizer.encode(request.prompt.text, add_special_tokens=False)]
        )
        new = reference.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=0, **settings_
        )[0, ids.shape[1] :]
        assert isinstance(response, Generated)
        assert response.text == reference.tokenizer.decode(new, skip_special_tokens=True)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(st.text(max_size=12), st.text(min_size=1, max_size=8)), min_size=1, max_size=5))
def test_any_text_any_batch(any_model, pairs):
    backend, reference = any_model
    for (context, text), response in zip(
        pairs, ask_all(backend, [Loglik(Prompt(context), (text,)) for context, text in pairs]), strict=True
    ):
        assert isinstance(response, Scored)
        logprob, count = reference.loglik(context, text)
        assert response.likelihoods[0].tokens == count
        assert response.likelihoods[0].logprob == pytest.approx(logprob, abs=TOLERANCE)


@pytest.fixture(scope="session")
def any_model(tmp_path_factory):
    folder = build("llama", tmp_path_factory.mktemp("any"), bos=True)
    return Transformers(str(folder), device="cpu", batch_size=3), Reference(folder, bos=True)


TEMPLATES = [
    CHAT,
    # ChatML, trimmed blocks, a namespace and a default system text
    """{%- set seen = namespace(system=false) %}
    {%- for message in messages %}
        {%- if message.role == "system" %}{% set seen.system = true %}{% endif %}
    {%- endfor %}
{% if not seen.system %}
<|im_start|>system
You are helpful.<|im_end|>
{% endif %}
{% for message in messages %}
<|im_start|>{{ message.role }}
{{ message.content | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}""",
    # JSON, loop controls, slices, tools and documents that are not there
    """{{ bos_token }}{% for message in messages[:9] %}{% if loop.index > 3 %}{% break %}{% endif %}
{% if message.role == 'system' %}{% continue %}{% endif %}
{{ message | tojson }}{{ messages | length | tojson(indent=2) }}
{% endfor %}{% if tools is not none or documents %}tools{% endif %}{{ eos_token }}""",
    # The mark of what an assistant wrote, and the date
    """{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}
{% else %}{{ m.content }}{% endif %}{% endfor %}{{ strftime_now('%Y') }}""",
]
TALK = (
    Message("system", "Be <brief> & “kind”."),
    Message("user", "naïve 日本?"),
    Message("assistant", " Yes.\n"),
    Message("user", "Why?"),
)


@pytest.mark.parametrize("source", TEMPLATES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_chat_templates_render_as_in_transformers(source, count):
    tokenizer = tokenizer_of(bos=False)
    for talk in (TALK[:count], TALK[1 : 1 + count]):
        messages = [{"role": message.role, "content": message.content} for message in talk]
        for prompted in (True, False):
            expected = tokenizer.apply_chat_template(
                messages, chat_template=source, tokenize=False, add_generation_prompt=prompted
            )
            assert renderer(source, "<s>", "</s>")(talk, prompted) == expected


@pytest.mark.parametrize("source", [source for source in TEMPLATES if "content" in source])
@pytest.mark.parametrize("begun", ["It is", "It is: ", " Yes.\n"])
def test_a_reply_is_begun_in_lm_evals_chats_as_in_transformers(source, begun):
    tokenizer = tokenizer_of(bos=False)
    for talk in (TALK[:2], TALK[1:2]):
        opened = (*talk, Message("assistant", begun))
        messages = [{"role": message.role, "content": message.content} for message in opened]
        expected = tokenizer.apply_chat_template(
            messages, chat_template=source, tokenize=False, continue_final_message=True
        )
        prompt = Prompt(messages=opened, opened=True, rules="lm-eval")
        assert opened_text(prompt, opened, renderer(source, "<s>", "</s>")) == expected


def test_system_text_is_folded_only_where_it_must_be():
    shown, hidden = (renderer(source, "<s>", "</s>") for source in (TEMPLATES[1], TEMPLATES[2]))
    assert fold_system(TALK, lambda messages: shown(messages, True)) == TALK
    folded = fold_system(TALK, lambda messages: hidden(messages, True))
    assert folded == (Message("user", "Be <brief> & “kind”.\nnaïve 日本?"), *TALK[2:])
    # The user says the same words, but the template still leaves the system message out.
    echo = (Message("system", "hello"), Message("user", "hello"))
    assert fold_system(echo, lambda messages: hidden(messages, True)) == (Message("user", "hello\nhello"),)
    assert fold_system(echo[1:], lambda messages: hidden(messages, True)) == echo[1:]
    assert fold_system(echo[:1], lambda messages: hidden(messages, True)) == (Message("user", "hello"),)

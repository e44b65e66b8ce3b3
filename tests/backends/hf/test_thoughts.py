"""Thoughts of ``hf:`` and ``vllm:`` models: think tags that are special tokens, and prompts that end with an open tag."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from kshot.backends.hf.model import Transformers
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.vllm.model import Vllm
from kshot.core.records import Generate, Message, Prompt
from tests import fake_vllm
from tests.tiny_models import CHAT, ask_all, tokenizer_of

ASKED = Prompt(messages=(Message("user", "Which?"),))


@pytest.mark.parametrize("special", [True, False])
def test_think_tags_stay_visible_whatever_the_tokenizer_calls_them(special):
    from transformers import AddedToken

    tokenizer = tokenizer_of(bos=False)
    tags = [AddedToken(text, special=special) for text in ("<think>", "</think>", "<|end|>")]
    tokenizer.add_tokens(tags, special_tokens=special)
    prompts = PromptTokenizer(tokenizer, "tiny", chat_template=None, add_bos=None)
    new = prompts.encode("<think>the answer</think> is B<|end|>")
    found = prompts.decode_after(prompts.encode("Question:"), new)
    assert found == "<think>the answer</think> is B" + ("" if special else "<|end|>")
    assert prompts.opens_thoughts(prompts.encode("the question<think>\n"))
    assert not prompts.opens_thoughts(prompts.encode("<think>the</think> question"))


@pytest.mark.parametrize("make", [Transformers, Vllm])
def test_a_reply_to_an_open_tag_is_thoughts_until_it_is_closed(make, tiny_chat, monkeypatch):
    fake_vllm.install(monkeypatch)
    plain = make(str(tiny_chat))
    opened = make(str(tiny_chat), chat_template=CHAT + "{% if add_generation_prompt %}<think>\n{% endif %}")
    asked = [Generate(ASKED, max_tokens=8), Generate(Prompt("Which? <think>"), max_tokens=8)]
    chat, text = ask_all(opened, asked)
    for reply in (chat, text):
        assert (reply.text, bool(reply.reasoning)) == ("", True)
    without, _ = ask_all(plain, asked)
    assert (bool(without.text), without.reasoning) == (True, "")

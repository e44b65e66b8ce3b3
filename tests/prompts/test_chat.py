"""Chat prompts that begin the reply themselves."""

import pytest

from kshot.core.errors import BackendError
from kshot.core.records import Generate, Message, Prompt
from kshot.core.serialization import digest
from kshot.prompts.chat import opened_text, renderer

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = (Message("system", "Be brief."), Message("user", "Which bird sings?"), Message("assistant", "It is the"))


def test_the_reply_goes_on_after_its_beginning():
    render = renderer(TEMPLATE)
    head = "<system>Be brief.</system><user>Which bird sings?</user><assistant>"
    assert opened_text(Prompt(messages=TALK, opened=True), TALK, render) == head + "It is the"
    assert opened_text(Prompt(messages=TALK[:2]), TALK[:2], render) == head


def test_a_reply_that_is_over_is_a_turn_of_its_own():
    shown = opened_text(Prompt(messages=TALK), TALK, renderer(TEMPLATE))
    assert shown.endswith("<assistant>It is the</assistant><assistant>")


def lm_eval_text(template, talk):
    opened = talk[-1].role == "assistant"
    return opened_text(Prompt(messages=talk, opened=opened, rules="lm-eval"), talk, renderer(template))


def test_in_lm_evals_chats_a_reply_that_is_begun_has_the_head_of_a_message():
    template = TEMPLATE.replace("<assistant>{% endif %}", "<assistant><thinking>{% endif %}")
    asked = "<system>Be brief.</system><user>Which bird sings?</user>"
    assert lm_eval_text(template, TALK) == asked + "<assistant>It is the"
    assert lm_eval_text(template, TALK[:2]) == asked + "<assistant><thinking>"
    spaced = (*TALK[:2], Message("assistant", "It is \n"))
    assert lm_eval_text(template, spaced) == asked + "<assistant>It is \n"
    assert lm_eval_text(template.replace("m.content", "m.content | trim"), spaced) == asked + "<assistant>It is"
    with pytest.raises(BackendError, match="does not show the text that begins the reply: 'It is the'"):
        lm_eval_text("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", TALK)


def test_in_lm_evals_chats_a_template_that_refuses_a_system_message_gets_none():
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    assert lm_eval_text(refusing, TALK) == "<user>Which bird sings?</user><assistant>It is the"
    assert lm_eval_text(refusing, TALK[:2]) == "<user>Which bird sings?</user><assistant>"
    with pytest.raises(BackendError, match="always"):
        lm_eval_text("{{ raise_exception('always') }}", TALK)


def test_an_open_reply_is_another_request_and_earlier_ones_keep_their_digests():
    opened, over = (digest(Generate(Prompt(messages=TALK, opened=each))) for each in (True, False))
    assert opened != over
    assert over == "97459fe15fb8bceb0a25ab622072020b"
    assert digest(Generate(Prompt("text"))) == "e497cefc5da14fa8bdc9c854c0157f10"

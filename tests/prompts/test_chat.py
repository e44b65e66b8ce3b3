"""Chat prompts that begin the reply themselves."""

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


def test_an_open_reply_is_another_request_and_earlier_ones_keep_their_digests():
    opened, over = (digest(Generate(Prompt(messages=TALK, opened=each))) for each in (True, False))
    assert opened != over
    assert over == "97459fe15fb8bceb0a25ab622072020b"
    assert digest(Generate(Prompt("text"))) == "e497cefc5da14fa8bdc9c854c0157f10"

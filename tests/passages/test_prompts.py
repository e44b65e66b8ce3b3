"""The prompts of passage search: what a model reads besides the passages."""

import pytest

from kshot.core.records import Message, Prompt, Sample
from kshot.passages.settings import PassageSettings
from kshot.passages.source import answer_prompt, query_prompt

SAMPLE = Sample("1", {"question": "Why?"})


@pytest.mark.parametrize("write", [lambda s: query_prompt(s)(SAMPLE), lambda s: answer_prompt(s)(SAMPLE, ["Because."])])
def test_the_system_prompt_comes_first_for_base_and_chat_models(write):
    plain = write(PassageSettings())
    assert write(PassageSettings(system_prompt="Be brief.")) == Prompt(f"Be brief.\n\n{plain.text}")
    chat = write(PassageSettings(system_prompt="Be brief.", model_type="chat"))
    assert chat.messages == (Message("system", "Be brief."), Message("user", plain.text))

"""Splitting thoughts from answers: nothing is invented, and a second split changes nothing."""

import re

from hypothesis import strategies as st

from kshot.core.reasoning import is_think_tag, opens_thoughts, split_thoughts, without_thoughts
from kshot.core.records import Generated
from tests.fuzz.harness import any_text, fuzz

TAGS = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<seed:think>",
    "</seed:think>",
    "[THINK]",
    "[/THINK]",
    "◁think▷",
    "◁/think▷",
    "<THINK>",
    "</Think>",
]
pieces = st.sampled_from(TAGS) | st.sampled_from([" ", "\n", "the", "x", "<", "think>", "</"]) | any_text
texts = st.lists(pieces, max_size=12).map("".join) | st.builds(
    lambda text, times: text * times, pieces, st.integers(100, 5000)
)


def characters(text):
    """Count the characters that are no white space."""
    return len("".join(text.split()))


@fuzz(texts, st.booleans(), examples=100)
def test_every_character_but_tags_is_answer_or_thought(text, opened):
    answer, thoughts = split_thoughts(text, opened=opened)
    if (answer, thoughts) == (text, ""):
        return
    bare = re.sub("|".join(map(re.escape, TAGS)), "", text, flags=re.IGNORECASE)
    assert (
        characters(answer) + characters(thoughts) == characters(bare) or "[" in text
    )  # [think] is text, [THINK] a tag
    assert characters(answer) + characters(thoughts) <= characters(text)


@fuzz(texts, examples=100)
def test_a_reply_without_thoughts_stays(text):
    once = without_thoughts(Generated(text))
    assert without_thoughts(once) == once


@fuzz(st.sampled_from(TAGS), any_text)
def test_a_tag_alone_is_a_tag(tag, text):
    assert is_think_tag(tag)
    assert not is_think_tag(tag + "x")
    assert opens_thoughts(text + tag + "\n ") == ("/" not in tag)

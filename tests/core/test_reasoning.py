"""Thoughts between think tags are no part of the answer, whatever model wrote them."""

import json

import pytest
from hypothesis import given, strategies as st

import kshot
from kshot.core.reasoning import ending_early, opens_thoughts, split_thoughts, without_thoughts
from kshot.core.records import Generated
from kshot.core.serialization import response_from_json, response_to_json
from tests.datasets.fakes import Fake, choice, generation, says
from tests.journals import without_checksums

SPLITS = {
    "no tags": ("The answer is B.", "The answer is B.", ""),
    "one block": ("<think>A? C?</think>B", "B", "A? C?"),
    "blank lines around it": ("\n<think>\nA?\n</think>\n\nB\n", "B\n", "A?"),
    "the other name": ("<thinking>A?</thinking>B", "B", "A?"),
    "capitals": ("<Think>A?</THINK>B", "B", "A?"),
    "no thoughts": ("<think>\n\n</think>\n\nB", "B", ""),
    "opened by the template": ("A? C?\n</think>\nB", "B", "A? C?"),
    "never closed": ("<think>A? No, C", "", "A? No, C"),
    "nothing after it": ("<think>A?</think>", "", "A?"),
    "several": ("<think>A?</think>B <think>C?</think>, surely", "B , surely", "A?\nC?"),
    "a second one never closed": ("<think>A?</think>B<think>or C", "B", "A?\nor C"),
    "after the answer": ("B<think>or C</think>", "B", "or C"),
    "a tag within thoughts": ("<think>I write <think> here</think>B", "B", "I write\nhere"),
    "nested": ("<think>a<think>b</think>c</think>B", "B", "a\nb\nc"),
    "closed twice": ("A?</think>C?</think>B", "B", "A?\nC?"),
    "only mentioned": ("Use the <think> tag. B", "Use the <think> tag. B", ""),
    "a sentence before it": ("Well. <think>A?</think> B", "Well.  B", "A?"),
    "Mistral's": ("[THINK]A?[/THINK]B", "B", "A?"),
    "Kimi's": ("◁think▷A?◁/think▷B", "B", "A?"),
    "ByteDance's": ("<seed:think>A?</seed:think>B", "B", "A?"),
    "brackets that are none": ("[think] B", "[think] B", ""),
    "other tags": ("<b>think</b> B", "<b>think</b> B", ""),
}


@pytest.mark.parametrize("case", SPLITS)
def test_splits(case):
    text, answer, thoughts = SPLITS[case]
    assert split_thoughts(text) == (answer, thoughts)


def test_a_reply_whose_prompt_opened_the_thoughts():
    assert split_thoughts("A? C", opened=True) == ("", "A? C")
    assert split_thoughts("A?</think> B", opened=True) == ("B", "A?")
    assert split_thoughts("</think> B", opened=True) == ("B", "")
    assert opens_thoughts("<|assistant|><think>\n")
    assert opens_thoughts("Reason: <THINKING>")
    assert not opens_thoughts("<think>no</think>")
    assert not opens_thoughts("think")


pieces = st.lists(st.sampled_from(["<think>", "</think>", "A", " B\n", "<thinking>", "</thinking>", ""]))


@given(pieces, st.booleans())
def test_splitting_twice_changes_nothing_more_and_no_tag_is_left(parts, opened):
    once = without_thoughts(Generated("".join(parts)), opened=opened)
    assert without_thoughts(once) == once
    assert "think" not in once.text


def test_reasoning_that_came_apart_is_kept():
    found = without_thoughts(Generated("<think>two</think>B", "length", reasoning="one"))
    assert found == Generated("B", "length", reasoning="one\ntwo")


@given(pieces, st.booleans(), st.sampled_from(["", "A?"]))
def test_the_whole_reply_is_stored_beside_its_parts(parts, opened, apart):
    text = "".join(parts)
    found = without_thoughts(Generated(text, reasoning=apart), opened=opened)
    body = response_to_json(found)
    again = response_from_json(body)
    assert (again, again.whole) == (found, found.whole)
    if found.text != text:
        assert found.whole == "</think>".join(filter(None, (apart, text)))


def test_what_is_stored_of_a_whole_reply_does_not_repeat_its_thoughts():
    thoughts = "A? " * 1000
    found = without_thoughts(Generated(f"<think>\n{thoughts}\n</think>\n\nB"))
    assert len(json.dumps(response_to_json(found))) < len(thoughts) + 200
    assert response_to_json(found)["whole"] == ["<think>\n", " \n</think>\n\n"]


def test_a_whole_reply_ends_where_its_answer_is_made_to_end():
    found = ending_early(without_thoughts(Generated("<think>a\nb</think>B\nand more")), "B")
    assert (found.text, found.whole) == ("B", "<think>a\nb</think>B")


# ---- for every model ----


def test_letters_in_thoughts_are_no_answer():
    cls = choice()
    for text, reasoning in (("<think>It is B. B! B!", "It is B. B! B!"), ("B?</think>", "B?")):
        result = kshot.evaluate(says(text), cls, ranking_type="generation")
        assert {row["answer"] for row in result.samples} == {-1}
        assert {row["reasoning"] for row in result.samples} == {reasoning}
        assert {row["response"] for row in result.samples} == {""}
        (note,) = [note for note in result.notes if "thoughts" in note]
        count = len(result.samples)
        assert f"so have no answer: {count} (" in note
        assert {row["unfinished_thoughts"] for row in result.results if row["metric"] == "Accuracy"} == {count}


def test_the_answer_after_the_thoughts_is_scored(tmp_path):
    cls = generation([{"q": "one", "target": "1"}])
    for model in (says("<think>2? 3?</think>1"), Fake(lambda _: Generated("1", reasoning="2? 3?"))):
        result = kshot.evaluate(model, cls)
        assert (result.results[0]["value"], result.samples[0]["reasoning"]) == (100.0, "2? 3?")
    recording = tmp_path / "recorded.jsonl"
    for line in (
        '{"prompt": "one:", "response": "<think>2? 3?</think>1"}',
        '{"prompt": "one:", "response": "1", "reasoning_content": "2? 3?"}',
    ):
        recording.write_text(line + "\n")
        result = kshot.evaluate(f"replay:{recording}", cls)
        assert (result.results[0]["value"], result.samples[0]["reasoning"]) == (100.0, "2? 3?")


def test_a_functions_thoughts_may_contain_a_stop_text():
    class Short(generation([{"q": "one", "target": "1"}])):
        extra_model_args = {"stop": ["\n"]}

    def model(prompt):
        return "<think>2?\n3?</think>1\nand more"

    result = kshot.evaluate(model, Short)
    assert (result.results[0]["value"], result.samples[0]["response"]) == (100.0, "1")


def test_a_function_that_goes_on_with_open_thoughts():
    cls = generation([{"q": "one", "target": "1"}], instruction="{q}<think>")
    assert kshot.evaluate(lambda prompt: "1? 2?", cls).samples[0]["response"] == ""
    assert kshot.evaluate(lambda prompt: "2?</think>1", cls).results[0]["value"] == 100.0


def test_a_journal_of_before_is_taken_apart_when_it_is_read(tmp_path):
    cls = generation([{"q": "one", "target": "1"}])
    kshot.evaluate(says("1"), cls, out=tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_text(without_checksums(journal.read_text()).replace('"text":"1"', '"text":"<think>2?</think>1"'))
    silent = Fake(lambda request: pytest.fail(f"asked {request}"))
    row = kshot.evaluate(silent, cls, out=tmp_path / "run").samples[0]
    assert (row["response"], row["reasoning"], row["scores"]["EM"]) == ("1", "2?", 100.0)


def test_halves_of_a_tag_do_not_become_one():
    """Done twice, it changes nothing more: servers and the engine both do it."""
    reply = without_thoughts(Generated("4 <thi<think>a</think>nk> and 5"))
    assert reply.text == "4 <thi nk> and 5"
    assert without_thoughts(reply) == reply

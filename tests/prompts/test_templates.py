"""Templates: what is filled, what is never touched, and what strict refuses."""

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.prompts.dialogue import Messages, PromptList
from kshot.prompts.templates import (
    MMPromptTemplate,
    MultiTurnPromptTemplate,
    PromptTemplate,
    RawPromptTemplate,
    fill,
    splice,
)

ROW = {"question": "1+1=?", "answer": "2", "note": "n"}
ROUND = [{"role": "HUMAN", "prompt": "Q: {question}"}, {"role": "BOT", "prompt": "{answer}"}]
TEXT = st.text(st.sampled_from("ab{}</E>qnote "), max_size=12)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{question}", "1+1=?"),
        ("{{question}}", "{1+1=?}"),
        ("{question!r} { question } {} {0} {other}", "{question!r} { question } {} {0} {other}"),
        ("{a{note}}", "{an}"),
        ("\\boxed{}", "\\boxed{}"),
    ],
)
def test_fields_are_replaced_and_other_braces_stay(text, filled, strict):
    assert fill(text, ROW, strict=strict) == filled


@pytest.mark.parametrize("strict", [True, False])
def test_values_become_text(strict):
    row = {"i": 7, "n": None, "l": ["a", 1], "d": {"k": 1}}
    assert fill("{i} {n} {l} {d}", row, strict=strict) == "7 None ['a', 1] {'k': 1}"


def test_compat_fills_again_what_a_value_brought_in_and_strict_does_not():
    row = {"question": "what is {note}?", "note": "n"}
    assert fill("{question}", row, strict=False) == "what is n?"
    assert fill("{question}", row) == "what is {note}?"


@given(TEXT, TEXT)
def test_one_pass_never_touches_inserted_text(question, note):
    assert (
        fill("<{question}|{note}|{question}>", {"question": question, "note": note})
        == f"<{question}|{note}|{question}>"
    )


@given(TEXT, TEXT)
def test_strict_never_touches_examples(question, ice):
    template = PromptTemplate("</E>|{question}<SEP>", ice_token="</E>", sep_token="<SEP>")
    made = template.generate_item({"question": question}, ice_field_replace_token=ice)
    assert made == f"{ice}|{question}"
    dialogue = PromptTemplate({"begin": "</E>", "round": ROUND}, ice_token="</E>")
    shown = PromptList([{"role": "HUMAN", "prompt": ice}, ""])
    made = dialogue.generate_item({"question": question, "answer": "2"}, "answer", "", shown)
    assert made[1:3] == shown
    assert made[5]["prompt"] == f"Q: {question}"


def test_compat_fills_names_inside_examples():
    template = PromptTemplate("</E>{question}", ice_token="</E>", strict=False)
    assert template.generate_item(ROW, ice_field_replace_token="{note} ") == "n 1+1=?"


@given(st.text(min_size=1), st.booleans())
def test_the_answer_never_leaks_into_a_prompt_to_continue(answer, strict):
    secret = f"\x00{answer}\x00"
    for body in ("{question} {answer} {{answer}}", {"round": ROUND, "end": [{"role": "HUMAN", "prompt": "{answer}"}]}):
        made = PromptTemplate(body, strict=strict).generate_item({**ROW, "answer": secret}, "answer")
        assert secret not in str(made)


def test_the_row_is_not_changed():
    row = dict(ROW)
    PromptTemplate("{answer}").generate_item(row, "answer", "?")
    assert row == ROW


def test_a_replacement_stands_for_the_answer():
    assert PromptTemplate("{question} {answer}").generate_item(ROW, "answer", "<mask>") == "1+1=? <mask>"


def test_an_example_keeps_its_answer_and_its_separator_and_loses_the_token():
    template = PromptTemplate("</E>{question}<SEP>{answer}", ice_token="</E>", sep_token="<SEP>")
    assert template.generate_ice_item(ROW, "2") == "1+1=?<SEP>2"
    assert template.generate_ice_item(ROW, "2", without=["<SEP>"]) == "1+1=?2"


def test_compat_keeps_separators_of_examples_in_label_prompts_alone():
    options = {"ice_token": "</E>", "sep_token": "<SEP>", "strict": False}
    template = PromptTemplate({"A": "</E>{question}<SEP>a"}, **options)
    assert template.generate_label_prompt_item(ROW, "x<SEP>y ", "A") == "x<SEP>y 1+1=?a"
    assert template.generate_label_prompt_item(ROW, "x<SEP>y ", "A", remain_sep=True) == "x<SEP>y 1+1=?<SEP>a"
    assert template.generate_item(ROW, None, "", "x<SEP>y ") == "xy 1+1=?a"


def test_a_label_prompt_masks_nothing_and_may_keep_the_separator():
    template = PromptTemplate({"A": "{question}<SEP>a", "B": "{question}<SEP>b {answer}"}, sep_token="<SEP>")
    assert template.generate_label_prompt_item(ROW, "", "B") == "1+1=?b 2"
    assert template.generate_label_prompt_item(ROW, "", "B", remain_sep=True) == "1+1=?<SEP>b 2"
    with pytest.raises(DataError, match="nothing for the label 'C'"):
        template.generate_label_prompt_item(ROW, "", "C")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("no place", "is not in the template"),
        ({"begin": "head", "round": ROUND}, "is not in the template 'head'"),
        ({"A": "</E>a", "B": "b"}, "is not in the template 'b'"),
        (["</E>"], "a string or a dict"),
        ({"A": 3}, "neither text nor a dialogue"),
    ],
)
def test_templates_refused_in_both_modes(body, message, strict):
    with pytest.raises(DataError, match=message):
        PromptTemplate(body, ice_token="</E>", strict=strict)


def test_tokens_and_roles_are_text():
    with pytest.raises(DataError, match="the ice_token is -1; it must be text"):
        PromptTemplate("{question}", ice_token=-1)
    with pytest.raises(DataError, match="the sep_token is"):
        PromptTemplate("{question}", sep_token=["x"])
    with pytest.raises(DataError, match=r"the role of an item is \[\]; it must be text"):
        PromptTemplate({"round": [{"role": [], "prompt": "x"}]}, strict=False).generate_item(ROW)
    with pytest.raises(DataError, match="the role of an item is"):
        RawPromptTemplate([{"role": {}, "content": "x"}], strict=False)


@pytest.mark.parametrize(
    "body", [{"round": ROUND}, {"begin": [{"role": "SYSTEM", "prompt": "S"}], "round": ROUND}, {"A": {"round": ROUND}}]
)
def test_lists_without_the_token_lose_examples_in_silence_only_in_compat(body):
    PromptTemplate(body, ice_token="</E>", strict=False)
    with pytest.raises(DataError, match="examples would be lost"):
        PromptTemplate(body, ice_token="</E>")


def test_strict_refuses_to_continue_a_label_template():
    body = {"A": "{question} a", "B": "b"}
    assert PromptTemplate(body, strict=False).generate_item(ROW) == "1+1=? a"
    with pytest.raises(DataError, match="scores labels"):
        PromptTemplate(body).generate_item(ROW)


def test_a_dialogue_needs_a_round_and_readable_items():
    with pytest.raises(DataError, match="'round'"):
        PromptTemplate({"begin": "x"})
    with pytest.raises(DataError, match="neither text nor dict"):
        PromptTemplate({"round": [{"role": "HUMAN", "prompt": 3}]})


def test_dialogue_examples_cannot_stand_inside_a_text():
    template = PromptTemplate("</E>{question}", ice_token="</E>")
    with pytest.raises(DataError, match="cannot stand inside"):
        template.generate_item(ROW, ice_field_replace_token=PromptList([{"role": "HUMAN", "prompt": "x"}]))


def test_only_prompts_are_filled_and_the_template_is_left_alone():
    body = {"round": [{"role": "HUMAN", "prompt": "{question}", "tag": "{note}"}]}
    template = PromptTemplate(body)
    assert template.generate_item(ROW)[1] == {"role": "HUMAN", "prompt": "1+1=?", "tag": "{note}"}
    assert body["round"][0]["prompt"] == "{question}"


def test_the_end_section_opens_as_an_end_in_compat_only():
    body = {"round": ROUND, "end": "bye"}
    assert PromptTemplate(body).generate_item(ROW)[4] == {"section": "end", "pos": "begin"}
    assert PromptTemplate(body, strict=False).generate_item(ROW)[4] == {"section": "end", "pos": "end"}


def test_splice_keeps_no_empty_pieces_around_a_list():
    assert splice(PromptList(["a</E>b</E>", ""]), "</E>", PromptList(["X"])) == ["a", "X", "b", "X"]


# ---- the other kinds ----


def test_rounds_repeat_for_each_turn():
    template = MultiTurnPromptTemplate({"begin": "{topic}", "round": ROUND})
    made = template.generate_item({"topic": "sums", "question": ["q1", "q2"], "answer": ["a1", "a2"]}, "answer")
    assert [item if isinstance(item, str) else item.get("prompt") for item in made] == [
        None, "sums", None, None, "Q: q1", "a1", "Q: q2", "a2", None,
    ]  # fmt: skip


def test_conversations_of_uneven_columns():
    template = MultiTurnPromptTemplate({"round": ROUND})
    with pytest.raises(DataError, match="question has 2, answer has 1"):
        template.generate_item({"question": ["a", "b"], "answer": ["c"]})
    with pytest.raises(DataError, match="the conversation is empty"):
        template.generate_item({"question": [], "answer": []})
    assert template.generate_item({"question": ["a", "b"], "answer": []})[2]["prompt"] == ""
    assert template.generate_item(ROW)[1]["prompt"] == "Q: 1+1=?"
    assert MultiTurnPromptTemplate("{question}").generate_item(ROW) == "1+1=?"


FORMS = {
    "text": {"type": "text", "text": "Q: {question}"},
    "image": {"type": "image_url", "image_url": {"url": "file://{image}"}},
}


def test_parts_come_in_the_order_of_the_row():
    template = MMPromptTemplate({"round": [{"role": "HUMAN", "prompt_mm": FORMS}]})
    content = "<AIS_TEXT_START>what?<AIS_CONTENT_TAG><AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG>"
    text, image = {"type": "text", "text": "Q: what?"}, {"type": "image_url", "image_url": {"url": "file://a.jpg"}}
    assert template.generate_item({"content": content})[1]["prompt_mm"] == [text, image]
    assert template.generate_item({"question": "what?", "image": "a.jpg"})[1]["prompt_mm"] == [text, image]
    with pytest.raises(DataError, match="no form"):
        template.generate_item({"content": "<AIS_VIDEO_START>v<AIS_CONTENT_TAG>"})
    with pytest.raises(DataError, match="no form"):
        template.generate_item({"content": "bare<AIS_CONTENT_TAG>"})


def test_messages_are_given_directly():
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "{question} {answer}"}]
    made = RawPromptTemplate(messages=messages).generate_item(ROW, "answer")
    assert made == [{"role": "system", "content": ""}, {"role": "user", "content": "1+1=? "}]
    assert isinstance(made, Messages)
    assert RawPromptTemplate(messages, format_variables=False).generate_item(ROW) == messages
    assert RawPromptTemplate([{"role": "HUMAN", "content": "x"}]).generate_item(ROW)[0]["role"] == "user"
    parts = [{"role": "user", "content": [{"type": "text", "text": "{question}"}]}]
    assert RawPromptTemplate(parts).generate_item(ROW)[0]["content"] == [{"type": "text", "text": "1+1=?"}]


def test_messages_of_a_column_stand_in_its_place_and_are_not_filled():
    template = RawPromptTemplate([{"expand_column": "talk"}, {"role": "user", "content": "{note}"}])
    talk = [{"role": "user", "content": "{note}"}, {"role": "BOT", "content": "yes", "name": "x"}]
    made = template.generate_item({**ROW, "talk": talk})
    assert made == [
        {"role": "user", "content": "{note}"},
        {"role": "assistant", "content": "yes", "name": "x"},
        {"role": "user", "content": "n"},
    ]
    made[0]["content"] = "changed"
    assert talk[0]["content"] == "{note}"
    assert template.generate_ice_item({**ROW, "talk": talk}, None)[0]["content"] == "{note}"
    with pytest.raises(DataError, match="'talk' has no list of messages"):
        template.generate_item(ROW)
    with pytest.raises(DataError, match="'talk' has 'hello'"):
        template.generate_item({**ROW, "talk": ["hello"]})
    compat = RawPromptTemplate(template.messages, strict=False)
    assert compat.generate_item({**ROW, "talk": "text"}) == [{"role": "user", "content": "n"}]


def test_strings_among_messages():
    """The token is the place of the examples; compat drops every other string, and parts stay as they are."""
    parts = [{"type": "text", "text": "{note}"}]
    messages = ["</E>", "lost", {"role": "user", "content": parts}]
    with pytest.raises(DataError, match="'lost', which would be lost"):
        RawPromptTemplate(messages)
    example = Messages([{"role": "user", "content": "e"}])
    compat = RawPromptTemplate(messages, strict=False)
    assert compat.generate_item(ROW, "note", "", example) == [*example, {"role": "user", "content": parts}]
    assert compat.generate_label_prompt_item(ROW, example, "A") == [{"role": "user", "content": parts}]
    with pytest.raises(DataError, match="stands nowhere"):
        RawPromptTemplate(messages[2:]).generate_item(ROW, "note", "", example)


@pytest.mark.parametrize("messages", ["x", [{"role": "user"}], [{"role": "robot", "content": "x"}], None])
def test_faulty_messages(messages):
    with pytest.raises(DataError, match="a message"):
        RawPromptTemplate(messages)

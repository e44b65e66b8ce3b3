"""How the parts of a prompt are joined: delimiters, description, system prompt, white space, one turn or several."""

import pytest
from hypothesis import given, strategies as st

import kshot
from kshot.backends.texts import scored_parts
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Message, Prompt, plain
from kshot.datasets.compiler import Layout
from kshot.metrics import Perplexity
from tests.datasets.fakes import CHOICES, QUESTIONS, asked, choice, generation, says, seen, texts, turns

SHOWN = [{"q": "zero", "target": "0"}, {"q": "nine", "target": "9"}]


def shot_texts(**options):
    cls = generation(QUESTIONS[:1], SHOWN, **options.pop("body", {}))
    return texts(cls, num_shots=2, **options)


def test_delimiters_and_description_go_where_they_belong():
    assert shot_texts() == ["zero: 0\n\nnine: 9\n\none:"]
    given_ = {"description": "Numbers.\\n\\n", "target_delimiter": "\\n", "fewshot_delimiter": "\\n###\\n"}
    expected = ["Numbers.\n\nzero:\n0\n###\nnine:\n9\n###\none:"]
    assert shot_texts(**given_) == expected
    body = {"description": "Numbers.\n\n", "target_delimiter": "\n", "fewshot_delimiter": "\n###\n"}
    assert shot_texts(body=body) == expected
    assert shot_texts(body=body, description="Digits. ") == [expected[0].replace("Numbers.\n\n", "Digits. ")]


def test_a_description_is_set_apart_if_it_does_not_do_so_itself():
    assert shot_texts(description="Numbers.")[0].startswith("Numbers.\n\nzero:")
    assert shot_texts(description="Numbers.\n")[0].startswith("Numbers.\nzero:")


def test_a_base_model_reads_the_system_prompt_first():
    assert texts(generation(QUESTIONS[:1]), system_prompt="Be brief.") == ["Be brief.\n\none:"]
    both = texts(generation(QUESTIONS[:1]), system_prompt="Be brief.", description="Numbers.")
    assert both == ["Be brief.\n\nNumbers.\n\none:"]


def test_a_chat_model_gets_the_description_as_its_system_message():
    (request,) = asked(
        generation(QUESTIONS[:1], SHOWN), num_shots=1, model_type="chat", description="Numbers.", system_prompt="Brief."
    )
    assert turns(request)[0] == ("system", "Brief.\n\nNumbers.")


def test_examples_are_turns_or_text_in_one_turn():
    cls = generation(QUESTIONS[:1], SHOWN)
    (several,) = asked(cls, num_shots=2, model_type="chat")
    assert [role for role, _ in turns(several)] == ["user", "assistant"] * 2 + ["user"]
    (one,) = asked(cls, num_shots=2, model_type="chat", examples_as="text", fewshot_delimiter="\\n")
    assert turns(one) == [("user", "zero: 0\nnine: 9\none:")]


def test_continuations_follow_the_delimiter_exactly():
    assert seen(choice(CHOICES[:1]), target_delimiter="") == [("sky?", "red", "blue")]
    assert seen(choice(CHOICES[:1]), target_delimiter="\\n") == [("sky?", "\nred", "\nblue")]
    assert seen(choice(CHOICES[:1]), target_delimiter=" ", model_type="chat")[0][1:] == ("red", "blue")


def test_white_space_is_kept_where_a_class_asks():
    rows = [{"q": " sky? \n", "options": [" red", "blue "], "target_idx": 1}]
    plainly = choice(rows, instruction="{{q}}\n")
    assert seen(plainly) == [("sky?", " red", " blue")]
    kept = choice(rows, instruction="{{q}}\n", keep_whitespace=True, target_delimiter="")
    assert seen(kept) == [(" sky? \n\n", " red", "blue ")]
    joined = choice(rows, instruction="{q}", keep_whitespace=True)
    assert seen(joined) == [(" sky? \n", " red", "blue ")]  # white space is there already
    answers = generation([{"q": "a", "target": " b"}], keep_whitespace=True)
    assert kshot.evaluate(says("x"), answers).samples[0]["target"] == [" b"]


def test_kept_white_space_at_the_end_of_a_prompt_is_scored_with_the_answer():
    """lm-eval's rule: the request says so, and shows prompt and answer as they are."""
    rows = [{"q": "sky? \n", "options": ["red", "blue"], "target_idx": 1}]
    kept = {"keep_whitespace": True, "target_delimiter": " ", "use_normalization": True, "normalization_prompt": ""}
    own, baseline = asked(choice(rows, instruction="{{q}}", **kept))
    assert (own.prompt.text, own.continuations, own.spaced) == ("sky? \n", (" red", " blue"), True)
    assert (baseline.prompt.text, baseline.continuations, baseline.spaced) == ("", (" red", " blue"), False)
    assert scored_parts(own, own.prompt.text) == ("sky?", (" \n red", " \n blue"))
    assert scored_parts(baseline, "") == ("", (" red", " blue"))
    assert not any(request.spaced for request in asked(choice(rows, instruction="{{q}}")))
    (measured,) = asked(generation([{"q": "a ", "target": "b"}], metrics=[Perplexity()], instruction="{{q}}", **kept))
    assert measured.spaced


def test_what_cannot_be_a_delimiter_is_refused():
    with pytest.raises(DataError, match="keep_whitespace is 'no'; it must be True or False"):
        texts(generation(keep_whitespace="no"))
    for name in ("description", "target_delimiter", "fewshot_delimiter"):
        with pytest.raises(DataError, match=f"dataset mine: {name} is 3; it must be a text"):
            texts(generation(**{name: 3}))


def test_letters_may_be_asked_for_with_a_space_alone():
    assert seen(choice(CHOICES[:1]), ranking_type="prob")[0][1:] == (" A", " B", "A", "B")
    assert seen(choice(CHOICES[:1]), ranking_type="prob", letters="spaced")[0][1:] == (" A", " B")
    assert seen(choice(CHOICES[:1], letters="spaced"), ranking_type="prob")[0][1:] == (" A", " B")
    with pytest.raises(UsageError, match="ppl_no_option has no use for --letters"):
        texts(choice(), letters="spaced")


MESSAGES = st.lists(
    st.tuples(st.text(max_size=5), st.text(max_size=5)).map(
        lambda pair: [Message("user", pair[0]), Message("assistant", pair[1])]
    )
).map(lambda rounds: [*(each for pair in rounds for each in pair), Message("user", "last")])


@given(MESSAGES)
def test_the_usual_layout_is_the_plain_text_of_a_conversation(messages):
    assert Layout().text(messages) == plain(messages)


@given(MESSAGES, st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.text(max_size=5))
def test_with_white_space_kept_nothing_is_added_or_lost(messages, head, target, fewshot, answer):
    layout = Layout(description=head, target_delimiter=target, fewshot_delimiter=fewshot, keep_whitespace=True)
    rounds = zip(messages[:-1:2], messages[1::2], strict=True)
    shown = "".join(q.content + target + a.content + fewshot for q, a in rounds)
    prompt = layout.text(messages)
    assert prompt == head + shown + "last"
    assert layout.continuation(Prompt(prompt), answer) == target + answer

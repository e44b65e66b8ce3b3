"""Requests of task files: fields, contexts, choices, generation, repeats and chat."""

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.requests import ChatForm, doc_requests, generation_form
from tests.lmeval.tasks import task

ROWS = {
    "test": [
        {"q": "Which bird sings?", "a": "wren", "right": 1, "options": ["owl", "wren"]},
        {"q": "Which bird hunts at night?", "a": "owl", "right": 0, "options": ["owl", "tit"]},
    ],
    "train": [{"q": f"q{n}", "a": f"a{n}", "right": 0, "options": ["x", "y"]} for n in range(5)],
}
CHOICE = {"output_type": "multiple_choice", "doc_to_choice": "options", "doc_to_target": "right"}


def requests(tmp_path, keys, rows=ROWS, num_fewshot=None, **chat):
    return task(tmp_path, keys).requests(rows, num_fewshot, **chat)


def pairs(found):
    return [(each["context"], each["continuation"]) for each in found]


def test_choices_follow_the_context_with_the_delimiter(tmp_path):
    found = requests(tmp_path, {**CHOICE, "description": "Birds.\n\n", "target_delimiter": "\n"})
    assert pairs(found)[:2] == [("Birds.\n\nWhich bird sings?", "\nowl"), ("Birds.\n\nWhich bird sings?", "\nwren")]
    assert {each["type"] for each in found} == {"loglikelihood"}
    assert len(found) == 4


@pytest.mark.parametrize("how", ["{{options}}", "options", {"first": "owl", "second": "wren"}, ["owl", "wren"]])
def test_choices_are_a_column_a_template_a_list_or_a_dict(tmp_path, how):
    found = requests(tmp_path, {**CHOICE, "doc_to_choice": how})
    assert [continuation for _, continuation in pairs(found)[:2]] == [" owl", " wren"]


def test_choices_that_are_no_list(tmp_path):
    with pytest.raises(DataError, match="doc_to_choice must give a list of choices; for row 0"):
        requests(tmp_path, {**CHOICE, "doc_to_choice": "q"})
    with pytest.raises(DataError, match="is no number or list that Python could read"):
        requests(tmp_path, {**CHOICE, "doc_to_choice": "{{q}}"})


def test_mutual_information_also_asks_for_each_choice_alone(tmp_path):
    found = requests(tmp_path, {**CHOICE, "metric_list": [{"metric": "acc"}, {"metric": "acc_mutual_info"}]})
    assert pairs(found)[2:4] == [("", " owl"), ("", " wren")]
    assert len(found) == 8


def test_choices_in_the_context(tmp_path):
    keys = {
        **CHOICE,
        "doc_to_text": "{{right}}",
        "doc_to_choice": "{{[options[0] + ' sings', options[1] + ' sings']}}",
        "doc_to_target": "at {{'night'}}",
        "training_split": "train",
        "fewshot_split": "train",
        "num_fewshot": 1,
        "fewshot_config": {"sampler": "first_n"},
    }
    found = pairs(requests(tmp_path, keys))
    assert found[:2] == [
        ("x sings at night\n\nowl sings", " at night"),
        ("x sings at night\n\nwren sings", " at night"),
    ]


def test_a_likelihood_has_no_delimiter_and_rolling_no_context(tmp_path):
    keys = {"output_type": "loglikelihood", "doc_to_target": " {{a}}", "description": "Birds.\n"}
    assert pairs(requests(tmp_path, keys))[0] == ("Birds.\nWhich bird sings?", " wren")
    found = requests(tmp_path, {**keys, "output_type": "loglikelihood_rolling", "doc_to_target": "q"})
    assert found[0] == {"type": "loglikelihood_rolling", "context": "", "continuation": "Which bird sings?"}


def test_a_target_that_is_no_text(tmp_path):
    with pytest.raises(DataError, match="the target of row 0 must be a text; it is 1"):
        requests(tmp_path, {"output_type": "loglikelihood", "doc_to_target": "right"})


def test_generation_repeats_and_its_defaults(tmp_path):
    found = requests(tmp_path, {"repeats": 3, "fewshot_delimiter": "\n"})
    assert len(found) == 6
    assert found[0] == found[2]
    assert found[3]["context"] == "Which bird hunts at night?"
    assert {**found[0], "context": ""} == {
        "type": "generate_until",
        "context": "",
        "until": ["\n"],
        "max_gen_toks": 256,
        "do_sample": False,
        "temperature": 0.0,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ([], None, False, 0.0)),
        ({"until": "\n", "max_tokens": 5}, (["\n"], 5, False, 0.0)),
        ({"max_gen_toks": None, "max_new_tokens": 7, "max_tokens": 5}, ([], 7, False, 0.0)),
        ({"temperature": 0.7}, ([], None, True, 0.7)),
        ({"temperature": 0.7, "do_sample": False}, ([], None, False, 0.0)),
        ({"do_sample": True, "top_p": 0.9}, ([], None, True, 0.0)),
    ],
)
def test_options_of_a_generation(given, expected):
    assert tuple(generation_form(given, "birds.yaml").values()) == expected


def test_numbers_of_a_generation_that_are_none():
    with pytest.raises(DataError, match=r"birds\.yaml: generation_kwargs cannot be read"):
        generation_form({"max_tokens": "many"}, "birds.yaml")
    for given, said in (
        ({"max_gen_toks": -5}, "generation_kwargs allow -5 tokens; it must be 0 or more"),
        ({"temperature": -1}, "temperature of generation_kwargs is -1.0; it must be 0 or more"),
        ({"until": 5}, "generation_kwargs cannot be read"),
    ):
        with pytest.raises(DataError, match=said):
            generation_form(given, "birds.yaml")


# ---- chat ----


def template(turns, add_generation_prompt):
    return "|".join(f"{each['role']}:{each['content']}" for each in turns) + ("|assistant:" * add_generation_prompt)


SHOTS = {"training_split": "train", "num_fewshot": 1, "fewshot_config": {"sampler": "first_n"}}


def test_examples_are_turns_of_a_chat_or_part_of_the_question(tmp_path):
    found = requests(tmp_path, {**SHOTS, "description": "Birds."}, chat_template=template)
    assert found[0]["context"] == "system:Birds.|user:q0|assistant:a0|user:Which bird sings?|assistant:"
    found = requests(tmp_path, SHOTS, chat_template=template, multiturn=False)
    assert found[0]["context"] == "user:q0 a0\n\nWhich bird sings?|assistant:"


@pytest.mark.parametrize(("prefix", "delimiter"), [("It is", " "), ("It is ", ""), (None, "")])
def test_the_head_of_a_choice_in_a_chat(tmp_path, prefix, delimiter):
    keys = {**CHOICE, **({} if prefix is None else {"gen_prefix": prefix})}
    found = requests(tmp_path, keys, chat_template=template)
    assert found[0]["continuation"] == f"{delimiter}owl"
    assert found[0]["context"] == "user:Which bird sings?|assistant:" + (prefix or "")


def test_turns_for_models_that_take_them(tmp_path):
    birds = task(tmp_path, {**SHOTS, "description": "Birds."})
    found = list(doc_requests(birds.documents(ROWS), 1, ChatForm(None), system="Be brief."))
    assert found[0][0]["context"] == [
        {"role": "system", "content": "Be brief.\n\nBirds."},
        {"role": "user", "content": "q0"},
        {"role": "assistant", "content": "a0"},
        {"role": "user", "content": "Which bird sings?"},
    ]

"""What dataset classes ask of a model: examples, options, contexts, sampling, conversations."""

import random

import numpy as np
import pytest

import kshot
from kshot import Accuracy, PassAtK, Perplexity
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Failed, Generated, Likelihood, Message, Scored
from tests.datasets.fakes import (
    CHOICES,
    QUESTIONS,
    Fake,
    asked,
    choice,
    generation,
    prefers,
    says,
    texts,
    turns,
    values,
)

# ---- examples ----

SHOWN = [{"q": f"e{i}", "target": str(i)} for i in range(9)]


def test_the_draw_depends_on_the_seed_alone():
    cls = generation(QUESTIONS[:1], SHOWN)
    drawn = np.random.RandomState(2023).choice(9, 3, replace=False)
    expected = ["".join(f"e{i}: {i}\n\n" for i in drawn) + "one:"]
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert texts(cls, num_shots=3) == expected
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002 - not even touched
    np.random.seed(2)  # noqa: NPY002
    assert texts(cls, num_shots=3) == expected
    assert texts(cls, num_shots=3, seed=7) != expected


def test_all_examples_come_in_order_and_too_many_are_noted():
    cls = generation(QUESTIONS[:1], SHOWN[:2])
    assert texts(cls, num_shots=2) == texts(cls, num_shots=5) == ["e0: 0\n\ne1: 1\n\none:"]
    notes = kshot.evaluate(says("1"), cls, num_shots=5).notes
    assert "mine: 5 examples wanted, all 2 shown" in notes


def test_examples_that_are_not_there():
    with pytest.raises(DataError, match=r"no examples to show \(2 wanted\). Set example_set"):
        texts(generation(), num_shots=2)
    with pytest.raises(DataError, match="example 0: an example needs a target"):
        texts(generation(examples=[{"q": "e"}]), num_shots=1)


ANSWERS = [("ppl_no_option", "blue"), ("ppl", "B. blue"), ("prob", "B"), ("generation", "B")]


@pytest.mark.parametrize(("ranking_type", "shown"), ANSWERS)
def test_how_an_example_is_answered(ranking_type, shown):
    (text,) = texts(choice(CHOICES[1:], CHOICES[:1]), num_shots=1, ranking_type=ranking_type)
    assert text.split("\n\n")[0].endswith(f" {shown}")


def test_construct_examples_as_text():
    cls = generation(QUESTIONS[:1], construct_examples=lambda self, instance: f"Like {instance['q']} yes\n")
    (base,), (chat,) = asked(cls), asked(cls, model_type="chat")
    assert base.prompt.text == "Like one yes\n\none:"
    assert turns(chat) == [("user", "Like one yes\n\none:")]  # roles must alternate


@pytest.mark.parametrize("made", [Message, lambda role, content: {"role": role, "content": content}])
def test_construct_examples_as_messages(made):
    def construct_examples(self, instance=None):
        return [made("user", f"not {instance['q']}"), made("assistant", "0")]

    cls = generation(QUESTIONS[:1], construct_examples=construct_examples)
    (base,), (chat,) = asked(cls), asked(cls, model_type="chat", system_prompt="Be brief.")
    assert base.prompt.text == "not one 0\n\none:"
    assert turns(chat) == [("system", "Be brief."), ("user", "not one"), ("assistant", "0"), ("user", "one:")]


def test_construct_examples_may_build_on_the_default():
    class Mine(generation(QUESTIONS[:1], SHOWN[:2])):
        def construct_examples(self, instance=None):
            return [Message("user", "Ready?"), Message("assistant", "Yes."), *super().construct_examples(instance)]

    assert texts(Mine, num_shots=2) == ["Ready? Yes.\n\ne0: 0\n\ne1: 1\n\none:"]
    assert texts(Mine) == ["Ready? Yes.\n\none:"]


@pytest.mark.parametrize("returned", [5, [5], [{"role": "nobody", "content": "x"}], [{"role": "user"}]])
def test_construct_examples_that_are_none(returned):
    with pytest.raises(DataError, match="construct_examples returned"):
        texts(generation(construct_examples=lambda self, instance: returned))


# ---- options and contexts ----


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"target_idx": 0}, "format_instance gave no options"),
        ({"options": [], "target_idx": 0}, "the list of options is empty"),
        ({"options": "ab", "target_idx": 0}, "options must be a list of texts, not str"),
        ({"options": ["a", " "], "target_idx": 0}, "option 1 is empty"),
        ({"options": ["a", None], "target_idx": 0}, "option 1 is empty"),
        ({"options": ["a", "b"], "target_idx": 2}, "the target is 2, but there are 2 options"),
        ({"options": ["a", "b"], "label": -1}, "the target is -1, but there are 2 options"),
        ({"options": ["a", "b"], "label": "x"}, "label is 'x'; it must be the index of an option"),
        ({"options": ["a", "b"]}, "there is no target_idx, label or matching target"),
        ({"options": ["a", "b"], "target": "c"}, "there is no target_idx, label or matching target"),
        ({"source": ["a", "b"], "source_idx": 0}, "several contexts need a target"),
    ],
)
def test_faulty_options_name_the_row(row, message):
    with pytest.raises(DataError, match=f"dataset mine, row 0: {message}"):
        texts(choice([row], instruction="?"))


def test_options_and_rows_are_never_changed():
    rows = [{"q": "?", "options": [" a", "b "], "target_idx": 0}]
    for ranking_type in ("ppl_no_option", "ppl", "prob", "generation"):
        kshot.evaluate(Fake(answer_anything), choice(rows, rows), ranking_type=ranking_type, num_shots=1)
    assert rows == [{"q": "?", "options": [" a", "b "], "target_idx": 0}]


def answer_anything(request):
    if hasattr(request, "continuations"):
        return Scored(tuple(Likelihood(-1.0, 1) for _ in request.continuations))
    return Generated("A")


def test_a_class_that_changes_its_rows_changes_only_its_copy():
    def format_instance(self, row):
        row["options"].append(f"option {len(row['options'])}")
        return row | {"target_idx": 0}

    cls = choice([{"q": "?", "options": ["a"]}], format_instance=format_instance, post_processing=lambda self, p: [0])
    result = kshot.evaluate(prefers(), cls)  # formats the rows more than once
    assert [part["text"] for part in result.samples[0]["response"]] == [" a", " option 1"]


def test_a_list_called_source_is_no_context_beside_options():
    row = {"source": ["first part", "second part"], "options": ["x", "y"], "target_idx": 1}
    (request,) = asked(choice([row], instruction="{{ source|join(' / ') }}:"))
    assert (request.prompt.text, request.continuations) == ("first part / second part:", (" x", " y"))


def test_several_contexts_go_by_perplexity_only():
    row = {"source": ["Ann", "Sue"], "source_idx": 1, "target": "sings."}
    cls = choice([row], instruction="{source}")
    assert texts(cls) == texts(cls, ranking_type="ppl") == ["Ann", "Sue"]
    for ranking_type in ("prob", "generation"):
        with pytest.raises(DataError, match=f"several contexts cannot be put to a model by {ranking_type}"):
            texts(cls, ranking_type=ranking_type)


def test_a_target_may_be_the_options_text():
    cls = choice([{"q": "?", "options": ["red ", "blue"], "target": " red"}])
    assert kshot.evaluate(prefers("red"), cls).samples[0]["scores"]["Accuracy"] == 100.0


def test_multiple_choice_in_chat():
    (request,) = asked(choice(CHOICES[:1], CHOICES[1:]), model_type="chat", num_shots=1)
    assert turns(request) == [("user", "sun?"), ("assistant", "hot"), ("user", "sky?")]
    assert request.continuations == ("red", "blue")  # a turn of its own: no space before it


def test_multiple_choice_is_not_multi_turn():
    with pytest.raises(DataError, match="multi_turn is for datasets of generation"):
        texts(choice(multi_turn=True))


# ---- sampling ----


def test_extra_model_args_and_what_wins():
    extra = {"temperature": 0.5, "max_tokens": 9, "stop": "\n", "top_p": 0.9, "top_k": 3, "repetition_penalty": 1.1}
    cls = generation(QUESTIONS[:1], extra_model_args=extra)
    (own,) = asked(cls)
    assert (own.temperature, own.max_tokens, own.stop, own.top_p, own.top_k) == (0.5, 9, ("\n",), 0.9, 3)
    assert (own.repetition_penalty, own.seed) == (1.1, 2023)
    (given,) = asked(cls, temperature=0, max_tokens=5, stop=["a", "b"], top_p=0.5, top_k=1)
    assert (given.temperature, given.max_tokens, given.stop, given.top_p, given.top_k) == (0.0, 5, ("a", "b"), 0.5, 1)
    assert given.seed is None  # nothing is drawn
    (listed,) = asked(generation(QUESTIONS[:1], extra_model_args={"stop": ["x", "y"]}), stop="z")
    assert listed.stop == ("z",)
    (plain,) = asked(generation(QUESTIONS[:1], extra_model_args={"stop": None}))
    assert plain.stop == ()


def test_extra_model_args_that_cannot_be_used():
    with pytest.raises(DataError, match=r"has 'beams', which generation cannot use\. It can use: max_tokens"):
        texts(generation(extra_model_args={"beams": 4}))
    extra = {"temperature": 0.5}
    assert texts(choice(extra_model_args=extra), ranking_type="generation")
    for ranking_type in ("ppl_no_option", "ppl", "prob"):
        with pytest.raises(DataError, match=f"has temperature, which {ranking_type} cannot use"):
            texts(choice(extra_model_args=extra), ranking_type=ranking_type)
    with pytest.raises(DataError, match="has temperature, which perplexity cannot use"):
        texts(generation(metrics=[Perplexity()], extra_model_args=extra))


def test_sample_num_takes_the_majority():
    replies = ["1", "2", "2"]
    backend = Fake(lambda r: Generated(replies[r.replica]))
    result = kshot.evaluate(backend, generation(), sample_num=3)
    assert [row["answer"] for row in result.samples] == ["2", "2", "2"]
    assert [row["scores"]["EM"] for row in result.samples] == [0.0, 100.0, 0.0]
    assert {request.temperature for request in backend.asked} == {1.0}
    assert result.notes == ["mine: temperature 0 becomes 1, since 3 replies are sampled"]
    quiet = kshot.evaluate(backend, generation(), sample_num=3, temperature=0.7)
    assert quiet.notes == []


def test_post_processing_comes_before_the_vote():
    replies = ["a 1", "b 1", "c 2"]
    rounds = []

    def post_processing(self, predictions):
        rounds.append(list(predictions))
        return [reply[-1] for reply in predictions]

    cls = generation(QUESTIONS[:2], post_processing=post_processing)
    result = kshot.evaluate(Fake(lambda r: Generated(replies[r.replica])), cls, sample_num=3)
    assert [row["answer"] for row in result.samples] == ["1", "1"]
    assert rounds == [["a 1"] * 2, ["b 1"] * 2, ["c 2"] * 2]


def test_pass_at_k_is_checked_before_anything_is_asked():
    backend = says("pass")
    cls = generation(metrics=[PassAtK()])
    with pytest.raises(UsageError, match=r"pass@5 needs 5 replies per sample, not 2\. Add --sample-num 5"):
        kshot.evaluate(backend, cls, pass_at_k=[1, 5], sample_num=2)
    with pytest.raises(UsageError, match="--pass-at-k needs a dataset with the metric PassAtK"):
        kshot.evaluate(backend, generation(), pass_at_k=[1])
    assert backend.asked == []


def test_cot():
    cls = generation(QUESTIONS[:1], supported_cot=["base", "pal"], instruction="{q} {target}")
    with pytest.raises(UsageError, match=r"dataset mine: --cot 'tree' is not supported\. Supported: base, pal"):
        texts(cls, cot="tree")
    with pytest.raises(UsageError, match="Supported: none"):
        texts(generation(), cot="base")

    class Mine(cls):
        def init_arguments(self):
            self.instruction = f"{self.cot}: {{q}}"

    assert texts(Mine, cot="pal") == ["pal: one"]
    assert texts(Mine) == ["None: one"]


# ---- conversations ----


@pytest.mark.parametrize("model_type", ["base", "chat"])
def test_multi_turn(model_type):
    cls = generation(
        [{"source": ["Hi", "More", "Bye"], "target": "x"}],
        multi_turn=True,
        instruction="{{turn_idx}}/{{num_turns}} {{source[turn_idx]}}",
        metrics=[Accuracy()],
        post_processing=lambda self, predictions: ["+".join(each) for each in predictions],
        references=["r1+r2+r3"],
    )
    replies = iter(["r1", "r2", "r3"])
    backend = Fake(lambda _: Generated(next(replies)))
    result = kshot.evaluate(backend, cls, model_type=model_type)
    assert values(result) == {"mine": {"Accuracy": 100.0}}
    assert backend.asked[-1].prompt.text == "0/3 Hi r1\n\n1/3 More r2\n\n2/3 Bye"
    if model_type == "chat":
        roles = [role for role, _ in turns(backend.asked[-1])]
        assert roles == ["user", "assistant", "user", "assistant", "user"]
    else:
        assert backend.asked[-1].prompt.messages == ()


def test_without_post_processing_a_conversation_is_the_tuple_of_replies():
    cls = generation(
        [{"source": ["a", "b"]}], multi_turn=True, instruction="{{source[turn_idx]}}", metrics=[Accuracy()]
    )
    result = kshot.evaluate(says("r"), type("Own", (cls,), {"references": [("r", "r")]}))
    assert list(result.samples[0]["answer"]) == ["r", "r"]


# ---- answers that failed ----


@pytest.mark.parametrize("options", [{}, {"sample_num": 2}])
def test_post_processing_sees_a_blank_for_a_failed_answer_and_it_is_not_scored(options):
    seen = []

    def post_processing(self, predictions):
        seen.append(list(predictions))
        return predictions

    backend = Fake(lambda r: Failed("down", "no answer") if "two" in r.prompt.text else Generated("1"))
    result = kshot.evaluate(backend, generation(post_processing=post_processing), **options)
    assert all(predictions == ["1", "", "1"] for predictions in seen)
    assert len(seen) == options.get("sample_num", 1)
    (row,) = result.results
    assert (row["n"], row["failed"], row["value"]) == (2, 1, 50.0)
    assert result.samples[1]["answer"] is None


@pytest.mark.parametrize("ranking_type", ["ppl_no_option", "ppl", "prob", "generation"])
def test_the_same_for_options(ranking_type):
    def answer(request):
        return Failed("down", "no answer") if "sun?" in request.prompt.text else answer_anything(request)

    class Mine(choice(CHOICES)):
        def post_processing(self, predictions):
            return super().post_processing(predictions)

    result = kshot.evaluate(Fake(answer), Mine, ranking_type=ranking_type)
    (row,) = result.results
    assert (row["n"], row["failed"]) == (1, 1)
    assert [sample["answer"] for sample in result.samples] == [0, None]

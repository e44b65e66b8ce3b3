"""Plug-ins of every shape as models."""

import re
from datetime import date
from functools import partial
from pathlib import Path

import pytest

import kshot
from kshot.backends.adapters import CallableModel, as_model, renamed
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, LanguageModel, SearchEngine
from kshot.core.records import Generate, Generated, Prompt
from tests.datasets.fakes import Fake, from_rows, generation, says


def always(text):
    return lambda prompt: text


class Answering:
    def __init__(self, text):
        self.text = text

    def __call__(self, prompt):
        return self.text


def repeat(times, prompt):
    return prompt * times


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (always("A"), always("B")),
        (partial(repeat, 1), partial(repeat, 2)),
        (Answering("A"), Answering("B")),
        (lambda prompt: "A", lambda prompt: "B"),
        (Answering("A").__call__, Answering("B").__call__),
    ],
    ids=["closure", "partial", "object", "lambda", "method"],
)
def test_functions_that_answer_differently_have_different_fingerprints(one, other):
    assert CallableModel(one).fingerprint != CallableModel(other).fingerprint


def test_a_function_made_again_has_the_same_fingerprint():
    assert CallableModel(always("A")).fingerprint == CallableModel(always("A")).fingerprint
    assert CallableModel(Answering("A")).fingerprint == CallableModel(Answering("A")).fingerprint


def test_a_function_is_a_language_model():
    model = as_model(lambda prompt: f"{prompt} yes\nno")
    assert isinstance(model, LanguageModel)
    ((_, reply),) = model.serve([Generate(Prompt("q"), stop=("\n",))])
    assert reply == Generated("q yes")
    cls = from_rows(kshot.GenerationDataset, [{"q": "a"}], instruction="{q}", metrics=["em"], references=[["a yes"]])
    assert kshot.evaluate(lambda prompt: f"{prompt} yes", cls).results[0]["value"] == 100.0


def test_two_models_of_one_name_are_refused():
    cls = from_rows(kshot.GenerationDataset, [{"q": "a"}], instruction="{q}", metrics=["em"], references=[["a"]])
    with pytest.raises(UsageError, match=r"two models are called .*Give each a name of its own"):
        kshot.evaluate([lambda prompt: "A", lambda prompt: "B"], cls)


def test_what_is_no_model_says_what_it_lacks():
    with pytest.raises(BackendError, match="it has no name, fingerprint, answers, serve"):
        as_model(object())

    async def later(prompt):
        return prompt

    with pytest.raises(UsageError, match="an async function cannot be a model"):
        as_model(later)


def test_members_that_a_plug_in_leaves_out_have_defaults():
    model = as_model(Fake(lambda request: Generated("1")))
    assert (model.name, model.abilities, tuple(model.notes)) == ("fake", Abilities(), ())
    model.close()
    fake = says("x")
    fake.abilities = Abilities(chat_template=True)
    assert as_model(fake).abilities.chat_template


def test_a_renamed_model_is_the_same_model():
    model = renamed(as_model(says("x")), "fake,size=2")
    assert (model.name, model.fingerprint) == ("fake,size=2", "fake")
    engine = renamed(kshot.backends.open_model("fts5"), "mine")
    assert isinstance(engine, SearchEngine)
    assert engine.name == "mine"


def test_classes_and_functions_of_another_shape_are_no_models():
    with pytest.raises(UsageError, match=r"Answering: this is a class, not a model\. Pass an instance: Answering\(\)"):
        as_model(Answering)
    with pytest.raises(UsageError, match="it cannot be called with a prompt: missing a required argument: 'prompt'"):
        as_model(repeat)
    with pytest.raises(UsageError, match="it cannot be called with a prompt"):
        as_model(kshot.Em())


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def __call__(self, prompt):
        return self.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (frozenset({"a", "b"}), frozenset({"a", "c"})),
        (re.compile("a"), re.compile("b")),
        (date(2026, 1, 1), date(2026, 1, 2)),
        (len, max),
        (Slotted("a"), Slotted("b")),
        (Path("a"), Path("b")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_every_kind_count(one, other):
    assert CallableModel(Answering(one)).fingerprint != CallableModel(Answering(other)).fingerprint
    assert CallableModel(Answering(one)).fingerprint == CallableModel(Answering(one)).fingerprint


def test_functions_and_objects_that_refer_to_themselves():
    def outer():
        def inner(prompt, depth=0):
            return prompt if depth else inner(prompt, 1)

        return inner

    assert CallableModel(outer()).fingerprint == CallableModel(outer()).fingerprint
    own = Answering("x")
    own.self = own
    assert CallableModel(own).fingerprint


def test_an_empty_stop_text_cuts_nothing():
    ((_, reply),) = as_model(lambda prompt: "yes").serve([Generate(Prompt("q"), stop=("",))])
    assert reply == Generated("yes")


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("name", 5, "its name is 5; it must be a text"),
        ("name", "", "its name is ''"),
        ("name", "m\x1b[31m", "it must be a text without control characters"),
        ("fingerprint", ["x"], r"its fingerprint is \['x'\]"),
        ("answers", (), r"its answers are \(\)"),
        ("answers", ("Generate",), "a tuple of request types"),
    ],
)
def test_members_of_wrong_types_are_named(member, value, message):
    fake = says("x")
    setattr(fake, member, value)
    with pytest.raises(BackendError, match=message):
        as_model(fake)


def test_a_function_may_fail_one_sample():
    def careful(prompt):
        return kshot.Failed("timeout", "no reply after 10 s") if "two" in prompt else "1"

    found = kshot.evaluate(careful, generation([{"q": "one", "target": "1"}, {"q": "two", "target": "1"}]))
    assert (found.results[0]["value"], found.results[0]["n"], found.results[0]["failed"]) == (100.0, 1, 1)
    assert found.samples[1]["failed"] == "timeout: no reply after 10 s"


def test_a_function_may_say_more_of_its_reply():
    tokens = (("<think>", -1.0), ("x", -2.0), ("</think>", -3.0), ("4", -4.0), (" END", -5.0), (" 5", -6.0))
    given = Generated("".join(text for text, _ in tokens), "length", token_logprobs=tokens)
    model = as_model(lambda prompt: given)
    request = Generate(Prompt("2+2="), stop=("END",), token_logprobs=True)
    ((_, found),) = model.serve(iter([request]))
    assert found == Generated("4 ", "length", reasoning="x", token_logprobs=(("4", -4.0), (" ", -5.0)))

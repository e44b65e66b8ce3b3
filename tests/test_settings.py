"""The settings of all parts together."""

import inspect
import pydoc
from collections import Counter
from pathlib import Path

import pytest

import kshot
from kshot.backends.server.settings import ServerSettings
from kshot.backends.settings import ModelSettings
from kshot.core.errors import UsageError
from kshot.core.options import Options
from kshot.settings import Settings, settings_from
from tests.option_types import PLACE, written


def test_every_option_is_declared_by_one_owner():
    owners = [cls for cls in Settings.__mro__ if issubclass(cls, Options)]
    declared = Counter(name for cls in owners for name in vars(cls).get("__annotations__", ()))
    assert set(declared) == {*Settings.declared(), "sweep"}  # which holds the options that have several values
    assert [name for name, count in declared.items() if count > 1] == []


def test_the_joined_class_declares_no_option_of_its_own():
    assert "__annotations__" not in vars(Settings) or not vars(Settings)["__annotations__"]


def test_a_model_gets_its_own_settings_and_those_of_servers_only_if_they_are_set():
    settings = settings_from({"dtype": "float16", "rpm": 60, "timeout": 600, "price_in": 2, "num_shots": 3, "seed": 1})
    assert settings.changed(ModelSettings, ServerSettings) == {"dtype": "float16", "rpm": 60}
    assert Settings(chat_template="x.jinja", model_type="chat").changed(ModelSettings) == {"chat_template": "x.jinja"}


def test_nothing_that_leaves_results_alone_is_in_the_identity():
    settings = settings_from(
        {"device": "cpu", "batch_size": 2, "rpm": 1, "tpm": 1, "timeout": 1, "patience": 1, "max_concurrency": 1}
        | {"price_in": 1, "price_out": 1, "price_cached": 1}
    )
    assert settings.identity() == {}
    assert settings_from({"metric": "em", "seed": 2023, "temperature": 0}).identity() == {
        "metric": ["em"],
        "temperature": 0.0,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_shots": -1}, "--num-shots is -1; it must be 0 or more"),
        ({"max_example_tokens": -1}, "--max-example-tokens is -1; it must be 0 or more"),
        ({"limit": 0}, "--limit is 0; it must be 1 or more"),
        ({"max_tokens": 0}, "--max-tokens is 0; it must be 1 or more"),
        ({"temperature": -1}, "--temperature is -1.0; it must be 0 or more"),
        ({"temperature": float("inf")}, "--temperature is inf; it must be a finite number"),
        ({"top_p": 0}, "--top-p is 0.0; it must be above 0 and at most 1"),
        ({"top_k": 0}, "--top-k is 0; it must be 1 or more"),
        ({"sample_num": 0}, "--sample-num is 0; it must be from 1 to 100000"),
        ({"pass_at_k": (1, 0)}, "--pass-at-k is 0; it must be 1 or more"),
        ({"shots": -1}, "--shots is -1; it must be 0 or more"),
        ({"samples": 0}, "--samples is 0; it must be from 1 to 10000000"),
        ({"read": 0}, "--read is 0; it must be 1 or more"),
        ({"batch_size": 0}, "--batch-size is 0; it must be 1 or more"),
        ({"max_concurrency": 0}, "--max-concurrency is 0; it must be 1 or more"),
        ({"rpm": 0}, "--rpm is 0; it must be 1 or more"),
        ({"tpm": 0}, "--tpm is 0; it must be 1 or more"),
        ({"timeout": 0}, "--timeout is 0.0; it must be 0.001 or more"),
        ({"patience": -1}, "--patience is -1.0; it must be 0 or more"),
        ({"price_in": -1}, "--price-in is -1.0; it must be from 0 to 1000000"),
        ({"price_out": float("nan")}, "--price-out is nan; it must be a finite number"),
        ({"seed": 2**32}, "--seed is 4294967296; it must be from 0 to 4294967295"),
        ({"ranking_type": "best"}, "--ranking-type is 'best'; it must be one of ppl_no_option, ppl, prob"),
        ({"model_type": "instruct"}, "--model-type is 'instruct'; it must be one of base, chat"),
        ({"method": "read"}, "--method is 'read'; it must be one of search, rag"),
        (
            {"shoots": 1},
            "there is no option 'shoots'. Options: accuracy, add_bos, allow_download, answer, answer_as, answer_pattern",
        ),
    ],
)
def test_values_that_mean_nothing_are_refused(options, message):
    with pytest.raises(UsageError) as caught:
        settings_from(options)
    assert str(caught.value).startswith(message)


# ---- what editors and type checkers know ----


def test_the_typed_options_are_those_of_the_settings():
    assert PLACE.read_text(encoding="utf-8") == written(), "write it again: .venv/bin/python tests/option_types.py"


@pytest.mark.parametrize("function", [kshot.evaluate, kshot.preview])
def test_inspect_and_help_show_every_option_with_its_default_and_type(function):
    shown = inspect.signature(function).parameters
    options = {name: each for name, each in shown.items() if name in Settings.declared()}
    assert list(options) == list(Settings.declared())
    for name, declared in Settings.declared().items():
        assert options[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert options[name].default == declared.default
        assert options[name].annotation == declared.annotation
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    assert "num_shots: 'int | Sequence[int] | None' = 0" in pydoc.render_doc(function, renderer=pydoc.plaintext)


def value_of(declared):
    """Return a value that an option may have."""
    if declared.metavar == "K/N":
        return "1/1"
    one = declared.choices[0] if declared.choices else {str: "1", int: 1, float: 1.0, bool: True}[declared.kind]
    return [one] if declared.several else one


def test_evaluate_takes_what_the_types_allow():
    """None stands for the default; a list, a single value and a path are read."""
    declared = Settings.declared()
    assert settings_from(dict.fromkeys(declared)) == Settings()
    settings = settings_from({name: value_of(each) for name, each in declared.items()})
    assert settings.data == ("1",)
    assert settings_from({"data": "rows.csv", "dataset_path": Path("rows")}) == Settings(
        data=("rows.csv",), dataset_path="rows"
    )


@pytest.mark.parametrize(
    ("shots", "own", "said"), [(2, 1, "-k 2 and --num-fewshot 1 both"), ((0, 1), 3, "-k 0,1 and --num-fewshot 3 both")]
)
def test_two_numbers_of_examples_for_task_files_are_refused(shots, own, said):
    given = {"num_shots": shots, "num_fewshot": own}
    with pytest.raises(UsageError, match=said):
        settings_from(given, ["lmeval:a", "lmeval:b"])
    assert settings_from(given, ["lmeval:a", "mmlu"]).num_fewshot == own  # each number has datasets of its own
    assert settings_from({"num_shots": own, "num_fewshot": own}, "lmeval:a").num_fewshot == own

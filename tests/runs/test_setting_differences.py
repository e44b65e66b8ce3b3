"""What differs between the settings of runs."""

from pathlib import Path

import pytest

from kshot.runs.setting_differences import setting_differences
from kshot.runs.spec_file import read_spec

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"


def spec(identity=None, **more):
    return {"identity": {"models": ["embedded"], "datasets": ["a.py:A"], **(identity or {})}, **more}


def facts(**tasks):
    return {"embedded": tasks}


def told(*specs):
    return {row["setting"]: row["values"] for row in setting_differences(specs)}


def test_runs_with_the_same_settings_differ_in_nothing():
    one = spec({"num_shots": 3}, tasks=facts(a={"shots": 3}), code={"a.py": "1"}, versions={"kshot": "0.1.0"})
    assert setting_differences([one, one]) == []
    assert setting_differences([one]) == []
    assert setting_differences([]) == []


def test_an_option_has_its_default_beside_it():
    assert setting_differences([spec(), spec({"num_shots": 5})]) == [
        {"setting": "num_shots", "values": [None, 5], "default": 0}
    ]


def test_models_and_datasets_come_first_and_options_in_the_order_of_the_help():
    other = spec({"seed": 1, "num_shots": 5, "datasets": ["b.py:B"], "models": ["hf:m"], "instruction": "Say:"})
    assert list(told(spec(), other)) == ["models", "datasets", "num_shots", "seed", "instruction"]


def test_early_folders_which_hold_every_option_differ_only_where_values_do():
    early = read_spec(EARLY / "planets")
    now = spec({"datasets": ["examples/planets.py:Planets", "examples/planets.py:PlanetNames"]})
    assert told(early, now) == {"num_shots": [2, None]}


def test_models_that_a_config_names_are_told_by_what_was_asked():
    asked = [spec({"models": None}, models=[{"role": "model", "name": n, "fingerprint": n}]) for n in ("x", "y")]
    assert told(*asked) == {"models": [["x"], ["y"]]}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (spec(tasks=facts(a={"shots": 0})), spec({"num_shots": 3}, tasks=facts(a={"shots": 3})), {}),
        (spec(tasks=facts(a={"shots": 0})), spec(tasks=facts(a={"shots": 2})), {"shots in prompts": [0, 2]}),
        (  # three were asked for, and two fitted
            spec(tasks=facts(a={"shots": 0})),
            spec({"num_shots": 3}, tasks=facts(a={"shots": 2})),
            {"shots in prompts": [0, 2]},
        ),
        (
            spec({"num_shots": 4}, tasks=facts(a={"shots": 1})),
            spec({"num_shots": 3}, tasks=facts(a={"shots": 1})),
            {"shots in prompts": [1, 1]},
        ),
        (
            spec(tasks=facts(a={"shots": 0}, b={"shots": 1}, c={"shots": 1}, d={"shots": 4})),
            spec(tasks=facts(a={"shots": 0}, b={"shots": 2}, c={"shots": 2}, d={"shots": 5})),
            {"shots in prompts of b and 1 more": [1, 2], "shots in prompts of d": [4, 5]},
        ),
        (  # one task each: renamed
            spec(tasks=facts(a={"ranking_type": "ppl"})),
            spec(tasks=facts(b={"ranking_type": "generation"})),
            {"ranking_type in use": ["ppl", "generation"]},
        ),
        (
            spec(tasks=facts(a={"kept": {}})),
            spec(tasks=facts(a={"kept": {"0": 1, "7": 2}})),
            {"samples with fewer shots": [0, 2]},
        ),
    ],
)
def test_what_a_task_really_got_is_told_where_the_options_do_not(first, second, expected):
    found = told(first, second)
    found.pop("num_shots", None)
    assert found == expected


def test_code_data_fingerprints_and_versions_that_changed():
    model = {"role": "model", "name": "embedded", "fingerprint": "f1"}
    judge = {"role": "judge", "name": "j", "fingerprint": "j1"}
    record = {"samples": 8, "digest": "d1", "all": True}
    one = spec(
        models=[model, judge],
        code={"a.py": "c1", "same.py": "s"},
        data={"a": record},
        sessions=[{"versions": {"kshot": "0.0.1"}}, {"versions": {"kshot": "0.1.0", "numpy": "2"}}],
        versions={"kshot": "0.0.1"},
    )
    two = spec(
        models=[{**model, "fingerprint": "f2"}, {**judge, "fingerprint": "j2"}],
        code={"a.py": "c2", "same.py": "s", "only_here.py": "o"},
        data={"a": {**record, "samples": 4, "digest": "d2"}},
        versions={"kshot": "0.2.0", "torch": "2"},
    )
    assert told(one, two) == {
        "fingerprint of embedded": ["f1", "f2"],
        "fingerprint of judge j": ["j1", "j2"],
        "code in a.py": ["c1", "c2"],
        "data of a": ["8 samples, d1", "4 samples, d2"],
        "version of kshot": ["0.1.0", "0.2.0"],
    }


def test_true_is_not_one():
    assert told(spec({"seed": 1}), spec({"seed": True})) == {"seed": [1, True]}


@pytest.mark.parametrize("wrong", [7, "x", [1], {"a": 7}, {"a": [1]}, {"a": {"samples": "many"}}, None])
def test_what_a_stranger_wrote_breaks_nothing(wrong):
    other = {"code": wrong, "versions": wrong, "sessions": [{"versions": wrong}]}
    if isinstance(wrong, dict):
        other |= {"data": wrong, "tasks": {"m": wrong, "n": 7}}
    assert setting_differences([spec({"unknown": wrong}), spec(**other)]) == (
        [{"setting": "unknown", "values": [wrong, None]}] if wrong is not None else []
    )


def test_keys_are_not_shown():
    other = spec({"request_option": ["api_key=hunter22"]})
    assert told(spec(), other)["request_option"] == [None, ["api_key=***"]]

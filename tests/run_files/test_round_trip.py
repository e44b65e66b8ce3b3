"""A command, saved as a run file, asks for the same run when the file is read: whatever the command is."""

import argparse
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kshot.cli.parser import options_of, parser
from kshot.cli.run import default_folder
from kshot.cli.run_file import RunFileWriter, applied
from kshot.core.errors import UsageError
from kshot.run_files.reading import FLAGS, GATES, LISTS, TEXTS
from kshot.settings import Settings, settings_from

OWN = {"help", "save_run_file"}
"""What a command line alone can say."""


PARSER = parser()
RUN = next(each for each in PARSER._actions if isinstance(each, argparse._SubParsersAction)).choices["run"].declared()
KNOWN = {action.dest for action in RUN._actions} - OWN


def test_a_run_file_can_say_whatever_the_command_line_can():
    assert {*Settings.declared(), *GATES, *FLAGS, *LISTS.values(), *TEXTS.values(), "out"} == KNOWN


# ---- commands ----

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
words = texts.filter(lambda text: text.strip() and not text.startswith("-"))
names = st.sampled_from(["embedded", "hf:model", "quiz.py:Quiz", "lookup:UR,UL", "bm25,k1=1.2", "a b", "x,y"]) | words
option_names = st.sampled_from(
    ["num_shots", "stop", "dtype", "k", "name", "metric", "temperature", "report", "dataset_path"]
)
option_values = st.one_of(
    st.sampled_from(["1", "01", "0.5", "yes", "true", "a+b", r"1\+1", "0+1+5", r"a\,b", "", "em+f1", "-1", "1e3"]),
    texts.filter(lambda text: "," not in text and "\\" not in text),
)
specs = st.tuples(names, st.dictionaries(option_names, option_values, max_size=3)).map(
    lambda found: found[0] + "".join(f",{key}={value}" for key, value in found[1].items())
)


def numbers(declared):
    if declared.kind is int:
        least = int(declared.least or 0) + (declared.above is not None)
        return st.integers(least, int(declared.most or least + 1000)).map(str)
    least = declared.least if declared.least is not None else declared.above if declared.above is not None else -1e6
    kept = st.floats(least, declared.most or 1e9, exclude_min=declared.above is not None)
    return kept.map(repr)


def values_of(name, declared):
    """Texts that an option may have on the command line."""
    if name.endswith("header"):
        return st.sampled_from(["X-Team=env:TEAM", "Authorization=env:MY_TOKEN"])
    one = (
        st.sampled_from(declared.choices) if declared.choices else words if declared.kind is str else numbers(declared)
    )
    return st.lists(one, min_size=1, max_size=3).map(",".join) if declared.listed or declared.sweeps else one


def setting_arguments(name, declared):
    option = "--" + name.replace("_", "-")
    if declared.kind is bool:
        return st.sampled_from([[option], [option.replace("--", "--no-", 1)]])
    one = values_of(name, declared).map(lambda text: f"{option}={text}")
    return st.lists(one, min_size=1, max_size=2 if declared.repeat or name == "instruction" else 1)


settings = st.lists(st.sampled_from(sorted(Settings.declared())), max_size=5, unique=True).flatmap(
    lambda chosen: st.tuples(*(setting_arguments(name, Settings.declared()[name]) for name in chosen))
)
gates = st.lists(
    st.sampled_from(
        [
            "--fail-under=Accuracy=40",
            "--fail-under=quiz:EM=1e-3",
            "--fail-if-worse=runs/last",
            "--fail-on-failed",
            "--junit=a.xml",
            "--step-summary=b.md",
            "--step-summary",
        ]
    ),
    max_size=4,
    unique_by=lambda text: text.partition("=")[0],
)
commands = st.fixed_dictionaries(
    {
        "config": st.lists(words.filter(lambda text: not text.endswith(".toml")), max_size=2),
        "dataset": st.lists(specs, max_size=3),
        "model": st.lists(specs, max_size=2),
        "log": st.lists(specs, max_size=1),
        "reuse": st.lists(words, max_size=2),
        "out": st.none() | words,
        "json": st.booleans(),
        "settings": settings,
        "gates": gates,
    }
)


def arguments(command):
    lists = [f"--{name}={text}" for name in ("dataset", "model", "log", "reuse") for text in command[name]]
    out = [] if command["out"] is None else [f"--out={command['out']}"]
    flags = ["--json"] if command["json"] else []
    options = [text for texts in command["settings"] for text in texts]
    return ["run", *lists, *out, *flags, *options, *command["gates"], "--", *command["config"]]


def asked_for(parsed):
    """What a command asks for, in a form that can be compared."""
    asked = {name: value for name, value in vars(parsed).items() if name in KNOWN}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}
    options = options_of(parsed)
    run = {name: value for name, value in plain.items() if name not in Settings.declared()}
    return {name: value for name, value in run.items() if value not in ([], None)}, settings_from(options)


@given(commands)
def test_a_saved_command_is_the_same_run(tmp_path_factory, command):
    folder = tmp_path_factory.getbasetemp() / "round_trip"
    folder.mkdir(exist_ok=True)
    file = folder / "suite.toml"
    file.unlink(missing_ok=True)
    try:
        first = PARSER.parse_args(arguments(command))
        with applied(first):
            before = asked_for(first)
            RunFileWriter(first, str(file)).write()
    except UsageError:  # what no run could be started with, or what may be a key
        assert not file.exists()
        return
    second = PARSER.parse_args(["run", str(file)])
    with applied(second):
        after = asked_for(second)
        assert after == before
        folders = [default_folder(run.get("model", ["m"]), [*run.get("config", ()), *run.get("dataset", ()), "d"], found)
                   for run, found in (before, after)]  # fmt: skip
        assert folders[0] == folders[1]


@pytest.mark.parametrize("where", ["suite.toml", "deep/below/suite.toml", "../beside/suite.toml"])
def test_paths_mean_the_same_wherever_the_file_is(where, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    parsed = PARSER.parse_args(["run", "-d", "quiz.py:Quiz", "--dataset-path", "data", "--out", "runs/a"])
    with applied(parsed):
        RunFileWriter(parsed, where).write()
    monkeypatch.chdir(tmp_path)
    again = PARSER.parse_args(["run", f"work/{where}"])
    with applied(again):
        assert Path.cwd() == work
        assert (again.dataset, again.dataset_path, again.out) == (["quiz.py:Quiz"], "data", "runs/a")
    assert Path.cwd() == tmp_path

"""``kshot compare`` on real runs: the screen at 80 and 120 columns, JSON, and what it refuses."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.commands import kshot
from tests.compared_runs import make_runs
from tests.screens import assert_screen

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1" / "planets"
CLERK = "shop.py:Clerk"
RUNS = {
    "zero": (CLERK, "shop.py:Prices", {}),
    "five": (CLERK, "shop.py:Prices", {"num_shots": 5}),
    "sleepy": ("shop.py:Clerk,fails=6", "shop.py:Prices", {"dataset_path": "150", "num_shots": 2}),
    "graded0": (CLERK, "shop.py:Graded", {}),
    "graded5": (CLERK, "shop.py:Graded", {"num_shots": 5}),
    "exams0": (CLERK, "shop.py:Exams", {}),
    "exams5": (CLERK, "shop.py:Exams", {"num_shots": 5}),
    "clerks": ([f"shop.py:Clerk,seed={name}" for name in ("ann", "bob", "eve")], "shop.py:Prices", {"limit": 40}),
    "clerks4": (
        [f"shop.py:Clerk,seed={name}" for name in ("ann", "bob", "kim")],
        "shop.py:Prices",
        {"limit": 40, "num_shots": 4},
    ),
    "draws": (
        CLERK,
        "shop.py:Prices",
        {"limit": 40, "num_shots": 2, "retriever": "random", "retriever_seeds": "0..2"},
    ),
    "both0": (CLERK, "shop.py:Prices", {"limit": 40, "metric": ("f1", "em")}),
    "other": (CLERK, "shop.py:Other", {}),
    "asleep": ("shop.py:Clerk,fails=100", "shop.py:Prices", {"limit": 8}),
    "one": (CLERK, "shop.py:Prices", {"limit": 1}),
    "planets0": ("embedded", "examples/planets.py:Planets", {}),
    "planets3": ("embedded", "examples/planets.py:Planets", {"num_shots": 3, "instruction": "{question} Say it:"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.test_docs import ROOT

    path = tmp_path_factory.mktemp("compare")
    shutil.copytree(ROOT / "examples", path / "examples")
    make_runs(path, **RUNS)
    return path


@pytest.fixture
def compare(folder, capsys, monkeypatch):
    """Run the command in the folder with the runs, on a terminal of some width."""
    monkeypatch.chdir(folder)

    def call(*arguments, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        done = kshot(capsys, "compare", *arguments)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
        assert arguments[-1:] == ("--json",) or max(map(cell_len, plain.splitlines()), default=0) <= width, plain
        return done

    return call


def found(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


# ---- screens ----


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shots", ("zero", "five")),
        ("careful", ("zero", "sleepy")),
        ("graded", ("graded0", "graded5")),
        ("subsets", ("exams0", "exams5")),
        ("models", ("clerks",)),
        ("pairs", ("zero", "five", "sleepy", "--all-pairs", "--flips", "3")),
        ("options", ("planets0", "planets3")),
        ("asleep", ("zero", "asleep")),
        ("one", ("one", "five")),
        ("same-models", ("clerks", "clerks4")),
        ("draws", ("zero", "draws", "--flips", "9")),
        ("category", ("zero", "five", "--category", "br")),
    ],
)
def test_screens(name, arguments, width, compare):
    done = compare(*arguments, width=width)
    assert (done.code, done.err) == (0, "")
    assert_screen(f"compare-{name}-{width}", done.out)


def test_the_first_sentence_answers_the_question(compare):
    first = compare("zero", "five", width=300).out.splitlines()[0]
    assert first.startswith("five is ahead of zero on prices by 22.0 points in EM (95 %: ")
    assert first.endswith("it wins 67 questions and loses 23; both are right on 90, neither on 20.")
    assert compare("five", "zero", width=300).out.startswith(
        "zero is behind five on prices by 22.0 points in EM (95 %: "
    )


def test_a_lower_figure_can_be_ahead(compare):
    lines = compare("graded0", "graded5", "--metric", "Distance", width=300).out.splitlines()
    assert lines[0].startswith("graded5 is ahead of graded0 on graded by 0.435 in Distance (lower is better; 95 %: 0.2")
    assert "-0.435" in lines[4]
    assert "ahead" in lines[4]
    back = compare("graded5", "graded0", "--metric", "Distance", width=300).out
    assert back.startswith("graded0 is behind graded5 on graded by 0.435 in Distance (lower is better; 95 %: 0.2")


def test_a_run_compared_with_itself(compare):
    done = compare("zero", "zero", width=120)
    assert done.out.startswith(
        "zero (2) and zero (1) do the same on prices: each of the 200 questions has the same EM."
    )
    assert "What differs" not in done.out
    assert "Flipped" not in done.out


def test_all_shows_every_subset_and_category(compare):
    few, every = compare("exams0", "exams5").out, compare("exams0", "exams5", "--all", width=160).out
    assert "… and 46 more with smaller differences; --all shows them" in few
    assert "more with smaller" not in every
    names = {row["task"] for row in found(compare("exams0", "exams5", "--json"))["rows"]}
    assert len(names) == 58
    assert all(name in every for name in names)
    assert compare("zero", "five", "--all").out.count("\n") == compare("zero", "five").out.count("\n") + 1


def test_colours_are_not_needed_to_read_it(compare, monkeypatch):
    plain = compare("zero", "five").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = compare("zero", "five", width=120).out
    assert "\x1b[" in coloured
    assert "\x1b[33m" not in coloured  # neither yellow nor white is seen on white
    assert "\x1b[37m" not in coloured
    assert "\x1b" not in plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert "[32m" not in compare("zero", "five").out


# ---- options ----


def test_flips(compare):
    def signs(*arguments):
        out = compare("zero", "five", *arguments).out
        return "".join(line[0] for line in out.partition("Flipped")[2].splitlines()[2:-1])

    assert signs() == "---++"
    assert signs("--flips", "4") == "--++"
    assert signs("--flips") == "-" * 10 + "+" * 10
    assert signs("--flips", "60") == "-" * 23 + "+" * 37
    assert signs("--flips", "1000") == "-" * 23 + "+" * 67
    assert signs("--flips", "0") == ""
    assert "Flipped: 67 won (+) and 23 lost (-)\n" in compare("zero", "five", "--flips", "0").out
    last = compare("zero", "five").out.splitlines()[-1]
    assert last == "kshot samples five --flipped zero shows them whole"


def test_the_samples_that_it_names_are_shown_by_kshot_samples(compare, capsys):
    flips = found(compare("zero", "five", "--flips", "1000", "--json"))["flips"]
    done = kshot(capsys, "samples", "five", "--flipped", "zero", "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {flip["id"] for flip in flips} == {row["id"] for row in rows}
    assert len(rows) == len(flips) == 90


def test_each_draw_is_listed_with_its_name(compare):
    shown = found(compare("zero", "draws", "--flips", "9", "--json"))["flips"]
    assert len({(flip["run_task"], flip["id"]) for flip in shown}) == 9
    assert {flip["run_task"] for flip in shown} == {"prices@0", "prices@1", "prices@2"}


def test_models_that_are_not_compared_are_noted(compare):
    out = compare("clerks", "clerks4", width=200).out
    assert "note: clerks has the model clerk,seed=eve, which clerks4 does not have: not compared with it" in out
    assert "note: clerks4 has the model clerk,seed=kim, which clerks does not have: not compared with it" in out


def commands(done):
    return [line for line in done.out.splitlines() if line.startswith("kshot samples")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("zero", "five"), ["kshot samples five --flipped zero shows them whole"]),
        (("zero", "five", "--task", "pri"), ["kshot samples five --flipped zero --task pri shows them whole"]),
        (
            ("zero", "five", "--category", "t"),
            ["kshot samples five --flipped zero --category tea shows them whole"],
        ),
        (
            ("zero", "draws", "--task", "prices"),
            ["kshot samples draws --flipped zero --task prices shows them whole"],
        ),
        (
            ("draws", "zero", "--task", "prices@1"),
            ["kshot samples zero --flipped draws --task prices shows them whole"],
        ),
        (("five", "both0", "--metric", "EM"), ["kshot samples both0 --flipped five --metric EM shows them whole"]),
        (("graded0", "graded5"), ["kshot samples graded5 --id 49 shows the first whole"]),
        (
            ("zero", "five", "sleepy"),
            [
                "kshot samples five --flipped zero shows those of five and zero whole",
                "kshot samples sleepy --flipped zero shows those of sleepy and zero whole",
            ],
        ),
        (("clerks",), ["kshot samples clerks --id 0 shows the first whole"]),
        (("zero", "zero"), []),
        (("zero", "five", "--flips", "0"), []),
    ],
)
def test_the_command_that_shows_the_samples_whole(arguments, said, compare):
    assert commands(compare(*arguments, width=120)) == said


@pytest.mark.parametrize(
    "arguments",
    [
        ("zero", "five"),
        ("zero", "five", "--category", "bread"),
        ("both0", "five", "--metric", "EM"),
        ("five", "both0", "--metric", "EM"),
        ("zero", "sleepy"),
        ("zero", "draws"),
        ("draws", "zero", "--task", "prices@1"),
        ("exams0", "exams5", "--task", "exams:anatomy", "--task", "exams:astronomy"),
        ("exams0", "exams5"),
        ("clerks", "clerks4"),
    ],
)
def test_it_shows_just_the_samples_that_compare_counts(arguments, compare, capsys):
    (command,) = commands(compare(*arguments, width=200))
    words = shlex.split(command.partition(" shows ")[0])
    done = kshot(capsys, *words[1:], "--json")
    assert done.code == 0, done.err
    shown = {(row["task"], row["model"], row["id"]) for row in map(json.loads, done.out.splitlines())}
    flips = found(compare(*arguments, "--json"))["flips"]
    assert {(flip.get("run_task", flip["task"]), flip["id"]) for flip in flips} == {(task, at) for task, _, at in shown}


def test_json_has_all_flips_unless_some_are_asked_for(compare):
    assert len(found(compare("zero", "five", "--json"))["flips"]) == 90
    assert len(found(compare("zero", "five", "--flips", "7", "--json"))["flips"]) == 7
    assert found(compare("zero", "five", "--flips", "0", "--json"))["flips"] == []
    few = found(compare("zero", "five", "--category", "tea", "--json"))
    assert {row["category"] for row in few["categories"]} == {flip["category"] for flip in few["flips"]} == {"tea"}
    (row,) = few["categories"]
    assert len(few["flips"]) == row["won"] + row["lost"]


def test_categories_that_cannot_be_compared_are_named(compare):
    out = compare("zero", "asleep", width=120).out
    assert "8 categories cannot be compared: no question was answered in both (bread, cheese, fruit and 5 more)" in out
    assert "2 categories cannot be compared: no question is in both (nuts, salt)" in out


def test_json_has_everything(compare):
    shown = found(compare("zero", "sleepy", "--flips", "2", "--json"))
    assert list(shown) == ["runs", "rows", "categories", "settings", "notes", "flips"]
    (row,) = shown["rows"]
    assert row["n"] == row["won"] + row["lost"] + row["both"] + row["neither"]
    assert (row["only_baseline"], row["only_run"]) == (50, 0)
    assert row["n"] + row["failed_run"] == 150
    assert [flip["won"] for flip in shown["flips"]] == [False, True]
    assert shown["flips"][0]["baseline_answer"] == shown["flips"][0]["target"][0]
    assert [each["setting"] for each in shown["settings"]][:3] == ["models", "num_shots", "dataset_path"]


def test_one_task_or_metric_can_be_chosen(compare):
    rows = found(compare("exams0", "exams5", "--task", "exams:anatomy", "--json"))["rows"]
    assert [row["task"] for row in rows] == ["exams:anatomy"]
    rows = found(compare("exams0", "exams5", "--task", "anatomy", "--task", "exams:astr", "--json"))["rows"]
    assert sorted(row["task"] for row in rows) == ["exams:anatomy", "exams:astronomy"]
    rows = found(compare("graded0", "graded5", "--metric", "F1", "--json"))["rows"]
    assert [row["metric"] for row in rows] == ["F1"]


# ---- errors ----


def broken(folder, name, **files):
    """Copy a run and replace some of its files; None: without it."""
    copy = folder / name
    if not copy.exists():
        shutil.copytree(folder / "zero", copy)
        for file, text in files.items():
            path = copy / file.replace("_", ".")
            path.unlink() if text is None else path.write_text(text)
    return name


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("zero", "other"), "2 of the 20 samples that both runs have ask other questions (ids: 3, 8)"),
        (("zero", "planets0"), "no task in common: zero has prices; planets0 has planets"),
        (("zero",), "this run has 1 model, and nothing to compare it with"),
        (("zero", "nowhere"), "nowhere: this is not a run folder"),
        (("zero", "shop.py"), "shop.py: this is not a run folder"),
        (("zero", "."), "this is not a run folder"),
        (("zero", "five", "--metric", "Shoes"), "no run has the metric 'Shoes'. The runs have: EM."),
        (("zero", "five", "--task", "Shoes"), "no run has the task 'Shoes'"),
        (("zero", "five", "--flips", "-1"), "--flips is '-1'; it must be a number of samples"),
        (("--flips", "zero", "five"), "--flips is 'zero'; it must be a number of samples. Write the runs before it"),
        (("zero", "five", "--flips", "²"), "--flips is '²'; it must be a number of samples"),
        (("zero", EARLY), "an earlier version of kshot made this run"),
        (("zero", "five", "--category", "shoes"), "no run has the category 'shoes'"),
        (("exams0", "exams5", "--category", "shoes"), "no run has the category 'shoes'. Its samples have no category."),
        ((), "RUN"),
    ],
)
def test_what_cannot_be_compared(arguments, named, compare):
    refused(compare(*arguments), named)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"summary_json": None}, "this run has not come to its end"),
        ({"summary_json": "{"}, "summary.json is damaged"),
        ({"samples_jsonl": None}, "samples.jsonl"),
        ({"samples_jsonl": "7\n"}, "samples.jsonl"),
        ({"samples_jsonl": ""}, "disagree"),
        ({"spec_json": "[]"}, "spec.json"),
    ],
)
def test_damaged_runs(files, named, folder, compare):
    name = broken(folder, "broken " + "".join(files) + str(files.values())[-4:-2].strip("{'["), **files)
    refused(compare("five", name), named)


def test_runs_without_a_metric_in_common(folder, compare):
    make_runs(folder, words=(CLERK, "shop.py:Prices", {"metric": ("f1",)}))
    refused(compare("zero", "words"), "the runs have no metric in common. prices: only zero has EM; prices: only words")


def refused(done, named):
    assert done.code == 2, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("kshot: ")
    assert named in line

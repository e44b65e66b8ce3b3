"""``kshot new``: each kind of file works as it is written, and its test passes."""

import json
import subprocess
import sys

import pytest

from tests.commands import kshot

ROWS = "Q,A,B,C,key\ncapital?,Rome,Paris,Oslo,B\nsum?,1,2,3,C\n"
KINDS = ["metric", "retriever", "model", "search-engine", "chunker"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.csv").write_text(ROWS)
    return tmp_path


def test_the_tests_of_all_kinds_pass(folder, capsys):
    for kind in KINDS:
        done = kshot(capsys, "new", kind, f"my_{kind}", "--out", "mine")
        name = f"my_{kind.replace('-', '_')}"
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"wrote mine/{name}.py and mine/test_{name}.py\nuse it:  kshot run ")
        assert done.out.endswith(f"test it: pytest mine/test_{name}.py\n")
    flags = ("--question", "Q", "--options", "A,B,C", "--answer", "key")
    assert kshot(capsys, "new", "dataset", "quiz.csv", *flags, "--out", "mine").code == 0
    assert (
        kshot(capsys, "new", "dataset", "quiz.csv", "Said", "--question", "Q", "--target", "A", "--out", "mine").code
        == 0
    )
    for check in (["check"], ["format", "--check"]):  # by ruff's own rules and width
        linted = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--isolated", "--no-cache", "mine"],
            cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert linted.returncode == 0, linted.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine"],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "10 passed" in tested.stdout


def test_the_class_of_a_table_prints_the_same_prompts(folder, capsys):
    flags = ("--question", "Q", "--options", "A,B,C", "--answer", "key", "--instruction", r"{Q}\nReply:")
    assert kshot(capsys, "new", "dataset", "quiz.csv", *flags).out.startswith("wrote quiz.py and test_quiz.py")
    of_class = kshot(capsys, "preview", "-d", "quiz.py:Quiz", "-k", "1")
    of_flags = kshot(capsys, "preview", "-d", "quiz.csv", *flags, "-k", "1")
    assert "capital?\nReply: Paris\n\nsum?\nReply:" in of_flags.out
    assert of_class.out == of_flags.out


def test_columns_with_usual_names_are_found(folder, capsys):
    (folder / "2 trivia.csv").write_text("Question,option_a,option_b,Answer\nwhy?,x,y,A\n")
    done = kshot(capsys, "new", "dataset", "2 trivia.csv")
    assert done.out.startswith("wrote rows2_trivia.py and test_rows2_trivia.py")
    assert "class Rows2Trivia(MultipleChoiceDataset)" in (folder / "rows2_trivia.py").read_text()
    assert kshot(capsys, "preview", "-d", "rows2_trivia.py:Rows2Trivia").code == 0


def test_a_table_in_another_folder(folder, capsys):
    done = kshot(capsys, "new", "dataset", str(folder / "quiz.csv"), "--question", "Q", "--target", "A", "--out", "a/b")
    assert done.code == 0
    assert 'Path(__file__).parent / "../../quiz.csv"' in (folder / "a" / "b" / "quiz.py").read_text()
    assert kshot(capsys, "preview", "-d", "a/b/quiz.py:Quiz").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("metric", "random"), "a file random.py would hide the Python module 'random'"),
        (("metric", "numpy"), "would hide the Python module 'numpy'"),
        (("model", "3x"), "'3x' cannot be the name of a class"),
        (("model", "\u2167"), "cannot be the name of a class"),
        (("model", "../x"), "'../x' cannot be the name of a class"),
        (("dataset", "none.csv"), "none.csv: there is no such file or folder"),
        (("dataset", "someone/quiz"), "someone/quiz: there is no such file"),
        (("dataset", "quiz.csv", "--question", "Q", "--options", "A,B", "--answer", "key"), "quiz.csv:3, column 'key': the answer is 'C'"),
        (("dataset", "quiz.csv", "--question", "Q", "--options", "A,B,C", "--answer", "key", "--metric", "em"), "--metric EM compares texts"),
        (("dataset", "quiz.csv", "--question", "Q", "--target", "A", "--metric", "emm"), "there is no metric 'emm'"),
        (("dataset", "quiz.csv", "--question", "Q", "--target", "A", "--instruction", "{Q}?", "--instruction", "{Q}!"), "--instruction has several values"),
        (("gadget", "x"), "invalid choice: 'gadget'"),
        (("metric",), "the following arguments are required: NAME"),
    ],
)  # fmt: skip
def test_what_cannot_be_written(folder, capsys, words, message):
    done = kshot(capsys, "new", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert [path.name for path in folder.iterdir()] == ["quiz.csv"]


def test_what_could_be_meant_otherwise_is_said(folder, capsys):
    (folder / "counted.csv").write_text("Q,A,B,C,key\na?,x,y,z,1\nb?,x,y,z,2\n")
    flags = ("counted.csv", "--question", "Q", "--options", "A,B,C", "--answer", "key")
    read = "the answers in column 'key' are read as indices of options, which count from 0"
    written = kshot(capsys, "new", "dataset", *flags)
    assert (written.code, f"counted.csv: {read}" in written.err) == (0, True)
    checked = kshot(capsys, "check", *flags)
    assert (checked.code, f"counted: {read}" in checked.err) == (0, True)
    assert "right: B 1 C 1" in checked.out
    as_json = json.loads(kshot(capsys, "check", *flags, "--json").out)
    assert [note.startswith(read) for note in as_json["notes"]] == [True]
    sure = kshot(capsys, "check", *flags, "--answer-as", "number")
    assert (sure.code, sure.err) == (0, "")


def test_nothing_is_overwritten(folder, capsys):
    (folder / "test_word_count.py").write_text("mine")
    done = kshot(capsys, "new", "metric", "WordCount")
    assert (done.code, "test_word_count.py: this file exists already, and nothing was written" in done.err) == (2, True)
    assert not (folder / "word_count.py").exists()
    assert (folder / "test_word_count.py").read_text() == "mine"

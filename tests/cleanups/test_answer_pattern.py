import pytest

from kshot.cleanups import answer_pattern
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.core.errors import UsageError
from kshot.core.records import AskFailed

OPTIONS = ("red wine", "blue", "7")


@pytest.mark.parametrize(
    ("pattern", "reply", "answer"),
    [
        (r"answer is (\w+)", "The answer is blue, the answer is red", "blue"),
        (r"\d+", "7 or 8", "7"),
        (r"(?:A=(\d)|B=(\d))", "B=2", "2"),
        (r"(?s).*answer is (\w+)", "The answer is blue, the answer is red", "red"),
        (r"x(\d)?", "x", "x"),
        (r"\s+(\w+)\s*$", "a  b  ", "b"),
    ],
)
def test_the_first_group_of_the_first_match_or_all_of_it(pattern, reply, answer):
    assert AnswerPattern(pattern).answer(reply) == (answer, "answer pattern")


def test_without_a_match_there_is_no_answer():
    assert AnswerPattern(r"answer: (\d)").answer("none") == ("", "no match")
    assert AnswerPattern(r"answer: (\d)").option("B", OPTIONS).index == -1


@pytest.mark.parametrize(
    ("found", "index"),
    [("B", 1), ("b", 1), ("(C)", 2), ("Red  WINE", 0), ("7", 2), ("2", 1), ("4", -1), ("0", -1), ("D", -1), ("", -1)],
)
def test_a_letter_a_text_or_a_number_names_an_option(found, index):
    assert AnswerPattern(r"<(.*)>").option(f"A <{found}>", OPTIONS).index == index


def test_a_number_with_more_digits_than_python_reads_names_no_option():
    assert AnswerPattern(r"\d+").option("9" * 5000, OPTIONS).index == -1


@pytest.mark.parametrize("pattern", ["", "  "])
def test_an_empty_pattern_is_an_error(pattern):
    with pytest.raises(UsageError, match="--answer-pattern is empty"):
        AnswerPattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "[a", "(?P<x", "a{3,1}", "*"])
def test_a_pattern_that_cannot_be_read_is_an_error(pattern):
    with pytest.raises(UsageError, match=r"--answer-pattern .* cannot be read"):
        AnswerPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "reply"),
    [
        (r"(x+x+)+y", "x" * 60 + " y z"),
        (r"(x+x+)+y", "x" * 5000),
        (r"(a|aa)+$", "a" * 200 + "b"),
        (r"^(\w+\s?)*$", "word " * 40 + "!"),
        (r"(.*a){25}b", "a" * 80),
    ],
)
def test_a_pattern_that_never_ends_gives_up(pattern, reply, monkeypatch):
    monkeypatch.setattr(answer_pattern, "SECONDS", 0.05)
    try:
        answer, _ = AnswerPattern(pattern).answer(reply)
    except AskFailed as exc:
        assert exc.failed.kind == "answer_pattern"
        assert pattern in exc.failed.message.replace("\\\\", "\\")
    else:  # the package may also see at once that nothing can match
        assert answer == ""


def test_some_patterns_do_reach_the_limit(monkeypatch):
    monkeypatch.setattr(answer_pattern, "SECONDS", 0.05)
    with pytest.raises(AskFailed, match=r"took more than 0\.05 s on one reply"):
        AnswerPattern(r"(.*a){25}b").answer("a" * 80 + "c b")


def test_a_pattern_that_would_fill_the_memory_is_refused():
    with pytest.raises(UsageError, match="more than 100,000 repeats"):
        AnswerPattern("((a{1000}){1000}){1000}")
    AnswerPattern(r"^.{0,80}\b([A-D])\b{1,2}")  # what people write

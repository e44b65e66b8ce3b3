"""The texts of a sample: examples are folded away, and what is cut says how much."""

import io
import math
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from kshot.report.page.packed_samples import confidence_of
from kshot.report.sample_look import SampleLook, TextLimit, excerpt, folded_prompt, option_letter, read_response
from kshot.report.samples import sample_view
from kshot.runs.sample_filters import MetricScale

ACCURACY = MetricScale("Accuracy", 0.0, 100.0, rule="acc")


def shown(row, width=80, **more):
    """A sample as a terminal of this width shows it."""
    console = Console(file=io.StringIO(), width=width)
    for part in sample_view(SampleLook({"task": "t", "id": "0", "model": "m", **row}, ACCURACY, **more)):
        console.print(part)
    return console.file.getvalue()


def example(number, paragraphs=1):
    return "\n\n".join(f"Part {part} of question {number}?" for part in range(paragraphs)) + f"\nAnswer: {number}"


@pytest.mark.parametrize("paragraphs", [1, 2, 3])
@pytest.mark.parametrize("head", ["", "Answer briefly.\n\n", "One.\n\nTwo.\n\n"])
def test_examples_before_a_question_are_folded(paragraphs, head):
    question = example(9, paragraphs)[: -len(" 9")]
    text = head + "\n\n".join([example(1, paragraphs), example(2, paragraphs), question])
    found = folded_prompt(text, 2)
    assert (found.messages, found.above, found.size) == ([("", question)], "2 examples", len(text) - len(question))
    assert folded_prompt(text, 5).messages == [("", question)]  # fewer fit than were wanted
    assert folded_prompt(question, 0).messages == [("", question)]
    assert folded_prompt(text, None).messages == [("", text)]  # the run does not say


def test_examples_without_a_common_last_line_are_told_by_blank_lines():
    text = "The capital of Peru is Lima\n\nThe capital of Cuba is Havana\n\nThe capital of Norway is"
    assert folded_prompt(text, 2).messages == [("", "The capital of Norway is")]
    assert folded_prompt(f"Capitals.\n\n{text}", 2).messages == [("", "The capital of Norway is")]
    assert folded_prompt("A\n\nB\n\nC\n\nD\n\nE", 2).messages == [("", "A\n\nB\n\nC\n\nD\n\nE")]  # it does not add up


def test_messages_before_the_question_are_folded():
    def turns(*texts):
        return [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(texts)]

    chat = [{"role": "system", "content": "Be brief."}, *turns("q1", "a1", "q2", "a2", "q3")]
    assert folded_prompt(chat, 2).messages == [("", "q3")]
    assert folded_prompt(chat, 1).messages == [("user", "q2"), ("assistant", "a2"), ("user", "q3")]  # a conversation
    assert folded_prompt(chat, 0).messages[0] == ("system", "Be brief.")
    assert folded_prompt(chat, None).above == "5 messages"
    one_turn = [{"role": "user", "content": f"{example(1)}\n\n{example(2)[:-2]}"}]
    assert folded_prompt(one_turn, 1).messages == [("", example(2)[:-2])]


@pytest.mark.parametrize("text", ["word " * 500, "\n".join("ab" * 50), "x" * 3000, "line\n" * 3000, "日" * 2000])
def test_a_long_text_loses_its_middle_and_says_how_much(text):
    found = excerpt(text, TextLimit(100, 9)).plain
    before, note, after = re.split(r"\n?(… [\d,]+ characters left out …)\n?", found)
    left_out = int(re.sub(r"\D", "", note))
    assert text.strip("\n").startswith(before)
    assert text.strip("\n").endswith(after)
    assert len(before) + len(after) + left_out == len(text.strip("\n"))
    assert len(before) + len(after) <= 100
    assert found.count("\n") <= 10


def test_short_and_empty_texts():
    assert excerpt("word\n", TextLimit(100, 9)).plain == "word"
    assert excerpt("", TextLimit(100, 9)).plain == "(empty)"
    assert "white space" in excerpt(" \n", TextLimit(100, 9)).plain
    assert excerpt("a\n" * 500, None).plain == "a\n" * 500


def test_options_fold_and_keep_their_figures():
    texts = ["水星" * 60, "a" * 200, "Mars"]
    options = [{"text": f" {text}", "logprob": -12.5, "tokens": 3} for text in texts]
    row = {
        "prompt": "q",
        "response": options,
        "answer": 2,
        "answers": {"acc": 2},
        "target": [0, 1],
        "scores": {"Accuracy": 0.0},
    }
    for full in (False, True):
        text = shown(row, full=full)
        assert all(cell_len(line) <= 80 for line in text.splitlines())
        assert text.count("-12.50") == 3
        assert text.count("水") == text.count("星") == 120  # among the options, and as the target
        assert "chosen ✗" in text
        assert text.count("✓ right") == 2


def test_letters_with_and_without_a_space_are_one_option():
    parts = [{"text": text, "logprob": value} for text, value in ((" A", -2.0), (" B", -1.0), ("A", -0.5), ("B", -3.0))]
    found = read_response({"response": parts, "answer": 0}, "prob").options
    assert (found.texts, found.logprobs) == (["A", "B"], [-0.5, -1.0])
    twins = [{"text": " x", "logprob": -1.0}, {"text": " x", "logprob": -1.0}]
    assert read_response({"response": twins, "answer": 0}, "").options.texts == ["x", "x"]


def test_baselines_of_contexts_are_no_options():
    def measured(logprob, prompt=None):
        return {"text": " slept.", "logprob": logprob, "tokens": 2} | ({} if prompt is None else {"prompt": prompt})

    row = {
        "prompt": "The dog",
        "response": [
            measured(-3.0), measured(-1.0, "The cat"), measured(-2.0, "The cow"),
            *(measured(-0.5, "Answer:") for _ in range(3)),
        ],
        "options": ["The dog", "The cat", "The cow"],
        "answer": 1,
        "target": 0,
    }  # fmt: skip
    found = read_response(row, "").options
    assert found.texts == ["The dog slept.", "The cat slept.", "The cow slept."]
    assert (found.logprobs, found.baselines) == ([-3.0, -1.0, -2.0], [-0.5, -0.5, -0.5])
    assert found.contexts
    share, right = confidence_of(row)
    assert share == pytest.approx(1 / (1 + math.exp(-2) + math.exp(-1)))
    assert not right
    without = read_response({**row, "response": row["response"][:3]}, "").options
    assert (without.logprobs, without.baselines) == (found.logprobs, [])


def test_letters_of_options():
    assert [option_letter(index) for index in (0, 25, 26, 51, 52, 701, 702)] == [
        "A",
        "Z",
        "AA",
        "AZ",
        "BA",
        "ZZ",
        "AAA",
    ]

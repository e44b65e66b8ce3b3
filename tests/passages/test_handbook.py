"""The built-in benchmark: its quotes are in its documents, its questions are not its quotes, and it stays as it is."""

import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

HANDBOOK = files("kshot.passages") / "handbook"
CARD = (HANDBOOK / "CARD.md").read_text(encoding="utf-8")
DOCUMENTS = {
    file.name.removesuffix(".md"): file.read_bytes().decode("utf-8") for file in (HANDBOOK / "documents").iterdir()
}
QUESTIONS = json.loads((HANDBOOK / "questions.json").read_text(encoding="utf-8"))["questions"]
COMPONENTS = [(question, component) for question in QUESTIONS for component in question["answer_context"]]
QUOTES = [(question, quote) for question, component in COMPONENTS for quote in component["context"]]
LONGEST_RUN = 4


def label(question):
    return f"{question['chapter']} {question['question_number']}"


def words(text):
    return re.findall(r"\w+", text.lower())


def longest_run(one, other):
    """Count the words of the longest run that two texts share."""
    best, before = 0, Counter()
    for word in one:
        now = Counter({at: before[at - 1] + 1 for at, theirs in enumerate(other) if theirs == word})
        best, before = max([best, *now.values()]), now
    return best


def digest():
    state = hashlib.blake2b(digest_size=16)
    parts = {f"documents/{name}.md": text.encode() for name, text in DOCUMENTS.items()}
    parts["questions.json"] = (HANDBOOK / "questions.json").read_bytes()
    for name, raw in sorted(parts.items()):
        state.update(f"{name} {len(raw)}\n".encode() + raw)
    return state.hexdigest()


def test_there_are_enough_questions_and_some_on_every_document():
    asked = Counter(question["chapter"] for question in QUESTIONS)
    assert len(QUESTIONS) >= 40
    assert set(asked) == set(DOCUMENTS)
    assert min(asked.values()) >= 6


def test_every_quote_is_in_its_document_word_for_word():
    assert [(label(q), quote) for q, quote in QUOTES if quote not in DOCUMENTS[q["chapter"]]] == []


def test_quotes_say_something_and_survive_other_line_breaks():
    for question, quote in QUOTES:
        assert 20 <= len(quote) <= 300, label(question)
        assert quote == quote.strip(), label(question)
        assert "\n" not in quote, label(question)
        assert "```" not in quote, label(question)


def test_no_quote_makes_another_of_its_component_needless():
    for question, component in COMPONENTS:
        quotes = component["context"]
        nested = [(a, b) for i, a in enumerate(quotes) for j, b in enumerate(quotes) if i != j and a in b]
        assert nested == [], label(question)


def test_the_shape_is_that_of_the_format():
    keys = ["chapter", "question_number", "question_text", "gold_standard_answer", "answer_context", "question_context"]
    parts = ["answer_component", "scoring_type", "context", "explicit_context", "extraneous_answer"]
    for question in QUESTIONS:
        assert list(question) == keys, label(question)
        assert question["answer_context"], label(question)
        assert question["question_context"] == []
        for text in (question["question_text"], question["gold_standard_answer"]):
            assert text == text.strip().strip('"'), label(question)
            assert text, label(question)
    for question, component in COMPONENTS:
        assert list(component) == parts, label(question)
        assert component["scoring_type"] == "simple"
        assert isinstance(component["answer_component"], str), label(question)
        assert component["answer_component"].strip().strip('"') == component["answer_component"] != "", label(question)
        assert {component["explicit_context"], component["extraneous_answer"]} <= {"true", "false"}, label(question)


def test_a_component_without_quotes_is_not_called_explicit():
    empty = [(label(question), part["explicit_context"]) for question, part in COMPONENTS if not part["context"]]
    assert [flag for _, flag in empty] == ["false"] * len(empty)
    assert 2 <= len(empty) <= 3


def test_numbers_are_consecutive_in_every_chapter():
    numbers = {}
    for question in QUESTIONS:
        numbers.setdefault(question["chapter"], []).append(question["question_number"])
    for chapter, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), chapter
    changes = sum(one["chapter"] != other["chapter"] for one, other in pairwise(QUESTIONS))
    assert changes == len(numbers) - 1  # each chapter's questions stand together


def test_no_question_is_asked_twice():
    texts = Counter(" ".join(words(question["question_text"])) for question in QUESTIONS)
    assert [text for text, n in texts.items() if n > 1] == []


def test_questions_are_not_copied_from_their_quotes():
    runs = [(longest_run(words(q["question_text"]), words(quote)), label(q), quote) for q, quote in QUOTES]
    assert [run for run in runs if run[0] > LONGEST_RUN] == []


def test_the_longest_run_is_measured():
    assert longest_run(words("a b c d"), words("x b c y c d")) == 2
    assert longest_run(words("A, b: c"), words("z a b c")) == 3
    assert longest_run(["a"], []) == 0


def test_the_edition_is_the_one_on_the_card():
    assert f"`{digest()}`" in CARD, f"texts changed: make it the next edition, with the digest {digest()}"


def test_the_card_counts_right():
    parts = [component for _, component in COMPONENTS]
    implicit = sum(part["explicit_context"] == "false" for part in parts)
    said = " ".join(CARD.split())
    assert f"{len(DOCUMENTS)} documents, {sum(map(len, DOCUMENTS.values())):,} characters" in said
    assert f"{len(QUESTIONS)} questions, {len(parts)} components, {len(QUOTES)} quotes" in said
    assert f"{sum(len(q['answer_context']) > 1 for q in QUESTIONS)} questions have two to four components" in said
    assert f"{implicit} components are implicit, {sum(not part['context'] for part in parts)} of them" in said
    assert f"{sum(part['extraneous_answer'] == 'true' for part in parts)} are extraneous" in said
    for chapter in DOCUMENTS:
        own = [question for question in QUESTIONS if question["chapter"] == chapter]
        row = rf"\| `{chapter}` \| [^|]+ \| {len(own)} \| {sum(len(q['answer_context']) for q in own)} \|"
        assert re.search(row, CARD), chapter


def test_git_ignores_none_of_it():
    """What git ignores, the wheel leaves out."""
    root = Path(__file__).parents[2]
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("this is not a git checkout")
    folder = root / "src" / "kshot" / "passages" / "handbook"
    found = [str(path) for path in folder.rglob("*") if path.is_file()]
    ignored = subprocess.run(["git", "check-ignore", *found], cwd=root, capture_output=True, text=True, check=False)
    assert len(found) == len(DOCUMENTS) + 2
    assert ignored.stdout == ""
    assert ignored.returncode == 1

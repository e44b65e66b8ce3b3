"""Question files: what the real one is like, and what is refused."""

import json

import pytest

from kshot.core.errors import DataError
from kshot.core.records import Evidence
from kshot.passages.questions import parse_questions, read_questions
from tests.passages.books import FASTBOOK, needs_fastbook, question


def parsed(*rows):
    return parse_questions(json.dumps({"questions": list(rows)}), "q.json")


def test_a_question_becomes_a_sample_with_evidence():
    (sample,) = parsed(question(context=[["one", "uno"], []], explicit=["true", "false"])).samples()
    assert sample.id == "1.1"
    assert sample.category == "1"
    assert sample.target == Evidence((("one", "uno"), ()))
    assert sample.fields["components"] == ["part 0", "part 1"]


def test_filters_choose_components_and_leave_out_questions_without_any():
    rows = [
        question(context=[["a"], []], explicit=["true", "false"]),
        question(number=2, context=[[]], explicit=["false"]),
        question(number=3, context=[["b"], ["c"]], extraneous=["true", "false"]),
    ]
    found = parsed(*rows)
    kept = {
        kind: [(s.id, len(s.target.parts)) for s in found.samples((kind,))]
        for kind in ("all", "nonempty", "explicit", "essential")
    }
    assert kept["all"] == [("1.1", 2), ("1.2", 1), ("1.3", 2)]
    assert kept["nonempty"] == [("1.1", 1), ("1.3", 2)]
    assert kept["explicit"] == [("1.1", 1), ("1.3", 2)]
    assert kept["essential"] == [("1.1", 2), ("1.2", 1), ("1.3", 1)]
    assert [s.id for s in found.samples(("nonempty", "essential"))] == ["1.1", "1.3"]


def test_wrapping_quotes_are_no_part_of_a_text():
    row = question() | {"question_text": '"What is "it"?"', "gold_standard_answer": '"yes'}
    (found,) = parsed(row).questions
    assert found.text == 'What is "it"?'
    assert found.answer == '"yes'


def test_a_component_may_be_a_list_of_texts_and_flags_may_be_real():
    row = question()
    row["answer_context"][0] |= {"answer_component": ["a", '"b"'], "explicit_context": True}
    found = parsed(row)
    assert found.questions[0].components[0].text == "a\nb"
    assert found.oddities["components given as a list"] == 1


def broken(**changes):
    row = question()
    for key, value in changes.items():
        place = row if key in row else row["answer_context"][0]
        if value is KeyError:
            del place[key]
        else:
            place[key] = value
    return row


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (broken(chapter=KeyError), "chapter is missing"),
        (broken(chapter=None), "chapter is None"),
        (broken(question_number=True), "question_number is True"),
        (broken(question_text=3), "question_text is int"),
        (broken(question_text=" "), "question_text is empty"),
        (broken(gold_standard_answer=KeyError), "gold_standard_answer is missing"),
        (broken(answer_context={}), "answer_context is dict"),
        (broken(answer_context=[]), "answer_context is empty"),
        (broken(answer_context=["x"]), "component 1 must be an object"),
        (broken(answer_component=4), "answer_component is int"),
        (broken(context="x"), "context must be a list of texts"),
        (broken(context=["x", 1]), "context must be a list of texts"),
        (broken(context=[" "]), "a context is blank"),
        (broken(scoring_type="fuzzy"), "scoring_type 'fuzzy'"),
        (broken(explicit_context="maybe"), "explicit_context is 'maybe'"),
        (broken(question_context=[3]), "question_context holds int"),
        (broken(question_context=5), "question_context is int"),
        ([], "a question must be an object"),
    ],
)
def test_bad_questions_are_refused_by_name(row, message):
    with pytest.raises(DataError) as caught:
        parsed(question(number=7), row)
    assert message in caught.value.what
    assert "q.json, question 2 of the file" in caught.value.where


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no list of questions"),
        ('{"rows": []}', "no list of questions"),
        (json.dumps([question(), question()]), "question 1 of chapter 1 is there twice"),
    ],
)
def test_bad_files_are_refused(text, message):
    with pytest.raises(DataError, match=message):
        parse_questions(text, "q.json")


def test_a_file_that_is_no_utf8_text(tmp_path):
    (tmp_path / "q.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(DataError, match="not UTF-8"):
        read_questions(tmp_path / "q.json")


@needs_fastbook
def test_the_real_file_with_all_its_oddities():
    found = read_questions(FASTBOOK / "fastbook-benchmark.json")
    assert len(found.questions) == 191
    assert found.oddities["components given as a list"] == 6
    assert found.oddities["questions wrapped in quotes"] == 183
    assert found.oddities["gold answers wrapped in quotes"] == 191
    assert found.oddities["components wrapped in quotes"] == 156
    components = [c for q in found.questions for c in q.components]
    assert len(components) == 357
    assert sum(len(c.quotes) for c in components) == 389
    assert sum(not c.quotes for c in components) == 25

"""Recorded answers as a model: journals, prompts with responses, replicas, and files that are neither."""

import json
from dataclasses import replace

import pytest

from kshot.backends.replay import Replay, open_recording
from kshot.core.errors import BackendError
from kshot.core.protocols import LanguageModel
from kshot.core.records import Failed, Generate, Generated, Likelihood, Loglik, Message, Prompt, Scored, Search
from kshot.core.serialization import digest, encoded_line, response_to_json

CHAT = Prompt(messages=(Message("system", "Be brief."), Message("user", "Hi")))


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def answers(model, *requests):
    return [response for _, response in model.serve(iter(requests))]


def record(request, response):
    return {"key": "0" * 32, "asked": digest(request), "response": response_to_json(response)}


def test_prompts_with_responses(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    file = written(
        tmp_path / "a.jsonl", {"prompt": "2+2=", "response": "4"}, {"prompt": messages, "full_output": "Hello"}
    )
    model = open_recording(str(file))
    assert isinstance(model, LanguageModel)
    assert model.answers == (Generate,)
    assert model.abilities.recording == file
    found = answers(model, Generate(Prompt("2+2=")), Generate(CHAT), Generate(Prompt("3+3=")))
    assert found[:2] == [Generated("4"), Generated("Hello")]
    assert isinstance(found[2], Failed)
    assert found[2].kind == "not_recorded"


def test_a_chat_may_be_recorded_as_its_text(tmp_path):
    model = Replay(written(tmp_path / "a.jsonl", {"prompt": CHAT.text, "response": "Hello"}))
    assert answers(model, Generate(CHAT)) == [Generated("Hello")]


def test_a_prompt_that_is_recorded_again_answers_the_next_replica(tmp_path):
    rows = [{"prompt": "x", "response": reply} for reply in ("one", "two", "three")]
    model = Replay(written(tmp_path / "a.jsonl", *rows))
    found = answers(model, *(Generate(Prompt("x"), replica=replica) for replica in (2, 0, 1, 3)))
    assert [each.text for each in found[:3]] == ["three", "one", "two"]
    assert isinstance(found[3], Failed)


def test_the_journal_of_a_run_folder(tmp_path):
    asked = Generate(Prompt("x"))
    weighed = Loglik(Prompt("x"), (" a", " b"))
    failed = Generate(Prompt("y"))
    scored = Scored((Likelihood(-1.0, 1), Likelihood(-2.0, 1)))
    rows = [
        record(asked, Generated("yes", "length")),
        record(weighed, scored),
        record(failed, Failed("timeout", "too slow")),
    ]
    written(tmp_path / "journal.jsonl", *rows)
    model = Replay(tmp_path)
    assert model.answers == (Generate, Loglik, Search)
    assert answers(model, weighed, asked) == [scored, Generated("yes", "length")]
    (missing,) = answers(model, failed)  # a recorded failure is no answer
    assert missing.kind == "not_recorded"


def test_the_fingerprint_is_that_of_the_content(tmp_path):
    one = Replay(written(tmp_path / "a.jsonl", {"prompt": "x", "response": "y"}))
    same = Replay(written(tmp_path / "b.jsonl", {"prompt": "x", "response": "y"}))
    other = Replay(written(tmp_path / "c.jsonl", {"prompt": "x", "response": "z"}))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.name == f"replay:{tmp_path}/a.jsonl"
    one.close()
    with pytest.raises(ValueError, match="closed file"):
        answers(one, Generate(Prompt("x")))


JOURNAL_LINE = {"key": "0" * 32, "asked": "0" * 32, "response": {"text": "x"}}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], r"a.jsonl:1: this line is not JSON"),
        (["[1]"], r"a.jsonl:1: this line is not an object"),
        (['{"prompt": "x"}'], r"a.jsonl:1: this line is not a recorded answer. It needs a prompt and a response text"),
        (['{"prompt": "x", "response": 3}'], r"a.jsonl:1: this line is not a recorded answer"),
        (["", '{"asked": "abc", "response": {}}'], r"a.jsonl:2: this line is not a journal record"),
        (
            [json.dumps(JOURNAL_LINE), '{"prompt": "x", "response": "y"}'],
            r"a.jsonl:2: the file mixes journal records and recorded prompts",
        ),
    ],
)
def test_files_that_hold_no_answers(tmp_path, lines, message):
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(BackendError, match=message):
        Replay(tmp_path / "a.jsonl")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BackendError, match="the recording cannot be read: No such file"):
        Replay(tmp_path / "absent.jsonl")


def journal(path, *answered):
    path.write_bytes(b"".join(encoded_line("0" * 32, digest(request), response) for request, response in answered))
    return path


def test_damaged_lines_of_a_journal_are_named_and_not_used(tmp_path):
    requests = [Generate(Prompt(f"{number}")) for number in range(5)]
    file = journal(tmp_path / "a.jsonl", *((request, Generated("yes")) for request in requests))
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"\xff\n" + whole.replace(lines[3], lines[3].replace(b"yes", b"yet")))
    model = Replay(file)
    found = answers(model, *requests)
    assert [each.text for each in found if isinstance(each, Generated)] == ["yes"] * 4
    assert found[3].kind == "not_recorded"
    places = f"1 at byte 0, 5 at byte {2 + sum(map(len, lines[:3]))}"
    assert model.notes == [f"{file}: 2 lines are damaged ({places}); they are not used"]


def test_a_journal_without_a_whole_line_is_refused(tmp_path):
    file = journal(tmp_path / "a.jsonl", (Generate(Prompt("x")), Generated("yes")))
    file.write_bytes(file.read_bytes().replace(b"yes", b"yet"))
    with pytest.raises(BackendError, match=r"a\.jsonl:1: this line is not a journal record"):
        Replay(file)


def test_a_journal_that_changes_while_it_is_read_is_not_used(tmp_path):
    asked = Generate(Prompt("x"))
    file = journal(tmp_path / "a.jsonl", (asked, Generated("yes")))
    model = Replay(file)
    file.write_bytes(file.read_bytes().replace(b"yes", b"yet"))
    with pytest.raises(BackendError, match="the file changed while it was in use"):
        answers(model, asked)


def test_answers_with_and_without_tokens_stand_for_each_other(tmp_path):
    known = Generated("4", token_logprobs=(("4", -0.5),))
    scored = Scored((Likelihood(-1.0, 1),))
    with_tokens, options = Generate(Prompt("2+2="), token_logprobs=True), Loglik(Prompt("a"), ("b",))
    model = Replay(written(tmp_path / "journal.jsonl", record(with_tokens, known), record(options, scored)))
    found = answers(
        model, replace(with_tokens, token_logprobs=False), with_tokens, replace(options, token_logprobs=True)
    )
    assert found == [known, known, scored]  # what was not asked for is left out by the engine


def test_recorded_prompts_may_have_tokens(tmp_path):
    rows = [
        {"prompt": "a", "response": "4", "token_logprobs": [["4", -0.5]]},
        {"prompt": "b", "response": "5", "token_logprobs": [["5"]]},
    ]
    model = Replay(written(tmp_path / "a.jsonl", *rows))
    found = answers(model, Generate(Prompt("a"), token_logprobs=True), Generate(Prompt("b"), token_logprobs=True))
    assert found == [Generated("4", token_logprobs=(("4", -0.5),)), Generated("5")]

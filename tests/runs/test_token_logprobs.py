"""Runs with ``--token-logprobs``: rows, journals, what is asked again, notes, and that nothing changes without it."""

import json
from dataclasses import replace

import pytest

import kshot
from kshot.core.records import Failed, Generate, Generated, Likelihood, Loglik, Scored
from tests.datasets.fakes import Fake, choice, generation

OPTIONS = {"fsync": "never", "report": False}


def tokens_of(text):
    """Each character as a token."""
    return tuple((character, -0.25) for character in text)


def answer(request):
    """Answer with tokens where they are asked for."""
    if isinstance(request, Generate):
        return Generated("4!", token_logprobs=tokens_of("4!") if request.token_logprobs else None)
    shown = [tokens_of(text) if request.token_logprobs else None for text in request.continuations]
    pairs = zip(request.continuations, shown, strict=True)
    return Scored(tuple(Likelihood(-0.25 * len(text), len(text), None, own) for text, own in pairs))


def questions(name="quiz"):
    return generation([{"q": f"{n} + {n} =", "target": str(2 * n)} for n in range(3)], name=name)


def choices():
    rows = [{"q": f"Which is {n}?", "options": ["one", "two"], "target_idx": 0} for n in range(3)]
    return choice(rows, name="choices")


def rows(path):
    return [json.loads(line) for line in (path / "samples.jsonl").read_text().splitlines()]


def without_tokens(row):
    """The row as it would be without the option."""
    response = row["response"]
    if isinstance(response, list):
        parts = [{name: each[name] for name in each if name != "token_logprobs"} for each in response]
        row = {**row, "response": parts}
    return {name: value for name, value in row.items() if name != "token_logprobs"}


@pytest.fixture
def both(tmp_path):
    """Two runs of the same, without the option and with it."""
    found = {}
    for name, more in {"off": {}, "on": {"token_logprobs": True}}.items():
        model = Fake(answer)
        kshot.evaluate(model, [questions(), choices()], out=tmp_path / name, **OPTIONS, **more)
        found[name] = model
    return tmp_path, found


def test_rows_have_the_tokens_of_replies_and_options_and_differ_in_nothing_else(both):
    path, models = both
    off, on = rows(path / "off"), rows(path / "on")
    assert [without_tokens(row) for row in on] == off
    assert on[0]["token_logprobs"] == [["4", -0.25], ["!", -0.25]]
    measured = on[3]["response"][0]
    assert measured["token_logprobs"] == [[character, -0.25] for character in measured["text"]]
    assert json.loads((path / "off" / "summary.json").read_text()) == json.loads(
        (path / "on" / "summary.json").read_text()
    )
    assert not any(request.token_logprobs for request in models["off"].asked)
    assert all(request.token_logprobs for request in models["on"].asked)
    assert b"token_logprobs" not in (path / "off" / "journal.jsonl").read_bytes()


def test_in_memory_rows_are_those_of_a_folder(both):
    path, _ = both
    result = kshot.evaluate(Fake(answer), [questions(), choices()], token_logprobs=True)
    assert [json.loads(json.dumps(row)) for row in result.samples] == rows(path / "on")
    assert next(iter(result.samples))["token_logprobs"] == [["4", -0.25], ["!", -0.25]]


def test_several_replies_and_those_that_lack_tokens():
    def some(request):
        reply = answer(request)
        return replace(reply, token_logprobs=None) if request.replica else reply

    options = {"sample_num": 2, "temperature": 1.0, "token_logprobs": True}
    result = kshot.evaluate(Fake(some), questions(), **options)
    assert next(iter(result.samples))["token_logprobs"] == [[["4", -0.25], ["!", -0.25]], None]
    assert result.notes == ["fake gives no log-probabilities of tokens for 3 of 6 replies and measured texts"]


def test_a_model_that_gives_none_is_noted_once_and_nothing_fails():
    result = kshot.evaluate(lambda prompt: "4", [questions(), questions("other")], token_logprobs=True)
    assert [note for note in result.notes if "tokens" in note] == [
        f"{result.results[0]['model']} gives no log-probabilities of tokens"
    ]
    assert not any("token_logprobs" in row for row in result.samples)
    failing = kshot.evaluate(Fake(lambda _: Failed("busy", "no")), questions(), token_logprobs=True)
    assert "--token-logprobs has no effect on fake: it was asked for no text" in failing.notes


def test_a_journal_without_tokens_asks_again_and_one_with_tokens_does_not(both):
    path, _ = both
    asked = {}
    for name in ("off", "on"):
        model = Fake(answer)
        kshot.evaluate(model, [questions(), choices()], out=path / name, token_logprobs=True, **OPTIONS)
        asked[name] = len(model.asked)
    assert asked == {"off": 6, "on": 0}
    assert rows(path / "off") == rows(path / "on")


def test_a_run_that_continues_keeps_the_option(both):
    path, _ = both
    before = rows(path / "on")
    model, notes = Fake(answer), []

    class Noting(kshot.Watcher):
        def note(self, text):
            notes.append(text)

    kshot.evaluate(model, [questions(), choices()], out=path / "on", watcher=Noting(), **OPTIONS)
    assert not model.asked
    assert rows(path / "on") == before
    assert f"{path / 'on'} was begun with --token-logprobs, which stays on for it" in notes


def test_a_run_that_is_scored_again_keeps_its_tokens(tmp_path):
    path = tmp_path / "run"
    kshot.evaluate("embedded", "examples/planets.py:Planets", out=path, limit=2, token_logprobs=True, **OPTIONS)
    before = (path / "samples.jsonl").read_bytes()
    assert b"token_logprobs" in before
    kshot.score(path)
    assert (path / "samples.jsonl").read_bytes() == before


def test_every_request_to_the_model_asks_whatever_the_method():
    def method(sample, prompt):
        (reply,) = yield from kshot.ask(Generate(prompt))
        (found,) = yield from kshot.ask(Loglik(prompt, (reply.text,)))
        return 0 if found.likelihoods[0].logprob < 0 else 1

    samples = [kshot.Sample("1", {}, kshot.Option(0))]
    task = kshot.Task("t", samples, lambda s, _: kshot.Prompt("q"), method, (kshot.Accuracy(),))
    model = Fake(answer)
    (row,) = kshot.evaluate(model, task, token_logprobs=True).samples
    assert [(type(request), request.token_logprobs) for request in model.asked] == [(Generate, True), (Loglik, True)]
    assert row["token_logprobs"] == [["4", -0.25], ["!", -0.25]]
    assert row["response"][1]["token_logprobs"] == [["4", -0.25], ["!", -0.25]]

"""Batch APIs that answer nonsense: one clear message, nothing lost, nothing submitted twice or without an end."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import BackendError
from tests.backends.server.batch_runs import MODELS, Runs, same_files
from tests.backends.server.test_batches import here, server
from tests.cases import some
from tests.commands import kshot_process

pytestmark = pytest.mark.needs("aiohttp")
__all__ = ["here", "server"]  # fixtures

NONSENSE = {
    "no JSON": (200, b"<html>oops</html>"),
    "nothing": (200, b""),
    "a list": (200, [7]),
    "an empty object": (200, {}),
    "too deep": (200, b"[" * 1000),
    "other types": (200, {"id": 5, "status": None, "processing_status": 7, "data": 7, "has_more": True}),
    "a refusal": (400, {"error": {"message": "bad"}}),
    "not found": (404, b"oops"),
    "a fault": (500, b"oops"),
}
STEPS = ["file", "create", "list", "status", "results"]


def step_of(path):
    place = path.partition("?")[0]
    endings = {"/files": "file", "/batches": "list", "/results": "results", "/content": "results"}
    return next((step for ending, step in endings.items() if place.endswith(ending)), "status")


@pytest.mark.parametrize(("model", "step", "what"), some(product(MODELS, STEPS, NONSENSE), 4, lambda case: case[:2]))
def test_nonsense_at_any_step_is_told_and_nothing_is_paid_twice(server, monkeypatch, model, step, what):
    if (model, step) == (MODELS[1], "file"):
        return  # Anthropic's API has no files
    runs = Runs(server, model, dataset_path="3", patience=0.01)
    with monkeypatch.context() as patched:
        post, get = server.post, server.get
        wrong = {"file": "file", "list": "create"}  # what a POST to such a path does
        patched.setattr(server, "post", lambda *a: NONSENSE[what] if wrong[step_of(a[0])] == step else post(*a))
        if step in {"status", "results"}:
            assert runs.call() is None
            server.end()
        elif step == "list":
            server.broken = 1
        patched.setattr(server, "get", lambda *a: NONSENSE[what] if step_of(a[0]) == step else get(*a))
        with pytest.raises(BackendError) as caught:
            runs.call()
        assert str(caught.value).startswith(f"{model} at {server.url}: ")
    server.end()
    runs.call()
    server.end()
    assert runs.call() is not None
    runs.plain()
    assert same_files("run", "plain")
    assert max(Counter(server.submitted).values()) == 1


def test_a_server_without_a_batch_api_is_told(server, monkeypatch):
    monkeypatch.setattr(server, "post", lambda *_: (404, b"Not Found"))
    with pytest.raises(BackendError, match=r"this server has no batch API: it says 404\. Leave --batch-api out"):
        Runs(server).call()


@pytest.mark.parametrize("state", ["queued", "IN_PROGRESS"])
def test_a_state_that_kshot_does_not_know_is_waited_for(server, state):
    runs = Runs(server)
    assert runs.call() is None
    for batch in server.batches.values():
        batch["state"] = state
    assert runs.call() is None
    assert len(server.batches) == 1


def test_an_ended_batch_whose_file_is_not_named_yet_is_looked_at_again(server, monkeypatch):
    runs = Runs(server, dataset_path="3")
    assert runs.call() is None
    server.end()
    shown = server.shown
    with monkeypatch.context() as patched:
        hidden = {"output_file_id": None, "request_counts": {"completed": 3}}
        patched.setattr(server, "shown", lambda name: {**shown(name), **hidden})
        with pytest.raises(BackendError, match=r"ended with 3 answers, and the server names no file.*looks again"):
            runs.call()
    assert runs.call() is not None
    assert len(server.submitted) == 3


def changed_results(server, change):
    """Let the files of results be what ``change`` makes of their lines."""
    for name in ("openai_file", "anthropic_results"):
        original = getattr(server, name)

        def changed(file, original=original):
            return b"\n".join(change(original(file).splitlines()))

        setattr(server, name, changed)


@pytest.mark.parametrize("model", MODELS)
def test_lines_in_another_order_twice_and_of_others_do_no_harm(server, model):
    runs = Runs(server, model)
    assert runs.call() is None
    server.end()

    def change(lines):
        wrong = [json.loads(line) for line in lines]
        for line in wrong:
            line.pop("response", None)
            line.pop("result", None)
        stranger = {**json.loads(lines[0]), "custom_id": "somebody-else"}
        keys = [json.loads(line)["custom_id"].rpartition("-")[2] for line in lines[:1]]
        unknown = {**json.loads(lines[0]), "custom_id": f"nobody-{keys[0]}"}
        others = [json.dumps(each).encode() for each in (stranger, unknown, *wrong)]
        return [*others[:3], *reversed(lines), b"{", b"7", *others]

    changed_results(server, change)
    assert runs.call() is not None
    runs.plain()
    assert same_files("run", "plain")
    assert len(server.batches) == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["missing", "unreadable", "with a wrong id"])
def test_a_request_whose_line_never_comes_is_submitted_five_times_at_most(server, model, how):
    runs = Runs(server, model, dataset_path="2")
    keys = {}

    def change(lines):
        kept = [line for line in lines if json.loads(line)["custom_id"].rpartition("-")[0] == keys["kept"]]
        lost = [line for line in lines if line not in kept]
        return kept + {"missing": [], "unreadable": [line[:-9] for line in lost], "with a wrong id": [
            line.replace(b'"custom_id": "', b'"custom_id": "x') for line in lost]}[how]  # fmt: skip

    assert runs.call() is None
    keys["kept"] = server.submitted[0]
    changed_results(server, change)
    for number in range(1, 6):
        assert len(server.batches) == number
        server.end()
        if how != "with a wrong id" and number > 1:  # no line at all: nobody knows what became of the request
            with pytest.raises(BackendError, match="its file holds no results"):
                runs.call()
            return
        result = runs.call()
        assert (result is None) == (number < 5)
    (failed,) = [row["failed"] for row in result.samples if "failed" in row]
    assert "its line is missing; it was submitted 5 times" in failed
    assert max(Counter(server.submitted).values()) == 5


def test_what_expired_and_waits_again_is_not_counted_by_every_look(server, here, monkeypatch):
    runs = Runs(server, dataset_path="6")
    assert runs.call() is None
    server.end(lambda number, body: "batch_expired" if number < 4 else None)
    words = ["run", "-m", "openai:gpt", "--base-url", server.url, "--model-type", "chat", "-d", "data.py:Cities"]
    words += ["--dataset-path", "6", "--batch-api", "--out", "run", "--no-report", "--api-key-env", "THE_KEY"]
    monkeypatch.setenv("KSHOT_KILL_POINT", "journal.written 1")
    assert kshot_process(*words, cwd=here).code == -9
    monkeypatch.delenv("KSHOT_KILL_POINT")
    for _ in range(8):
        assert runs.call() is None
    assert [len(batch["lines"]) for batch in server.open] == [4]
    server.end()
    assert runs.call() is not None
    runs.plain()
    assert same_files("run", "plain")


def test_answers_that_are_in_the_journal_are_not_fetched_again(server):
    runs = Runs(server, dataset_path="3")
    assert runs.call() is None
    server.end()
    state = Path("run/batches.json").read_text()
    assert runs.call() is not None
    Path("run/batches.json").write_text(state)  # as if the command had been killed just before it wrote this
    before = len(server.calls)
    assert runs.call() is not None
    assert len(server.calls) == before
    assert json.loads(Path("run/batches.json").read_text()).popitem()[1]["batches"][0]["collected"]


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_that_is_too_large_is_a_failed_sample_and_is_not_bought_again(server, model):
    runs = Runs(server, model, dataset_path="3", max_reply="5kB")
    assert runs.call() is None
    large = server.submitted[1]
    server.end()
    changed_results(
        server,
        lambda lines: [line + b" " * 5000 * (json.loads(line)["custom_id"].startswith(large)) for line in lines],
    )
    assert runs.call() is not None
    (failed,) = [row["failed"] for row in kshot.load("run").samples if "failed" in row]
    assert "reply_too_large: the server's reply is too large: it is larger than 5,000 bytes (--max-reply)" in failed
    assert len(server.batches) == 1


@pytest.mark.parametrize("line", [0, -1, 99, None, "3"])
def test_a_refused_batch_that_names_no_line_of_it_fails_as_a_whole(server, line):
    runs = Runs(server, dataset_path="3")
    assert runs.call() is None
    server.refuse({"code": "invalid", "message": "no", "line": line})
    found = runs.call()
    assert ["the server says 400: no" in row["failed"] for row in found.samples] == [True] * 3

"""``anthropic:`` against a server that answers as it is told."""

import pytest

from kshot.backends import open_backend
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generate, Generated, Loglik, Message, Prompt, Usage
from tests.fake_server import FakeServer, Reply
from tests.tiny_models import ask_all

TALK = Prompt(messages=(Message("system", "Be brief."), Message("user", "hi")))


def said(*parts, stop="end_turn", **usage):
    usage = {"input_tokens": 7, "output_tokens": 3, **usage}
    return {"type": "message", "content": list(parts), "stop_reason": stop, "usage": usage}


def text(words):
    return {"type": "text", "text": words}


def one(reply, request=None, **options):
    with FakeServer(lambda _: reply) as server:
        backend = open_backend("anthropic:c", {"base_url": server.url, **options})
        (found,) = ask_all(backend, [request or Generate(TALK, max_tokens=9)])
        return found, server


def test_a_conversation(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1234567")
    thought = {"type": "thinking", "thinking": "hm"}
    found, server = one(said(thought, text("hello")), Generate(TALK, max_tokens=9, stop=("\n", "END"), top_k=3))
    assert found == Generated("hello", "stop", Usage(7, 3), "hm")
    (call,) = server.calls
    assert call.path == "/v1/messages"
    assert call.headers["x-api-key"] == "key-1234567"
    assert call.headers["anthropic-version"] == "2023-06-01"
    assert call.body == {
        "model": "c",
        "max_tokens": 9,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.0,
        "stop_sequences": ["END"],
        "top_k": 3,
    }


def test_why_it_ended_and_what_it_read_from_its_cache():
    assert one(said(text("x"), stop="max_tokens"))[0].stop_reason == "length"
    assert one(said(text("a\nb")), Generate(TALK, stop=("\n",)))[0].text == "a"
    assert one(said(stop="refusal"))[0].kind == "content_filter"
    assert one(said(text("x"), cache_read_input_tokens=100))[0].usage == Usage(107, 3)


def test_no_text_is_a_failure_and_not_an_empty_answer():
    tool = {"type": "tool_use", "name": "x", "input": {}}
    nothing = [
        said() | {"content": None},
        said(),
        said(text(None)),
        said({"type": "thinking", "thinking": None}),
        said(5),
    ]
    for reply in (*nothing, said(tool, stop="tool_use")):
        found, server = one(reply)
        assert (type(found), found.kind) == (Failed, "no_text")
        assert len(server.calls) == 1
    assert one(said(text("")))[0] == Generated("", "stop", Usage(7, 3))
    assert one(said(stop="stop_sequence"))[0].text == ""
    assert one(said({"type": "redacted_thinking", "data": "x"}, stop="max_tokens"))[0].stop_reason == "length"
    assert one(said(text("x"), output_tokens=float("inf")))[0] == Generated("x")


def test_a_key_that_the_server_quotes_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "plainsecret1234")
    assert one(said(text("It is plainsecret1234.")))[0].text == "It is …."
    found, _ = one(Reply({"error": {"type": "invalid_request_error", "message": "x-api-key plainsecret1234"}}, 400))
    assert found.message == "the server says 400: x-api-key …"


def test_overload_is_tried_again():
    replies = iter([Reply({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529)])
    with FakeServer(lambda _: next(replies, said(text("x")))) as server:
        (found,) = ask_all(open_backend("anthropic:c", {"base_url": server.url}), [Generate(TALK)])
    assert found.text == "x"


def test_what_it_cannot_do():
    with pytest.raises(BackendError, match="--model-type chat"):
        one(said(text("x")), Generate(Prompt("once")))
    backend = open_backend("anthropic:c", {"base_url": "http://x"})
    assert Loglik not in backend.answers
    assert backend.best_ranking(chat=True) == "generation"


def test_a_key_is_needed_for_the_real_one(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(BackendError, match="ANTHROPIC_API_KEY is not set"):
        open_backend("anthropic:c", {})

"""``anthropic:`` against a fake server."""

import pytest

from kshot.backends import open_model
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generate, Generated, Loglik, Message, Prompt, Usage
from tests.fake_server import FakeServer, Reply
from tests.tiny_models import ask_all

CHAT = Prompt(messages=(Message("system", "Be brief."), Message("user", "hi")))


def message(*parts, stop="end_turn", **usage):
    usage = {"input_tokens": 7, "output_tokens": 3, **usage}
    return {"type": "message", "content": list(parts), "stop_reason": stop, "usage": usage}


def text(content):
    return {"type": "text", "text": content}


def answer_with(reply, request=None, **options):
    """Return the response to one request that gets this reply, and the server."""
    with FakeServer(lambda _: reply) as server:
        backend = open_model("anthropic:c", {"base_url": server.url, **options})
        (response,) = ask_all(backend, [request or Generate(CHAT, max_tokens=9)])
        return response, server


def test_a_conversation(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1234567")
    thinking = {"type": "thinking", "thinking": "hm"}
    found, server = answer_with(
        message(thinking, text("hello")),
        Generate(CHAT, max_tokens=9, stop=("\n", "END"), top_k=3),
        api_key_env="ANTHROPIC_API_KEY",
    )
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


def test_stop_reasons_and_cached_tokens():
    assert answer_with(message(text("x"), stop="max_tokens"))[0].stop_reason == "length"
    assert answer_with(message(text("a\nb")), Generate(CHAT, stop=("\n",)))[0].text == "a"
    assert answer_with(message(stop="refusal"))[0].kind == "content_filter"
    assert answer_with(message(text("Half of"), stop="refusal"))[0].kind == "content_filter"
    assert answer_with(message(text("x"), stop="model_context_window_exceeded"))[0].stop_reason == "window"
    thinking = answer_with(message(text("<think>hm</think>x")))[0]
    assert (thinking.text, thinking.reasoning) == ("x", "hm")
    assert answer_with(message(text("x"), cache_read_input_tokens=100))[0].usage == Usage(107, 3)


def test_no_text_is_a_failure_and_not_an_empty_answer():
    tool = {"type": "tool_use", "name": "x", "input": {}}
    nothing = [
        message() | {"content": None},
        message(),
        message(text(None)),
        message({"type": "thinking", "thinking": None}),
        message(5),
    ]
    for reply in (*nothing, message(tool, stop="tool_use")):
        found, server = answer_with(reply)
        assert (type(found), found.kind) == (Failed, "no_text")
        assert len(server.calls) == 1
    assert answer_with(message(text("")))[0] == Generated("", "stop", Usage(7, 3))
    assert answer_with(message(stop="stop_sequence"))[0].text == ""
    assert (
        answer_with(message({"type": "redacted_thinking", "data": "x"}, stop="max_tokens"))[0].stop_reason == "length"
    )
    assert answer_with(message(text("x"), output_tokens=float("inf")))[0] == Generated("x")


def test_a_key_that_the_server_quotes_is_removed(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "plainsecret1234")
    named = dict(api_key_env="ANTHROPIC_API_KEY")
    assert answer_with(message(text("It is plainsecret1234.")), **named)[0].text == "It is …."
    refusal = {"error": {"type": "invalid_request_error", "message": "x-api-key plainsecret1234"}}
    found, _ = answer_with(Reply(refusal, 400), **named)
    assert found.message == "the server says 400: x-api-key …"


def test_an_overloaded_server_is_asked_again():
    replies = iter([Reply({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529)])
    with FakeServer(lambda _: next(replies, message(text("x")))) as server:
        (found,) = ask_all(open_model("anthropic:c", {"base_url": server.url}), [Generate(CHAT)])
    assert found.text == "x"


def test_requests_that_it_cannot_answer():
    with pytest.raises(BackendError, match=r"answers conversations only\. Use --model-type chat"):
        answer_with(message(text("x")), Generate(Prompt("once")))
    backend = open_model("anthropic:c", {"base_url": "http://x"})
    assert Loglik not in backend.answers
    assert backend.abilities.best_ranking(True) == "generation"


def test_the_real_api_needs_a_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(BackendError, match="ANTHROPIC_API_KEY is not set"):
        open_model("anthropic:c", {})

"""``openai:`` against a fake server."""

import json
import logging

import pytest

import kshot
from kshot.backends import open_model
from kshot.backends.server.connection import load_aiohttp
from kshot.core.errors import BackendError, MissingExtra
from kshot.core.records import Failed, Generate, Generated, Message, Prompt, Usage
from kshot.core.serialization import response_from_json, response_to_json
from tests.backends.server.clients import connect
from tests.fake_server import FakeServer, Reply, chat, completion, echo, error
from tests.tiny_models import ask_all


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def chat_request(*turns, **options):
    roles = ("user", "assistant") * len(turns)
    return Generate(Prompt(messages=tuple(Message(r, t) for r, t in zip(roles, turns, strict=False))), **options)


def answer_with(answer, request=None, **options):
    """Return the response to one request, the server, and the client."""
    with FakeServer(answer) as server:
        backend = connect(server, **options)
        (response,) = ask_all(backend, [request or chat_request("hi")])
        return response, server, backend


# ---- requests ----


def test_a_conversation_goes_to_chat_and_a_text_to_completions():
    request = chat_request("hi", "yes?", "bye", max_tokens=7, stop=("\n",), top_p=0.5)
    found, server, _ = answer_with(echo, request)
    assert found == Generated("<bye>", "stop", Usage(10, 2))
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.body == {
        "model": "m",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes?"},
            {"role": "user", "content": "bye"},
        ],
        "max_tokens": 7,
        "temperature": 0.0,
        "stop": ["\n"],
        "top_p": 0.5,
    }
    assert "authorization" not in call.headers
    found, server, _ = answer_with(echo, Generate(Prompt("once upon")))
    assert found.text == "<once upon>"
    assert server.calls[0].path == "/v1/completions"
    assert server.calls[0].body["prompt"] == "once upon"


def test_the_key_goes_into_the_header_and_nowhere_else(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key-1234")
    caplog.set_level(logging.DEBUG)
    task = kshot.Task(
        "t",
        [kshot.Sample("1", {}, kshot.Option(0))],
        lambda s, _: chat_request("hi").prompt,
        method,
        (kshot.Accuracy(),),
    )
    with FakeServer(echo) as server:
        kshot.evaluate("openai:m", task, base_url=server.url, api_key_env="OPENAI_API_KEY", out=tmp_path / "run")
        backend = connect(server, api_key_env="OPENAI_API_KEY")
    assert server.calls[0].headers["authorization"] == "Bearer sk-secret-key-1234"
    written = "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    shown = repr(backend) + repr(backend._addresses) + backend.name + backend.fingerprint + caplog.text
    assert "sk-secret" not in written + shown


def method(sample, prompt):
    (reply,) = yield from kshot.ask(kshot.Generate(prompt))
    return 0 if reply.text else 1


def test_the_real_api_needs_a_key():
    with pytest.raises(BackendError, match="OPENAI_API_KEY is not set"):
        open_model("openai:gpt", {})


def test_a_sampled_reply_has_a_seed_for_every_replica():
    requests = [chat_request("hi", temperature=1.0, seed=5, replica=n) for n in range(3)]
    with FakeServer(echo) as server:
        ask_all(connect(server), requests)
    assert sorted(call.body["seed"] for call in server.calls) == [5, 6, 7]


def test_lone_surrogates_are_replaced():
    _, server, _ = answer_with(echo, chat_request("a\ud800b"))
    assert server.calls[0].prompt == "a\ufffdb"


def test_kshot_cuts_at_the_stop_strings_that_servers_do_not_accept():
    stop = ("a", "b", "c", "d", "END")
    found, server, _ = answer_with(lambda _: chat("1 2 END 3", "length"), chat_request("hi", stop=stop))
    assert server.calls[0].body["stop"] == ["a", "b", "c", "d"]
    assert (found.text, found.stop_reason) == ("1 2 ", "stop")


def test_kshot_renders_a_chat_template_which_is_part_of_the_fingerprint(tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]")
    found, server, backend = answer_with(
        lambda _: completion("<think>hm</think>yes"), chat_request("hi"), chat_template=str(file)
    )
    assert server.calls[0].body["prompt"] == "[user]hi[assistant]"
    assert (found.text, found.reasoning) == ("yes", "hm")
    assert backend.fingerprint != connect(server).fingerprint


def test_a_reply_that_the_prompt_begins_needs_a_template(tmp_path):
    turns = (Message("user", "hi"), Message("assistant", "It is"))
    request = Generate(Prompt(messages=turns, opened=True))
    with pytest.raises(BackendError, match="does not go on with a reply") as raised:
        answer_with(echo, request)
    assert "--chat-template" in raised.value.hint
    file = tmp_path / "chat.jinja"
    file.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}>", encoding="utf-8")
    _, server, _ = answer_with(lambda _: completion("so"), request, chat_template=str(file))
    assert server.calls[0].body["prompt"] == "[hi]>It is"


def test_the_fingerprint_covers_server_and_model_but_not_the_limits():
    class One:
        url = "http://one:1"

    class Two:
        url = "http://two:1/v1"

    fingerprints = {connect(One).fingerprint, connect(One, "n").fingerprint, connect(Two).fingerprint}
    assert len(fingerprints) == 3
    assert connect(One, max_concurrency=3, rpm=5, timeout=1.0).fingerprint in fingerprints
    own = open_model("openai:m@http://one:1/v1/", {"base_url": "http://two:1"})
    assert own._addresses[0].url == "http://one:1/v1"


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"kshot\[api\]"):
        load_aiohttp()
    with pytest.raises(MissingExtra, match="aiohttp"):
        open_model("openai:m", {"base_url": "http://x"})


KEY = "plainsecret/key1234567890"


def escaped(text):
    """Return JSON in which every character is an escape sequence."""
    return '{"choices":[{"message":{"content":"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"}}]}'


@pytest.mark.parametrize(
    "reply",
    [
        error(400, f"odd header Authorization=Bearer {KEY} / {KEY}"),
        error(401, f"Incorrect API key provided: {KEY}. You can"),
        error(500, f"crash with {KEY}"),
        error(400, "x" * 280 + KEY),
        Reply(f"<html>{KEY}", 400),
        Reply("x" * 1990 + KEY, 500),
        Reply({}, 302, {"Location": f"/v1/chat/completions?key={KEY}"}),
        Reply({}, 302, {"Location": "/v1?key=plainsecret%2Fkey1234567890"}),
        Reply({"error": {"message": KEY, "code": "x"}}),
        Reply(f"not JSON {KEY}"),
        Reply({"choices": KEY}),
        chat(f"Your key is Bearer {KEY}"),
        chat("ok", reasoning_content=KEY),
        Reply(escaped(f"Your key is {KEY}")),
    ],
)
def test_a_key_that_the_server_quotes_is_written_nowhere(reply, monkeypatch, tmp_path, capsys):
    from tests.commands import CAPITALS, kshot as command

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    with FakeServer(lambda _: reply) as server:
        done = command(
            capsys, "run", "-m", "openai:m", "-d", "capitals.py:Capitals", "--base-url", server.url, "--limit", "1",
            "--model-type", "chat", "--ranking-type", "generation", "--patience", "0.2", "--out", "run",
            "--api-key-env", "OPENAI_API_KEY",
        )  # fmt: skip
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
    written = "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert "plainsecret" not in written + done.out + done.err
    assert "key1234567890" not in written + done.out + done.err


@pytest.mark.parametrize("key", ["x", "EMPTY", "password"])
def test_a_key_that_is_a_word_changes_no_answer(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    reply = chat(f"the {key} \n of x")
    assert answer_with(lambda _: reply, api_key_env="OPENAI_API_KEY")[0].text == f"the {key} \n of x"


# ---- replies ----


@pytest.mark.parametrize(
    ("reply", "text", "reasoning"),
    [
        (chat("4", reasoning_content="2+2"), "4", "2+2"),
        (chat("4", reasoning="2+2"), "4", "2+2"),
        (chat("<think>2+2</think>\n\n4"), "4", "2+2"),
        (chat("2+2\n</think>4"), "4", "2+2"),
        (chat("<think>2+2 and", "length"), "", "2+2 and"),
        (chat(None, reasoning_content="hm"), "", "hm"),
        (chat([{"type": "text", "text": "4"}, {"type": "x"}]), "4", ""),
        (chat(None, refusal="I will not."), "I will not.", ""),
    ],
)
def test_reasoning_is_separated_from_the_answer(reply, text, reasoning):
    found, _, _ = answer_with(lambda _: reply)
    assert (found.text, found.reasoning) == (text, reasoning)
    assert response_from_json(response_to_json(found)) == found
    assert ("reasoning" in response_to_json(found)) == bool(reasoning)


def test_a_reply_is_stored_as_the_server_wrote_it():
    written = "<think>2+2\n</think>\n\n4"
    found, _, _ = answer_with(lambda _: chat(written))
    assert response_from_json(response_to_json(found)).whole == written


def test_a_key_in_thoughts_is_stored_nowhere(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-1234567890")
    found, _, _ = answer_with(lambda _: chat("<think>key-1234567890</think>4"), api_key_env="OPENAI_API_KEY")
    assert (found.text, found.reasoning, found.whole) == ("4", "…", "<think>…</think>4")


def test_stop_reasons():
    assert answer_with(lambda _: chat("x", "length"))[0].stop_reason == "length"
    assert answer_with(lambda _: chat("x", "tool_calls"))[0].stop_reason == "stop"
    for text in ("", "Half of", None):  # what was written before the filter is no reply
        found = answer_with(lambda _, text=text: chat(text, "content_filter"))[0]
        assert (found.kind, found.retryable) == ("content_filter", False)
    assert answer_with(lambda _: completion("x", "content_filter"), Generate(Prompt("hi")))[0].kind == "content_filter"


def test_a_reply_that_the_templates_open_tag_begins(tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}<think>")
    for text, answer, reasoning in (("hm", "", "hm"), ("hm</think>yes", "yes", "hm"), ("</think>yes", "yes", "")):
        found, server, _ = answer_with(
            lambda _, text=text: completion(text), chat_request("hi"), chat_template=str(file)
        )
        assert server.calls[0].prompt == "hi<think>"
        assert (found.text, found.reasoning) == (answer, reasoning)


@pytest.mark.parametrize(
    "reply",
    [
        chat(None),
        {"choices": [{"message": {"role": "assistant"}}]},
        chat([]),
        chat([{"type": "text", "text": None}]),
        chat(None, "tool_calls", tool_calls=[{"id": "1"}]),
        chat("", "tool_calls", tool_calls=[{"id": "1"}], reasoning="hm"),
    ],
)
def test_no_text_is_a_failure_and_not_an_empty_answer(reply):
    found, server, _ = answer_with(lambda _: reply)
    assert (type(found), found.kind) == (Failed, "no_text")
    assert len(server.calls) == 1


def test_an_empty_text_is_an_answer_and_a_null_completion_is_none():
    assert answer_with(lambda _: chat(""))[0] == Generated("", "stop", Usage(10, 2))
    assert answer_with(lambda _: completion(""), Generate(Prompt("x")))[0].text == ""
    assert answer_with(lambda _: completion(None), Generate(Prompt("x")))[0].kind == "no_text"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "3", "completion_tokens": 1},
        {"prompt_tokens": 3, "completion_tokens": "x"},
        {"prompt_tokens": 3, "completion_tokens": float("inf")},
        {"prompt_tokens": -3, "completion_tokens": 1},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 3, "completion_tokens": {}},
        {"prompt_tokens": 3, "completion_tokens": 1, "cache_read_input_tokens": "zz"},
        [1],
    ],
)
def test_impossible_token_counts_are_ignored_and_the_text_is_kept(usage):
    found, server, _ = answer_with(lambda _: chat("x") | {"usage": usage})
    assert found == Generated("x")
    assert len(server.calls) == 1


def test_a_reply_without_token_counts():
    reply = chat("x")
    del reply["usage"]
    assert answer_with(lambda _: reply)[0] == Generated("x")


# ---- errors ----


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (401, "Incorrect API key provided: sk-abcd****wxyz", "OPENAI_API_KEY"),
        (403, "no", "OPENAI_API_KEY"),
        (404, "The model `m` does not exist", "--model-type chat"),
    ],
)
def test_errors_that_every_sample_would_get_stop_the_run(status, message, hint):
    with FakeServer(lambda _: error(status, message)) as server, pytest.raises(BackendError, match=hint) as caught:
        ask_all(connect(server), [chat_request(str(i)) for i in range(200)])
    assert f"says {status}" in str(caught.value)
    assert "abcd" not in str(caught.value)
    assert len(server.calls) <= 64


def test_a_server_that_cannot_be_reached_stops_the_run_at_once():
    with FakeServer(echo) as server:
        pass
    with pytest.raises(BackendError, match="cannot be reached"):
        ask_all(connect(server), [chat_request(str(i)) for i in range(50)])


def test_one_bad_request_is_one_failure():
    def answer(call):
        return error(400, "too long: " + "x" * 900) if call.prompt == "3" else echo(call)

    with FakeServer(answer) as server:
        found = ask_all(connect(server), [chat_request(str(i)) for i in range(6)])
    assert [type(each) for each in found] == [Generated] * 3 + [Failed] + [Generated] * 2
    assert found[3].kind == "http_400"
    assert len(found[3].message) < 400
    assert not found[3].retryable
    assert len(server.calls) == 6


def test_refused_parameters_are_learned_once():
    def picky(call):
        for name in ("max_tokens", "temperature"):
            if name in call.body:
                return error(400, f"Unsupported parameter: '{name}' is not supported with this model.", param=name)
        return echo(call)

    with FakeServer(picky) as server:
        backend = connect(server, max_concurrency=1)
        found = ask_all(backend, [chat_request(str(i), max_tokens=9) for i in range(5)])
    assert all(isinstance(each, Generated) for each in found)
    assert len(server.calls) <= 9  # the next request is sent before the refusal of the first is known
    assert server.calls[-1].body["max_completion_tokens"] == 9
    assert "temperature" not in server.calls[-1].body
    assert backend.notes == [
        "the server does not accept temperature: it is left out, and the server's default holds",
        "the server does not accept max_tokens: it is sent as max_completion_tokens",
    ]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("seed", {"error": {"message": "Unrecognized request argument supplied: seed"}}),
        ("seed", {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not"}]}),
        ("seed", {"error": {"message": "create() got an unexpected keyword argument 'seed'"}}),
        ("seed", {"error": {"message": "seed: Extra inputs are not permitted"}}),
        ("seed", {"error": {"message": "What is seed?", "code": "unknown_parameter", "param": "seed"}}),
        ("temperature", {"error": {"message": "`temperature` is deprecated for this model."}}),
        ("temperature", {"error": {"message": "temperature: only 1", "code": "unsupported_value"}}),
        ("max_tokens", {"error": {"message": "Use 'max_completion_tokens' instead", "param": "max_tokens"}}),
    ],
)
def test_the_forms_in_which_servers_refuse_a_parameter(name, body):
    def picky(call):
        return Reply(body, 400) if name in call.body else echo(call)

    found, server, backend = answer_with(picky, chat_request("x", temperature=0.5, seed=3, max_tokens=9))
    assert isinstance(found, Generated)
    assert len(server.calls) == 2
    assert len(backend.notes) == 1


@pytest.mark.parametrize(
    ("message", "details", "calls"),
    [
        ("max_tokens is too large for this prompt; send a shorter prompt instead", {}, 1),
        ("unexpected content in the prompt; please stop sending it", {}, 1),
        ("unknown characters. The temperature of the text", {}, 1),
        ("'max_tokens' is too large", {"param": "max_tokens", "code": "invalid_value"}, 1),
        ("Unsupported content; stop", {"param": "messages", "code": "unsupported_content"}, 1),
        (
            "unexpected word 'stop' in the prompt",
            {},
            2,
        ),  # the server may mean the parameter: kshot tries without it, once
        ("max_tokens is too large; send less instead", {"param": "max_tokens"}, 2),
    ],
)
def test_the_refusal_of_one_sample_changes_nothing_for_the_others(message, details, calls):
    def answer(call):
        return error(400, message, **details) if call.prompt == "1" else echo(call)

    with FakeServer(answer) as server:
        backend = connect(server, max_concurrency=1)
        found = ask_all(backend, [chat_request(str(i), stop=("\n",)) for i in range(4)])
    assert [type(each) for each in found] == [Generated, Failed, Generated, Generated]
    assert len(server.calls) == 3 + calls
    assert all({"max_tokens", "temperature", "stop"} <= set(c.body) for c in server.calls if c.prompt != "1")
    assert backend.notes == []


def test_a_value_that_is_too_large_is_not_an_unknown_parameter():
    found, server, _ = answer_with(
        lambda _: error(400, "max_tokens is too large: 900"), chat_request("x", max_tokens=900)
    )
    assert isinstance(found, Failed)
    assert len(server.calls) == 1


def test_a_complete_but_malformed_reply_is_tried_again():
    replies = iter([{"choices": []}, {"error": {"message": "busy", "code": 503}}, {}, chat("x")])
    assert answer_with(lambda _: next(replies))[0].text == "x"


def test_a_request_that_always_fails_is_given_up_while_others_go_on(monkeypatch):
    monkeypatch.setattr("kshot.backends.server.rate_limiter._jitter", lambda: 0.01)

    def answer(call):
        return Reply("{", 500) if call.prompt == "3" else echo(call)

    with FakeServer(answer, latency=0.002) as server:
        found = ask_all(connect(server, max_concurrency=8), [chat_request(str(i)) for i in range(4000)])
    assert found[3].kind == "unanswered"
    assert found[3].retryable
    assert sum(isinstance(each, Failed) for each in found) == 1
    assert sum(call.prompt == "3" for call in server.calls) == 8


# ---- rows, tokens and cost ----


def test_a_run_that_is_scored_again_shows_the_same_usage(tmp_path):
    with FakeServer(lambda _: chat("x", usage=(10, 1))) as server:
        options = dict(base_url=server.url, model_type="chat", samples=2, length=10)
        result = kshot.evaluate("openai:m", "lookup:UR", out=tmp_path / "run", **options)
    assert result.usage[0]["server"] is True
    assert kshot.score(tmp_path / "run").usage == result.usage


def test_tokens_cost_and_reasoning_are_in_the_files(tmp_path, capsys):
    def answer(call):
        return chat("Paris", usage=(1000, 100), reasoning_content="let me see")

    rows = [{"q": "a", "target": "Paris"}, {"q": "b", "target": "Rome"}, {"q": "a", "target": "Paris"}]
    from tests.datasets.fakes import generation

    with FakeServer(answer) as server:
        options = dict(base_url=server.url, model_type="chat", price_in=2.0, price_out=10.0)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
        again = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    assert len(server.calls) == 2  # equal requests are sent, and paid for, once
    (row,) = json.loads((tmp_path / "run" / "summary.json").read_text())["usage"]
    assert row == {
        "model": "openai:m",
        "role": "model",
        "prompt_tokens": 2000,
        "completion_tokens": 200,
        "server": True,
        "cost_usd": 0.006,
    }
    assert again.usage == result.usage == [row]
    (noted,) = json.loads((tmp_path / "run" / "spec.json").read_text())["models"]
    assert noted["server"] is True
    assert result.samples[0]["reasoning"] == "let me see"
    assert result.samples[0]["response"] == "Paris"


def test_the_answers_of_another_model_are_never_reused(tmp_path):
    from tests.datasets.fakes import generation

    def by_model(call):
        return chat(call.body["model"])

    rows = [{"q": "a", "target": "one"}]
    with FakeServer(by_model) as server, FakeServer(lambda _: chat("other")) as other:
        options = dict(model_type="chat", base_url=server.url)
        kshot.evaluate("openai:one", generation(rows), out=tmp_path / "1", **options)
        two = kshot.evaluate("openai:two", generation(rows), out=tmp_path / "2", reuse=tmp_path / "1", **options)
        options["base_url"] = other.url
        three = kshot.evaluate("openai:one", generation(rows), out=tmp_path / "3", reuse=tmp_path / "1", **options)
    assert [r.samples[0]["response"] for r in (two, three)] == ["two", "other"]

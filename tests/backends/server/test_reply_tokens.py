"""The log-probabilities of tokens that servers give: what is sent, what is read, and what they refuse or get wrong."""

from dataclasses import replace

import pytest

from kshot.backends import open_model
from kshot.backends.server.replies import read_tokens, reply_tokens
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Generate, Generated, Loglik, Message, Prompt
from tests.backends.server.clients import connect
from tests.fake_server import FakeServer, chat, completion, error, expected, with_logprobs
from tests.tiny_models import ask_all

CHAT = Generate(Prompt(messages=(Message("user", "Which?"),)), token_logprobs=True)
TEXT = Generate(Prompt("The sky is"), token_logprobs=True)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def chat_tokens(text, tokens, **message):
    """A chat reply with tokens: (token, log-probability), or with their bytes as a third."""
    reply = chat(text, **message)
    listed = [{"token": t, "logprob": p, **({"bytes": list(more[0])} if more else {})} for t, p, *more in tokens]
    reply["choices"][0]["logprobs"] = {"content": listed}
    return reply


def completion_tokens(text, tokens):
    return completion(text, logprobs={"tokens": [t for t, _ in tokens], "token_logprobs": [p for _, p in tokens]})


def asked(answer, *requests):
    with FakeServer(answer) as server:
        backend = connect(server)
        return ask_all(backend, requests), server, backend


# ---- what is sent ----


def test_both_apis_are_asked_for_log_probabilities_only_with_the_option():
    requests = [each for one in (CHAT, TEXT) for each in (one, replace(one, token_logprobs=False))]

    def answer(call):
        return chat("B") if "messages" in call.body else completion("B")

    found, server, _ = asked(answer, *requests)
    sent = {(call.path.rpartition("/")[2], call.path.count("chat"), call.body.get("logprobs")) for call in server.calls}
    assert sent == {("completions", 1, True), ("completions", 1, None), ("completions", 0, 1), ("completions", 0, None)}
    assert found == [replace(each, token_logprobs=None) for each in found]


@pytest.mark.parametrize("name", ["logprobs", "top_logprobs"])
def test_they_cannot_be_asked_for_past_kshot(name):
    with pytest.raises(UsageError, match=f"cannot set {name}.*--token-logprobs"):
        open_model("openai:m", {"base_url": "http://127.0.0.1:1", "request_option": [f"{name}=true"]})


# ---- what is read ----


def test_the_tokens_of_a_chat_reply():
    (found,), _, _ = asked(lambda _: chat_tokens("Venus!", [("Ven", -0.5), ("us", -0.25), ("!", 0.0005)]), CHAT)
    assert found.token_logprobs == (("Ven", -0.5), ("us", -0.25), ("!", 0.0))


def test_the_tokens_of_a_completion():
    (found,), _, _ = asked(lambda _: completion_tokens(" blue.", [(" blue", -0.5), (".", -1)]), TEXT)
    assert found.token_logprobs == ((" blue", -0.5), (".", -1.0))


def test_the_bytes_of_one_character_stand_together():
    spelled = [("a", -1.0, b"a"), ("\\xe6\\x97", -2.0, b"\xe6\x97"), ("\\xa5", -3.0, b"\xa5")]
    (found,), _, _ = asked(lambda _: chat_tokens("a日", spelled), CHAT)
    assert found.token_logprobs == (("a", -1.0), ("日", -5.0))
    for tokens in ([("bytes:\\xe6\\x97", -2.0), ("bytes:\\xa5", -3.0)], [("<0xE6>", -2.0), ("<0x97><0xA5>", -3.0)]):
        (found,), _, _ = asked(lambda _, tokens=tokens: completion_tokens("日", tokens), TEXT)
        assert found.token_logprobs == (("日", -5.0),)


def test_thoughts_stop_texts_and_the_end_token_are_no_part_of_the_reply():
    tokens = [
        ("<think>", -1.0),
        ("B", -1.5),
        ("</think>", -2.0),
        ("\n", -3.0),
        ("B", -4.0),
        (". ", -5.0),
        ("END", -6.0),
    ]
    text = "".join(token for token, _ in tokens)
    (found,), _, _ = asked(lambda _: chat_tokens(text, [*tokens, ("<|end|>", -7.0)]), replace(CHAT, stop=(" END",)))
    assert (found.text, found.reasoning) == ("B.", "B")
    assert found.token_logprobs == (("B", -4.0), (".", -5.0))
    # thoughts that the server has taken out itself, and a reply without its first space
    (found,), _, _ = asked(lambda _: chat_tokens("B", [("so", -1.0), (" B", -2.0)], reasoning_content="so"), CHAT)
    assert found.token_logprobs == (("B", -2.0),)


@pytest.mark.parametrize(
    "logprobs",
    [
        None, [], 5, {}, {"content": None}, {"content": [5]}, {"content": [{"token": "B"}]},
        {"content": [{"token": 5, "logprob": -1.0}]}, {"content": [{"token": "B", "logprob": "-1"}]},
        {"content": [{"token": "B", "logprob": 2.0}]}, {"content": [{"token": "B", "logprob": -1.0, "bytes": [999]}]},
        {"content": [{"token": "other", "logprob": -1.0}]}, {"content": [{"token": "B", "logprob": float("-inf")}]},
    ],
)  # fmt: skip
def test_tokens_that_cannot_be_read_do_no_harm_to_the_reply(logprobs):
    reply = chat("B")
    reply["choices"][0]["logprobs"] = logprobs
    (found,), server, _ = asked(lambda _: reply, CHAT)
    assert found == Generated("B", usage=found.usage)
    assert len(server.calls) == 1
    assert reply_tokens({"logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1.0]}}, chat=False) == ()


# ---- servers that refuse ----


@pytest.mark.parametrize(
    ("status", "message", "more"),
    [
        (400, "Unsupported parameter", {"param": "logprobs", "code": "unsupported_parameter"}),
        (400, "Logprobs is not enabled for this model.", {}),
        (403, "You are not allowed to request logprobs from this model", {"type": "invalid_request_error"}),
        (422, "logprobs: extra fields not permitted", {}),
        (400, "Bad Request", {}),
    ],
)
def test_a_server_that_refuses_log_probabilities_is_asked_without_them(status, message, more):
    def answer(call):
        return error(status, message, **more) if "logprobs" in call.body else chat("B")

    with FakeServer(answer) as server:
        backend = connect(server, max_concurrency=1)
        found = ask_all(backend, [CHAT, replace(CHAT, replica=1, temperature=1.0)])
    assert [(each.text, each.token_logprobs) for each in found] == [("B", None), ("B", None)]
    assert ["logprobs" in call.body for call in server.calls] == [True, False, False]
    assert backend.notes == ["the server does not accept logprobs: it is left out, and the server's default holds"]


def test_a_refusal_that_has_other_reasons_stays_one_and_the_first_error_is_told():
    def answer(call):
        return error(400, "the prompt is too long" if "logprobs" in call.body else "still too long")

    (found,), server, backend = asked(answer, CHAT)
    assert (found.kind, found.message) == ("http_400", "the server says 400: the prompt is too long")
    assert ["logprobs" in call.body for call in server.calls] == [True, False]
    assert backend.notes == []


def test_a_server_that_gives_log_probabilities_is_never_asked_without_them():
    def answer(call):
        long = "logprobs in a long prompt" in call.body["messages"][0]["content"]
        return error(400, "logprobs in a long prompt: too long") if long else chat_tokens("B", [("B", -1.0)])

    long = replace(CHAT, prompt=Prompt(messages=(Message("user", "logprobs in a long prompt"),)))
    with FakeServer(answer) as server:
        found = ask_all(connect(server, max_concurrency=1), [CHAT, long, replace(CHAT, replica=1, temperature=1.0)])
    assert [getattr(each, "kind", "") for each in found] == ["", "http_400", ""]
    assert found[2].token_logprobs == (("B", -1.0),)
    assert ["logprobs" in call.body for call in server.calls] == [True] * 3


def test_a_wrong_key_is_one_also_where_log_probabilities_are_asked_for():
    with FakeServer(lambda _: error(403, "no logprobs for you")) as server:
        with pytest.raises(BackendError, match="the server says 403: no logprobs for you") as caught:
            ask_all(connect(server, max_concurrency=1), [CHAT, TEXT])
        assert caught.value.hint
        assert ["logprobs" in call.body for call in server.calls] == [True, False]


def test_other_refused_parameters_are_dropped_beside_them():
    def answer(call):
        if "max_tokens" in call.body:
            return error(400, "Unsupported parameter", param="max_tokens", code="unsupported_parameter")
        return error(403, "Forbidden") if "logprobs" in call.body else chat("B")

    (found,), server, _ = asked(answer, CHAT)
    assert found.text == "B"
    assert [sorted({"logprobs", "max_tokens"} & call.body.keys()) for call in server.calls] == [
        ["logprobs", "max_tokens"],
        ["logprobs"],
        [],
    ]


def test_a_key_is_not_spelled_by_tokens(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key-1234")
    tokens = [("sk-secret", -1.0), ("-key-1234", -2.0)]
    with FakeServer(lambda _: chat_tokens("sk-secret-key-1234", tokens)) as server:
        (found,) = ask_all(connect(server, api_key_env="OPENAI_API_KEY"), [CHAT])
    assert "secret" not in str(found)


# ---- measured texts ----


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_the_tokens_of_measured_texts_add_up(api, bos):
    texts = (" red", " dark blue", " green.")
    request = Loglik(Prompt("The sky is"), texts, token_logprobs=True)
    document = Loglik(Prompt(), ("A plain text.",), rolling="none", token_logprobs=True)
    plain = [replace(each, token_logprobs=False) for each in (request, document)]
    found, _, _ = asked(with_logprobs(apis=(api,), bos=bos, eos=bos), request, document, *plain)
    for one, other in zip(found[:2], found[2:], strict=True):
        assert [replace(each, token_logprobs=None) for each in one.likelihoods] == list(other.likelihoods)
    for text, each in zip(texts, found[0].likelihoods, strict=True):
        assert "".join(token for token, _ in each.token_logprobs) == text
        assert sum(value for _, value in each.token_logprobs) == pytest.approx(each.logprob, abs=1e-9)
        assert each.logprob == pytest.approx(expected("The sky is", text, bos=bos)[0])
    assert "".join(token for token, _ in found[1].likelihoods[0].token_logprobs) == " plain text."


def test_a_first_token_is_known_only_if_it_is_listed():
    request = Loglik(CHAT.prompt, (" A", "B", "D"), listed=True, token_logprobs=True)
    (found,), _, _ = asked(with_logprobs(), request)
    assert [each.token_logprobs for each in found.likelihoods] == [((" A", -0.5),), (("B", -1.5),), None]


def test_tokens_that_do_not_add_up_are_those_that_the_server_shows():
    assert read_tokens([" a", "bytes:\\xe6\\x97", "bytes:\\xa5"], [-1.0, -2.0, -3.0], "日") == (("日", -5.0),)
    assert read_tokens(["�", "�"], [-1.0, -2.0], "日") == (("�", -1.0), ("�", -2.0))

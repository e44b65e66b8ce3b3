"""A key goes only to the host that it is for, and no text shows it."""

import asyncio
import base64
import json
import socket
import threading
import traceback
from contextlib import closing, suppress
from urllib.parse import quote

import pytest

from kshot.backends import open_model
from kshot.backends.checking import check_accounts
from kshot.backends.server.anthropic import ANTHROPIC
from kshot.backends.server.connection import shared_rate_limiter
from kshot.backends.server.keys import account_for, model_and_urls, proxy_for
from kshot.backends.server.openai import OPENAI
from kshot.backends.server.rate_limiter import RequestLimits
from kshot.core.errors import BackendError, KshotError, UsageError
from kshot.core.records import Generate, Message, Prompt
from kshot.settings import settings_from
from tests.backends.server.clients import chat_requests, connect
from tests.fake_server import FakeServer, Reply, chat, echo, error
from tests.tiny_models import ask_all

KEY, OTHER = "sk-first-1234567890", "sk-second-0987654321"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FIRST_KEY", KEY)
    monkeypatch.setenv("SECOND_KEY", OTHER)


def headers_of(provider, url, variable=None, *headers):
    account = account_for(provider, url, variable, headers, "here")
    return {name: value.reveal() for name, value in account.headers}


# ---- which key goes where ----


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://api.openai.com:443/v1", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://evilapi.openai.com/v1", False),
        ("https://openai.com/v1", False),
        ("https://api.anthropic.com/v1", False),
        ("http://localhost:8000/v1", False),
        ("https://host/api.openai.com/v1", False),
    ],
)
def test_the_providers_key_goes_to_the_providers_host_alone(url, sent, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert headers_of(OPENAI, url) == ({"Authorization": f"Bearer {KEY}"} if sent else {})
    if sent:
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(BackendError, match="OPENAI_API_KEY is not set"):
            headers_of(OPENAI, url)


def test_a_key_that_is_named_for_a_server_goes_there(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    assert headers_of(OPENAI, "http://localhost/v1", "FIRST_KEY") == {"Authorization": f"Bearer {KEY}"}
    assert headers_of(OPENAI, OPENAI.url, "FIRST_KEY") == {"Authorization": f"Bearer {KEY}"}
    version = {"anthropic-version": "2023-06-01"}
    assert headers_of(ANTHROPIC, "http://localhost/v1", "FIRST_KEY") == version | {"x-api-key": KEY}
    assert headers_of(ANTHROPIC, "http://localhost/v1") == version


@pytest.mark.parametrize("variable", ["sk-first-1234567890", "", "A B", "A=B", "ключ", "$KEY", "1KEY"])
def test_a_key_in_the_place_of_a_variable_is_refused_and_not_shown(variable):
    with pytest.raises(UsageError) as caught:
        headers_of(OPENAI, "http://localhost/v1", variable)
    assert "does not name an environment variable" in str(caught.value)
    assert not variable or variable not in str(caught.value)


def test_a_variable_that_is_not_set_is_named_unless_it_may_be_a_key():
    with pytest.raises(BackendError, match="NO_SUCH_KEY is not set"):
        headers_of(OPENAI, "http://localhost/v1", "NO_SUCH_KEY")
    with pytest.raises(BackendError, match="the variable that --api-key-env names is not set") as caught:
        headers_of(OPENAI, "http://localhost/v1", "abcdef0123456789")
    assert "abcdef" not in str(caught.value)


def test_a_model_with_an_address_of_its_own_gets_no_key_of_another_server():
    with FakeServer(echo) as first, FakeServer(echo) as second:
        run = {"base_url": first.url, "api_key_env": "FIRST_KEY", "header": ("X-Team=a",)}
        url = second.url
        for spec in (f"@{url}", f"@{url.upper()}", f",base_url={url}", f"@{url},api_key_env=SECOND_KEY", ""):
            with closing(open_model(f"openai:m{spec}", run)) as backend:
                ask_all(backend, chat_requests(1))
    sent = [(call.headers.get("authorization"), call.headers.get("x-team")) for call in second.calls]
    assert sent == [(None, None)] * 3 + [(f"Bearer {OTHER}", None)]
    assert [(call.headers["authorization"], call.headers["x-team"]) for call in first.calls] == [(f"Bearer {KEY}", "a")]


def test_an_account_is_shared_with_its_address_or_not_at_all():
    account = {"base_url": ("http://a",), "api_key_env": "FIRST_KEY", "header": ("X-Team=a",)}
    run = settings_from(account | {"request_option": "x=1", "rpm": 5})
    assert run.server_options("judge") == account | {"rpm": 5}
    own = settings_from(account | {"judge_base_url": "http://b"})
    assert own.server_options("judge") == {"base_url": ("http://b",)}
    own = settings_from(account | {"judge_api_key_env": "SECOND_KEY"})
    assert own.server_options("judge") == {"base_url": ("http://a",), "api_key_env": "SECOND_KEY"}
    assert own.server_options("rewriter") == account
    no_address = settings_from({"api_key_env": "FIRST_KEY", "header": ("X-Team=a",)})
    assert no_address.server_options("judge") == {}
    rewriter = settings_from({"rewrite_base_url": "http://b", "rewrite_request_option": "x=1", "rewrite_price_in": 1})
    assert rewriter.server_options("rewriter") == {"base_url": ("http://b",), "request_option": ("x=1",)}
    assert rewriter.server_options("judge") == rewriter.server_options() == {}


def test_an_address_in_a_models_name_leaves_the_account_of_another_address_behind():
    account = {"base_url": ("http://a",), "api_key_env": "FIRST_KEY", "header": ("X-Team=a",)}
    run = settings_from(account | {"judge_api_key_env": "SECOND_KEY", "rpm": 5})
    assert run.server_options("model", own_address=True) == {"rpm": 5}
    assert run.server_options("judge", own_address=True) == {"api_key_env": "SECOND_KEY", "rpm": 5}
    assert run.server_options("rewriter", own_address=True) == {"rpm": 5}
    alone = settings_from({"api_key_env": "FIRST_KEY"})
    assert alone.server_options("model", own_address=True) == {"api_key_env": "FIRST_KEY"}
    assert alone.server_options("judge", own_address=True) == {}


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (["openai:m", "anthropic:c"], {}, "would go to several servers: anthropic, openai"),
        (["openai:m@http://a", "openai:m@http://b"], {}, "would go to several servers: http://a/v1, http://b/v1"),
        (["openai:m@http://a", "openai:m"], {}, "would go to several servers: http://a/v1, openai"),
        (["openai:m@http://a"], {"base_url": "http://b"}, "is for --base-url, and no model is asked there"),
        (["hf:m"], {}, "is for a server, and no model of -m is behind one"),
        (["hf:m"], {"judge": "openai:j@http://a"}, "For a judge use --judge-"),
        (["hf:m"], {"corpus": "fts5"}, "is for a server, and no model of -m is behind one"),
        (["openai:m@http://a,api_key_env=A,header=X=env:A"], {}, "is for a server, and no model of -m is behind one"),
        (["openai:m"], {"base_url": "http://a", "judge": "openai:j@http://b", "judge_base_url": "http://c"}, "has two"),
    ],
)
@pytest.mark.parametrize("account", [{"api_key_env": "FIRST_KEY"}, {"header": ("X-Team=a",)}])
def test_keys_and_headers_that_would_go_to_several_servers_or_to_none(account, models, options, message):
    helpers = {role: options[role] for role in ("judge", "corpus") if role in options}
    options = {name: value for name, value in options.items() if name != "corpus"}
    with pytest.raises(UsageError) as caught:
        check_accounts(models, helpers, settings_from(account | options))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("models", "options"),
    [
        (["openai:m"], {}),
        (["openai:m", "openai:n"], {}),
        (["openai:m@http://a", "openai:n@http://A/v1/"], {}),
        (["openai:m", "anthropic:c", "openai:n@http://b"], {"base_url": "http://a"}),
        (["openai:m", "anthropic:c,api_key_env=SECOND_KEY,header=X=env:A"], {}),
        (["hf:m"], {"base_url": "http://a", "judge": "openai:j"}),
        (["mine.py:Class"], {}),
        (["hybrid:bm25,k1=1+fts5", "openai:m"], {}),
    ],
)
@pytest.mark.parametrize("account", [{"api_key_env": "FIRST_KEY"}, {"header": ("X-Team=a",)}])
def test_keys_and_headers_that_go_to_one_server(account, models, options):
    helpers = {"judge": options["judge"]} if "judge" in options else {}
    check_accounts(models, helpers, settings_from(account | options))


def test_models_at_one_server_share_their_limits_if_they_share_their_account():
    def limiter(**options):
        addresses = open_model("openai:m", {"base_url": "http://a", **options})._addresses
        return shared_rate_limiter(addresses, RequestLimits(rpm=60), "m")

    async def compared():
        first, same, other = limiter(api_key_env="FIRST_KEY"), limiter(api_key_env="FIRST_KEY"), limiter()
        return first is same, first is other

    assert asyncio.run(compared()) == (True, False)


def test_prices_of_each_role():
    settings = settings_from({"price_in": 1, "judge_price_out": 2, "rewrite_price_in": 3})
    found = {role: settings.prices(role) for role in ("model", "judge", "rewriter", "corpus")}
    assert found["model"] == (1, None, None)
    assert found["judge"] == (None, 2, None)
    assert found["rewriter"] == (3, None, None)
    assert found["corpus"] == (None, None, None)


# ---- addresses and proxies ----


@pytest.mark.parametrize(
    "spec",
    ["m@http://user:hunter22@host/v1", "m@https://hunter22@host", "m@http://host/v1?key=hunter22", "m@http://@h"],
)
def test_a_password_in_an_address_is_refused_and_not_shown(spec):
    with pytest.raises(UsageError, match="--base-url") as caught:
        model_and_urls(spec, None, OPENAI.url)
    assert "hunter22" not in str(caught.value)
    for text in (f"openai:{spec}", f"openai:{spec},nonsense=1", f"openai:m,base_url={spec[2:]}"):
        with pytest.raises(KshotError) as caught:
            open_model(text, {})
        assert "hunter22" not in str(caught.value)


def test_only_https_goes_through_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert proxy_for("https://api.openai.com/v1").url == "http://proxy:3128"
    assert proxy_for("https://inside.example/v1") is None
    assert proxy_for("http://api.openai.com/v1") is None


@pytest.mark.parametrize(
    ("given", "url", "login"),
    [
        ("127.0.0.1:9", "http://127.0.0.1:9", None),
        ("proxy", "http://proxy", None),
        (" https://proxy:1/ ", "https://proxy:1", None),
        ("user:pw12345678@127.0.0.1:9", "http://127.0.0.1:9", ("user", "pw12345678")),
        ("http://user:p%40s%2F%C3%A4@[::1]:9", "http://[::1]:9", ("user", "p@s/ä")),
        ("HTTP://token-123456@proxy:9", "http://proxy:9", ("token-123456", "")),
        ("http://a:b@c@proxy:9", "http://proxy:9", ("a", "b@c")),
    ],
)
def test_a_proxy_is_normalised_and_shows_no_password(given, url, login, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", given)
    found = proxy_for("https://api.openai.com/v1")
    encoded = login and base64.b64encode(":".join(login).encode()).decode()
    assert found.url == url
    assert found.headers == ({"Proxy-Authorization": f"Basic {encoded}"} if login else {})
    assert login is None or not any(text and text in repr(found) for text in (login[1], encoded))


@pytest.mark.parametrize(
    "given",
    [
        "http://user:hunter22/x@proxy:9",
        "user:hunter22#x@proxy:9",
        "http://user#hunter22@proxy:9",
        "http://user?hunter22@proxy:9",
        "http://user/hunter22@proxy:9",
        "socks5://user:hunter22@proxy:9",
        "http:/user:hunter22@proxy",
        "//user:hunter22@proxy:9",
        "http://user:hunter22@proxy:port",
        "http://user:hunter22@proxy:99999",
        "http://user:hunter22@[::1",
        "http://user:hunter22@",
        "http://us%3Aer:hunter22@proxy:9",
        "http://user:hunter22@pro xy:9",
        "http://user:hunter22\udcff@proxy:9",
    ],
)
def test_a_malformed_proxy_is_refused_before_anything_is_sent_and_not_shown(given, monkeypatch):
    monkeypatch.setattr("kshot.backends.server.keys.getproxies", lambda: {"https": given})
    with pytest.raises(UsageError, match="HTTPS_PROXY is not the address of an HTTP proxy") as caught:
        proxy_for("https://nowhere.invalid")
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "hunter22" not in shown.split("in proxy_for")[1]
    with pytest.raises(UsageError, match="HTTPS_PROXY is not"):
        open_model("openai:m@https://nowhere.invalid", {"api_key_env": "FIRST_KEY"})


def test_plain_http_goes_past_the_proxy_and_no_netrc_is_read(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password netrc-password\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with FakeServer(echo) as proxy, FakeServer(echo) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        with closing(connect(server, api_key_env="FIRST_KEY")) as backend:
            ask_all(backend, chat_requests(1))
        with closing(connect(server)) as backend:
            ask_all(backend, chat_requests(1))
    assert proxy.calls == []
    assert [call.headers.get("authorization") for call in server.calls] == [f"Bearer {KEY}", None]


LOGIN = base64.b64encode(b"somebody:hunter22").decode()


@pytest.mark.parametrize("scheme", ["http://", ""])
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 407 No\r\n\r\n",
        b"HTTP/1.1 407 hunter22 somebody:hunter22\r\n\r\n",
        f"HTTP/1.1 407 {LOGIN}\r\n\r\n".encode(),
        f"HTTP/1.1 407{LOGIN}\r\n\r\n".encode(),
        b"HTTP/1.1 200 OK\r\n\r\nno TLS",
        b"",
        b"SSH-2.0\r\n",
    ],
)
def test_a_proxy_sees_no_key_and_its_password_is_not_shown(reply, scheme, monkeypatch):
    received = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                received.append(connection.recv(65536))
                connection.sendall(reply)
                received.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}somebody:hunter22@127.0.0.1:{listener.getsockname()[1]}")
        model = open_model(
            "openai:m@https://nowhere.invalid", {"api_key_env": "FIRST_KEY", "patience": 0.1, "timeout": 0.5}
        )
        with closing(model) as backend, pytest.raises(BackendError) as caught:
            ask_all(backend, chat_requests(1))
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)
    assert received[0].startswith(b"CONNECT nowhere.invalid:443")
    assert KEY.encode() not in b"".join(received)
    assert f"Proxy-Authorization: Basic {LOGIN}".encode() in received[0]
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(text in shown for text in ("hunter22", "somebody", LOGIN))


# ---- headers ----


def test_headers(monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "token-1234567")
    sent = headers_of(
        OPENAI, "http://localhost/v1", "FIRST_KEY", "X-Team=a=b", "X-Token=env:TEAM_TOKEN", "User-Agent=me"
    )
    assert sent == {"X-Team": "a=b", "X-Token": "token-1234567", "User-Agent": "me", "Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Authorization: Bearer hunter22", "--header is not NAME=VALUE"),
        ("hunter22", "--header is not NAME=VALUE"),
        ("=hunter22", "--header is not NAME=VALUE"),
        ("X Y=hunter22", "--header is not NAME=VALUE"),
        ("X\r\nEvil: 1=hunter22", "--header is not NAME=VALUE"),
        ("X=hunter22\r\nEvil: 1", "--header X holds characters that no header has"),
        ("X=hunter22\nEvil: 1", "--header X holds characters that no header has"),
        ("X=hunter22\x00", "--header X holds characters that no header has"),
        ("X=hunter22\x85a", "--header X holds characters that no header has"),
        ("X=hunter22é", "--header X holds characters that no header has"),
        ("Content-Length=hunter22", "--header cannot set Content-Length"),
        ("transfer-encoding=hunter22", "--header cannot set transfer-encoding"),
        ("Host=hunter22", "--header cannot set Host"),
        ("X=env:NO_SUCH_VARIABLE", "the variable that --header X names is not set"),
        ("X=env:hunter22 a", "--header X does not name an environment variable"),
        ("X=env:EVIL", "the variable that --header X names holds characters that no key has"),
    ],
)
def test_headers_that_are_refused(header, message, monkeypatch):
    monkeypatch.setenv("EVIL", "hunter22\r\nHost: evil")
    with pytest.raises(KshotError) as caught:
        headers_of(OPENAI, "http://localhost/v1", None, header)
    assert message in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_a_header_twice_or_a_key_twice_is_refused():
    with pytest.raises(UsageError, match="gives x-a twice"):
        headers_of(OPENAI, "http://localhost/v1", None, "X-A=1", "x-a=2")
    with pytest.raises(UsageError, match="both give a key"):
        headers_of(OPENAI, "http://localhost/v1", "FIRST_KEY", "authorization=env:SECOND_KEY")


def test_a_header_with_a_key_stands_in_for_the_providers_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert headers_of(OPENAI, OPENAI.url, None, "Authorization=env:SECOND_KEY") == {"Authorization": OTHER}


def test_a_header_after_a_models_name_comes_from_the_environment():
    with FakeServer(echo) as server:
        text = f"openai:m@{server.url},header=X-A=env:FIRST_KEY+X-B=env:SECOND_KEY"
        with closing(open_model(text, {})) as backend:
            ask_all(backend, chat_requests(1))
    assert (server.calls[0].headers["x-a"], server.calls[0].headers["x-b"]) == (KEY, OTHER)
    for options in ("header=X-A=hunter22", "header=X-A=hunter22,nonsense=1", "header=X=hunter22,header=Y=hunter22"):
        with pytest.raises(UsageError, match=r"because that name is written to disk|is given twice") as caught:
            open_model(f"openai:m@http://a,{options}", {})
        assert "hunter22" not in str(caught.value)


# ---- what is shown ----


@pytest.mark.parametrize(
    ("status", "options", "hint"),
    [
        (401, {}, "No key was sent. Name the environment variable that holds the server's key: --api-key-env VARIABLE"),
        (401, {}, "--judge-api-key-env"),
        (403, {}, "OPENAI_API_KEY goes to api.openai.com alone, unless it is named for another server"),
        (401, {"api_key_env": "FIRST_KEY"}, "Set FIRST_KEY to a key that the server accepts"),
        (401, {"header": ("Authorization=env:FIRST_KEY",)}, "the server does not accept the key in it"),
    ],
)
def test_a_refusal_says_how_to_give_a_key(status, options, hint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    with FakeServer(lambda _: error(status, f"Incorrect API key provided: {KEY}")) as server:
        with closing(connect(server, **options)) as backend, pytest.raises(BackendError) as caught:
            ask_all(backend, chat_requests(1))
        assert all(OTHER not in str(call.headers) for call in server.calls)
    assert hint in str(caught.value)
    assert KEY not in str(caught.value)


def spellings(key):
    yield from (key, quote(key, safe=""), key.encode().hex())
    for text in (key, f"Bearer {key}", f"a:{key}:b", f"ab{key}"):
        yield base64.b64encode(text.encode()).decode()
        yield base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("variable", ["FIRST_KEY", "ODD_KEY"])
def test_whatever_way_a_server_quotes_a_key_it_is_removed(variable, monkeypatch):
    monkeypatch.setenv("ODD_KEY", 'k/+"ey?>~with signs&12')
    key = {"FIRST_KEY": KEY}.get(variable, 'k/+"ey?>~with signs&12')
    texts = list(spellings(key))
    with (
        FakeServer(lambda call: chat(f"<{texts[int(call.prompt)]}>")) as server,
        closing(connect(server, api_key_env=variable)) as backend,
    ):
        found = ask_all(backend, chat_requests(len(texts)))
    for text, answer in zip(texts, found, strict=True):
        assert "…" in answer.text, text
        assert text not in answer.text


def test_a_key_in_parts_is_removed():
    parts = [{"type": "text", "text": text} for text in (KEY[:7], KEY[7:14], KEY[14:])]
    with FakeServer(lambda _: chat(parts)) as server, closing(connect(server, api_key_env="FIRST_KEY")) as backend:
        (found,) = ask_all(backend, chat_requests(1))
    assert found.text == "…"


def test_values_of_headers_are_removed_if_they_are_secret_and_only_then():
    headers = ("X-Team=evaluation-2024", "X-Auth=written-here-1234", "X-Any=env:FIRST_KEY")
    reply = chat(f"evaluation-2024 written-here-1234 {KEY}")
    with FakeServer(lambda _: reply) as server, closing(connect(server, header=headers)) as backend:
        (found,) = ask_all(backend, chat_requests(1))
    assert found.text == "evaluation-2024 … …"


FAULTS = {
    "401": error(401, f"no {KEY}"),
    "redirect": Reply("", 302, {"location": f"http://127.0.0.1:1/?key={KEY}"}),
    "no JSON": Reply(f"<html>{KEY}"),
    "wrong JSON": {"choices": KEY},
    "cut": Reply(chat("x"), cut_after=0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_frame_of_an_error_shows_the_key(fault):
    """Not even a traceback with the values of local variables, and not the errors before it."""
    with (
        FakeServer(lambda _: FAULTS[fault]) as server,
        closing(connect(server, api_key_env="FIRST_KEY", patience=0.1)) as backend,
        pytest.raises(BackendError) as caught,
    ):
        ask_all(backend, chat_requests(1))
    shown, error_ = [], caught.value
    while error_ is not None:
        frames = traceback.TracebackException.from_exception(error_, capture_locals=True)
        shown += ["".join(frames.format()), repr(error_), repr(error_.args), str(vars(error_))]
        error_ = error_.__cause__ or error_.__context__
    own = "".join(shown).split("tests/backends/server/test_keys.py")[-1]  # below the frame that holds FAULTS
    assert "connection.py" in own or "rate_limiter.py" in own
    assert KEY not in own


def test_nothing_of_a_model_shows_the_key():
    backend = open_model("openai:m", {"base_url": "http://a", "api_key_env": "FIRST_KEY"})
    shown = [repr(each) for each in (backend, vars(backend), backend._addresses, backend._addresses[0].account)]
    assert KEY not in "".join(shown)


def test_settings_show_and_record_no_header():
    settings = settings_from({"header": ["X=hunter22"], "judge_header": "Y=hunter22"})
    recorded = json.dumps(settings.recorded()) + json.dumps(settings.identity())
    assert "hunter22" not in repr(settings) + recorded
    with pytest.raises(UsageError) as caught:
        settings_from({"header": {"X": "hunter22"}})
    assert "hunter22" not in str(caught.value)


# ---- request options ----


def bodies(*options, reply=echo, requests=None):
    with FakeServer(reply) as server, closing(connect(server, request_option=options)) as backend:
        ask_all(backend, requests or chat_requests(1))
    return [call.body for call in server.calls]


def test_request_options_are_added_to_every_request():
    given = (
        "reasoning_effort=high",
        "chat_template_kwargs.enable_thinking=false",
        "a.b.c=[1, {}]",
        "v=2024-01",
        'w="1"',
    )
    (body,) = bodies(*given)
    assert {name: body[name] for name in body if name not in ("model", "messages", "max_tokens", "temperature")} == {
        "reasoning_effort": "high",
        "chat_template_kwargs": {"enable_thinking": False},
        "a": {"b": {"c": [1, {}]}},
        "v": "2024-01",
        "w": "1",
    }
    text = Generate(Prompt("x"))
    assert bodies("x=1", requests=[text])[0]["x"] == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("reasoning_effort", "Write KEY=JSON"),
        ("=1", "Write KEY=JSON"),
        ("a..b=1", "Write KEY=JSON"),
        ("a=", "which is not JSON"),
        ('a={"b": 1', "which is not JSON"),
        ("a=NaN", "which is not JSON"),
        ("a=-Infinity", "which is not JSON"),
        ("a=1e999", "which is not JSON"),
        ("a=[1, NaN]", "which is not JSON"),
        ("a=" + "[" * 100_000, "which is not JSON"),
        ("model=x", "kshot sets it itself"),
        ("messages=[]", "kshot sets it itself"),
        ("stream=true", "kshot sets it itself"),
        ("n=2", "kshot sets it itself"),
        ("temperature=1", "Use --temperature"),
        ("max_tokens=1", "Use --max-tokens"),
        ("max_completion_tokens=1", "Use --max-tokens"),
        ("extra_body={}", "Give its keys themselves"),
    ],
)
def test_request_options_that_are_refused(option, message):
    with pytest.raises(UsageError) as caught:
        open_model("openai:m", {"base_url": "http://a", "request_option": (option,)})
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_request_option_twice_is_refused():
    for pair in (("a=1", "a=2"), ("a=1", "a.b=2"), ("a.b=1", "a=2"), ("a.b=1", "a.b=1")):
        with pytest.raises(UsageError, match="twice"):
            open_model("openai:m", {"base_url": "http://a", "request_option": pair})


def test_request_options_are_part_of_what_a_model_is_and_keys_and_headers_are_not():
    def fingerprint(**options):
        return open_model("openai:m", {"base_url": "http://a", **options}).fingerprint

    plain = fingerprint()
    assert plain == "openai:76f1fe7865d4ef237517439a8f65feb6"
    assert fingerprint(api_key_env="FIRST_KEY", header=("X=1",), max_reply="1MB") == plain
    one, other = fingerprint(request_option=("x=1", "y=2")), fingerprint(request_option=("y=2", "x=1"))
    assert one == other != plain
    assert fingerprint(request_option=("x=2",)) != one
    identity = settings_from({"request_option": "x=1", "judge_request_option": "y=1", "header": "X=1"}).identity()
    assert identity == {"request_option": ["x=1"], "judge_request_option": ["y=1"]}


def test_anthropic_takes_them_too():
    message = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    options = {"request_option": ("thinking.type=enabled", "thinking.budget_tokens=1024"), "header": ("X-A=1",)}
    request = Generate(Prompt(messages=(Message("user", "hi"),)))
    with (
        FakeServer(lambda _: message) as server,
        closing(open_model("anthropic:c", {"base_url": server.url, **options})) as backend,
    ):
        ask_all(backend, [request])
    (call,) = server.calls
    assert call.body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert call.headers["x-a"] == "1"
    assert "x-api-key" not in call.headers

"""Who may ask a viewer, and what every answer forbids."""

import pytest

from tests.viewer.asking import PORT

pytestmark = pytest.mark.needs("starlette", "uvicorn")

PATHS = [
    "/",
    "/web/base.js",
    "/api/runs",
    "/api/runs/first",
    "/api/runs/first/samples",
    "/api/compare?a=first&b=second",
]
OWN = f"http://127.0.0.1:{PORT}"


@pytest.mark.parametrize("path", PATHS)
def test_nobody_is_answered_without_the_cookie(ask, path):
    for cookie in (None, f"kshot-{PORT}=", f"kshot-{PORT}={ask.token}x", f"kshot-1={ask.token}", "kshot"):
        answer = ask(path, Cookie=cookie)
        assert answer.status == 403
        assert b"link" in answer.body
        assert b"sums" not in answer.body


def test_the_link_gives_the_cookie_and_leads_to_the_page_without_the_token(ask):
    answer = ask(f"/?token={ask.token}", cookie=False)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"] == f"{ask.cookie}; HttpOnly; SameSite=Strict; Path=/"
    assert ask("/").status == 200


@pytest.mark.parametrize(
    "path", ["/?token=", "/?token=wrong", "/?tok=1", "/web/base.js?token={token}", "/api/runs?token={token}"]
)
def test_a_wrong_token_or_one_elsewhere_is_refused(ask, path):
    assert ask(path.format(token=ask.token), cookie=False).status == 403


def test_a_link_for_the_browser_works_once(runs):
    from kshot.viewer.security import Access

    access = Access()
    once = access.one_use()
    assert [access.admits(once), access.admits(once), access.admits(access.token), access.admits("ü")] == [
        True,
        False,
        True,
        False,
    ]
    assert access.token not in repr(access)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "127.0.0.1:9999"])
def test_names_of_this_machine_are_answered_at_any_port(ask, host):
    assert ask("/api/runs", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "localhost.",
     "127.0.0.2", "0.0.0.0:8765", "[::2]", "127.0.0.1:x", "127.0.0.1, evil.example"],
)  # fmt: skip
def test_a_foreign_host_is_refused_also_with_the_cookie(ask, host):
    answer = ask("/api/runs", Host=host)
    assert answer.status == 421
    assert "runs" not in answer.json()


@pytest.mark.parametrize(
    "hosts", [("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")]
)
def test_two_host_headers_are_refused(ask, hosts):
    assert ask("/api/runs", Host=hosts).status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1", ""]
)
def test_a_foreign_origin_is_refused(ask, origin):
    assert ask("/api/runs", Origin=origin).status == 403


def test_its_own_pages_are_answered(ask):
    assert ask("/api/runs", Origin=OWN, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200
    assert ask("/", Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "what"])
def test_pages_of_other_sites_get_nothing(ask, site):
    for path in PATHS:
        assert ask(path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="script").status == 403
    frame = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
    assert ask(f"/?token={ask.token}", **frame).status == 403


def test_a_link_on_another_page_opens_the_page_if_it_has_the_token(ask):
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert ask("/", cookie=False, **followed).status == 403
    answer = ask(f"/?token={ask.token}", cookie=False, **followed)
    assert answer.status == 200  # a redirection would come without the cookie, which is for this site alone
    assert answer.headers["set-cookie"].startswith(ask.cookie)
    assert ask("/api/runs", **followed).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"])
def test_only_reading_is_possible(ask, method):
    assert ask("/api/runs", method=method).status == 405


def test_head_is_answered(ask):
    answer = ask("/api/runs", method="HEAD")
    assert (answer.status, answer.body[:0]) == (200, b"")


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/api/nothing", "/api/runs/nobody"])
@pytest.mark.parametrize("cookie", [True, False])
def test_every_answer_has_the_headers_that_keep_pages_safe(ask, path, cookie):
    headers = ask(path, cookie=cookie).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_a_long_address_is_refused(ask):
    assert ask("/api/runs?q=" + "x" * 40_000).status == 414


def test_a_websocket_gets_no_answer(ask):
    import asyncio

    async def never(*_):
        pytest.fail("it was answered")

    asyncio.run(ask.app({"type": "websocket", "headers": []}, never, never))

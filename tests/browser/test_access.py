"""Who may read what a viewer shows: real HTTP requests to a real ``kshot view``."""

import http.client
from urllib.parse import urlsplit

import pytest

PATHS = ["/", "/api/runs", "/api/runs/zero", "/api/runs/zero/samples", "/api/runs/zero/samples/0", "/web/base.js"]


@pytest.fixture
def ask(viewer):
    """Ask the viewer for a path, with these headers; it has the token of the link if ``token`` is true."""
    link = urlsplit(viewer)

    def send(path, *, token=False, host=None, method="GET", **headers):
        connection = http.client.HTTPConnection(link.hostname, link.port, timeout=30)
        wanted = {"Host": host or link.netloc, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if token:
            wanted["Cookie"] = send.cookie
        connection.request(method, path, headers=wanted)
        answer = connection.getresponse()
        answer.body = answer.read()
        connection.close()
        return answer

    send.cookie = send(f"/?{link.query}").headers["Set-Cookie"].partition(";")[0]
    return send


@pytest.mark.parametrize("path", PATHS)
def test_no_page_comes_without_the_token(ask, path):
    assert ask(path).status == 403
    assert ask(path, Cookie=f"{ask.cookie}x").status == 403
    assert ask(path, token=True).status == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_or_origin_is_refused(ask, path):
    assert ask(path, token=True, host="evil.example").status == 421
    assert ask(path, token=True, host="127.0.0.1.evil.example:80").status == 421
    assert ask(path, token=True, Origin="http://evil.example").status == 403
    assert ask(path, token=True, Sec_Fetch_Site="cross-site").status == 403


def test_a_wrong_token_in_the_link_is_refused(ask):
    assert ask("/?token=wrong").status == 403
    assert ask("/?token=").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/web/../web_files.py",
        "/web/%2e%2e/markup.py",
        "/api/runs/..%2f..%2fetc/samples",
    ],
)
def test_nothing_but_runs_and_web_files_can_be_read(ask, path):
    answer = ask(path, token=True)
    assert answer.status in {400, 403, 404}
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(ask, method):
    assert ask("/api/runs", token=True, method=method).status == 405


def test_every_answer_forbids_what_a_page_does_not_need(ask):
    for path in PATHS:
        policy = ask(path, token=True).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_the_cookie_is_kept_from_scripts_and_other_sites(ask, viewer):
    header = ask(f"/?{urlsplit(viewer).query}").headers["Set-Cookie"].lower()
    assert "httponly" in header
    assert "samesite=strict" in header

"""Downloads from servers that lie: no end, half of it, redirects elsewhere."""

import contextlib
import http.server
import threading

import pytest

from kshot.core.errors import DataError
from kshot.passages import fetching
from kshot.passages.fetching import _SafeRedirects, local_path, name_in_folder


class Liar(http.server.BaseHTTPRequestHandler):
    """Answers by the path."""

    def do_GET(self):
        where = self.path.removeprefix("/")
        if where.startswith("to="):
            self.send_response(302)
            self.send_header("Location", where.removeprefix("to="))
            self.end_headers()
            return
        self.send_response(200)
        if where == "half.json":
            self.send_header("Content-Length", "1000")
        if where.startswith("listing"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        body = {"half.json": b"[1, 2", "listing/": b"".join(b'<a href="%d.md">' % i for i in range(50))}
        with contextlib.suppress(OSError):  # the client hangs up
            if where != "endless.json":
                self.wfile.write(body.get(where, b"text"))
            while where == "endless.json":
                self.wfile.write(bytes(1 << 16))

    def log_message(self, *_):
        pass


@pytest.fixture
def liar(tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    assert not list((tmp_path / "downloads").iterdir())  # nothing is left behind, neither half nor hidden


def test_a_body_without_end(liar, monkeypatch):
    monkeypatch.setattr(fetching, "MAX_BYTES", 1 << 20)
    with pytest.raises(DataError, match=r"the size is above the limit .* for downloads\. Download it yourself"):
        local_path(f"{liar}/endless.json")


def test_a_body_that_takes_for_ever(liar, monkeypatch):
    monkeypatch.setattr(fetching, "MAX_SECONDS", -1)
    with pytest.raises(DataError, match="the time is above the limit"):
        local_path(f"{liar}/endless.json")


def test_half_a_body(liar):
    with pytest.raises(DataError, match="promised 1000 bytes and sent 5"):
        local_path(f"{liar}/half.json")


def test_too_many_files(liar, monkeypatch):
    monkeypatch.setattr(fetching, "MAX_FILES", 10)
    with pytest.raises(DataError, match="the number of files is above the limit of 10"):
        local_path(f"{liar}/listing/")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://host/x", "data:text/plain,x", "gopher://x", "jar:x"])
def test_a_redirect_to_another_scheme(liar, target):
    with pytest.raises(DataError, match="cannot be fetched"):
        local_path(f"{liar}/to={target}")


def test_a_password_is_not_shown():
    with pytest.raises(DataError, match="a URL with a password is not fetched") as caught:
        local_path("http://me:s3cret@host.example/book.zip")
    assert "s3cret" not in str(caught.value)


def redirected(before, after):
    return _SafeRedirects().redirect_request(fetching.Request(before), None, 302, "Found", {}, after)


def test_a_redirect_loses_neither_tls_nor_the_public_network(monkeypatch):
    addresses = {"public": "93.184.216.34", "other": "8.8.8.8", "home": "192.168.1.1", "own": "127.0.0.1"}
    addresses |= {"cloud": "169.254.169.254", "six": "::ffff:10.0.0.1"}
    monkeypatch.setattr(fetching.socket, "getaddrinfo", lambda host, _: [(0, 0, 0, "", (addresses[host], 0))])
    assert redirected("https://public/a", "https://other/b").full_url == "https://other/b"
    assert redirected("http://public/a", "https://other/b") is not None
    assert redirected("http://own/a", "http://home/b") is not None  # the user named a private server
    for after in ("http://public/b", "https://home/b", "https://own/", "https://cloud/latest", "https://six/"):
        with pytest.raises(OSError, match="not followed"):
            redirected("https://public/a", after)


def test_names_of_files():
    for name in ("../x", "a/b", "a\\b", ".hidden", "", "x\x1b[31m", "\u202ex", "a" * 300):
        assert name_in_folder(name) is None
    for name in ("chapter 1.md", "ünï.json", "日本.txt"):
        assert name_in_folder(name) == name

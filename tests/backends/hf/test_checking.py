"""Names on the hub are checked before any model is opened: the hub is asked, and answers or refuses."""

import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.commands import CAPITALS

pytest.importorskip("huggingface_hub", reason="kshot[hf] is not installed")

MODELS = {
    "/org/typo/": (404, "RepoNotFound", "it has no such model, or it is private"),
    "/org/private/": (401, "", ""),  # what it says depends on the address of the hub
    "/org/gated/": (403, "GatedRepo", "it is gated"),
    "/org/blocked/": (403, "", "HTTP 403"),
    "/org/empty/": (404, "EntryNotFound", "the model has no config.json"),
    "/org/old/": (404, "RevisionNotFound", "the model has no revision v9"),
    "/org/broken/": (503, "", None),
    "/org/there/": (200, "", None),
}
OPENED = """
from pathlib import Path
from kshot.core.records import Generate, Generated
class Echo:
    name = fingerprint = "echo"
    answers = (Generate,)
    def __init__(self):
        Path("opened").touch()
    def serve(self, waiting):
        for request in waiting:
            yield request, Generated("Paris")
"""
CHECK = """
import sys
from kshot.backends.hf.loading import check_model
from kshot.core.errors import BackendError
for name in sys.argv[1:]:
    try:
        check_model(name, **({"revision": "v9"} if name == "org/old" else {}))
        print(name, "taken", sep="|")
    except BackendError as exc:
        print(name, exc, sep="|")
assert "torch" not in sys.modules
"""


@pytest.fixture
def hub():
    """A hub that answers as ``MODELS`` says; ``asked`` lists the requests."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            found = next((answer for start, answer in MODELS.items() if self.path.startswith(start)), (404, "", ""))
            self.send_response(found[0])
            if found[1]:
                self.send_header("X-Error-Code", found[1])
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def python(folder, endpoint, *arguments):
    """Run a new process: the library reads the hub's address when it is imported."""
    removed = {"HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HF_TOKEN"}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    env = {**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=150
    )


def test_what_the_hub_says_of_a_name(tmp_path, hub):
    endpoint, asked = hub
    done = python(tmp_path, endpoint, "-c", CHECK, *(name.strip("/") for name in MODELS))
    assert done.returncode == 0, done.stderr
    found = dict(line.split("|", 1) for line in done.stdout.splitlines())
    for name, (_, _, reason) in MODELS.items():
        message = found[name.strip("/")]
        if reason is None:
            assert message == "taken"
        else:
            assert f"the Hugging Face hub does not give it ({reason}" in message
            assert "Check the name" in message
    assert len(asked) == len(MODELS)  # each once, and nothing is tried again
    assert all("/resolve/" in path and path.endswith("/config.json") for path in asked)


def test_a_hub_that_does_not_answer_is_left_for_later(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = python(tmp_path, closed, "-c", CHECK, "org/typo")
    assert done.stdout == "org/typo|taken\n", done.stderr


def test_no_model_is_opened_before_all_names_are_checked(tmp_path, hub):
    (tmp_path / "echo.py").write_text(OPENED)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    models = ("-m", "echo.py:Echo", "-m", "hf:org/typo")
    done = python(tmp_path, hub[0], "-m", "kshot", "run", "-d", "capitals.py:Capitals", *models, "--out", "run")
    assert done.returncode == 2, done.stderr
    assert "org/typo: there is no such folder, and the Hugging Face hub does not give it" in done.stderr
    assert not (tmp_path / "opened").exists()

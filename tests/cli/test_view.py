"""``kshot view`` as a user has it: a link, a page for who has it, Ctrl-C, and messages where something is wrong."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.finished_runs import finished, task
from tests.lacking import lack
from tests.viewer.conftest import items

SERVED = pytest.mark.needs("starlette", "uvicorn")
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one run."""
    folder = tmp_path_factory.mktemp("viewed") / "runs"
    finished(folder / "first", task("sums", items([100, 0])))
    return folder


DEFAULT_SIGNALS = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
COMMAND = "from kshot.__main__ import command; sys.exit(command())"


@contextmanager
def viewing(*arguments, cwd=None, **environment):
    """A real process; yield it and the line that it prints first."""
    command = [sys.executable, "-c", DEFAULT_SIGNALS + COMMAND, "view", *map(str, arguments)]
    known = {name: value for name, value in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}}
    with subprocess.Popen(
        command, cwd=cwd, env={**known, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def asked(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@SERVED
@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_it_prints_a_link_serves_who_has_it_and_ends_on_a_signal(runs, number, word, default_signals):
    with viewing(runs, "--no-browser", "--port", "0") as (process, line):
        found = LINK.match(line)
        assert line == f"{found[0]}  (1 run in {runs}; Ctrl-C ends it)\n"
        port, token = int(found[1]), found[2]
        refused, body = asked(port, "/")
        assert (refused.status, b"link that kshot view printed" in body) == (403, True)
        assert asked(port, "/", Host="evil.example")[0].status == 421
        opened, _ = asked(port, f"/?token={token}")
        cookie = opened.headers["Set-Cookie"].partition(";")[0]
        assert opened.status == 303
        page, body = asked(port, "/", Cookie=cookie)
        assert (page.status, b'data-source="server"' in body) == (200, True)
        assert asked(port, "/api/runs", Cookie=cookie)[0].status == 200
        assert "Server" not in page.headers
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stderr.read() == f"\nkshot: {word}\n"
        assert process.stdout.read() == ""


@SERVED
@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_it_listens_on_this_machine_alone(runs):
    with viewing(runs, "--no-browser", "--port", "0") as (process, line):
        port = int(LINK.match(line)[1])
        listening = Path(f"/proc/{process.pid}/net/tcp")
        if not listening.exists():
            pytest.skip("there is no /proc")
        wanted = f":{port:04X}"
        places = [row.split()[1] for row in listening.read_text().splitlines()[1:] if row.split()[3] == "0A"]
        assert [place for place in places if place.endswith(wanted)] == [f"0100007F{wanted}"]


@SERVED
def test_without_a_screen_it_says_how_to_reach_it(tmp_path):
    with viewing("--port", "0", cwd=tmp_path, SSH_CONNECTION="a b c d") as (process, line):
        port = LINK.match(line)[1]
        assert line.endswith("(no runs in runs yet; Ctrl-C ends it)\n")
        said = process.stderr.readline()
        assert said.startswith("kshot: no browser was opened (this is an SSH session)")
        assert f"ssh -L {port}:127.0.0.1:{port}" in said


@pytest.fixture
def served(monkeypatch):
    """The command ends where it would begin to serve; the viewers are noted."""
    from kshot.viewer import serving

    found = []
    monkeypatch.setattr(serving.Viewer, "serve", lambda self: found.append(self) or self.close())
    for name in ("SSH_CONNECTION", "SSH_TTY", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return found


@SERVED
def test_a_browser_is_opened_with_a_link_that_works_once(runs, served, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":0")
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda link: opened.append(link) or True)
    done = kshot(capsys, "view", runs)
    assert (done.code, done.err) == (0, "")
    (viewer,) = served
    ((port, token),) = LINK.findall(opened[0])
    assert int(port) == viewer.port
    assert token not in done.out
    assert [viewer._access.admits(token), viewer._access.admits(token)] == [True, False]


@SERVED
@pytest.mark.parametrize("fault", [lambda _: False, lambda _: (_ for _ in ()).throw(webbrowser.Error("none"))])
def test_a_machine_without_a_browser_is_no_error(runs, served, monkeypatch, capsys, fault):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", fault)
    done = kshot(capsys, "view", runs)
    assert done.code == 0
    assert done.err.startswith("kshot: no browser was opened (none was found): open the link")


@SERVED
def test_no_browser_is_opened_if_nobody_wants_one(runs, served, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("it was opened"))
    done = kshot(capsys, "view", runs, "--no-browser")
    assert (done.code, done.err) == (0, "")


@SERVED
def test_a_port_that_is_in_use_is_told_and_the_next_one_is_taken(runs, served, capsys, monkeypatch):
    from kshot.viewer import serving

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = kshot(capsys, "view", runs, "--no-browser", "--port", port)
        assert done.code == 2
        assert done.err.startswith(f"kshot: port {port} is in use. ")
        monkeypatch.setattr(serving, "USUAL_PORT", port)
        assert kshot(capsys, "view", runs, "--no-browser").code == 0
        assert served[0].port != port


@SERVED
@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_does_not_exist_is_told(runs, served, capsys, port):
    done = kshot(capsys, "view", runs, "--port", port)
    assert (done.code, done.err) == (2, f"kshot: --port is {port}; it must be between 0 (any) and 65535\n")


@pytest.mark.parametrize("name", ["nowhere", ""])
def test_a_folder_that_does_not_exist_is_told(runs, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    done = kshot(capsys, "view", runs, name)
    assert done.code == 2
    assert ("there is no such folder" if name else "the name of the folder is empty") in done.err
    assert done.out == ""


def test_missing_packages_name_the_command_that_installs_them(runs, monkeypatch, capsys):
    lack(monkeypatch, "starlette", "uvicorn")
    done = kshot(capsys, "view", runs)
    assert done.code == 2
    assert "kshot view needs the packages 'starlette' and 'uvicorn'" in done.err
    assert "pip install 'kshot[view]'" in done.err


def test_files_need_no_server(runs, tmp_path, monkeypatch, capsys):
    lack(monkeypatch, "starlette", "uvicorn")
    done = kshot(capsys, "view", runs, "--static", tmp_path / "site")
    assert done.code == 0
    assert re.fullmatch(re.escape(f"{tmp_path / 'site'}: ") + r"\d+ files, \d+\.\d MB\n", done.out)
    assert done.err == "kshot: 1 of 1 runs: first\n"
    assert (tmp_path / "site" / "index.html").is_file()


def test_files_are_not_served(runs, tmp_path, capsys):
    done = kshot(capsys, "view", runs, "--static", tmp_path / "site", "--port", "1")
    assert done.code == 2
    assert "--static serves nothing" in done.err
    assert not (tmp_path / "site").exists()


def test_the_help_shows_the_command(capsys):
    assert "look at runs in the browser" in re.sub(r"\s+", " ", kshot(capsys, "--help").out)

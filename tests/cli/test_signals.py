"""Ctrl-C, SIGTERM and SIGHUP at named points of a command: one message, the right exit code, and nothing lost.

The command stops at a point and says so; only then the signal is sent, so it falls where it should, however busy the
machine is. Each process starts with the default handlers, also where the suite was started with SIGINT ignored.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cases import some
from tests.commands import CAPITALS, kshot
from tests.fake_server import FakeServer, completion

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Windows has other signals"),
    pytest.mark.usefixtures("default_signals"),
]

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
CONTINUES = "; the same command continues from here"

DRIVER = '''
"""Runs the command as the installed script does, and waits at a point until a signal comes."""
import atexit, os, signal, sys, time

for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # whatever the parent does with them
    ignored = name in os.environ.get("IGNORED", "")
    signal.signal(getattr(signal, name), signal.SIG_IGN if ignored else signal.SIG_DFL)

point, left = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]


def wait(name):
    """Say where the command is, and wait."""
    os.write(2, f"AT {name}\\n".encode())
    while True:
        time.sleep(60)


class Finder:
    """Waits where a module is about to be imported."""

    def find_spec(self, name, *rest):
        if f"import {name}" == point:
            sys.meta_path.remove(self)
            wait(point)


def show_handlers():
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        os.write(2, f"{name} {signal.getsignal(getattr(signal, name))!r}\\n".encode())


if point == "last":
    atexit.register(show_handlers)

from kshot.__main__ import command
from kshot.core import kill_points


def reached(name, last):
    global left
    if (point, name) == ("exit", "summary.replaced"):
        atexit.register(wait, point)
    left -= name == point
    if name == point and not left:
        wait(point)


kill_points.watch(reached)
sys.meta_path.insert(0, Finder())
sys.exit(command())
'''

MODEL = '''
import os, time
from kshot import Generate, Generated

class Slow:
    """Answers at once; where the variable asks for it, it takes its time to end."""
    name = fingerprint = "slow"
    answers = (Generate,)

    def serve(self, queue):
        try:
            for request in queue:
                yield request, Generated("Paris")
        finally:
            while os.environ.get("SLOW_END"):
                os.write(2, b"AT the end of the model\\n")
                time.sleep(60)

class Swallows(Slow):
    """Turns a signal into another error, as libraries in C do."""
    def serve(self, queue):
        for request in queue:
            try:
                os.write(2, b"AT the model\\n")
                time.sleep(60)
            except BaseException:
                raise RuntimeError("the library could not be imported")

class Collected(Slow):
    """Is told where Python drops exceptions."""
    def serve(self, queue):
        for request in queue:
            Dropped()
            while True:
                time.sleep(60)

class Dropped:
    def __del__(self):
        os.write(2, b"AT the destructor\\n")
        time.sleep(60)
'''

RUN = ("run", "-m", "slow.py:Slow", "-d", "capitals.py:Cities", "--out", "out")


@pytest.fixture
def folder(tmp_path):
    for name, code in (("driver", DRIVER), ("slow", MODEL), ("capitals", CAPITALS)):
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path


class Command:
    """A command that waits at a point."""

    def __init__(self, folder, point, *arguments, times=1, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "driver.py", point, str(times), *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        self.seen = []

    def until(self, point):
        """Wait until the command is at a point."""
        for line in self.process.stderr:
            if line == f"AT {point}\n":
                return self
            self.seen.append(line)
        raise AssertionError(f"the command did not come to {point}: {''.join(self.seen)}")

    def send(self, number):
        self.process.send_signal(number)
        return self

    def end(self):
        """Return the exit code and what was said, but for the empty line after ^C."""
        out, err = self.process.communicate(timeout=300)
        said = [line for line in (*self.seen, *err.splitlines(keepends=True)) if line.strip()]
        return self.process.returncode, "".join(said), out


@pytest.mark.parametrize(
    ("number", "point"),
    [
        (signal.SIGINT, "import kshot.cli"),
        (signal.SIGTERM, "import kshot.cli.parser"),
        (signal.SIGTERM, "run.model_opened"),
        (signal.SIGINT, "journal.written"),
        (signal.SIGTERM, "journal.before_write"),
        (signal.SIGHUP, "samples.written"),
        (signal.SIGTERM, "summary.synced"),
        (signal.SIGTERM, "summary.replaced"),
    ],
)
def test_one_message_at_any_point_and_the_same_command_goes_on(folder, number, point, capsys, monkeypatch):
    code, said, _ = Command(folder, point, *RUN, times=1).until(point).send(number).end()
    began = not point.startswith("import kshot.cli")
    assert said == f"kshot: {WORDS[number]}{CONTINUES if began else ''}\n"
    assert code == 128 + number
    assert not list(folder.rglob("*.draft"))
    if not began:
        return
    monkeypatch.chdir(folder)
    done = kshot(capsys, *RUN)
    assert (done.code, done.err) == (0, "")


def test_a_second_signal_leaves_at_once(folder):
    command = Command(folder, "journal.written", *RUN, SLOW_END="yes").until("journal.written").send(signal.SIGINT)
    code, said, _ = command.until("the end of the model").send(signal.SIGTERM).end()
    assert (code, said) == (143, "kshot: terminated again; it leaves at once\n")


def test_a_signal_after_the_results_keeps_them_and_the_exit_code(folder):
    code, said, out = Command(folder, "exit", *RUN).until("exit").send(signal.SIGINT).end()
    assert (code, said) == (0, "")
    assert "run folder: out" in out


def test_signals_are_ignored_in_the_last_steps_of_the_interpreter(folder):
    """There Python sets the default, by which a late Ctrl-C would end the process with exit code -2."""
    code, said, _ = Command(folder, "last", *RUN).end()
    assert (code, said) == (0, f"SIGINT {signal.SIG_IGN!r}\nSIGTERM {signal.SIG_IGN!r}\nSIGHUP {signal.SIG_IGN!r}\n")


@pytest.mark.parametrize(
    ("model", "point"), [("Swallows", "the model"), ("Collected", "the destructor")], ids=["in an error", "dropped"]
)
def test_a_signal_that_code_swallows_still_ends_the_command(folder, model, point):
    run = [part.replace("Slow", model) for part in RUN]
    code, said, _ = Command(folder, "", *run).until(point).send(signal.SIGTERM).end()
    assert (code, said) == (143, f"kshot: terminated{CONTINUES}\n")


def test_signals_that_the_parent_ignores_stay_ignored(folder):
    """``nohup`` and background jobs of scripts rely on it."""
    command = Command(folder, "journal.written", *RUN, IGNORED="SIGINT SIGHUP").until("journal.written")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        command.send(number)
    code, said, _ = command.end()
    assert (code, said) == (143, f"kshot: terminated{CONTINUES}\n")


def test_other_commands_do_not_promise_to_continue(folder):
    (folder / "stuck.py").write_text(
        CAPITALS + '\n__import__("os").write(2, b"AT the file\\n")\n__import__("time").sleep(60)\n'
    )
    command = Command(folder, "", "preview", "-d", "stuck.py:Cities").until("the file").send(signal.SIGINT)
    assert command.end()[:2] == (130, "kshot: interrupted\n")


def test_a_signal_while_a_server_is_asked(folder):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: kshot[api]")
    from tests.fake_server import FakeServer, echo

    started = []

    def answer(call):
        if call.number == 2:
            started[0].send(signal.SIGTERM)
        return echo(call)

    with FakeServer(answer) as server:
        run = ["run", "-m", "openai:m", "--base-url", server.url, "--model-type", "chat", "--max-concurrency", "1"]
        started.append(Command(folder, "", *run, "-d", "capitals.py:Cities", "--out", "out"))
        code, said, _ = started[0].end()
    assert (code, said) == (143, f"kshot: terminated{CONTINUES}\n")


@pytest.mark.needs("aiohttp")
@pytest.mark.parametrize("number", some(WORDS, 1))
def test_only_requests_that_were_sent_count(folder, number):
    """Workers hold requests that wait for their turn. A signal gives those back, and what was under way has its cost."""

    async def never():
        await asyncio.sleep(3600)

    priced = ("--price-in", "10", "--price-out", "50")  # of 10 tokens read and 2 written: 0.0002 USD
    with FakeServer(lambda call: completion(" Paris") if call.number < 4 else never()) as server:
        asked = ("run", "-m", "openai:m", "--base-url", server.url, "-d", "capitals.py:Cities", "--out", "out", *priced)
        command = Command(
            folder, "", *asked, "--dataset-path", "40", "--max-concurrency", "4", "--max-requests", "50"
        )  # fmt: skip
        journal = folder / "out" / "journal.jsonl"
        while len(server.calls) < 8 or journal.read_text().count("\n") < 4:
            time.sleep(0.01)
        assert command.send(number).end()[0] == 128 + number
        spent = json.loads((folder / "out" / "spec.json").read_text())["spent"]["model"]
        assert spent | {"requests": 8, "answered": 4, "failed": 0, "unanswered": 4} == spent
        assert len(server.calls) == 8
        server.answer = lambda call: completion(" Paris")
        # 8 of the 10 that the limit pays for were sent.
        done = Command(folder, "", *asked, "--dataset-path", "40", "--max-cost", "0.002").end()
        assert (done[0], len(server.calls)) == (4, 10), done
        done = Command(folder, "", *asked, "--dataset-path", "40", "--max-requests", "50").end()
        assert (done[0], len(server.calls)) == (0, 44), done

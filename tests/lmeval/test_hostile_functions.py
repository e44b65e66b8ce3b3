"""Task files whose functions break out, hang or flood: they are contained, and one message says what happened."""

import contextlib
import os
import re
import socket
import sys

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.lmeval.functions import Functions
from kshot.sandbox.guest import GuestFault
from tests.lmeval.tasks import ref, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement of functions is Linux's")

REFUSED = r"Permission|not permitted|No such file|Operation|unreachable|refused|denied|Errno"
UTILS = """
    import os, socket, subprocess, sys

    def connect(port):
        socket.create_connection(("127.0.0.1", port), timeout=5)

    def read(path):
        return open(path).read()

    def write(path):
        open(path, "w").write("x")

    def start(program):
        return subprocess.run([program], capture_output=True).returncode

    def variables(name):
        return os.environ.get(name)

    def modules(name):
        return [each for each in sys.modules if each.startswith(name)]

    def hang(_):
        while True:
            pass

    def flood(_):
        return "x" * (65 << 20)

    def deep(_):
        found = []
        for _ in range(100_000):
            found = [found]
        return found

    def swallow(_):
        return len(bytearray(1 << 40))

    def leave(_):
        os._exit(0)

    def end(_):
        os.kill(os.getppid(), 9)

    def forge(_):
        for number in range(3, 64):
            try:
                os.write(number, b'{"id": 1, "result": [{"value": [{"value": "forged"}]}]}\\n')
            except OSError:
                pass
        return "told"

    class Endless(dict):
        def items(self):
            while True:
                yield "a", 1

    def endless(_):
        return Endless(a=1)

    def forever(_):
        while True:
            yield 1

    def fine(text):
        return text + "!"
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write(tmp_path_factory.mktemp("hostile"), utils_py=UTILS)


@pytest.fixture(scope="module")
def functions(tree):
    worker = Functions(tree, call_seconds=300)
    yield worker
    worker.close()


def call(functions, name, argument=None):
    (found,) = functions.each(ref(functions.tree, name), [(argument,)])
    return found


def test_sockets_are_refused(functions):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        with pytest.raises(DataError, match=REFUSED):
            call(functions, "connect", server.getsockname()[1])
        with pytest.raises(TimeoutError):
            server.accept()


def test_files_of_the_user_are_not_there(functions, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("private")
    for path in (secret, "/etc/passwd"):
        with pytest.raises(DataError, match=REFUSED):
            call(functions, "read", str(path))
    assert "def connect" in call(functions, "read", str(functions.tree / "utils.py"))
    for path in (secret, functions.tree / "utils.py"):
        with pytest.raises(DataError, match=f"{REFUSED}|Read-only"):
            call(functions, "write", str(path))
    assert secret.read_text() == "private"


def test_no_process_no_variable_no_module_of_kshot(functions, monkeypatch):
    with pytest.raises(DataError, match=REFUSED):
        call(functions, "start", "/bin/true")
    monkeypatch.setenv("OPENAI_API_KEY", "private")
    fresh = Functions(functions.tree)
    try:
        assert call(fresh, "variables", "OPENAI_API_KEY") is None
    finally:
        fresh.close()
    assert call(functions, "modules", "kshot") == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flood", "MB of data|memory|NoAnswer"),
        ("deep", "nested more than|RecursionError"),
        ("swallow", "memory"),
        ("leave", "its process ended before it was done"),
        ("forge", "cannot be read|told"),
    ],
)
def test_floods_and_ends_are_told_and_the_next_call_works(functions, name, expected):
    try:
        assert call(functions, name) == "told"
    except DataError as told:
        assert re.search(expected, str(told)), told
    assert call(functions, "fine", "owl") == "owl!"


@pytest.mark.parametrize("name", ["hang", "endless"])
def test_what_does_not_end_is_ended(tree, name):
    worker = Functions(tree)
    worker.find(ref(tree, name))  # it is loaded without haste
    worker.guest.call_seconds = 0.3
    try:
        with pytest.raises(GuestFault, match=r"did not end within 0\.3 s|memory") as caught:
            call(worker, name)
        assert "task.yaml:3:1" in str(caught.value)
    finally:
        worker.close()


def test_a_process_outside_cannot_be_ended(functions):
    with contextlib.suppress(DataError):
        call(functions, "end")
    assert os.getpid() > 0
    assert call(functions, "fine", "owl") == "owl!"


def test_a_module_that_does_harm_when_it_is_loaded(tmp_path):
    write(
        tmp_path,
        utils_py=f"""
        from pathlib import Path
        Path({str(tmp_path / "made")!r}).write_text("x")

        def text(doc):
            return "fine"
        """,
        task_yaml="task: x\ntest_split: test\ndoc_to_text: !function utils.text\ndoc_to_target: a\n",
    )
    with kshot.lmeval.load(tmp_path / "task.yaml") as task, pytest.raises(DataError, match=REFUSED + "|Read-only"):
        task.requests({"test": [{"a": "x"}]})
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("named", ["{outside}/settings.KEY", "linked.KEY", "folder.settings.KEY"])
def test_a_module_outside_the_tree_is_refused_with_all_that_lies_beside_it(tmp_path, named):
    outside = write(tmp_path / "project", settings_py="KEY = 'private'\n")
    tree = write(tmp_path / "tree", utils_py="def fine(doc): return 'x'\n")
    (tree / "linked.py").symlink_to(outside / "settings.py")
    (tree / "folder").symlink_to(outside)
    text = f"task: x\ntest_split: test\ndoc_to_text: !function {named.format(outside=outside)}\ndoc_to_target: a\n"
    (tree / "task.yaml").write_text(text)
    with pytest.raises(DataError, match=r"task\.yaml:3:14: !function .* outside the tree of the task"):
        kshot.lmeval.load(tree / "task.yaml").requests({"test": [{"a": "x"}]})


@pytest.mark.parametrize(
    ("key", "value"), [("include", '"a\\0b"'), ("include", "a" * 5000), ("doc_to_text", '!function "a\\0b.c"')]
)
def test_names_that_are_no_path(tmp_path, key, value):
    write(tmp_path, task_yaml=f"task: x\ntest_split: test\ndoc_to_target: a\n{key}: {value}\n")
    with pytest.raises(DataError, match=r"task\.yaml:4:\d+: .*no (path of a )?file"):
        kshot.lmeval.load(tmp_path / "task.yaml")


def test_what_yields_without_end_is_told_at_once(functions):
    with pytest.raises(DataError, match="yields more than 1,000,000 values"):
        call(functions, "forever")

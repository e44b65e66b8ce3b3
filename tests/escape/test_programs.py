"""Programs that attack the sandbox, judged by what they achieve: nothing is passed, read, changed or left behind."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from kshot.sandbox import process, program as sandbox
from tests.escape.program_attacks import ATTACKS, FOOLED_TESTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are confined on Linux alone")

STYLES = (
    *("solve(lambda x: x) == K", "solve(1) == K", "K == solve(1)", "not solve(1) != K", "abs(solve(1) - K) < 1"),
    *("K in solve(1)", "math.isclose(solve(1), K)", "operator.eq(solve(1), K)", "str(solve(1)) == str(K)"),
    *("solve(1) in (K, K)", "solve(1) in {K}", "{K: True}.get(solve(1))", "[solve(1)] == [K]", "(solve(1),) == (K,)"),
    *("isinstance(solve(1), int) and solve(1) == K", "sorted([solve(1)]) == [K]", "sum([solve(1)]) == K"),
    *("round(solve(1)) == K", "int(solve(1)) == K", "solve(1) <= K <= solve(1)", "solve(1) ^ K == 0"),
    *("copy.deepcopy(solve(1)) == K", "solve(1).value == K", "solve([1]) == K", "next(iter(solve(1))) == K"),
    *("solve(1)[0] == K", "max(solve(1), K) == min(solve(1), K)", "solve(1)(K) == K", "repr(solve(1)) == repr(K)"),
)
TESTS = "import copy, math, operator\nK = @SECRET@\nhits = []\n" + "".join(
    f"try:\n    hits.append(bool({style}) and {style!r})\nexcept Exception: pass\n" for style in STYLES
)
TESTS += "assert any(hits), 'not fooled'\n"
SECONDS = 1.0

MODES = {"bwrap": sandbox.LAYERS, "namespaces": sandbox.LAYERS, "neither": ("landlock", "seccomp")}
"""What a system may lend: bwrap; namespaces; neither, as in many containers, and no audit hook to help."""
ENOUGH, NEWEST = 3, 7
"""Versions of Landlock: the first that does without namespaces, and the last; 0 is a kernel that has none."""
EVERYWHERE = "KSHOT_ESCAPE" in os.environ  # make escape
WAYS = [(mode, abi) for mode in MODES for abi in range(NEWEST + 1)] if EVERYWHERE else [("neither", ENOUGH)]
REACHING = [name for name in ATTACKS if EVERYWHERE or not name.startswith("forges")]
AN_ORDINARY_USER = 65534
NO_BWRAP = "there is no bwrap here, or it does not work"
ENDLESS_THREADS = ATTACKS["leaves something: threads without end"]


class Surroundings:
    """What is around a program: a canary, a folder, servers, and the names of all of them."""

    def __init__(self, folder):
        self.secret = secrets.randbits(80) | (1 << 79)
        self.canary = f"canary-{secrets.token_hex(8)}"
        self.mark = f"mark{secrets.token_hex(4)}"
        self.folder = folder / "outside"
        self.folder.mkdir()
        (self.folder / "canary").write_text(self.canary)
        (self.folder / "canary_module.py").write_text(f"text = {self.canary!r}")
        self.servers = [
            socket.create_server(("127.0.0.1", 0)),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
        ]
        self.datagrams = [
            socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, *[socket.AF_UNIX] * 2)
        ]
        for server, name in zip(
            self.datagrams, (self.servers[0].getsockname(), str(folder / "sd"), f"\0{self.mark}d"), strict=True
        ):
            server.bind(name)
        self.servers[1].bind(str(folder / "s"))
        self.servers[2].bind(f"\0{self.mark}")
        for server in (*self.servers, *self.datagrams):
            server.settimeout(0)
            if server in self.servers:
                server.listen()
        self.names = {
            "CANARY": self.folder / "canary",
            "CANARYTEXT": self.canary,
            "OUTSIDE": self.folder,
            "MARK": self.mark,
            "PORT": self.servers[0].getsockname()[1],
            "SOCKET": folder / "s",
            "ABSTRACT": self.mark,
            "PID": os.getpid(),
            "HOME": folder,
        }
        self.before = self.state()

    def state(self):
        """Return everything about the folder that an attack may change."""
        return {
            path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns, path.stat().st_nlink)
            for path in self.folder.iterdir()
        }

    def written(self, program):
        for name, value in self.names.items():
            program = program.replace(f"@{name}@", str(value))
        return program

    def connected(self):
        for reached in (
            *(server.accept for server in self.servers),
            *(partial(each.recv, 9) for each in self.datagrams),
        ):
            with suppress(BlockingIOError):
                reached()
                return True
        return False

    def left(self, sandboxes):
        """Return what is left behind: files, folders and processes."""
        places = (
            Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev", sandboxes, sandboxes.parent)
        )
        files = [path for place in places for path in (place / self.mark,) if path.exists()]
        return [*files, *sandboxes.iterdir(), *processes(self.mark, str(sandboxes))]

    def close(self):
        for server in (*self.servers, *self.datagrams):
            server.close()


def processes(mark, sandboxes):
    """Return the processes that have a name, or whose environment names a folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "comm").read_text(), (folder / "environ").read_text("utf-8", "replace")
        except OSError:  # it ended, or belongs to another user
            continue
        if mark in command or (sandboxes in environment and folder.name != str(os.getpid())):
            found.append(f"{folder.name} {command}")
    return found


@pytest.fixture
def sandboxes(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("sandboxes")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 60.0)  # a busy machine may take long to start a process
    return folder


@pytest.fixture
def around(tmp_path, sandboxes, monkeypatch):
    surroundings = Surroundings(tmp_path)
    monkeypatch.setenv("KSHOT_SECRET", surroundings.canary)
    yield surroundings
    surroundings.close()


@pytest.fixture(scope="module", autouse=True)
def confined():
    """Where the system cannot confine programs, kshot runs none: there is nothing to attack."""
    try:
        sandbox.run("", timeout=60)
    except sandbox.UsageError as error:
        pytest.skip(str(error))


def attacked(around, sandboxes, program, **options):
    if (
        program == ENDLESS_THREADS
        and os.geteuid() == 0
        and sandbox.bubblewrap() is not None
        and "namespaces" in options.get("layers", MODES["bwrap"])
    ):
        pytest.skip(
            "the kernel sets no limit for root, and where bwrap is there is no /proc to count them: SECURITY.md"
        )
    tests = TESTS.replace("@SECRET@", str(around.secret))
    outcome = sandbox.run(around.written(program), tests, timeout=SECONDS, **options)
    assert not outcome.passed
    assert around.canary not in outcome.reason
    assert str(around.secret) not in outcome.reason
    assert around.state() == around.before
    assert not around.connected()
    assert around.left(sandboxes) == []
    return outcome


def test_there_are_enough():
    assert len(ATTACKS) >= 120
    assert len(set(ATTACKS.values())) == len(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_achieves_nothing(name, around, sandboxes):
    attacked(around, sandboxes, ATTACKS[name])


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}, Landlock {way[1]}")
def way(request, monkeypatch):
    """Have programs run as on a system that lends no more than this; give the layers, None where that is too little."""
    mode, abi = request.param
    if mode == "bwrap" and sandbox.bubblewrap() is None:
        pytest.skip(NO_BWRAP)
    if mode != "bwrap":
        monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    monkeypatch.setattr(process, "_LANDLOCK_ABI", abi)
    return MODES[mode] if mode != "neither" or abi >= ENOUGH else None


@pytest.mark.parametrize("name", REACHING)
def test_an_attack_achieves_nothing_on_less(name, way, around, sandboxes):
    if way is not None:
        attacked(around, sandboxes, ATTACKS[name], layers=way)


def test_a_right_program_passes_on_less(way, sandboxes):
    right = ("def f(x):\n    return x + 1", "assert f(1) == 2", 60.0)
    if way is not None:
        assert sandbox.run(*right, layers=way).passed
    else:
        with pytest.raises(sandbox.UsageError, match="lacks Landlock"):
            sandbox.run(*right, layers=MODES["neither"])


@pytest.fixture
def ordinary():
    """Return a function that runs Python as a user who is not root, on what it is given as arguments."""
    if os.geteuid():
        pytest.skip("the other tests ran as an ordinary user")
    root = Path(__file__).parents[2]
    minor = f"python3.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        shutil.chown(home, AN_ORDINARY_USER, AN_ORDINARY_USER)
        packages = f"{root / 'src'}:{root}:{Path(pytest.__file__).parents[1]}"
        environment = {"HOME": home, "TMPDIR": home, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}

        def run(python, *arguments):
            user = {"user": AN_ORDINARY_USER, "group": AN_ORDINARY_USER, "extra_groups": []}
            command, env = [python, *arguments], {**os.environ, **environment}
            return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False, **user)

        for python in (sys.executable, f"/usr/local/bin/{minor}", f"/usr/bin/{minor}"):
            with suppress(OSError):
                if run(python, "-c", "import pytest, kshot.sandbox.program").returncode == 0:
                    yield partial(run, python)
                    return
        pytest.skip("no Python here can be started by an ordinary user")


@pytest.mark.parametrize("mode", MODES if EVERYWHERE else ["neither"])
def test_an_attack_of_an_ordinary_user_achieves_nothing(mode, ordinary):
    """The tests above once more: other doors of the kernel are open to who is not root."""
    if mode == "bwrap" and sandbox.bubblewrap() is None:
        pytest.skip(NO_BWRAP)
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=")
    tested = ordinary("-m", "pytest", *plugins, "-k", f"on_less and {mode}", __file__)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    passed = re.search(r"(\d+) passed", tested.stdout)
    assert passed, f"all were skipped: {tested.stdout}"
    assert int(passed[1]) >= len(REACHING)


@pytest.mark.parametrize("name", FOOLED_TESTS)
def test_tests_are_not_fooled(name, sandboxes):
    assert not sandbox.run(*FOOLED_TESTS[name], 60.0).passed


def test_a_right_program_passes_the_same_tests(around, sandboxes):
    outcome = sandbox.run(
        f"def solve(x):\n    return {around.secret}", TESTS.replace("@SECRET@", str(around.secret)), 60.0
    )
    assert outcome == sandbox.ProgramOutcome(passed=True, reason="")


@pytest.mark.parametrize("wrapped", [True, False], ids=["bwrap", "own layers"])
def test_nothing_outlives_kshot(wrapped, tmp_path):
    """Programs that would run for minutes are gone soon after the process that wanted them was killed."""
    if wrapped and sandbox.bubblewrap() is None:
        pytest.skip(NO_BWRAP)
    text = (
        f"import tempfile\ntempfile.tempdir = {str(tmp_path)!r}\nfrom kshot.sandbox import program\n"
        f"{'' if wrapped else 'program.bubblewrap = lambda: None'}\n"
        "program.run('import signal, time\\nfor s in range(1, 32):\\n    try: signal.signal(s, signal.SIG_IGN)\\n"
        "    except (OSError, ValueError): pass\\ntime.sleep(600)', timeout=600.0)"
    )
    started = subprocess.Popen([sys.executable, "-c", text], start_new_session=True)
    wait_until(lambda: len(processes("no mark", str(tmp_path))) >= (2 if os.geteuid() else 3), started)
    started.kill()
    started.wait()
    wait_until(lambda: not processes("no mark", str(tmp_path)))


def wait_until(true, process=None):
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.1)  # each look is at all processes of the machine

"""Starting and ending confined processes, and what each profile gives them."""

import ast
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import kshot
from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.configs import load
from kshot.configs.project import Project
from kshot.sandbox import program
from kshot.sandbox.calls import RequestProcess
from kshot.sandbox.process import CONFIG, PROGRAM, ConfinedProcess

ROOT = Path(kshot.__file__).parent
WORKER = "kshot.configs._worker"
SECONDS = 60
"""What an answer may take on a busy machine."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux gives a process")


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("processes")))


def config(folder, text):
    path = folder / "config.py"
    path.write_text(text)
    return path


def started(folder, text="x = 1", **options):
    path = config(folder, text)
    job = {"path": str(path), "search_folders": []}
    return RequestProcess(CONFIG, WORKER, job, serve=Project(path).serve, **options)


def leftovers():
    return list(Path(tempfile.gettempdir()).iterdir())


# ---- what runs inside ----


def imports(path):
    """The modules that a module imports, by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name for name in modules if file_of(name).is_file()]
            yield from found or [node.module]


def file_of(name):
    return ROOT.parent.joinpath(*name.split(".")).with_suffix(".py")


def inside():
    """The modules that confined processes load: their workers, and what these import of kshot in turn."""
    found = set()
    reached = {*(ROOT / "sandbox").glob("_[a-z]*.py"), *(ROOT / "configs").glob("_[a-z]*.py")}
    while reached:
        found |= reached
        names = {name for path in reached for name in imports(path) if name.partition(".")[0] == "kshot"}
        reached = {file_of(name) for name in names} - found
    return found


IMPORTED_WHEN_USED = ("jieba", "numpy", "latex2sympy2_extended", "math_verify", "rdkit")


@pytest.mark.parametrize("path", sorted(inside()), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_runs_inside_imports_the_standard_library_and_itself(path):
    assert path.is_file()
    assert path.parent.name in {"sandbox", "configs", "cleanups"}
    assert path.parent.name == "cleanups" or path.stem.startswith("_")
    for name in imports(path):
        assert name.partition(".")[0] in {*sys.stdlib_module_names, *IMPORTED_WHEN_USED, "kshot"}, name


def test_a_config_loads_the_cleanups_that_configs_can_name_and_no_others():
    loaded = {path.stem for path in inside() if path.parent.name == "cleanups"}
    named = {function.__module__.rpartition(".")[2] for function in CLEANUP_FUNCTIONS.values()}
    assert loaded == {"config_names", "literals", "spans"} | named  # what those modules share


def test_the_packages_of_a_profile_exist():
    for profile in (PROGRAM, CONFIG):
        for name in profile.packages:
            assert ROOT.parent.joinpath(*name.split("."), "__init__.py").is_file()


def test_a_program_finds_nothing_of_kshot_and_no_token():
    text = """
import os, sys
assert not [name for name in sys.modules if name.startswith("kshot")]
assert sys.argv == ["program.py"]
for number in range(64):
    try:
        os.lseek(number, 0, 0)
        assert b"token" not in os.read(number, 65536)
    except OSError:
        pass
frame = sys._getframe()
while frame:
    assert "token" not in repr(frame.f_locals.get("job"))
    frame = frame.f_back
"""
    assert program.run(text) == program.ProgramOutcome(passed=True, reason="")


def test_a_program_may_import_what_it_has_written():
    text = "open('mine.py', 'w').write('x = 3')\nimport mine\nassert mine.x == 3"
    assert program.run(text).passed


def test_a_config_does_not_import_what_lies_in_its_working_folder(tmp_path, monkeypatch):
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path / "cwd")
    assert load(config(tmp_path, "import json, sys\nx = '' in sys.path")).variables["x"] is False


# ---- limits and environment ----

LIMITS = "import resource\nfound = {name: resource.getrlimit(getattr(resource, name)) for name in %r}\n"


@LINUX
def test_the_limits_of_a_profile_hold(tmp_path):
    table = CONFIG.limits.table()
    found = load(config(tmp_path, LIMITS % (list(table),))).variables["found"]
    assert found == {name: (value, value) for name, value in table.items()}
    table = PROGRAM.limits.table()
    assert program.run(f"{LIMITS % (list(table),)}assert found == { {n: (v, v) for n, v in table.items()} }").passed
    text = "import resource\nassert resource.getrlimit(resource.RLIMIT_CPU) == (62, 62)"
    assert program.run(text, timeout=60.5).passed


def test_the_environment_is_that_of_the_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("DATASET_SOURCE", "HF")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    common = {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONHASHSEED", "PYTHONUTF8"}
    shown = load(config(tmp_path, "import os\nx = sorted(os.environ)")).variables["x"]
    assert set(shown) - {"LC_CTYPE", "SYSTEMROOT"} == common | {"DATASET_SOURCE"}
    names = common | set(PROGRAM.variables)
    assert program.run(f"import os\nassert set(os.environ) - {{'LC_CTYPE', 'SYSTEMROOT'}} == {names!r}").passed


# ---- starting and ending ----


def test_a_process_that_cannot_be_started_leaves_no_folder(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(OSError, match="no/such"):
        ConfinedProcess(PROGRAM, "kshot.sandbox._program_worker", {})
    assert leftovers() == []


def test_a_process_is_ended_once_and_its_folder_removed(tmp_path):
    process = started(tmp_path)
    assert process.ask({"action": "load"}, SECONDS)["variables"] == {"x": 1}
    assert process.alive
    process.end()
    process.end()
    assert not process.alive
    assert leftovers() == []


def test_a_process_that_is_forgotten_is_ended(tmp_path):
    process = started(tmp_path)
    process.ask({"action": "load"}, SECONDS)
    assert leftovers()
    del process
    assert leftovers() == []


def test_a_reaped_process_is_not_killed_by_its_number(tmp_path, monkeypatch):
    process = started(tmp_path, "import os\nos._exit(7)")
    assert "exit code 7" in process.ask({"action": "load"}, SECONDS).why
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("its number may belong to another process"))
    process.end()
    assert leftovers() == []


# ---- requests ----


def test_an_exception_tells_its_class_and_its_place(tmp_path):
    process = started(tmp_path, "x = 1\ny = {}['z']")
    fault = process.ask({"action": "load"}, SECONDS)
    assert (fault.kind, fault.message, fault.file, fault.line) == ("KeyError", "'z'", str(tmp_path / "config.py"), 2)
    process.end()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[]", "cannot be read"),
        (b"nonsense", "cannot be read"),
        (b'{"id": 2, "result": 1}', "cannot be read"),
        (b'{"id": 1}', "cannot be read"),
        (b'{"id": 1, "fault": "x"}', "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_answers_that_are_none(tmp_path, line, message):
    process = started(tmp_path)
    process._answers.put(line)
    assert message in process.ask({"action": "load"}, SECONDS).why
    process.end()


def test_a_request_to_a_process_that_has_ended(tmp_path):
    process = started(tmp_path)
    process.end()
    assert "its process ended" in process.ask({"action": "load"}, SECONDS).why


def test_the_listening_thread_ends_with_its_process(tmp_path):
    before = set(threading.enumerate())
    process = started(tmp_path)
    (listener,) = set(threading.enumerate()) - before
    process.end()
    listener.join(60)
    assert not listener.is_alive()


# ---- what a killed process leaves behind ----

_KILLED = """
import os, signal, sys
from pathlib import Path
from kshot.sandbox.process import ConfinedProcess
from kshot.sandbox.process import CONFIG, PROGRAM
before = set(os.listdir(os.environ["TMPDIR"]))
made = [ConfinedProcess(each, "kshot.configs._worker", {}, takes_requests=True) for each in (CONFIG, PROGRAM)]
folders = [Path(os.environ["TMPDIR"], name) for name in set(os.listdir(os.environ["TMPDIR"])) - before]
for folder in folders:
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0)
print(*folders, flush=True)
if sys.argv[1:] == ["lives"]:
    sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def _run_and_kill(*words):
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    command = [sys.executable, "-c", _KILLED, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


@LINUX
@pytest.mark.parametrize("profile", [CONFIG, PROGRAM])
def test_the_next_process_removes_the_folders_of_killed_ones(tmp_path, profile):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("x")
    Path(tempfile.gettempdir(), f"{profile.folder_prefix}link").symlink_to(mine)
    with _run_and_kill("lives") as living:
        kept = living.stdout.readline().split()
        with _run_and_kill() as killed:
            left = killed.stdout.readline().split()
        assert {Path(folder).name.rpartition("-")[0] for folder in left} == {"kshot-config", "kshot-run"}
        ConfinedProcess(profile, WORKER, {}, takes_requests=True).end()
        gone = [folder for folder in left if not Path(folder).exists()]
        assert [Path(folder).name.startswith(profile.folder_prefix) for folder in gone] == [True]
        assert all(Path(folder, "closed").exists() for folder in kept)
        living.stdin.close()
    assert (mine / "file").read_text() == "x"


def test_a_pipe_among_the_leftovers_is_not_waited_for():
    pipe = Path(tempfile.gettempdir(), f"{CONFIG.folder_prefix}pipe")
    os.mkfifo(pipe)
    ConfinedProcess(CONFIG, WORKER, {}, takes_requests=True).end()
    assert pipe.exists()

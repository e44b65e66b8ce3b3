"""Homes whose code breaks out, hangs or floods: it is contained, and one message says what happened."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kshot.cli.main import main
from kshot.configs.home import find_homes
from kshot.configs.scope import Name
from kshot.sandbox.guest import Guest, GuestFault
from tests.configs.homes import CONFIG, evaluator_home, write_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement of homes is Linux's")

SECRET = "the user's secret"
NAME = Name("OwnEvaluator", "opencompass.datasets.OwnEvaluator", "opencompass")
REFUSED = r"Permission|not permitted|No such file|Operation|unreachable|refused|denied|Errno"


def guest_of(folder: Path, body: str, **limits) -> Guest:
    home = evaluator_home(folder / "home", body)
    return Guest("OpenCompass", {"opencompass": home / "opencompass"}, "kshot.configs._home_adapter", **limits)


def score(guest: Guest, seconds: float | None = None):
    given = {"predictions": ["a"], "references": ["a"], "rows": [{}]}
    try:
        return guest.ask("evaluate", seconds=seconds, name=NAME.whole, options={}, **given)
    finally:
        guest.close()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def connected(server) -> bool:
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


def test_an_evaluator_that_opens_sockets(tmp_path, listener):
    port = listener.getsockname()[1]
    body = f"""
        import socket
        socket.create_connection(("127.0.0.1", {port}), timeout=5)
        return {{"accuracy": 100.0}}
    """
    with pytest.raises(GuestFault, match=REFUSED) as caught:
        score(guest_of(tmp_path, body))
    assert "--allow-download" in caught.value.hint
    assert not connected(listener)


def test_the_network_is_there_where_the_user_allows_it(tmp_path, listener):
    body = f"""
        import socket
        socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}), timeout=5).close()
        return {{"accuracy": 100.0}}
    """
    assert score(guest_of(tmp_path, body, network=True)) == {"accuracy": 100.0}
    assert connected(listener)


READING = {
    "a file": "return {'accuracy': float(len(open(PATH).read()))}",
    "a file through a link": "import os; os.symlink(PATH, 'link'); return {'accuracy': float(len(open('link').read()))}",
    "a folder": "import os; return {'accuracy': float(len(os.listdir(os.path.dirname(PATH))))}",
    "a file by its descriptor": "import os; return {'accuracy': float(os.open(PATH, os.O_RDONLY))}",
    "a file by C code": (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); got = libc.open(PATH.encode(), 0)\n"
        "if got < 0: raise PermissionError(ctypes.get_errno())\nreturn {'accuracy': float(got)}"
    ),
}


@pytest.mark.parametrize("what", READING)
def test_an_evaluator_that_reads_the_users_files(tmp_path, what):
    secret = tmp_path / "private" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    with pytest.raises(GuestFault, match=REFUSED):
        score(guest_of(tmp_path, READING[what].replace("PATH", repr(str(secret)))))


def test_an_evaluator_that_looks_at_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    body = f"""
        import glob, os
        seen = list(os.environ.values())
        for path in glob.glob("/proc/*/environ") + ["/proc/{os.getpid()}/environ", "/proc/self/environ"]:
            try:
                seen.append(open(path).read())
            except OSError:
                pass
        return {{"accuracy": 100.0 * any({SECRET!r} in text for text in seen)}}
    """
    assert score(guest_of(tmp_path, body)) == {"accuracy": 0.0}


PROCESSES = {
    "forks": "import os; pid = os.fork(); return {'accuracy': 1.0}",
    "starts a program": "import subprocess; subprocess.run(['/bin/true'], check=True); return {'accuracy': 1.0}",
    "forks in C code": "import ctypes; pid = ctypes.CDLL(None).fork(); assert pid > 0; return {'accuracy': 1.0}",
    "replaces itself": "import os; os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "kills the parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL); return {'accuracy': 1.0}",
    "kills kshot": f"import os, signal; os.kill({os.getpid()}, signal.SIGTERM); return {{'accuracy': 1.0}}",
}


@pytest.mark.parametrize("what", PROCESSES)
def test_an_evaluator_that_starts_or_kills_processes(tmp_path, what):
    with pytest.raises(GuestFault, match=REFUSED + "|AssertionError"):
        score(guest_of(tmp_path, PROCESSES[what], call_seconds=60))


HANGING = {
    "sleeps": "import time; time.sleep(3600)",
    "computes": "n = 0\nwhile True: n += 1",
    "searches": "import re; re.match('(a*)*b', 'a' * 60)",
    "ignores signals": "import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(3600)",
    "waits in a thread": "import threading; t = threading.Thread(target=threading.Event().wait); t.start(); t.join()",
}


@pytest.mark.parametrize("what", HANGING)
def test_an_evaluator_that_hangs(tmp_path, what):
    guest = guest_of(tmp_path, HANGING[what])
    guest.ask("find", kind="evaluator", name=NAME.whole)  # it is loaded without haste
    with pytest.raises(GuestFault, match=r"did not end within 0\.3 s"):
        score(guest, seconds=0.3)
    assert not left_over(tmp_path)


def left_over(folder: Path) -> list[str]:
    """Return the processes that still read something of a folder's home."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line and "ps -eo" not in line]


FLOODING = {
    "returns gigabytes": ("return {'accuracy': 1.0, 'details': 'x' * (200 << 20)}", r"more than 64 MB|memory"),
    "returns many values": ("return {'accuracy': 1.0, 'details': list(range(7_000_000))}", r"more than|memory"),
    "wants all memory": ("return {'accuracy': float(len(bytearray(64 << 30)))}", r"memory"),
    "fills its memory": ("held = []\nwhile True: held.append(bytearray(64 << 20))", r"memory"),
    "nests without end": (
        "x = []\nfor _ in range(100000): x = [x]\nreturn {'accuracy': 1.0, 'details': x}",
        r"nested|deep",
    ),
    "fills the disk": (
        "with open('big', 'wb') as f:\n    for _ in range(4096): f.write(b'x' * (1 << 20))\nreturn {'accuracy': 1.0}",
        r"No space|too large|Errno",
    ),
    "starts threads without end": (
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
        r"thread|memory|did not end|process ended",
    ),
}


@pytest.mark.parametrize("what", FLOODING)
def test_an_evaluator_that_floods(tmp_path, what):
    body, said = FLOODING[what]
    with pytest.raises(GuestFault, match=said):
        score(guest_of(tmp_path, body, call_seconds=120, memory_mb=2048))


WRITING = {
    "writes": "open(PATH, 'w').write('gone')",
    "deletes": "import os; os.remove(PATH)",
    "renames": "import os; os.rename(PATH, PATH + '2')",
    "changes the home": "open(__file__, 'a').write('import os')",
    "empties by C code": (
        "import ctypes; libc = ctypes.CDLL(None)\nif libc.truncate(PATH.encode(), 0): raise PermissionError('refused')"
    ),
}


@pytest.mark.parametrize("what", WRITING)
def test_an_evaluator_that_changes_files(tmp_path, what):
    file = tmp_path / "mine.txt"
    file.write_text(SECRET)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    body = f"{WRITING[what]}\nreturn {{'accuracy': 1.0}}".replace("PATH", repr(str(file)))
    guest = guest_of(tmp_path, body)
    before |= {path: path.read_bytes() for path in (tmp_path / "home").rglob("*.py")}
    with pytest.raises(GuestFault, match=REFUSED + "|Read-only"):
        score(guest)
    assert {path: path.read_bytes() for path in before} == before


LYING = {
    "text": ("return 'perfect'", "returned str, not a dict"),
    "nothing": ("return None", "returned NoneType, not a dict"),
    "an error": ("return {'error': 'lengths differ'}", "reports an error: lengths differ"),
    "no figure": ("return {'details': []}", "returned no figures"),
    "a million details": (
        "return {'accuracy': 1.0, 'details': [{'correct': True}] * 10**6}",
        "the details of 1,000,000 samples, and was given 1",
    ),
    "details of more samples": (
        "return {'accuracy': 1.0, 'details': {str(i): {'correct': True} for i in range(2)}}",
        "OwnEvaluator returned the details of 2 samples, and was given 1. An evaluator gives one detail for each",
    ),
    "a million details by name": (
        "return {'accuracy': 1.0, 'details': {f'p{i}': True for i in range(10**6)}}",
        "the details of 1,000,000 samples",
    ),
    "no number": ("return {'accuracy': float('nan')}", "returned no figures"),
    "an exception without a message": ("class E(Exception):\n    def __str__(self): raise self\nraise E", "E"),
    "a name without end": ("return {'a' * 100_000: 1.0}", "whose name has 100,000 letters"),
    "the end": ("import os; os._exit(0)", "ended before it was done"),
    "the end of Python": ("raise SystemExit(0)", "SystemExit"),
    "forged lines": (
        """import os
for fd in range(3, 64):
    try:
        os.write(fd, b'{"id": 0}' + bytes([10]))
    except OSError:
        pass
return {'accuracy': 1.0}""",
        "cannot be read",
    ),
}


@pytest.mark.parametrize("what", LYING)
def test_what_is_no_result_is_an_error_of_the_run(tmp_path, capsys, monkeypatch, what):
    body, said = LYING[what]
    monkeypatch.chdir(tmp_path)
    evaluator_home(tmp_path / "home", body)
    (tmp_path / "rows.jsonl").write_text('{"question": "1+1", "answer": "2"}\n')
    (tmp_path / "own.py").write_text(CONFIG)
    code = main(["run", "own.py", "--home", "home", "-m", "embedded", "--data", "own=rows.jsonl", "--no-report"])
    shown = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in shown
    assert said in shown


def test_details_of_too_few_samples_fail_the_run_and_keep_its_replies(tmp_path, capsys, monkeypatch):
    """They show when replies are scored. Mended, it goes on without asking again; nothing of details is all right."""
    count = "len(predictions) - (predictions != references)"
    body = f"return {{'accuracy': 1.0, 'details': [{{'correct': True}}] * ({count})}}"
    monkeypatch.chdir(tmp_path)
    evaluator_home(tmp_path / "home", body)
    rows = [json.dumps({"question": f"{n}+{n}", "answer": str(2 * n)}) for n in range(1, 4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    (tmp_path / "own.py").write_text(CONFIG)
    (tmp_path / "model.py").write_text(COUNTING)
    command = ["run", "own.py", "--home", "home", "-m", "model.py:answer", "--out", "run", "--no-report"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "OwnEvaluator returned the details of 2 samples, and was given 3" in said
    assert "Traceback" not in said
    evaluator_home(tmp_path / "home", "return {'accuracy': 1.0, 'details': []}")
    assert main(command) == 0
    assert (tmp_path / "asked").read_text() == "..."


COUNTING = """
def answer(prompt: str) -> str:
    with open("asked", "a") as file:
        file.write(".")
    return "wrong"
"""


FORGED = """
import json, os, sys

def forge(result):
    frame, found = sys._getframe(), {}
    while frame is not None:
        found = {**frame.f_locals, **found}
        frame = frame.f_back
    answer = {"id": found["number"], "result": [{"value": result}]}
    os.write(found["channel"], json.dumps(answer).encode() + bytes([10]))
    os._exit(0)
"""


@pytest.mark.parametrize("result", ["5", "[]", "[7]", "[{}]", "[{'value': {'$float': 'x'}}]", "None"])
def test_a_forged_answer_of_a_clean_up_is_a_failed_sample(tmp_path, result):
    text = f"{FORGED}\ndef own_clean(text):\n    forge({result})\n"
    write_home(tmp_path, {"datasets/own.py": text})
    homes = find_homes(tmp_path / "x.py", tmp_path)
    with pytest.raises(GuestFault, match="cannot be read"):
        homes["opencompass"].clean("opencompass.datasets.own_clean", {}, "a")
    homes["opencompass"].close()


@pytest.mark.parametrize("result", ["5", "{'score': 5}", "None"])
def test_a_forged_answer_about_a_name_is_no_fault_of_kshot(tmp_path, result):
    write_home(tmp_path, {"datasets/own.py": f"{FORGED}\nforge({result})\nclass OwnEvaluator: pass\n"})
    home = find_homes(tmp_path / "x.py", tmp_path)["opencompass"]
    assert home.has("evaluator", NAME.whole)  # so it says
    assert not home.wants_prompts(NAME.whole)
    home.close()
    with pytest.raises(GuestFault, match="cannot be read"):
        home.template(NAME.whole, {}, "generate_item", {})
    home.close()


@pytest.mark.parametrize("made", ["object()", "[object()]", "{'a': object()}"])
def test_a_clean_up_that_makes_no_plain_data_is_a_failed_sample(tmp_path, made):
    write_home(tmp_path, {"datasets/own.py": f"def own_clean(text):\n    return {made}\n"})
    home = find_homes(tmp_path / "x.py", tmp_path)["opencompass"]
    with pytest.raises(GuestFault, match="makes a value of the class object of 'a'") as caught:
        home.clean("opencompass.datasets.own_clean", {}, "a")
    assert caught.value.kind == "TextFault"
    home.close()


WRAPPED = {
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
    "an error of its own": "try:\n    open('/nowhere')\nexcept OSError as exc:\n    raise RuntimeError('gave up') from exc",
    "an error while it handles one": "try:\n    open('/nowhere')\nexcept OSError:\n    raise RuntimeError('gave up')",
}


@pytest.mark.parametrize("what", WRAPPED)
def test_a_refusal_is_told_whatever_error_it_is_wrapped_in(tmp_path, what):
    with pytest.raises(GuestFault) as caught:
        score(guest_of(tmp_path, WRAPPED[what]))
    assert "--allow-download" in caught.value.hint


def test_an_error_that_is_no_refusal_says_nothing_of_the_confinement(tmp_path):
    with pytest.raises(GuestFault) as caught:
        score(guest_of(tmp_path, "raise ValueError('wrong')"))
    assert caught.value.hint == ""


def test_a_run_by_the_command_line_says_what_was_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluator_home(tmp_path / "home", f"open({str(tmp_path / 'secret')!r}).read()")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "rows.jsonl").write_text('{"question": "1+1", "answer": "2"}\n')
    (tmp_path / "own.py").write_text(CONFIG)
    assert main(["run", "own.py", "--home", "home", "-m", "embedded", "--data", "own=rows.jsonl"]) == 2
    shown = capsys.readouterr().err
    assert "It runs confined" in shown
    assert SECRET not in shown
    assert "own.py" in shown  # the file of the home, and the line


def test_the_kernel_layers_hold_without_one_of_them(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    body = f"return {{'accuracy': float(len(open({str(secret)!r}).read()))}}"
    for layers in (("landlock", "seccomp"), ("namespaces", "seccomp")):
        with pytest.raises(GuestFault, match=REFUSED):
            score(guest_of(tmp_path, body, layers=layers))
    with pytest.raises(GuestFault, match="cannot confine a process"):
        score(guest_of(tmp_path, body, layers=("guard",)))


def test_requests_of_several_threads_do_not_mix(tmp_path):
    guest = guest_of(tmp_path, "return {'accuracy': float(predictions[0])}")
    found = {}

    def ask(number):
        answer = guest.ask(
            "evaluate", name=NAME.whole, options={}, predictions=[str(number)], references=["0"], rows=[{}]
        )
        found[number] = answer["accuracy"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    guest.close()
    assert found == {number: float(number) for number in range(8)}


def test_a_home_that_is_a_link_is_named_by_where_it_leads(tmp_path):
    evaluator_home(tmp_path / "real", "return {'accuracy': 1.0}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    homes = find_homes(tmp_path / "x.py", tmp_path / "link")
    assert homes["opencompass"].folder == (tmp_path / "real" / "opencompass").resolve()

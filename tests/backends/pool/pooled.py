"""What the tests of pools share: models that log, block, kill and die at known moments, and whether a process is left."""

import json
import os
import re
import time
from pathlib import Path

from kshot.index.store import MANIFEST_FILE
from tests.commands import CAPITALS
from tests.passages.books import question

WORLD = '''
"""Models for pools. Their folder is the one of this file: whatever they note is found there, in whichever process."""
import hashlib, os, signal, subprocess, sys, time
from pathlib import Path
from kshot import Generate, Generated, Likelihood, Loglik, Scored
from kshot.core.serialization import digest

HERE = Path(__file__).parent

def note(name, text):
    file = os.open(HERE / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{text}\\n".encode())
    os.close(file)

def until(true):
    while not true():
        time.sleep(0.005)

def once(name):
    try:
        os.close(os.open(HERE / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def answer(request):
    spread = hashlib.sha256(digest(request).encode()).digest()
    if isinstance(request, Generate):
        return Generated(["Paris", "Rome", "Oslo"][spread[0] % 3])
    return Scored(tuple(Likelihood(-float(spread[i]), 1) for i, _ in enumerate(request.continuations)))

class Noting:
    """Notes its process and every request; waits until there are ``processes`` of its kind."""
    name = fingerprint = "noting"
    answers = (Generate, Loglik)

    def __init__(self, processes: int = 1):
        self.processes = processes
        note("pids", os.getpid())

    def begin(self):
        note("pids", os.getpid())  # one that was pickled was not made in its process
        until(lambda: len(set((HERE / "pids").read_text().split())) >= self.processes)

    def serve(self, queue):
        self.begin()
        for request in queue:
            note("asked", digest(request))
            self.at(request)
            yield request, answer(request)

    def at(self, request):
        pass

class DiesOnce(Noting):
    """One of its processes is killed while it computes this request."""
    def at(self, request):
        if "Peru3" in request.prompt.text and once("killed"):
            os.kill(os.getpid(), signal.SIGKILL)

class Killer(Noting):
    """This request kills every process that computes it."""
    def at(self, request):
        if "Peru3" in request.prompt.text:
            note("kills", os.getpid())
            os.kill(os.getpid(), signal.SIGKILL)

class Waits(Noting):
    """Says that it computes, and then computes for ever."""
    def at(self, request):
        note("computing", os.getpid())
        until(lambda: False)

class Deaf(Waits):
    """Computes without ever letting another thread run."""
    def at(self, request):
        note("computing", os.getpid())
        import re
        re.match("(a+)+$", "a" * 60 + "b")

class Parent(Noting):
    """Starts a process of its own and forgets it."""
    def __init__(self):
        super().__init__()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        note("pids", child.pid)

class Daemon(Noting):
    """Starts a process that leaves its group, and reads what it is asked by itself."""
    def __init__(self):
        super().__init__()
        assert sys.stdin.read() == ""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10)"], start_new_session=True)
        note("daemons", child.pid)

class ParentWaits(Parent, Waits):
    pass

class OpensForEver(Parent):
    def __init__(self):
        super().__init__()
        note("computing", os.getpid())
        until(lambda: False)

class CannotOpen(Noting):
    def __init__(self):
        super().__init__()
        raise ValueError("no such weights")

class DiesOpening(Noting):
    def __init__(self):
        super().__init__()
        print("out of memory, alas", file=sys.stderr, flush=True)
        os._exit(7)

class Raises(Noting):
    def at(self, request):
        raise RuntimeError("no answer for you")

class Strange(Noting):
    """Answers with what cannot be pickled."""
    def serve(self, queue):
        for request in queue:
            yield request, Generated(lambda: 1)

class WrongAnswer(Noting):
    def serve(self, queue):
        for request in queue:
            yield request, Generated(3)

class Silent(Noting):
    def serve(self, queue):
        queue.take()
        return iter(())

class Twice(Noting):
    def serve(self, queue):
        for request in queue:
            yield request, answer(request)
            yield request, answer(request)

class BadClose(Noting):
    def close(self):
        raise OSError("cannot be closed")

class Exits(Noting):
    def at(self, request):
        sys.exit("leaving")

def function(prompt):
    """A plain function is a model, too."""
    note("pids", os.getpid())
    return prompt[-5:]
'''


def write(folder: Path, monkeypatch=None) -> Path:
    """Write the models and a dataset into a folder."""
    (folder / "world.py").write_text(WORLD)
    (folder / "capitals.py").write_text(CAPITALS)
    if monkeypatch is not None:
        monkeypatch.setenv("POOL_TEST_FOLDER", str(folder))
    return folder


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def answered(run: Path) -> list[str]:
    """What the journal of a run has answers for."""
    return [json.loads(line)["asked"] for line in (run / "journal.jsonl").read_text().splitlines()]


def asked_again(said: str) -> int:
    """How many requests the workers had that died, by the messages."""
    return sum(int(count.replace(",", "")) for count in re.findall(r"to ask again, one by one: ([\d,]+)", said))


def same_files(a: Path, b: Path) -> bool:
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in ("samples.jsonl", "summary.json"))


def state_and_group(pid: int | str) -> tuple[str, int]:
    """The state of a process and the group that it is in; what is gone is a zombie."""
    try:
        state, _, group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "Z", 0
    return state, int(group)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and whose parent has not looked is not alive."""
    return state_and_group(pid)[0] != "Z"


def group_alive(pid: int) -> list[int]:
    """The processes of the group that a worker leads: those that it has started, also after it has ended."""
    found = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [
        each for each in found if each != os.getpid() and state_and_group(each) in {(state, pid) for state in "SRD"}
    ]


def wait_until(true, what: str, seconds: float = 120.0) -> None:
    """Wait for something that must come; the limit is only a net."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def pids(folder: Path) -> list[int]:
    return [int(each) for each in lines(folder / "pids")]


def wait_until_gone(folder: Path) -> None:
    own = os.getpid()
    wait_until(lambda: not [pid for pid in pids(folder) if pid != own and is_alive(pid)], "a process is left")
    wait_until(lambda: not [left for pid in pids(folder) if (left := group_alive(pid))], "a guard is left")


def open_pipes_and_sockets() -> list[str]:
    """The pipes and sockets of this process."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the one that lists the others
            continue
        if target.startswith(("pipe:", "socket:")):
            found.append(target)
    return sorted(found)


def unused_shared_memory() -> set[str]:
    """The shared memory that no process has open: nobody will ever remove it."""
    found = {each.name for each in Path("/dev/shm").iterdir()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mapped = (process / "maps").read_text()
            opened = " ".join(str(each.readlink()) for each in (process / "fd").iterdir())
        except OSError:  # it has ended, or belongs to somebody else
            continue
        found -= {name for name in found if f"/dev/shm/{name}" in mapped or f"/dev/shm/{name}" in opened}
    return found


def book_of_lines(folder: Path, count: int) -> tuple[str, ...]:
    """Write a book in which each line is a passage, and return the arguments that search it."""
    book = folder / "book"
    (book / "chapters").mkdir(parents=True)
    (book / "chapters" / "chapter_1.md").write_text("\n".join(f"Line {at} has the word w{at}." for at in range(count)))
    asked = question(1, 1, "Which line has w9000?", [["Line 9000 has the word w9000."]])
    (book / "questions.json").write_text(json.dumps({"questions": [asked]}))
    return ("run", "-d", "passages", "--data", "book", "--chunker", "lines", "-m", "bm25")


def index_files(root: Path) -> dict[str, bytes]:
    """The bytes of the one index that is there, but for the dates of its manifest."""
    (folder,) = root.iterdir()
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST_FILE}

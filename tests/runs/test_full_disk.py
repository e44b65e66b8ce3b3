"""Disks that take no more, at any byte and at any step: one message, no draft left behind, and the run goes on later."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kshot
from kshot.core.durable import GroupSync
from kshot.core.errors import RunError
from kshot.core.records import Generated
from kshot.runs.folder import RunFolder
from kshot.runs.journal import Journal
from tests.datasets.fakes import Fake, generation, says

QUESTIONS = generation([{"q": f"question {number}", "target": "1"} for number in range(8)])

LIMITED = """
import json, os, resource, sys
from pathlib import Path
import kshot
from kshot.core.errors import KshotError
from tests.datasets.fakes import Fake, generation, says

long = int(sys.argv[1])
QUESTIONS = generation([{"q": f"question {number} " + long * "?", "target": "1"} for number in range(60)])
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def evaluated(name, limit):
    asked = []
    def answer(request):
        asked.append(request)
        return says("1").answer(request)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))  # the file system takes no more, as a full disk does
    try:
        kshot.evaluate(Fake(answer), QUESTIONS, out=name)
        message = ""
    except KshotError as exc:
        message = str(exc)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return message, len(asked)

def files(name):
    return {each: Path(name, each).read_text() for each in ("samples.jsonl", "summary.json")}

assert evaluated("calm", most) == ("", 60)
found = {}
for limit in (0, 1, 3000, *range(6000, 12000, 1499), *range(12000, 27000, 3499), 100_000):
    name = f"run {limit}"
    message, asked = evaluated(name, limit)
    left = [str(path) for path in Path(name).rglob("*.draft")] if Path(name).exists() else []
    lines = Path(name, "journal.jsonl").read_text().splitlines() if Path(name).exists() else []
    again, asked_again = evaluated(name, most)
    found[limit] = [message, left, len(lines), again, asked_again, files(name) == files("calm")]
print(json.dumps(found))
"""


@pytest.mark.parametrize(("long", "largest"), [(0, "journal.jsonl"), (300, "samples.jsonl")])
def test_a_disk_that_is_full_at_any_byte(tmp_path, long, largest):
    pytest.importorskip("resource", reason="this system has no limits on file sizes")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(long)], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    hit = set()
    for limit, (message, left, written, again, asked_again, same) in found.items():
        assert left == [], limit
        assert (again, same) == ("", True), limit
        assert asked_again == 60 - written, limit  # every whole line is kept, and nothing else
        if message:
            assert "File too large. Free some space, or choose another folder with --out." in message
            hit.add(Path(message.partition(": ")[0]).name)
    assert hit >= {"spec.json", largest}
    assert found[max(found, key=int)][0] == ""


NO_ROOM = ("No space left on device", "Free some space")
FAULTS = {
    errno.ENOSPC: NO_ROOM,
    errno.EDQUOT: ("Disk quota exceeded", "Free some of your quota"),
    errno.EROFS: ("Read-only file system", "Make it writable"),
    errno.EACCES: ("Permission denied", "Make it writable"),
    errno.EIO: ("Input/output error", "The disk reports a fault: check it"),
    errno.EMFILE: ("Too many open files", "Close other programs, or raise the limit (ulimit -n)"),
}
STEPS = ("mkdir", "journal", "written", "fsync", "draft", "summary", "replace")


def break_step(monkeypatch, step, number):
    """Have a step of the disk fail."""

    def failing(name, module, when):
        real = getattr(module, name)

        def call(*arguments, **options):
            if when(*arguments):
                raise OSError(number, os.strerror(number), "the file")
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    if step == "mkdir":
        failing("mkdir", Path, lambda path, *_: path.name == "run")
    elif step == "journal":
        failing("open", os, lambda path, *_: str(path).endswith("journal.jsonl"))
    elif step == "written":
        failing("write", os, lambda _, data: data.startswith(b'{"key"') and b"question 5" not in data)
    elif step == "fsync":
        failing("fsync", os, lambda _: True)
    elif step == "draft":
        failing("open", os, lambda path, *_: str(path).endswith(".samples.jsonl.draft"))
    elif step == "summary":
        failing("open", os, lambda path, *_: str(path).endswith(".summary.json.draft"))
    else:
        failing("replace", Path, lambda path, *_: path.name == ".spec.json.draft")


@pytest.mark.parametrize("number", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("step", STEPS)
def test_any_error_of_the_disk_at_any_step(step, number, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        break_step(patch, step, number)
        with pytest.raises(RunError) as told:
            kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run")
    strerror, hint = FAULTS[number]
    assert f"{strerror}. {hint}, or choose another folder with --out." in str(told.value)
    assert str(tmp_path / "run") in str(told.value)
    assert not list(tmp_path.rglob("*.draft"))
    assert kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run").results[0]["value"] == 100.0


def test_an_error_of_a_flush_is_not_forgotten(tmp_path, monkeypatch):
    """The system reports it once; the pages count as written after that."""

    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    group = GroupSync(full, seconds=0)
    group.written()
    group._thread.join()
    with pytest.raises(OSError, match="No space left"):
        group.written()
    journal = Journal(tmp_path / "journal.jsonl")
    journal._group = group
    with pytest.raises(RunError, match="No space left on device"):
        journal.put("0a" * 16, "asked", Generated("x"))
    with pytest.raises(RunError, match="No space left on device"):
        journal.close()


# ---- the order of flushes ----


@pytest.fixture
def steps(monkeypatch):
    """What is flushed and renamed, in order, by the names of the files."""
    seen = []
    fsync, replace, write = os.fsync, Path.replace, os.write

    def name(descriptor):
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def flushed(descriptor):
        seen.append(f"fsync {name(descriptor)}")
        fsync(descriptor)

    def renamed(path, target):
        seen.append(f"rename {Path(target).name}")
        return replace(path, target)

    def written(descriptor, data):
        if data.startswith(b'{"key"'):
            seen.append("answer")
        return write(descriptor, data)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed on Linux alone")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "write", written)
    return seen


@pytest.mark.parametrize("mode", ["always", "group"])
def test_what_a_rename_shows_is_on_the_disk(steps, tmp_path, mode):
    kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run", fsync=mode)
    for name in ("spec.json", "samples.jsonl", "summary.json"):
        at = steps.index(f"rename {name}")
        assert steps[at - 2 : at + 2] == [
            "fsync journal.jsonl", f"fsync .{name}.draft", f"rename {name}", "fsync run",
        ]  # fmt: skip
    last_answer = len(steps) - 1 - steps[::-1].index("answer")
    assert "fsync journal.jsonl" in steps[last_answer:]
    after_each = all(steps[at + 1] == "fsync journal.jsonl" for at, step in enumerate(steps) if step == "answer")
    assert after_each == (mode == "always")


def test_never_means_never(steps, tmp_path):
    kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run", fsync="never")
    assert "answer" in steps
    assert not [step for step in steps if step.startswith("fsync")]


def test_a_group_is_flushed_while_the_run_waits_for_the_next_answer(tmp_path, steps):
    """The answers reach the disk although the model takes its time: the flush does not wait for a further answer."""
    import threading

    reached = threading.Event()
    real = os.fsync

    def answer(request):
        if "question 3" in request.prompt.text:
            os.fsync = lambda descriptor: (real(descriptor), reached.set())[0]
            assert reached.wait(60)
        return says("1").answer(request)

    try:
        kshot.evaluate(Fake(answer), QUESTIONS, out=tmp_path / "run")
    finally:
        os.fsync = real
    assert reached.is_set()


def test_the_thread_that_flushes_ends_with_the_run(tmp_path):
    import threading

    before = set(threading.enumerate())
    with RunFolder(tmp_path / "run", {}) as folder:
        folder.put("0a" * 16, "asked", Generated("x"))
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) == before


def test_the_way_of_flushing_is_no_part_of_the_identity(tmp_path):
    kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run", fsync="always")
    kshot.evaluate(says("1"), QUESTIONS, out=tmp_path / "run", fsync="never")
    assert "fsync" not in json.loads((tmp_path / "run" / "spec.json").read_text())["identity"]

"""Runs kshot commands, each in a fork of this process, so that heavy packages are imported once.

It reads one JSON object a line from its input and writes one a line to its output. A command ends by itself, or kills
itself at a point. Whatever it asks of a backend is logged first, by the key under which the journal has the answer.
"""

import json
import os
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path


def log_requests(path):
    """Log every request that a backend takes, also those of a process that is killed a moment later."""
    from kshot.core.engine import RoleStream
    from kshot.core.serialization import digest, key

    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    take = RoleStream.take

    def logged(self, at_most=None):
        taken = take(self, at_most)
        if taken:
            keys = (key(self.backend.fingerprint, digest(request)) for request in taken)
            os.write(log, "".join(f"{each}\n" for each in keys).encode())
        return taken

    RoleStream.take = logged


def resident_kb():
    """Return the memory that this process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def run(command):
    """Run one command in this process, and never return."""
    code = 1
    try:
        os.chdir(command["folder"])
        os.environ.update(command.get("environment", {}))
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        from kshot.cli import main
        from kshot.core import kill_points

        passed, memory = Counter(), {}

        def count(name, last):
            passed[name] += 1
            if name == "samples.writing" and passed[name] % 500 == 0:
                memory[passed[name]] = resident_kb()

        if command.get("kill"):
            kill_points.arm(command["kill"])
        else:
            kill_points.watch(count)
        log_requests("taken.log")
        code = main(command["arguments"])
        Path("passed.json").write_text(json.dumps(passed), encoding="utf-8")
        Path("memory.json").write_text(json.dumps(memory), encoding="utf-8")
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    except BaseException:  # noqa: BLE001 - nothing may return into the loop below
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def loop():
    """Run commands until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        command = json.loads(line)
        pid = os.fork()
        if not pid:
            run(command)
        _, status, used = os.wait4(pid, 0)
        print(
            json.dumps({"code": os.waitstatus_to_exitcode(status), "peak_kb": used.ru_maxrss}), file=replies, flush=True
        )


if __name__ == "__main__":
    for package in sys.argv[1:]:
        import_module(package)
        if package == "torch":
            sys.modules["torch"].set_num_threads(1)
    loop()

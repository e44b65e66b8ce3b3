"""Coverage of what runs inside confined processes.

A confined process cannot report to coverage: it may write no file, keeps no descriptor, has a clean environment, and is
killed rather than left to end. Nothing is opened up for the tests. Instead ``start`` runs in the process before all else,
while it is not confined yet: it maps a file into memory, and from then on notes there each step from one line of kshot's
modules to the next. No confinement stands between a process and its own memory, and what was noted outlives the kill.
``arcs_in`` reads the files. The steps are those that coverage's own tracers count, which a test compares.
"""

import mmap
import os
import re
import sys
from collections import defaultdict
from contextlib import suppress
from opcode import opmap

_BYTES = 1 << 20
"""Several times what any test writes. With every fork the child takes the second half of what its parent has left."""
_MAX_STEPS = 300_000
"""A process that takes more is not watched any longer: a config of millions of values would take too long."""
_YIELD, _RESUME = opmap["YIELD_VALUE"], opmap.get("RESUME")


def booted_with_coverage(boot, folder, root):
    """Return code that starts to note steps and then goes on as ``boot`` does; the confined code finds no trace of it."""
    run = (
        f"private = {{'__name__': 'private'}}; exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec'), private)"
    )
    return f"{run}\nprivate['start']({str(folder)!r}, {str(root)!r}); del private\n{boot}"


# ---- inside the confined process; from the first step on without builtins, which the confined code may replace ----


def start(folder, root):
    """Note the steps that this process and its child take in files below ``root``, in a new file in ``folder``."""
    note, prefix, prefix_length = _notebook(folder), f"{root}/", len(root) + 1
    count, stop = 0, sys.settrace

    def enter(frame, event, arg):
        code = frame.f_code
        if not code.co_filename.startswith(prefix):
            return None
        name, outside = code.co_filename[prefix_length:], -code.co_firstlineno
        at = frame.f_lasti
        begins = at < 0 or (_RESUME is not None and code.co_code[at + 1] == 0)  # else a generator goes on
        last = outside if begins else frame.f_lineno

        def step(frame, event, arg):
            nonlocal last, count
            count += 1
            if count > _MAX_STEPS:
                stop(None)
            elif event == "line":
                note((name, last, frame.f_lineno))
                last = frame.f_lineno
            elif event == "return" and code.co_code[frame.f_lasti] not in (_YIELD, _RESUME):
                note((name, last, outside))
            return step

        return step

    _watch_audit_hooks()
    sys.settrace(enter)


def _watch_audit_hooks():
    """Have the next audit hook, which is the guard, called with tracing on: Python turns it off for others."""
    add = sys.addaudithook

    def add_watched(hook):
        sys.addaudithook = add
        hook.__cantrace__ = True
        add(hook)

    sys.addaudithook = add_watched


def _notebook(folder):
    """Return the function that writes a step down, unless it stands there already."""
    area, known, length = _mapped(f"{folder}/{os.getpid()}-{os.urandom(6).hex()}"), set(), len
    at, end = 0, _BYTES

    def note(step):
        nonlocal at
        if step in known:
            return
        known.add(step)
        line = b"%b %d %d" % (step[0].encode(), step[1], step[2])
        if at + length(line) + 1 < end:
            area[at : at + length(line)] = line
            at += length(line)
            area[at : at + 1] = b"\n"  # by itself, so that a line has it only if the process was not killed within
            at += 1
        else:
            area[end - 1 : end] = b"!"

    def keep_first_half():
        nonlocal end
        end = (at + end) // 2

    def take_second_half():
        nonlocal at
        at = (at + end) // 2

    os.register_at_fork(after_in_parent=keep_first_half, after_in_child=take_second_half)
    return note


def _mapped(path):
    with open(path, "xb+") as file:  # noqa: PTH123 - pathlib takes long to load
        file.truncate(_BYTES)
        copy = os.dup(file.fileno())
        os.close(copy)
        area = mmap.mmap(file.fileno(), _BYTES)
        with suppress(OSError):
            os.close(copy)  # mmap has a descriptor under this number, which the confined code must not find
    return area


# ---- in the process of the tests ----


def arcs_in(folder, root):
    """Return for each file the pairs of lines that were noted, as ``CoverageData.add_arcs`` takes them."""
    lines = set()
    for path in folder.iterdir():
        data = _written(path)
        assert b"!" not in data, "_BYTES is too small"
        lines.update(re.findall(rb"([^\0\n]+)\n", data))  # most lines are in many files
    arcs = defaultdict(set)
    for line in lines:
        name, last, number = line.decode().rsplit(" ", 2)
        arcs[f"{root}/{name}"].add((int(last), int(number)))
    return arcs


def _written(path):
    """Return what a file holds where anything was ever written: most of it is a hole, and takes long to look through."""
    if not hasattr(os, "SEEK_DATA"):
        return path.read_bytes()
    parts, at = [], 0
    with path.open("rb") as file, suppress(OSError):  # there is nothing after the last part
        while True:
            begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            parts.append(os.pread(file.fileno(), at - begin, begin))
    return b"\0".join(parts)

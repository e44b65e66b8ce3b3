"""What every fuzz target shares: how often it runs, a watch over hangs and memory, and the law that it states.

A target is a module ``tests/fuzz/test_NAME.py`` whose tests are decorated with ``fuzz``. pytest runs them for seconds, with
the same examples each time; ``tests/fuzz/run.py`` (``make fuzz``) runs them for minutes, with new examples.
"""

import faulthandler
import functools
import json
import os
import resource
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from kshot.core.errors import KshotError

FUZZING = "KSHOT_FUZZ" in os.environ
"""Whether ``make fuzz`` runs the targets, rather than pytest."""

ROUND_EXAMPLES = 100
"""``make fuzz`` draws this many examples of a test, and goes to the next; each round has a seed of its own."""

HANG_SECONDS = 60
"""An example that takes longer hangs: all of them are small, and take milliseconds."""

MEMORY_BYTES = 3 << 30
"""An example may take this much address space beside what the process has."""

if FUZZING:
    settings.register_profile(
        "fuzz",
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("fuzz")


def fuzz(*strategies, examples=40, **named):
    """Make a test of a target: ``examples`` is how many pytest draws."""

    def decorate(test):
        drawn = given(*strategies, **named)(test)
        drawn.hypothesis.inner_test = watched(drawn.hypothesis.inner_test)
        health = list(HealthCheck) if FUZZING else [HealthCheck.too_slow]
        return settings(max_examples=ROUND_EXAMPLES if FUZZING else examples, suppress_health_check=health)(drawn)

    return decorate


# ---- hangs and memory ----


class Hung(BaseException):
    """An example did not end in time. It is no ``Exception``: neither kshot nor Hypothesis may go on after it."""


def watched(inner):
    """Return a test function that ends with the example on the screen where it hangs or takes too much memory."""

    @functools.wraps(inner)
    def run(*args, **kwargs):
        watched.examples += 1
        with _alarm(), _limited_memory():
            try:
                return inner(*args, **kwargs)
            except Hung as exc:
                raise Hung(f"{exc}; the example: {args!r:.4000} {kwargs!r:.4000}") from exc

    return run


watched.examples = 0


@contextmanager
def _alarm():
    def end(*_):
        raise Hung(f"the example did not end in {HANG_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    if FUZZING:  # code in C that never looks at signals ends here, with a traceback; the seed repeats it
        faulthandler.dump_traceback_later(2 * HANG_SECONDS, exit=True)
    try:
        yield
    finally:
        if FUZZING:
            faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _limited_memory():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is None:  # no Linux: the limit would be a guess
        yield
        return
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ---- the law ----


class Told:
    """What stands for the result where kshot refused: its error."""

    def __init__(self, error):
        self.error = error


def told(call, *args, kind=KshotError, where=None, **kwargs):
    """Return the result of a call, or ``Told`` if it raised an error of this kind that says what (and where) is wrong.

    Any other exception goes through, and fails the test.
    """
    try:
        return call(*args, **kwargs)
    except kind as exc:
        assert exc.what.strip(), "an error must say what is wrong"
        assert where is None or str(where) in str(exc), f"{exc} does not say where"
        return Told(exc)


@contextmanager
def folder():
    """Make a folder for one example; Hypothesis runs many in one test, so ``tmp_path`` would be shared by them."""
    path = Path(tempfile.mkdtemp(prefix="kshot-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# ---- strategies that many targets use ----

ODD = [
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "\ufeff",
    "\u2028",
    "\u202e",
    "\ud800",
    "\U0001f600",
    "é",
    "中文",
    "{",
    "}",
    "{{",
    "}}",
    "{%",
    "%}",
    "$",
    "\\",
    "\\n",
    "'",
    '"',
    "../x",
    "/",
    "~",
    "-1",
    "1e999",
    "nan",
    "inf",
    "Infinity",
    "٣",
    "²",
    "9" * 400,
    "1_0",
    "None",
    "null",
    "\r",
    "\r\n",
    "\t",
    "\x85",
    "\x0b",
    "a,b",
    "a=b",
    "=1+1",
]
"""Texts at which parsers stumble."""

odd_text = st.sampled_from(ODD)
any_text = st.one_of(st.text(max_size=20), odd_text, st.tuples(odd_text, st.text(max_size=8), odd_text).map("".join))
"""Any text, with surrogates."""

plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
"""Text that can be written as UTF-8."""

json_leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    any_text,
)


@st.composite
def json_values(draw, depth=3):
    """Draw a value that JSON has, with NaN and infinities, as Python's ``json`` writes them."""

    def value(depth):
        kind = draw(st.integers(0, 5)) if depth else 5
        if kind == 0:
            return [value(depth - 1) for _ in range(draw(st.integers(0, 3)))]
        if kind == 1:
            return {draw(any_text): value(depth - 1) for _ in range(draw(st.integers(0, 3)))}
        return draw(json_leaf)

    return value(depth)


HUGE_INT = "9" * 5000
"""More digits than Python converts by default."""

DEEP = "[" * 100_000 + "]" * 100_000


def json_bytes(value):
    """Write a value as JSON bytes, surrogates as escapes."""
    return json.dumps(value).encode()


@st.composite
def mutated(draw, originals, most=4):
    """Draw bytes that are nearly one of the originals: some flipped, cut out, doubled or put in."""
    raw = bytearray(draw(originals))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(["flip", "cut", "put", "double", "truncate", "word"])):
            case "flip" if at < len(raw):
                raw[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del raw[at : at + draw(st.integers(1, 8))]
            case "put":
                raw[at:at] = draw(st.binary(max_size=4))
            case "double":
                raw[at:at] = raw[at : at + draw(st.integers(1, 30))]
            case "truncate":
                del raw[at:]
            case "word":
                words = [text.encode("utf-8", "surrogatepass") for text in ODD]
                raw[at:at] = draw(
                    st.sampled_from([*words, b"null", b"true", b"[", b"]", b"\n", b"NaN", HUGE_INT.encode()])
                )
    return bytes(raw)


@st.composite
def grafted(draw, value, odds=6):
    """Draw a JSON value that is this one, but for a few places that hold something else or are gone."""
    leaves = json_values(depth=1)

    def walk(node):
        if draw(st.integers(0, odds)) == 0:
            return draw(leaves)
        if isinstance(node, dict):
            kept = {key: walk(each) for key, each in node.items() if draw(st.integers(0, 3 * odds)) != 0}
            return kept | ({draw(any_text): draw(leaves)} if draw(st.integers(0, 2 * odds)) == 0 else {})
        if isinstance(node, list):
            return [walk(each) for each in node if draw(st.integers(0, 3 * odds)) != 0]
        return node

    return walk(value)

"""What many tests share: tiny models, made once; Ctrl-C; how Hypothesis looks for examples."""

import functools
import gc
import importlib
import os
import pkgutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cases import ALL

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment of vLLM has pytest alone
    settings = None

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Nothing here depends on how busy the machine is: neither the time of one example nor that of making them fails a test.
# The examples follow from the test alone, so that a test which fails fails again, for everybody, and a commit is not
# blamed for a case that an earlier one has met by chance; no example is kept in a file, and the line that repeats a
# failure is printed. New cases: pytest --hypothesis-profile=default
if settings is not None:
    settings.register_profile(
        "kshot",
        max_examples=100 if ALL else 30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
        database=None,
        print_blob=True,
    )
    settings.load_profile("kshot")


HERE = Path(__file__).parent
LONG_FIRST = ("e2e", "parity", "chaos", "browser", "test_docs.py", "loggers", "backends")
"""Folders and files of the tests that take longest: begun first, they do not end when all other workers are idle."""
UNMEASURED = (
    "backends/pool/test_ends.py",
    "backends/pool/test_executor.py",
    "backends/pool/test_prefixes.py",
    "backends/pool/test_ray.py",
    "backends/pool/test_runs.py",
    "backends/server/test_batch_replies.py",
    "browser",
    "chaos",
    "cli/test_hostile_text.py",
    "cli/test_signals.py",
    "cli/test_silent_options.py",
    "configs/test_hostile_homes.py",
    "e2e",
    "escape",
    "fuzz",
    "index/test_store.py",
    "loggers/test_tools.py",
    "lookup/test_training.py",
    "parity",
    "passages/test_chunkers.py",
    "passages/test_source.py",
    "runs/test_code.py",
    "runs/test_damaged_journals.py",
    "runs/test_full_disk.py",
    "runs/test_sessions.py",
    "sandbox/test_program.py",
    "sandbox/test_seccomp.py",
    "statistics/test_simulations.py",
    "test_docs.py",
    "test_layers.py",
    "test_planning.py",
    "test_reporting.py",
    "viewer/test_comparisons.py",
)
"""Folders and files whose tests run once more, and often, what other tests run: to measure them takes minutes.

Less than one percent of the lines and branches is reached by these tests alone.
"""


def _place(path):
    """Return the folder or file, right below that of the tests, which a test is in."""
    return path.relative_to(HERE).parts[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect unmeasured, and without the garbage collector, which would look at thousands of tests again and again."""
    measured = _measured()
    if measured is not None:
        _import_every_module()
        measured.stop()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor does it later
        gc.enable()
        if measured is not None:
            measured.start()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session):
    """Leave out the coverage of a process that was killed while it wrote it, before all is put together."""
    result = yield
    measured = _measured()
    if measured is not None and not hasattr(session.config, "workerinput"):
        from tests.broken_coverage import drop_broken

        drop_broken(measured.config.data_file)
    return result


def pytest_collection_modifyitems(items):
    """Put the long tests first; each file stays whole, since ``make test`` hands whole files to its workers."""
    rank = {name: at for at, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: rank.get(_place(item.path), len(rank)))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """No test reads or writes the cache of the user, or of another run of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSHOT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """What this process writes is not waited for: no test survives a power cut. What tests of this look at is the call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # it refuses what is no descriptor, too
        yield


@pytest.fixture(scope="session", autouse=True)
def one_parser():
    """The parser of the command line is made once and not for each of thousands of commands; it keeps no state."""
    commands = importlib.import_module("kshot.cli.main")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "parser", functools.cache(commands.parser))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_session():
    """ONNX Runtime reads the built-in model once for each way to compute it, and not for each of hundreds of runs."""
    from kshot.backends.embedded import Embedded

    read, opened = Embedded._session.func, {}

    def session(model):
        import onnxruntime  # noqa: F401 - a test may say that it is not installed

        chosen = (model._threads, model._deterministic)
        if chosen not in opened:
            opened[chosen] = read(model)
        return opened[chosen]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedded, "_session", property(session))
        yield


@pytest.fixture(scope="session", autouse=True)
def confined_coverage(tmp_path_factory):
    """Where coverage is measured, it counts what runs inside confined processes too. Yields how they start without."""
    from kshot.sandbox import process, program
    from tests.confined_coverage import arcs_in, booted_with_coverage

    plain = process._BOOT
    measured = _measured()
    if measured is None:
        yield plain
        return
    folder = tmp_path_factory.mktemp("confined_coverage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_BOOT", booted_with_coverage(plain, folder, process._ROOT))
        patch.setattr(program, "bubblewrap", lambda: None)  # its file system has no place for the notes
        yield plain
    measured.get_data().add_arcs(arcs_in(folder, process._ROOT))


@pytest.fixture(scope="module", autouse=True)
def measured_elsewhere(request, confined_coverage):
    """Measure no coverage in the folders that need none: not here, and not in processes that their tests start."""
    measured = _measured()
    if measured is None or not any(request.path.is_relative_to(HERE / place) for place in UNMEASURED):
        yield
        return
    from kshot.sandbox import process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_BOOT", confined_coverage)
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        measured.stop()
        yield
        measured.start()


def _import_every_module():
    """Import all of kshot while that is measured: a module which is first imported later has lines that never run again."""
    import kshot

    for found in pkgutil.walk_packages(kshot.__path__, "kshot."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(found.name)


def _measured():
    """Return what measures the coverage of this process, if anything does."""
    try:
        from coverage import Coverage
    except ImportError:  # the environment of vLLM has pytest alone
        return None
    return Coverage.current()


@pytest.fixture
def default_signals():
    """Ctrl-C raises ``KeyboardInterrupt``, and ends the processes that the test starts, as does SIGHUP.

    A suite that was started with these ignored (by ``nohup``, or in the background of a shell script) hands that on to
    every process, as all programs do. What tests them asks for the default here.

    These processes are not measured: a signal that arrives while coverage holds the lock of its data leaves it held, and
    then every thread waits for it.
    """
    handlers = {signal.SIGINT: signal.default_int_handler}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_runtest_setup(item):
    """Skip a test that needs a package of one of kshot's extras which is not installed here."""
    from kshot.core.extras import PACKAGES, is_installed

    for name in (name for mark in item.iter_markers("needs") for name in mark.args):
        if not is_installed(name):
            pytest.skip(f"{name} is not installed: kshot[{PACKAGES[name].extra}]")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    """A folder with a random Llama of two layers and its tokenizer."""
    pytest.importorskip("torch", reason="torch is not installed: kshot[hf]")
    from tests.tiny_models import build

    return build("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory):
    """The same with a chat template."""
    pytest.importorskip("torch", reason="torch is not installed: kshot[hf]")
    from tests.tiny_models import build

    return build("llama", tmp_path_factory.mktemp("models") / "chat", chat=True)

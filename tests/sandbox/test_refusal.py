"""Where a system cannot confine programs, kshot runs none, unless the user says so; nothing else can say it."""

import json
import sys
from functools import cache, partial

import pytest

import kshot
from kshot.core.errors import UsageError
from kshot.core.records import Generated
from kshot.rescoring import score
from kshot.sandbox import process, program as sandbox
from tests.datasets.fakes import Fake, generation

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="programs are confined on Linux alone")
RIGHT, TESTS = "def f(x):\n    return x + 1", "assert f(1) == 2"
BWRAP = sandbox.bubblewrap


@pytest.fixture(autouse=True)
def on_own_layers(monkeypatch, tmp_path_factory):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("sandboxes")))
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 60.0)
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    sandbox._try_out.cache_clear()
    yield
    sandbox._try_out.cache_clear()


@pytest.mark.parametrize(
    ("layers", "lacking"),
    [
        (("guard",), "lacks seccomp, and Landlock (Linux 6.2 or later) or mount namespaces."),
        ((), "lacks seccomp, and Landlock (Linux 6.2 or later) or mount namespaces."),
        (("seccomp", "guard"), "lacks Landlock (Linux 6.2 or later) or mount namespaces."),
    ],
)
def test_a_system_that_lacks_layers_runs_nothing(layers, lacking, tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(UsageError) as raised:
        sandbox.run(f"open({str(mark)!r}, 'w')", TESTS, 60.0, layers=layers)
    assert lacking in str(raised.value)
    assert "--unsafe-programs" in str(raised.value)
    assert not mark.exists()


@LINUX
def test_files_alone_are_not_enough():
    with pytest.raises(UsageError, match="lacks seccomp"):
        sandbox.run(RIGHT, TESTS, 60.0, layers=("landlock", "namespaces"))


def test_the_user_may_want_it_nevertheless():
    assert sandbox.run(RIGHT, TESTS, 60.0, layers=("guard",), unsafe=True).passed
    assert not sandbox.run("def f(x):\n    return x", TESTS, 60.0, layers=("guard",), unsafe=True).passed


# ---- runs ----


@pytest.fixture
def without_layers(monkeypatch):
    monkeypatch.setattr(sandbox, "run", partial(sandbox.run, layers=("guard",)))


def coding():
    return generation([{"q": "?", "target": TESTS}], metrics=[kshot.PassAtK(timeout=60.0)])


def test_a_run_is_refused_before_the_model_is_asked(without_layers):
    model = Fake(lambda r: Generated(RIGHT))
    with pytest.raises(UsageError, match="does not run programs that a model wrote on this system, which lacks"):
        kshot.evaluate(model, coding())
    assert model.asked == []


def test_a_run_that_is_unsafe_says_so(without_layers):
    result = kshot.evaluate(Fake(lambda r: Generated(RIGHT)), coding(), unsafe_programs=True)
    assert result.results[0]["value"] == 100.0
    assert sandbox.UNSAFE_NOTE in result.notes


def test_nothing_is_noted_where_the_system_confines_programs(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "_try_out", cache(lambda: None))
    dataset = coding()
    monkeypatch.setattr(sandbox, "run", partial(sandbox.run, layers=("guard",)))
    run = {"out": tmp_path / "run", "unsafe_programs": True}
    assert sandbox.UNSAFE_NOTE not in kshot.evaluate(Fake(lambda r: Generated(RIGHT)), dataset, **run).notes
    assert sandbox.UNSAFE_NOTE not in score(tmp_path / "run", dataset, unsafe_programs=True).notes


def test_a_preview_runs_nothing(without_layers):
    assert kshot.preview(coding())


def test_a_run_folder_cannot_say_that_it_may_be_unsafe(without_layers, tmp_path):
    dataset = coding()
    kshot.evaluate(Fake(lambda r: Generated(RIGHT)), dataset, out=tmp_path / "run", unsafe_programs=True)
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    assert spec["options"]["unsafe_programs"] is True
    assert "unsafe_programs" not in spec["identity"]
    with pytest.raises(UsageError, match="which lacks"):
        score(tmp_path / "run", dataset)
    assert sandbox.UNSAFE_NOTE in score(tmp_path / "run", dataset, unsafe_programs=True).notes


def test_a_dataset_cannot_say_it_either(without_layers):
    with pytest.raises(UsageError, match="unsafe_programs"):
        kshot.evaluate(Fake(lambda r: Generated(RIGHT)), "humaneval,unsafe_programs=yes")


# ---- bwrap ----


def test_bwrap_is_used_where_it_works(confined_coverage, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "_BOOT", confined_coverage)  # what counts lines does not lie in its file system
    BWRAP.cache_clear()
    if BWRAP() is None:
        pytest.skip("there is no bwrap here, or it does not work")
    monkeypatch.setattr(sandbox, "bubblewrap", BWRAP)
    assert sandbox.run(RIGHT, TESTS, 60.0).passed
    (tmp_path / "canary").write_text("canary")
    look = f"import os\ndef f(x):\n    return [os.path.exists(path) for path in ({str(tmp_path)!r}, '/proc/self', '/etc/passwd', '/usr/bin')]"
    for layers in (sandbox.LAYERS, ("namespaces", "seccomp")):  # with kshot's own layers, and by what bwrap shows alone
        outcome = sandbox.run(look, "assert not any(f(1)), f(1)", 60.0, layers=layers)
        assert outcome.passed or sys.base_prefix == "/usr", outcome.reason


@pytest.mark.parametrize("fault", ["missing", "fails"])
def test_a_bwrap_that_does_not_work_is_not_used(fault, monkeypatch, tmp_path):
    if fault == "fails":
        (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    BWRAP.cache_clear()
    assert BWRAP() is None
    BWRAP.cache_clear()

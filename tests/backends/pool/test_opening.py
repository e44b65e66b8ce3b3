"""What is refused before a worker starts, how many workers there are, and what each sees of the machine."""

import errno
import json
import os
import subprocess

import pytest

import kshot
from kshot.backends.pool import opening, processes
from kshot.backends.pool.opening import open_pool
from kshot.core.errors import BackendError, UsageError
from kshot.core.watcher import Watcher
from kshot.settings import settings_from
from tests.backends.pool.pooled import write
from tests.commands import kshot as command


class Noted(Watcher):
    """Keeps the notes."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


PLANETS = "examples/planets.py:PlanetNames"


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("openai:m", {"workers": 2, "base_url": "http://localhost:1/v1"}, "it is behind a server, .* Use --max-conc"),
        ("fts5", {"workers": 2}, "its index is not built in shards, .* Leave --workers out"),
        ("bm25:disk", {"workers": 2}, "its index is not built in shards"),
        ("embedded", {"workers": "many"}, "--workers is 'many'; it must be auto, or 1 or more"),
        ("embedded", {"workers": 0}, "--workers is '0'; it must be auto, or 1 or more"),
        ("embedded", {"workers": "99999999999"}, "--workers is 99999999999; it must be 4,096 or less"),
        ("embedded", {"workers": "\u0663"}, "it must be auto, or 1 or more"),
        ("embedded", {"workers": 2, "ray": " "}, "--ray is empty"),
        ("embedded", {"gpus_per_worker": 1}, "--gpus-per-worker needs --workers"),
        (lambda prompt: prompt, {"workers": 2}, "it cannot be sent to worker processes"),
    ],
)
def test_refused(model, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    with pytest.raises(UsageError, match=message):
        kshot.evaluate(model, "handbook" if model in ("fts5", "bm25:disk") else "capitals.py:Cities", **options)


def test_recordings_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    (tmp_path / "answers.jsonl").write_text(json.dumps({"prompt": "a", "response": "b"}) + "\n")
    with pytest.raises(UsageError, match="it computes nothing, and --workers is for models that do"):
        kshot.evaluate("replay:answers.jsonl", "capitals.py:Cities", workers=2)


def test_what_only_the_main_script_has_is_refused(tmp_path, monkeypatch):
    from kshot.backends.adapters import CallableModel
    from kshot.backends.pool.model import PackedObject

    def here(prompt):
        return prompt

    here.__module__, here.__qualname__ = "__main__", "here"
    with pytest.raises(UsageError, match="'here' is part of the main script, which workers do not run"):
        PackedObject.of(CallableModel(here))


def test_the_command_line_says_it_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    done = command(capsys, "run", "-m", "anthropic:m", "-d", "capitals.py:Cities", "--workers", "2")
    assert (done.code, done.out) == (2, "")
    assert "anthropic:m: it is behind a server" in done.err


def test_what_is_no_number_of_workers_is_refused_where_no_model_is_asked_too(capsys):
    done = command(capsys, "preview", "-d", PLANETS, "--workers", "x")
    assert (done.code, done.out) == (2, "")
    assert "--workers is 'x'; it must be auto, or 1 or more" in done.err


def test_a_system_that_has_no_room_for_the_workers_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    started, start = [], subprocess.Popen

    def limited(*arguments, **options):
        if len(started) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", limited)
    with pytest.raises(
        BackendError, match=r"^worker 3 of 4 cannot be started: .*Too many open files\. Use fewer --work"
    ):
        kshot.evaluate("world.py:Noting", "capitals.py:Cities", workers=4)
    assert [process.returncode for process in started] == [-9, -9]


def test_a_worker_that_cannot_be_started_again_is_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    calls, start = [], subprocess.Popen

    def limited(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return start(*arguments, **options)

    monkeypatch.setattr(processes.subprocess, "Popen", limited)
    said = Noted()
    result = kshot.evaluate(
        "world.py:DiesOnce,processes=2", "capitals.py:Cities", dataset_path="20", workers=2, watcher=said
    )
    assert (result.results[0]["n"], len(calls)) == (20, 5)
    assert any("died 3 times without any work, and is not started again: it cannot be" in note for note in said.notes)


def test_what_a_model_prints_is_neither_kept_nor_in_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    temporary = tmp_path / "temporary"
    monkeypatch.setenv("TMPDIR", str(temporary))  # there is no such folder: nothing may need it
    (tmp_path / "loud.py").write_text(
        "import os, sys\n"
        "def loud(prompt):\n"
        "    print('x' * 10_000_000)\n    print('y' * 10_000_000, file=sys.stderr)\n    os.system('echo z >&2')\n"
        "    return 'Paris'\n"
    )
    assert kshot.evaluate("loud.py:loud", "capitals.py:Cities", dataset_path="5", workers=2).results[0]["n"] == 5


def test_workers_are_no_part_of_the_identity():
    settings = settings_from({"workers": 4, "gpus_per_worker": 1})
    assert settings.workers == "4"
    assert settings.identity() == {}


def test_gpus_that_a_process_may_use(tmp_path):
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).write_text("")
    assert opening.visible_gpus({}, tmp_path) == ["0", "2", "10"]
    assert opening.visible_gpus({"CUDA_VISIBLE_DEVICES": "3,GPU-1f, 5"}, tmp_path) == ["3", "GPU-1f", "5"]
    assert opening.visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == []
    assert opening.visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, tmp_path) == ["1"]


def test_each_worker_sees_gpus_of_its_own():
    def seen(count, gpus, each):
        found = opening.environments(count, gpus, each, deterministic=False)
        return [environment["CUDA_VISIBLE_DEVICES"] for environment in found]

    assert opening.worker_count("auto", 8, 1, 99) == 8
    assert opening.worker_count("auto", 8, 2, 99) == 4
    assert seen(4, ["0", "1", "2", "3"], 1) == ["0", "1", "2", "3"]
    assert seen(2, ["0", "1", "2", "3"], 2) == ["0,1", "2,3"]
    assert seen(4, ["0", "1"], 1) == ["0", "1", "0", "1"], "more workers than GPUs share them"
    with pytest.raises(UsageError, match="each worker needs 3 GPUs, and this machine has 2"):
        opening.environments(1, ["0", "1"], 3, deterministic=False)


def test_gpus_for_workers_whose_model_takes_none_are_refused(monkeypatch):
    monkeypatch.setattr(opening, "visible_gpus", lambda: ["0", "1"])
    for model in ("embedded", "hf:model,device=cuda:1"):
        with pytest.raises(UsageError, match="each worker needs 1 GPU, and the model would not use them"):
            open_pool(model, {}, settings_from({"workers": 2, "gpus_per_worker": 1}), print)


def test_without_gpus_the_cores_are_divided(monkeypatch):
    monkeypatch.setattr(opening, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert opening.worker_count("auto", 0, 0, 8) == 8
    assert [each["OMP_NUM_THREADS"] for each in opening.environments(3, [], 0, deterministic=False)] == ["2"] * 3
    assert opening.environments(3, [], 0, deterministic=True) == [{}] * 3, "its bits depend on the threads"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert opening.environments(3, [], 0, deterministic=False) == [{}] * 3, "the user has decided"


@pytest.mark.parametrize(
    ("spec", "options", "uses"),
    [
        ("embedded", {}, False),
        ("hf:m", {}, True),
        ("hf:m,device=cpu", {}, False),
        ("hf:m", {"device": "cuda"}, True),
        ("hf:m", {"device": "cuda:1"}, False),
    ],
)
def test_models_that_take_the_gpu_of_their_process(spec, options, uses):
    assert opening.uses_gpus(spec, options) is uses


def test_a_worker_has_its_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    (tmp_path / "says.py").write_text("import os\ndef gpu(prompt):\n    return os.environ['CUDA_VISIBLE_DEVICES']\n")
    result = kshot.evaluate("says.py:gpu", "capitals.py:Cities", dataset_path="4", workers=1, out="run")
    assert result.results[0]["n"] == 4
    assert {row["answer"] for row in result.iter_samples()} == {"4"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,7"

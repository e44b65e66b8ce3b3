"""Whole runs with ``--workers``: the same files as without, also where workers or the run itself are killed."""

import json
import os
import signal
import subprocess
import sys
from importlib import metadata

import pytest

import kshot
from kshot.runs.spec_file import recorded_versions
from tests.backends.pool.pooled import answered, asked_again, is_alive, lines, pids, same_files, wait_until_gone, write
from tests.commands import kshot_process

SAMPLES = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, monkeypatch)


def run(model, out, **options):
    options = {"dataset_path": str(SAMPLES), "num_shots": 2, "report": False, **options}
    notes = []

    class Notes(kshot.Watcher):
        def note(self, text):
            notes.append(text)

    result = kshot.evaluate(model, ["capitals.py:Capitals", "capitals.py:Cities"], out=out, watcher=Notes(), **options)
    return result, notes


def test_the_files_are_those_of_a_plain_run(folder):
    for out, more in (("plain", {}), ("pooled", {"workers": 2})):
        run("embedded", out, deterministic=True, num_shots=0, dataset_path="10", max_tokens=4, **more)
    assert same_files(folder / "plain", folder / "pooled")
    assert sorted(answered(folder / "plain")) == sorted(answered(folder / "pooled"))
    # the option is no part of the run: a plain command goes on where workers stopped, and asks nothing
    before = (folder / "pooled" / "journal.jsonl").read_bytes()
    run("embedded", "pooled", deterministic=True, num_shots=0, dataset_path="10", max_tokens=4)
    assert (folder / "pooled" / "journal.jsonl").read_bytes() == before


@pytest.mark.needs("torch", "transformers")
def test_the_files_of_hf_are_those_of_a_plain_run(folder, tiny_llama):
    for out, more in (("plain", {}), ("pooled", {"workers": 2})):
        run(f"hf:{tiny_llama}", out, deterministic=True, num_shots=1, dataset_path="10", max_tokens=4, **more)
    assert same_files(folder / "plain", folder / "pooled")
    specs = [json.loads((folder / out / "spec.json").read_text())["models"] for out in ("plain", "pooled")]
    assert specs[0] == specs[1]


@pytest.mark.needs("torch", "transformers")
@pytest.mark.parametrize("end", ["done", "killed"])
def test_the_versions_are_those_of_the_workers(folder, tiny_llama, end):
    """The run itself never loads torch; a process of its own shows that."""
    environment = {**os.environ, "KSHOT_KILL_POINT": "journal.written 1" if end == "killed" else ""}
    arguments = ("run", "-m", f"hf:{tiny_llama}", "-d", "capitals.py:Capitals", "--dataset-path", "6", "--out", "run")
    found = kshot_process(*arguments, "--workers", "1", cwd=folder, env=environment)
    assert found.code == (0 if end == "done" else -signal.SIGKILL), found.err
    versions = recorded_versions(json.loads((folder / "run" / "spec.json").read_text()))
    assert {name: versions.get(name) for name in ("torch", "transformers")} == {
        name: metadata.version(name) for name in ("torch", "transformers")
    }


def test_one_of_four_workers_is_killed(folder):
    (folder / "killed").write_text("")
    run("world.py:DiesOnce,processes=1", "plain")
    for name in ("killed", "pids", "asked"):
        (folder / name).unlink()
    result, notes = run("world.py:DiesOnce,processes=4", "pooled", workers=4)
    wait_until_gone(folder)
    assert (folder / "killed").exists()
    assert len(set(pids(folder))) in (4, 5), "the others may be done before the fifth is there"
    assert not any(row["failed"] for row in result.results)
    for name in ("samples.jsonl", "summary.json"):
        plain, pooled = ((folder / run / name).read_text() for run in ("plain", "pooled"))
        assert plain.replace("processes=1", "processes=4") == pooled
    assert any("died and starts again: it was killed by SIGKILL" in note for note in notes)
    assert len(answered(folder / "pooled")) == len(set(answered(folder / "pooled"))) == 2 * SAMPLES
    assert len(lines(folder / "asked")) <= 2 * SAMPLES + asked_again("\n".join(notes)), "only what the dead one had"


def test_a_request_that_kills_its_workers_fails_alone(folder):
    result, notes = run("world.py:Killer", "run", workers=2)
    wait_until_gone(folder)
    rows = [json.loads(line) for line in (folder / "run" / "samples.jsonl").read_text().splitlines()]
    failed = [row for row in rows if "worker_died" in json.dumps(row)]
    assert len(rows) == 2 * SAMPLES
    assert len(failed) == 2, "one sample of each dataset asks it"
    assert len(lines(folder / "kills")) == 6
    assert [row["failed"] for row in result.results] == [1] * len(result.results)
    assert sum("died and starts again" in note for note in notes) == 6


def test_the_run_itself_is_killed_and_resumed(folder):
    arguments = ["run", "-m", "world.py:Noting", "-d", "capitals.py:Capitals", "--dataset-path", "300", "-k", "2"]

    def started(out, point="", **more):
        command = [sys.executable, "-m", "kshot", *arguments, "--out", out, *more.get("flags", ())]
        environment = {**os.environ, "KSHOT_KILL_POINT": point}
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=600)

    assert started("plain").returncode == 0
    for number in (1, 90):
        (folder / "asked").unlink()
        killed = started("pooled", f"journal.written {number}", flags=["--workers", "2"])
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        wait_until_gone(folder)
    done = answered(folder / "pooled")
    (folder / "asked").unlink()
    final = started("pooled", flags=["--workers", "2"])
    assert final.returncode == 0, final.stderr
    assert not set(done) & set(lines(folder / "asked")), "what was answered is not asked again"
    assert len(done) + len(lines(folder / "asked")) == 300
    assert same_files(folder / "plain", folder / "pooled")


def test_the_judge_works_while_the_workers_do(folder):
    (folder / "slow.py").write_text(
        "import os, time\nfrom pathlib import Path\nHERE = Path(os.environ['POOL_TEST_FOLDER'])\n"
        "def model(prompt):\n"
        "    while 'Cuba0' not in prompt and not (HERE / 'judged').exists():\n        time.sleep(0.005)\n"
        "    return 'Paris'\n"
        "def judge(prompt):\n    (HERE / 'judged').write_text('')\n    return '[[7]]'\n"
    )
    (folder / "judged.py").write_text(
        "from kshot import GPTEval\nfrom capitals import Cities\nclass Judged(Cities):\n    metrics = [GPTEval()]\n"
    )
    result = kshot.evaluate("slow.py:model", "judged.py:Judged", dataset_path="20", judge="slow.py:judge", workers=1)
    assert (result.results[0]["n"], result.results[0]["value"]) == (20, 7.0)


def test_models_of_python_travel(folder):
    from kshot.core.registry import load_plugin_file

    world = load_plugin_file(folder / "world.py")
    for given in (world.Noting(), world.function):
        (folder / "pids").write_text("")
        result = kshot.evaluate(given, "capitals.py:Cities", dataset_path="8", workers=2)
        assert result.results[0]["n"] == 8
        assert os.getpid() not in pids(folder)
        assert not [pid for pid in pids(folder) if is_alive(pid)]


def test_the_prompt_is_counted_by_a_worker(folder):
    """``--max-example-tokens`` asks the model, in whichever process it is."""
    options = {"num_shots": 5, "max_example_tokens": 40, "dataset_path": "10", "deterministic": True, "max_tokens": 4}
    for out, more in (("plain", {}), ("pooled", {"workers": 2})):
        run("embedded", out, **options, **more)
    assert same_files(folder / "plain", folder / "pooled")

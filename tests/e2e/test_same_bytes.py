"""Equal runs of ``hf:`` write equal bytes on a CPU; with ``--deterministic`` also killed ones, at any batch size."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cases import ALL
from tests.commands import kshot_process
from tests.e2e.test_killed import ANSWERING, kills_while_answering, same_files

pytest.importorskip("torch", reason="torch is not installed: kshot[hf]")

SAMPLES = 12
MIXED = '''
from kshot import Em, GenerationDataset, MultipleChoiceDataset, Perplexity

WORDS = "hello people say that the quick brown fox of Zürich jumps over the lazy dog and the answer is Paris".split()


def text(number, count):
    return " ".join(WORDS[(number * 7 + at * at) % len(WORDS)] for at in range(count))


class Mixed:
    evaluation_set, example_set = "test", "dev"

    def load_raw_dataset(self, dataset_path, *rest):
        self.evaluation_data = [{"number": number} for number in range(int(dataset_path))]
        self.example_data = [{"number": 100 + number} for number in range(9)]


class Choices(Mixed, MultipleChoiceDataset):
    """Options of different lengths."""

    instruction = "Question: {{question}}?\\nAnswer:"

    def format_instance(self, row):
        number = row["number"]
        options = [text(number + at, 1 + (number + 3 * at) % 6) for at in range(2 + number % 3)]
        return {"question": text(number, 4 + number % 9), "options": options, "target_idx": number % 2}


class Texts(Mixed, GenerationDataset):
    """Sampled texts of different lengths."""

    instruction = "Say: {question}\\n"
    metrics = [Em()]
    extra_model_args = {"temperature": 0.8, "top_p": 0.9, "max_tokens": 9}

    def format_instance(self, row):
        return {"question": text(row["number"], 3 + row["number"] % 9), "target": text(row["number"], 2)}


class Measured(Mixed, GenerationDataset):
    """Texts whose perplexity is measured."""

    instruction = "Go on: {question}"
    metrics = [Perplexity()]

    def format_instance(self, row):
        return {"question": text(row["number"], 5), "target": text(row["number"] + 1, 3 + row["number"] % 12)}
'''

# Importing torch takes seconds, so one process imports it and every run is a fork of that one.
DRIVER = """
import json, os, sys
import torch
torch.set_num_threads(1)
import kshot
from kshot.core import kill_points

model, runs = sys.argv[1], json.loads(sys.argv[2])
kshot.evaluate(f"hf:{model}", "mixed.py:Choices", dataset_path="1")  # all imports done

for run in runs:
    pid = os.fork()
    if not pid:
        if kill := run.pop("kill", None):
            kill_points.arm(f"{kill[0]} {kill[1]}")
        torch.set_num_threads(run.pop("threads", 1))
        datasets = [f"mixed.py:{name}" for name in run.pop("datasets", ("Choices", "Texts", "Measured"))]
        kshot.evaluate(f"hf:{model}", datasets, num_shots=4, **run)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


SIZES = (1, 3, 16, 64)
KILLS = [
    *kills_while_answering(ANSWERING, 2 if ALL else 1, up_to=3 * SAMPLES // 9),
    *(("hf.computed", 1), ("hf.computed", 3), ("samples.written", 1), ("samples.replaced", 1)),
]
DETERMINISTIC = [
    *({"out": f"size {size}", "batch_size": size} for size in SIZES),
    *({"out": "killed", "kill": kill, "batch_size": SIZES[at % 4]} for at, kill in enumerate(KILLS)),
    *({"out": "killed"}, {"out": "part", "datasets": ["Measured"]}, {"out": "reusing", "reuse": "part"}),
    {"out": "reversed", "datasets": ["Measured", "Texts", "Choices"], "batch_size": 5},
    *({"out": f"two threads, size {size}", "threads": 2, "batch_size": size} for size in (1, 16)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_llama):
    """A folder with a plain run, and with all deterministic ones."""
    folder = tmp_path_factory.mktemp("same_bytes")
    for name, code in (("mixed", MIXED), ("driver", DRIVER)):
        (folder / f"{name}.py").write_text(code)
    runs = [
        {"out": "first"},
        *({"out": f"two threads {at}", "threads": 2} for at in range(2)),
        *({**run, "deterministic": True} for run in DETERMINISTIC),
    ]
    done = subprocess.run(
        [sys.executable, "driver.py", str(tiny_llama), json.dumps([{"dataset_path": str(SAMPLES), **run} for run in runs])],
        cwd=folder, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    ends = [int(line) for line in done.stdout.splitlines()]
    assert ends == [-signal.SIGKILL if "kill" in run else 0 for run in runs]
    return folder


def answers(run):
    """Return the lines of the journal by their keys."""
    lines = (run / "journal.jsonl").read_text().splitlines()
    found = {json.loads(line)["key"]: line for line in lines}
    assert len(found) == len(lines)
    assert not [line for line in lines if '"failed"' in line]
    return found


def content(path):
    """Return the bytes of a file; of ``spec.json`` all but the sessions, which say when and how each run was started."""
    if path.name != "spec.json":
        return path.read_bytes()
    spec = json.loads(path.read_text())
    assert len(spec.pop("sessions")) == 1
    return json.dumps(spec)


def test_two_equal_runs(folder, tiny_llama):
    command = ["run", "-m", f"hf:{tiny_llama}", "--dataset-path", SAMPLES, "-k", 4, "--out", "second"]
    for name in ("Choices", "Texts", "Measured"):
        command += ["-d", f"mixed.py:{name}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}
    assert kshot_process(*command, cwd=folder, env=environment).code == 0
    files = sorted(path.name for path in (folder / "first").iterdir())
    assert files == ["journal.jsonl", "report.html", "samples.jsonl", "spec.json", "summary.json"]
    files.remove("report.html")  # it has the name of its folder and the times of its run
    for name in files:
        assert content(folder / "first" / name) == content(folder / "second" / name), name


def test_two_equal_runs_with_two_threads(folder):
    one, two = folder / "two threads 0", folder / "two threads 1"
    for path in one.iterdir():
        if path.name != "report.html":
            assert content(path) == content(two / path.name), path.name
    one, two = folder / "two threads, size 1", folder / "two threads, size 16"
    assert same_files(one, two)
    assert answers(one) == answers(two)
    assert not answers(one).keys() & answers(folder / "size 1").keys()  # other threads, another fingerprint


@pytest.mark.parametrize("name", ["size 3", "size 16", "size 64", "killed", "reusing"])
def test_deterministic_runs(folder, name):
    """At any batch size, after all kills, and with answers of another run: all files are those of a batch size of 1."""
    assert same_files(folder / "size 1", folder / name)
    assert answers(folder / "size 1") == answers(folder / name)


def test_a_deterministic_answer_does_not_depend_on_other_datasets(folder):
    everything = answers(folder / "size 1")
    assert len(everything) == 3 * SAMPLES
    assert len(KILLS) == (10 if ALL else 7)
    assert answers(folder / "part").items() < everything.items()
    assert answers(folder / "reversed") == everything


def test_a_deterministic_run_takes_no_answer_of_another(folder):
    """Their last digits may differ, so they have other keys, and the run folder is another."""
    assert not answers(folder / "first").keys() & answers(folder / "size 1").keys()
    assert json.loads((folder / "size 1" / "spec.json").read_text())["identity"]["deterministic"] is True
    assert "deterministic" not in json.loads((folder / "first" / "spec.json").read_text())["identity"]

"""Thousands of samples on a server with faults: run until only the refused ones are left, mend the server, run again."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.faulty_server import KINDS, LASTING, FaultyServer, sample_of
from tests.chaos.scenarios import write_data

TIMEOUT_SECONDS = 3
PATIENCE_SECONDS = 30
_MEMORY_SLACK_KB = 16 << 10


@dataclass
class FaultFigures:
    """What the runs on a faulty server have shown."""

    samples: int
    requests: int = 0
    """Requests of the first run, as the server has counted them."""
    faults: dict = field(default_factory=dict)
    """The faults that the server made in the first run, by kind."""
    answered: int = 0
    failed: int = 0
    failures: dict = field(default_factory=dict)
    """The samples that failed in the first run, by the kind that kshot names."""
    asked_in_second: int = 0
    """Samples that the second run asked."""
    memory_kb: dict = field(default_factory=dict)
    """The memory of the first run after so many samples."""
    violations: list = field(default_factory=list)

    def check(self, holds, what):
        if not holds:
            self.violations.append(what)


def run_with_faults(samples, root, launcher, lasting=LASTING):
    """Run on a faulty server twice, and on the same server mended; compare with a server that was never faulty."""
    root, found = Path(root), FaultFigures(samples)
    calm, faulty = root / "calm", root / "faulty"
    for folder in (calm, faulty):
        folder.mkdir(parents=True)
        write_data(folder)
    with FaultyServer(lasting) as server:
        arguments = _arguments(server.url, samples)
        _first(found, server, launcher.run(faulty, arguments), faulty)
        failed = _failed(faulty)
        start = len(server.calls)
        again = launcher.run(faulty, arguments)
        found.check(again["code"] == 0, f"the second run ended with {again['code']}: {_said(faulty)}")
        asked = {sample_of(call) for call in server.calls[start:]} - {None}
        found.asked_in_second = len(asked)
        found.check(asked == failed, f"the second run asked {len(asked ^ failed)} other samples than the failed ones")
        failed, start, server.healthy = _failed(faulty), len(server.calls), True
        last = launcher.run(faulty, arguments)
        found.check(last["code"] == 0, f"the run on the mended server ended with {last['code']}: {_said(faulty)}")
        asked = {sample_of(call) for call in server.calls[start:]} - {None}
        found.check(asked == failed, f"the third run asked {len(asked ^ failed)} other samples than the failed ones")
        undisturbed = launcher.run(calm, arguments)
    found.check(undisturbed["code"] == 0, f"the undisturbed run ended with {undisturbed['code']}: {_said(calm)}")
    samples = [(folder / "run" / "samples.jsonl").read_bytes() for folder in (faulty, calm)]
    found.check(samples[0] == samples[1], "samples.jsonl is not as on a server without faults")
    found.check(_summary(faulty) == _summary(calm), "summary.json is not as on a server without faults")
    found.check(not _failed(faulty), "samples have failed on the mended server")
    keys = Counter(row["key"] for row in _rows(faulty, "journal.jsonl") if "failed" not in row["response"])
    found.check(max(keys.values()) == 1, "an answer is twice in the journal")
    return asdict(found)


def _summary(folder):
    """Return the summary without what was paid for beside the answers: faults cost something."""
    summary = json.loads((folder / "run" / "summary.json").read_text())
    answers = [row for row in summary["usage"] if row["role"] not in {"probe", "unused"}]
    return json.dumps(summary | {"usage": answers})


def _arguments(url, samples):
    scored = samples // 10
    datasets = [f"data.py:Cities,dataset_path={samples - scored}", f"data.py:Choices,dataset_path={scored}"]
    limits = ["--timeout", str(TIMEOUT_SECONDS), "--patience", str(PATIENCE_SECONDS), "--max-concurrency", "100"]
    named = [word for name in datasets for word in ("-d", name)]
    return ["run", "-m", "openai:m", "--base-url", url, *named, *limits, "--out", "run"]


def _first(found, server, done, folder):
    found.check(done["code"] == 0, f"the first run ended with {done['code']}: {_said(folder)}")
    found.requests, found.faults = len(server.calls), dict(server.made.most_common())
    rows = _rows(folder, "samples.jsonl")
    found.failures = dict(Counter(row["failed"].partition(":")[0] for row in rows if "failed" in row).most_common())
    found.failed = sum(found.failures.values())
    found.answered = sum("failed" not in row for row in rows)
    ids = {(row["task"], row["id"]) for row in rows}
    found.check(len(ids) == len(rows) == found.samples, f"{found.samples} samples, and {len(rows)} rows of {len(ids)}")
    listed = json.loads((folder / "run" / "summary.json").read_text())["results"]
    for what, count in (("n", found.answered), ("failed", found.failed)):
        told = sum({row["task"]: row.get(what, 0) for row in listed}.values())
        found.check(told == count, f"summary.json says {what} = {told}, samples.jsonl {count}")
    found.memory_kb = json.loads((folder / "memory.json").read_text())
    at = sorted(map(int, found.memory_kb))
    if len(at) > 1:
        early = found.memory_kb[str(max(each for each in at if each <= max(at[0], found.samples // 5)))]
        grown = found.memory_kb[str(at[-1])] - early
        found.check(grown <= _MEMORY_SLACK_KB, f"the memory grew by {grown} kB")
    missing = set(KINDS) - set(found.faults) if found.samples >= 100 * len(KINDS) else set()
    found.check(not missing, f"faults that did not happen: {', '.join(sorted(missing))}")


def _rows(folder, name):
    return [json.loads(line) for line in (folder / "run" / name).read_text(encoding="utf-8").split("\n") if line]


def _failed(folder):
    """Return the samples that failed, as the server knows them."""
    rows = _rows(folder, "samples.jsonl")
    return {(row["task"].partition(",")[0], str(row["id"])) for row in rows if "failed" in row}


def _said(folder):
    return " ".join((folder / "err.txt").read_text(errors="replace").split())[-400:]

"""Kill a command at named points, repeat it until it ends, and compare what is there with an undisturbed run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kshot.core.budget import UNUSED
from kshot.core.serialization import decoded_line
from tests.chaos.scenarios import answer, content_of, write_data
from tests.fake_server import FakeServer

ROOT = Path(__file__).parents[2]
_PRELOADED = (
    "kshot.cli.main", "kshot.cli.progress", "kshot.rescoring", "kshot.datasets.source", "kshot.retrievers.making",
    "kshot.metrics.judge", "kshot.runs.results", "kshot.report.table", "kshot.report.verdicts", "kshot.backends.server.openai",
    "kshot.backends.search.bm25", "kshot.backends.search.hybrid", "kshot.passages.source", "kshot.lookup.source", "aiohttp",
    "jinja2", "numpy", "rich.table", "rich.progress",
)  # fmt: skip
"""What most commands import; whatever else they need they import themselves."""

HF, ENCODERS = ("torch", "transformers"), ("sentence_transformers",)
"""What models need besides."""


def work_folder():
    """Return a folder for the runs: in memory if there is room, because other programs may keep the disk busy."""
    memory = Path("/dev/shm")
    fits = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    return tempfile.TemporaryDirectory(prefix="kshot-chaos-", dir=memory if fits else None)


class Launcher:
    """The process that runs the commands; see ``launcher.py``."""

    def __init__(self, *packages):
        command = [sys.executable, str(Path(__file__).with_name("launcher.py")), *_PRELOADED, *packages]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT))),
        }
        environment.pop("KSHOT_KILL_POINT", None)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, env=environment, text=True, **pipes)

    def run(self, folder, arguments, kill=None):
        """Run one command in a folder, with a cache of its own; return its exit code and its peak memory."""
        command = {"folder": str(folder), "arguments": list(arguments), "kill": kill}
        command["environment"] = {"KSHOT_CACHE": str(Path(folder) / "cache")}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@dataclass
class Outcome:
    """What came of one command that was killed, once or several times, and repeated."""

    scenario: str
    family: str
    kills: list = field(default_factory=list)
    """The kills that came: how often some points are passed depends on how busy the machine is."""
    lost: int = 0
    duplicated: int = 0
    asked_again: int = 0
    unjournalled: int = 0
    """Requests that the server has seen and whose answers were not in the journal when the process died."""
    faults: list = field(default_factory=list)

    @property
    def violations(self):
        return violations(asdict(self))


def violations(outcome):
    """Return what was wrong after one killed run, given as a dict."""
    counts = {"lost": outcome["lost"], "duplicated": outcome["duplicated"], "asked again": outcome["asked_again"]}
    return [f"{count} {what}" for what, count in counts.items() if count] + outcome["faults"]


class Bench:
    """One scenario: its undisturbed run, and runs that are killed."""

    def __init__(self, scenario, root, launcher, models):
        self.scenario, self.root, self._launcher = scenario, Path(root), launcher
        self._server = FakeServer(answer)
        self._models = models
        self._count = 0

    def __enter__(self):
        self._server.__enter__()
        try:
            self._prepare()
        except BaseException:
            self._server.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc):
        self._server.__exit__(*exc)
        shutil.rmtree(self.root, ignore_errors=True)

    def _arguments(self, given):
        return [word.format(url=self._server.url, **self._models) for word in given]

    def _prepare(self):
        """Make the folder that every run starts from, and run the command undisturbed."""
        start, calm = self.root / "start", self.root / "calm"
        start.mkdir(parents=True)
        write_data(start)
        for command in self.scenario.before:
            self._finish(start, command)
        for name in ("taken.log", "out.txt", "err.txt", "passed.json"):
            (start / name).unlink(missing_ok=True)
        self.scenario.prepare(start)
        shutil.copytree(start, calm)
        first = len(self._server.calls)
        self._finish(calm, self.scenario.arguments)
        self.passes = json.loads((calm / "passed.json").read_text())
        self._results = _results(calm, self.scenario)
        asked = self._contents(first)
        if len(asked) != sum(bool(call.body) for call in self._server.calls[first:]) or asked - _answered_contents(
            calm
        ):
            raise AssertionError(f"{self.scenario.name}: the journal does not tell which contents were answered")

    def _finish(self, folder, command):
        done = self._launcher.run(folder, self._arguments(command))
        if done["code"]:
            raise AssertionError(f"{self.scenario.name} ended with {done['code']}: {(folder / 'err.txt').read_text()}")

    # ---- one killed run ----

    def kill(self, *kills):
        """Kill the command at these points, one after another, then let it end."""
        self._count += 1
        folder = self.root / f"killed {self._count}"
        shutil.copytree(self.root / "start", folder)
        outcome = Outcome(self.scenario.name, self.scenario.family)
        for kill in kills:
            before = len(self._server.calls)
            done = self._step(folder, outcome, kill)
            if done["code"] == -signal.SIGKILL:
                outcome.kills.append(kill)
            elif done["code"]:
                outcome.faults.append(f"{kill} ended with {done['code']}: {_said(folder)}")
            outcome.faults += _torn_files(folder)
            outcome.unjournalled += len(self._contents(before) - _answered_contents(folder))
        done = self._step(folder, outcome)
        if done["code"]:
            outcome.faults.append(f"resumed, it ended with {done['code']}: {_said(folder)}")
        self._compare(folder, outcome)
        if not outcome.violations:
            shutil.rmtree(folder)
        return outcome

    def _step(self, folder, outcome, kill=None):
        """Run the command, and count the answers that it loses and the answered requests that it asks."""
        lines, known = _lines(folder), _answered_contents(folder)
        journalled, before = {_key(line) for line in lines}, len(self._server.calls)
        (folder / "taken.log").unlink(missing_ok=True)
        done = self._launcher.run(folder, self._arguments(self.scenario.arguments), kill)
        taken = (folder / "taken.log").read_text().split() if (folder / "taken.log").exists() else []
        outcome.asked_again += len(journalled & set(taken)) + len(taken) - len(set(taken))
        outcome.asked_again += len(self._contents(before) & known)
        outcome.lost += len(set(lines) - set(_lines(folder)))
        return done

    def _contents(self, start):
        return {content_of(call.path, call.body) for call in self._server.calls[start:] if call.body}

    def _compare(self, folder, outcome):
        for count in Counter(map(_key, _lines(folder))).values():
            outcome.duplicated += count - 1
        samples = Counter(_samples(folder))
        outcome.duplicated += sum(samples.values()) - len(samples)
        expected = set(_samples(self.root / "calm"))
        outcome.lost += len(expected - set(samples))
        found = _results(folder, self.scenario)
        for name in sorted({*found, *self._results}):
            if found.get(name) != self._results.get(name):
                outcome.faults.append(f"{name} is not as in an undisturbed run")
        left = _leftovers(folder, self.scenario) - _leftovers(
            self.root / "calm", self.scenario
        )  # some search engines have hidden files of their own
        outcome.faults += [f"{each} is left behind" for each in sorted(left)]


# ---- what a folder holds ----


def _said(folder):
    return " ".join((folder / "err.txt").read_text(errors="replace").split())[-300:]


def _lines(folder):
    """Return the lines of the journal that hold records: complete ones, with the right checksum."""
    path = folder / "run" / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith(b"\n") and decoded_line(line[:-1], early=False) is not None]


def _key(line):
    return json.loads(line)["key"]


def _answered_contents(folder):
    """Return the contents of HTTP requests whose answers the journal holds."""
    usages = (json.loads(line)["response"].get("usage") for line in _lines(folder))
    return {usage[0] for usage in usages if usage}


def _samples(folder):
    path = folder / "run" / "samples.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return [(row.get("task"), row.get("model"), row.get("id")) for row in rows]


def _results(folder, scenario):
    """Return the bytes of all results.

    The journal is compared line by line, ``spec.json`` and ``report.html`` have times in them, and a repair that is killed
    and repeated sets the damaged lines aside twice. A summary counts the replies that a killed run paid for and could not
    store: an undisturbed run has none.
    """
    files = [path for name in scenario.results for path in (folder / name).rglob("*") if path.is_file()]
    others = {"journal.jsonl", "journal.damaged", "spec.json", "report.html"}
    kept = [path for path in files if path.name not in others and not path.name.startswith(".")]
    found = {
        str(path.relative_to(folder)): _without_unused(path) if path.name == "summary.json" else path.read_bytes()
        for path in kept
    }
    return {name: _LONG_NUMBER.sub(_rounded, data) for name, data in found.items()} if scenario.rounded else found


def _without_unused(path):
    """Return a summary without its rows of replies that no answer uses."""
    data = path.read_bytes()
    summary = json.loads(data)
    used = [row for row in summary.get("usage", ()) if not row["role"].endswith(UNUSED)]
    if len(used) == len(summary.get("usage", ())):
        return data
    return (json.dumps({**summary, "usage": used}, indent=2, ensure_ascii=False) + "\n").encode()


_LONG_NUMBER = re.compile(rb"-?\d+\.\d{5,}")


def _rounded(number):
    return b"%.4f" % float(number[0])


def _leftovers(folder, scenario):
    """Return what has a name of something unfinished."""
    inside = [path for part in {"run", "cache", *scenario.results} for path in (folder / part).rglob(".*")]
    return {str(path.relative_to(folder)) for path in inside}


def _torn_files(folder):
    """Return the files that a killed process left under their own names and incomplete."""
    found = []
    for path in (path for part in ("run", "exported") for path in (folder / part).rglob("*.json*")):
        if path.name.startswith(".") or path.name == "journal.jsonl":
            continue
        text = path.read_text(encoding="utf-8")
        try:
            for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
                json.loads(part)
        except ValueError:
            found.append(f"{path.relative_to(folder)} is incomplete")
    report = folder / "run" / "report.html"
    if report.exists() and not report.read_text(encoding="utf-8").endswith("</html>\n"):
        found.append("run/report.html is incomplete")
    return found

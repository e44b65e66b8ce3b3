"""What ``spec.json`` records of each start, and files of a run folder that are damaged or of a newer version."""

import json
import os
import platform
import shutil
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

import pytest

import kshot
from kshot.core.budget import LimitReached
from kshot.core.errors import BackendError, DataError, RunError, UsageError
from kshot.core.records import Generated
from kshot.report.page.course_section import unfinished_section
from kshot.runs.folder import RunFolder
from kshot.runs.listing import details
from kshot.runs.samples_file import read_samples
from kshot.runs.spec_file import read_spec, recorded_versions
from kshot.runs.watchers import SilentWatcher
from kshot.viewer.catalog import Catalog
from tests.commands import CAPITALS, kshot as command
from tests.datasets.fakes import Fake, generation, says

ROWS = [{"q": f"question {number}", "target": "1"} for number in range(3)]


def spec_of(folder):
    return json.loads((Path(folder) / "spec.json").read_text())


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("capitals.py").write_text(CAPITALS)
    Path("recorded.jsonl").write_text(json.dumps({"prompt": "The capital of France0 is", "response": "Paris"}) + "\n")


RUN = ("run", "-m", "replay:recorded.jsonl", "-d", "capitals.py:Cities", "--out", "run")


def test_each_start_of_a_run_is_recorded(here, capsys):
    assert command(capsys, *RUN).code == 0
    assert command(capsys, *RUN, "--fsync", "always").code == 0
    assert command(capsys, "score", "run").code == 0
    first, second, third = spec_of("run")["sessions"]
    assert first["command"] == ["kshot", *RUN]
    assert second["command"] == ["kshot", *RUN, "--fsync", "always"]
    assert third["command"] == ["kshot", "score", "run"]
    for session in (first, second, third):
        assert session["state"] == "done"
        assert datetime.fromisoformat(session["started"]) <= datetime.fromisoformat(session["ended"])
        assert (session["host"], session["platform"]) == (platform.node(), platform.platform())
        assert session["versions"]["kshot"] == kshot.__version__
        assert session["versions"]["python"] == platform.python_version()


def test_a_session_that_only_scores_does_not_hide_what_computed_the_answers():
    computed, scored = {"kshot": "1", "torch": "2.1"}, {"kshot": "2", "numpy": "3"}
    spec = {"versions": scored, "sessions": [{"versions": computed}, {"versions": scored}, {}]}
    assert recorded_versions(spec) == {"kshot": "2", "torch": "2.1", "numpy": "3"}
    assert recorded_versions({"versions": computed}) == computed
    assert recorded_versions({"versions": 3, "sessions": [{"versions": ["x"]}, {"versions": {"torch": 2}}, "x"]}) == {}


def fails_with(text):
    """A backend that raises."""

    def fails(request):
        raise ValueError(text)

    return Fake(fails)


def test_a_run_that_failed_says_why_until_it_is_done(tmp_path, capsys):
    data = generation(ROWS)
    with pytest.raises(BackendError, match="no paper"):
        kshot.evaluate(fails_with("no paper, key=sk-abcdefghijklmnopqrstuvwxyz123456"), data, out=tmp_path / "run")
    why = spec_of(tmp_path / "run")["sessions"][-1]["why"]
    assert why.startswith("fake: it failed: ValueError: no paper")
    assert "sk-abc" not in why
    (run,) = kshot.list_runs(tmp_path)
    assert (run["state"], run["why"]) == ("failed", why)
    assert "no paper" in command(capsys, "runs", tmp_path).out
    assert "no paper" in command(capsys, "runs", tmp_path / "run").out
    (line,) = [each.line for each in Catalog([tmp_path]).runs()]
    assert line["why"] == why
    section = unfinished_section(details(tmp_path / "run", datetime.now(timezone.utc)))
    assert "no paper" in section.html
    with pytest.raises(LimitReached):
        kshot.evaluate(says("1"), data, out=tmp_path / "run", max_requests=2)
    (run,) = kshot.list_runs(tmp_path)
    assert (run["state"], run["why"]) == ("stopped", "--max-requests 2 is reached")
    kshot.evaluate(says("1"), data, out=tmp_path / "run")
    assert kshot.list_runs(tmp_path)[0]["why"] is None
    assert "no paper" not in (tmp_path / "run" / "spec.json").read_text()
    assert "no paper" not in command(capsys, "runs", tmp_path).out


@pytest.mark.parametrize("options", [{}, {"shard": "1/2"}, {"temperature": [0, 1]}])
def test_a_command_that_was_refused_before_it_asked_leaves_no_folder(tmp_path, options):
    class Twice(kshot.GenerationDataset):
        instruction = "{q}"
        metrics = [kshot.Em()]

        def load_raw_dataset(self, *place):
            self.evaluation_data = [{"id": "same", "q": "1", "target": "1"}] * 2

        def format_instance(self, row):
            return row

    with pytest.raises(DataError, match="two samples have the id 'same'"):
        kshot.evaluate("embedded", Twice, out=tmp_path / "runs" / "deep", **options)
    assert not any(tmp_path.iterdir())


def test_a_refusal_in_a_folder_with_answers_keeps_them(tmp_path):
    kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run")
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    with pytest.raises(BackendError, match="no"):
        kshot.evaluate(fails_with("no"), generation([*ROWS, {"q": "more", "target": "1"}]), out=tmp_path / "run")
    assert (tmp_path / "run" / "journal.jsonl").read_bytes().startswith(before)


def test_how_a_session_ended(tmp_path):
    def run(answer):
        kshot.evaluate(Fake(answer), generation(ROWS), out=tmp_path / "run")

    def interrupted(request):
        raise KeyboardInterrupt

    def fails(request):
        raise ValueError("no")

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
    with pytest.raises(kshot.KshotError, match="it failed: ValueError: no"):
        run(fails)
    spec = spec_of(tmp_path / "run")
    killed = {"state": "running", "started": "2026-01-01T09:00:00+00:00", "ended": None}  # as a process leaves it
    spec["sessions"].append(killed)
    (tmp_path / "run" / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "run" / "journal.jsonl").write_text("")
    last = datetime(2026, 1, 1, 9, 0, 10, tzinfo=timezone.utc)
    for file in (tmp_path / "run").iterdir():
        os.utime(file, (last.timestamp(),) * 2)
    run(says("1").answer)
    ended = {session["state"]: session["ended"] for session in spec_of(tmp_path / "run")["sessions"]}
    assert ended["killed"] == last.isoformat()  # when it last wrote something
    assert [session["state"] for session in spec_of(tmp_path / "run")["sessions"]] == [
        "stopped",
        "failed",
        "killed",
        "done",
    ]


def test_a_session_runs_while_it_runs(tmp_path):
    seen = []

    def answer(request):
        seen.append(spec_of(tmp_path / "run")["sessions"][-1])
        return says("1").answer(request)

    kshot.evaluate(Fake(answer), generation(ROWS), out=tmp_path / "run")
    assert {(session["state"], session["ended"]) for session in seen} == {("running", None)}


def test_only_the_first_and_the_latest_of_many_sessions_are_kept(tmp_path):
    with RunFolder(tmp_path / "run", {}) as folder:
        folder.spec["sessions"] = [{"state": "done", "number": number} for number in range(300)]
        folder.write_spec()
    kept = [session.get("number") for session in spec_of(tmp_path / "run")["sessions"]]
    assert kept == [0, *range(202, 300), None]


class Notes(SilentWatcher):
    """A watcher that keeps the notes."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


CHANGED = "mine: its data have changed since this run began"
OTHER_TARGET = {"q": "question 2", "target": "2"}  # the prompts are the same
MANY = [{"q": f"question {number}", "target": "1"} for number in range(40)]


def test_the_data_have_a_digest_that_says_when_they_change(tmp_path):
    def run(rows):
        notes = Notes()
        kshot.evaluate(says("1"), generation(rows), out=tmp_path / "run", watcher=notes)
        return spec_of(tmp_path / "run")["data"]["mine"], notes.notes

    first, _ = run(ROWS)
    assert (first["samples"], first["all"]) == (len(ROWS), True)
    assert run(ROWS) == (first, [])
    for other in ([*ROWS[:2], OTHER_TARGET], [*ROWS, OTHER_TARGET], ROWS[:1]):
        for _ in range(2):  # it is told each time, and the first data stay on record
            assert run(other) == (first, [CHANGED])
    assert run(ROWS) == (first, [])


@pytest.mark.parametrize("end", [kshot.LimitReached, KeyboardInterrupt, None])
def test_a_run_that_did_not_end_knows_its_data(tmp_path, end, monkeypatch):
    """After a limit, a signal, or a kill, which leaves ``spec.json`` as it is while the run asks."""
    monkeypatch.setattr("kshot.core.budget.monotonic", count().__next__)  # each second it is recorded
    run, kept = tmp_path / "run", tmp_path / "kept"

    def answer(request):
        model.count += 1
        if model.count == 20:
            if end is KeyboardInterrupt:
                raise end
            shutil.copytree(run, kept)
        return Generated("1")

    def again(rows, **more):
        notes = Notes()
        kshot.evaluate(says("1"), generation(rows), out=run, watcher=notes, **more)
        return notes.notes

    model = Fake(answer)
    model.count = 0
    if end is None:
        kshot.evaluate(model, generation(MANY), out=run)
        shutil.rmtree(run)
        kept.rename(run)
    else:
        with pytest.raises(end):
            kshot.evaluate(model, generation(MANY), out=run, max_requests=20 if end is kshot.LimitReached else None)
    assert spec_of(run)["spent"]["model"]["requests"] in {19, 20}
    record = spec_of(run)["data"]["mine"]
    assert record["samples"] >= 19  # the engine may read more than it asks
    for _ in range(2):
        with pytest.raises(kshot.LimitReached):
            again([{"q": "question 0", "target": "2"}, *MANY[1:]], max_requests=1)
        assert spec_of(run)["data"]["mine"] == record
    assert again([{"q": "question 0", "target": "2"}, *MANY[1:]]) == [CHANGED]
    assert again(MANY) == []
    assert spec_of(run)["data"]["mine"]["samples"] == len(MANY)
    assert again([*MANY[:-1], OTHER_TARGET]) == [CHANGED]


@pytest.mark.parametrize("value", [object(), b"x", {"a", "b"}, float("nan"), Path("x")])
def test_any_value_has_a_digest(tmp_path, value):
    digests = []
    for name in ("one", "two"):
        kshot.evaluate(says("1"), generation([{**ROWS[0], "more": value}]), out=tmp_path / name)
        digests += spec_of(tmp_path / name)["data"].values()
    assert digests[0] == digests[1]


# ---- files that cannot be used ----


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
LATER = "a newer version of kshot wrote this (format 3; this version reads up to 2)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DEEP, "spec.json is damaged"),
        ('{"identity": ' + DEEP + "}", "spec.json is damaged"),
        ('{"identity": {"x": ' + "[" * 200 + "]" * 200 + "}}", "spec.json is damaged"),
        ('{"identity": {"x": ' + "9" * 5000 + "}}", "spec.json is damaged"),
        ('{"identity": {}, "format": 3}', LATER),
        ('{"identity": {}, "format": "3"}', "spec.json is damaged"),
        ('{"identity": {}, "format": true}', "spec.json is damaged"),
        ('{"identity": {}, "sessions": {}}', "spec.json is damaged"),
        ('{"identity": {}, "sessions": [3]}', "spec.json is damaged"),
        ('{"identity": {}, "data": []}', "spec.json is damaged"),
        ('{"identity": []}', "kshot did not write this spec.json"),
        ("[]", "kshot did not write this spec.json"),
        ("", "spec.json is damaged"),
        ("\0" * 4096, "spec.json is damaged"),
        (b"\xff\xfe{\0}\0", "kshot did not write this spec.json"),
        (b"\xc3\x28", "spec.json is damaged"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_spec_that_cannot_be_used_is_one_message(here, capsys, text, message):
    assert command(capsys, *RUN).code == 0
    Path("run/spec.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    for arguments in (RUN, ("score", "run")):
        done = command(capsys, *arguments)
        assert done.code == 2
        assert message in done.err
        assert done.err.count("\n") == 1
    with pytest.raises(RunError):
        read_spec("run")


@pytest.mark.parametrize(
    "text", [DEEP, "", "[]", '{"results": 3}', '{"results": [3, {"n": "x"}, {"task": [], "n": 1e308}]}']
)
def test_a_damaged_summary_is_not_needed(here, capsys, text):
    assert command(capsys, *RUN).code == 0
    before = Path("run/summary.json").read_text()
    Path("run/summary.json").write_text(text)
    assert command(capsys, "score", "run").code == 0
    assert Path("run/summary.json").read_text() == before


@pytest.mark.parametrize("line", ["{", "[]", "3", DEEP, "\0\0"])
def test_a_damaged_row_is_named(tmp_path, line):
    (tmp_path / "samples.jsonl").write_text('{"id": "1"}\n' + line + "\n")
    with pytest.raises(RunError, match=r"samples\.jsonl:2: this line is damaged\. kshot score writes the file again"):
        read_samples(tmp_path)
    with pytest.raises(RunError, match=r"samples\.jsonl: it cannot be read: No such file"):
        read_samples(tmp_path / "absent")


def test_a_score_of_a_damaged_journal_is_refused_and_says_why(here, capsys):
    assert command(capsys, *RUN).code == 0
    journal = Path("run/journal.jsonl")
    damaged = journal.read_bytes().replace(b"Paris", b"Parts")
    journal.write_bytes(damaged)
    before = Path("run/summary.json").read_bytes()
    done = command(capsys, "score", "run")
    assert done.code == 2
    assert "run/journal.jsonl: 1 line is damaged (1 at byte 0); it is not used" in done.err
    assert (
        "that has been scored before; nothing was changed. The command of the run asks again for what is missing."
        in done.err
    )
    assert (journal.read_bytes(), Path("run/summary.json").read_bytes()) == (damaged, before)
    done = command(capsys, *RUN)
    assert done.code == 0
    assert "1 line is damaged (1 at byte 0); what it answered is asked again" in done.err
    assert Path("run/summary.json").read_bytes() == before
    assert (command(capsys, "score", "run").code, command(capsys, *RUN).err.count("damaged")) == (0, 0)


class Refusing(kshot.Watcher):
    """A logger that is not set up, which it says when the run starts; it may leave a file in the folder."""

    def __init__(self, file=None):
        self.file = file

    def started(self, settings, path):
        if self.file:
            (path / self.file).write_text("of the logger")
        raise UsageError("there is no key")


@pytest.mark.parametrize("given", [{"log": Refusing()}, {"watcher": Refusing()}])
def test_a_run_that_fails_before_it_begins_leaves_nothing(tmp_path, given):
    with pytest.raises(UsageError, match="there is no key"):
        kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "runs" / "deep" / "run", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_opened_leaves_nothing(here, capsys):
    Path("late.py").write_text(
        "import kshot\nfrom kshot.core.errors import BackendError\nclass Late:\n    name, answers, fingerprint = 'late', (kshot.Generate,), '1'\n"
        "    def __init__(self):\n        raise BackendError('the server refuses the key')\n"
    )
    before = sorted(Path().iterdir())
    assert command(capsys, "run", "-m", "late.py:Late", "-d", "capitals.py:Cities", "--out", "run").code == 2
    assert [path for path in sorted(Path().iterdir()) if path not in before and path.name != "__pycache__"] == []


def test_what_others_have_in_the_folder_stays_when_a_run_does_not_begin(tmp_path):
    for name in ("mine", "logged"):
        (tmp_path / name).mkdir()
    for out, log in (("mine", Refusing()), ("logged", Refusing("notes.txt"))):
        with pytest.raises(UsageError):
            kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / out, log=log)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["logged", "mine", "notes.txt"]
    kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(UsageError):
        kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run", log=Refusing())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before

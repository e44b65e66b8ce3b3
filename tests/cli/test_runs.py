"""``kshot runs``: the list on narrow and wide terminals, one run in full, JSON, and a run that is alive, killed, done."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from kshot.cli import runs as command, runs_watch
from kshot.cli.runs_watch import watched_view
from kshot.core.errors import KshotError
from kshot.report.runs_table import Clock
from kshot.runs import listing
from kshot.runs.journal import Journal
from kshot.runs.progress import ProgressState, read_progress
from tests.commands import CAPITALS, kshot, kshot_process
from tests.progress_tasks import task_progress
from tests.run_folders import START, figure, make_run, session, subsets, used
from tests.screens import assert_screen
from tests.terminal import on_terminal

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"
NOW = datetime(2026, 11, 16, 10, 0, tzinfo=timezone.utc)
LLAMA = "hf:/very/long/path/to/checkpoints/step-20000/llama-3.1-8b-instruct"
SERVER = "openai:Qwen/Qwen2.5-72B-Instruct@http://host.example:8000/v1"
CJK = "hf:模型/通义千问七十亿参数对话版"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, where it is ten o'clock, in Greenwich."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "present", lambda: NOW)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def ago(**passed):
    return NOW - timedelta(**passed)


def progress(done=312):
    """How far a run of 1,500 samples is."""
    tasks = [
        task_progress(
            "gsm8k", LLAMA, 1000, state="running", done=done, failed=2, metric="EM", scored=done, value=41.0, rate=2.5
        ),
        task_progress("arc:ARC-Easy", LLAMA, 500),
    ]
    return ProgressState(started=ago(hours=1).isoformat(), elapsed=3600.0, complete=True, left=475.0, tasks=tasks)


@pytest.fixture
def runs(here):
    """Runs of every kind; one of them is running."""
    folder = here / "runs"
    many = [row for model in (LLAMA, SERVER, "embedded") for row in subsets(model, [61.3 + len(model) / 10] * 57)]
    make_run(folder / "mmlu", models=[LLAMA, SERVER, "embedded"], datasets=["mmlu"], results=many,
             usage=[used(cost_usd=12.4)], sessions=[session(started=ago(minutes=40), seconds=1800)])  # fmt: skip
    make_run(folder / "中文评测", models=[CJK], datasets=["数据/问答题.jsonl"], results=[figure(88.0, model=CJK, failed=3)],
             sessions=[session(started=ago(days=1, hours=3), seconds=70_000)])  # fmt: skip
    lookups = [figure(value, task=f"lookup:UR:{length}:sep", model="embedded", kind="lookup", lookup="UR", variant="sep",
                      length=length) for length, value in ((10, 98.0), (20, 61.0), (40, 12.5))]  # fmt: skip
    make_run(folder / "lookup", datasets=["lookup:UR"], results=lookups, sessions=[session(started=ago(days=4))])
    found = [figure(value, task="handbook", model=model, metric=metric, kind="passages", benchmark="handbook",
                    passages=348, chunks="headings:200", ci95=(value - 9, value + 8))
             for model, value in (("fts5", 52.1), ("bm25", 55.0)) for metric in ("AC_MRR@1", "AC_MRR@10")]  # fmt: skip
    make_run(folder / "search", models=["fts5", "bm25"], datasets=["handbook"], results=found,
             sessions=[session(started=ago(days=5), seconds=3)])  # fmt: skip
    spent = {"model": {"requests": 20, "failed": 2, "prompt_tokens": 4000, "completion_tokens": 100}}
    make_run(folder / "limit", models=[SERVER], options={"price_in": 1.0}, spent=spent,
             sessions=[session("stopped", started=ago(days=6))])  # fmt: skip
    make_run(folder / "crashed", sessions=[session("failed", started=ago(days=7), seconds=1)])
    make_run(folder / "killed", sessions=[session("running", started=ago(days=8))], changed=ago(days=8, minutes=-3))
    nothing = [figure(None, ci95=None, n=0, failed=500)]
    make_run(folder / "all_failed", results=nothing, sessions=[session(started=ago(days=400))])
    make_run(folder / "broken", sessions=[session(started=ago(days=9))], changed=ago(days=9))
    (folder / "broken" / "summary.json").write_text("{")
    make_run(folder / "alive", models=[LLAMA], datasets=["gsm8k", "arc:ARC-Easy", "hellaswag"],
             sessions=[session("stopped", started=ago(hours=9), seconds=60), session("running", started=ago(hours=1))],
             changed=NOW)  # fmt: skip
    (folder / "alive" / "progress.json").write_text(json.dumps(progress().as_json()))
    journal = Journal(folder / "alive" / "journal.jsonl", repair=False)
    yield folder
    with suppress(KshotError):  # a test may have removed its folder
        journal.close()


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_runs_on_a_terminal_of(runs, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    done = kshot(capsys, "runs")
    assert (done.code, done.err) == (0, "")
    assert_screen(f"runs_{columns}", done.out)
    assert all(cell_len(line) <= columns for line in done.out.splitlines())
    for run in runs.iterdir():
        assert f"runs/{run.name} " in done.out.replace("\n", " "), run  # never cut


def test_long_names_are_never_cut(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = ["x" * 100, "short", "arc-llama-3.1-8b-instruct-0123abcd"]
    for name in names:
        make_run(here / "runs" / name, models=[LLAMA], results=[figure(model=LLAMA)])
    lines = kshot(capsys, "runs").out.splitlines()
    assert {line.split()[0] for line in lines} >= {f"runs/{name}" for name in names}
    assert all(cell_len(line) <= 80 for line in lines if "x" * 100 not in line)
    assert f"runs/{'x' * 100}" in lines
    deep = here / "a_folder_with_a_rather_long_name" / "team"
    shutil.move(here / "runs", deep)
    lines = kshot(capsys, "runs", deep).out.splitlines()
    assert lines[0] == f"in {deep}:"
    assert {line.split()[0] for line in lines} >= set(names)


@pytest.mark.parametrize("columns", [1, 20, 40, 60, 80, 100, 140, 300])
def test_no_width_breaks_the_list(runs, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    done = kshot(capsys, "runs")
    assert done.code == 0
    assert all(f"runs/{run.name}" in done.out for run in runs.iterdir())


@pytest.mark.parametrize("columns", [80, 120])
def test_one_run_in_full(runs, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    sessions = [
        session("stopped", command=["kshot", "run", "-m", SERVER, "--system-prompt", "two words"], host="node-1"),
        session(started=START + timedelta(minutes=20), seconds=95, host="node-1"),
    ]
    spent = {"model": {"requests": 1200, "failed": 3, "prompt_tokens": 1_234_567, "completion_tokens": 4321}}
    make_run(runs / "one", models=[SERVER], datasets=["data/quiz.py:Quiz"], sessions=sessions, spent=spent,
             identity={"num_shots": 5, "stop": ["\n"], "seed": 2023}, usage=[used(cost_usd=0.413)],
             results=[figure(60.0 + at, task=f"quiz:{at}", model=SERVER, failed=at) for at in range(11)])  # fmt: skip
    done = kshot(capsys, "runs", "runs/one")
    assert (done.code, done.err) == (0, "")
    assert_screen("runs_one", done.out)  # at every width: long lines can be copied whole


def test_a_damaged_run_in_full(runs, capsys):
    done = kshot(capsys, "runs", "runs/broken")
    assert done.code == 0
    assert "damaged – summary.json is damaged" in done.out
    (runs / "broken" / "spec.json").write_text("{")
    assert "damaged – spec.json is damaged" in kshot(capsys, "runs", "runs/broken").out


def test_json_has_full_values(runs, capsys):
    found = json.loads(kshot(capsys, "runs", "--json").out)
    by_name = {Path(run["run"]).name: run for run in found}
    assert {name: run["state"] for name, run in by_name.items()} == {
        "mmlu": "done", "中文评测": "done", "lookup": "done", "search": "done", "limit": "stopped", "crashed": "failed",
        "killed": "killed", "all_failed": "done", "broken": "damaged", "alive": "running",
    }  # fmt: skip
    assert by_name["mmlu"]["models"] == [LLAMA, SERVER, "embedded"]
    assert [each["task"] for each in by_name["mmlu"]["figures"]] == ["mmlu[Macro Average]"] * 3
    assert by_name["search"]["headline"]["metric"] == "AC_MRR@10"
    assert by_name["limit"]["cost_usd"] == pytest.approx(0.004)
    assert (by_name["all_failed"]["failed"], by_name["all_failed"]["headline"]["value"]) == (500, None)
    assert by_name["alive"]["seconds"] == 3660
    assert by_name["alive"]["progress"] == {"done": 312, "total": 1500, "failed": 2, "seconds_left": 475.0}
    assert by_name["alive"]["failed"] == 2
    one = json.loads(kshot(capsys, "runs", "runs/limit", "--json").out)
    assert one["spent"]["model"]["requests"] == 20
    assert [each["state"] for each in one["sessions"]] == ["stopped"]
    assert {each["name"] for each in one["files"]} == {"spec.json", "journal.jsonl", "samples.jsonl"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--limit", "2"], ["mmlu", "alive"]),
        (["--sort", "name", "--limit", "3"], ["alive", "all_failed", "broken"]),
        (["--sort", "headline", "--limit", "3"], ["lookup", "中文评测", "mmlu"]),
        (["--sort", "cost", "--limit", "2"], ["mmlu", "limit"]),
        (["--sort", "duration", "--limit", "2"], ["中文评测", "alive"]),
        (["--state", "killed"], ["killed"]),
        (["--state", "running"], ["alive"]),
        (["--model", "QWEN"], ["mmlu", "limit"]),
        (["--dataset", "arc", "--state", "stopped"], ["limit"]),
        (["--dataset", "问答"], ["中文评测"]),
        (["--model", "nobody"], []),
    ],
)
def test_runs_are_chosen_and_sorted(runs, capsys, options, names):
    done = kshot(capsys, "runs", "--json", *options)
    assert [Path(run["run"]).name for run in json.loads(done.out)] == names
    assert done.code == 0
    shown = kshot(capsys, "runs", *options)
    assert bool(shown.out) == bool(names)
    assert shown.err == ("" if names else "kshot: runs: none of its 10 runs is like that\n")


def test_a_cut_list_says_so(runs, capsys):
    cut = "the first 2 of 10 runs: 1 done, 1 running · --limit 10 shows all"
    assert kshot(capsys, "runs", "--limit", "2").out.splitlines()[-2] == cut
    named = kshot(capsys, "runs", "--sort", "name", "--state", "done", "--limit", "1").out.splitlines()
    assert named[-1] == "the first 1 of 5 runs: 1 done · --limit 5 shows all"


def test_only_the_runs_that_are_shown_are_read(runs, capsys, monkeypatch):
    """A terminal shows the newest 50, unless somebody wants more; a pipe has all."""
    for number in range(60):
        make_run(
            runs / f"many-{number:02}", results=[figure()], sessions=[session(started=ago(days=20, minutes=number))]
        )
    read = []
    real = listing.read_summary
    monkeypatch.setattr(listing, "read_summary", lambda path: read.append(path.name) or real(path))
    code, text = on_terminal("runs", columns=100)
    assert (code, "the first 50 of 70 runs: " in text, "--limit 70 shows all" in text) == (0, True, True)
    assert len(read) == 50
    shown = [f"many-{number:02}" for number in range(41)]
    assert [f"runs/{name}" in text for name in (*shown, "many-41")] == [True] * 41 + [False]  # 9 others are newer
    assert "all_failed" not in text  # it is the oldest
    assert on_terminal("runs", "--limit", "60", columns=100)[1].count("runs/many-") == 51
    assert kshot(capsys, "runs").out.count("runs/many-") == 60
    assert len(json.loads(kshot(capsys, "runs", "--json").out)) == 70
    newest = json.loads(kshot(capsys, "runs", "--json", "--limit", "12").out)
    assert newest == json.loads(kshot(capsys, "runs", "--json").out)[:12]


def test_the_best_headline_comes_first_whatever_its_direction(here, capsys):
    figures = {
        "fine": figure(80.0), "poor": figure(20.0), "none": figure(None, ci95=None, n=0),
        "low": figure(3.0, metric="Perplexity", higher_is_better=False),
        "high": figure(9.0, metric="Perplexity", higher_is_better=False),
    }  # fmt: skip
    for name, each in figures.items():
        make_run(here / "runs" / name, results=[each])
    found = json.loads(kshot(capsys, "runs", "--sort", "headline", "--json").out)
    assert [Path(run["run"]).name for run in found] == ["fine", "poor", "low", "high", "none"]


def test_state_running_has_those_that_seem_to_run(here, capsys):
    make_run(here / "runs" / "elsewhere", sessions=[session("running", started=NOW, host="node-9")], changed=NOW)
    (run,) = json.loads(kshot(capsys, "runs", "--state", "running", "--json").out)
    assert run["state"] == "running?"
    assert json.loads(kshot(capsys, "runs", "--state", "killed", "--json").out) == []


def test_the_last_line_of_a_watch_tells_the_failures(here, capsys):
    make_run(here / "runs" / "over", results=[figure(63.7, failed=2)])
    assert kshot(capsys, "runs", "--watch", "runs/over").out == "runs/over: done, Accuracy 63.7 (58.9–67.3), 2 failed\n"


def test_where_there_are_no_runs(here, capsys):
    nothing = "kshot: runs: there is no run here; kshot run makes one\n"
    assert vars(kshot(capsys, "runs")) == {"code": 0, "out": "", "err": nothing}
    Path("runs").mkdir()
    assert vars(kshot(capsys, "runs")) == {"code": 0, "out": "", "err": nothing}
    assert vars(kshot(capsys, "runs", "--json")) == {"code": 0, "out": "[]\n", "err": nothing}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent: there is no such folder"),
        (["file"], "file: there is no such folder"),
        ([""], "the name of the folder is empty"),
        (["--limit", "0"], "--limit is 0; it must be 1 or more"),
        (["--state", "fine"], "invalid choice: 'fine'"),
    ],
)
def test_wrong_arguments(here, capsys, arguments, said):
    Path("file").touch()
    done = kshot(capsys, "runs", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


EVIL = "\x1b[31mred\x1b]0;title\x07\n[bold]x[/bold]:smile:\u202e"


def test_names_of_strangers_are_shown_and_not_obeyed(here, capsys):
    results = [figure(model=EVIL, task=EVIL, metric=EVIL)]
    sessions = [session(command=["kshot", EVIL], host=EVIL, versions={"kshot": EVIL, EVIL: EVIL})]
    make_run(here / "runs" / EVIL, models=[EVIL], datasets=[EVIL], results=results, sessions=sessions,
             identity={EVIL: EVIL}, spent={EVIL: {"requests": 1}})  # fmt: skip
    for arguments in (["runs"], ["runs", f"runs/{EVIL}"], ["runs", "--json"], ["runs", f"runs/{EVIL}", "--json"]):
        done = kshot(capsys, *arguments)
        assert done.code == 0, done.err
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out + done.err)
        assert "[bold]x[/bold]:smile:" in done.out
    code, text = on_terminal("runs", columns=120)
    assert code == 0
    assert "\x1b[1m" in text  # kshot's own colours
    assert "\x1b[31mred" not in text
    assert "\x07" not in text


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are texts")
def test_a_name_that_is_no_text_is_listed(here, capsys):
    made = make_run(here / "runs" / "x", results=[figure()])
    made.rename(here / "runs" / os.fsdecode(b"\xff"))
    assert "runs/\\udcff" in kshot(capsys, "runs").out
    (run,) = json.loads(kshot(capsys, "runs", "--json").out)
    assert (run["run"], run["state"]) == ("runs/\udcff", "done")
    assert kshot(capsys, "runs", run["run"]).code == 0


def test_strange_values_of_a_folder_end_nothing(here, capsys):
    for at, sessions in enumerate(([{}], [{"state": "done", "started": 3, "ended": [], "host": {}, "versions": []}],
                                   [{"state": "done", "command": "rm", "versions": {"kshot": []}}])):  # fmt: skip
        name = f"runs/{at}"
        make_run(
            here / name,
            sessions=sessions,
            results=[figure()],
            spent={"model": {"requests": -1, "prompt_tokens": 10**400}, "x": 2},
        )
        assert kshot(capsys, "runs", name).code == 0
    assert kshot(capsys, "runs").code == 0


def test_many_runs_are_listed_without_their_samples(here, capsys, monkeypatch):
    """Only the settings and the figures are read, and of the journal nothing but its lock."""
    from kshot.core import text_files

    for at in range(20):
        make_run(here / "runs" / str(at), results=subsets("m", [50.0] * 3))
    read = []
    real = text_files.read_at_most
    for module in ("kshot.runs.spec_file", "kshot.runs.record"):
        monkeypatch.setattr(f"{module}.read_at_most", lambda path, *rest: read.append(path.name) or real(path, *rest))
    monkeypatch.setattr(text_files, "lines_of", None)
    assert kshot(capsys, "runs").code == 0
    assert {name: read.count(name) for name in set(read)} == {"spec.json": 40, "summary.json": 20}


# ---- a run that is alive ----

WAITS = '''
import time
from pathlib import Path


def answer(prompt):
    """Answers when it may; until then it says that it is asked."""
    if "Norway" in prompt:
        Path("asked").touch()
        while not Path("go_on").exists():
            time.sleep(0.01)
    return "Oslo"
'''


def wait_for(condition, process):
    end = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A run in another process, which waits for an answer."""
    monkeypatch.chdir(tmp_path)
    Path("capitals.py").write_text(CAPITALS)
    Path("waits.py").write_text(WAITS)
    arguments = ["run", "-m", "waits.py:answer", "-d", "capitals.py:Cities", "--out", "runs/live"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kshot", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(Path("asked").exists, process)
        yield process, arguments
    finally:
        process.kill()
        process.communicate()


def state_of(capsys):
    (run,) = json.loads(kshot(capsys, "runs", "--json").out)
    return run["state"]


def test_a_run_is_running_then_killed_then_done(live, capsys, tmp_path):
    process, arguments = live
    assert state_of(capsys) == "running"
    assert state_of(capsys) == "running"  # looking does not disturb it
    refused = kshot(capsys, *arguments)
    assert (refused.code, "another process is working" in refused.err) == (2, True)
    wait_for(lambda: (found := read_progress(Path("runs/live"))) is not None and found.total == 5, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state_of(capsys) == "killed"
    assert re.search(r"killed +\d+ % of 5 ", kshot(capsys, "runs").out)
    (session,) = json.loads(kshot(capsys, "runs", "runs/live", "--json").out)["sessions"]
    assert (session["state"], session["ended"] is None) == ("killed", False)
    assert " · running" not in kshot(capsys, "runs", "runs/live").out
    Path("go_on").touch()
    done = kshot_process(*arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert state_of(capsys) == "done"
    assert [each["state"] for each in json.loads(kshot(capsys, "runs", "runs/live", "--json").out)["sessions"]] == [
        "killed",
        "done",
    ]


# ---- --watch ----


class Pauses:
    """Stands for the pauses of ``--watch``: each does the next step; after the last one, Ctrl-C is pressed."""

    def __init__(self, monkeypatch, *steps):
        self.steps = list(steps)
        monkeypatch.setattr(runs_watch, "pause", self.pause)

    def pause(self, seconds):
        assert seconds >= 1
        if not self.steps:
            raise KeyboardInterrupt
        self.steps.pop(0)()


def nothing():
    pass


@pytest.mark.parametrize("columns", [80, 120])
def test_what_runs_is_watched(runs, columns):
    state = read_progress(runs / "alive")
    records = [listing.describe(path, NOW) for path in sorted(runs.iterdir())]
    records = [{**run, "run": str(Path(run["run"]).relative_to(runs.parent))} for run in records]
    console = Console(width=columns, height=24, file=io.StringIO(), highlight=False)
    console.print(watched_view(listing.newest_first(records), {"runs/alive": state}, "runs", (columns, 24), Clock(NOW)))
    shown = console.file.getvalue()
    assert_screen(f"runs_watch_{columns}", shown)
    assert shown.count("\n") <= 23


@pytest.mark.parametrize("height", [1, 2, 3, 5, 10, 24, 60])
def test_a_watch_fits_its_screen(runs, height):
    state = read_progress(runs / "alive")
    alive = listing.describe(runs / "alive", NOW)
    many = [{**alive, "run": f"runs/{number}"} for number in range(9)]
    progress = {run["run"]: state if number % 2 else None for number, run in enumerate(many)}
    others = [listing.describe(path, NOW) for path in sorted(runs.iterdir())]
    console = Console(width=80, height=height, file=io.StringIO())
    console.print(watched_view([*many, *others], progress, "runs", (80, height), Clock(NOW)))
    assert 1 <= console.file.getvalue().count("\n") <= max(1, height - 1)


def test_a_time_that_is_not_known_whole_is_said_to_be_longer(here, capsys):
    sessions = [session("killed", ended=None, started=ago(days=1)), session(started=ago(hours=1), seconds=20)]
    make_run(here / "runs" / "again", results=[figure()], sessions=sessions)
    assert "took      at least 20 s in 2 sessions" in kshot(capsys, "runs", "runs/again").out


@pytest.mark.parametrize("size", [(80, 1), (20, 1), (20, 2), (20, 5), (12, 6), (1, 1)])
@pytest.mark.parametrize("live", [0, 1, 9])
def test_a_watch_fits_a_tiny_screen(runs, size, live):
    alive = listing.describe(runs / "alive", NOW)
    many = [{**alive, "run": f"runs/{number}"} for number in range(live)]
    progress = {run["run"]: read_progress(runs / "alive") if number % 2 else None for number, run in enumerate(many)}
    others = [listing.describe(path, NOW) for path in sorted(runs.iterdir())]
    console = Console(width=size[0], height=size[1], file=io.StringIO())
    view = watched_view([*many, *others], progress, "runs", size, Clock(NOW))
    lines = console.render_lines(view, pad=False)
    assert 1 <= len(lines) <= max(1, size[1] - 1)


def test_a_watch_draws_only_what_has_changed(runs, monkeypatch):
    """In a terminal that has one line, and anywhere else."""
    monkeypatch.setenv("LINES", "1")
    Pauses(monkeypatch, nothing, nothing, nothing)
    monkeypatch.setattr(runs_watch, "watched_view", lambda *_: "the same")
    _, text = on_terminal("runs", "--watch")
    assert text.count("the same") == 2  # at first, and when the view ends


def test_a_watch_ends_with_ctrl_c(runs, capsys, monkeypatch):
    Pauses(monkeypatch, nothing)
    code, text = on_terminal("runs", "--watch", columns=120)
    assert code == 130
    assert "runs/alive" in text
    assert "20.8 %" in text  # the bar of the run
    assert "kshot: interrupted" in text
    Pauses(monkeypatch, nothing, nothing)
    done = kshot(capsys, "runs", "--watch")
    assert done.code == 130
    assert [line.partition(":")[0] for line in done.out.splitlines()] == ["runs/alive"]  # once in half a minute
    assert "312 of 1,500" in done.out


def test_lines_come_every_half_minute_and_when_something_starts(runs, capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(runs_watch.time, "monotonic", lambda: seconds[0])
    other = Journal(runs / "killed" / "journal.jsonl", repair=False)
    steps = [lambda: seconds.append(seconds.pop() + 10) for _ in range(6)]
    Pauses(monkeypatch, *steps[:3], other.close, *steps[3:])
    lines = kshot(capsys, "runs", "--watch").out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "runs/alive", "runs/killed", "runs/alive", "runs/killed", "runs/alive", "runs/alive"
    ]  # fmt: skip


def test_a_watch_is_calm_whatever_happens_to_the_folders(runs, capsys, monkeypatch):
    file = runs / "alive" / "progress.json"

    def half_written():
        file.write_text(file.read_text()[:100])

    def appears():
        make_run(runs / "new", sessions=[session(started=NOW)], results=[figure(12.3)])

    seen = []
    real = runs_watch.watched_view

    def drawn(found, progress, *rest):
        seen.append(
            ({Path(run["run"]).name: run["state"] for run in found}, [each and each.done for each in progress.values()])
        )
        return real(found, progress, *rest)

    monkeypatch.setattr(runs_watch, "watched_view", drawn)
    Pauses(
        monkeypatch, half_written, lambda: shutil.rmtree(runs / "mmlu"), appears, lambda: shutil.rmtree(runs), nothing
    )
    code, text = on_terminal("runs", "--watch", columns=100)
    assert code == 130, text
    assert [each[1] for each in seen[:4]] == [[312]] * 4  # what was read before the file was cut
    assert ["mmlu" in each[0] for each in seen] == [True, True, False, False, False, False]
    assert seen[3][0]["new"] == "done"
    assert [each[0] for each in seen[4:]] == [{}, {}]
    assert "there is no run yet" in text


def test_a_watch_reads_only_what_has_changed(runs, capsys, monkeypatch):
    described = []
    real = listing.describe
    monkeypatch.setattr(listing, "describe", lambda path, now: described.append(path.name) or real(path, now))

    def ends():
        make_run(runs / "again", results=[figure()])

    Pauses(monkeypatch, described.clear, ends, nothing)
    kshot(capsys, "runs", "--watch")
    assert sorted(described) == ["again", "alive", "alive", "alive"]


def test_wrong_watches(here, capsys, monkeypatch):
    Pauses(monkeypatch)
    assert kshot(capsys, "runs", "--watch", "absent").code == 2
    done = kshot(capsys, "runs", "--watch", "--json")
    assert (done.code, "--watch has no JSON" in done.err) == (2, True)
    assert kshot(capsys, "runs", "--watch").out == "there is no run yet\n"
    make_run(here / "runs" / "one", results=[figure()])
    done = kshot(capsys, "runs", "--watch", "runs/one")  # it is done already
    assert (done.code, done.out) == (0, "runs/one: done, Accuracy 63.2 (58.9–67.3)\n")


def test_one_run_that_vanishes_ends_the_watch(runs, capsys, monkeypatch):
    Pauses(monkeypatch, lambda: shutil.rmtree(runs / "alive"))
    done = kshot(capsys, "runs", "--watch", "runs/alive")
    assert done.code == 2
    assert "runs/alive: the run folder is gone" in done.err


def test_the_watch_of_one_run_ends_with_it(live, monkeypatch):
    process, _ = live

    def go_on():
        Path("go_on").touch()
        process.communicate()

    wait_for(lambda: (found := read_progress(Path("runs/live"))) is not None and found.total == 5, process)
    Pauses(monkeypatch, nothing, go_on)
    code, text = on_terminal("runs", "--watch", "runs/live", columns=100)
    assert code == 0, text
    assert "running" in text
    assert re.search(r"\d of 5\b", text)
    assert "Ctrl-C ends this view" in text
    assert "runs/live: done, EM 20.0" in text.splitlines()[-1]

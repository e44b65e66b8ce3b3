"""The list of runs: found without following links, read without trust, told apart by their sessions and locks."""

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import UsageError
from kshot.core.records import Failed, Generated
from kshot.runs import listing, run_state
from kshot.runs.headline import failed_samples, headline_figures
from kshot.runs.journal import Journal
from kshot.runs.listing import details, list_runs
from tests.datasets.fakes import Fake, generation, says
from tests.run_folders import START, figure, make_run, session, subsets, used

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"
ROWS = [{"q": f"question {number}", "target": "1"} for number in range(3)]
SOON = START + timedelta(minutes=1)


def described(path, now=SOON):
    return listing.describe(path, now)


def test_a_run_is_listed_with_what_it_found(tmp_path):
    def answer(request):
        return Failed("down", "x") if "question 2" in request.prompt.text else Generated("1")

    result = kshot.evaluate(Fake(answer), generation(ROWS), out=tmp_path / "run")
    (row,) = [row for row in result.results if not row.get("detail")]
    (run,) = list_runs(tmp_path)
    (started,) = [each["started"] for each in json.loads((tmp_path / "run/spec.json").read_text())["sessions"]]
    assert (run["run"], run["state"], run["why"]) == (str(tmp_path / "run"), "done", None)
    assert (run["models"], run["datasets"]) == (["fake"], result.settings["datasets"])
    assert (run["failed"], run["started"], run["cost_usd"]) == (1, started, None)
    assert run["seconds"] >= 0
    assert run["figures"] == [run["headline"]]
    assert {name: run["headline"][name] for name in ("task", "model", "metric", "value", "n", "ci95")} == {
        name: row[name] for name in ("task", "model", "metric", "value", "n", "ci95")
    }


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["done"], "done"), (["stopped"], "stopped"), (["failed"], "failed"), (["killed"], "killed"),
        (["stopped", "failed", "killed", "done"], "done"), (["done", "stopped"], "stopped"), (["running"], "killed"),
        (["done", "running"], "killed"),
    ],
)  # fmt: skip
def test_the_last_session_says_how_a_run_ended(tmp_path, states, state):
    run = make_run(tmp_path / "run", sessions=[session(each) for each in states], results=[figure()])
    assert described(run)["state"] == state
    journal = Journal(run / "journal.jsonl", repair=False)  # whatever it was, a process works in it now
    assert described(run)["state"] == "running"
    assert described(run)["ended"] is None
    journal.close()
    assert described(run)["state"] == state


def test_a_run_that_opens_its_first_model_is_running_too(tmp_path):
    (tmp_path / "run").mkdir()
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    assert [(run["state"], run["models"]) for run in list_runs(tmp_path)] == [("running", [])]
    journal.close()
    assert [run["state"] for run in list_runs(tmp_path)] == ["killed"]
    (tmp_path / "run" / "journal.jsonl").write_text("{}\n")
    (run,) = list_runs(tmp_path)
    assert run["state"] == "damaged"
    assert "spec.json cannot be read" in run["why"]


def test_a_run_that_ends_while_it_is_looked_at_was_not_killed(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", sessions=[session("running")], results=[figure()])
    spec = json.loads((run / "spec.json").read_text())

    def released(folder):
        (folder / "spec.json").write_text(json.dumps({**spec, "sessions": [session("done")]}))
        return False

    monkeypatch.setattr(listing, "is_working", released)
    assert described(run)["state"] == "done"


@pytest.mark.parametrize("unseen", ["another host", "no locks"])
def test_a_run_whose_lock_cannot_be_seen_may_be_running(tmp_path, monkeypatch, unseen):
    host = {"host": "cluster-7"} if unseen == "another host" else {}
    run = make_run(tmp_path / "run", sessions=[session("running", **host)])
    if unseen == "no locks":
        monkeypatch.setattr(run_state, "is_locked", lambda _: None)
    assert described(run, START + timedelta(minutes=4))["state"] == "running?"
    assert described(run, START + timedelta(hours=4))["state"] == "killed"  # nothing has changed for hours


def test_the_time_of_all_sessions_counts(tmp_path):
    day = timedelta(days=1)
    sessions = [session("killed", ended=None), session("stopped", seconds=100, started=START + day)]
    run = make_run(tmp_path / "run", sessions=[*sessions, session(seconds=20, started=START + 2 * day)], results=[])
    found = described(run)
    assert found["seconds"] == 120  # when the first was killed, nobody knows
    assert (found["started"], found["ended"]) == (START.isoformat(), (START + 2 * day + timedelta(0, 20)).isoformat())
    killed = make_run(tmp_path / "killed", sessions=[session("running")], changed=START + timedelta(seconds=50))
    assert described(killed)["seconds"] == 50  # until the last change
    journal = Journal(killed / "journal.jsonl", repair=False)
    assert described(killed)["seconds"] == 60  # until now
    journal.close()


def test_folders_of_early_versions_are_listed(tmp_path):
    shutil.copytree(EARLY, tmp_path / "runs")
    for file in (tmp_path / "runs" / "rag").iterdir():
        os.utime(file, (START.timestamp(), START.timestamp()))
    runs = {Path(run["run"]).name: run for run in list_runs(tmp_path / "runs")}
    assert {run["state"] for run in runs.values()} == {"done"}
    assert (runs["rag"]["started"], runs["rag"]["seconds"]) == (START.isoformat(), None)
    assert {name: [figure["task"] for figure in run["figures"]] for name, run in runs.items()} == {
        "planets": ["planets", "planet_names"],
        "rag": ["handbook"],
        "search": ["handbook", "handbook"],
        "seeds": ["planets[3 draws of examples]"],
    }
    assert runs["search"]["models"] == ["fts5", "bm25"]
    assert runs["search"]["headline"]["metric"] == "AC_MRR@10"
    (tmp_path / "runs" / "rag" / "summary.json").unlink()
    assert described(tmp_path / "runs" / "rag")["state"] == "stopped"


# ---- folders that are not as they should be ----

DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("spec.json", "{", "spec.json is damaged"),
        ("spec.json", DEEP, "spec.json is damaged"),
        ("spec.json", "[]", "kshot did not write this spec.json"),
        ("spec.json", '{"identity": {}, "sessions": [3]}', "spec.json is damaged"),
        ("spec.json", '{"identity": {}, "format": 99}', "a newer version of kshot wrote this"),
        ("spec.json", '{"identity": {}, "sessions": [{"state": ["done"]}]}', "kshot does not know its state"),
        ("spec.json", '{"identity": {}, "sessions": [{"state": "great"}]}', "kshot does not know its state"),
        ("summary.json", "{", "summary.json is damaged"),
        ("summary.json", '{"results": [{"task": 1, "metric": []}]}', "summary.json is damaged"),
        ("summary.json", None, "summary.json is missing"),
        ("spec.json", None, "spec.json cannot be read"),
        ("spec.json", "a folder", "spec.json cannot be read (Is a directory)"),
        ("spec.json", "a pipe", "spec.json cannot be read (it is a device or a pipe"),
        ("summary.json", "a link", "lies outside the folder, or is a link to elsewhere"),
        ("spec.json", "a link", "lies outside the folder, or is a link to elsewhere"),
        ("journal.jsonl", "a loop", None),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_damaged_folder_is_listed_and_ends_nothing(tmp_path, name, content, why):
    make_run(tmp_path / "runs" / "good", results=[figure()])
    path = make_run(tmp_path / "runs" / "bad", results=[figure()]) / name
    path.unlink()
    if content == "a folder":
        path.mkdir()
    elif content == "a pipe":
        os.mkfifo(path)
    elif content == "a link":
        (tmp_path / "other.json").write_text('{"identity": {}, "results": []}')
        path.symlink_to(tmp_path / "other.json")
    elif content == "a loop":
        path.symlink_to(path)
    elif content is not None:
        path.write_text(content)
    runs = {Path(run["run"]).name: run for run in list_runs(tmp_path / "runs")}
    assert runs["good"]["state"] == "done"
    assert runs["bad"]["state"] == ("done" if why is None else "damaged")
    assert why is None or why in runs["bad"]["why"]
    assert details(tmp_path / "runs" / "bad", SOON)["files"]


def test_a_file_that_is_too_large_for_a_list_is_not_read(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", results=[figure()])
    monkeypatch.setattr(listing, "_MAX_BYTES", 10)
    assert described(run)["state"] == "damaged"
    assert "too much for a list" in described(run)["why"]


def test_a_folder_that_cannot_be_read_is_listed(tmp_path, monkeypatch):
    make_run(tmp_path / "good", results=[figure()])
    (tmp_path / "closed").mkdir()
    real_scan, real_names = os.scandir, os.listdir

    def refusing(real):
        def called(path):
            if Path(path).name == "closed":
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        return called

    monkeypatch.setattr(os, "scandir", refusing(real_scan))
    monkeypatch.setattr(os, "listdir", refusing(real_names))
    runs = {Path(run["run"]).name: (run["state"], run["why"]) for run in list_runs(tmp_path)}
    assert runs == {"good": ("done", None), "closed": ("damaged", "it cannot be read: Permission denied")}


def test_a_folder_that_vanishes_is_left_out(tmp_path, monkeypatch):
    make_run(tmp_path / "good", results=[figure()])
    gone = make_run(tmp_path / "gone", results=[figure()])
    monkeypatch.setattr(listing, "run_folders", lambda _: [tmp_path / "good", gone])
    shutil.rmtree(gone)
    assert [Path(run["run"]).name for run in list_runs(tmp_path)] == ["good"]


def test_where_runs_are_found(tmp_path):
    top = tmp_path / "runs"
    for name in ("a", "b/c", "b/d/e", "b/d/f/too_deep", ".hidden/x", "a/inner"):
        make_run(top / name, results=[]) if name != "a/inner" else (top / name).mkdir()
    make_run(tmp_path / "elsewhere", results=[])
    (top / "link").symlink_to(tmp_path / "elsewhere")
    (top / "round").symlink_to(top)
    (top / "other").mkdir()
    (top / "other" / "spec.json").write_text("{}")  # other programs have such a file, too
    assert sorted(run["run"].removeprefix(f"{top}/") for run in list_runs(top)) == ["a", "b/c", "b/d/e"]
    assert [run["run"] for run in list_runs(top / "a")] == [str(top / "a")]
    assert [Path(run["run"]).name for run in list_runs(top / "link")] == ["link"]  # what the user names is followed
    with pytest.raises(UsageError, match="no such folder"):
        list_runs(top / "absent")
    with pytest.raises(UsageError, match="no such folder"):
        list_runs(top / "a" / "spec.json")


def test_a_whole_disk_is_refused(tmp_path, monkeypatch):
    for number in range(30):
        (tmp_path / f"{number:02}").mkdir()
    make_run(tmp_path / "99", results=[])
    assert len(list_runs(tmp_path)) == 1
    monkeypatch.setattr(listing, "_MAX_FOLDERS", 10)
    with pytest.raises(UsageError, match="there are more than 10 folders in it"):
        list_runs(tmp_path)


def test_the_newest_run_comes_first(tmp_path):
    for name, days in (("old", 0), ("new", 9), ("middle", 3)):
        make_run(tmp_path / name, sessions=[session(started=START + timedelta(days=days))], results=[])
    assert [Path(run["run"]).name for run in list_runs(tmp_path)] == ["new", "middle", "old"]


def test_nothing_in_the_folders_changes(tmp_path):
    shutil.copytree(EARLY, tmp_path / "runs")
    make_run(tmp_path / "runs" / "killed", sessions=[session("running")])

    def state():
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else sorted(path.iterdir()))
            for path in (tmp_path / "runs").rglob("*")
        }

    before = state()
    for run in list_runs(tmp_path / "runs"):
        details(Path(run["run"]), SOON)
    assert state() == before


# ---- figures, failures, cost ----


def test_an_average_stands_for_its_subsets():
    rows = [*subsets("a", [60.0] * 57), *subsets("b", [40.0] * 57), figure(7.0, task="other", model="a")]
    found = [(each["model"], each["task"], each["value"]) for each in headline_figures(rows)]
    assert found == [("a", "mmlu[Macro Average]", 60.0), ("b", "mmlu[Macro Average]", 40.0), ("a", "other", 7.0)]


def test_details_categories_and_gaps_are_no_headline():
    rows = [
        figure(1.0, task="t[c]", category="c", failed=2),
        figure(2.0, task="t", metric="acc_norm", detail=True, failed=3),
        figure(3.0, task="t", failed=3),
        figure(4.0, task="t", metric="F1", failed=3),
        figure(5.0, task="lookup:UR-UL:10:x", metric="gap: order", gap="order"),
        figure(6.0, task="u@0", of="u", example_seed=0, failed=1),
        figure(7.0, task="u@1", of="u", example_seed=1, failed=1),
        figure(8.0, task="u[2 draws of examples]", sd=1.0, failed=2),
    ]
    assert [(each["task"], each["value"]) for each in headline_figures(rows)] == [
        ("t", 3.0),
        ("u[2 draws of examples]", 8.0),
    ]
    assert failed_samples(rows) == 5
    assert failed_samples(subsets("m", [1.0, 2.0])) == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, 10**299])
def test_a_number_that_is_none_is_no_headline(tmp_path, value):
    run = make_run(tmp_path / "run", results=[figure(value, ci95=(value or 0, 1.0)), figure(2.0, task="other")])
    found = described(run)
    assert (found["headline"]["task"] == "other") == (value != 10**299)
    json.dumps(found, allow_nan=False)


def test_a_number_that_no_float_can_hold_is_damage(tmp_path):
    run = make_run(tmp_path / "run", results=[figure(10**400)])
    assert (described(run)["state"], described(run)["why"]) == ("damaged", "summary.json is damaged")


def test_what_a_run_cost(tmp_path):
    prices = {"price_in": 2.0, "price_out": 8.0, "judge_price_in": 1.0}
    spent = {
        "model": {"prompt_tokens": 1_000_000, "completion_tokens": 500_000},
        "judge": {"prompt_tokens": 500_000, "completion_tokens": 9},
        "rewriter": {"prompt_tokens": 500_000},
    }
    stopped = make_run(tmp_path / "stopped", sessions=[session("stopped")], options=prices, spent=spent)
    assert described(stopped)["cost_usd"] == pytest.approx(6.5)
    usage = [used(cost_usd=1.5), used("j", "judge", cost_usd=0.25), used("local", "rewriter")]
    assert described(make_run(tmp_path / "done", results=[], usage=usage))["cost_usd"] == pytest.approx(1.75)
    assert described(make_run(tmp_path / "free", results=[], spent=spent))["cost_usd"] is None
    for at, strange in enumerate((None, [], {"model": 3}, {"model": {"prompt_tokens": "x"}}, {"model": {}})):
        run = make_run(tmp_path / f"strange{at}", results=[], options=prices, spent=strange)
        assert described(run)["cost_usd"] in {None, 0.0}
    odd = make_run(tmp_path / "odd", results=[], options={"price_in": 10**400, "price_out": "2"}, spent=spent)
    assert described(odd)["cost_usd"] is None


@pytest.mark.parametrize(
    "started", [None, 3, "", "yesterday", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]
)
def test_a_strange_time_is_left_out(tmp_path, started):
    run = make_run(tmp_path / "run", sessions=[{**session(), "started": started}], results=[figure()])
    assert described(run)["state"] == "done"
    assert described(run)["started"] == START.isoformat()  # that of the files


def test_python_lists_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kshot.evaluate(says("1"), generation(ROWS), out="runs/one")
    (run,) = kshot.list_runs()
    assert kshot.load(run["run"]).results[0]["value"] == run["headline"]["value"]


def test_settings_are_shown_without_keys(tmp_path):
    options = {"request_option": ["api_key=hunter22", "seed=3"]}
    run = make_run(tmp_path / "run", identity=options, results=[figure()])
    assert details(run, SOON)["settings"] == {"request_option": ["api_key=***", "seed=3"]}

"""The page of one run: while it runs, and afterwards."""

import json
import threading

import pytest

import kshot
from kshot import Generate, Generated
from kshot.runs.journal import Journal
from kshot.runs.progress import ProgressState
from kshot.viewer import live
from kshot.viewer.background import Jobs
from kshot.viewer.catalog import Catalog
from kshot.viewer.live import RunPages, latest_samples, live_line
from tests.finished_runs import finished, task
from tests.progress_tasks import task_progress
from tests.run_folders import START, figure, make_run, session
from tests.viewer.asking import Clock
from tests.viewer.conftest import app_over, items
from tests.viewer.made_runs import all_done


def draft(folder, *lines):
    folder.mkdir(exist_ok=True)
    (folder / ".samples.jsonl.draft").write_text("".join(lines))
    return folder


def row(name, **more):
    return json.dumps({"task": "t", "model": "m", "id": name, "prompt": f"ask {name}", "scores": {"Em": 100.0}, **more})


def test_the_last_complete_lines_of_a_draft_are_shown_newest_first(tmp_path):
    folder = draft(tmp_path / "run", *(row(str(n)) + "\n" for n in range(30)), row("half")[:20])
    found = latest_samples(folder)
    assert [line["id"] for line in found] == [str(n) for n in range(29, 9, -1)]
    assert found[0]["text"] == "ask 29"
    assert (found[0]["score"], found[0]["verdict"], found[0]["n"]) == (100.0, "unrated", None)


def test_strange_lines_of_a_draft_are_left_out(tmp_path):
    lines = (row("a") + "\n", "[1]\n", "{\n", "\x00\n", row("b", failed="no \x1b answer", scores=None) + "\n")
    found = latest_samples(draft(tmp_path / "run", *lines))
    assert [(line["id"], line["verdict"]) for line in found] == [("b", "failed"), ("a", "unrated")]


def test_a_draft_of_many_megabytes_is_read_at_its_end(tmp_path):
    folder = draft(tmp_path / "run", row("early") + "\n", *(row(str(n), answer="x" * 300_000) + "\n" for n in range(9)))
    assert [line["id"] for line in latest_samples(folder)] == ["8", "7", "6"]


def test_no_draft_and_a_link_have_no_samples(tmp_path):
    assert latest_samples(tmp_path) == []
    elsewhere = draft(tmp_path / "elsewhere", row("secret") + "\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".samples.jsonl.draft").symlink_to(elsewhere / ".samples.jsonl.draft")
    assert latest_samples(tmp_path / "run") == []


def test_a_running_run_tells_how_far_each_task_is(tmp_path):
    run = make_run(tmp_path / "run", sessions=[session("running")])
    state = ProgressState(
        START.isoformat(timespec="seconds"), tasks=[task_progress("arc", "embedded", done=5, total=9)]
    )
    (run / "progress.json").write_text(json.dumps(state.as_json()))
    draft(run, row("a") + "\n")
    catalog = Catalog([tmp_path])
    journal = Journal(run / "journal.jsonl", repair=False)  # its lock says that a process is at work
    found = RunPages().of(catalog.run("run"), catalog.progress(catalog.run("run")))
    listed = live_line(catalog.run("run"), catalog.progress(catalog.run("run")))
    journal.close()
    assert listed["progress"] == found["progress"]  # the list of runs shows figures so far, too
    assert found["state"] == "running"
    assert found["sections"] == []
    assert [line["id"] for line in found["latest"]] == ["a"]
    (told,) = found["progress"]["tasks"]
    assert (told["task"], told["done"], told["total"]) == ("arc", 5, 9)


@pytest.mark.needs("starlette")
@pytest.mark.parametrize(("progress", "share"), [((5, 10), 0.5), ((5, None), 0.0), (None, 0.0)])
def test_the_samples_of_a_running_run_are_waited_for(tmp_path, progress, share):
    run = make_run(tmp_path / "run", sessions=[session("running")])
    (run / "samples.jsonl").unlink()
    if progress is not None:
        tasks = [task_progress("arc", "embedded", done=progress[0], total=progress[1])]
        state = ProgressState(START.isoformat(timespec="seconds"), tasks=tasks, complete=True)
        (run / "progress.json").write_text(json.dumps(state.as_json()))
    journal = Journal(run / "journal.jsonl", repair=False)
    ask, routes = app_over(tmp_path)
    listed, facets = ask("/api/runs/run/samples").json(), ask("/api/runs/run/facets").json()
    journal.close()
    routes.close()
    assert listed == {"state": "running", "share": share, "total": 0, "matching": 0, "rows": []}
    assert (facets["state"], facets["share"]) == ("indexing", share)


class Held:
    """A model that answers when the test lets it."""

    name = fingerprint = "held"
    answers = (Generate,)

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def serve(self, queue):
        for request in queue:
            self.asked.set()
            assert self.go.wait(60)
            yield request, Generated("100")


def test_a_run_gets_its_sections_when_it_ends(tmp_path):
    model = Held()
    sums = task("sums", items([100, 100]))
    thread = threading.Thread(target=lambda: kshot.evaluate(model, [sums], out=tmp_path / "run", fsync="never"))
    thread.start()
    assert model.asked.wait(60)
    clock = Clock()
    catalog, pages = Catalog([tmp_path], clock), RunPages()
    run = catalog.run("run")
    found = pages.of(run, catalog.progress(run))
    assert (found["state"], found["sections"], found["samples"]) == ("running", [], False)
    model.go.set()
    thread.join()
    clock.now += 1000.0
    run = catalog.run("run")
    found = pages.of(run, None)
    assert (found["state"], found["samples"], found["progress"]) == ("done", True, None)
    assert found["sections"]


def test_sections_are_made_again_when_the_figures_change(tmp_path):
    finished(tmp_path / "run", task("sums", items([100, 0])))
    clock = Clock()
    catalog, pages = Catalog([tmp_path], clock), RunPages()
    first = pages.of(catalog.run("run"), None)["sections"]
    assert pages.of(catalog.run("run"), None)["sections"] is first
    summary = tmp_path / "run" / "summary.json"
    summary.write_text(summary.read_text().replace('"sums"', '"totals"'))
    clock.now += 1000.0
    assert pages.of(catalog.run("run"), None)["sections"] is not first


def test_figures_that_are_not_there_yet_are_no_error(tmp_path):
    make_run(tmp_path / "killed", sessions=[session("running")])
    make_run(tmp_path / "empty", results=[])
    make_run(tmp_path / "early", results=[figure()])
    for run in Catalog([tmp_path]).runs():
        assert RunPages().of(run, None)["key"] == run.key


def test_the_sections_that_need_all_samples_of_a_large_run_come_later(tmp_path, monkeypatch):
    finished(tmp_path / "run", task("sums", items([100, 0])))
    monkeypatch.setattr(live, "_QUICK_BYTES", 0)
    run, jobs = Catalog([tmp_path]).run("run"), Jobs(pytest.fail)
    pages = RunPages(jobs)
    first = pages.of(run, None)
    assert first["reading"] is True
    assert first["sections"]
    all_done(jobs, 60)
    then = pages.of(run, None)
    assert then["reading"] is False
    assert then["sections"] == RunPages().of(run, None)["sections"]
    (run.folder / "samples.jsonl").write_text("no JSON\n")
    assert pages.of(run, None)["reading"] is True
    all_done(jobs, 60)
    last = pages.of(run, None)
    jobs.close()
    assert last["reading"] is False
    unread, *others = last["sections"]
    assert "samples.jsonl" in unread["html"]
    assert [each["id"] for each in others] == [each["id"] for each in first["sections"]]


def test_a_small_run_says_why_its_samples_cannot_be_read(tmp_path):
    finished(tmp_path / "run", task("sums", items([100, 0])))
    whole = RunPages().of(Catalog([tmp_path]).run("run"), None)["sections"]
    (tmp_path / "run" / "samples.jsonl").write_text("<b>no JSON\n")
    unread, *others = RunPages().of(Catalog([tmp_path]).run("run"), None)["sections"]
    assert (unread["id"], "this line is damaged" in unread["html"], "<b>" in unread["html"]) == ("unread", True, False)
    assert {each["id"] for each in others} <= {each["id"] for each in whole}

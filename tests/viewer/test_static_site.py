"""The pages as files: the same data as the server's, nothing over other files, and what is left out is said."""

import json
import shutil

import pytest

from kshot.core.errors import RunError, UsageError
from kshot.core.visible import visible
from kshot.report.page.report_page import STATIC_SCRIPTS, STYLES
from kshot.viewer import static_site
from kshot.viewer.static_site import write_site
from tests.finished_runs import Right, finished, task
from tests.viewer.conftest import items


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory):
    """The pages of the runs, and what was said meanwhile."""
    said = []
    written = write_site([runs], tmp_path_factory.mktemp("site") / "pages", said.append)
    return written, said


def held(site, name):
    return json.loads((site[0].path / name).read_text())


def test_the_page_holds_its_scripts_and_a_strict_policy(site):
    page = (site[0].path / "index.html").read_text()
    assert 'data-source="files"' in page
    assert "default-src &#39;none&#39;; script-src &#39;self&#39;" in page
    for name in (*STATIC_SCRIPTS, *STYLES):
        assert f'"web/{name}"' in page
        assert (site[0].path / "web" / name).is_file()
    assert "Apache License" in (site[0].path / "web" / "LICENSES.txt").read_text()  # preact.js refers to it


def test_what_was_written_is_counted(site):
    files = [path for path in site[0].path.rglob("*") if path.is_file()]
    assert site[0].files == len(files)
    assert site[0].size == sum(path.stat().st_size for path in files)
    assert not list(site[0].path.glob(".kshot-draft*"))


@pytest.mark.needs("starlette", "uvicorn")
def test_files_have_what_the_server_answers(site, ask):
    from_server = {line["key"]: line for line in ask("/api/runs").json()["runs"]}
    for line in held(site, "data/runs.json")["runs"]:
        key = line["key"]
        same = {name for name in line if name not in {"name", "samples"}}
        assert {name: line[name] for name in same} == {name: from_server[key][name] for name in same}
        page, whole = held(site, f"data/runs/{key}/run.json"), ask(f"/api/runs/{key}").json()
        assert page["details"]["settings"] == whole["details"]["settings"]
        assert [each["id"] for each in page["sections"]] == [each["id"] for each in whole["sections"]]
    cards = held(site, "data/runs/first/block-0.json")
    assert cards == [ask(f"/api/runs/first/samples/{n}").json()["sample"] for n in range(5)]
    found, made = ask.ready("/api/compare?a=first&b=second"), held(site, "data/compare/first/second.json")
    assert {name: made[name] for name in ("won", "lost", "both", "neither", "error", "state")} == {
        name: found[name] for name in ("won", "lost", "both", "neither", "error", "state")
    }


def test_columns_say_of_each_sample_what_lists_need(site):
    found = held(site, "data/runs/first/columns.json")
    assert (found["total"], found["metrics"]) == (5, ["headline", "Right"])
    assert found["columns"]["verdict"]["headline"] == "rwrwf"
    assert found["columns"]["score"]["headline"] == [100.0, 0.0, 100.0, 0.0, None]
    assert found["names"]["category"] == ["easy", "hard"]
    assert found["columns"]["category"] == [0, 0, 0, 0, 1]


def test_pairs_have_line_numbers_and_how_they_turned_out(site):
    found = held(site, "data/compare/first/second.json")
    outcomes = {tuple(pair): letter for pair, letter in zip(found["pairs"], found["flips"], strict=True)}
    assert outcomes == {(0, 0): "b", (1, 1): "w", (2, 2): "l", (3, 3): "n", (4, 4): "-"}


def test_paths_of_the_user_are_not_told(site, runs):
    for path in site[0].path.rglob("*.json"):
        assert str(runs) not in path.read_text(), path


def test_comparisons_that_are_there_are_listed_and_a_damaged_run_is_told(site):
    assert sorted(held(site, "data/runs.json")["comparisons"]) == [["first", "second"], ["second", "first"]]
    page = held(site, "data/runs/damaged/run.json")
    assert (page["state"], page["samples"]) == ("damaged", False)
    assert site[1][0].startswith("1 of 4 runs: ")


def test_blocks_hold_fifty_samples_each(tmp_path):
    finished(tmp_path / "runs" / "run", task("sums", items([100] * 119)))
    write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    blocks = [json.loads((tmp_path / f"site/data/runs/run/block-{at}.json").read_text()) for at in range(3)]
    assert [[block[0]["n"], len(block)] for block in blocks] == [[0, 50], [50, 50], [100, 20]]
    assert not (tmp_path / "site/data/runs/run/block-3.json").exists()


def test_of_many_runs_the_newest_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(static_site, "_MOST_PAIRS", 4)
    first = finished(tmp_path / "runs" / "0", task("sums", items([100])))
    for number in range(1, 4):
        shutil.copytree(first, tmp_path / "runs" / str(number))
    finished(tmp_path / "runs" / "alone", task("words", items([100])))
    written = write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    made = json.loads((tmp_path / "site/data/runs.json").read_text())["comparisons"]
    assert made == [["3", "2"], ["2", "3"], ["3", "1"], ["1", "3"], ["3", "0"], ["0", "3"], ["2", "1"], ["1", "2"]]
    assert written.notes == ["4 of 6 pairs of runs are compared, those of the newest runs"]


@pytest.mark.parametrize("name", ["a--b", "my run", "käse", "deep/er", "x\x1b[2J"])
def test_a_run_is_named_by_its_place_below_the_folder(tmp_path, name):
    finished(tmp_path / "runs" / name, task("sums", items([100])))
    write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    (line,) = json.loads((tmp_path / "site/data/runs.json").read_text())["runs"]
    assert line["name"] == visible(name)


def test_runs_of_several_folders_have_the_folder_in_their_names(tmp_path):
    for name in ("old/run", "new/run", "one"):
        finished(tmp_path / name, task("sums", items([100])))
    write_site([tmp_path / name for name in ("old", "new", "one")], tmp_path / "site", lambda _: None)
    lines = json.loads((tmp_path / "site/data/runs.json").read_text())["runs"]
    assert {line["name"] for line in lines} == {"old/run", "new/run", "one"}


def test_a_run_whose_figures_cannot_be_shown_is_told(tmp_path, monkeypatch):
    finished(tmp_path / "runs" / "run", task("sums", items([100])))

    def fails(*_):
        raise RunError("its figures are strange")

    monkeypatch.setattr(static_site.RunPages, "of", fails)
    written = write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    assert written.notes == ["run has no figures here: its figures are strange"]
    page = json.loads((tmp_path / "site/data/runs/run/run.json").read_text())
    assert (page["error"], page["sections"], page["samples"]) == ("its figures are strange", [], True)


def test_samples_that_cannot_be_read_are_left_out_and_told(tmp_path):
    run = finished(tmp_path / "runs" / "run", task("sums", items([100])))
    (run / "samples.jsonl").write_text("no JSON\n")
    written = write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    assert len(written.notes) == 1
    assert written.notes[0].startswith("run has no samples here: ")
    assert json.loads((tmp_path / "site/data/runs/run/run.json").read_text())["samples"] is False


def test_a_site_is_written_again_and_what_others_put_there_stays(site, runs):
    old = site[0].path / "data" / "runs" / "gone"
    old.mkdir()
    (site[0].path / "CNAME").write_text("pages.example")
    again = write_site([runs], site[0].path, lambda _: None)
    assert again.files == site[0].files
    assert not old.exists()
    assert (site[0].path / "CNAME").read_text() == "pages.example"
    (site[0].path / "CNAME").unlink()


def test_a_folder_with_other_files_is_refused(runs, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="other files"):
        write_site([runs], tmp_path, lambda _: None)
    with pytest.raises(UsageError, match="no folder"):
        write_site([runs], tmp_path / "thesis.tex", lambda _: None)
    with pytest.raises(UsageError, match="other files"):
        write_site([runs], runs, lambda _: None)
    with pytest.raises(UsageError, match="empty"):
        write_site([runs], "", lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_without_runs_is_an_error(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(UsageError, match="there is no run here"):
        write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    assert not (tmp_path / "site").exists()


def test_an_error_leaves_the_earlier_pages(site, runs, monkeypatch):
    before = (site[0].path / "data" / "runs.json").read_text()
    monkeypatch.setattr(static_site, "web_page", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_site([runs], site[0].path, lambda _: None)
    assert (site[0].path / "data" / "runs.json").read_text() == before
    assert not (site[0].path / ".kshot-draft").exists()


def test_metrics_of_which_less_is_better_are_named(tmp_path):
    class Errors(Right):
        name, higher_is_better = "Errors", False

    finished(tmp_path / "runs" / "run", task("sums", items([100, 0]), Right(), Errors()))
    write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    found = json.loads((tmp_path / "site/data/runs/run/columns.json").read_text())
    assert found["metrics"] == ["headline", "Right", "Errors"]
    assert found["downward"] == {"Errors": ["sums"]}
    assert found["columns"]["verdict"]["Errors"] == "wrf"


def test_runs_that_cannot_be_compared_are_told(tmp_path):
    for name, question in (("one", "of apples"), ("two", "of pears")):
        finished(tmp_path / "runs" / name, task("sums", items([100], question)))
    written = write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    assert len(written.notes) == 2
    assert "ask other questions" in written.notes[0]
    assert json.loads((tmp_path / "site/data/runs.json").read_text())["comparisons"] == []


def test_a_run_without_samples_has_none(tmp_path):
    run = finished(tmp_path / "runs" / "one", task("sums", items([100])))
    (run / "samples.jsonl").unlink()
    written = write_site([tmp_path / "runs"], tmp_path / "site", lambda _: None)
    page = json.loads((tmp_path / "site/data/runs/one/run.json").read_text())
    assert (page["samples"], written.notes) == (False, [])
    assert page["sections"]
    assert not (tmp_path / "site/data/runs/one/columns.json").exists()

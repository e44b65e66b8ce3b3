"""report.html: one safe file of at most 2 MB with the numbers of its runs, and no run fails because of it."""

import base64
import gzip
import hashlib
import json
import os
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import KshotError
from kshot.reporting import MAX_BYTES, report_on
from tests.finished_runs import Item, Replies, finished, task
from tests.report.page.page_reading import numbers

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Balanced(HTMLParser):
    """Checks that every element is closed where it was opened; collects the elements that load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.loads += [value for name, value in attrs if name in {"src", "srcset", "data", "xlink:href", "action"}]
        self.loads += [given["href"]] if tag == "link" else []
        assert not [name for name in given if name.startswith("on") or name == "style"], (tag, attrs)
        self.ids += [given["id"]] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([given, ""])

    def handle_startendtag(self, tag, attrs):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(path):
    page = Balanced()
    page.feed(Path(path).read_text("utf-8"))
    page.close()
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    return page


def held_files(page):
    return {
        given["id"]: json.loads(gzip.decompress(base64.b64decode(text)))
        for given, text in page.scripts
        if given.get("type") == "application/json"
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    made = []
    for name, right in (("old", range(50)), ("new", range(10, 90))):
        items = {
            f"q{at}": Item(None if at == 99 else 100 if at in right else 0, HOSTILE if at == 3 else "", f"c{at % 3}")
            for at in range(100)
        }
        made.append(finished(folder / name, task("quiz", items)))
    return made


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    return kshot.write_report(*runs, to=tmp_path_factory.mktemp("report") / "both.html")


# ---- the file ----


def test_every_run_with_a_folder_ends_with_a_report(runs):
    page = parsed(runs[0] / "report.html")
    assert "samples" in page.ids
    assert {"headline", "categories", "settings", "course"} <= set(page.ids)


def test_every_number_that_names_a_row_is_that_of_the_summary(runs, report):
    found = [each for each in numbers(report.read_text("utf-8")) if each.row is not None]
    for each in found:
        key, part, index = each.row.split("/")
        value = json.loads((runs[0].parent / key / "summary.json").read_text())[part][int(index)]
        for name in each.field.split("."):
            value = value[int(name)] if isinstance(value, list) else value[name]
        assert float(each.value) == value
    assert {each.row.split("/")[0] for each in found} == {"old", "new"}
    assert len(found) > 50


def test_nothing_is_loaded_and_only_its_own_script_and_style_run(report):
    text, page = report.read_text("utf-8"), parsed(report)
    assert page.loads == []
    assert "@import" not in text
    assert "url(" not in text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    (script,) = [body for given, body in page.scripts if "type" not in given]
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for name, body in (("script-src", script), ("style-src", style)):
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"


def test_the_policy_stands_before_anything_that_it_rules(report):
    text = report.read_text("utf-8")
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


def test_samples_of_several_runs_are_paired(report):
    files = held_files(parsed(report))
    pairs = files["data/compare/old/new.json"]
    assert pairs["pairs"] == [[at, at] for at in range(100)]
    outcomes = {"w": 40, "l": 10, "b": 40, "n": 9, "-": 1}  # one failed
    assert {letter: pairs["flips"].count(letter) for letter in "wlbn-"} == outcomes
    cards = {card["n"]: card for at in range(2) for card in files[f"data/runs/new/block-{at}.json"]}
    assert len(cards) == 100
    assert cards[99]["verdict"] == "failed"
    assert files["data/runs/new/columns.json"]["columns"]["n"][0] == 99  # failed ones first


def test_hostile_texts_are_only_text(report):
    text = report.read_text("utf-8")
    assert "alert(1)" not in text  # the samples are compressed, and no name has it
    assert "\u202e" not in text
    cards = held_files(parsed(report))
    assert not any("\u202e" in json.dumps(each, ensure_ascii=False) for each in cards.values())


def test_hostile_names_of_tasks_runs_and_models(tmp_path):
    name = HOSTILE.replace("/", "_")
    model = HOSTILE.replace("\x1b", "").replace("\u202e", "")  # a name without control characters
    folder = finished(tmp_path / name.replace("\x1b", ""), task(HOSTILE, {"q": Item(100)}), model=model)
    page = parsed(folder / "report.html")
    assert not [given for given, _ in page.scripts if given.get("src")]
    assert len([1 for given, _ in page.scripts if "type" not in given]) == 1
    text = (folder / "report.html").read_text("utf-8")
    assert "<img" not in text
    assert "\u202e" not in text


def test_the_same_run_gives_the_same_bytes(runs, tmp_path):
    first, second = (kshot.write_report(runs[0], to=tmp_path / name) for name in ("one.html", "two.html"))
    assert first.read_bytes() == second.read_bytes()


def test_a_result_in_memory_is_reported_too(tmp_path):
    result = finished(None, task("quiz", {"a": Item(100), "b": Item(0)}))
    written = report_on([result], tmp_path / "memory.html")
    assert (written.here, written.all) == (2, 2)
    assert "data/runs/run/block-0.json" in held_files(parsed(written.path))


def test_samples_of_results_in_memory_are_paired_too(tmp_path):
    results = [finished(None, task("quiz", {"a": Item(100), "b": Item(at)})) for at in (0, 100)]
    files = held_files(parsed(kshot.write_report(*results, to=tmp_path / "memory.html")))
    (pairs,) = [value for name, value in files.items() if name.startswith("data/compare/")]
    assert (pairs["pairs"], pairs["flips"]) == ([[0, 0], [1, 1]], "bw")


def test_runs_that_cannot_be_compared_are_shown_beside_each_other(runs, tmp_path):
    other = finished(tmp_path / "other", task("riddles", {"x": Item(100)}))
    text = kshot.write_report(runs[0], other, to=tmp_path / "r.html").read_text("utf-8")
    assert "The runs are not compared: the runs have no task in common" in text


def test_runs_of_one_name_have_keys_of_their_own(tmp_path):
    folders = [finished(tmp_path / at / "same!", task("quiz", {"a": Item(100)})) for at in "ab"]
    files = held_files(parsed(kshot.write_report(*folders, folders[0], to=tmp_path / "r.html")))
    assert len([name for name in files if name.endswith("columns.json")]) == 3


def test_a_run_of_version_0_1_has_a_report(tmp_path):
    for each in sorted((Path(__file__).parent / "data" / "runs_0_1").iterdir()):
        if (each / "summary.json").exists():
            parsed(kshot.write_report(each, to=tmp_path / f"{each.name}.html"))


# ---- its size ----


def synthetic(folder, count, text):
    """Make a run folder with so many samples of two options, without running anything."""
    finished(folder, task("quiz", {"a": Item(0)}))
    rng = random.Random(5)
    row = json.loads((folder / "samples.jsonl").read_text())
    line = json.dumps({**row, "id": "ID", "prompt": "TEXT", "scores": "SCORES"}) + "\n"
    with (folder / "samples.jsonl").open("w") as file:
        for at in range(count):
            own = line.replace('"ID"', f'"{at}"').replace("TEXT", f"{text(at)} {rng.random()}")
            file.write(own.replace('"SCORES"', '{"Right": 100.0}' if rng.random() < 0.6 else '{"Right": 0.0}'))
    return folder


def test_100_000_samples_do_not_make_it_larger(tmp_path):
    folder = synthetic(tmp_path / "run", 100_000, lambda at: f"question {at}")
    written = report_on([folder])
    assert written.bytes == (folder / "report.html").stat().st_size <= MAX_BYTES
    assert 1_000 < written.here < written.all == 100_000
    assert written.bytes > 0.97 * MAX_BYTES  # as many as fit
    files = held_files(parsed(written.path))
    assert set(files["data/runs/run/columns.json"]["columns"]["verdict"]["headline"]) == {"w"}  # they fill it alone
    assert f"{written.here:,} of 100,000 samples are in this file" in written.path.read_text("utf-8")


def test_words_of_a_megabyte_do_not_either(tmp_path):
    def word(at):
        rng = random.Random(at)
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_000_000))

    folder = synthetic(tmp_path / "run", 12, word)
    written = report_on([folder])
    assert written.bytes <= MAX_BYTES
    assert written.here == 12
    assert "so long that texts lost their middle" in written.path.read_text("utf-8")


def test_a_section_that_is_too_large_gives_way_to_a_note_and_samples_have_room(tmp_path, monkeypatch):
    names = {f"q{at}": Item(100, "", f"{'x' * 3_000} {at}") for at in range(200)}
    folder = finished(tmp_path / "run", task("quiz", names))
    monkeypatch.setattr("kshot.reporting.MAX_BYTES", 400_000)
    written = report_on([folder], tmp_path / "small.html")
    text = written.path.read_text("utf-8")
    assert written.bytes <= 400_000
    assert written.here > 0
    assert text.count("The table has no room in this report") == 1
    assert {"headline", "categories", "settings"} <= set(parsed(written.path).ids)


def test_pairs_of_samples_take_their_part_of_the_room(tmp_path, monkeypatch):
    """The files that pair the samples of two runs are known only when the samples are chosen."""
    rng = random.Random(3)
    names = [f"q{at}" for at in range(400)]
    runs = []
    for name in ("old", "new"):
        rng.shuffle(names)
        runs.append(finished(tmp_path / name, task("quiz", {each: Item(rng.choice((0, 100))) for each in names})))
    monkeypatch.setattr("kshot.report.page.report_page._SPARE", 500)
    whole = report_on(runs, tmp_path / "whole.html").bytes
    for most in (whole - 20_000, whole - 15_000, whole - 12_000):
        monkeypatch.setattr("kshot.reporting.MAX_BYTES", most)
        written = report_on(runs, tmp_path / "small.html")
        assert written.bytes <= most
        assert 0 < written.here < written.all


# ---- what is replaced ----


def test_only_a_report_is_replaced(runs, tmp_path):
    notes = tmp_path / "notes.html"
    notes.write_text("<p>mine</p>")
    with pytest.raises(KshotError, match="not a report of kshot"):
        kshot.write_report(runs[0], to=notes)
    assert notes.read_text() == "<p>mine</p>"
    path = kshot.write_report(runs[0], to=tmp_path / "r.html")
    assert kshot.write_report(runs[1], to=path) == path
    for name in ("summary.json", "samples.jsonl", "spec.json"):
        with pytest.raises(KshotError, match="a file of a run"):
            kshot.write_report(runs[0], to=runs[1] / name)
    with pytest.raises(KshotError, match="a file of a run"):
        kshot.export(runs[0], to="csv", out=runs[1] / "report.html")


def test_a_folder_gets_a_report_inside(runs, tmp_path):
    assert kshot.write_report(runs[0], to=tmp_path) == tmp_path / "report.html"


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(KshotError, match="there is no run to report on"):
        kshot.write_report()
    with pytest.raises(KshotError, match="not a run folder"):
        kshot.write_report(tmp_path)
    with pytest.raises(KshotError, match="the run is 7; it must be a folder"):
        kshot.write_report(7)


# ---- at the end of a run ----


def test_no_report_leaves_it_out(tmp_path):
    kshot.evaluate(Replies(), task("quiz", {"a": Item(100)}), out=tmp_path / "run", report=False)
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_report_that_cannot_be_written_is_a_note_and_the_run_is_complete(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no \x1b[31m page")

    monkeypatch.setattr("kshot.reporting.report_page", broken)
    result = kshot.evaluate(Replies(), task("quiz", {"a": Item(100)}), out=tmp_path / "run")
    assert result.notes == [r"report.html was not written: ValueError: no \x1b[31m page"]
    assert kshot.load(tmp_path / "run").results == result.results
    assert not list((tmp_path / "run").glob(".report*"))


def test_a_file_of_somebody_else_stays_and_the_run_says_so(tmp_path):
    run = finished(tmp_path / "run", task("quiz", {"a": Item(100)}))
    (run / "report.html").write_text("my own")
    result = kshot.evaluate(Replies(), task("quiz", {"a": Item(100)}), out=run)
    assert "not a report of kshot" in result.notes[0]
    assert (run / "report.html").read_text() == "my own"


def test_scoring_writes_it_again(tmp_path, monkeypatch):
    quiz = task("quiz", {"a": Item(100), "b": Item(0)})
    run = finished(tmp_path / "run", quiz)
    before = (run / "report.html").read_bytes()
    (run / "report.html").write_bytes(before[: len(before) // 2])
    kshot.score(run, quiz)
    parsed(run / "report.html")


def test_passages_come_with_their_texts(tmp_path):
    kshot.evaluate("fts5", "handbook", out=tmp_path / "run", limit=2)
    (block,) = [
        value for name, value in held_files(parsed(tmp_path / "run" / "report.html")).items() if "block-" in name
    ]
    assert all(card["passages"][0]["text"] for card in block)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_in_the_place_of_a_report_is_refused_at_once(tmp_path):
    run = finished(tmp_path / "run", task("sums", {"a": Item(100.0)}))
    (run / "report.html").unlink(missing_ok=True)
    os.mkfifo(run / "report.html")
    with pytest.raises(KshotError, match="device or a pipe"):
        kshot.write_report(run)

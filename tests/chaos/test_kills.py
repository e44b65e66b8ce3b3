"""A part of ``make chaos``: each named point kills a run once, and the resumed run is as an undisturbed one."""

import ast
import os
import random
import re
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

import kshot
from benchmarks.marked_pages import written
from kshot.core import kill_points
from kshot.core.errors import UsageError
from kshot.core.kill_points import POINTS
from tests.chaos.kills import Bench, Launcher, work_folder
from tests.chaos.page import PAGE, points_table
from tests.chaos.plan import hits_of, kills_of, missing_kills
from tests.chaos.scenarios import SCENARIOS

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.needs("aiohttp", "tantivy"),
]

QUICK = ("lookup", "votes", "damaged journal", "download", "damaged indexes")
"""Scenarios that pass all points but that of ``hf:``, where tests/e2e/test_same_bytes.py kills."""


def once(bench, seen):
    """Kill a scenario once at each point at which none was killed yet; at that of a torn line, again where it is cut."""
    rng = random.Random(bench.scenario.name)
    if "journal.cut" not in seen:
        yield bench.kill("journal.torn_line 3", "journal.cut 1", "summary.written 1")
    for point, count in sorted(bench.passes.items()):
        if point not in {*seen, "journal.torn_line", "summary.written"}:
            yield bench.kill(f"{point} {rng.randint(1, count)}")


def killed(names, root, launcher, models):
    outcomes = []
    for name in names:
        (scenario,) = (each for each in SCENARIOS if each.name == name)
        with Bench(scenario, root / name, launcher, models) as bench:
            outcomes += once(bench, hits_of(map(asdict, outcomes)))
    return outcomes


@pytest.fixture
def work():
    with work_folder() as name:
        yield Path(name)


def test_every_point_but_those_of_hf(work):
    with closing(Launcher()) as launcher:
        outcomes = killed(QUICK, work, launcher, {})
    assert [each for outcome in outcomes for each in outcome.violations] == []
    assert set(hits_of(map(asdict, outcomes))) == {point for point in POINTS if not point.startswith("hf.")}


def test_what_is_lost_doubled_or_left_is_found(work):
    """The checks of ``make chaos`` can fail: a run folder that is changed between two steps is a violation."""
    (scenario,) = (each for each in SCENARIOS if each.name == "lookup")
    with closing(Launcher()) as launcher, Bench(scenario, work / "bench", launcher, {}) as bench:
        step = bench._step

        def damaging(folder, outcome, kill=None):
            if kill is None:
                journal = folder / "run" / "journal.jsonl"
                first, second, *others = journal.read_bytes().splitlines(keepends=True)
                journal.write_bytes(b"".join([second, second, *others]))
                outcome.lost += first not in journal.read_bytes()
                (folder / "run" / ".summary.json.other").touch()
            return step(folder, outcome, kill)

        bench._step = damaging
        outcome = bench.kill("summary.opened 1")
    assert outcome.lost == 1
    assert outcome.duplicated >= 1
    assert "run/.summary.json.other is left behind" in outcome.violations


# ---- the points themselves ----


def named_in_the_code():
    """Return every name that a call of ``reach`` may pass; a name that is put together counts by its end."""
    found = set()
    for path in Path(kshot.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "reach" and node.args:
                found |= {text.value for text in ast.walk(node.args[0]) if isinstance(text, ast.Constant)}
    return found


def test_the_code_passes_every_point_and_no_other():
    found = {name for name in named_in_the_code() if isinstance(name, str)}
    assert {name for name in found if not name.startswith(".")} <= set(POINTS)
    files = {point for point in POINTS if point.partition(".")[0] in {"spec", "samples", "summary", "export", "report"}}
    assert set(POINTS) - files <= found


def test_the_page_lists_the_points_of_the_code():
    listed = re.findall(r"^\| `([a-z_.]+)` \| (.*?) \| [\d,]+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(listed) == POINTS


def test_a_point_that_is_not_armed_does_nothing():
    calls = []
    kill_points.watch(None)
    kill_points.reach("journal.written", lambda: calls.append(1))
    assert not calls


@pytest.mark.parametrize(
    "setting", ["journal.written", "journal.written x", "journal.written 0", "no.such_point 1", "journal.written -1"]
)
def test_a_setting_that_names_no_pass_of_a_point_is_refused(setting):
    kill_points.arm(setting)
    try:
        with pytest.raises(UsageError, match="it must name a point"):
            kill_points.reach("journal.written")
    finally:
        kill_points.watch(None)


# ---- the plan and the page ----


def test_the_plan_hits_every_point_of_a_scenario():
    passes = {"journal.torn_line": 9, "spec.opened": 2, "summary.opened": 1}
    kills = kills_of(passes, 2, random.Random(1))
    hits = hits_of({"kills": each} for each in kills)
    assert all(hits[point] >= 2 for point in passes)
    assert hits["journal.cut"] == 1
    for point, _, number in (kill.partition(" ") for each in kills for kill in each[:1]):
        assert 1 <= int(number) <= passes[point]


def test_the_plan_adds_what_was_hit_too_rarely():
    passes_of = {"a": {"journal.torn_line": 4, "spec.opened": 1}, "b": {"spec.opened": 3}}
    chosen = missing_kills(passes_of, Counter({"spec.opened": 3}), ("spec.opened", "journal.cut"), 5, 1)
    assert [name for name, _ in chosen[:2]] == ["a", "b"]
    assert [kills[1:] for _, kills in chosen[2:]] == [("journal.cut 1",)] * 5


def test_tables_go_between_their_marks():
    page = "before\n<!-- points: begin -->\nold\n<!-- points: end -->\nafter\n"
    table = points_table([{"kills": ["spec.opened 2", "spec.opened 1"]}])
    assert written(page, {"points": table}) == page.replace("old", table)
    assert f"| `spec.opened` | {POINTS['spec.opened']} | 2 |" in table
    with pytest.raises(ValueError, match="no marks"):
        written("no page", {"points": table})

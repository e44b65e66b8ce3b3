"""Several watchers as one, and what they cannot do to a run."""

from pathlib import Path

import pytest

from kshot import evaluate
from kshot.core.errors import BackendError
from kshot.core.records import Outcome, Sample
from kshot.core.watcher import MeterReading, PassingWatcher, Watcher, looks_at
from kshot.runs.watchers import Watchers

PLANETS = f"{Path(__file__).parents[2]}/examples/planets.py:PlanetNames"

EVENTS = {
    "started": ({}, None),
    "begin": ("t", "m", 3),
    "answered": (Outcome(Sample("0", {}), "a", ()),),
    "scored": ({"id": "0"},),
    "finished": ([],),
    "ended": ([], []),
    "closed": ("done", None),
    "note": ("a note",),
    "step": ("an index", 1, 2),
}


class Heard(Watcher):
    def __init__(self):
        self.events = []


def hears(name):
    return lambda self, *given, **named: self.events.append((name, given, named))


for event in (*EVENTS, "planned"):
    setattr(Heard, event, hears(event))


class OnlyNotes(Watcher):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def raises(error):
    def raising(*_, **__):
        raise error

    return raising


class Dial:
    def read(self):
        return MeterReading()


def test_each_is_told_everything_in_order():
    first, second, quiet, dial = Heard(), Heard(), OnlyNotes(), Dial()
    many = Watchers(first, None, Watchers(quiet, Watchers(second)))
    for name, given in EVENTS.items():
        getattr(many, name)(*given)
    many.planned((), dial, complete=True)
    expected = [*((name, given, {}) for name, given in EVENTS.items()), ("planned", ((), dial), {"complete": True})]
    assert first.events == second.events == expected
    assert quiet.notes == ["a note"]


def test_every_event_of_the_protocol_is_passed_on():
    protocol = {name for name, member in vars(Watcher).items() if callable(member) and not name.startswith("_")}
    assert protocol == {*EVENTS, "planned"}
    assert protocol <= set(vars(Watchers))


class Meddling(Watcher):
    """Changes everything that it is given."""

    def started(self, settings, path):
        settings["models"].append("other")
        settings.clear()

    def answered(self, outcome):
        outcome.item.fields.clear()
        object.__setattr__(outcome, "answer", "B")

    def scored(self, row):
        row["scores"]["Accuracy"] = 7.0
        row.clear()

    def finished(self, rows):
        rows[0]["value"] = 7.0
        rows.clear()

    def ended(self, results, usage):
        results[0]["value"] = 7.0
        results[0]["ci95"][0] = 7.0
        results.clear()


@pytest.mark.parametrize("option", ["log", "watcher"])
def test_nobody_who_watches_changes_the_run(option, tmp_path):
    """The figures, the rows and the settings are those of a run that nobody watches; others who watch see them, too."""
    other = Heard()
    plain = evaluate(lambda _: "Mars", PLANETS, limit=3, out=tmp_path / "plain")
    given = {"watcher": [], "log": [], option: [Meddling(), other]}
    watched = evaluate(lambda _: "Mars", PLANETS, limit=3, out=tmp_path / "watched", **given)
    for name in ("summary.json", "samples.jsonl"):
        assert (tmp_path / "watched" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert (watched.results, watched.settings) == (plain.results, plain.settings)
    assert watched.notes == []
    events = {name: given for name, given, _ in other.events}
    assert events["ended"][0] == plain.results
    assert events["started"][0] == plain.settings
    held = evaluate(lambda _: "Mars", PLANETS, limit=3, **given)  # the samples of a run without folder are live rows
    assert held.samples == plain.samples


def test_single_samples_cost_nothing_where_nobody_looks():
    assert not any(
        looks_at(watcher, event)
        for event in ("answered", "scored")
        for watcher in (OnlyNotes(), PassingWatcher(OnlyNotes()))
    )
    assert looks_at(PassingWatcher(Heard()), "scored")
    told = OnlyNotes()
    told.scored = told.notes.append  # a function of the object itself
    Watchers(told).scored({"id": "0"})
    assert told.notes == [{"id": "0"}]


@pytest.mark.parametrize("event", ["started", "planned", "begin", "answered", "scored", "finished", "ended", "closed"])
def test_an_error_of_a_watcher_ends_the_run_and_all_are_closed(event, tmp_path):
    """The error is raised; the answers so far are kept; loggers and other watchers are told how the run ended."""
    faulty, other, logger = OnlyNotes(), Heard(), Heard()

    def model(_):
        return "Mars"

    setattr(faulty, event, raises(ValueError("mine")))
    with pytest.raises(ValueError, match="mine") as error:
        evaluate(model, PLANETS, limit=3, out=tmp_path / "run", watcher=[faulty, other], log=logger)
    end = ("done", None) if event == "closed" else ("failed", error.value)
    for watcher in (other, logger):
        assert [given for name, given, _ in watcher.events if name == "closed"] == [end]
    again = evaluate(model, PLANETS, limit=3, out=tmp_path / "run")
    answers = (tmp_path / "run" / "journal.jsonl").read_text().splitlines()
    assert (again.results[0]["n"], len(answers)) == (3, 3)  # nothing is asked twice


def test_the_error_of_the_run_comes_before_those_of_its_end():
    faulty, other = OnlyNotes(), Heard()
    faulty.closed = raises(OSError("late"))
    with pytest.warns(UserWarning, match="not closed: OSError: late"), pytest.raises(BackendError, match="early"):
        evaluate(raises(KeyError("early")), PLANETS, limit=1, watcher=[faulty, other])
    assert other.events[-1][1][0] == "failed"


def test_the_first_of_several_errors_is_raised_when_all_are_closed():
    first, second, last = OnlyNotes(), OnlyNotes(), Heard()
    first.closed, second.closed = raises(KeyboardInterrupt()), raises(OSError())
    with pytest.raises(KeyboardInterrupt):
        Watchers(first, second, last).closed("done", None)
    assert last.events == [("closed", ("done", None), {})]

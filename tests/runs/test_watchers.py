"""Several watchers as one."""

from kshot.core.records import Outcome, Sample
from kshot.core.watcher import MeterReading, Watcher
from kshot.runs.watchers import Watchers

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

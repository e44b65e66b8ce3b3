"""The note on what models saved that read once what several prompts begin with: one for the whole run."""

from dataclasses import replace

import kshot
from kshot.core.protocols import Abilities
from kshot.core.records import Generate, Generated
from kshot.core.watcher import Watcher
from kshot.runs.runner import note_on_sharing
from tests.runs.test_runner import digits


def test_one_note_tells_all_models_and_nothing_where_nothing_was_saved():
    assert list(note_on_sharing({"hf:a": (2694, 453)})) == [
        "hf:a read 453 tokens instead of 2,694 (83 % less): the beginnings that prompts share are read once"
    ]
    (both,) = note_on_sharing({"a": (1000, 100), "b": (10, 12), "c": (0, 0), "d": (300, 200)})
    assert both.startswith(
        "a read 100 tokens instead of 1,000 (90 % less); d read 200 tokens instead of 300 (33 % less): "
    )
    assert list(note_on_sharing({"a": (100_000, 99_999), "b": (5, 5)})) == []


class Sharing:
    answers = (Generate,)
    notes = ()

    def __init__(self, name):
        self.name = self.fingerprint = name
        self.read = 0

    @property
    def abilities(self):
        return Abilities(tokens_read=lambda: (10 * self.read, self.read))

    def serve(self, queue):
        for request in queue:
            self.read += 100
            yield request, Generated("1")

    def close(self):
        self.read = 0  # nothing is known of it after that


class Notes(Watcher):
    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


def test_several_tasks_and_models_have_one_note_between_them():
    notes = Notes()
    tasks = [digits(), replace(digits(), name="others")]
    kshot.evaluate([Sharing("one"), Sharing("two")], tasks, watcher=notes)
    (found,) = (text for text in notes.texts if "tokens" in text)
    assert found.startswith("one read ")
    assert "; two read " in found
    assert found.endswith("(90 % less): the beginnings that prompts share are read once")

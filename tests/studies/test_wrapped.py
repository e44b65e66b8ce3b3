"""Studies around a source: what does not depend on settings is as the source itself says."""

import pytest

from kshot.core.protocols import Source
from kshot.settings import Settings
from kshot.studies.example_draws import ExampleDraws
from kshot.studies.sweep import Sweep
from kshot.studies.wrapped import OwnSettings


class Around(Source[Settings]):
    """A source that says something of its own wherever it can."""

    label, has_corpus, models, judges, without_logprobs = "inner", True, ("m",), ("j",), "Use another."
    model_names = {"m": "Model M"}

    def __init__(self):
        self.closed = 0

    def tasks(self, settings, model=None, facts=None):
        return iter(())

    def wants_chat(self, model):
        return model == "chatty"

    def data_names(self):
        return ["rows"]

    def announcements(self):
        return ["functions run confined"]

    def close(self):
        self.closed += 1


MADE = {
    "draws": lambda whole: ExampleDraws("name", whole, lambda settings, seed: (whole, settings)),
    "own": lambda whole: OwnSettings("name", whole, lambda settings: settings, ()),
    "sweep": lambda whole: Sweep("name", whole, (), lambda settings, values: None, lambda settings: whole),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_study_says_what_its_source_says(kind):
    whole = Around()
    study = MADE[kind](whole)
    assert study.label == "name"
    for name in ("has_corpus", "models", "model_names", "judges", "without_logprobs"):
        assert getattr(study, name) == getattr(whole, name), name
    assert study.wants_chat("chatty")
    assert not study.wants_chat("quiet")
    assert study.data_names() == ["rows"]
    assert study.announcements() == ["functions run confined"]
    study.close()
    assert whole.closed == 1

from __future__ import annotations

import pytest

from kshot.core.errors import DataError
from kshot.core.records import Answers, AskFailed, Generate, Generated, Gold, Sample
from kshot.metrics import GPTEval
from tests.measures import measure

SAMPLE = Sample("s1", {"source": "Why is the sky blue?"}, Answers(("Rayleigh scattering.",)))


def drive(asking, *replies):
    """Answer a judge's requests; give the requests and the result."""
    asked = next(asking)
    with pytest.raises(StopIteration) as ended:
        asking.send([Generated(reply) for reply in replies])
    return asked, ended.value.value


def test_a_single_rating():
    metric = GPTEval()
    (request,), value = drive(metric.score(SAMPLE, "Because of air."), "Fine.\nRating: [[7]]")
    assert value == {"GPT-Eval": 7.0}
    assert isinstance(request, Generate)
    assert request.role == "judge"
    assert request.temperature == 0
    for shown in ("Why is the sky blue?", "Because of air.", "Rayleigh scattering."):
        assert shown in request.prompt.messages[1].content
    assert measure(metric).aggregate([7.0, 8.0]) == 7.5


def test_no_rating_is_a_failure_not_a_zero():
    asking = GPTEval().score(SAMPLE, "x")
    next(asking)
    with pytest.raises(AskFailed) as caught:
        asking.send([Generated("I would rather not say.")])
    assert caught.value.failed.kind == "judge"
    assert "rather not" in caught.value.failed.message


@pytest.mark.parametrize(
    ("replies", "value"),
    [
        (("[[A]]", "[[B]]"), 100.0),
        (("[[B]]", "[[A]]"), 0.0),
        (("[[A]]", "[[A]]"), 50.0),
        (("[[B]]", "[[B]]"), 50.0),
        (("[[C]]", "[[C]]"), 50.0),
        (("[[A]]", "[[C]]"), 50.0),
    ],
)
def test_pairwise_with_the_positions_swapped(replies, value):
    (first, second), found = drive(GPTEval(pairwise=True).score(SAMPLE, "OWN"), *replies)
    assert found == {"GPT-Eval": value}
    texts = [request.prompt.messages[1].content for request in (first, second)]
    assert texts[0].index("OWN") < texts[0].index("Rayleigh")
    assert texts[1].index("Rayleigh") < texts[1].index("OWN")


def test_pairwise_needs_a_reference_and_a_verdict():
    with pytest.raises(DataError, match="no reference answer"):
        next(GPTEval(pairwise=True).score(Sample("s", {"source": "q"}), "x"))
    asking = GPTEval(pairwise=True).score(SAMPLE, "x")
    next(asking)
    with pytest.raises(AskFailed, match="no verdict"):
        asking.send([Generated("[[A]]"), Generated("hm")])


def test_several_turns():
    sample = Sample("s", {"source": ["Name a bird.", "And its colour?"]}, Gold(""))
    (request,), value = drive(GPTEval(multi_turn=True).score(sample, ("Kingfisher", "Blue")), "[[9]]")
    assert value == {"GPT-Eval": 9.0}
    text = request.prompt.messages[1].content
    assert text.index("Name a bird.") < text.index("Kingfisher") < text.rindex("And its colour?") < text.index("Blue")
    with pytest.raises(DataError, match="2 questions and 1 answers"):
        next(GPTEval(multi_turn=True).score(sample, ("Kingfisher",)))


def test_the_last_turn_alone():
    sample = Sample("s", {"source": ["Name a bird.", "And its colour?"]})
    (request,), _ = drive(GPTEval().score(sample, "Blue"), "[[9]]")
    assert "Name a bird.\n\nAnd its colour?" in request.prompt.messages[1].content
    with pytest.raises(DataError, match="multi_turn=True"):
        next(GPTEval().score(sample, ("Kingfisher", "Blue")))


def test_without_a_source_the_texts_are_shown():
    sample = Sample("s", {"passage": "Long ago.", "question": "When?", "number": 3})
    (request,), _ = drive(GPTEval().score(sample, "Long ago"), "[[9]]")
    assert "Long ago.\n\nWhen?" in request.prompt.messages[1].content

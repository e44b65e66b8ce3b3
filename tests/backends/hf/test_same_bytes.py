"""Equal requests get equal numbers, to the last bit."""

import itertools
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: kshot[hf]")

from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.records import Loglik, Prompt  # noqa: E402
from tests.tiny_models import ask_all  # noqa: E402

STEM = "The capital of France is Paris. The capital of Germany is Berlin. Hello world, hello there! " * 3
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def questions(count):
    """Questions with a common beginning, and options of different lengths."""
    return [
        Loglik(
            Prompt(f"{STEM}Question {number}: what is the answer to {number * 7}?\nAnswer:"), (" A", " the dog", " B.")
        )
        for number in range(count)
    ]


def numbers(backend, requests):
    return [[item.logprob for item in scored.likelihoods] for scored in ask_all(backend, requests)]


# ---- a plain repetition ----


def test_the_clock_has_no_say(tiny_llama, monkeypatch):
    """Whichever row looks fast on this machine now, the rows are the same."""

    def answers_by(ticks):
        clock = itertools.accumulate(ticks)
        for name in CLOCKS:
            monkeypatch.setattr(time, name, lambda: next(clock))
        backend = Transformers(str(tiny_llama), device="cpu")
        backend._runner  # noqa: B018 - it reads the signature of the model, so it comes before the patch
        lengths, forward = [], backend._model.forward

        def watched(*args, **options):
            lengths.append(options["input_ids"].shape)
            return forward(*args, **options)

        monkeypatch.setattr(backend._model, "forward", watched)
        found = numbers(backend, questions(300))
        monkeypatch.undo()
        return found, lengths

    slower, faster = (answers_by(ticks) for ticks in (itertools.count(1), (1 / at for at in itertools.count(1))))
    assert sum(shape.numel() for shape in slower[1]) > 5000
    assert slower == faster

"""Chunks of requests: small at first, larger later, and prepared while the answers to the chunk before are used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from kshot.backends.hf.model import RequestChunks
from kshot.core.records import Generate, Loglik, Prompt
from tests.tiny_models import Queue, ask_all, build


def scored(count: int) -> list[Loglik]:
    return [Loglik(Prompt(f"question {number}"), (" yes",)) for number in range(count)]


class Watched(Queue):
    """Notes how many requests each call took."""

    def __init__(self, requests):
        super().__init__(requests)
        self.sizes = []

    def take(self, at_most=None):
        taken = super().take(at_most)
        self.sizes.append(len(taken))
        return taken


def chunks_of(requests, *, in_steps: bool, answers=lambda _, chunk: len(chunk)) -> tuple[list[list], list[int]]:
    """Return the chunks, and what each call of the queue gave; ``answers``: so many are used while a chunk runs."""
    queue = Watched(requests)
    source = RequestChunks(queue, list, in_steps=in_steps)
    found = []
    while chunk := source.next_chunk():
        for _ in range(answers(len(found), chunk)):
            source.used_answer()
        found.append(chunk)
    return found, queue.sizes


def test_a_cpu_takes_all_that_wait():
    requests = scored(2000)
    assert chunks_of(requests, in_steps=False)[0] == [requests]


def test_a_gpu_starts_with_few_requests_and_then_takes_more():
    chunks, sizes = chunks_of(scored(5000), in_steps=True)
    assert [len(chunk) for chunk in chunks[:6]] == [32, 64, 128, 256, 512, 1024]
    assert max(sizes[:60]) <= 32  # the large ones too were taken in small parts


def test_texts_are_written_in_large_batches_from_the_start():
    requests = [Generate(Prompt(str(number))) for number in range(2000)]
    chunks, _ = chunks_of(requests, in_steps=True)
    assert [len(chunk) for chunk in chunks[:3]] == [256, 512, 1024]
    mixed = [*scored(10), *requests]
    assert len(chunks_of(mixed, in_steps=True)[0][0]) == 256


@given(st.integers(0, 700), st.lists(st.integers(0, 300), max_size=12), st.integers(0, 700))
def test_each_request_is_in_one_chunk_whenever_answers_are_used(count, used, writes_from):
    requests = [Generate(each.prompt) if number >= writes_from else each for number, each in enumerate(scored(count))]
    chunks, _ = chunks_of(requests, in_steps=True, answers=lambda at, _: used[at] if at < len(used) else 0)
    assert [request for chunk in chunks for request in chunk] == requests
    assert all(len(chunk) <= (256 if writes_from < count else 32) << at for at, chunk in enumerate(chunks))


def test_a_model_answers_the_same_in_chunks(tmp_path):
    pytest.importorskip("torch")
    from kshot.backends.hf.model import Transformers

    folder = build("llama", tmp_path / "llama")
    stem = "Question: what is the answer to this question? " * 5
    requests = [Loglik(Prompt(f"{stem}{number}"), (" A", " the answer is B.")) for number in range(150)]
    requests[40] = Loglik(Prompt(stem), ())
    requests[90] = Loglik(Prompt(stem), ("",))  # it fails, in the middle of a chunk
    expected = ask_all(Transformers(str(folder), device="cpu"), requests)

    def in_chunks():
        backend = Transformers(str(folder), device="cpu", row_tokens=64)
        backend._runner._packed.rows_ahead = 2
        backend._device = SimpleNamespace(type="cuda")  # what decides on chunks; the model itself is on the CPU
        return ask_all(backend, requests)

    found = in_chunks()
    assert found == in_chunks()  # to the last bit
    assert [type(each) for each in found] == [type(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        if one != other:
            values = [[each.logprob for each in answer.likelihoods] for answer in (one, other)]
            assert values[0] == pytest.approx(values[1], abs=1e-4)

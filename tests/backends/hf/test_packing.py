"""Tree-packed computing: every distinct prefix is computed once, and plain batches serve where packing cannot."""

from __future__ import annotations

import functools
import random
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf import model_runner, tokens as hf_tokens  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.backends.hf.packing import PackedModel  # noqa: E402
from kshot.backends.hf.sampling import SlotBatch  # noqa: E402
from kshot.backends.hf.tokens import EncodedText, IncrementalEncoder  # noqa: E402
from kshot.backends.hf.trie import (  # noqa: E402
    RowLengths,
    TokenCounts,
    TokenSequence,
    build_trie,
    common_prefix_length,
    contains,
    make_tree_batch,
    plan_tree_batches,
)
from kshot.backends.texts import common_length  # noqa: E402
from kshot.core.errors import BackendError, UsageError  # noqa: E402
from kshot.core.records import Generate, Generated, Loglik, Prompt  # noqa: E402
from tests.shapes import shaped  # noqa: E402
from tests.tiny_models import Queue, ask_all, build, distinct_prefixes, tokenizer_of  # noqa: E402

STEM = "Question: what is the answer to this question? " * 5
QUESTIONS = ("hello", "people say that", "A quick brown fox", "naïve 日本", "hello there")
OPTIONS = (" A", " the answer is B.", " the answer is C, people say", " hello")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return build("llama", tmp_path_factory.mktemp("packing") / "llama")


def asked(stem: str = STEM) -> list[Loglik]:
    return [Loglik(Prompt(f"{stem}{text}"), OPTIONS) for text in QUESTIONS]


# ---- the trie ----


def test_contains_is_isin_for_a_sorted_array():
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 50):
        ordered = np.unique(rng.integers(0, 60, size).astype(np.uint64))
        wanted = rng.integers(0, 62, 40).astype(np.uint64)
        assert contains(ordered, wanted).tolist() == np.isin(wanted, ordered).tolist()
    assert contains(np.array([1], np.int64), np.zeros(0, np.int64)).tolist() == []


def test_a_trie_has_every_prefix_once_and_ends_tell_ancestors():
    rng = random.Random(1)
    for _ in range(200):
        sequences = [tuple(rng.randrange(3) for _ in range(rng.randint(1, 9))) for _ in range(rng.randint(1, 12))]
        trie = build_trie([TokenSequence(np.array(one, np.int32), 0) for one in sequences])
        assert len(trie) == len({one[: at + 1] for one in sequences for at in range(len(one))})
        for one, nodes in zip(sequences, trie.nodes, strict=True):
            assert tuple(trie.tokens[nodes]) == one
            assert tuple(trie.depths[nodes]) == tuple(range(len(one)))
            last = int(nodes[-1])
            ancestors = [j for j in range(last + 1) if trie.ends[j] > last]
            assert ancestors == nodes.tolist()


def test_cached_prefixes_are_found_as_far_as_they_go():
    prefix = list(range(100, 140))
    sequences = [TokenSequence(np.array([*prefix, number], np.int32), 40) for number in range(8)]
    cached = [np.array([*prefix[:30], 7, 7], np.int32), np.array([1, 2, 3], np.int32)]
    trie = build_trie(sequences, cached)
    assert trie.cached_nodes[0].tolist() == list(range(30))
    assert not len(trie.cached_nodes[1])
    assert [tokens.tolist() for tokens, _ in trie.shared_prefixes] == [prefix]


def test_common_prefixes():
    rng = random.Random(3)
    for _ in range(300):
        left, right = ([rng.randrange(2) for _ in range(rng.randrange(6))] for _ in "ab")
        count = next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
        )
        assert common_prefix_length(np.array(left, np.int32), np.array(right, np.int32)) == count
        assert common_length("".join(map(str, left)), "".join(map(str, right))) == count


# ---- computing ----


@pytest.mark.parametrize("row", [1, 2, 7, 64, 1000])
def test_every_prefix_is_computed_once_at_any_row_length(folder, row):
    backend = Transformers(str(folder), device="cpu", row_tokens=row)
    alone = Transformers(str(folder), device="cpu", batch_size=1)
    found, expected = ask_all(backend, asked()), ask_all(alone, asked())
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert (a.tokens, a.logprob) == (b.tokens, pytest.approx(b.logprob, abs=1e-4))
    counts, single = backend.token_counts, alone.token_counts
    assert counts.computed == distinct_prefixes(backend, asked()) < single.computed < counts.requested


def test_the_user_is_told_how_many_tokens_were_computed(folder):
    counts = TokenCounts(requested=2694, computed=453)
    assert str(counts) == "read 453 tokens instead of 2,694: beginnings that prompts share, once"
    assert str(TokenCounts(10, 12)) == "read 12 tokens; the requests have 10"
    backend = Transformers(str(folder), device="cpu")
    assert backend.abilities.tokens_read() == (0, 0)
    ask_all(backend, asked())
    counts = backend.token_counts
    assert backend.abilities.tokens_read() == (counts.requested, counts.computed)
    assert 0 < counts.computed < counts.requested
    assert backend.notes == ()  # a run tells it once for all models


def test_a_prefix_is_cached_from_one_batch_to_the_next(folder):
    backend = Transformers(str(folder), device="cpu")
    batches = [asked(), asked(STEM + "More. "), asked("Another beginning. " * 12), asked(STEM)[:2]]
    expected = [ask_all(Transformers(str(folder), device="cpu", batch_size=1), one) for one in batches]
    for requests, right in zip(batches, expected, strict=True):
        for one, other in zip(ask_all(backend, requests), right, strict=True):
            for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
                assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
    shared = backend.count_tokens(STEM)
    # Of the last batch only the prefix is cached; its questions are computed again.
    distinct = distinct_prefixes(backend, [request for one in batches for request in one])
    assert backend.token_counts.computed < distinct + shared


def test_a_prompt_that_is_cached_whole_is_still_answered(folder):
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    before = ask_all(Transformers(str(folder), device="cpu"), [Generate(Prompt(STEM), max_tokens=5)])
    assert ask_all(backend, [Generate(Prompt(STEM), max_tokens=5)]) == before


def test_out_of_memory_halves_the_row_and_goes_on(folder, monkeypatch):
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), asked())
    backend = Transformers(str(folder), device="cpu", row_tokens=64)
    model, sizes = backend._model, []
    backend._runner  # noqa: B018 - the trial must come before the patch
    forward = model.forward

    def tight(*args, **options):
        count = options["input_ids"].numel()
        sizes.append(count)
        if count > 10:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **options)

    monkeypatch.setattr(model, "forward", tight)
    found = ask_all(backend, asked())
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
    assert [count for count in sizes if count > 10] == [64, 32, 16]
    monkeypatch.setattr(model, "forward", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(BackendError, match="out of memory"):
        ask_all(backend, [Loglik(Prompt("A new one"), (" B",))])


def test_out_of_memory_while_writing_halves_the_batch(folder, monkeypatch):
    requests = [Generate(Prompt(f"{STEM}{text}"), max_tokens=6) for text in QUESTIONS]
    backend = Transformers(str(folder), device="cpu", batch_size=4)
    expected = ask_all(backend, requests)
    forward = backend._model.forward

    def tight(*args, **options):
        if len(options["input_ids"]) > 1:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", tight)
    assert ask_all(backend, requests) == expected


def test_row_lengths_follow_from_the_device_and_shrink_with_the_memory():
    lengths = RowLengths("cpu")
    assert (lengths.row_tokens, lengths.batch_tokens, lengths.max_tree_tokens) == (256, 1024, 512)
    lengths.limit_to(600)
    assert (lengths.row_tokens, lengths.batch_tokens) == (256, 600)
    lengths.limit_to(100)
    assert (lengths.row_tokens, lengths.batch_tokens) == (100, 100)
    assert RowLengths("cuda").row_tokens == 2048
    alone = RowLengths("cpu", alone=True), RowLengths("cuda", alone=True)
    assert [(one.row_tokens, one.block_tokens) for one in alone] == [(512, 128), (2048, 512)]
    assert (RowLengths("cpu", 77).row_tokens, RowLengths("cuda", 77).batch_tokens) == (77, 77)


def test_row_tokens_must_be_positive(folder):
    with pytest.raises(UsageError, match="row_tokens"):
        Transformers(str(folder), row_tokens=0)


# ---- writing ----


def test_a_finished_text_makes_room_for_the_next(folder, monkeypatch):
    backend = Transformers(str(folder), device="cpu", batch_size=3)
    requests = [
        Generate(Prompt(f"{STEM}{text}"), max_tokens=count, temperature=warm, replica=replica)
        for text in QUESTIONS
        for count, warm in ((1, 0.0), (3, 0.9), (17, 0.0), (6, 0.5))
        for replica in (0, 1)
    ]
    expected = [ask_all(Transformers(str(folder), device="cpu", batch_size=1), [one])[0] for one in requests[::5]]
    backend._runner  # noqa: B018 - the trial must come before the patch
    sizes, forward = [], backend._model.forward

    def watched(*args, **options):
        sizes.append(len(options["input_ids"]))
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", watched)
    found = dict(backend.serve(Queue(requests)))
    assert [found[one] for one in requests[::5]] == expected
    assert len(found) == len(requests)
    assert max(sizes) == 3
    steps = sum(found[one].usage.completion_tokens - 1 for one in requests)
    # Batches that wait for their longest row would need far more.
    assert sum(sizes) - sizes.count(1) <= steps


# ---- plain batches instead ----


@pytest.mark.parametrize(
    ("name", "reason"),
    [("mistral", "over 24 tokens"), ("bloom", "ALiBi"), ("mpt", "ALiBi"), ("mamba", "state"), ("rwkv", "state")],
)
def test_models_that_cannot_be_packed_say_so(tmp_path, name, reason):
    backend = Transformers(str(shaped(name, tmp_path / name)), device="cpu", batch_size=4)
    ask_all(backend, asked())
    assert any(reason in note for note in backend.notes)
    assert backend.token_counts.computed > distinct_prefixes(backend, asked())


def test_plain_batches_are_halved_when_memory_runs_out(tmp_path, monkeypatch):
    requests = [*asked(), *(Generate(Prompt(f"{STEM}{text}"), max_tokens=6) for text in QUESTIONS)]
    backend = Transformers(str(shaped("bloom", tmp_path / "bloom")), device="cpu", batch_size=8)
    expected, sizes = ask_all(backend, requests), []
    forward = backend._model.forward

    def tight(*args, **options):
        sizes.append(len(options["input_ids"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", tight)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        if isinstance(one, Generated):
            assert one == other
        else:
            assert [a.logprob for a in one.likelihoods] == pytest.approx(
                [b.logprob for b in other.likelihoods], abs=1e-4
            )
    assert [size for size in sizes if size > 2] == [8, 4]  # and later batches are no larger than fits
    monkeypatch.setattr(backend._model, "forward", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(BackendError, match="out of memory"):
        ask_all(backend, [Loglik(Prompt("A new one"), (" B",))])


def test_the_trial_finds_what_the_configuration_does_not_say(folder, monkeypatch):
    additive = PackedModel.additive_mask
    monkeypatch.setattr(PackedModel, "additive_mask", lambda self, mask: additive(self, torch.ones_like(mask)))
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    assert any("a trial differs" in note for note in backend.notes)

    def refuse(self, mask):
        raise ValueError("no such mask")

    monkeypatch.setattr(PackedModel, "additive_mask", refuse)
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    assert any("fails (ValueError: no such mask)" in note for note in backend.notes)


# ---- batches of small trees ----


def test_rows_of_one_width_give_the_same_numbers(folder, monkeypatch):
    """As on a GPU: several trees in a row."""
    requests = [Loglik(Prompt(f"w{n} hello people"), (" A", " the answer is B.")) for n in range(40)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    widths = []

    def equal_rows(trie, _max_tree_tokens, **_):
        found = plan_tree_batches(trie, 1024, equal_width=True)
        widths.append(found.width)
        return found

    monkeypatch.setattr(model_runner, "plan_tree_batches", equal_rows)
    for one, other in zip(ask_all(Transformers(str(folder), device="cpu"), requests), expected, strict=True):
        assert [a.logprob for a in one.likelihoods] == pytest.approx([b.logprob for b in other.likelihoods], abs=1e-4)
    assert widths
    assert widths[0] % 16 == 0


@pytest.mark.parametrize("equal_width", [True, False])
def test_tree_batches_keep_every_path(equal_width):
    rng = random.Random(5)
    tries_with_batches = 0
    for _ in range(100):
        stem = [9] * rng.choice([0, 0, 1])
        texts = [[*stem, *(rng.randrange(5) for _ in range(rng.randint(2, 60)))] for _ in range(rng.randint(2, 40))]
        sequences = [TokenSequence(np.array(text, np.int32), max(len(text) - 3, len(stem))) for text in texts]
        trie = plan_tree_batches(build_trie(sequences), 70, equal_width=equal_width)
        tries_with_batches += bool(len(trie.row_edges))
        for sequence, nodes in zip(sequences, trie.nodes, strict=True):
            last = int(nodes[-1])
            path = [j for j in range(last + 1) if trie.ends[j] > last]
            assert trie.tokens[path].tolist() == sequence.tokens.tolist()
            assert path[sequence.first_wanted :] == nodes.tolist()
        for at in range(len(trie.row_edges) - 1):
            first, last = trie.row_edges[at : at + 2]
            batch = make_tree_batch(trie, at, at + 1)
            for place, column in zip(range(first, last), batch.flat_places.tolist(), strict=True):
                path = [j for j in range(column + 1) if batch.ends[0, j] > column]
                assert batch.depths[0, path].tolist() == list(range(len(path)))
                assert batch.tokens[0, path[-1]] == trie.tokens[place]
            width = batch.flat_places[-1] + 1
            assert batch.single_sequences == (batch.ends[0, batch.flat_places] == width).all()
    assert tries_with_batches > 30


def test_rows_of_one_sequence_each_need_no_mask(folder, monkeypatch):
    requests = [Loglik(Prompt(f"{'ABCDEFGHIJKLMNOPQRST'[n]}: {'hello ' * n}"), (" the answer",)) for n in range(20)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    backend = Transformers(str(folder), device="cpu")
    masks, forward = [], backend._runner._packed.model.forward

    @functools.wraps(forward)
    def watched(*args, **given):
        masks.append(given.get("attention_mask"))
        return forward(*args, **given)

    monkeypatch.setattr(backend._model, "forward", watched)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        assert [a.logprob for a in one.likelihoods] == pytest.approx([b.logprob for b in other.likelihoods], abs=1e-4)
    assert masks
    assert all(mask is None for mask in masks)


@pytest.mark.parametrize("equal_width", [True, False])
@pytest.mark.parametrize("ahead", [0, 2])
def test_small_trees_are_computed_in_batches(folder, monkeypatch, equal_width, ahead):
    requests = [Loglik(Prompt(f"{number} {QUESTIONS[number % 5]}"), OPTIONS) for number in range(30)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    backend = Transformers(str(folder), device="cpu")
    backend._runner._packed.rows_ahead = ahead
    sizes, forward = [], backend._model.forward

    def batches_of_64(trie, _max_tree_tokens, **_):
        return plan_tree_batches(trie, 64, equal_width=equal_width)

    monkeypatch.setattr(model_runner, "plan_tree_batches", batches_of_64)

    def watched(*args, **options):
        sizes.append(len(options["input_ids"]))
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", watched)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert (a.tokens, a.logprob) == (b.tokens, pytest.approx(b.logprob, abs=1e-4))
    assert max(sizes) > 1
    assert not backend._runner.pending


def test_out_of_memory_halves_the_batch_of_trees(folder, monkeypatch):
    requests = [Loglik(Prompt(f"{number} {QUESTIONS[number % 5]}"), OPTIONS) for number in range(30)]
    expected = ask_all(Transformers(str(folder), device="cpu"), requests)
    backend = Transformers(str(folder), device="cpu")
    backend._runner  # noqa: B018 - the trial must come before the patch
    forward = backend._model.forward

    def tight(*args, **options):
        if len(options["input_ids"]) > 3:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", tight)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-4)


# ---- encoding shared text once ----


def whole_of(core):
    def whole(text):
        found = core.encode(text, add_special_tokens=False)
        return EncodedText.of(
            text, np.array(found.ids, np.int32), np.array([end for _, end in found.offsets], np.int64)
        )

    return whole


def test_texts_that_begin_alike_are_encoded_as_if_alone():
    whole = whole_of(tokenizer_of(bos=False).backend_tokenizer)
    rng, joined = random.Random(4), 0
    pieces = ["hello", " the answer", "\n\n", "  ", "日本", "🙂", "é", "aaaa", " 12", "…", "hel", "lo", "A. B"]
    for _ in range(400):
        left = "".join(rng.choices(pieces, k=rng.randint(40, 90)))
        known = whole(left)
        text = left[: rng.randint(0, len(left))] + "".join(rng.choices(pieces, k=rng.randint(0, 9)))
        part = hf_tokens._reusable_part(known, text)
        found = part and hf_tokens._join(known, text, part, whole(text[part[1] :]))
        if found:
            joined += 1
            assert found.ids.tolist() == whole(text).ids.tolist(), text
            assert found.ends.tolist() == whole(text).ends.tolist(), text
    assert joined > 100


def test_nothing_is_reused_if_tokens_depend_on_far_away_text():
    def odd(text):
        ids = np.array([ord(letter) + len(text) % 2 * (letter == "z") for letter in text], np.int32)
        return EncodedText.of(text, ids, np.arange(1, len(text) + 1))

    encoder = IncrementalEncoder(lambda texts: [odd(text) for text in texts])
    known = odd("a" * 200)
    texts = ["a" * 200 + "z" * count for count in range(9)]
    for one, text in zip(encoder.encode([(known, text) for text in texts]), texts, strict=True):
        assert one.ids.tolist() == odd(text).ids.tolist()
    assert not encoder._reuse_is_safe


def test_the_memory_of_slots_is_free_at_once(folder):
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, [Generate(Prompt("hello"), max_tokens=3)])
    slots = SlotBatch(backend._runner._packed, 2)
    gone = weakref.ref(slots)
    del slots
    assert gone() is None

"""Tree-packed computing: every distinct prefix once, nothing lost on the way, and a way back where it cannot be."""

from __future__ import annotations

import functools
import random
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf import computer as hf_computing  # noqa: E402
from kshot.backends.hf import continuous_batching as hf_slots  # noqa: E402
from kshot.backends.hf import encoding as hf_encoding  # noqa: E402
from kshot.backends.hf import packing as hf_packing  # noqa: E402
from kshot.backends.hf import tree_batches as hf_forest  # noqa: E402
from kshot.backends.hf.encoding import Encoded, Encoder, alike  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.backends.hf.row_length import Pace  # noqa: E402
from kshot.backends.hf.trie import Item, Seen, common, grown  # noqa: E402
from kshot.core.errors import BackendError, UsageError  # noqa: E402
from kshot.core.records import Generate, Generated, Loglik, Prompt  # noqa: E402
from tests.shapes import shaped  # noqa: E402
from tests.tiny_models import Queue, ask_all, build, tokenizer_of  # noqa: E402

STEM = "Question: what is the answer to this question? " * 5
QUESTIONS = ("hello", "people say that", "A quick brown fox", "naïve 日本", "hello there")
OPTIONS = (" A", " the answer is B.", " the answer is C, people say", " hello")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return build("llama", tmp_path_factory.mktemp("packing") / "llama")


def asked(stem: str = STEM) -> list[Loglik]:
    return [Loglik(Prompt(f"{stem}{text}"), OPTIONS) for text in QUESTIONS]


def prefixes(backend, requests) -> int:
    sequences = [span.tokens[:-1] for one in requests for span in backend._tokens.spans(one.prompt, one.continuations)]
    return len({sequence[: at + 1] for sequence in sequences for at in range(len(sequence))})


# ---- the trie ----


def test_a_trie_has_every_prefix_once_and_ends_tell_ancestors():
    rng = random.Random(1)
    for _ in range(200):
        sequences = [tuple(rng.randrange(3) for _ in range(rng.randint(1, 9))) for _ in range(rng.randint(1, 12))]
        trie = grown([Item(np.array(one, np.int32), 0) for one in sequences])
        assert len(trie) == len({one[: at + 1] for one in sequences for at in range(len(one))})
        for one, nodes in zip(sequences, trie.nodes, strict=True):
            assert tuple(trie.tokens[nodes]) == one
            assert tuple(trie.depths[nodes]) == tuple(range(len(one)))
            last = int(nodes[-1])
            ancestors = [j for j in range(last + 1) if trie.ends[j] > last]
            assert ancestors == nodes.tolist()


def test_nodes_are_told_apart_across_tries():
    rng = random.Random(2)
    seen, everything, total = Seen(), set(), 0
    for _ in range(30):
        sequences = [tuple(rng.randrange(4) for _ in range(rng.randint(1, 7))) for _ in range(9)]
        everything |= {one[: at + 1] for one in sequences for at in range(len(one))}
        total += seen.fresh(grown([Item(np.array(one, np.int32), 0) for one in sequences]).hashes)
        assert total == len(everything)


def test_held_sequences_are_found_as_far_as_they_go():
    stem = list(range(100, 140))
    items = [Item(np.array([*stem, number], np.int32), 40) for number in range(8)]
    held = [np.array([*stem[:30], 7, 7], np.int32), np.array([1, 2, 3], np.int32)]
    trie = grown(items, held)
    assert trie.known[0].tolist() == list(range(30))
    assert not len(trie.known[1])
    assert [tokens.tolist() for tokens, _ in trie.trunks] == [stem]


def test_common_prefixes():
    rng = random.Random(3)
    for _ in range(300):
        left, right = ([rng.randrange(2) for _ in range(rng.randrange(6))] for _ in "ab")
        count = next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
        )
        assert common(np.array(left, np.int32), np.array(right, np.int32)) == count
        assert alike("".join(map(str, left)), "".join(map(str, right))) == count


# ---- computing ----


@pytest.mark.parametrize("row", [1, 2, 7, 64, 1000])
def test_every_prefix_is_computed_once_at_any_row_length(folder, row):
    backend = Transformers(str(folder), device="cpu", row_tokens=row)
    alone = Transformers(str(folder), device="cpu", batch_size=1)
    found, expected = ask_all(backend, asked()), ask_all(alone, asked())
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert (a.tokens, a.logprob) == (b.tokens, pytest.approx(b.logprob, abs=1e-4))
    work = backend.work
    assert work.computed == work.distinct == prefixes(backend, asked())
    assert alone.work.distinct == work.distinct < alone.work.computed < work.requested


def test_a_prefix_is_kept_from_one_helping_to_the_next(folder):
    backend = Transformers(str(folder), device="cpu")
    helpings = [asked(), asked(STEM + "More. "), asked("Another beginning. " * 12), asked(STEM)[:2]]
    expected = [ask_all(Transformers(str(folder), device="cpu", batch_size=1), one) for one in helpings]
    for requests, right in zip(helpings, expected, strict=True):
        for one, other in zip(ask_all(backend, requests), right, strict=True):
            for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
                assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
    stem = backend.count_tokens(STEM)
    assert backend.work.distinct == prefixes(backend, [request for one in helpings for request in one])
    # Of the third repetition only the stem is held; its questions are computed again.
    assert backend.work.computed < backend.work.distinct + stem
    assert "computed" in backend.notes[-1]


def test_a_prompt_that_is_held_whole_is_still_answered(folder):
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    before = ask_all(Transformers(str(folder), device="cpu"), [Generate(Prompt(STEM), max_tokens=5)])
    assert ask_all(backend, [Generate(Prompt(STEM), max_tokens=5)]) == before


def test_out_of_memory_halves_the_row_and_goes_on(folder, monkeypatch):
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), asked())
    backend = Transformers(str(folder), device="cpu", row_tokens=64)
    model, sizes = backend._model, []
    backend._computer  # noqa: B018 - the trial is not to be disturbed
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


def test_the_pace_is_found_on_real_work():
    pace = Pace("cpu")
    costs = {128: 3.0, 256: 2.0, 512: 1.0}
    for _ in range(9):
        size, trial = pace.choose(0, 100_000)
        assert trial
        pace.begin(0, size)
        pace.timed(0, size, costs[size] * size)
    assert pace.choose(0, 100_000) == (512, False)
    assert pace.choose(1000, 100) == (256, False)
    pace.shrink(100)
    assert pace.choose(0, 100_000) == (100, False)
    assert Pace("cpu", 77).choose(0, 100_000) == (77, False)


def test_row_tokens_must_be_positive(folder):
    with pytest.raises(UsageError, match="row_tokens"):
        Transformers(str(folder), row_tokens=0)


# ---- writing ----


def test_texts_leave_and_enter_one_by_one(folder, monkeypatch):
    backend = Transformers(str(folder), device="cpu", batch_size=3)
    requests = [
        Generate(Prompt(f"{STEM}{text}"), max_tokens=count, temperature=warm, replica=replica)
        for text in QUESTIONS
        for count, warm in ((1, 0.0), (3, 0.9), (17, 0.0), (6, 0.5))
        for replica in (0, 1)
    ]
    expected = [ask_all(Transformers(str(folder), device="cpu", batch_size=1), [one])[0] for one in requests[::5]]
    backend._computer  # noqa: B018
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


# ---- the way back ----


@pytest.mark.parametrize(
    ("name", "says"),
    [("mistral", "over 24 tokens"), ("bloom", "ALiBi"), ("mpt", "ALiBi"), ("mamba", "state"), ("rwkv", "state")],
)
def test_models_that_cannot_be_packed_say_so(tmp_path, name, says):
    backend = Transformers(str(shaped(name, tmp_path / name)), device="cpu", batch_size=4)
    ask_all(backend, asked())
    assert any(says in note for note in backend.notes)
    assert backend.work.computed > backend.work.distinct


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
    assert [size for size in sizes if size > 2] == [8, 4]  # and from then on no more than fit
    monkeypatch.setattr(backend._model, "forward", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(BackendError, match="out of memory"):
        ask_all(backend, [Loglik(Prompt("A new one"), (" B",))])


def test_what_the_configuration_hides_comes_out_in_the_trial(folder, monkeypatch):
    seen = hf_packing.Packer.seen
    monkeypatch.setattr(hf_packing.Packer, "seen", lambda self, mask: seen(self, torch.ones_like(mask)))
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    assert any("a trial differs" in note for note in backend.notes)

    def refuse(self, mask):
        raise ValueError("no such mask")

    monkeypatch.setattr(hf_packing.Packer, "seen", refuse)
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, asked())
    assert any("fails (ValueError: no such mask)" in note for note in backend.notes)


# ---- small trees side by side ----


def test_rows_of_one_width_give_the_same_numbers(folder, monkeypatch):
    """As on a GPU: several trees in a row."""
    requests = [Loglik(Prompt(f"w{n} hello people"), (" A", " the answer is B.")) for n in range(40)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    widths = []

    def even(trie, _widest, **_):
        found = hf_forest.planted(trie, 1024, even=True)
        widths.append(found.width)
        return found

    monkeypatch.setattr(hf_computing, "planted", even)
    for one, other in zip(ask_all(Transformers(str(folder), device="cpu"), requests), expected, strict=True):
        assert [a.logprob for a in one.likelihoods] == pytest.approx([b.logprob for b in other.likelihoods], abs=1e-4)
    assert widths
    assert widths[0] % 16 == 0


@pytest.mark.parametrize("even", [True, False])
def test_planting_keeps_every_path(even):
    rng = random.Random(5)
    planted_ones = 0
    for _ in range(100):
        stem = [9] * rng.choice([0, 0, 1])
        texts = [[*stem, *(rng.randrange(5) for _ in range(rng.randint(2, 60)))] for _ in range(rng.randint(2, 40))]
        items = [Item(np.array(text, np.int32), max(len(text) - 3, len(stem))) for text in texts]
        trie = hf_forest.planted(grown(items), 70, even=even)
        planted_ones += bool(len(trie.rows))
        for item, nodes in zip(items, trie.nodes, strict=True):
            last = int(nodes[-1])
            path = [j for j in range(last + 1) if trie.ends[j] > last]
            assert trie.tokens[path].tolist() == item.tokens.tolist()
            assert path[item.first :] == nodes.tolist()
        for at in range(len(trie.rows) - 1):
            first, last = trie.rows[at : at + 2]
            batch = hf_forest.batch_of(trie, at, at + 1)
            for place, column in zip(range(first, last), batch.where.tolist(), strict=True):
                path = [j for j in range(column + 1) if batch.ends[0, j] > column]
                assert batch.depths[0, path].tolist() == list(range(len(path)))
                assert batch.tokens[0, path[-1]] == trie.tokens[place]
            width = batch.where[-1] + 1
            assert batch.straight == (batch.ends[0, batch.where] == width).all()
    assert planted_ones > 30


def test_rows_of_one_sequence_each_need_no_mask(folder, monkeypatch):
    requests = [Loglik(Prompt(f"{'ABCDEFGHIJKLMNOPQRST'[n]}: {'hello ' * n}"), (" the answer",)) for n in range(20)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    backend = Transformers(str(folder), device="cpu")
    masks, forward = [], backend._computer._packer.model.forward

    @functools.wraps(forward)
    def watched(*args, **given):
        masks.append(given.get("attention_mask"))
        return forward(*args, **given)

    monkeypatch.setattr(backend._model, "forward", watched)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        assert [a.logprob for a in one.likelihoods] == pytest.approx([b.logprob for b in other.likelihoods], abs=1e-4)
    assert masks
    assert all(mask is None for mask in masks)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("ahead", [0, 2])
def test_small_trees_are_computed_in_batches(folder, monkeypatch, even, ahead):
    requests = [Loglik(Prompt(f"{number} {QUESTIONS[number % 5]}"), OPTIONS) for number in range(30)]
    expected = ask_all(Transformers(str(folder), device="cpu", batch_size=1), requests)
    backend = Transformers(str(folder), device="cpu")
    packer = backend._computer._packer
    packer.ahead = ahead
    plant, sizes, forward = hf_forest.planted, [], backend._model.forward
    monkeypatch.setattr(hf_computing, "planted", lambda trie, _widest, **_: plant(trie, 64, even=even))

    def watched(*args, **options):
        sizes.append(len(options["input_ids"]))
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", watched)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert (a.tokens, a.logprob) == (b.tokens, pytest.approx(b.logprob, abs=1e-4))
    assert max(sizes) > 1
    assert not backend._computer.under_way


def test_out_of_memory_halves_the_batch_of_trees(folder, monkeypatch):
    requests = [Loglik(Prompt(f"{number} {QUESTIONS[number % 5]}"), OPTIONS) for number in range(30)]
    expected = ask_all(Transformers(str(folder), device="cpu"), requests)
    backend = Transformers(str(folder), device="cpu")
    backend._computer  # noqa: B018 - the trial is not to be disturbed
    forward = backend._model.forward

    def tight(*args, **options):
        if len(options["input_ids"]) > 3:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **options)

    monkeypatch.setattr(backend._model, "forward", tight)
    for one, other in zip(ask_all(backend, requests), expected, strict=True):
        for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-4)


# ---- the shared text once ----


def whole_of(core):
    def whole(text):
        found = core.encode(text, add_special_tokens=False)
        return Encoded(text, np.array(found.ids, np.int32), np.array([end for _, end in found.offsets], np.int64))

    return whole


def test_texts_that_begin_alike_are_encoded_as_if_alone():
    whole = whole_of(tokenizer_of(bos=False).backend_tokenizer)
    rng, spared = random.Random(4), 0
    pieces = ["hello", " the answer", "\n\n", "  ", "日本", "🙂", "é", "aaaa", " 12", "…", "hel", "lo", "A. B"]
    for _ in range(400):
        left = "".join(rng.choices(pieces, k=rng.randint(40, 90)))
        known = whole(left)
        text = left[: rng.randint(0, len(left))] + "".join(rng.choices(pieces, k=rng.randint(0, 9)))
        edge = hf_encoding._edge(known, text)
        found = edge and hf_encoding._joined(known, text, edge, whole(text[edge[1] :]))
        if found:
            spared += 1
            assert found.ids.tolist() == whole(text).ids.tolist(), text
            assert found.ends.tolist() == whole(text).ends.tolist(), text
    assert spared > 100


def test_an_encoding_that_depends_on_far_away_text_is_not_trusted():
    def odd(text):
        ids = np.array([ord(letter) + len(text) % 2 * (letter == "z") for letter in text], np.int32)
        return Encoded(text, ids, np.arange(1, len(text) + 1))

    encoder = Encoder(lambda texts: [odd(text) for text in texts])
    known = odd("a" * 200)
    texts = ["a" * 200 + "z" * count for count in range(9)]
    for one, text in zip(encoder.extended([(known, text) for text in texts]), texts, strict=True):
        assert one.ids.tolist() == odd(text).ids.tolist()
    assert not encoder._trusted


def test_slots_are_given_back_at_once(folder):
    backend = Transformers(str(folder), device="cpu")
    ask_all(backend, [Generate(Prompt("hello"), max_tokens=3)])
    slots = hf_slots.Slots(backend._computer._packer, 2)
    gone = weakref.ref(slots)
    del slots
    assert gone() is None

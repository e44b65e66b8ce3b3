"""Zero, fixed, random, window: the draws of the original, and what strict adds."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import BadValue, KshotError
from kshot.retrievers import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever, make, select


def rows(many, name="t"):
    return [{"text": f"{name}{i}", "label": str(i % 3)} for i in range(many)]


def dataset(train=6, test=2):
    return {"train": rows(train), "test": rows(test, "other")}


def test_zero_shows_nothing():
    made = ZeroRetriever(dataset())
    assert made.retrieve() == [[], []]
    assert (made.ice_separator, made.ice_eos_token, made.ice_num) == ("", "", 0)
    assert ZeroRetriever({"test": rows(1)}).retrieve() == [[]]


def test_fixed_ids_keep_order_and_repeats():
    made = FixKRetriever(dataset(), fix_id_list=[4, 0, 0])
    assert made.retrieve() == [[4, 0, 0], [4, 0, 0]]
    assert (made.ice_separator, made.ice_eos_token) == ("\n", "\n")
    assert FixKRetriever(dataset(), []).retrieve() == [[], []]
    assert FixKRetriever(dataset(), [np.int64(1)]).retrieve() == [[1], [1]]


@pytest.mark.parametrize("bad", [6, -1, 1.0, "1", True, None])
def test_an_id_that_is_no_training_row_is_a_value_error(bad):
    with pytest.raises(ValueError, match=r"fix_id_list has .*the training set has 6 rows") as caught:
        FixKRetriever(dataset(), [0, bad])
    assert isinstance(caught.value, KshotError)
    assert repr(bad) in str(caught.value)


def test_a_fixed_example_is_never_shown_to_itself():
    same = rows(4)
    ids = [0, 2]
    assert FixKRetriever({"train": same, "test": same}, ids).retrieve() == [[2], [0, 2], [0], [0, 2]]
    assert FixKRetriever({"train": same, "test": same}, ids, strict=False).retrieve() == [ids] * 4


def test_the_published_draws():
    made = RandomRetriever(dataset(6, 5), ice_num=3, seed=123)
    assert made.retrieve()[:2] == [[1, 3, 4], [4, 0, 5]]
    assert made.retrieve() == RandomRetriever(SimpleNamespace(**dataset(6, 5)), ice_num=3, seed=123).retrieve()
    assert RandomRetriever(dataset()).seed == 43


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 8), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60)
def test_draws_are_those_of_numpys_legacy_stream(n, k, m, seed, strict):
    k = min(k, n)
    stream = np.random.RandomState(seed)
    expected = [stream.choice(n, k, replace=False).tolist() for _ in range(m)]
    assert RandomRetriever(dataset(n, m), ice_num=k, seed=seed, strict=strict).retrieve() == expected
    assert all(len(set(each)) == k for each in expected)


def test_the_global_generators_are_neither_read_nor_moved():
    def state():
        return random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]  # noqa: NPY002

    results = []
    for noise in range(2):
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002
        before = state()
        results.append([make(name, dataset(8, 4), 3).retrieve() for name in ("random", "balanced", "window", "bm25")])
        results[-1].append(make("random", dataset(8, 4), 3, order="random").retrieve())
        assert state() == before
    assert results[0] == results[1]


def chi_square(counts, cells):
    total = sum(counts.values())
    expected = total / cells
    return sum((counts.get(i, 0) - expected) ** 2 / expected for i in range(cells))


def test_draws_are_uniform_and_rows_independent():
    n, k, m = 10, 3, 6000
    drawn = RandomRetriever(dataset(n, m), ice_num=k, seed=7).retrieve()
    assert chi_square(Counter(i for each in drawn for i in each), n) < 27.9  # 99.9 % point at 9 degrees of freedom
    assert chi_square(Counter(each[0] for each in drawn), n) < 27.9
    pairs = Counter(a[0] * n + b[0] for a, b in zip(drawn[::2], drawn[1::2], strict=True))
    assert chi_square(pairs, n * n) < 148.2  # 99.9 % point at 99


def test_a_row_is_never_its_own_example_and_the_others_stay_uniform():
    same = rows(7)
    stream = np.random.RandomState(5)
    expected = []
    for own in range(7):
        drawn = stream.choice(6, 4, replace=False)
        expected.append([int(i + 1) if i >= own else int(i) for i in drawn])
    for equal in (same, [dict(row) for row in same]):
        found = RandomRetriever({"train": same, "test": equal}, ice_num=4, seed=5).retrieve()
        assert found == expected
        assert all(row not in each for row, each in enumerate(found))
    assert RandomRetriever(same, ice_num=4, seed=5).retrieve() == expected  # one dataset alone is both
    many = [RandomRetriever(same, ice_num=2, seed=s).retrieve()[3] for s in range(1500)]
    counts = Counter(i if i < 3 else i - 1 for each in many for i in each)
    assert chi_square(counts, 6) < 20.5


def test_compat_lets_a_row_be_its_own_example():
    same = rows(6)
    stream = np.random.RandomState(43)
    expected = [stream.choice(6, 5, replace=False).tolist() for _ in range(6)]
    assert RandomRetriever({"train": same, "test": same}, ice_num=5, strict=False).retrieve() == expected


def test_a_slice_of_the_same_rows_knows_which_rows_it_holds():
    same = rows(8)
    whole = RandomRetriever({"train": same, "test": same}, ice_num=4).retrieve()
    assert RandomRetriever({"train": same, "test": same[:3]}, ice_num=4).retrieve() == whole[:3]
    last = RandomRetriever({"train": same, "test": same[6:]}, ice_num=7).retrieve()
    assert [sorted(each) for each in last] == [[0, 1, 2, 3, 4, 5, 7], [0, 1, 2, 3, 4, 5, 6]]
    excluded = RandomRetriever({"train": rows(8), "test": rows(2)}, ice_num=7, exclude_self=[4, None]).retrieve()
    assert sorted(excluded[0]) == [0, 1, 2, 3, 5, 6, 7]


def test_asking_for_more_than_there_is():
    with pytest.raises(BadValue, match="ice_num is 7; the training set has 6 rows"):
        RandomRetriever(dataset(), ice_num=7).retrieve()
    same = rows(6)
    with pytest.raises(ValueError, match=r"has 6 rows, and 1 of them"):
        RandomRetriever({"train": same, "test": same}, ice_num=6).retrieve()
    with pytest.raises(BadValue, match="exclude_self has 1 entries for 2"):
        RandomRetriever(dataset(), exclude_self=[0]).retrieve()


def test_no_seed_draws_one_and_records_it():
    first, second = RandomRetriever(dataset(50, 3), ice_num=5, seed=None), RandomRetriever(dataset(), seed=None)
    assert first.seed != second.seed
    assert first.facts["seed"] == first.seed
    assert RandomRetriever(dataset(50, 3), ice_num=5, seed=first.seed).retrieve() == first.retrieve()


def test_any_order_of_evaluation_gives_the_same():
    expected = RandomRetriever(dataset(30, 20), ice_num=4).retrieve()
    chosen = select(RandomRetriever(dataset(30, 20), ice_num=4))
    for row in random.Random(1).sample(range(20), 20):
        chosen(row).append(99)  # what is handed out is a copy
        assert chosen(row) == expected[row]


def test_the_window_stands_before_the_row_and_wraps_around():
    made = SlidingWindowRetriever(dataset(6, 8), k=3)
    assert made.retrieve()[:5] == [[3, 4, 5], [4, 5, 0], [5, 0, 1], [0, 1, 2], [1, 2, 3]]
    assert made.retrieve()[7] == [4, 5, 0]
    assert SlidingWindowRetriever(dataset(6, 1), ice_num=2).retrieve() == [[4, 5]]
    around = SlidingWindowRetriever(dataset(9, 5), k=4, around=True, order="nearest_first").retrieve()
    assert around[4] == [3, 5, 2, 6]
    same = rows(4)
    assert all(
        sorted([*each, i]) == [0, 1, 2, 3] for i, each in enumerate(SlidingWindowRetriever(same, k=3).retrieve())
    )
    with pytest.raises(BadValue, match="ice_num is 4"):
        SlidingWindowRetriever(same, k=4).retrieve()

"""``kshot.compare`` on 50 random pairs of runs equals a computation by scipy from the scores themselves."""

import math

import numpy as np
import pytest

import kshot
from tests.cases import some
from tests.finished_runs import Item, Points, Right, finished, task

scipy_stats = pytest.importorskip("scipy.stats")

PAIRS = 50
FLIPS = 9_999
EXACT = 13
"""With so many pairs that differ both try all swaps."""


def random_items(rng, graded):
    """The samples of one task in two runs: some that only one has, some that failed, some that changed."""
    size = int(np.exp(rng.uniform(np.log(5), np.log(400))))
    share, lift = rng.uniform(0.1, 0.9), rng.uniform(-0.3, 0.3)
    changed = rng.choice([0.03, 0.3, 1.0])

    def draw(p):
        if not graded:
            return 100.0 * float(rng.random() < p)
        return round(100 * float(rng.beta(2 * p + 0.05, 2 * (1 - p) + 0.05)), int(rng.choice([0, 1, 6])))

    runs = [{}, {}]
    for at in range(size):
        first = draw(share)
        second = draw(min(max(share + lift, 0.02), 0.98)) if rng.random() < changed else first
        for run, score in zip(runs, (first, second), strict=True):
            if at and rng.random() < 0.05:
                continue
            run[f"q{at}"] = Item(None if at and rng.random() < 0.05 else score, f"question {at}")
    return runs


def made(tmp_path, seed):
    """Two folders, and the samples that they were made from, by task."""
    rng, graded = np.random.default_rng(seed), seed % 2 == 1
    tasks = {f"quiz {at}": random_items(rng, graded) for at in range(int(rng.integers(1, 4)))}
    metric = Points if graded else Right
    paths = [
        finished(tmp_path / name, *(task(each, runs[side], metric()) for each, runs in tasks.items()))
        for side, name in enumerate(("before", "after"))
    ]
    return paths, tasks, graded


def holm(ps):
    """Holm's correction by its definition: the largest of (m - j)·p over all p up to this one."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    found = [0.0] * len(ps)
    for place, at in enumerate(order):
        found[at] = min(1.0, max((len(ps) - j) * ps[order[j]] for j in range(place + 1)))
    return found


def scipy_p(gaps):
    """The p of the mean of differences by scipy, and how far a right p may be from it."""
    different = gaps[gaps != 0]
    if len(different) < 2:  # both flips of one difference are as extreme
        return 1.0, 0.0
    found = scipy_stats.permutation_test(
        (different, np.zeros(len(different))),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=FLIPS,
        rng=np.random.default_rng(7),
    ).pvalue
    if len(different) <= EXACT:
        return found, 1e-9
    return found, 5 * math.sqrt(2 * found * (1 - found) / FLIPS) + 3 / FLIPS


@pytest.mark.parametrize("seed", some(range(PAIRS), 3, lambda seed: (seed % 2, seed % 5 < 2)))
def test_a_pair_of_runs(tmp_path, seed):
    paths, tasks, graded = made(tmp_path, seed)
    found = kshot.compare(*paths)
    assert [row["task"] for row in found.rows] == list(tasks)
    for row, (before, after) in zip(found.rows, tasks.values(), strict=True):
        both = [key for key in before if key in after]
        pairs = [(before[key].score, after[key].score) for key in both]
        scored = np.array([pair for pair in pairs if None not in pair])
        old, new = scored[:, 0], scored[:, 1]
        assert row["n"] == len(scored)
        assert (row["only_baseline"], row["only_run"]) == (len(before) - len(both), len(after) - len(both))
        failed = [sum(pair[side] is None for pair in pairs) for side in (0, 1)]
        assert [row["failed_baseline"], row["failed_run"]] == failed
        assert row["baseline_value"] == pytest.approx(old.mean(), abs=1e-9)
        assert row["run_value"] == pytest.approx(new.mean(), abs=1e-9)
        assert row["difference"] == pytest.approx((new - old).mean(), abs=1e-9)
        assert (row["won"], row["lost"]) == ((new > old).sum(), (new < old).sum())
        if graded:
            assert row["tied"] == (new == old).sum()
            p, error = scipy_p(new - old)
            assert row["p"] == pytest.approx(p, abs=max(error, 1e-9))
        else:
            assert (row["both"], row["neither"]) == (((old == 100) & (new == 100)).sum(), ((old + new) == 0).sum())
            differ = row["won"] + row["lost"]
            p = scipy_stats.binomtest(row["won"], differ).pvalue if differ else 1.0
            assert row["p"] == pytest.approx(p, abs=1e-9)
        if seed % 5 < 2:  # of both kinds of scores; scipy takes longest here
            check_interval(row, new - old)
    corrected = holm([row["p"] for row in found.rows])
    assert [row["p_corrected"] for row in found.rows] == pytest.approx(corrected, abs=1e-12)
    assert {row["family"] for row in found.rows} == {len(tasks)}
    verdicts = [(row["difference"] > 0, row["p_corrected"] < 0.05) for row in found.rows]
    words = {(True, True): "better", (False, True): "worse"}
    assert [row["verdict"] for row in found.rows] == [words.get(each) for each in verdicts]


def check_interval(row, gaps):
    """The interval of a few changes is a bounded one; that of many has the differences that scipy would not reject."""
    if len(gaps) < 2:
        assert row["ci95"] is None
        return
    low, high = row["ci95"]
    sizes = np.unique(np.abs(gaps[gaps != 0]))
    if len(sizes) > 1 and int((gaps != 0).sum()) >= 6:
        for end in (low, high):
            p, error = scipy_p(gaps - end)
            few = 40 / len(gaps) ** 2  # the steps of a mean of few differences
            assert abs(p - 0.05) < error + 0.012 + few, (end, p)
        assert (low > 0 or high < 0) == (row["p"] < 0.05)
        return
    # Random weights (Dirichlet), over the differences and one more at the end of the scale
    rng = np.random.default_rng(5)
    weights = rng.exponential(size=(20_000, len(gaps) + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    width = sizes[-1] if len(sizes) == 1 else 100.0
    for sign, end in ((1, high), (-1, low)):
        expected = np.quantile(weights @ np.append(gaps, sign * width), 0.5 + sign * 0.475)
        assert end == pytest.approx(expected, abs=0.02 * 2 * width)

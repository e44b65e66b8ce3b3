"""``make coverage`` in small: the same simulations, fewer of them, a fixed seed, and wide tolerances."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions

import numpy as np
import pytest

from benchmarks import simulated_intervals, simulated_verdicts, simulations
from kshot.statistics import interval
from kshot.statistics.permutation import sign_flips, swaps
from tests.cases import some


def one(cells, table):
    (cell,) = [cell for cell in cells if cell.table == table]
    return cell.value


@pytest.mark.parametrize("n", some(simulations.SIZES, 2))
@pytest.mark.parametrize(
    "name", ["ranks, 70 % zeros", "ranks, 95 % zeros", "ranks, 95 % ones", "0 or 0.9, 5 %", "uniform"]
)
def test_intervals_of_scores_cover(name, n):
    cells = simulations.score_cell(name, n, 400, seed=1)
    assert one(cells, "coverage kshot") >= 93
    assert one(cells, "width kshot") < 45 / n**0.5 * 4  # points of 100; the widest possible has 98 / √n·2


@pytest.mark.parametrize("n", [20, 50])
@pytest.mark.parametrize("name", ["99 % zeros, else ½ or 1", "98.9 % ones, 1 % zeros"])
def test_scores_that_mostly_lie_at_the_ends_are_covered_by_the_interval_of_a_run(name, n):
    """Wilson's interval, where all values of a sample lie at the ends, would cover 90 to 92 %."""
    scores, rng, covered = simulations.SCORES[name], np.random.default_rng(2), 0
    for points, counts in zip(*scores.draw(rng, 300, n), strict=True):
        low, high = interval(list(np.repeat(points, counts.astype(int))), bounds=(0.0, 1.0))
        covered += low <= scores.mean <= high
    assert covered / 300 >= 0.95


def test_the_simulated_interval_must_be_that_of_a_run(monkeypatch):
    monkeypatch.setattr(
        "benchmarks.simulated_intervals.bounded_ends", lambda points, counts: (points[:, 0], points[:, 0])
    )
    with pytest.raises(AssertionError, match="a run has the interval"):
        simulations.score_cell("uniform", 20, 10, seed=1)


def test_the_least_of_all_shares_is_less_than_single_shares_show():
    rare, usual = simulations.rare_cell(20)
    assert 80 < rare.value < usual.value
    assert usual.value == pytest.approx(89.4, abs=0.05)


def test_averages_of_scores_cover():
    assert (
        one(simulations.average_score_cell("6 subsets of 20", "ranks, 70 % zeros", 300, seed=1), "averages of scores")
        >= 92
    )


@pytest.mark.parametrize("kind", [*simulations.CORPORA])
def test_figures_of_a_corpus_are_covered(kind):
    assert one(simulations.corpus_cell(kind, 50, 60, seed=1), "corpus figures") >= 85


@pytest.mark.parametrize("kind", [*simulations.CORPORA])
def test_the_truth_of_a_simulated_corpus(kind):
    reduce, truth = simulations.CORPORA[kind]
    (values,) = simulated_intervals.corpus(kind, 60_000, np.random.default_rng(1))
    assert reduce(values) == pytest.approx(truth, rel=0.01)


def test_equal_systems_are_not_ahead_by_a_figure_of_the_corpus():
    assert one(simulations.swap_cell("perplexity, few long texts", 20, 150, seed=1), "false corpus figures") <= 9


@pytest.mark.parametrize("name", [*simulations.SUBSETS])
@pytest.mark.parametrize("kind", ["right or wrong", "ranks"])
def test_equal_systems_are_not_ahead_by_an_average(name, kind):
    assert one(simulations.average_verdict_cell(name, kind, 200, seed=1), "false averages") <= 9


def test_the_normal_interval_does_not():
    """Else the simulation would show nothing."""
    cells = simulations.score_cell("ranks, 95 % zeros", 20, 400, seed=1)
    assert one(cells, "coverage normal") < 80


@pytest.mark.parametrize("n", simulations.SIZES)
@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
def test_intervals_of_shares_cover(p, n):
    assert one(simulations.share_cell(p, n), "right or wrong") >= 92


@pytest.mark.parametrize("p", [0.01, 0.5, 0.99, None])
def test_intervals_of_averages_cover_and_not_always(p):
    found = one(simulations.average_cell("10 subsets of 50", p, 400, seed=1), "averages")
    assert 91 <= found <= 99


@pytest.mark.parametrize("kind", ["right or wrong", "ranks"])
@pytest.mark.parametrize(("count", "n"), some([(2, 20), (2, 50), (3, 50), (8, 20), (5, 20)], 2))
def test_equal_systems_are_not_ahead_of_each_other(kind, count, n):
    assert one(simulations.family_cell(kind, count, n, 250, seed=1), "false") <= 8


@pytest.mark.parametrize("kind", ["right or wrong", "ranks"])
def test_a_better_system_is_found(kind):
    assert one(simulations.power_cell(kind, 2, 122, 60, seed=1), "power") >= 50


def test_lookup_without_an_effect_has_no_finding():
    assert max(cell.value for cell in simulations.lookup_cell(0.8, 150, seed=1)) <= 8


def test_the_screen_of_the_simulation_spares_no_test_that_could_be_decided():
    """``p_of`` takes the normal formula for p only far above the level."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        values = simulated_verdicts.systems("ranks", 2, 30, rng)
        gaps = values[0] - values[1]
        if simulated_verdicts.p_of("ranks", gaps, least=0.15) != sign_flips(gaps)[0]:
            assert sign_flips(gaps)[0] > 0.05


def test_the_page_has_a_place_for_every_table_and_nothing_there_misses_its_limit():
    page = simulations.PAGE.read_text(encoding="utf-8")
    names = ("methods", "scores", "widths", "shares", "averages", "average scores", "corpus", "false")
    names = (*names, "false averages", "false corpus", "power", "lookup")
    filled = simulations.written(page, {name: f"table of {name}" for name in names})
    assert [f"table of {name}" in filled for name in names] == [True] * len(names)
    tables = [page.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0] for name in names]
    assert all(table.count("\n|") >= 4 for table in tables)
    assert not any("**" in table for table in tables)
    with pytest.raises(ValueError, match="no marks"):
        simulations.written(page, {"nothing": ""})


def test_no_benchmark_has_the_name_of_a_package():
    """Benchmarks put their own folder first on the path: ``import coverage`` must not find one of them."""
    names = {path.stem for path in simulations.PAGE.parents[1].glob("benchmarks/*.py")}
    assert "simulations" in names
    assert not names & ({*packages_distributions()} | sys.stdlib_module_names)


def test_the_screen_of_the_swap_test_spares_no_test_that_could_be_decided():
    rng, (reduce, _) = np.random.default_rng(4), simulations.CORPORA["perplexity, few long texts"]
    for _ in range(25):
        one, other = simulated_intervals.corpus("perplexity, few long texts", 20, rng, systems=2)
        gaps = np.array([x[0] - y[0] for x, y in zip(one, other, strict=True)])
        assert simulated_verdicts._rough(gaps) <= 0.15 or swaps(one, other, reduce) > 0.05

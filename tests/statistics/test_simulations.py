"""``make coverage`` in small: the same simulations, fewer of them, a fixed seed, and wide tolerances."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions

import pytest

from benchmarks import simulations


def one(cells, table):
    (cell,) = [cell for cell in cells if cell.table == table]
    return cell.value


@pytest.mark.parametrize("n", simulations.SIZES)
@pytest.mark.parametrize(
    "name", ["ranks, 70 % zeros", "ranks, 95 % zeros", "ranks, 95 % ones", "0 or 0.9, 5 %", "uniform"]
)
def test_intervals_of_scores_cover(name, n):
    cells = simulations.score_cell(name, n, 400, seed=1)
    assert one(cells, "coverage kshot") >= 93
    assert one(cells, "width kshot") < 45 / n**0.5 * 4  # points of 100; the widest possible has 98 / √n·2


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
@pytest.mark.parametrize(("count", "n"), [(2, 20), (2, 50), (3, 50), (5, 20), (8, 20)])
def test_equal_systems_are_not_ahead_of_each_other(kind, count, n):
    assert one(simulations.family_cell(kind, count, n, 250, seed=1), "false") <= 8


@pytest.mark.parametrize("kind", ["right or wrong", "ranks"])
def test_a_better_system_is_found(kind):
    assert one(simulations.power_cell(kind, 2, 122, 60, seed=1), "power") >= 50


def test_lookup_without_an_effect_has_no_finding():
    assert max(cell.value for cell in simulations.lookup_cell(0.8, 150, seed=1)) <= 8


def test_the_screen_of_the_simulation_spares_no_test_that_could_be_decided():
    """``p_of`` takes the normal formula for p only far above the level."""
    import numpy as np

    from kshot.statistics.permutation import sign_flips

    rng = np.random.default_rng(1)
    for _ in range(60):
        values = simulations.systems("ranks", 2, 30, rng)
        gaps = values[0] - values[1]
        if simulations.p_of("ranks", gaps, least=0.15) != sign_flips(gaps)[0]:
            assert sign_flips(gaps)[0] > 0.05


def test_the_page_has_a_place_for_every_table_and_nothing_there_misses_its_limit():
    page = simulations.PAGE.read_text(encoding="utf-8")
    names = ("methods", "scores", "widths", "shares", "averages", "false", "power", "lookup")
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

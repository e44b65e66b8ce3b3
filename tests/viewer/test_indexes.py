"""The indexes that a viewer keeps open."""

from dataclasses import replace

import pytest

from kshot.viewer.catalog import Catalog
from kshot.viewer.opened_index import sample_query
from tests.viewer.made_runs import ids, state, waited

pytestmark = pytest.mark.needs("starlette")


def test_an_index_that_somebody_holds_outlives_those_that_are_opened_after_it(runs):
    from kshot.viewer import serving

    indexes = serving.Indexes()
    run = Catalog([runs]).run("first")
    held = indexes.of(run)
    waited(held)
    opened = [indexes.of(replace(run, key=f"run {at}")) for at in range(serving._KEPT_INDEXES)]
    assert state(held).state == "new"  # its files are closed
    assert all(each is not held for each in opened)
    assert held.page(sample_query({}))["state"] in {"ready", "indexing"}
    assert ids(held) == ["q0", "q1", "q2", "q3", "lost"]
    assert indexes.of(run) is not held
    assert indexes.of(replace(run, key="run 15")) is opened[15]
    held.close()
    indexes.close()

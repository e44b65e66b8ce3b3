"""Runs to look at, and the viewer's app over them."""

import pytest

from tests.finished_runs import Item, finished, task
from tests.viewer.asking import PORT, Asking


def items(rights, question=""):
    """Samples that are right (100) or wrong (0), and one that fails."""
    made = {f"q{at}": Item(float(score), question, "easy") for at, score in enumerate(rights)}
    return {**made, "lost": Item(None, question, "hard")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on the same questions, one of another task in a folder below, and one that is damaged."""
    folder = tmp_path_factory.mktemp("viewed") / "runs"
    finished(folder / "first", task("sums", items([100, 0, 100, 0])))
    finished(folder / "second", task("sums", items([100, 100, 0, 0])))
    finished(folder / "deep" / "other", task("words", items([100], "of words")))
    finished(folder / "damaged", task("sums", items([0])))
    (folder / "damaged" / "summary.json").write_text("{")
    return folder


def app_over(*folders, tell=None):
    """The app over folders, and what closes it."""
    from kshot.viewer.catalog import Catalog
    from kshot.viewer.security import Access
    from kshot.viewer.serving import Routes, viewer_app

    told = tell or pytest.fail
    routes, access = Routes(Catalog(folders), told), Access()
    return Asking(viewer_app(routes, access, PORT, told), access.token), routes


@pytest.fixture(scope="module")
def ask(runs):
    """What asks the viewer over the runs."""
    asking, routes = app_over(runs)
    yield asking
    routes.close()

"""Pages as files answer as the viewer does: the same lists, counts, flips and samples."""

import functools
import http.server
import threading

import pytest

from kshot.viewer.static_site import write_site
from tests.browser.readers import expect
from tests.cases import some

ANSWERS = """async ([key, queries]) => {
  const answers = [];
  for (const [query, offset, limit] of queries) {
    for (;;) {
      const { state, share, ...found } = await kshot.source.samples(key, query, offset, limit);
      if (state === "ready") { answers.push(found); break; }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return answers;
}"""


@pytest.fixture(scope="module")
def site(browser, runs, tmp_path_factory):
    """The address of a plain web server; the pages lie in a folder of it."""
    folder = tmp_path_factory.mktemp("static")
    write_site([runs], folder / "deep" / "er", lambda _: None)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/deep/er/"
        server.shutdown()


def keys_of(page):
    return page.evaluate(
        "async () => (await kshot.source.runs()).runs.filter((run) => run.samples).map((run) => run.key)"
    )


def queries_of(facets):
    """Return filters, orders and searches that the facets of a run allow."""
    yield {}, 0, 50
    yield {"reverse": "1"}, 3, 5
    for verdict in ("right", "wrong", "failed", "unrated", "partly", "right,failed"):
        yield {"verdict": verdict}, 0, 50
    for sort in ("score", "id", "task", "category", "answer"):
        yield {"sort": sort}, 0, 50
        yield {"sort": sort, "reverse": "1"}, 1, 7
    for part, column in (("tasks", "task"), ("models", "model"), ("categories", "category"), ("answers", "answer")):
        for found in facets[part][:3]:
            yield {column: found["name"]}, 0, 20
    yield {"task": "no such task"}, 0, 20
    for find in (0, 3, 10**6):
        yield {"find": find, "sort": "id", "verdict": "wrong,partly"}, 0, 1
    for metric in facets["metrics"][:6]:
        yield {"metric": metric, "verdict": "wrong", "sort": "score"}, 0, 20
    for text in (
        "the",
        "th",
        '"of the"',
        "What is",
        "?",
        "zzzz",
        "é",
        "a ",
        "- th",
        "th -",
        "th ?",
        '& "of" th',
        "moons",
        "volcano",
    ):
        yield {"q": text}, 0, 20


def test_files_answer_as_the_server_does(opened, viewer, site):
    served, filed = opened(viewer), opened(site)
    expect(filed.get_by_role("table").first).to_be_visible()
    keys = keys_of(filed)
    assert sorted(keys) == sorted(keys_of(served))
    for key in keys:
        served.evaluate(ANSWERS, [key, [[{}, 0, 1]]])  # the index is ready
        facets = [page.evaluate("(key) => kshot.source.facets(key)", key) for page in (served, filed)]
        facets[1].pop("of")
        assert facets[0] == facets[1]
        queries = [list(query) for query in some(queries_of(facets[0]), 2, lambda query: next(iter(query[0]), None))]
        for query, one, other in zip(
            queries, served.evaluate(ANSWERS, [key, queries]), filed.evaluate(ANSWERS, [key, queries]), strict=True
        ):
            if "metric" in query[0]:  # files have the answer by the headline's rule alone
                for row in (*one["rows"], *other["rows"]):
                    row.pop("answer")
            assert one == other, f"{key} {query}"


def test_pairs_of_files_are_those_of_the_server(opened, viewer, site):
    served, filed = opened(viewer), opened(site)
    made = filed.evaluate("async () => (await kshot.source.runs()).comparisons")
    assert made
    for baseline, key in made:
        metrics = [
            page.evaluate("(key) => kshot.source.facets(key)", each)["metrics"]
            for page, each in ((filed, key), (filed, baseline))
        ]
        queries = [
            [{"other": baseline, "flip": flip, "metric": metric}, 0, 50]
            for metric in sorted({*metrics[0]} & {*metrics[1]})[:4]
            for flip in ("won", "lost", "flipped", "")
        ]
        one, other = (page.evaluate(ANSWERS, [key, queries]) for page in (served, filed))
        for row in (row for answers in (one, other) for answer in answers for row in answer["rows"]):
            row.pop("answer")  # files have the answer by the headline's rule alone
        assert one == other, (baseline, key)
        ask = "([key, n, other]) => kshot.source.sample(key, n, {other})"
        for row in one[-1]["rows"][:5]:
            shown = [page.evaluate(ask, [key, row["n"], baseline]) for page in (served, filed)]
            assert shown[0] == shown[1]

"""What the pages of a viewer ask for: runs, samples, comparisons, all as JSON."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshot import __version__
from kshot.core.errors import UsageError
from kshot.core.visible import one_line
from kshot.report.page.sample_card import sample_card
from kshot.report.sample_look import SampleLooks
from kshot.runs.run_state import RUNNING
from kshot.runs.sample_filters import HEADLINE, SampleFilter
from kshot.viewer.catalog import Catalog, ListedRun
from kshot.viewer.jobs import Jobs
from kshot.viewer.live import Comparisons, RunPages, live_line
from kshot.viewer.sample_index import NotReadyError, SampleIndex
from kshot.viewer.sample_query import sample_query, whole_number
from kshot.viewer.web_page import json_bytes

_MAX_ROWS = 1000
_MAX_OFFSET = 10**12
_KEPT_INDEXES = 16


class JsonAnswer(Response):
    """A value as JSON: what is no number becomes null, and half of a character its escape."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes of the value."""
        return json_bytes(content)


class Routes:
    """Answers requests from the runs of a catalog. Each works in a thread: reading a folder may take its time."""

    def __init__(self, catalog: Catalog, tell: Callable[[str], None]) -> None:
        """Take the runs; ``tell`` says in the terminal what nobody has foreseen."""
        self._catalog, self._jobs, self._indexes = catalog, Jobs(tell), Indexes()
        self._pages, self._comparisons = RunPages(self._jobs), Comparisons(self._jobs)

    def listed(self) -> list[Route]:
        """Return the routes."""
        paths: Mapping[str, Callable[[Request], Response]] = {
            "/api/runs": self.runs,
            "/api/runs/{key}": self.run,
            "/api/runs/{key}/facets": self.facets,
            "/api/runs/{key}/samples": self.samples,
            "/api/runs/{key}/samples/{n}": self.sample,
            "/api/compare": self.compare,
        }
        return [Route(path, endpoint) for path, endpoint in paths.items()]

    def close(self) -> None:
        """End what works in the background."""
        self._jobs.close()
        self._indexes.close()

    def runs(self, request: Request) -> Response:
        """Return the list of runs."""
        lines = [
            live_line(run, self._catalog.progress(run)) if run.record["state"] in RUNNING else run.line
            for run in self._catalog.runs()
        ]
        folders = [one_line(folder) for folder in self._catalog.folders]
        return _unless_known(request, {"runs": lines, "folders": folders, "version": __version__})

    def run(self, request: Request) -> Response:
        """Return one run, with its sections or its progress."""
        run = self._run(request)
        return _unless_known(request, self._pages.of(run, self._catalog.progress(run)))

    def facets(self, request: Request) -> Response:
        """Return the names and counts by which the samples of a run can be filtered."""
        run = self._run(request)
        if waits := self._waits(run):
            return JsonAnswer(waits.facets())
        return JsonAnswer(self._indexes.of(run).facets(_metric(request)))

    def samples(self, request: Request) -> Response:
        """Return a part of the list of samples."""
        given = request.query_params
        query = sample_query(dict(given))
        offset = whole_number("offset", given.get("offset", ""), default=0, most=_MAX_OFFSET)
        limit = whole_number("limit", given.get("limit", ""), default=50, most=_MAX_ROWS)
        run = self._run(request)
        if waits := self._waits(run):
            return JsonAnswer(waits.page())
        return JsonAnswer(self._indexes.of(run).page(query, offset, limit, self._other(request)))

    def sample(self, request: Request) -> Response:
        """Return one sample, and the same one in another run."""
        run, other, metric = self._run(request), self._other(request), _metric(request)
        n = whole_number("the sample", request.path_params["n"], default=0, most=_MAX_OFFSET)
        index = self._indexes.of(run)
        others = [] if other is None else index.counterparts(n, other)
        cards = [] if other is None else [_card(other, each, metric) for each in others]
        return JsonAnswer({"sample": _card(index, n, metric), "others": cards})

    def compare(self, request: Request) -> Response:
        """Return the comparison of two runs; the first is the baseline."""
        keys = [request.query_params.get(name, "") for name in ("a", "b")]
        if not all(keys):
            raise UsageError("a comparison needs two runs, a and b")
        baseline, other = map(self._catalog.run, keys)
        return JsonAnswer(self._comparisons.of(baseline, other))

    def _waits(self, run: ListedRun) -> NotReadyError | None:
        """Return how far a run is that writes its samples when it ends; None: it has some."""
        if run.line["samples"] or run.record["state"] not in RUNNING:
            return None
        progress = run.record["progress"] or {}
        done, total = progress.get("done"), progress.get("total")
        return NotReadyError("running", min(1.0, done / total) if done and total else 0.0)

    def _run(self, request: Request) -> ListedRun:
        return self._catalog.run(request.path_params["key"])

    def _other(self, request: Request) -> SampleIndex | None:
        key = request.query_params.get("other")
        return self._indexes.of(self._catalog.run(key)) if key else None


class Indexes:
    """The indexes of the runs whose samples were asked for last."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[str, SampleIndex] = {}
        self._lock = threading.Lock()

    def of(self, run: ListedRun) -> SampleIndex:
        """Return the index of a run; one that was not used for long is put to rest, and wakes when it is asked."""
        with self._lock:
            found = self._known.pop(run.key, None) or SampleIndex(run.folder)
            self._known[run.key] = found
            if len(self._known) > _KEPT_INDEXES:
                self._known.pop(next(iter(self._known))).rest()
        return found

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for each in self._known.values():
                each.close()
            self._known.clear()


def _metric(request: Request) -> str | None:
    metric = request.query_params.get("metric") or HEADLINE
    return None if metric == HEADLINE else metric


def _card(index: SampleIndex, n: int, metric: str | None) -> dict[str, Any]:
    row = index.row(n)
    looks = SampleLooks(index.folder, SampleFilter({}), full=True)
    return sample_card(looks.of(row, index.scale(n, metric)), n, index.passage_texts(row))


def _unless_known(request: Request, value: Any) -> Response:
    """Return a value, or that it is the one that the page has."""
    body = json_bytes(value)
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})

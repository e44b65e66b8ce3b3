"""Run folders whose rows a test chooses, and a look at what the index makes of them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kshot.viewer.background import Jobs
from kshot.viewer.opened_index import sample_query
from kshot.viewer.sample_index import SampleIndex


def figure(task: str, metric: str = "Right", **more: Any) -> dict[str, Any]:
    """A row of summary.json."""
    usual = {"value": None, "n": 0, "failed": 0, "ci95": None, "bounds": [0, 100], "higher_is_better": True}
    return {"task": task, "model": "m", "metric": metric} | usual | more


def sample(name: str, score: float | None = None, **more: Any) -> dict[str, Any]:
    """A row of samples.jsonl; without a score it failed."""
    scores = {"scores": {}, "failed": "timeout: no answer"} if score is None else {"scores": {"Right": score}}
    usual = {"prompt": f"What is {name}?", "response": f"It is {name}.", "answer": name, "target": ["x"]}
    return {"task": "quiz", "model": "m", "id": name, "question": f"digest {name}", **usual, **scores, **more}


def write_run(folder, rows, results=None, **spec):
    """Write the files of a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.json").write_text(json.dumps({"identity": {"models": ["m"], "datasets": ["quiz"]}} | spec))
    figures = [figure(task) for task in dict.fromkeys(row["task"] for row in rows)] if results is None else results
    (folder / "summary.json").write_text(json.dumps({"results": figures, "notes": []}))
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def opened(folder) -> SampleIndex:
    """The index of a run, when it is ready."""
    index = SampleIndex(folder)
    found = waited(index)
    assert found.state == "ready", found.error
    return index


def all_done(jobs: Jobs, seconds: float) -> None:
    """Wait until all jobs are done, at most this long."""
    with jobs._changed:
        jobs._changed.wait_for(lambda: all(job.found is not None for job in jobs._jobs.values()), seconds)


class IndexState(NamedTuple):
    """How far an index is, and why it failed."""

    state: str
    error: str = ""


def state(index: SampleIndex) -> IndexState:
    """How far an index is."""
    made = index._current()
    if made is None:
        return IndexState("new")
    if made.error is not None:
        return IndexState("failed", str(made.error))
    return IndexState("ready" if made.is_done else "indexing")


def waited(index: SampleIndex) -> IndexState:
    """Start an index, and wait until it is ready or failed."""
    index.start().wait()
    return state(index)


def page(index: SampleIndex, offset: int = 0, limit: int = 50, other: SampleIndex | None = None, **query: str):
    """A page, when it is ready; what is made for it in a thread is waited for."""
    for _ in range(100):
        found = index.page(sample_query(query), offset, limit, other)
        if found["state"] == "ready":
            return found
        for work in (index._index, index._words, *index._pairs.values()):
            if work is not None:
                work.wait()
    raise AssertionError(f"the page is not ready: {found}")


def ids(index: SampleIndex, **query: Any) -> list[str]:
    """The ids of a page."""
    return [row["id"] for row in page(index, **query)["rows"]]

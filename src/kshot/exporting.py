"""Runs of search engines in the forms that other tools read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kshot.api import source_of
from kshot.backends.search.recorded import write_trec
from kshot.core.errors import RunError
from kshot.core.records import Hit, Ranking
from kshot.passages.export import export_benchmark
from kshot.passages.source import PassagesSource
from kshot.runs import read_spec
from kshot.runs.runner import Result
from kshot.settings import settings_from


def export_passages(run: str | Path, out: str | Path) -> Iterator[Path]:
    """Write a run's rankings as TREC run files, one a system, and its benchmark as a BEIR folder with qrels."""
    spec = read_spec(run)
    settings = settings_from(dict(spec.get("options", {})))
    sources = [source_of(label, settings) for label in spec["identity"]["datasets"]]
    found = Result([], [], Path(run).expanduser()).samples
    facts = next(iter(spec.get("tasks", {}).values()), None)
    passages = [source for source in sources if isinstance(source, PassagesSource)]
    tasks = [task for source in passages for task in source.tasks(settings, None, facts)]
    if not tasks or settings.method == "rag":
        raise RunError("this run searched no passages", where=str(run), hint="Export a run of search engines.")
    for task in tasks:
        folder = Path(out).expanduser() / re.sub(r"[^A-Za-z0-9._-]+", "-", task.name)
        yield from export_benchmark(task, folder)
        rows = [row for row in found if row["task"] == task.name and "failed" not in row]
        if not rows:
            raise RunError(f"the run holds no ranking for {task.name}", where=str(run))
        for model in dict.fromkeys(row["model"] for row in rows):
            path = folder / f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', model)}.trec"
            with path.open("w", encoding="utf-8") as file:
                for row in (row for row in rows if row["model"] == model):
                    hits = tuple(Hit(hit["id"], hit["score"]) for hit in row["response"] if "id" in hit)
                    write_trec(file, row["id"], Ranking(hits), path.stem)
            yield path

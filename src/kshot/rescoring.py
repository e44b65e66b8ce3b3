"""``score`` and ``export_passages``: what is made of a finished run, from its folder and without its models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kshot.core.errors import RunError
from kshot.core.protocols import Watcher
from kshot.core.records import Hit, Ranking
from kshot.index.store import Store
from kshot.runs.absent import StoredResponses, absent_model
from kshot.runs.folder import JOURNAL, RunFolder, read_spec
from kshot.runs.runner import Result, Run
from kshot.settings import settings_from
from kshot.sources import HELPER_ROLES, helpers_of, source_of, without_effect


def score(run: str | Path, *, watcher: Watcher | None = None) -> Result:
    """Score a run again from its journal, without its models, after a change of metrics or post-processing."""
    path = Path(run).expanduser()
    spec = read_spec(path)
    settings = settings_from(dict(spec.get("options", {})))
    sources = [source_of(label, settings) for label in spec["identity"]["datasets"]]
    if not (path / JOURNAL).exists():
        raise RunError("the run folder has no journal", where=str(path))
    wanted = helpers_of(settings, sources)
    models, helpers = [], {}
    for noted in spec.get("models", ()):
        absent = absent_model(noted)
        if noted["role"] in wanted:
            helpers[noted["role"]] = absent
        elif noted["role"] not in HELPER_ROLES:
            models.append(absent)
    if not models:
        raise RunError("spec.json lists no model of this run", where=str(path), hint="Run the command again.")
    with RunFolder(path, spec["identity"]) as folder, StoredResponses(path) as stored:
        facts = spec.get("tasks", {})
        again = Run(
            settings,
            stored,
            store=Store(),
            folder=folder,
            watcher=watcher,
            helpers=helpers,
            facts=facts,
        )
        for text in without_effect(settings, sources):
            again.note(text)
        return again.all(models, sources)


# ---- export ----


def export_passages(run: str | Path, out: str | Path) -> Iterator[Path]:
    """Write the rankings of a run as TREC files, one for each system, and its benchmark as a BEIR folder with qrels."""
    from kshot.backends.search.recorded import write_trec
    from kshot.passages.export import export_benchmark
    from kshot.passages.source import PassagesSource

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

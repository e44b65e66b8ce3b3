"""The pages of the viewer as files, which any web server shows: kshot view DIR --static OUT."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from kshot import __version__
from kshot.comparing import compare
from kshot.core.durable import writing
from kshot.core.errors import KshotError, UsageError
from kshot.core.visible import one_line
from kshot.report.page.packed_samples import BLOCK, PackedColumns, read_run_samples, sample_pairs
from kshot.report.page.page_run import PageRun
from kshot.report.page.report_page import LICENSES, STATIC_SCRIPTS, STYLES, web_file
from kshot.report.page.sample_card import sample_card
from kshot.report.sample_look import SampleLooks
from kshot.runs.folder import SUMMARY
from kshot.runs.record import read_record
from kshot.runs.sample_filters import SampleFilter, metric_scales
from kshot.runs.samples_file import PassageTexts, sample_rows
from kshot.viewer.catalog import Catalog, ListedRun
from kshot.viewer.live import RunPages, comparison_page, json_bytes, sides_of, web_page

_MAX_METRICS = 20


def sample_files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the files with the samples of a run, as they are read."""
    record = read_record(folder)
    looks = SampleLooks(folder, SampleFilter(metric_scales(record.results)), full=True)
    texts = PassageTexts(folder)
    columns = PackedColumns(record.results, _MAX_METRICS)
    block: list[dict[str, Any]] = []
    for n, row in enumerate(sample_rows(folder)):
        card = sample_card(looks.of(row), n, texts.of(row))
        columns.add(card, columns.judged(row))
        block.append(card)
        if len(block) == BLOCK:
            yield f"block-{n // BLOCK}.json", block
            block = []
    if block:
        yield f"block-{len(columns) // BLOCK}.json", block
    yield "columns.json", columns.as_dict(total=len(columns))


def comparison_file(baseline: ListedRun, run: ListedRun) -> dict[str, Any]:
    """Return a comparison with its pairs of samples, and how each turned out."""
    runs = baseline, run
    found = compare(*(each.folder for each in runs))
    named = [
        PageRun(each.key, told["label"], read_record(each.folder)) for each, told in zip(runs, found.runs, strict=True)
    ]
    made = sample_pairs(found, list(map(read_run_samples, named)))
    return {
        "state": "ready",
        "error": None,
        **comparison_page(found, [each.key for each in runs]),
        **sides_of(runs),
        "pairs": [pair for each in made for pair in each.pairs],
        "flips": "".join(outcome for each in made for outcome in each.outcomes),
    }


MARK = "kshot-site.json"
"""The file that says that a folder was written by this command, so that it may be written again."""
_DRAFT = ".kshot-draft"
_PARTS = ("data", "web", "index.html", ".nojekyll", MARK)
"""What is replaced when a site is written again, in this order; a file that somebody else put there stays."""
_MOST_PAIRS = 100
"""Pairs of runs that are compared, each in both directions."""


@dataclass(slots=True)
class WrittenSite:
    """Where the pages are, how many files, and how many bytes; ``notes`` say what is not there."""

    path: Path
    files: int = 0
    size: int = 0
    notes: list[str] = field(default_factory=list)


def write_site(folders: Sequence[Path], out: str | Path, say: Callable[[str], None]) -> WrittenSite:
    """Write the pages of the runs in some folders; ``say`` is told how far it is."""
    target = Path(out).expanduser()
    _check_target(str(out), target)
    # The whole path of a run may tell more than is meant for others.
    runs = [replace(run, line={**run.line, "name": run.place}) for run in Catalog(folders).runs()]
    if not runs:
        places = ", ".join(map(str, folders))
        raise UsageError("there is no run here", where=places, hint="Name a folder with runs: kshot run makes one.")
    site = WrittenSite(target)
    draft = target / _DRAFT
    with writing(target, otherwise="name another folder with --static"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            _Writer(draft, site, say).write(runs, folders)
            _move(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return site


def _check_target(given: str, target: Path) -> None:
    """Refuse to write among other files."""
    if not given:
        raise UsageError("--static is empty", hint="Name a folder.")
    if os.path.lexists(target) and not target.is_dir():
        raise UsageError("this is no folder", where=str(target), hint="Name a new folder with --static.")
    if target.is_dir() and not (target / MARK).is_file() and any(each.name != _DRAFT for each in target.iterdir()):
        what = "this folder has other files, and was not written by kshot view --static"
        raise UsageError(what, where=str(target), hint="Name a new folder, or an empty one.")


def _move(draft: Path, target: Path) -> None:
    """Put the new files in the place of the old ones."""
    for name in _PARTS:
        old = target / name
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
        (draft / name).rename(old)


class _Writer:
    """Writes the files of a site into a folder."""

    def __init__(self, folder: Path, site: WrittenSite, say: Callable[[str], None]) -> None:
        self._folder, self._site, self._say = folder, site, say

    def write(self, runs: Sequence[ListedRun], folders: Sequence[Path]) -> None:
        lines = []
        for number, run in enumerate(runs, start=1):
            self._say(f"{number:,} of {len(runs):,} runs: {run.line['name']}")
            lines.append(self._run(run))
        made = [[run.key, other.key] for run, other in self._pairs(runs) if self._comparison(run, other)]
        listed = {
            "runs": lines,
            "folders": [one_line(Path(os.path.realpath(folder)).name) for folder in folders],
            "version": __version__,
        }
        self._json("data/runs.json", {**listed, "comparisons": made})
        for name in (*STATIC_SCRIPTS, *STYLES, LICENSES):
            self._put(f"web/{name}", web_file(name).encode())
        self._put("index.html", web_page("files").encode())
        self._put(".nojekyll", b"")
        self._json(MARK, {"made_by": f"kshot {__version__}"})

    def _run(self, run: ListedRun) -> dict[str, Any]:
        """Write the files of one run; return its line in the list."""
        place = f"data/runs/{run.key}"
        line = dict(run.line)
        try:
            page = {**RunPages().of(run, None), **line, "latest": []}
        except KshotError as exc:
            page = {**line, "sections": [], "latest": [], "details": {}, "error": str(exc)}
            self._note(f"{run.key} has no figures here: {exc}")
        if line["samples"] and (run.folder / SUMMARY).exists():
            try:
                for name, value in sample_files(run.folder):
                    self._json(f"{place}/{name}", value)
            except KshotError as exc:
                line["samples"] = page["samples"] = False
                self._note(f"{run.key} has no samples here: {exc}")
        else:
            line["samples"] = page["samples"] = False
        self._json(f"{place}/run.json", page)
        return line

    def _pairs(self, runs: Sequence[ListedRun]) -> Iterator[tuple[ListedRun, ListedRun]]:
        """Yield which runs are compared, the baseline first: those with a task in common."""
        able = [(run, _tasks(run)) for run in runs if run.record["figures"] and run.line["samples"]]
        pairs = [(one, other) for (one, ours), (other, theirs) in combinations(able, 2) if ours & theirs]
        if len(pairs) > _MOST_PAIRS:
            self._note(f"{_MOST_PAIRS} of {len(pairs):,} pairs of runs are compared, those of the newest runs")
        return (each for pair in pairs[:_MOST_PAIRS] for each in (pair, pair[::-1]))

    def _comparison(self, baseline: ListedRun, run: ListedRun) -> bool:
        self._say(f"comparing {run.key} with {baseline.key}")
        try:
            found = comparison_file(baseline, run)
        except KshotError as exc:
            self._note(f"{run.key} is not compared with {baseline.key}: {exc}")
            return False
        self._json(f"data/compare/{baseline.key}/{run.key}.json", found)
        return True

    def _note(self, note: str) -> None:
        self._site.notes.append(one_line(note))

    def _json(self, name: str, value: Any) -> None:
        self._put(name, json_bytes(value))

    def _put(self, name: str, content: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._site.files += 1
        self._site.size += len(content)


def _tasks(run: ListedRun) -> set[str]:
    """Return what a run is of: its tasks, and its datasets, for a task may have another name in another run."""
    return {figure["task"] for figure in run.record["figures"]} | set(map(str, run.record["datasets"]))

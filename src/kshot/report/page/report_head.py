"""What stands at the top of a report: which runs it is about, when they ran, and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kshot.core.shareable import shareable
from kshot.core.specs import without_options
from kshot.report.cells import shortened
from kshot.report.page.markup import tag, text
from kshot.report.table import short_names
from kshot.runs.run_state import moment

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun

_MAX_NAMES, _MAX_NAME = 4, 80


def report_title(runs: Sequence[PageRun]) -> str:
    """Return the title of a report."""
    names = [run.name for run in runs]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= _MAX_NAMES else f"{len(names)} runs"


def about_runs(runs: Sequence[PageRun], not_compared: str) -> list[Markup]:
    """Return the lines below the title: what was asked of whom, and when."""
    models = short_names(dict.fromkeys(str(row["model"]) for run in runs for row in run.record.results))
    named = [str(each) for run in runs for each in run.spec.get("identity", {}).get("datasets", ())]
    datasets = dict.fromkeys(map(without_options, named))  # the section of settings has the rest
    said = [_listed("model", models.values()), _listed("dataset", shareable(list(datasets)))]
    lines = [tag("p", text(" · ".join(filter(None, said))), class_="soft")]
    if ended := sorted({when for run in runs if (when := _ended(run))}):
        told = f"run ended {ended[0]}" if len(ended) == 1 else f"runs ended {ended[0]} to {ended[-1]}"
        lines.append(tag("p", f"{told} UTC", class_="soft"))
    lines += [tag("p", text(f"The runs are not compared: {not_compared}"), class_="warning")] if not_compared else []
    return lines


def _listed(noun: str, names: Iterable[Any]) -> str:
    known = list(names)
    if not known:
        return ""
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    shown = (shortened(name, _MAX_NAME) for name in known[:_MAX_NAMES])
    return f"{noun if len(known) == 1 else f'{noun}s'} {', '.join(shown)}{more}"


def _ended(run: PageRun) -> str:
    """Say when a run came to its end, in UTC."""
    sessions = run.spec.get("sessions", ())
    when = moment(sessions[-1].get("ended")) if sessions else None
    return "" if when is None else f"{when:%Y-%m-%d %H:%M}"

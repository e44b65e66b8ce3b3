"""The settings of runs: what is not at its default, what differs between runs, and the versions of packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kshot.report.page.charts import folded
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.tables import table_html
from kshot.report.setting_table import settings_view
from kshot.report.view import TableView, words
from kshot.runs.setting_differences import setting_differences, shared_settings, unchanging_settings
from kshot.runs.spec_file import recorded_versions

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.runs.comparing import Comparison

_LONG = 200
"""Characters of a value from which on a reader opens it with a click."""


def settings_section(runs: Sequence[PageRun]) -> Section:
    """Return the settings of each run; those in which runs differ come first."""
    specs = [run.spec for run in runs]
    differing = setting_differences(specs) if len(runs) > 1 else []
    same = [*shared_settings(specs), *unchanging_settings(specs)]
    parts = []
    if differing or same:
        heads = [run.name for run in runs] if len(runs) > 1 else ["value"]
        parts.append(_table([*differing, *same], heads, "Settings", marked=len(differing)))
    parts.append(tag("p", _others(specs), class_="soft"))
    parts.append(_versions(runs, specs))
    return Section("settings", "Settings", together(parts))


def differing_settings(comparison: Comparison) -> list[Section]:
    """Return the section on what differs between the settings of compared runs; none if nothing does."""
    if not comparison.settings:
        return []
    table = _table(comparison.settings, [each["label"] for each in comparison.runs], "Settings that differ")
    return [Section("settings", "Different settings", table)]


def _table(settings: Sequence[Mapping[str, Any]], heads: Sequence[str], name: str, marked: int = 0) -> Markup:
    """Return settings as a table; the first ones, so many, are marked: runs differ in them."""
    view = settings_view(settings, heads)
    rows = [
        [_differs(str(setting)) if at < marked else setting, *(_value(str(value)) for value in values)]
        for at, (setting, *values) in enumerate(view.rows)
    ]
    return table_html(replace(view, rows=rows, marked=range(marked)), name)


def _differs(name: str) -> Markup:
    """Return the name of a setting with a mark that says that runs differ in it."""
    return together((text(name), " ", tag("span", "differs", class_="badge")))


def _value(shown: str) -> Markup:
    """Return a value as code; a long one folds."""
    code = tag("code", text(shown))
    return code if len(shown) <= _LONG else folded(f"{len(shown):,} characters", code)


def _others(specs: Sequence[Mapping[str, Any]]) -> str:
    known = all("options" in spec for spec in specs)  # results in memory know only what changes figures
    which = "Every other option" if known else "Every other option that can change a figure"
    return f"{which} has its default{' in all runs' if len(specs) > 1 else ''}."


def _versions(runs: Sequence[PageRun], specs: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the versions of Python, kshot and packages that each run has used."""
    found = [recorded_versions(spec) for spec in specs]
    names = list(dict.fromkeys(name for each in found for name in each))
    if not names:
        return Markup("")
    columns = words("package", *(run.name if len(runs) > 1 else "version" for run in runs))
    rows = [[name, *(each.get(name, "–") for each in found)] for name in names]
    listed = ", ".join(f"{name} {found[0][name]}" for name in list(found[0])[:3]) if len(runs) == 1 else ""
    return folded(f"Versions{f': {listed}, …' if listed else ''}", table_html(TableView(columns, rows), "Versions"))

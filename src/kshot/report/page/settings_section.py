"""The settings of runs: what is not at its default, what differs between runs, and the versions of packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kshot.report.page.charts import folded
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.tables import Column, TableRow, data_table
from kshot.report.setting_table import setting_name, setting_text
from kshot.runs.sessions import recorded_versions
from kshot.runs.setting_differences import setting_differences, shared_settings, unchanging_settings

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.runs.comparing import Comparison

_LONG = 200
"""Characters of a value from which on a reader opens it with a click."""


def settings_section(runs: Sequence[PageRun]) -> Section:
    """Return the settings of each run; those in which runs differ come first."""
    specs = [run.spec for run in runs]
    differing = setting_differences(specs) if len(runs) > 1 else []
    rows = [TableRow([_differs(setting_name(row)), *_texts(row)], kind="differs") for row in differing]
    same = [*shared_settings(specs), *unchanging_settings(specs)]
    rows += [TableRow([setting_name(row), *_texts(row)]) for row in same]
    parts = []
    if rows:
        columns = [Column("setting"), *(Column(run.name if len(runs) > 1 else "value") for run in runs)]
        parts.append(data_table(columns, rows, name="Settings"))
    parts.append(tag("p", _others(specs), class_="soft"))
    parts.append(_versions(runs, specs))
    return Section("settings", "Settings", together(parts))


def differing_settings(comparison: Comparison) -> list[Section]:
    """Return the section on what differs between the settings of compared runs; none if nothing does."""
    if not comparison.settings:
        return []
    columns = [Column("setting"), *(Column(each["label"]) for each in comparison.runs)]
    rows = [TableRow([setting_name(row), *_texts(row)]) for row in comparison.settings]
    return [Section("settings", "Different settings", data_table(columns, rows, name="Settings that differ"))]


def _differs(name: str) -> Markup:
    """Return the name of a setting with a mark that says that runs differ in it."""
    return together((text(name), " ", tag("span", "differs", class_="badge")))


def _texts(row: Mapping[str, Any]) -> list[Markup]:
    return [_value(setting_text(value, row)) for value in row["values"]]


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
    columns = [Column("package"), *(Column(run.name if len(runs) > 1 else "version") for run in runs)]
    rows = [TableRow([name, *(each.get(name, "–") for each in found)]) for name in names]
    listed = ", ".join(f"{name} {found[0][name]}" for name in list(found[0])[:3]) if len(runs) == 1 else ""
    return folded(f"Versions{f': {listed}, …' if listed else ''}", data_table(columns, rows, name="Versions"))

"""JUnit XML, as Jenkins, GitLab and GitHub read it: a test case for each check of a gate, and for each other figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from xml.etree import ElementTree as ET

from kshot.core.failed_parts import failure_mark, failure_words
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.gates import gate_finding, gate_label

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def junit_xml(
    results: Sequence[ResultRow],
    gates: Sequence[ResultRow],
    run: str,
    session: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> str:
    """Return the checks of a run as JUnit XML: one suite, whose name is that of the run.

    A check that fails is a failure, one that could not be compared is skipped, and a gate that could not be decided is
    an error. A figure that no gate is about is a test case that passes, or that is skipped if it has no value.
    ``session`` is what ``spec.json`` records of the last start of the run.
    """
    cases = [_of_gate(row) for row in gates]
    gated = {(row["model"], row["task"], row["metric"]) for row in gates if "metric" in row}
    figures = [row for row in results if not (row.get("detail") or "category" in row)]
    cases += [_of_figure(row) for row in figures if (row["model"], row["task"], row["metric"]) not in gated]
    _tell_apart(cases)
    started, seconds = _times(session)
    host = session.get("host")
    counts = {
        name: sum(case.find(tag) is not None for case in cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suite = _element(
        "testsuite",
        name=run,
        tests=len(cases),
        **counts,
        time=seconds,
        timestamp=started,
        hostname=host if isinstance(host, str) and host.strip() else "localhost",
        id=0,
        package="kshot",
    )
    properties = ET.SubElement(suite, "properties")
    for row in figures:
        name = _figure_name(row)
        properties.append(_element("property", name=name, value="" if row["value"] is None else row["value"]))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = "\n".join(
        one_line(text) for text in (*(row["reason"] for row in gates), *notes, *_marked(figures))
    )
    ET.SubElement(suite, "system-err")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f"{_DECLARATION}{ET.tostring(root, encoding='unicode')}\n"


def _figure_name(row: ResultRow) -> str:
    return f"{row['task']} {metric_label(row)} on {row['model']}{failure_mark(row)}"


def _marked(figures: Sequence[ResultRow]) -> list[str]:
    """Explain the marks of figures, one line each."""
    return [f"{_figure_name(row)}: {failure_words(row)}" for row in figures if failure_mark(row)]


def _element(tag: str, **attributes: object) -> ET.Element:
    """Return an element. What XML cannot hold (control characters, halves of characters) is shown as an escape."""
    return ET.Element(tag, {name: one_line(value) for name, value in attributes.items()})


def _of_gate(row: ResultRow) -> ET.Element:
    if row["gate"] is None:
        case = _element("testcase", classname="kshot.gates", name=gate_label(row), time="0.000")
        case.append(_said("error", row, message=row["reason"], type="undecided"))
        return case
    case = _case(row, gate_label(row))
    if row["passed"] is None:
        case.append(_said("skipped", row, message=f"not compared: {gate_finding(row)}"))
    elif not row["passed"]:
        case.append(_said("failure", row, message=f"{gate_label(row)}: {gate_finding(row)}", type=row["gate"]))
    return case


def _said(tag: str, row: ResultRow, **attributes: object) -> ET.Element:
    """Return an element with the reason of a row."""
    element = _element(tag, **attributes)
    element.text = one_line(row["reason"])
    return element


def _of_figure(row: ResultRow) -> ET.Element:
    if row["value"] is None:
        case = _case(row, metric_label(row))
        case.append(_element("skipped", message=f"no sample was scored ({row['failed']} failed)"))
        return case
    return _case(row, metric_label(row))


def _case(row: ResultRow, name: str) -> ET.Element:
    # Jenkins takes what stands before the last point for a package.
    place = f"{row['task']} on {row['model']}".replace(".", "_")
    return _element("testcase", classname=f"kshot.{place}", name=name, time="0.000")


def _tell_apart(cases: Sequence[ET.Element]) -> None:
    """Number the cases that are called like another one, as those of a gate that is given twice: readers keep one."""
    seen: Counter[tuple[str, str]] = Counter()
    for case in cases:
        place, name = case.attrib["classname"], case.attrib["name"]
        seen[place, name] += 1
        if seen[place, name] > 1:
            case.attrib["name"] = f"{name} ({seen[place, name]})"


def _times(session: Mapping[str, Any]) -> tuple[str, str]:
    """Return when a run began, in the form without time zone that JUnit wants, and how many seconds it took."""
    try:
        started, ended = (datetime.fromisoformat(session[name]) for name in ("started", "ended"))
        took = (ended - started).total_seconds()
        began = started.astimezone(timezone.utc)
    except (KeyError, TypeError, ValueError, OverflowError):  # a folder of version 0.1, or of a stranger
        began, took = datetime.now(timezone.utc), 0.0
    return began.replace(tzinfo=None).isoformat(timespec="seconds"), f"{max(0.0, took):.3f}"

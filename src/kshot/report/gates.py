"""Gates for people: what was checked and found; on the screen, as JUnit XML, and in the summary of a GitHub step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

from rich.table import Table

from kshot.core.durable import OTHER_FILE, new_version, writing
from kshot.core.failed_parts import failure_mark, failure_words, mark_legend
from kshot.core.records import ResultRow
from kshot.core.text_files import regular_file
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import SafeText, block, broken, cell, fair_width
from kshot.report.comparison_view import comparison_view
from kshot.report.figures import figures_view, marked_figure, model_names, number, short_names
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text
from kshot.report.verdicts import shown_p
from kshot.report.view import Cell, Column, Content, TableView, cell_of, words
from kshot.runs.gates import Checked, unpaired_samples, why_left_out
from kshot.runs.headline import grouped
from kshot.runs.record import RunRecord, first_failures
from kshot.runs.run_state import spare_runs
from kshot.runs.spec_file import read_spec
from kshot.runs.swept_rows import SAME

_MAX_LINES = 20
"""Failed checks on the screen; the rest is counted."""

_MAX_ALIKE = 3
"""Checks of one kind that pass and have lines of their own; those that all found the same have one line."""

_GAP, _MIN_COLUMN = 2, 8
"""The space between columns, and how narrow one may become."""

_MARKS = {True: ("✓ passed", "green"), False: ("✗ failed", "bold red"), None: ("– skipped", "")}
_UNDECIDED = ("! error", "bold red")


def gate_label(row: ResultRow) -> str:
    """Return what a row checks, in few words."""
    if row["gate"] == "fail_under":
        return f"{metric_label(row)} {'at least' if row['higher_is_better'] else 'at most'} {row['threshold']:g}"
    if row["gate"] == "fail_if_worse":
        other = row.get("baseline_model", row["model"]) != row["model"]  # the subject says which model it is if not
        return f"{metric_label(row)} not worse than {row['baseline' if other else 'baseline_run']}"
    return "no failed sample" if row["gate"] == "fail_on_failed" else "the check can be made"


def gate_finding(row: ResultRow) -> str:
    """Return what a row found, in few words."""
    if row["gate"] is None:
        return str(row["reason"])
    if row["gate"] == "fail_under":
        return f"no value{failure_mark(row)}" if row["value"] is None else marked_figure(row)
    if row["gate"] == "fail_on_failed":
        lost = f", {row['failed_replies']} replies failed" if row["failed_replies"] else ""
        return f"{row['failed']} of {row['n'] + row['failed']} failed{lost}"
    if row["passed"] is None:
        return why_left_out(row)
    if row["difference"] is None or row["p_corrected"] is None:
        return f"not comparable, {row['failed_run']} failed"
    run, before = (marked_figure(row, side=side) for side in ("run", "baseline"))
    return f"{run} after {before}, {shown_p(row)}"


def gate_subjects(rows: Sequence[ResultRow]) -> list[str]:
    """Return what each row is about: its task, and its model where there are several."""
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows if "model" in row))
    return [_subject(str(row["task"]), row, names) if "task" in row else "" for row in rows]


def _subject(what: str, row: ResultRow, names: dict[str, str]) -> str:
    return what if len(names) < 2 else f"{what} · {names[str(row['model'])]}"  # noqa: PLR2004 - several models


_GateLine: TypeAlias = tuple[SafeText, SafeText, SafeText, SafeText]
"""A line of the table: passed or not, what was checked, of which task, and what was found."""


def gates_table(rows: Sequence[ResultRow], width: int) -> Table:
    """Draw the checks, failed ones first. Names that are too wide for this width are broken where their parts end."""
    lines = list(_gate_lines(rows))
    marks, *others = (max(each.cell_len for each in column) for column in zip(*lines, strict=True))
    most = fair_width(others, width - marks - _GAP * len(others), _MIN_COLUMN)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    table.add_column("gate", no_wrap=True)
    for title, wide in zip(("check", "task", "found"), others, strict=True):
        table.add_column(title, overflow="fold", max_width=max(min(wide, most), len(title)))
    for mark, check, task, found in lines:
        table.add_row(mark, _fitting_words(check, most), _fitting_words(task, most), found)
    return table


def _fitting_words(text: SafeText, width: int) -> SafeText:
    """Break the words that are wider than this; the table itself breaks between words."""
    return block(" ".join(broken(cell(word), width).plain for word in text.plain.split(" ")))


def _gate_lines(rows: Sequence[ResultRow]) -> Iterator[_GateLine]:
    """Yield the lines, failed ones first. Many that pass are one line for each thing that they check."""
    told = list(zip(rows, gate_subjects(rows), strict=True))
    failed = [(row, subject) for row, subject in told if row["passed"] is False]
    for row, subject in failed[:_MAX_LINES]:
        mark = cell(*(_MARKS[False] if row["gate"] is not None else _UNDECIDED))
        yield mark, cell(gate_label(row)), cell(subject), cell(gate_finding(row))
    if len(failed) > _MAX_LINES:
        yield cell(*_MARKS[False]), cell(""), cell(f"… and {len(failed) - _MAX_LINES} more"), cell("")
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows if "model" in row))
    for passed in (None, True):
        chosen = [pair for pair in told if pair[0]["passed"] is passed]
        for alike in grouped(chosen, lambda pair: _kind(pair[0])).values():
            for subject, finding in _lines(alike, names):
                yield cell(*_MARKS[passed]), cell(gate_label(alike[0][0])), cell(subject), cell(finding)


def _kind(row: ResultRow) -> tuple[str, ...]:
    """Return what is alike of rows that check the same; of what is skipped, the model and the reason too."""
    return gate_label(row), *(() if row["passed"] else (str(row["model"]), gate_finding(row)))


def _lines(alike: Sequence[tuple[ResultRow, str]], names: dict[str, str]) -> list[tuple[str, str]]:
    same = alike[0][0]["passed"] is None or alike[0][0]["gate"] == "fail_on_failed"
    if len(alike) <= (1 if same else _MAX_ALIKE):
        return [(subject, gate_finding(row)) for row, subject in alike]
    rows = [row for row, _ in alike]
    many = f"{len(rows)} checks"
    one_model = len({row["model"] for row in rows}) == 1
    return [(_subject(many, rows[0], names) if one_model else many, _span(rows))]


def _span(rows: Sequence[ResultRow]) -> str:
    """Return what many rows of one gate found."""
    values = sorted(row["value"] for row in rows if row.get("value") is not None)
    if rows[0]["passed"] is None:
        return gate_finding(rows[0])
    if values:
        return f"{number(values[0], 2)} to {number(values[-1], 2)}{max(map(failure_mark, rows))}"
    if rows[0]["gate"] == "fail_if_worse":
        better = sum(row["verdict"] == "better" for row in rows)
        return f"{better} better, {len(rows) - better} not told apart{max(map(failure_mark, rows))}"
    return f"0 of {sum(row['n'] for row in rows):,} failed"


def pairing_lines(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say once for each baseline how many samples were paired, and how many were not."""
    compared = [row for row in rows if row["gate"] == "fail_if_worse" and "only_run" in row and "average" not in row]
    for of_path in grouped(compared, itemgetter("baseline_path")).values():
        pairs = {(row["baseline_model"], row["run_model"], row["task"]): row for row in of_path}.values()
        counts = ("n", "only_baseline", "only_run", "failed_baseline", "failed_run")
        total = {name: sum(row[name] for row in pairs) for name in counts}
        left = unpaired_samples(total)
        label = of_path[0]["baseline_run"]
        yield f"compared with {label}: {total['n']:,} samples paired" + (f"; not paired: {left}" if left else "")


def gate_legend(rows: Sequence[ResultRow]) -> list[str]:
    """Say what the marks of the figures that gates found mean."""
    return mark_legend(row for row in rows if row["gate"] in {"fail_under", "fail_if_worse"})


def verdict_of(rows: Sequence[ResultRow]) -> str:
    """Say how many checks passed, in one sentence."""
    failed = sum(row["passed"] is False and row["gate"] is not None for row in rows)
    passed = sum(row["passed"] is True for row in rows)
    decided = failed + passed
    skipped = sum(row["passed"] is None for row in rows)
    errors = sum(row["gate"] is None for row in rows)
    parts = chain(
        [f"{failed} of {decided} checks failed"] if failed else [],
        [f"all {passed} checks passed" if passed > 1 else "the check passed"] if passed and not failed else [],
        [f"{errors} checks could not be made" if errors > 1 else "a check could not be made"] if errors else [],
        [f"{skipped} not compared"] if skipped else [],
    )
    return ", ".join(parts)


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
    marked = [f"{_figure_name(row)}: {failure_words(row)}" for row in figures if failure_mark(row)]
    ET.SubElement(suite, "system-out").text = "\n".join(
        one_line(text) for text in (*(row["reason"] for row in gates), *notes, *marked)
    )
    ET.SubElement(suite, "system-err")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f"{_DECLARATION}{ET.tostring(root, encoding='unicode')}\n"


def _figure_name(row: ResultRow) -> str:
    return f"{row['task']} {metric_label(row)} on {row['model']}{failure_mark(row)}"


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
    case = _case(row, metric_label(row))
    if row["value"] is None:
        case.append(_element("skipped", message=f"no sample was scored ({row['failed']} failed)"))
    return case


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


MAX_BYTES = 1 << 20
"""GitHub refuses the summary of a step that is larger."""

_MAX_ROWS = 100
"""Rows of a table; the run folder has all."""

_MAX_NAME = 200
_CUT = "\n\n… and more: the page of a job has no place for it. The run folder has all.\n"


def step_summary(
    record: RunRecord, gates: Sequence[ResultRow], notes: Sequence[str] = (), room: int = MAX_BYTES
) -> str:
    """Return the summary as Markdown, in at most ``room`` bytes. Names of models and tasks are texts in it.

    ``notes`` are those of the gates.
    """
    title = PurePath(record.path).name if record.path is not None else "evaluation"
    parts = [f"## kshot: {_name(title)}", *_gates(gates), *_figures(record.results), *_baseline(gates)]
    parts += [*_listed("Notes", (*pairing_lines(gates), *notes)), *_listed("Failed samples", first_failures(record))]
    text = "\n\n".join(part.rstrip("\n") for part in parts) + "\n\n"
    if len(text.encode()) <= room:
        return text
    lines, size = [], len(_CUT.encode())
    for line in text.splitlines(keepends=True):
        size += len(line.encode())
        if size > room:
            break
        lines.append(line)
    return "".join(lines) + _CUT if lines else ""


def _name(text: object) -> Markdown:
    """Return a name; a very long one is cut."""
    whole = str(text)
    return markdown_text(whole if len(whole) <= _MAX_NAME else f"{whole[: _MAX_NAME - 1]}…")


def _table(view: TableView) -> str:
    """Return the first rows of a view; counts are plain, and the marks of differences stand beside their figures."""
    right = {at for at, column in enumerate(view.columns) if column.kind != "words"}
    cells = [[_shown(*each) for each in zip(view.columns, row, strict=True)] for row in view.rows[:_MAX_ROWS]]
    more = f"\n… and {len(view.rows) - _MAX_ROWS} more rows\n" if len(view.rows) > _MAX_ROWS else ""
    return markdown_table([column.heading for column in view.columns], cells, right) + more


def _shown(column: Column, content: Content) -> Markdown | None:
    found = cell_of(content)
    if column.kind == "interval":
        return _name(found.low_high) if found.interval else None
    if isinstance(found.number, int):
        return _name(found.number)
    text = found.text if column.name in {"difference", "metric"} else found.written
    return None if content is None else _name(text)


_SIGNS = {True: "✅ passed", False: "❌ failed", None: "➖ skipped"}


def _gates(gates: Sequence[ResultRow]) -> Iterator[str]:
    if not gates:
        return
    yield f"{'❌' if any(row['passed'] is False for row in gates) else '✅'} **{verdict_of(gates)}**"
    order = sorted(zip(gates, gate_subjects(gates), strict=True), key=lambda pair: _ORDER.index(pair[0]["passed"]))
    rows = [
        [
            _SIGNS[row["passed"]] if row["gate"] is not None else "❗ error",
            *(gate_label(row), subject, gate_finding(row)),
        ]
        for row, subject in order
    ]
    yield _table(TableView(words("gate", "check", "task", "found"), rows)) + _legend(gate_legend(gates))


_ORDER = (False, None, True)


def _figures(results: Sequence[ResultRow]) -> Iterator[str]:
    """Yield the figures of tasks and averages; the subsets of averages are folded."""
    rows = [row for row in results if not row.get("detail") and not {"category", "gap", SAME} & row.keys()]
    averaged = any("average" in row for row in rows)
    folded: dict[bool, list[ResultRow]] = {True: [], False: []}
    for row in rows:
        folded["example_seed" in row or (averaged and "subset" in row)].append(row)
    parts, whole = folded[True], folded[False]
    if whole:
        yield _results(whole, rows)
    if parts:
        title = f"{len(parts)} figures of subsets and draws"
        yield f"<details><summary>{title}</summary>\n\n{_results(parts, rows)}\n</details>"


def _results(rows: Sequence[ResultRow], among: Sequence[ResultRow]) -> str:
    view = figures_view(rows, systems=model_names(rows, among))
    return _table(view.only("task", "model", "metric", "value", "95 %", "n", "failed")) + _legend(mark_legend(rows))


def _legend(lines: Sequence[str]) -> str:
    return "".join(f"\n{_name(line)}\n" for line in lines)


def _baseline(gates: Sequence[ResultRow]) -> Iterator[str]:
    """Yield a table for each baseline."""
    compared = [row for row in gates if row["gate"] == "fail_if_worse" and "difference" in row]
    for path, rows in grouped(compared, itemgetter("baseline_path")).items():
        yield f"### Compared with {_name(path)}"
        view = comparison_view(rows, tasks=gate_subjects(rows), digits=lambda _: (2, 1))
        view = view.changed("verdict", lambda found: Cell(_VERDICTS[found.tone])).renamed({"n": "paired"})
        yield _table(view.only(*_COMPARED, "n", "won", "lost")) + _legend(mark_legend(rows))


_COMPARED = ("task", "metric", "baseline", "run", "difference", "95 %", "p", "verdict")
_VERDICTS = {"good": "better", "bad": "worse", "": "not told apart"}


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    shown = [f"- {_name(line)}" for line in islice(lines, _MAX_ROWS)]
    if shown:
        yield f"### {title}"
        yield "\n".join(shown)


def write_junit(path: Path, record: RunRecord, checked: Checked) -> None:
    """Write JUnit XML in the place of what was there."""
    spare_runs(path)
    text = junit_xml(record.results, checked.rows, str(record.path), _session(record), checked.notes)
    with new_version(path, advice=_figures_kept(record), otherwise=OTHER_FILE) as file:
        file.write(text)


def _session(record: RunRecord) -> Mapping[str, Any]:
    """Return what is recorded of the last start of a run; nothing, where the run is what could not be read."""
    if record.path is None or not record.results:
        return {}
    sessions = read_spec(record.path).get("sessions", [])
    return sessions[-1] if sessions else {}


def add_summary(path: Path, record: RunRecord, checked: Checked) -> None:
    """Add a summary to a file, which may hold what earlier commands of the step have written."""
    spare_runs(written_to(path))
    with writing(path, _figures_kept(record), OTHER_FILE):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", opener=regular_file) as file:
            room = MAX_BYTES - os.fstat(file.fileno()).st_size
            file.write(step_summary(record, checked.rows, checked.notes, room).encode())


def written_to(path: Path) -> Path:
    """Return the file that is written if something is added to a path: links are followed."""
    return Path(os.path.realpath(path))


def _figures_kept(record: RunRecord) -> str:
    return f"The figures are in the run folder {record.path}." if record.results else ""

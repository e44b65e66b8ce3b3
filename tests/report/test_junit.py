"""JUnit XML: it fits the schema by which Jenkins checks reports, its counts are right, and no text breaks it."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import RunError
from kshot.core.visible import one_line
from kshot.report.gates import junit_xml
from kshot.runs.gates import Threshold, check_failed, check_under, check_worse, undecided
from tests.runs.test_gates import NOTHING, compared, figure, sample, sides

SCHEMA = Path(__file__).parents[1] / "data" / "junit" / "junit-10.xsd"
SESSION = {"started": "2026-11-16T09:00:00+00:00", "ended": "2026-11-16T09:01:30+00:00", "host": "builder"}
HOSTILE = [
    "]]>",
    "<b>&amp;\"'",
    "a\x00\x1b[31m\x7fb",
    "\ud800",
    "\ufffe\uffff",
    "a\nb\tc\r",
    "模型 \U0001f680",
    "  ",
    "x" * 9000,
]


def checked(text):
    """The root of a report that fits the schema."""
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    schema.assertValid(etree.fromstring(text.encode()))
    return ET.fromstring(text)


def report(results, gates, session=SESSION, run="runs/first"):
    return checked(junit_xml(results, gates, run, session))


def test_gates_are_test_cases():
    rows = [figure(value=75.0), figure(value=25.0, model="n"), figure("names", None, "EM", n=0, failed=8)]
    gates = [*check_under(rows, Threshold("Accuracy", 60)), *check_worse([compared("worse")], sides("runs/base"))]
    gates += check_failed(rows, [sample(0), sample(1, "timeout: slow")])
    (suite,) = report(rows, gates)
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in cases] == [
        ("kshot.quiz on m", "Accuracy at least 60", []),
        ("kshot.quiz on n", "Accuracy at least 60", ["failure"]),
        ("kshot.quiz on m", "Accuracy not worse than before", ["failure"]),
        ("kshot.quiz on m", "no failed sample", ["failure"]),
        ("kshot.quiz on n", "no failed sample", ["failure"]),
        ("kshot.names on m", "no failed sample", ["failure"]),
        ("kshot.names on m", "EM", ["skipped"]),
    ]
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {"name": "runs/first", "tests": "7", "failures": "5", "errors": "0", "skipped": "1"}
    assert (suite.get("timestamp"), suite.get("time"), suite.get("hostname")) == (
        "2026-11-16T09:00:00",
        "90.000",
        "builder",
    )
    failure = cases[1].find("failure")
    assert failure.text == "quiz Accuracy on n is 25.00, below 60"
    assert failure.attrib == {"message": "Accuracy at least 60: 25.00", "type": "fail_under"}
    values = {each.get("name"): each.get("value") for each in suite.find("properties")}
    assert values == {"quiz Accuracy on m": "75.0", "quiz Accuracy on n": "25.0", "names EM on m": ""}


def test_a_run_without_gates_has_test_cases_too():
    (suite,) = report([figure(), figure("x[a]", category="a"), figure(metric="acc", detail=True)], [])
    assert [case.get("name") for case in suite.findall("testcase")] == ["Accuracy"]


def test_what_is_not_compared_is_skipped():
    after = [figure(), figure(model="new")]
    (suite,) = report(after, check_worse([compared()], sides(before=[figure()], after=after)))
    done, skipped = suite.findall("testcase")
    assert (done.get("classname"), len(done)) == ("kshot.quiz on m", 0)
    assert (skipped.get("classname"), skipped.get("name")) == ("kshot.quiz on new", "Accuracy not worse than before")
    assert skipped.find("skipped").get("message") == "not compared: only the run has this model"
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("2", "1", "0")


def test_a_gate_that_cannot_be_decided_is_an_error():
    checked = undecided([RunError("other questions", where="runs/base")])
    (suite,) = report([figure()], checked.rows)
    error, figures = suite.findall("testcase")
    assert error.find("error").text == "runs/base: other questions"
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures"), figures.get("name")) == (
        *("2", "1", "0"),
        "Accuracy",
    )
    (alone,) = report([], checked.rows, {})
    assert (alone.get("tests"), alone.get("errors")) == ("1", "1")


@pytest.mark.parametrize("text", HOSTILE)
def test_names_are_safe(text):
    rows = [figure(text, 10.0, text or "m", model=text)]
    gates = check_under(rows, Threshold(f"{text}:{text}", 60)) + check_worse(
        [compared("worse", task=text)], sides(text, names=(text, text))
    )
    gates += check_worse([compared(**NOTHING, failed_run=3)], sides(text, rows, [], names=(text, text)))
    (suite,) = report(rows, gates, {**SESSION, "host": text}, run=text)
    assert one_line(text) in suite.find("testcase").get("classname").replace("_", ".")


@given(st.text())
def test_any_name_is_safe(text):
    report([figure(text, None, text, model=text)], [], run=text)


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"started": None, "ended": 5, "host": 7},
        {"started": "yesterday", "ended": "2026-11-16T09:01:30+00:00"},
        {"started": "2026-11-16T09:01:30", "ended": "2026-11-16T09:01:30+00:00", "host": ""},
        {"started": "0001-01-01T00:00:00+14:00", "ended": "9999-12-31T23:59:59-12:00"},
        {"started": "2026-11-16T09:01:30+00:00", "ended": "2026-11-16T09:00:00+00:00"},
    ],
)
def test_the_session_of_a_stranger_does_no_harm(session):
    (suite,) = report([figure()], [], session)
    assert (suite.get("hostname"), float(suite.get("time")) >= 0) == ("localhost", True)


def test_cases_have_names_of_their_own():
    """A reader keeps one of two cases with the same name: a failure would be lost."""
    gates = [row for verdict in ("worse", None, None) for row in check_worse([compared(verdict)], sides("runs/base"))]
    (suite,) = report([], gates)
    named = [(case.get("name"), [child.tag for child in case]) for case in suite.findall("testcase")]
    name = "Accuracy not worse than before"
    assert named == [(name, ["failure"]), (f"{name} (2)", []), (f"{name} (3)", [])]

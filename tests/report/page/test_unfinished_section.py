"""What a page says of a run that has not come to its end."""

import pytest

from kshot.report.page.course_section import unfinished_section
from tests.report.page.page_reading import text_of, tree

COMMAND = ["kshot", "run", "-d", "my data", "--out", "runs/x"]


def said(state, **more):
    run = {"state": state, "why": None, "progress": None, "sessions": [{"command": COMMAND}], **more}
    section = unfinished_section(run)
    return None if section is None else str(section.html)


def command_in(page):
    return [text_of(each) for each in tree(page).iter("pre")]


@pytest.mark.parametrize("state", ["stopped", "failed", "killed"])
def test_a_run_that_can_go_on_names_its_command(state):
    found = said(state, progress={"done": 96, "total": 4800})
    assert "96 of 4,800 samples are done." in found
    assert command_in(found) == ["kshot run -d 'my data' --out runs/x"]
    assert "<span>--out</span>" in found  # a line is not broken within an option


def test_nobody_knows_how_many_samples_there_are_in_all():
    assert "96 samples are done." in said("stopped", progress={"done": 96, "total": None})


def test_a_damaged_run_says_what_is_wrong_and_names_no_command():
    found = said("damaged", why="<b>summary.json</b> is missing")
    assert "&lt;b&gt;summary.json&lt;/b&gt; is missing. Restore the folder" in found
    assert not command_in(found)


def test_a_run_elsewhere_is_not_called_over():
    found = said("running?")
    assert "seems to work on another machine" in found
    assert not command_in(found)


@pytest.mark.parametrize("state", ["done", "running"])
def test_other_runs_have_no_such_section(state):
    assert said(state) is None

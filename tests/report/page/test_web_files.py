"""The files of pages: what a browser gets has no comments, and says the same."""

import re

import pytest

from kshot.report.page.web_files import REPORT_SCRIPTS, SCRIPTS, STATIC_SCRIPTS, STYLES, web_file

OWN = sorted({*SCRIPTS, *STATIC_SCRIPTS, *REPORT_SCRIPTS} - {"preact.js"})


@pytest.mark.parametrize("name", [*OWN, *STYLES])
def test_comments_and_indents_are_not_sent(name):
    text = web_file(name)
    assert text
    assert not re.search(r"^\s|^//|/\*", text, re.MULTILINE)


def test_the_licence_of_preact_stays():
    assert "Apache" in web_file("preact.js")[:300]


def test_the_script_of_the_viewer_is_small():
    assert sum(len(web_file(name).encode()) for name in SCRIPTS) <= 60_000


def test_every_member_that_a_script_gives_is_used():
    scripts = "".join(map(web_file, OWN))
    given = set(re.findall(r"kshot\.(\w+)=(?!=)", scripts))
    assert {"Samples", "useKeys", "source"} <= given
    used = re.sub(r"kshot\.\w+=(?!=)", "", scripts)
    assert [name for name in sorted(given) if not re.search(rf"\b{name}\b", used)] == []

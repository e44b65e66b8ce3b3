"""The scripts of pages: what each gives to the others is used, and licences go along."""

import re

from kshot.report.page.report_page import REPORT_SCRIPTS, SCRIPTS, STATIC_SCRIPTS, web_file

OWN = sorted({*SCRIPTS, *STATIC_SCRIPTS, *REPORT_SCRIPTS} - {"preact.js"})


def test_the_licence_of_preact_stays():
    assert "Apache" in web_file("preact.js")[:300]


def test_every_member_that_a_script_gives_is_used():
    scripts = "".join(map(web_file, OWN))
    given = set(re.findall(r"kshot\.(\w+) = ", scripts))
    assert {"Samples", "useKeys", "source"} <= given
    used = re.sub(r"kshot\.\w+ = ", "", scripts)
    assert [name for name in sorted(given) if not re.search(rf"\b{name}\b", used)] == []

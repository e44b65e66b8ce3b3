"""The files of pages: what a browser gets has no comments, and says the same."""

import re

import pytest

from kshot.report.page.web_files import REPORT_SCRIPTS, SCRIPTS, STYLES, web_file

OWN = sorted({*SCRIPTS, *REPORT_SCRIPTS} - {"preact.js"})


@pytest.mark.parametrize("name", [*OWN, *STYLES])
def test_comments_and_indents_are_not_sent(name):
    text = web_file(name)
    assert not re.search(r"^\s|^//|^/\*", text, re.MULTILINE)
    assert text.count("{") == text.count("}")


def test_a_text_within_a_script_is_no_comment(monkeypatch, tmp_path):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "one.js").write_text('/** Why\n * it is. */\nconst a = "// no comment";\n  f(a); // stays\n\n')
    monkeypatch.setattr("kshot.report.page.web_files.files", lambda _: tmp_path)
    assert web_file("one.js") == 'const a = "// no comment";\nf(a); // stays\n'


def test_the_licence_of_preact_stays():
    assert "Apache" in web_file("preact.js")[:300]

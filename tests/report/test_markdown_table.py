"""Tables in Markdown: what a reader sees of a name is the name, whatever a stranger has put into it."""

import html
import re

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from kshot.core.visible import one_line
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    *("a|b", "<img src=x onerror=alert(1)>", "**bold**", "`code`", "[click](http://evil)", "$x^2$", "~~gone~~", "&lt;"),
    *(
        "\\|",
        "\\",
        "_a_",
        "snake_case",
        "# head",
        "- item",
        "1. item",
        "> quote",
        "line\nbreak",
        "![i](x)",
        "a\x1b[31mb",
    ),
    *("http://evil.example/x", "www.evil.example", "@someone", ":tada:", "模型", "", "  ", "---", "===", "<!-- x -->"),
]


def cells(text):
    """The texts of the cells as a page shows them, and what is left of markup in them."""
    rendered = READER.render(text)
    found = [re.sub(r"<!--.*?-->", "", each) for each in re.findall(r"<td[^>]*>(.*?)</td>", rendered, re.DOTALL)]
    assert not re.search(r"<", "".join(found)), rendered
    return [html.unescape(each) for each in found]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_as_it_is(name):
    assert cells(markdown_table(["model", "value"], [[name, 1.5]])) == [one_line(name).strip(), "1.5"]


@given(st.lists(st.text(), min_size=2, max_size=2))
def test_any_text_is_shown_as_it_is(texts):
    assert cells(markdown_table(["a", "b"], [texts])) == [one_line(text).strip() for text in texts]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_begins_nothing(name):
    rendered = READER.render(f"- {markdown_text(name)}\n")
    assert set(re.findall(r"<(\w+)", rendered)) <= {"ul", "li"}


def test_the_source_is_readable_too():
    table = markdown_table(["model", "value"], [["a", "1.0"], ["模型", Markdown("**12.5**")], ["c", None]], numbers={1})
    assert table == (
        "| model |    value |\n| ----- | -------: |\n| a     |      1.0 |\n| 模型  | **12.5** |\n| c     |          |\n"
    )


def test_github_sees_neither_a_person_nor_an_emoji_nor_a_link():
    assert markdown_text("@someone") == "@<!-- -->someone"
    assert markdown_text("a:tada:b") == "a:<!-- -->tada:b"
    assert "://" not in markdown_text("openai:m@http://host/v1").replace("\\:", "")

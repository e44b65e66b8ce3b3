"""Reading a page back: its numbers with their places, and its elements."""

from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree as ET


class Shown(NamedTuple):
    """A number on a page: its place in a summary, its exact value, and what people read."""

    row: str | None
    field: str | None
    value: str
    written: str


class _Numbers(HTMLParser):
    """Collects the numbers of a page; the row of each is that of the nearest element around it that names one."""

    def __init__(self):
        super().__init__()
        self.rows, self.open, self.found = [], None, []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.rows.append((tag, given.get("data-row")))
        exact = given.get("value") if tag == "data" else given.get("data-value")
        if exact is not None:
            row = next((row for _, row in reversed(self.rows) if row is not None), None)
            self.open = [row, given.get("data-field"), exact, ""]

    def handle_data(self, data):
        if self.open is not None:
            self.open[3] += data

    def handle_endtag(self, tag):
        while self.rows and self.rows.pop()[0] != tag:
            pass
        if self.open is not None and tag in {"data", "tspan"}:
            self.found.append(Shown(*self.open))
            self.open = None


def numbers(page):
    """Return every number of a page."""
    parser = _Numbers()
    parser.feed(str(page))
    return parser.found


def exact(summaries, row, field):
    """Return what ``summary.json`` has at the place that a page names."""
    key, part, index = row.rsplit("/", 2)
    found = summaries[key][part][int(index)]
    for name in field.split("."):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


def assert_numbers_are_those_of(page, summaries):
    """Check every number of a page against the summaries, and return how many there are."""
    found = numbers(page)
    for each in found:
        value = exact(summaries, each.row, each.field)
        assert float(each.value) == value, each
        if "e" not in each.written and each.written[:1] not in {"<", "≤"}:
            shown = float(each.written.replace(",", "").replace("−", "-"))
            digits = len(each.written.partition(".")[2])
            assert abs(shown - value) <= 0.5000001 * 10**-digits, each
    return len(found)


def tree(page):
    """Return the elements of a page; it must be well-formed XML."""
    return ET.fromstring(f"<div>{page}</div>")


def with_class(element, name):
    """Return the elements below another one that have a class."""
    return [each for each in element.iter() if name in each.get("class", "").split()]


def text_of(element):
    """Return all text within an element."""
    return "".join(element.itertext())


def figures(page):
    """Return the charts of a page, after checking that each has a title, an accessible picture and its table."""
    found = [each for each in tree(page).iter("figure") if "chart" in each.get("class").split()]
    for each in found:
        picture = each.find("./div/svg")
        assert picture.get("role") == "img"
        title = picture.find("./title")
        assert title.get("id") == picture.get("aria-labelledby")
        assert text_of(title) == text_of(each.find("figcaption"))
        assert each.findall("./details/div/table/tbody/tr")
    ids = [each.get("id") for each in tree(page).iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    return found

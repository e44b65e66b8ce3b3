"""The colours of every screen can be read on white and on black."""

import ast
from pathlib import Path

import pytest
from rich.errors import StyleSyntaxError
from rich.style import Style

SOURCE = Path(__file__).parents[2] / "src" / "kshot"
MODULES = sorted(path for part in ("report", "cli") for path in (SOURCE / part).rglob("*.py"))
READABLE = {"default", "green", "red", "magenta"}
"""Yellow and white vanish on white, black and blue on black, and bright colours on one of the two."""

ON_THEIR_OWN_GROUND = {("drawn_table.py", "white")}
"""White figures stand on a background that comes with them."""

FOR_PAGES = {("notebook.py", "#3b82f6")}
"""The blue of charts in notebooks, which a test of theirs measures."""


def colours(path):
    """Every text of a module that names a colour, as rich reads it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip():
            try:
                style = Style.parse(node.value)
            except StyleSyntaxError:
                continue
            yield from ((node.value, each.name) for each in (style.color, style.bgcolor) if each is not None)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_colour_vanishes(path):
    allowed = ON_THEIR_OWN_GROUND | FOR_PAGES
    found = [text for text, name in colours(path) if name not in READABLE and (path.name, text) not in allowed]
    assert found == []


def test_the_colours_are_found():
    assert {name for path in MODULES for _, name in colours(path)} >= {"green", "red", "magenta"}


def luminance(colour):
    """The relative luminance of a colour, as the accessibility guidelines of the web define it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_the_blue_of_charts_has_contrast_on_white_and_on_black():
    (_, accent), *_ = FOR_PAGES
    light = luminance(accent)
    assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3

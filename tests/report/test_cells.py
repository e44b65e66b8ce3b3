"""Texts of tables: cut in their middle, never wider than their room, and safe."""

import pytest
from rich.cells import cell_len

from kshot.report.cells import shortened


@pytest.mark.parametrize(
    "text", ["hf:/very/long/path/to/a/model", "模型/通义千问七十亿参数对话版", "a\nb\x1b[31m" * 5, "é" * 40, "x"]
)
@pytest.mark.parametrize("room", [0, 1, 2, 3, 5, 6, 7, 12, 13, 40, 200])
def test_a_text_fits_its_room(text, room):
    found = shortened(text, room)
    assert cell_len(found) <= room
    assert "\x1b" not in found
    assert "\n" not in found


def test_both_ends_of_a_name_are_kept():
    assert shortened("hf:/models/llama-3.1-8b-instruct", 20) == "hf:/mo…1-8b-instruct"
    assert shortened("short", 5) == "short"

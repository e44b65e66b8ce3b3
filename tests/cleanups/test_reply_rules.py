"""The table of what each rule of the reader of replies gains (``benchmarks/reply_rules.py``)."""

import pytest

from benchmarks.reply_rules import MODULES, cuts, gains, switches


@pytest.mark.parametrize(
    ("pattern", "without"),
    [
        ("a|bc|d", ["bc|d", "a|d", "a|bc"]),
        ("x(?:a|b)+", ["x(?:b)+", "x(?:a)+"]),
        (
            r"x(?! a|[|)b]|\|)?y{0,2}",
            [r"x(?![|)b]|\|)?y{0,2}", r"x(?! a|\|)?y{0,2}", r"x(?! a|[|)b])?y{0,2}", "xy{0,2}"],
        ),
        ("ab?c+", ["ac+"]),
    ],
)
def test_parts_of_a_pattern(pattern, without):
    found = [pattern[:start] + pattern[end:] for start, end in cuts(pattern)]
    assert found[: len(without)] == without


def test_every_module_of_the_reader_has_rules():
    for module in MODULES:
        assert any(not switch.part or switch.name == "_RULES" for switch in switches(module, parts=False))


def test_what_rules_gain():
    options = ["It rises", "It falls", "It stays the same", "It cannot be known"]
    rows = [
        {"reply": "A good question. After a while I came up with C", "options": options, "answer": "C"},
        {"reply": "不选A，故选：B", "options": options, "answer": "B"},
    ]
    found = {(one.name, one.part): one for one in gains(rows, ["chosen_option"], parts=False)}
    assert (found["_RULES", "_last_letter"].lost, found["_RULES", "_brackets"].changed) == (1, 0)
    assert found["_RULES", "_stated"].changed == 1

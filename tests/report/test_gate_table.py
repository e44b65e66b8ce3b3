"""The table of gates on the screen: at 80 and 120 columns, with long names, many subsets, and nothing answered."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from kshot.report.gates import gates_table, pairing_lines
from kshot.runs.gates import Threshold, check_failed, check_under, check_worse
from tests.runs.test_gates import NOTHING, compared, figure, sample, sides
from tests.screens import assert_screen

LONG = "hf:meta-llama/Llama-3.1-8B-Instruct"


def drawn(rows, width):
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(gates_table(rows, width))
    for line in pairing_lines(rows):
        console.print(line, soft_wrap=True)
    return console.file.getvalue()


def mixed():
    rows = [
        figure("arc:ARC-Challenge", 71.25, model=LONG),
        figure("arc:ARC-Challenge", None, model="openai:模型", n=0, failed=8),
    ]
    rows += [figure("lookup:NLLast:20:sep|small|simple_rule_explained", 3.5, "PPL", model=LONG, better=False)]
    gates = [*check_under(rows, Threshold("Accuracy", 70)), *check_under(rows, Threshold("PPL", 3))]
    long = sides("b", names=("a-baseline-with-a-long-name", "after"))
    gates += check_worse([compared("worse", task="arc:ARC-Challenge", run_model=LONG, baseline_model=LONG)], long)
    other = {"run_model": "openai:模型", "baseline_model": "openai:模型", "task": "arc:ARC-Challenge"}
    gates += check_worse([compared(**NOTHING, failed_run=8, **other)], sides("b"))
    samples = [sample(0) | {"model": LONG}, sample(1, "timeout: slow") | {"model": "openai:模型"}]
    return [*gates, *check_failed([], samples)]


def many():
    worse = {3, 17}
    rows = [compared("worse" if n in worse else None, task=f"mmlu:subject_{n}") for n in range(57)]
    return check_worse(rows, sides("runs/main"))


def subsets():
    """Two models on three subsets and their average, where samples failed on both sides; one task is new."""
    rows, figures = [], []
    for model in (LONG, "openai:模型"):
        for n, name in enumerate(("parts:easy", "parts:hard", "parts:odd", "parts[Macro Average]")):
            average = {"average": "macro"} if "[" in name else {}
            verdict = "worse" if model == LONG and n in {1, 3} else None
            systems = {"run_model": model, "baseline_model": model}
            rows.append(compared(verdict, task=name, failed_baseline=1, failed_run=2, **systems, **average))
            more = average | {"tasks": ["parts:easy"]} if average else {}
            figures.append(figure(name, model=model, **more))
    new = [*figures, figure("names", model=LONG), *(figure(f"parts:{n}", model="embedded") for n in range(9))]
    gates = check_under([each for each in figures if "average" in each], Threshold("Accuracy", 40))
    return [*gates, *check_worse(rows, sides("runs/main", figures, new, ("main", "ci")))]


def one():
    return check_under([figure("planets", 25.0)], Threshold("Accuracy", 20))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("rows", [mixed, many, one, subsets], ids=lambda make: make.__name__)
def test_the_screen(rows, width):
    assert_screen(f"gate-{rows.__name__}-{width}", drawn(rows(), width))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_screen_and_none_is_cut(width):
    table, told, rest = drawn([*mixed(), *many(), *subsets()], width).partition("compared with")
    text = table + told + rest
    assert max(map(cell_len, table.splitlines())) <= width
    assert "…" not in text


def test_a_name_is_broken_only_where_a_part_of_it_ends():
    text = drawn([*mixed(), *subsets()], 80)
    for name in (
        "hf:Llama-3.1-8B-Instruct",
        "lookup:NLLast:20:sep|small|simple_rule_explained",
        "a-baseline-with-a-long-name",
    ):
        for part in re.split("[-:|_]", name):
            assert part in text


def test_many_failures_are_counted():
    rows = [figure(f"t{n}", 10.0 + n) for n in range(57)]
    text = drawn(check_under(rows, Threshold("Accuracy", 40)), 120)
    assert (text.count("✗ failed"), "… and 10 more" in text) == (21, True)
    assert "✓ passed  Accuracy at least 40  27 checks      40.00 to 66.00" in text


def test_colour_is_never_the_only_sign():
    text = drawn(mixed(), 120)
    assert (text.count("✗ failed"), text.count("✓ passed")) == (5, 2)

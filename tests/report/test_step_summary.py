"""The summary of a GitHub step: what stands first, that names are texts, and that it fits."""

import html
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from kshot.core.errors import RunError
from kshot.core.visible import one_line
from kshot.report.gates import MAX_BYTES, step_summary
from kshot.runs.gates import Threshold, check_failed, check_under, check_worse, undecided
from kshot.runs.record import RunRecord
from tests.report.test_markdown_table import HOSTILE
from tests.runs.test_gates import compared, figure, sample, sides

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def summary(results, gates=(), failures=(), **options):
    return step_summary(RunRecord(results, [], Path("runs/first"), first_failures=list(failures)), gates, **options)


def test_gates_come_first_and_failed_ones_before_others():
    rows = [figure("easy", 90.0), figure("hard", 25.0, failed=1, ci95=[10.0, 45.5])]
    gates = [
        *check_under(rows, Threshold("Accuracy", 60)),
        *check_worse([compared("worse", won=1, lost=3, failed_run=2)], sides("runs/main")),
    ]
    gates += check_failed(rows, [sample(0, task="easy"), sample(1, "timeout: slow", task="hard")])
    assert summary(rows, gates, ["hard on m: 1 failed (timeout: slow)"], notes=["a note"]) == (
        "## kshot: first\n"
        "\n"
        "❌ **3 of 5 checks failed**\n"
        "\n"
        "| gate      | check                          | task | found                     |\n"
        "| --------- | ------------------------------ | ---- | ------------------------- |\n"
        "| ❌ failed | Accuracy at least 60           | hard | 25.00†                    |\n"
        "| ❌ failed | Accuracy not worse than before | quiz | 50.00 after 75.00, p 0.02 |\n"
        "| ❌ failed | no failed sample               | hard | 1 of 1 failed             |\n"
        "| ✅ passed | Accuracy at least 60           | easy | 90.00                     |\n"
        "| ✅ passed | no failed sample               | easy | 0 of 1 failed             |\n"
        "\n"
        "† more than 5 % of the samples failed\n"
        "\n"
        "| task | metric   |  value |      95 % |   n | failed |\n"
        "| ---- | -------- | -----: | --------: | --: | -----: |\n"
        "| easy | Accuracy |  90.00 |           |   8 |      0 |\n"
        "| hard | Accuracy | 25.00† | 10.0–45.5 |   8 |      1 |\n"
        "\n"
        "† more than 5 % of the samples failed\n"
        "\n"
        "### Compared with runs/main\n"
        "\n"
        "| task | metric   | baseline |   run | difference |           95 % |    p | verdict | paired | won | lost |\n"
        "| ---- | -------- | -------: | ----: | ---------: | -------------: | ---: | ------- | -----: | --: | ---: |\n"
        "| quiz | Accuracy |    75.00 | 50.00 |     -25.00 | -40.0 to -10.0 | 0.02 | worse   |      8 |   1 |    3 |\n"
        "\n"
        "### Notes\n"
        "\n"
        "- compared with before: 8 samples paired; not paired: 2 failed in the run\n"
        "- a note\n"
        "\n"
        "### Failed samples\n"
        "\n"
        "- hard on m: 1 failed (timeout: slow)\n"
        "\n"
    )


def test_passed_gates_say_so():
    rows = [figure(value=75.0)]
    assert "✅ **the check passed**" in summary(rows, check_under(rows, Threshold("Accuracy", 60)))
    assert "checks" not in summary(rows)


def test_what_was_not_compared_or_decided_is_shown():
    after = [figure(), figure(model="new")]
    text = summary(after, check_worse([compared()], sides(before=[figure()], after=after)))
    assert "✅ **the check passed, 1 not compared**" in text
    assert "| ➖ skipped | Accuracy not worse than before | quiz · new | only the run has this model |" in text
    text = summary([], undecided([RunError("other questions")]).rows)
    assert "❌ **a check could not be made**" in text
    assert "| ❗ error | the check can be made |      | other questions |" in text


def test_models_have_a_column_where_there_are_several():
    rows = [figure(model="hf:a/x"), figure(model="hf:b/y", value=None, n=0)]
    gates = check_under(rows, Threshold("Accuracy", 60))
    text = summary(rows, gates)
    assert "| quiz | hf:x  | Accuracy | 50.00 |" in text
    assert "| quiz · hf:y | no value |" in text


def test_subsets_are_folded_below_their_average():
    parts = [figure(f"mmlu:{n}", subset=str(n), dataset="mmlu") for n in range(57)]
    average = figure("mmlu[Macro Average]", dataset="mmlu", average="macro", tasks=[row["task"] for row in parts])
    whole, folded = summary([*parts, average]).split("<details>")
    assert ("mmlu:3" in whole, "Macro Average" in whole, "mmlu:3" in folded) == (False, True, True)
    assert "57 figures of subsets" in folded


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_texts(name):
    rows = [figure(name, 10.0, name, model=name), figure(name, model="n")]
    gates = [
        *check_under(rows, Threshold("Accuracy", 60)),
        *check_worse([compared(task=name)], sides(name, names=(name, "b"))),
    ]
    rendered = READER.render(summary(rows, gates, [name]))
    tags = set(re.findall(r"<(\w+)", rendered))
    assert tags <= {"h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    shown = html.unescape(re.sub(r"<!--.*?-->", "", rendered))
    assert one_line(name).strip() in shown


def test_it_fits():
    rows = [figure(f"{n} " + "&模" * 4000, subset=str(n), dataset="d", model="<" * 5000) for n in range(3000)]
    for room in (MAX_BYTES, 5000, 300, 10, 0, -5):
        text = summary(rows, check_under(rows, Threshold("Accuracy", 60)), ["x" * 100_000] * 500, room=room)
        assert len(text.encode()) <= max(room, 0)
    assert len(summary(rows).encode()) < MAX_BYTES

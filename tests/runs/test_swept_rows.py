"""Sweeps read back from the figures of a run."""

import pytest

from kshot.runs.pairing import _same_point
from kshot.runs.swept_rows import shown_value, swept_figures


def figure(value, *, base="quiz", model="m", metric="Accuracy", **sweep):
    """Return a figure of a sweep, with what its reader needs."""
    name = base + "".join(f",{option}={each}" for option, each in sweep.items())
    shared = {"model": model, "metric": metric, "higher_is_better": True, "n": 50, "bounds": [0, 100]}
    return {"task": name, "swept": base, "sweep": sweep, "value": value, "ci95": [value - 5, value + 5], **shared}


def lines(found):
    return {line.name: [None if row is None else row["value"] for row in line.rows] for line in found.lines}


def test_numbers_are_the_axis_and_the_rest_are_lines():
    rows = [figure(30, num_shots=0)]
    rows += [
        figure(k + bonus, num_shots=k, retriever=name) for k in (10, 2) for name, bonus in (("bm25", 40), ("topk", 50))
    ]
    (found,) = swept_figures(rows)
    assert (found.of, found.metric, found.across, found.steps) == ("quiz", "Accuracy", "num_shots", (0, 2, 10))
    assert lines(found) == {"bm25": [30, 42, 50], "topk": [30, 52, 60]}  # no examples: a point of both
    assert len(found.found) == 5
    assert found.title == "quiz · Accuracy by number of examples"
    assert found.is_curve


def test_one_axis_has_one_line_without_a_name():
    (found,) = swept_figures([figure(1, temperature=0.0), figure(2, temperature=0.7)])
    assert lines(found) == {"": [1, 2]}
    (by_name,) = swept_figures([figure(1, retriever="b"), figure(2, retriever="a")])
    assert by_name.steps == ("b", "a")
    assert not by_name.is_curve


def test_models_are_lines_and_a_missing_point_stays_empty():
    rows = [figure(1, num_shots=0), figure(2, num_shots=1), figure(3, num_shots=1, model="other")]
    (found,) = swept_figures(rows)
    assert lines(found) == {"m": [1, 2], "other": [None, 3]}


def test_crowded_pictures_are_divided_by_model_and_instruction():
    rows = [
        figure(k, num_shots=k, retriever=name, instruction=text, model=model)
        for k in (1, 2)
        for name in ("bm25", "topk")
        for text in ("A", "B")
        for model in ("m", "n")
    ]
    found = swept_figures(rows)
    assert [each.of for each in found] == ["quiz · m", "quiz · n"]
    assert list(lines(found[0])) == ["bm25 · “A”", "bm25 · “B”", "topk · “A”", "topk · “B”"]
    many = [
        figure(k, num_shots=k, retriever=f"r{at}", instruction=text) for k in (1, 2) for at in range(7) for text in "AB"
    ]
    assert [each.of for each in swept_figures(many)] == ["quiz · “A”", "quiz · “B”"]
    assert [len(each.lines) for each in swept_figures(many)] == [7, 7]


def test_the_tasks_of_token_lookup_are_lines():
    rows = [
        {**figure(k, base=f"lookup:{task}", shots=k), "kind": "lookup", "lookup": task, "length": 40, "variant": "bare"}
        for k in (0, 5)
        for task in ("UL", "UR")
    ]
    (found,) = swept_figures(rows)
    assert found.of == "lookup, length 40, bare"
    assert lines(found) == {"UL": [0, 5], "UR": [0, 5]}


def test_averages_stand_for_subsets_and_categories_are_left_out():
    rows = [figure(k, base=f"quiz:{subset}", num_shots=k) for k in (0, 5) for subset in "ab"]
    tasks = {k: [f"quiz:{subset},num_shots={k}" for subset in "ab"] for k in (0, 5)}
    rows += [{**figure(k, base="quiz[Average]", num_shots=k), "average": "macro", "tasks": tasks[k]} for k in (0, 5)]
    rows += [{**figure(1, num_shots=0), "category": "hard"}, {**figure(2, num_shots=0, metric="F1"), "detail": True}]
    (found,) = swept_figures(rows)
    assert found.of == "quiz[Average]"


def test_other_figures_are_no_sweep():
    assert swept_figures([{"task": "quiz", "model": "m", "metric": "Accuracy", "value": 1.0, "n": 2}]) == []
    odd = {**figure(1, num_shots=0), "sweep": {"num_shots": {"a": 1}}}  # of a stranger's folder
    assert len(swept_figures([odd])) == 1


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("num_shots", 5, "5"),
        ("temperature", 0.7, "0.7"),
        ("temperature", 1.0, "1"),
        ("instruction", None, "the usual instruction"),
        ("instruction", "Q:  {{q}}\nA:", "“Q: {{q}} A:”"),
        ("instruction", "x" * 100, "“" + "x" * 35 + "…”"),
    ],
)
def test_values_in_headings(option, value, shown):
    assert shown_value(option, value) == shown


def test_points_of_two_sweeps_agree_where_no_value_differs():
    assert _same_point({"num_shots": 0}, {"num_shots": 0, "instruction": "A"})
    assert _same_point({}, {"num_shots": 5})
    assert not _same_point({"num_shots": 1, "retriever": "bm25"}, {"num_shots": 2, "retriever": "bm25"})

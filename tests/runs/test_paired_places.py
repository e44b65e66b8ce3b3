"""The samples that compared systems share, and who is right: one rule for reports and static pages."""

import kshot
from kshot.runs.sample_flips import paired_places
from tests.finished_runs import Item, finished, task


def told(found):
    return [(paired.baseline.tolist(), paired.run.tolist(), paired.outcomes) for paired in paired_places(found)]


def test_a_letter_says_who_is_right_in_the_order_of_the_baseline(tmp_path):
    scores = {"d": (0, 0), "a": (100, 100), "c": (100, 0), "b": (0, 100), "e": (None, 100), "f": (100, None)}
    one, other = (
        finished(None, task("quiz", {name: Item(each[at]) for name, each in scores.items()})) for at in (0, 1)
    )
    assert told(kshot.compare(one, other)) == [(list(range(6)), list(range(6)), "nblw--")]


def test_samples_that_only_one_run_has_are_in_no_pair():
    one = finished(None, task("quiz", {"a": Item(100), "b": Item(0), "c": Item(0)}))
    other = finished(None, task("quiz", {"c": Item(100), "a": Item(100)}))
    assert told(kshot.compare(one, other)) == [([0, 2], [1, 0], "bw")]


def test_by_a_metric_that_was_not_compared_nobody_is_right():
    one, other = (finished(None, task("quiz", {"a": Item(score)})) for score in (0, 100))
    found = kshot.compare(one, other)
    for row in found.rows:
        row["metric"] = "another one"
    assert told(found) == [([0], [0], "-")]

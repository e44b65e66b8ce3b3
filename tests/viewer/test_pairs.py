"""Pairs and flips of two runs are those of ``kshot compare`` and ``kshot samples --flipped``."""

import random

import pytest

import kshot
from kshot.core.errors import RunError, UsageError
from kshot.runs.record import read_record
from kshot.runs.sample_filters import metric_scales
from kshot.runs.sample_flips import flipped_samples
from kshot.runs.samples_file import placed_rows
from kshot.viewer import sample_index
from kshot.viewer.background import Abandoned
from kshot.viewer.opened_index import sample_query
from tests.finished_runs import Item, Points, Right, finished, task
from tests.viewer.made_runs import ids, opened, page


def items(seed, size=40):
    draws = random.Random(seed)
    return {f"q{at}": Item(draws.choice([0, 100, 100, None]), f"question {at}") for at in range(size)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of two tasks on two models; one task has another name in the second run."""
    folders = []
    for name, other in (("one", "draw 1"), ("two", "draw 2")):
        folder = tmp_path_factory.mktemp("runs") / name
        tasks = [task("quiz", items(name), Right(), Points()), task(other, items(other, 25), Right())]
        kshot.evaluate(replies("a", "b"), tasks, out=folder, fsync="never")
        folders.append(folder)
    found = [opened(folder) for folder in folders]
    yield found
    for each in found:
        each.close()


def replies(*names):
    from tests.finished_runs import Replies

    return [Replies(name) for name in names]


def numbers(folder):
    return {placed.place: n for n, placed in enumerate(placed_rows(folder))}


@pytest.mark.parametrize("metric", [None, "Points"])
def test_flips_are_those_of_the_command_line(runs, metric):
    one, two = runs
    records = read_record(one.folder), read_record(two.folder)
    told = flipped_samples(*records, metric_scales(records[0].results, metric)).counterparts
    ours, theirs = numbers(one.folder), numbers(two.folder)
    named = {} if metric is None else {"metric": metric}
    found = page(one, other=two, flip="flipped", limit=1000, **named)["rows"]
    assert [row["n"] for row in found] == sorted(ours[place] for place in told)
    for place, others in told.items():
        assert {theirs[each.place] for each in others} <= set(one.counterparts(ours[place], two))
    if metric is None:
        assert {row["task"] for row in found} == {"quiz", "draw 1"}
        assert {row["model"] for row in found} == {"a", "b"}


def test_flips_are_those_of_compare(runs):
    one, two = runs
    found = page(one, other=two, flip="flipped", limit=1000)["rows"]
    flips = kshot.compare(two.folder, one.folder).flips(metric="Right")
    told = {(each["run"], each.get("run_task", each["task"]), each["id"], each["won"]) for each in flips}
    label = one.folder.name
    assert {(f"{label} · {row['model']}", row["task"], row["id"], row["flip"] == "won") for row in found} == told


def test_won_and_lost_are_parts_of_flipped(runs):
    one, two = runs
    won, lost = ({row["n"] for row in page(one, other=two, flip=flip, limit=1000)["rows"]} for flip in ("won", "lost"))
    assert won
    assert lost
    assert not won & lost
    assert won | lost == {row["n"] for row in page(one, other=two, flip="flipped", limit=1000)["rows"]}
    assert all(one.row(n)["scores"]["Right"] == 100 for n in won)
    assert all(two.row(each)["scores"]["Right"] == 0 for n in won for each in one.counterparts(n, two))


def test_a_list_beside_another_run_says_what_flipped(runs):
    one, two = runs
    rows = page(one, other=two, limit=1000)["rows"]
    told = {row["n"]: row["flip"] for row in rows}
    assert set(told.values()) == {"won", "lost", None}
    assert {n for n, flip in told.items() if flip == "won"} == {
        row["n"] for row in page(one, other=two, flip="won", limit=1000)["rows"]
    }
    assert "flip" not in page(one)["rows"][0]


def test_counterparts_ask_the_same_question_and_go_both_ways(runs):
    one, two = runs
    for n in range(page(one)["total"]):
        for there in one.counterparts(n, two):
            mine, yours = one.row(n), two.row(there)
            assert (mine["id"], mine["model"], mine["question"]) == (yours["id"], yours["model"], yours["question"])
            assert n in two.counterparts(there, one)
    assert sum(len(one.counterparts(n, two)) for n in range(page(one)["total"])) == 130


def test_filters_hold_among_flips(runs):
    one, two = runs
    rows = page(one, other=two, flip="lost", verdict="wrong", model="b", limit=1000)["rows"]
    assert rows
    assert {row["model"] for row in rows} == {"b"}
    assert page(one, other=two, flip="lost", verdict="right")["rows"] == []


def test_flips_need_another_run(runs):
    with pytest.raises(UsageError, match="flip needs another run"):
        runs[0].page(sample_query({"flip": "won"}))


def test_runs_that_cannot_be_compared_say_why(runs, tmp_path):
    other = opened(finished(tmp_path / "other", task("else", {"z": Item(100, "other")}, Right())))
    with pytest.raises(RunError, match="no task and metric in common"):
        page(runs[0], other=other, flip="won")
    changed = {name: Item(item.score, "another question") for name, item in items("one").items()}
    asks_else = opened(finished(tmp_path / "asks", task("quiz", changed, Right(), Points()), model="a"))
    with pytest.raises(RunError, match="ask other questions"):
        asks_else.counterparts(0, runs[0])


def test_a_run_beside_itself_has_no_flips(runs):
    assert ids(runs[0], other=runs[0], flip="flipped") == []
    assert runs[0].counterparts(3, runs[0]) == [3]


@pytest.fixture
def three(tmp_path):
    """The indexes of three runs on one question."""
    names = ("one", "two", "three")
    folders = [finished(tmp_path / name, task("sums", {"a": Item(100.0)})) and tmp_path / name for name in names]
    found = [opened(folder) for folder in folders]
    yield found
    for each in found:
        each.close()


def test_a_pairing_that_was_given_up_is_begun_again(three, monkeypatch):
    given_up, plain = [Abandoned], sample_index.pair_runs

    def pairing(*given):
        if given_up:
            raise given_up.pop()
        return plain(*given)

    monkeypatch.setattr(sample_index, "pair_runs", pairing)
    assert three[0].counterparts(0, three[1]) == [0]
    assert given_up == []


def test_runs_that_are_put_to_rest_are_paired_all_the_same(three):
    one, other, _ = three
    for each in (one, other):
        each.rest()
        assert one.counterparts(0, other) == [0]
        assert page(one, other=other)["rows"][0]["flip"] is None


def test_pairs_of_the_last_few_runs_are_kept(three, monkeypatch):
    monkeypatch.setattr(sample_index, "_MOST_PAIRS", 1)
    one, *others = three
    for other in (*others, *others):
        assert one.counterparts(0, other) == [0]
        assert len(one._pairs) == 1


def test_samples_of_another_measure_stand_side_by_side_and_are_not_judged(tmp_path):
    class Strict(Right):
        bounds = (0.0, 200.0)

    plain = opened(finished(tmp_path / "plain", task("sums", {"a": Item(100.0), "b": Item(0.0)})))
    strict = opened(finished(tmp_path / "strict", task("sums", {"a": Item(100.0), "b": Item(0.0)}, Strict())))
    assert plain.counterparts(1, strict) == [1]
    assert [row["flip"] for row in page(plain, other=strict)["rows"]] == [None, None]
    with pytest.raises(RunError, match="Right"):
        page(plain, other=strict, flip="won")
    with pytest.raises(RunError, match="Right"):
        flipped_samples(
            read_record(plain.folder), read_record(strict.folder), metric_scales(read_record(plain.folder).results)
        )


def test_a_task_of_another_measure_leaves_the_others_judged(tmp_path):
    class Strict(Right):
        bounds = (0.0, 200.0)

    words = ({"c": Item(100.0)}, {"c": Item(0.0)})
    one = opened(finished(tmp_path / "one", task("sums", {"a": Item(100.0)}), task("words", words[0])))
    other = opened(finished(tmp_path / "other", task("sums", {"a": Item(0.0)}, Strict()), task("words", words[1])))
    assert ids(one, other=other, flip="won") == ["c"]
    assert one.counterparts(0, other) == [0]

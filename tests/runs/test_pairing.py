"""What is paired with what: nothing is left out without a note."""

import pytest

import kshot
from kshot import KshotError
from tests.finished_runs import Item, Points, Replies, Right, finished, task


def items(*scores):
    return {f"q{at}": Item(score, f"question {at}") for at, score in enumerate(scores)}


def run(path, *names, tasks=None):
    models = [Replies(name) for name in names]
    kshot.evaluate(models, list(tasks or [task("quiz", items(100, 0, 100))]), out=path, fsync="never")
    return path


def test_models_of_one_run_alone_are_named(tmp_path):
    base, new = run(tmp_path / "base", "A", "B"), run(tmp_path / "new", "A", "C", "D")
    found = kshot.compare(base, new)
    assert [(row["baseline"], row["run"]) for row in found.rows] == [("base · A", "new · A")]
    assert found.notes == [
        "base has the model B, which new does not have: not compared with it",
        "new has the models C, D, which base does not have: not compared with it",
    ]
    assert found.as_dict()["notes"] == found.notes
    assert kshot.compare(base, base).notes == []


def test_every_two_runs_are_looked_at(tmp_path):
    one, two, three = (run(tmp_path / name, "A", name) for name in ("one", "two", "three"))
    notes = kshot.compare(one, two, three, all_pairs=True).notes
    assert len(notes) == 6
    assert "three has the model three, which two does not have: not compared with it" in notes
    assert len(kshot.compare(one, two, three).notes) == 4


def test_models_are_all_compared_where_runs_share_none(tmp_path):
    found = kshot.compare(run(tmp_path / "one", "A", "B"), run(tmp_path / "two", "C"))
    assert len(found.rows) == 2
    assert found.notes == []


def test_tasks_without_the_chosen_metric_need_no_note(tmp_path):
    one = finished(tmp_path / "one", task("quiz", items(100, 0)), task("essay", items(5, 6), Points()))
    found = kshot.compare(one, one, metric="Points")
    assert [row["task"] for row in found.rows] == ["essay"]
    assert found.notes == []


def test_systems_without_a_common_task_are_named(tmp_path, monkeypatch):
    """Two models, of which each has tasks of its own."""
    from kshot.runs.compared_run import ComparedRun

    def without(self, model, own=ComparedRun.tasks):
        tasks = own(self, model)
        return tasks if model == "A" else [name for name in tasks if name == self.label]

    tasks = [task("quiz", items(100, 0)), task("one", {"x": Item(0)}), task("two", {"y": Item(0)})]
    runs = [run(tmp_path / name, "A", "B", tasks=tasks) for name in ("one", "two")]
    monkeypatch.setattr(ComparedRun, "tasks", without)
    found = kshot.compare(*runs)
    assert {row["run_model"] for row in found.rows} == {"A"}
    assert found.notes == ["one · B and two · B are not compared: they have no task in common"]


# ---- tasks that a user names ----


@pytest.fixture(scope="module")
def subsets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subsets")
    names = ("mmlu:physics", "mmlu:law", "arc", "gsm")

    def made(name, *scores):
        return finished(folder / name, *(task(each, items(*scores), Right()) for each in names))

    return made("zero", 0, 0, 100), made("five", 100, 0, 100)


@pytest.mark.parametrize(
    ("names", "tasks"),
    [
        ("arc", ["arc"]),
        ("mmlu", ["mmlu:physics", "mmlu:law"]),
        ("physics", ["mmlu:physics"]),
        ("mmlu:ph", ["mmlu:physics"]),
        ("MMLU:LAW", ["mmlu:law"]),
        (["g", "a"], ["arc", "gsm"]),
        (("arc", "arc"), ["arc"]),
        ([], ["mmlu:physics", "mmlu:law", "arc", "gsm"]),
    ],
)
def test_tasks_are_named_as_for_samples(names, tasks, subsets):
    found = kshot.compare(*subsets, task=names)
    assert [row["task"] for row in found.rows] == tasks
    assert {row["family"] for row in found.rows} == {len(tasks)}
    assert found.notes == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mm", "'mm' is the beginning of 2 tasks. Name one: mmlu:physics, mmlu:law."),
        ("chess", "no run has the task 'chess'. Its tasks: mmlu:physics, mmlu:law, arc, gsm."),
        ("", "no run has the task ''"),
    ],
)
def test_names_that_are_no_task(name, said, subsets):
    with pytest.raises(KshotError) as caught:
        kshot.compare(*subsets, task=name)
    assert said in str(caught.value)


def test_a_chosen_task_of_one_run_alone_is_noted(tmp_path, subsets):
    fewer = finished(tmp_path / "fewer", task("arc", items(0, 0, 0)))
    found = kshot.compare(subsets[0], fewer, task=["arc", "gsm"])
    assert [row["task"] for row in found.rows] == ["arc"]
    assert found.notes == ["only zero has gsm"]


# ---- in a few words ----


def test_a_comparison_is_printed_as_sentences(subsets):
    shown = str(kshot.compare(*subsets, task="arc"))
    assert shown.startswith("<Comparison of zero and five: five and zero cannot be told apart on arc: +33.3 points in")
    assert "{" not in shown
    assert repr(kshot.compare(*subsets, task="arc")) == shown

"""Which samples of a run are chosen, by which score they are right, and in which order they come."""

import json
import tracemalloc

import pytest

from kshot.core.errors import UsageError
from kshot.runs.record import RunRecord
from kshot.runs.sample_filters import metric_scales, sample_filter
from kshot.runs.sample_selection import SampleSelection, find_samples, natural_key, sorted_places


def figure(metric="EM", task="quiz", model="m", **more):
    return {"task": task, "model": model, "metric": metric, "higher_is_better": True, "value": 50.0, "n": 2, **more}


def sample(score=None, task="quiz", name="0", metric="EM", **more):
    scores = {} if score is None else {metric: score}
    return {"task": task, "model": "m", "id": name, "prompt": "p", "response": "r", "answer": "a", "target": ["t"], "scores": scores, **more}  # fmt: skip


def record(rows, *figures):
    return RunRecord(list(figures or [figure()]), [], _samples=rows)


def ids(run, **criteria):
    return [row["id"] for row in find_samples(run, **criteria)]


PERCENT, OPEN = [0.0, 100.0], [0.0, None]


@pytest.mark.parametrize(
    ("row", "score", "verdict"),
    [
        ({"bounds": PERCENT}, 100.0, "right"),
        ({"bounds": PERCENT}, 100.00000000000001, "right"),
        ({"bounds": PERCENT}, 99.9999999999, "right"),
        ({"bounds": PERCENT}, 99.9, "partly"),
        ({"bounds": PERCENT}, 0.0, "wrong"),
        ({"bounds": [1.0, 10.0]}, 10, "right"),
        ({"bounds": [1.0, 10.0]}, 1, "wrong"),
        ({"bounds": [0.0, 1.0]}, 0.5, "partly"),
        ({"bounds": PERCENT, "higher_is_better": False}, 0.0, "right"),
        ({"bounds": PERCENT, "higher_is_better": False}, 100.0, "wrong"),
        ({"bounds": OPEN, "higher_is_better": False}, 0.0, "right"),
        ({"bounds": OPEN, "higher_is_better": False}, 3.0, "wrong"),
        ({"bounds": [None, None]}, 3.0, "unrated"),
        ({"bounds": OPEN}, 3.0, "unrated"),
        ({}, 100.0, "right"),
        ({"benchmark": "handbook"}, 1.0, "right"),
        ({"benchmark": "handbook", "search": "fts5"}, 1.0, "partly"),
        ({"benchmark": "handbook", "search": "fts5", "metric": "AC_MRR@5"}, 1.0, "right"),
        ({"bounds": PERCENT}, None, "unrated"),
        ({"bounds": PERCENT}, True, "unrated"),
        ({"bounds": PERCENT}, 10**400, "unrated"),
        ({"bounds": "x"}, 1.0, "unrated"),
    ],
)
def test_what_is_right_depends_on_the_scale(row, score, verdict):
    (scale,) = metric_scales([figure(**row)]).values()
    assert scale.verdict(sample(score, metric=scale.metric)) == verdict


def test_a_failed_sample_and_the_likelihood_of_a_text_are_neither_right_nor_wrong():
    (scale,) = metric_scales([figure("PPL", bounds=OPEN, higher_is_better=False)]).values()
    assert scale.verdict(sample(1.0, metric="PPL", answer={"nll": 1.0, "tokens": 1})) == "unrated"
    assert scale.verdict(sample(0.0, metric="PPL", failed="timeout: late")) == "failed"


def test_the_headline_judges_and_a_detail_has_its_direction():
    rows = [
        figure("acc", category="x", task="quiz[x]"),
        figure("detail first", detail=True),
        figure("TER", bounds=PERCENT, higher_is_better=False),
        figure("EM"),
        {name: value for name, value in figure("part", detail=True).items() if name != "higher_is_better"},
        figure("EM", task="average", tasks=["quiz"], average="macro"),
    ]
    assert {key: scale.metric for key, scale in metric_scales(rows).items()} == {("quiz", "m"): "TER"}
    assert metric_scales(rows, "part")["quiz", "m"].upwards is False
    search = [figure("AC_MRR@1", benchmark="b"), figure("AC_MRR@10", benchmark="b")]
    assert metric_scales(search)["quiz", "m"].metric == "AC_MRR@10"


def test_criteria_compose():
    run = record([sample(0.0), sample(100.0, name="1"), sample(40.0, name="2"), sample(name="3", failed="x: y")])
    assert ids(run) == ["0", "1", "2", "3"]
    assert ids(run, wrong=True) == ["0", "2"]
    assert ids(run, wrong=True, failed=True) == ["0", "2", "3"]
    assert ids(run, wrong=True, above=10) == ["2"]
    assert ids(run, below=1000) == ["0", "1", "2"]
    assert ids(run, id=["2", "1"], right=True) == ["1"]


def test_text_is_found_in_every_part_that_people_read():
    rows = [
        sample(0.0, prompt=[{"role": "user", "content": "Straße"}]),
        sample(0.0, name="1", response=[{"text": " Mars", "logprob": -12.5}]),
        sample(0.0, name="2", answer=42, target=[["a quote"]]),
        sample(0.0, name="3", reasoning=["Hm."], failed="timeout: late"),
    ]
    found = {
        text: ids(record(rows), contains=text)
        for text in ("STRASSE", "mars", "42", "QUOTE", "hm", "TIMEOUT", "user", "12.5")
    }
    assert found == {"STRASSE": ["0"], "mars": ["1"], "42": ["2"], "QUOTE": ["2"], "hm": ["3"], "TIMEOUT": ["3"], "user": [], "12.5": []}  # fmt: skip


def test_tasks_are_named_by_dataset_subset_or_beginning():
    tasks = ["mmlu:physics", "mmlu:law", "mmlu_pro:law", "arc"]
    run = record([sample(0.0, task=task, name=task) for task in tasks], *(figure(task=task) for task in tasks))
    assert ids(run, task="mmlu") == ["mmlu:physics", "mmlu:law"]
    assert ids(run, task="law") == ["mmlu:law", "mmlu_pro:law"]
    assert ids(run, task=["a", "mmlu_"]) == ["mmlu_pro:law", "arc"]
    with pytest.raises(
        UsageError, match=r"'mm' is the beginning of 3 tasks. Name one: mmlu:physics, mmlu:law, mmlu_pro:law"
    ):
        ids(run, task="mm")
    with pytest.raises(
        UsageError, match=r"this run has no task 'chess'. Its tasks: mmlu:physics, mmlu:law, mmlu_pro:law, arc"
    ):
        ids(run, task="chess")


def test_the_nearest_of_many_names_is_suggested():
    run = record([sample(0.0, name=f"question-{i}", category=f"topic {i % 2}") for i in range(100)])
    with pytest.raises(UsageError, match=r"this run has no id 'qestion-42'. Did you mean question-42"):
        sample_filter(run, id="qestion-42")
    with pytest.raises(UsageError, match=r"no id 'zz'. Its ids: question-0, question-1, .*, …"):
        sample_filter(run, id="zz")
    with pytest.raises(UsageError, match="is the beginning of 2 categories"):
        sample_filter(run, category="Topic")
    assert len(ids(run, category="TOPIC 1")) == 50


def test_names_sort_as_people_count():
    names = ["q10", "q9", "Q1", "q", "10", "9", "q009a", "١٢"]
    assert sorted(names, key=natural_key)[:3] == ["9", "10", "١٢"]
    assert sorted(["q10", "q9", "q1"], key=natural_key) == ["q1", "q9", "q10"]


@pytest.fixture
def folder(tmp_path):
    """Thirty megabytes of samples."""
    text = "word " * 2000
    with (tmp_path / "samples.jsonl").open("w") as file:
        for i in range(3000):
            file.write(json.dumps(sample(float(i % 7), name=str(i), prompt=text)) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("order", "reverse", "first"),
    [(None, False, "0"), ("score", False, "0"), ("score", True, "6"), ("id", True, "2999")],
)
def test_texts_are_not_kept(folder, order, reverse, first):
    run = RunRecord([figure(bounds=[0.0, 6.0])], [], folder)
    tracemalloc.start()
    try:
        selection = SampleSelection(folder, sample_filter(run))
        shown = [row["id"] for _, row in selection.rows(order, 3, reverse=reverse)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (shown[0], selection.total, selection.matching, selection.shown) == (first, 3000, 3000, 3)
    assert peak < 3 << 20


def test_samples_without_a_score_come_last_either_way():
    rows = [sample(name="0", failed="x: y"), sample(5.0, name="1"), sample(1.0, name="2"), sample(5.0, name="3")]
    wanted = sample_filter(record(rows))
    placed = [(row, at, "") for at, row in enumerate(rows)]
    assert sorted_places(placed, "score", wanted) == [2, 1, 3, 0]
    assert sorted_places(placed, "score", wanted, reverse=True) == [1, 3, 2, 0]
    assert sorted_places(placed, "score", wanted, reverse=True, limit=2) == [1, 3]

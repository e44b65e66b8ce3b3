"""The columns of samples without a server: verdicts and directions are those of each task."""

from kshot.report.page.packed_samples import PackedColumns


def figure(task, metric, **more):
    return {"task": task, "model": "m", "metric": metric, "value": 1.0, "n": 2, "bounds": [0.0, 100.0], **more}


RESULTS = [
    figure("sums", "EM", higher_is_better=True),
    figure("way\x1b", "Distance", higher_is_better=False),
]


def row(task, **more):
    return {"task": task, "model": "m", "id": "1", **more}


def test_directions_are_those_of_tasks():
    assert PackedColumns(RESULTS, 8).as_dict(total=0)["downward"] == {
        "headline": ["way\\x1b"],
        "Distance": ["way\\x1b"],
    }


def test_what_failed_has_failed_by_every_metric():
    columns = PackedColumns(RESULTS, 8)
    failed = columns.judged(row("sums", failed="no answer"))
    assert failed == dict.fromkeys(("headline", "EM", "Distance"), ("f", None))
    assert columns.judged(row("sums", scores={"EM": 100.0})) == {
        "headline": ("r", 100.0),
        "EM": ("r", 100.0),
        "Distance": ("u", None),
    }

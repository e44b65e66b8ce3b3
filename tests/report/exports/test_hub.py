"""``.eval_results`` as ``huggingface_hub`` reads and checks them."""

import pytest

from kshot.core.errors import RunError, UsageError
from kshot.core.visible import one_line
from kshot.report.exports.hub import write_eval_results
from kshot.runs.record import RunRecord

SPEC = {"identity": {}, "sessions": [{"started": "2026-11-16T10:00:00+02:00"}]}


def row(task, value=25.0, model="m", metric="EM", **more):
    told = {"higher_is_better": True, "value": value, "n": 8, "failed": 0, "ci95": [7.1, 59.07]}
    return {"task": task, "model": model, "metric": metric} | told | more


def written(tmp_path, rows, *datasets, spec=SPEC, settings=None):
    record = RunRecord(rows, [], tmp_path / "my run", settings=settings or {})
    return list(write_eval_results(tmp_path / "out", record, spec, datasets))


def read(path):
    yaml = pytest.importorskip("yaml")
    hub = pytest.importorskip("huggingface_hub")
    found = yaml.safe_load(path.read_text())
    entries = hub.parse_eval_result_entries(found)
    assert hub.eval_result_entries_to_yaml(entries) == found  # nothing is there that the hub does not know
    return entries


def test_an_entry_has_what_the_hub_asks_for(tmp_path):
    spec = SPEC | {"tasks": {"m": {"t": {"shots": 5}}}}
    (path,) = written(tmp_path, [row("t", 100 / 3, failed=2)], "cais/mmlu:anatomy", spec=spec)
    assert path == tmp_path / "out" / ".eval_results" / "my-run.yaml"
    (entry,) = read(path)
    assert (entry.dataset_id, entry.task_id, entry.value) == ("cais/mmlu", "anatomy", 100 / 3)
    assert entry.date == "2026-11-16T08:00:00Z"
    assert entry.notes == (
        "EM of t, 5-shot, n = 8, 2 failed and are not in it, 95 % interval 7.1000 to 59.0700; measured with kshot"
    )


@pytest.mark.parametrize(
    ("facts", "settings", "told"),
    [
        ({"shots": 2}, {"num_shots": 5}, ", 2-shot,"),  # fewer fit than were wanted
        ({"shots": 0}, {}, ", 0-shot,"),
        ({}, {}, ","),  # token lookup has examples of its own
        ({}, {"num_shots": 5}, ","),
        ({"retriever": {}, "mode": "compat"}, {}, ","),  # a config
        ({"kept": {}}, {"num_shots": 5}, ", 5-shot,"),
        ({"kept": {"a": 3}}, {"num_shots": 5}, ", up to 5-shot,"),
        ("odd", {}, ","),
    ],
)
def test_shots_are_those_of_the_prompts(tmp_path, facts, settings, told):
    spec = SPEC | {"tasks": {"m": {"t": facts}}}
    (path,) = written(tmp_path, [row("t")], "a/b", spec=spec, settings=settings)
    (entry,) = read(path)
    assert entry.notes.startswith(f"EM of t{told} n = 8")


@pytest.mark.parametrize(("second", "told"), [(5, ", 5-shot,"), (4, ",")])
def test_an_average_has_the_shots_of_its_subsets(tmp_path, second, told):
    spec = SPEC | {"tasks": {"m": {"t:a": {"shots": 5}, "t:b": {"shots": second}}}}
    subsets = [row(f"t:{name}", dataset="t", subset=name) for name in "ab"]
    average = row("t[Macro Average]", dataset="t", average="macro", tasks=["t:a", "t:b"])
    (path,) = written(tmp_path, [*subsets, average], "a/b", spec=spec)
    (entry,) = read(path)
    assert entry.notes.startswith(f"EM of t[Macro Average]{told} n = 8")


@pytest.mark.parametrize("value", [0.0, 1e-7, 1.5e300, -3.25, 100 / 3, 5])
def test_every_number_stays_a_number(tmp_path, value):
    (path,) = written(tmp_path, [row("t", value)], "a/b")
    (entry,) = read(path)
    assert type(entry.value) is float
    assert entry.value == value


@pytest.mark.parametrize(
    "name",
    ["a: b # c", "'\"\\", "two\nlines", "\x00\x1b\x85\u2028\ufeff", "- x", "half \ud800", "日本 🎉", "{{a}} &b *c !d"],
)
def test_names_are_texts(tmp_path, name):
    (path,) = written(tmp_path, [row(name)], "a/b")
    (entry,) = read(path)
    assert entry.notes.startswith(f"EM of {one_line(name)}, n = 8")
    assert entry.task_id == "default"


def test_the_headline_of_each_task_and_a_folder_for_each_model(tmp_path):
    subsets = [row(f"d:{name}", 10.0, dataset="d", subset=name) for name in "ab"]
    average = row("d[Macro Average]", 15.0, dataset="d", average="macro", tasks=["d:a", "d:b"])
    rows = [row("t"), row("t", 3.0, metric="F1"), row("t[x]", 1.0, category="x"), row("u", 9.0), *subsets, average]
    paths = written(tmp_path, [*rows, row("t", 50.0, model="other/m")], "t=a/b:t", "u=a/b:u", "d[Macro Average]=c/d")
    assert [path.parent.parent.name for path in paths] == ["m", "other-m"]
    entries = read(paths[0])
    assert [(each.dataset_id, each.task_id, each.value) for each in entries] == [
        ("a/b", "t", 25.0),
        ("a/b", "u", 9.0),
        ("c/d", "default", 15.0),
    ]
    assert [each.value for each in read(paths[1])] == [50.0]


def test_a_task_that_nothing_was_scored_of_is_left_out(tmp_path):
    (path,) = written(tmp_path, [row("t"), row("u", None, n=0, failed=8, ci95=None)], "a/b", spec={"identity": {}})
    (entry,) = read(path)
    assert entry.value == 25.0
    assert entry.date is None
    with pytest.raises(RunError, match="no figure"):
        written(tmp_path, [row("u", None, n=0, ci95=None)], "a/b")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "unknown for t, u"),
        (("t=a/b",), "unknown for u"),
        (("a/b",), "t and u would both be the task 'default' of a/b"),
        (("v=a/b",), "no task 'v'"),
        (("a/b", "c/d"), "given twice"),
        (("t=a/b", "u=a/c", "u=a/d"), "given twice"),
        (("not a name",), "no dataset of the hub"),
        (("a/b/c",), "no dataset of the hub"),
        (("a--b/c",), "no dataset of the hub"),
        (("a/b:not a task",), "no dataset of the hub"),
    ],
)
def test_what_is_missing_or_wrong_is_one_message(tmp_path, given, message):
    with pytest.raises(UsageError, match=message):
        written(tmp_path, [row("t"), row("u")], *given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["a/b", "a", "a.b-c_d/e", "a--b", "a..b", ".a", "a-", "a/b.git", "é/b", "x" * 97, "a/" + "x" * 96, "a/"]
)
def test_ids_are_those_that_the_hub_takes(tmp_path, name):
    utils, errors = (pytest.importorskip(f"huggingface_hub.{part}") for part in ("utils", "errors"))
    try:
        utils.validate_repo_id(name)
        valid = True
    except errors.HFValidationError:
        valid = False
    try:
        written(tmp_path, [row("t")], name)
        taken = True
    except UsageError:
        taken = False
    assert taken == valid

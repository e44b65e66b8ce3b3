"""Logs of Inspect: they open with its own reader, with the scores of the run."""

import json
from pathlib import Path

import pytest

from kshot import evaluate
from kshot.core.errors import RunError
from kshot.core.records import Generated
from kshot.report.exports.inspect_logs import StandardErrors, figures_of, log_header, sample_id, write_logs
from kshot.runs.record import read_record
from kshot.runs.spec_file import read_spec
from tests.commands import kshot
from tests.datasets.fakes import generation
from tests.failing_runs import evaluated
from tests.finished_runs import Item, Points, Right, finished, task

pytestmark = pytest.mark.needs("inspect-ai")
EARLY = Path(__file__).parents[2] / "data" / "runs_0_1"
ITEMS = {
    "b": Item(100, "?", "red"),
    "a/../\x00\n": Item(0, "?", "red"),
    "c": Item(None),
    "d": Item(100),
    "é 日": Item(0),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    graded = {str(at): Item(at * 7.25) for at in range(4)}
    return finished(
        tmp_path_factory.mktemp("runs") / "run", task("right_wrong", ITEMS), task("graded", graded, Points(), Right())
    )


def all_logs_of(path, folder):
    from inspect_ai.log import read_eval_log

    return [read_eval_log(str(log)) for log in write_logs(folder, read_record(path), read_spec(path))]


def logs_of(path, folder):
    return {log.eval.task: log for log in all_logs_of(path, folder)}


def rows_of(path, name):
    return [row for line in (path / "samples.jsonl").open() if (row := json.loads(line))["task"] == name]


@pytest.fixture(scope="module")
def logs(run, tmp_path_factory):
    return logs_of(run, tmp_path_factory.mktemp("logs"))


def test_right_and_wrong_are_those_of_the_run(run, logs):
    log = logs["right_wrong"]
    rows = {sample_id(row["id"]): row for row in rows_of(run, "right_wrong")}
    assert {sample.id for sample in log.samples} == set(rows)
    for sample in log.samples:
        row = rows[sample.id]
        expected = {name: "C" if score == 100 else "I" for name, score in row["scores"].items()}
        assert {name: score.value for name, score in sample.scores.items()} == expected
        assert (sample.error.message if sample.error else None) == row.get("failed")
        assert sample.input == row["prompt"]
        assert sample.output.completion == (row["response"] or "")
        assert sample.metadata.get("category") == row.get("category")
        assert sample.metadata["question"] == row["question"]


def test_other_scores_are_shares_of_one(run, logs):
    log = logs["graded"]
    rows = {row["id"]: row for row in rows_of(run, "graded")}
    for sample in log.samples:
        assert sample.scores["Points"].value == rows[sample.id]["scores"]["Points"] / 100
        assert sample.scores["Points"].answer == rows[sample.id]["answer"]


def test_figures_are_those_of_the_summary(run, logs):
    for row in read_record(run).results:
        if "category" in row:
            continue
        log = logs[row["task"]]
        (score,) = [score for score in log.results.scores if score.name == row["metric"]]
        figure = score.metrics["accuracy" if row.get("binary") else "value"]
        assert figure.value == row["value"] / 100
        assert [score.metrics[end].value for end in ("ci95_low", "ci95_high")] == [end / 100 for end in row["ci95"]]
        assert (score.scored_samples, score.unscored_samples) == (row["n"], row["failed"])
        assert score.metadata == row
    results = logs["right_wrong"].results
    assert (results.total_samples, results.completed_samples) == (5, 4)
    assert [row["category"] for row in results.metadata["categories"]] == ["red"]


def test_inspect_computes_the_same_accuracy_from_the_samples(logs):
    from inspect_ai.scorer import value_to_float

    log, read = logs["right_wrong"], value_to_float()
    scored = [read(sample.scores["Right"].value) for sample in log.samples if sample.scores]
    assert sum(scored) / len(scored) == log.results.scores[0].metrics["accuracy"].value


def test_the_standard_error_is_the_one_of_inspect(run, logs):
    from inspect_ai.analysis import evals_df
    from inspect_ai.scorer import SampleScore, stderr

    found = {}
    for task_name, log in logs.items():
        for score in (score for score in log.results.scores if "stderr" in score.metrics):
            samples = [SampleScore(score=each.scores[score.name]) for each in log.samples if each.scores]
            found[task_name, score.name] = score.metrics["stderr"].value
            assert found[task_name, score.name] == pytest.approx(stderr()(samples), rel=1e-12)
    assert list(found) == [("right_wrong", "Right"), ("graded", "Points")]  # the other one's points are no C and no I
    assert all(found.values())
    frame = evals_df([log.location for log in logs.values()])
    expected = {log.eval.task: log.results.scores[0].metrics["stderr"].value for log in logs.values()}
    assert dict(zip(frame["task_name"], frame["score_headline_stderr"], strict=True)) == expected


def test_a_figure_that_is_no_mean_has_no_standard_error():
    figure = {"task": "t", "model": "m", "metric": "x", "value": 50.0, "n": 2, "failed": 0, "ci95": None}
    scores = [{"x": 0.0}, {"x": 100.0}, {"x": None}, {}, {"y": 1.0}]

    def errors(*figures):
        found = StandardErrors(figures)
        for each in scores:
            found.add(each)
        return found.errors()

    assert errors(figure) == {"x": pytest.approx(50.0)}
    assert errors(figure | {"value": 49.0}) == errors(figure | {"aggregate": "bleu"}) == {}
    assert errors(figure | {"value": None}) == {}


def test_options_are_letters_also_where_a_reply_names_one(run, tmp_path):
    told = {"answer": 3, "target": 2, "response": "The answer is D", "rule": "answer is"}
    listed = {"options": ["72", "70", "81", "71"]}
    several = [
        told,  # a folder of before
        told | listed,
        told | listed | {"target": [0, 27]},
        told | listed | {"answer": -1, "response": "?"},
        told | listed | {"answer": None, "failed": "timeout", "scores": {}},
        {"answer": "3", "target": 3, "response": "3"},  # a number that was asked for
    ]
    chosen = changed(
        run, tmp_path / "chosen", lambda rows: [{**rows[0], "id": str(at), **each} for at, each in enumerate(several)]
    )
    samples = logs_of(chosen, tmp_path / "logs")["right_wrong"].samples
    assert [sample.target for sample in samples] == ["C", "C", ["A", "AB"], "C", "C", "3"]
    answers = [sample.scores["Right"].answer if sample.scores else None for sample in samples]
    assert answers == ["D", "D", "D", None, None, "3"]
    assert [sample.choices for sample in samples] == [None, *([listed["options"]] * 4), None]
    assert samples[1].output.completion == "The answer is D"
    assert not any("options" in sample.metadata for sample in samples)


def test_the_header_says_what_was_run(run, logs):
    spec, log = read_spec(run), logs["graded"]
    assert (log.status, log.eval.model, log.eval.dataset.samples) == ("success", "model", 4)
    assert log.eval.created == spec["sessions"][0]["started"]
    assert log.eval.packages["kshot"] == spec["sessions"][0]["versions"]["kshot"]
    assert log.eval.task_args == {}  # a task that is a value does not record its examples
    told = spec | {"tasks": {"model": {"graded": {"shots": 3}}}}
    assert log_header(read_record(run), told, "graded", "model").eval.task_args == {"num_shots": 3}
    assert len({each.eval.eval_id for each in logs.values()}) == len({each.eval.task_id for each in logs.values()}) == 2
    assert len({each.eval.run_id for each in logs.values()}) == 1


def test_keys_of_requests_are_not_in_the_log(run):
    record = read_record(run)
    record.settings |= {"request_option": ["api_key=hunter22", "seed=3"]}
    header = log_header(record, read_spec(run), "graded", "model")
    assert header.eval.metadata["settings"]["request_option"] == ["api_key=***", "seed=3"]
    assert "hunter22" not in header.model_dump_json()


def test_the_viewer_finds_logs_summaries_and_single_samples(run, tmp_path):
    from inspect_ai.log import list_eval_logs, read_eval_log_sample, read_eval_log_sample_summaries

    logs_of(run, tmp_path)
    (first,) = [info for info in list_eval_logs(str(tmp_path)) if info.task == "right-wrong"]
    summaries = read_eval_log_sample_summaries(first.name)
    assert sorted(each.id for each in summaries) == sorted(map(sample_id, ITEMS))
    for each in summaries:
        sample = read_eval_log_sample(first.name, each.id)
        assert [event.event for event in sample.events] == ["model", "error" if sample.error else "score"]


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    first, second = (
        [path.read_bytes() for path in write_logs(tmp_path / name, read_record(run), read_spec(run))]
        for name in ("one", "two")
    )
    assert first == second


def changed(run, folder, change):
    """Copy a run whose samples a stranger has changed, and the counts with them; the means are not known."""
    folder.mkdir()
    (folder / "spec.json").write_bytes((run / "spec.json").read_bytes())
    rows = change([json.loads(line) for line in (run / "samples.jsonl").open()])
    for row in rows:
        row.pop("question", None)
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "summary.json").write_text(json.dumps({"results": list(counted(rows, read_record(run).results))}))
    return folder


def counted(rows, figures):
    """Yield a figure for each task of some samples."""
    keys = [(row["task"], row["model"], "failed" in row) for row in rows if isinstance(row["task"], str)]
    for task_name, model in dict.fromkeys(key[:2] for key in keys):
        counts = {name: keys.count((task_name, model, failed)) for name, failed in (("n", False), ("failed", True))}
        yield next(row for row in figures if "category" not in row) | {"task": task_name, "model": model} | counts


def test_conversations_thoughts_and_several_replies(run, tmp_path):
    turns = [{"role": role, "content": role.upper()} for role in ("system", "user", "assistant", "user")]
    told = {"prompt": turns, "response": ["x", "y"], "reasoning": ["hm", "aha"], "stop_reason": ["stop", "length"]}
    chat = changed(run, tmp_path / "chat", lambda rows: [{**rows[0], **told, "rule": "boxed", "answer": "x"}])
    (sample,) = logs_of(chat, tmp_path / "logs")["right_wrong"].samples
    assert [(message.role, message.text) for message in sample.messages[:-1]] == [
        (turn["role"], turn["content"]) for turn in turns
    ]
    assert [choice.message.text for choice in sample.output.choices] == ["x", "y"]
    assert [choice.message.content[0].reasoning for choice in sample.output.choices] == ["hm", "aha"]
    assert [choice.stop_reason for choice in sample.output.choices] == ["stop", "max_tokens"]
    assert sample.scores["Right"].explanation == "The answer was read by the rule boxed."


def test_one_sample_is_in_memory_at_a_time(run, tmp_path):
    alive, most = set(), []

    class Watched(dict):
        def __init__(self, at, row):
            super().__init__(row, id=str(at))
            self.at = at
            alive.add(at)
            most.append(len(alive))

        def __del__(self):
            alive.discard(self.at)

    record = read_record(run)
    first = rows_of(run, "right_wrong")[0]
    record.iter_samples = lambda: (Watched(at, first) for at in range(200))
    (figure,) = figures_of(record, "right_wrong", "model")
    record.results = [figure | {"value": first["scores"]["Right"], "n": 200, "failed": 0}]
    list(write_logs(tmp_path, record, read_spec(run)))
    assert len(most) == 400  # they are checked, and then written
    assert max(most) <= 3


ODD = [
    None,
    7,
    1e400,
    "text \ud800",
    [],
    {},
    ["x", 1, None, {"role": 5, "content": ["y"]}],
    {"nll": "x"},
    [[["deep"]]],
    True,
    {"Right": 10**400, "Points": float("nan"), "x": "y"},
]


@pytest.mark.parametrize(
    "field",
    [
        "id",
        "prompt",
        "response",
        "reasoning",
        "answer",
        "target",
        "scores",
        "category",
        "rule",
        "judge",
        "stop_reason",
        "options",
    ],
)
def test_whatever_a_stranger_writes_is_a_sample(run, tmp_path, field):
    odd = changed(
        run, tmp_path / "odd", lambda rows: [{**rows[0], "id": str(at), field: odd} for at, odd in enumerate(ODD)]
    )
    (log,) = logs_of(odd, tmp_path / "logs").values()
    assert len(log.samples) == len(ODD)


def test_hostile_names_reach_neither_the_terminal_nor_other_folders(run, tmp_path, monkeypatch, capsys):
    hostile = "../=1+1 | \x1b[31m\n\u202e"
    odd = changed(run, tmp_path / "odd", lambda rows: [{**rows[0], "task": hostile, "model": hostile, "id": hostile}])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = kshot(capsys, "export", odd, "--to", "inspect")
    assert done.code == 0, done.err
    assert not set("\x1b\u202e") & set(done.out + done.err)
    assert [path.parent for path in Path.cwd().rglob("*.eval")] == [Path.cwd() / "odd-inspect"]
    assert len(list(tmp_path.rglob("*.eval"))) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [*rows, rows[0]], "not in the order of tasks"),
        (lambda rows: [rows[0], rows[0]], "have the id 'b'"),
        (lambda rows: [{**rows[0], "task": 5}], "no figure of 5 on 'model'"),
        (lambda rows: [], "has no samples"),
    ],
)
def test_samples_that_kshot_did_not_write_are_told(run, tmp_path, change, message):
    with pytest.raises(RunError, match=message):
        logs_of(changed(run, tmp_path / "odd", change), tmp_path / "logs")
    assert not list(tmp_path.rglob("*.eval*"))


def test_no_log_is_written_of_samples_that_are_not_those_of_the_figures(run, tmp_path):
    cut = changed(run, tmp_path / "cut", lambda rows: rows)
    lines = (cut / "samples.jsonl").read_text().splitlines(keepends=True)
    (cut / "samples.jsonl").write_text("".join(lines[:-1]))  # the first task is whole
    with pytest.raises(RunError, match="disagree about Right of graded on model"):
        logs_of(cut, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_ids_stay_distinct():
    ids = ["a\x00", "a\\x00", "x" * 500, "x" * 501, "half \ud800", "half \\ud800", "a/b", "a"]
    assert len({sample_id(each) for each in ids}) == len(ids)
    assert sample_id("a/b") == "a/b"
    assert all(len(sample_id(each)) < 300 for each in ids)


@pytest.mark.parametrize("name", ["planets", "rag", "search", "seeds"])
def test_folders_of_earlier_versions(name, tmp_path):
    found = all_logs_of(EARLY / name, tmp_path)
    assert sum(len(log.samples) for log in found) == len((EARLY / name / "samples.jsonl").read_text().splitlines())
    for log in found:
        for score in log.results.scores:  # they do not say their scale, so figures stay as they are
            assert score.metrics["value"].value == score.metadata["value"]
    if name == "planets":
        sample = found[0].samples[0]
        assert sample.choices == ["Mercury", "Venus", "Mars", "Jupiter"]
        assert (sample.target, sample.scores["Accuracy"].answer, sample.output.completion) == ("A", "C", "Mars")


def test_tokens_have_their_place_in_inspects_output(tmp_path):
    tokens = (("4", -0.5), ("!", -0.25))

    def talk(prompt):
        return Generated("4!", token_logprobs=tokens)

    questions = generation([{"q": "2 + 2 =", "target": "4!"}], name="quiz")
    options = {"out": tmp_path / "run", "fsync": "never", "report": False}
    evaluate(talk, questions, token_logprobs=True, **options)
    (log,) = all_logs_of(tmp_path / "run", tmp_path / "logs")
    (sample,) = log.samples
    given = sample.output.choices[0].logprobs.content
    assert [(each.token, each.logprob) for each in given] == list(tokens)
    assert "token_logprobs" not in sample.metadata


def test_the_log_of_a_part_names_the_average_that_leaves_it_out(tmp_path):
    evaluated({"easy": 16}, out=tmp_path / "run", fsync="never")
    for log in all_logs_of(tmp_path / "run", tmp_path / "logs"):
        (total,) = log.eval.metadata["totals"]
        assert (total["task"], total["left_out"]) == ("towns[Macro Average]", ["towns:easy"])

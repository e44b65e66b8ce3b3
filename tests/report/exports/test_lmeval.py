"""Results and samples in lm-eval's form: its names, its scale, its hashes; ``make lmeval-check`` has lm-eval read them."""

import hashlib
import json
import math
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import RunError, UsageError
from kshot.report.exports.lmeval_results import write_results
from kshot.runs.record import RunRecord, read_record
from kshot.runs.spec_file import read_spec
from tests.finished_runs import Item, Points, finished, task

RESULT_KEYS = {"results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "config", "date", "task_hashes", "model_name", "model_name_sanitized", "model_source"}  # fmt: skip
SAMPLE_KEYS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash", "target_hash"}  # fmt: skip
SPEC = {"identity": {}, "sessions": [{"started": "2026-11-16T10:00:00+00:00", "ended": "2026-11-16T10:01:30+00:00"}]}


def figure(metric, value, task="quiz", **more):
    told = {"higher_is_better": True, "value": value, "n": 2, "failed": 0, "ci95": None, "bounds": [0.0, 100.0]}
    return {"task": task, "model": "hf:org/m", "metric": metric} | told | more


def sample(number, scores, response, **more):
    told = {"question": "d", "prompt": "Q:", "response": response, "answer": 0, "target": 0, "scores": scores}
    return {"task": "quiz", "model": "hf:org/m", "id": str(number)} | told | more


def measured(*logprobs):
    return [{"text": f" {at}", "logprob": value, "tokens": 1, "greedy": at == 0} for at, value in enumerate(logprobs)]


def written(tmp_path, results, samples, spec=SPEC):
    record = RunRecord(results, [], _samples=samples)
    paths = list(write_results(tmp_path, record, spec))
    lines = [json.loads(line) for path in paths if path.suffix == ".jsonl" for line in path.open(encoding="utf-8")]
    return json.loads(paths[-1].read_text(encoding="utf-8")), lines, paths


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    items = {"a": Item(100), "b": Item(0), "c": Item(None), "d": Item(100)}
    return finished(
        tmp_path_factory.mktemp("runs") / "run", task("right", items), task("graded", {"1": Item(7.5)}, Points())
    )


def test_figures_are_shares_with_standard_errors(run, tmp_path):
    paths = list(write_results(tmp_path, read_record(run), read_spec(run)))
    assert [path.name.split("_2")[0] for path in paths] == ["samples_right", "samples_graded", "results"]
    found = json.loads(paths[-1].read_text(encoding="utf-8"))
    assert found.keys() >= RESULT_KEYS
    right = found["results"]["right"]
    assert right["Right,none"] == pytest.approx(2 / 3)
    assert right["Right_stderr,none"] == pytest.approx(math.sqrt((2 / 3) * (1 / 3) * 3 / 2 / 3))
    assert found["results"]["graded"]["Points,none"] == pytest.approx(0.075)
    assert found["n-samples"]["right"] == {"original": 4, "effective": 3}
    assert found["higher_is_better"]["right"] == {"Right": True}


def test_a_sample_that_failed_has_no_line(run, tmp_path):
    first, *_ = write_results(tmp_path, read_record(run), read_spec(run))
    lines = [json.loads(line) for line in first.open(encoding="utf-8")]
    assert [(line["doc"]["id"], line["Right"]) for line in lines] == [("a", 1.0), ("b", 0.0), ("d", 1.0)]
    assert [line["doc_id"] for line in lines] == [0, 1, 3]
    assert lines[0].keys() == SAMPLE_KEYS | {"Right"}
    assert (lines[0]["resps"], lines[0]["filtered_resps"]) == ([["100"]], ["100"])


def test_options_are_requests_of_their_own(tmp_path):
    rows = [sample(0, {"acc": 100.0}, measured(-1.5, -2.0)), sample(1, {"acc": 0.0}, measured(-3.0, -2.0))]
    found, lines, paths = written(
        tmp_path, [figure("acc", 50.0, lmeval_metric="acc", filter="none", scale=100.0)], rows
    )
    assert lines[1]["arguments"]["gen_args_1"] == {"arg_0": "Q:", "arg_1": " 1"}
    assert lines[1]["resps"] == [[["-3.0", "True"]], [["-2.0", "False"]]]
    assert lines[1]["filtered_resps"] == [["-3.0", "True"], ["-2.0", "False"]]
    assert (lines[1]["target"], lines[1]["prompt_hash"], lines[1]["target_hash"]) == ("0", sha("Q:"), sha("0"))
    hashes = [line[name] for line in lines for name in ("doc_hash", "prompt_hash", "target_hash")]
    assert found["task_hashes"] == {"quiz": sha("".join(hashes))}
    assert paths[0] == tmp_path / "hf__org__m" / "samples_quiz_2026-11-16T10-01-30.000000.jsonl"
    assert (found["model_name"], found["model_name_sanitized"]) == ("hf:org/m", "hf__org__m")
    assert found["total_evaluation_time_seconds"] == "90.0"


def test_each_filter_has_its_own_lines_and_figures(tmp_path):
    figures = [
        figure("exact_match,strict", 0.0, lmeval_metric="exact_match", filter="strict", scale=100.0),
        figure("exact_match,loose", 50.0, lmeval_metric="exact_match", filter="loose", scale=100.0),
    ]
    rows = [
        sample(at, {"exact_match,strict": 0.0, "exact_match,loose": score}, " 7 ", answers={"exact_match,strict": "[invalid]", "exact_match,loose": "7"}, target="7")
        for at, score in enumerate((100.0, 0.0))
    ]  # fmt: skip
    found, lines, _ = written(tmp_path, figures, rows)
    assert found["results"]["quiz"]["exact_match,loose"] == 0.5
    assert found["results"]["quiz"]["exact_match_stderr,strict"] == 0.0
    told = [(line["doc_id"], line["filter"], line["filtered_resps"], line["exact_match"]) for line in lines]
    assert told[:2] == [(0, "strict", ["[invalid]"], 0.0), (0, "loose", ["7"], 1.0)]


def test_what_is_no_mean_keeps_its_scale_and_has_no_error(tmp_path):
    rows = [sample(at, {"bleu": [1.0, 2.0]}, "x") for at in range(2)]
    bleu = figure("bleu", 31.5, lmeval_metric="bleu", filter="none", scale=1.0, aggregate="bleu")
    found, lines, _ = written(tmp_path, [bleu], rows)
    assert (found["results"]["quiz"]["bleu,none"], found["results"]["quiz"]["bleu_stderr,none"]) == (31.5, "N/A")
    assert lines[0]["bleu"] == [1.0, 2.0]


def test_groups_name_their_tasks(tmp_path):
    figures = [
        figure("acc", 50.0, scale=100.0),
        figure("acc", 50.0, task="all", scale=100.0, average="group", tasks=["quiz"]),
    ]
    rows = [sample(0, {"acc": 100.0}, measured(-1.0)), sample(1, {"acc": 0.0}, measured(-1.0))]
    spec = SPEC | {"tasks": {"hf:org/m": {"quiz": {"num_fewshot": 5, "version": 2.0, "split": "test"}}}}
    found, _, _ = written(tmp_path, figures, rows, spec)
    assert found["groups"] == {
        "all": {"alias": "all", "name": "all", "sample_len": 2, "acc,none": 0.5, "acc_stderr,none": "N/A"}
    }
    assert (found["group_subtasks"], found["n-shot"]) == ({"all": ["quiz"]}, {"quiz": 5, "all": 5})
    assert (found["versions"]["quiz"], found["configs"]["quiz"]["test_split"]) == (2.0, "test")


def test_a_group_has_the_tasks_of_all_its_metrics(tmp_path):
    over = {"task": "all", "average": "group"}
    figures = [
        figure("acc", 50.0, scale=100.0),
        figure("acc", 50.0, scale=100.0, tasks=["quiz"], **over),
        figure("em", 40.0, scale=100.0, tasks=["essay", "quiz"], **over),
    ]
    rows = [sample(0, {"acc": 100.0}, measured(-1.0)), sample(1, {"acc": 0.0}, measured(-1.0))]
    found, _, _ = written(tmp_path, figures, rows)
    assert found["group_subtasks"] == {"all": ["quiz", "essay"]}


def test_an_average_has_the_scale_of_its_parts(tmp_path):
    average = {"task": "quiz[Macro Average]", "dataset": "quiz", "average": "macro", "value": 75.0}
    rows = {
        "whole": [figure("EM", **average, tasks=["quiz:a", "quiz:b"])],
        "of a category": [figure("EM", **average)],
        "without a part": [figure("EM", **average, tasks=["quiz:b"], left_out=["quiz:a"])],
    }
    samples = [sample(0, {"EM": 100.0}, "x", task=f"quiz:{name}") for name in "ab"]
    for name, averages in rows.items():
        del averages[0]["bounds"]  # as in summary.json
        figures = [figure("EM", 100.0, task=f"quiz:{part}", dataset="quiz", subset=part, n=1) for part in "ab"]
        found, _, _ = written(tmp_path / name, figures + averages, samples)
        assert found["groups"]["quiz[Macro Average]"]["EM,none"] == 0.75


def test_a_document_by_itself_and_a_chat(tmp_path):
    turns = [{"role": "user", "content": "é?"}]
    rows = [
        sample(0, {"acc": 100.0}, {"text": "All of it.", "logprob": -9.5}, prompt=""),
        sample(1, {"acc": 0.0}, "so", prompt=turns),
    ]
    _, lines, _ = written(tmp_path, [figure("acc", 50.0, scale=100.0)], rows)
    assert (lines[0]["arguments"], lines[0]["resps"]) == ({"gen_args_0": {"arg_0": "All of it."}}, [["-9.5"]])
    assert lines[1]["arguments"]["gen_args_0"]["arg_0"] == '[{"role": "user", "content": "é?"}]'


def test_a_search_is_refused_before_anything_is_written(tmp_path):
    rows = [sample(at, {"acc": 50.0}, [{"id": "p1", "score": 2.5}], answer=["p1"]) for at in range(2)]
    with pytest.raises(UsageError, match=r"quiz searches, which lm-eval has no form for.*--to trec"):
        written(tmp_path / "out", [figure("acc", 50.0)], rows)
    assert not (tmp_path / "out").exists()


def test_samples_out_of_order_are_refused(tmp_path):
    other = [figure("acc", 50.0, n=1), figure("acc", 50.0, task="b", n=1)]
    rows = [sample(0, {"acc": 50.0}, "x"), sample(0, {"acc": 50.0}, "x", task="b"), sample(1, {"acc": 50.0}, "x")]
    with pytest.raises(RunError, match="not in the order of tasks"):
        written(tmp_path, other, rows)


@pytest.mark.needs("pyyaml")
def test_a_task_file_has_lm_evals_own_names(tmp_path):
    root = Path(__file__).parents[3] / "examples" / "lmeval"
    result = kshot.evaluate("embedded", "lmeval:planets_choice", lmeval_root=str(root), limit=3, out=tmp_path / "run")
    *_, path = kshot.export(tmp_path / "run", to="lmeval", out=tmp_path / "out")
    found = json.loads(path.read_text(encoding="utf-8"))
    figures = {row["metric"]: row["value"] / 100 for row in result.results}
    assert {name: found["results"]["planets_choice"][f"{name},none"] for name in figures} == pytest.approx(figures)
    assert found["versions"]["planets_choice"] is not None
    assert found["configs"]["planets_choice"]["num_fewshot"] == found["n-shot"]["planets_choice"]

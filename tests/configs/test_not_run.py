"""Files of the frameworks that kshot does not run: one message says what they are."""

import json

import pytest

import kshot
from kshot.cli.main import main
from kshot.configs import entry, task_of
from kshot.core.errors import KshotError

SWE_BENCH = """
from ais_bench.benchmark.datasets import SWEBenchDataset
from ais_bench.benchmark.runners import LocalRunner
from ais_bench.benchmark.tasks import SWEBenchInferTask, SWEBenchEvalTask
models = [dict(abbr='swebench', type='LiteLLMChat', model='', api_key='EMPTY', url='http://127.0.0.1:8000/v1')]
datasets = [dict(type=SWEBenchDataset, abbr='lite', path='', name='lite', split='test', step_limit=200)]
infer = dict(runner=dict(type=LocalRunner, task=dict(type=SWEBenchInferTask)))
eval = dict(runner=dict(type=LocalRunner, task=dict(type=SWEBenchEvalTask)))
"""
HARBOR = """
from ais_bench.benchmark.tasks.base import EmptyTask
from ais_bench.benchmark.tasks.custom_tasks.harbor_agent_task import HarborAgentTask
models = [dict(abbr='terminus-2', agent_name='terminus-2', model_names=['hosted_vllm/qwen3'])]
datasets = [dict(abbr='terminal', args=dict(n_attempts=1, environment_type='docker', path='/tasks'))]
infer = dict(runner=dict(task=dict(type=EmptyTask)))
eval = dict(runner=dict(task=dict(type=HarborAgentTask)))
"""
VBENCH = """
from ais_bench.benchmark.datasets import VBenchDataset
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.openicl.icl_prompt_template import PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import ZeroRetriever
models = [dict(type='VBenchEvalPlaceholder', abbr='vbench')]
datasets = [dict(
    abbr='x', type=VBenchDataset, path='/videos', reader_cfg=dict(input_columns=['dummy'], output_column='dummy'),
    infer_cfg=dict(prompt_template=dict(type=PromptTemplate, template='{q}'), retriever=dict(type=ZeroRetriever),
                   inferencer=dict(type=GenInferencer)),
    eval_cfg=dict(mode='custom_input', dimension_list=['x']))]
"""
CHATML = (
    "datasets = [dict(abbr='hmmt', path='./hmmt.jsonl', evaluator=dict(type='llm_evaluator', judge_cfg={}), n=1)]\n"
)
OTHER_TASK = SWE_BENCH.replace("SWEBench", "Chess")
AGENT_ALONE = "datasets = [dict(abbr='tau', args=dict(domain='airline'))]\n"
INFERENCER = """
from opencompass.openicl.icl_evaluator import AccEvaluator
from opencompass.openicl.icl_inferencer import INFERENCER
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.datasets import Game24Dataset
datasets = [dict(
    abbr='game', type=Game24Dataset, path='game', reader_cfg=dict(input_columns=['input'], output_column='output'),
    infer_cfg=dict(prompt_template=dict(type=PromptTemplate, template='{input}'), retriever=dict(type=ZeroRetriever),
                   inferencer=dict(type=INFERENCER)),
    eval_cfg=dict(evaluator=dict(type=AccEvaluator)))]
"""
FILES = {
    "SWE-bench": (SWE_BENCH, "it is SWE-bench: an agent repairs"),
    "Harbor": (HARBOR, "it is Harbor: an agent works"),
    "tau2-bench": (HARBOR.replace("HarborAgent", "TAU2Bench"), "it is tau2-bench: an agent calls tools"),
    "an agent": (AGENT_ALONE, "it is the work of an agent"),
    "a task of its own": (OTHER_TASK, "it is the work of ChessInferTask, a task"),
    "VBench": (VBENCH, "it is VBench: videos"),
    "ChatML": (CHATML, "it is a ChatML dataset"),
    "chatml_datasets": (CHATML.replace("datasets", "chatml_datasets", 1), "it is a ChatML dataset"),
    "ToT": (INFERENCER.replace("INFERENCER", "ToTInferencer"), "it is for ToTInferencer, a tree of thoughts"),
    "SWCELoss": (INFERENCER.replace("INFERENCER", "SWCELossInferencer"), "it is for SWCELossInferencer, the loss"),
    "ChatMLInferencer": (INFERENCER.replace("INFERENCER", "ChatMLInferencer"), "it is for ChatMLInferencer, rows"),
}
GOOD = """
datasets = [dict(
    abbr='good', path='good', reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), retriever=dict(type='ZeroRetriever'),
                   inferencer=dict(type='GenInferencer')),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_is_that_is_not_run(folder, capsys, name):
    text, said = FILES[name]
    (folder / "config.py").write_text(text, encoding="utf-8")
    for ask in (["run", "config.py"], ["run", "config.py", "-m", "embedded"], ["preview", "config.py"]):
        assert main(ask) == 2
        err = capsys.readouterr().err
        assert err.count(said) == 1
        assert "kshot does not run it. " in err
        assert "inferencer=dict(" not in err
        assert "2 faults" not in err
    assert main(["check", "config.py", "--json"]) == 1
    shown = capsys.readouterr()
    (row,) = map(json.loads, shown.out.splitlines())  # and none on its models
    assert len(row["missing"]) == 1
    assert row["missing"][0].startswith(f"kind: {said}")
    assert "have no effect" not in shown.err


def test_other_files_are_checked_and_other_entries_are_run(folder, capsys):
    (folder / "agents.py").write_text(SWE_BENCH, encoding="utf-8")
    (folder / "good.py").write_text(GOOD, encoding="utf-8")
    (folder / "good.jsonl").write_text('{"q": "one", "a": "1"}\n', encoding="utf-8")
    assert main(["check", "agents.py", "good.py", "--data", "good=good.jsonl"]) == 1
    shown = capsys.readouterr()
    assert "2 files: 1 of 2 entries would run\n" in shown.out
    (folder / "both.py").write_text(f"{GOOD}chatml_{CHATML}", encoding="utf-8")
    assert main(["preview", "both.py", "--data", "good=good.jsonl"]) == 0
    assert "chatml_datasets of both.py has no effect" in capsys.readouterr().err
    (folder / "mixed.py").write_text(GOOD + "datasets.append(dict(abbr='tau', args={}))\n", encoding="utf-8")
    with pytest.raises(KshotError, match="tau: it is the work of an agent"):
        kshot.evaluate(lambda _: "1", "mixed.py", data="good=good.jsonl")
    assert kshot.evaluate(lambda _: "1", "mixed.py", data="good=good.jsonl", only="good").results[0]["value"] == 100


def test_a_dict_is_refused_with_the_same_words():
    body = {"abbr": "x", "path": "x", "evaluator": {"type": "math_evaluator"}}
    with pytest.raises(KshotError, match="it is a ChatML dataset"):
        task_of(entry(body), {"test": [{"q": "one"}]})


def test_rows_of_swe_bench_with_prompts_and_an_evaluator_are_run(folder):
    (folder / "rows.jsonl").write_text('{"q": "one", "a": "1"}\n', encoding="utf-8")
    text = GOOD.replace("abbr='good'", "abbr='good', type='SWEBenchDataset'")
    (folder / "config.py").write_text(text, encoding="utf-8")
    assert kshot.evaluate(lambda _: "1", "config.py", data="good=rows.jsonl").results[0]["value"] == 100

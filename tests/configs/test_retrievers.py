"""A config file that is written for OpenCompass gets its retriever rules, one that is written for kshot gets kshot's."""

import json
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import KshotError

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_retrievers.json").read_text(encoding="utf-8"))
CONFIG = """
from {package}openicl.icl_prompt_template import PromptTemplate
from {package}openicl.icl_retriever import {retriever}
from {package}openicl.icl_inferencer import GenInferencer
ice = dict(type=PromptTemplate, template="</E>[{{answer}}]", ice_token="</E>")
mine_datasets = [dict(
    abbr="mine",
    reader_cfg=dict(input_columns={columns}, output_column="answer"),
    infer_cfg=dict(ice_template=ice, retriever=dict(type={retriever}, {options}), inferencer=dict(type=GenInferencer)),
    eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
)]
"""
OWN = "from kshot.prompts import PromptTemplate\nfrom kshot.retrievers import {retriever}\nGenInferencer = 'GenInferencer'\n"


@pytest.fixture
def chosen(tmp_path):
    """Run a config over the recorded rows, and return the answers of the examples in each prompt."""
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GOLDEN[split]))

    def choose(kind, options, package="opencompass.", **more):
        text = CONFIG.format(package=package, retriever=kind, columns=GOLDEN["input_columns"], options=options)
        if not package:
            text = OWN.format(retriever=kind) + "\n".join(text.splitlines()[4:])
        (tmp_path / "mine.py").write_text(text)
        found = kshot.preview(str(tmp_path / "mine.py"), data=f"mine={tmp_path}", **more)
        shown = [preview.requests[0].prompt.text.rpartition("[")[0].strip() for preview in found]
        return [[answer.strip("[]") for answer in text.splitlines()] for text in shown]

    return choose


def answers(case):
    return [[GOLDEN["train"][index]["answer"] for index in row] for row in case["chosen"]]


@pytest.mark.needs("llama-index-core")  # which carries NLTK's rules for sentences
def test_bm25_of_opencompass(chosen):
    case = next(case for case in GOLDEN["cases"] if case["options"] == {"ice_num": 4})
    assert case["retriever"] == "BM25Retriever"
    assert chosen("BM25Retriever", "ice_num=4") == answers(case)
    assert chosen("BM25Retriever", "ice_num=4", package="") != answers(case)
    assert chosen("SlidingWindowRetriever", "k=1", retriever="bm25", num_shots=4) == answers(case)


def test_a_window_of_opencompass(chosen):
    case = next(case for case in GOLDEN["cases"] if case["options"] == {"k": 5})
    assert chosen("SlidingWindowRetriever", "k=5") == answers(case)


def test_examples_that_are_not_there_are_told_with_file_and_entry(chosen):
    with pytest.raises(KshotError, match=r"fix_id_list has 5000; the training set has") as caught:
        chosen("FixKRetriever", "fix_id_list=[0, 5000]")
    assert caught.value.where.endswith("mine.py, mine: FixKRetriever")

"""Config files and retrievers through the command line."""

import json
from pathlib import Path

import pytest

from tests.commands import CAPITALS, kshot

NEWS = """
from ais_bench.benchmark.openicl.icl_prompt_template import PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever.icl_random_retriever import RandomRetriever
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.openicl.icl_evaluator import AccEvaluator
from ais_bench.benchmark.datasets import NewsDataset
{more}
news_datasets = [
    dict(
        abbr="news", type=NewsDataset, path="nowhere",
        reader_cfg=dict(input_columns=["text"], output_column="label"),
        infer_cfg=dict(
            ice_template=dict(
                type=PromptTemplate,
                template=dict(
                    begin="</E>",
                    round=[dict(role="HUMAN", prompt="{word}: {{text}}"), dict(role="BOT", prompt="Label: {{label}}")],
                ),
                ice_token="</E>",
            ),
            retriever=dict(type=RandomRetriever, ice_num=3, seed=123),
            inferencer=dict(type=GenInferencer, max_out_len=4),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
    )
]
"""
TOPICS = ["technology", "sports", "entertainment", "finance", "education", "health"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("news.py").write_text(NEWS.format(word="Text", more=""))
    Path("changed.py").write_text(NEWS.format(word="Article", more=""))
    Path("capitals.py").write_text(CAPITALS)
    Path("rows").mkdir()
    train = [{"text": f"an article about {topic}", "label": topic.title()} for topic in TOPICS]
    test = [
        {"text": "an article about AI", "label": "Technology"},
        {"text": "an article about football", "label": "Sports"},
    ]
    for split, rows in (("train", train), ("test", test)):
        Path(f"rows/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


DATA = ("--data", "news=rows")


def prompts(capsys, *arguments):
    done = kshot(capsys, "preview", *arguments, "--json")
    assert done.code == 0, done.err
    return [json.loads(line)["requests"][0] for line in done.out.splitlines()]


def test_the_seeds_random_example_renders_by_the_rules(capsys):
    first, second = prompts(capsys, "news.py", *DATA)
    shown = [TOPICS[i] for i in (1, 3, 4)]  # the original's draw for n=6, k=3, seed 123
    lines = [line for t in shown for line in (f"Text: an article about {t}", f"Label: {t.title()}")]
    assert first["prompt"].split("\n")[:6] == lines
    assert first["prompt"].endswith("Text: an article about AI\nLabel: ")
    assert [line for line in second["prompt"].split("\n") if line.startswith("Label")][:3] == [
        "Label: Education",
        "Label: Technology",
        "Label: Health",
    ]
    (chat, _) = prompts(capsys, "news.py", *DATA, "--model-type", "chat")
    assert [m["role"] for m in chat["messages"]] == ["user", "assistant"] * 3 + ["user"]


def test_a_config_runs_resumes_and_is_scored_again(capsys, tiny_llama):
    command = ("run", "news.py", "-m", f"hf:{tiny_llama}", *DATA, "--out", "run", "--json")
    done = kshot(capsys, *command)
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["results"]
    assert (row["task"], row["metric"], row["n"]) == ("news", "accuracy", 2)
    before = Path("run/journal.jsonl").read_text()
    assert kshot(capsys, *command).code == 0
    assert Path("run/journal.jsonl").read_text() == before
    assert json.loads(kshot(capsys, "score", "run", "--json").out)["results"] == [row]


def test_models_inside_a_config_are_asked(capsys, tiny_llama):
    models = f"from opencompass.models import HuggingFaceBaseModel\nmodels = [dict(type=HuggingFaceBaseModel, abbr='tiny', path={str(tiny_llama)!r}, max_out_len=4)]"
    Path("whole.py").write_text(NEWS.format(word="Text", more=models))
    done = kshot(capsys, "run", "whole.py", *DATA, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"][0]["model"] == "tiny"


def test_diff_shows_what_changed(capsys):
    done = kshot(capsys, "preview", "changed.py", *DATA, "--diff", "news.py")
    assert "-Text: an article about AI" in done.out
    assert "+Article: an article about AI" in done.out
    assert "the prompts are the same" in kshot(capsys, "preview", "news.py", *DATA, "--diff", "news.py").out


def test_retrievers_by_name_for_configs_and_classes(capsys):
    (config, _) = prompts(capsys, "news.py", *DATA, "--retriever", "fixk", "-k", "1")
    assert (
        config["prompt"] == "Text: an article about technology\nLabel: Technology\nText: an article about AI\nLabel: "
    )
    (shown, *_) = prompts(capsys, "-d", "capitals.py:Cities", "-k", "2", "--retriever", "bm25")
    assert shown["prompt"].endswith("The capital of France0 is")
    assert len(shown["prompt"].split("\n\n")) == 3
    fixed = prompts(capsys, "-d", "capitals.py:Cities", "-k", "2")
    drawn = prompts(capsys, "-d", "capitals.py:Cities", "-k", "2", "--retriever", "random")
    heads = {request["prompt"].rsplit("\n\n", 1)[0] for request in drawn}
    assert len({request["prompt"].rsplit("\n\n", 1)[0] for request in fixed}) == 1 < len(heads)


def test_the_spread_over_draws_of_examples(capsys):
    done = kshot(
        capsys, "run", "-m", "embedded", "-d", "capitals.py:Capitals", "-k", "2", "--retriever", "random", "--retriever-seeds", "0..3",
        "--out", "run", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = [row for row in json.loads(done.out)["results"] if not row.get("detail")]
    single = [row["value"] for row in rows if "example_seed" in row]
    (total,) = [row for row in rows if "sd" in row]
    assert [row["example_seed"] for row in rows if "example_seed" in row] == [0, 1, 2, 3]
    assert total["task"] == "capitals[4 draws of examples]"
    assert total["value"] == pytest.approx(sum(single) / 4)
    assert (total["lowest"], total["highest"]) == (min(single), max(single))
    assert total["sd"] is not None
    bad = kshot(capsys, "run", "-d", "capitals.py:Capitals", "--retriever-seeds", "0..3", "--out", "other")
    assert (bad.code, "needs examples" in bad.err) == (2, True)


BAD = {
    "an endless loop": ("while True:\n    pass\nx_datasets = []\n", "loop"),
    "deleting a file": ("import os\nos.remove('rows/test.jsonl')\nx_datasets = []\n", "not allowed in a config file"),
    "network": ("import socket\nsocket.create_connection(('127.0.0.1', 9))\nx_datasets = []\n", "config"),
    "a missing package": ("import nothing_like_this\nx_datasets = []\n", "nothing_like_this"),
    "no datasets": ("x = 1\n", "it has no datasets"),
    "dataset classes": (
        "from .generation_dataset import GenerationDataset\n\n\nclass Words(GenerationDataset):\n    pass\n",
        "bad.py: it holds dataset classes, not a config. Name the class: -d bad.py:Words.",
    ),
    "broken Python": ("x = (\n", "config"),
}


@pytest.mark.parametrize("kind", [k for k in BAD if k != "an endless loop"])
def test_hostile_and_broken_configs(kind, capsys):
    text, message = BAD[kind]
    Path("bad.py").write_text(text)
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = kshot(capsys, "run", "bad.py", "-m", "embedded", "--out", "run")
    assert done.code == 2, done
    assert message in done.err
    assert "Traceback" not in done.err
    assert all(path.read_bytes() == content for path, content in before.items())


def test_an_unknown_retriever_says_where_the_known_are_listed(capsys):
    done = kshot(capsys, "run", "-d", "capitals.py:Cities", "-k", "1", "--retriever", "best", "--out", "run")
    assert (done.code, "there is no retriever 'best'. See kshot list retrievers" in done.err) == (2, True)
    done = kshot(capsys, "run", "--retriever", "bm25", "--limit", "1")
    assert "--retriever has no effect on lookup, handbook" in done.err
    done = kshot(capsys, "run", "--ranking-type", "prob")
    assert (done.code, "--ranking-type needs a dataset, and none is named" in done.err) == (2, True)


def test_a_path_is_seen_from_the_current_folder_and_then_from_the_project(capsys):
    Path("project").mkdir()
    text = Path("news.py").read_text()
    Path("project/news.py").write_text(text.replace('path="nowhere"', 'path="articles"'))
    done = kshot(capsys, "preview", "project/news.py")
    assert (done.code, "kshot has no loader NewsDataset, and its path 'articles' is not here" in done.err) == (2, True)
    Path("rows").rename("project/articles")
    assert "an article about football" in kshot(capsys, "preview", "project/news.py").out
    Path("project/articles").rename("outside")
    Path("project/news.py").write_text(text.replace('path="nowhere"', 'path="../outside"'))
    assert kshot(capsys, "preview", "project/news.py").code == 2  # it is no part of the project


def test_a_config_without_a_loader_says_so(capsys):
    text = Path("news.py").read_text()
    for written, said in (('path="nowhere",', "and its path 'nowhere' is not here"), ("", "and it has no path")):
        Path("news.py").write_text(text.replace('type=NewsDataset, path="nowhere",', written))
        assert f"it names no loader (type), {said}" in kshot(capsys, "preview", "news.py").err

"""Every entry of the catalogue beside lm-eval's task of that name, on rows of the same shape.

``tests/data/lmeval_catalogue.json`` holds what lm-eval asks; ``make lmeval-check`` compares it with lm-eval itself.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path

import pytest

import kshot
from tests.datasets.fakes import asked, jsonl

FACTS = json.loads((Path(__file__).parents[1] / "data" / "lmeval_catalogue.json").read_text(encoding="utf-8"))
CATALOGUE = Path(kshot.__file__).parent / "datasets" / "catalogue"
WITH_TASK = {name: facts for name, facts in FACTS.items() if facts["task"]}

AS_LM_EVAL = {
    "arc": {},
    "boolq": {"instruction": "{{passage}}\\nQuestion: {{question}}?\\nAnswer:"},
    "cnn_dailymail": {"instruction": "Summarize the following article:\\n\\n{{article}}\\n\\nSummary:"},
    "copa": {
        "instruction": "{{premise[:-1]}}{{' because' if question == 'cause' else ' therefore'}}",
        "target_delimiter": "  ",
    },
    "gsm8k": {"instruction": "Question: {{question}}\\nAnswer:"},
    "lambada": {},
    "mmlu": {
        "instruction": "{{source}}\\n{{options}}\\nAnswer:",
        "description": "The following are multiple choice questions (with answers) about anatomy.\\n\\n",
        "ranking_type": "prob",
        "letters": "spaced",
    },
    "nq": {
        "instruction": "Q: {{question}}\\nA:",
        "description": "Answer these questions:\\n\\n",
        "fewshot_delimiter": "\\n",
    },
    "openbookqa": {"instruction": "{{question}}"},
    "race": {"instruction": "Article: {{article}}\\n\\n{{question}}"},
    "triviaqa": {"instruction": "Question: {{question}}?\\nAnswer:"},
    "winogrande": {},
    "wmt": {
        "instruction": "{{source_language}} phrase: {{source}}\\n{{target_language}} phrase:",
        "target_delimiter": "  ",
    },
}
"""The settings under which an entry has lm-eval's prompt. HellaSwag and HumanEval differ in white space alone."""

NO_TRAIN_SPLIT = ("cnn_dailymail", "lambada", "race")
"""lm-eval draws their examples from the evaluated rows."""


def pairs(name, tmp_path, shots=0, **options):
    """What kshot asks about the rows: prompts with continuations (None: a reply), without those after a baseline."""
    facts = FACTS[name]
    for split, row in zip(("eval", "shown"), facts["rows"], strict=True):
        jsonl(tmp_path / f"{split}.jsonl", [row])
    found = asked(
        f"{name}:{facts['subset']}" if facts["subset"] else name,
        dataset_path=f"{tmp_path}/{{split}}.jsonl",
        evaluation_set="eval",
        example_set="shown",
        num_shots=shots,
        **options,
    )
    every = [[request.prompt.text, text] for request in found for text in getattr(request, "continuations", [None])]
    return every[: len(facts["asked_after_0"])]


def of_lm_eval(name, shots=0):
    return [[context, rest if isinstance(rest, str) else None] for context, rest in FACTS[name][f"asked_after_{shots}"]]


def docstring(name):
    module = importlib.import_module(f"kshot.datasets.catalogue.{name}")
    (entry,) = (each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__)
    return " ".join(inspect.getdoc(entry).split())


def test_every_entry_is_compared():
    assert {path.stem for path in CATALOGUE.glob("[!_]*.py")} == set(FACTS)
    assert set(AS_LM_EVAL) | {"hellaswag", "humaneval"} == set(WITH_TASK)


@pytest.mark.parametrize("name", FACTS)
def test_the_docstring_says_what_differs(name, tmp_path):
    text, facts = docstring(name), FACTS[name]
    if not facts["task"]:
        assert "lm-eval has no task of it" in text
        return
    assert f"lm-eval ({facts['task']})" in text
    ours, theirs = pairs(name, tmp_path), of_lm_eval(name)
    assert ("the same prompt" in text) == ([pair[0] for pair in ours] == [pair[0] for pair in theirs])
    if theirs[0][1] is not None:
        assert ("the same options" in text) == ([pair[1] for pair in ours] == [pair[1] for pair in theirs])
    for metric in facts["metrics"]:
        assert f"``{metric}``" in text, metric


@pytest.mark.parametrize("shots", [0, 1])
@pytest.mark.parametrize("name", AS_LM_EVAL)
def test_settings_give_lm_evals_prompt(name, shots, tmp_path):
    if shots and name in NO_TRAIN_SPLIT:
        pytest.skip("lm-eval shows the evaluated row itself as its example")
    assert pairs(name, tmp_path, shots, **AS_LM_EVAL[name]) == of_lm_eval(name, shots)

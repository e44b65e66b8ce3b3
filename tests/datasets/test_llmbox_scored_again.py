"""Runs of LLMBox's files scored again, or merged of shards, without the tokenizer that decided something in them."""

from pathlib import Path

import pytest

import kshot
from kshot.runs.spec_file import read_spec
from tests.datasets.llmbox_tree import GENERATION, Tree, changed

MODEL = '''
"""A model whose tokens are letters."""
from kshot.core.protocols import Abilities
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored


class Letters:
    name = fingerprint = "letters"
    answers = (Generate, Loglik)
    notes = ()
    abilities = Abilities(count_tokens=len)

    def serve(self, queue):
        for request in queue:
            if isinstance(request, Generate):
                yield request, Generated("redder")
            else:
                yield request, Scored(tuple(Likelihood(-1.0, 1) for _ in request.continuations))

    def close(self):
        pass
'''
CUT_BY_TOKENS = changed(
    GENERATION,
    ("import Em", "import WordAccuracy"),
    ("[Em()]", "[WordAccuracy()]"),
    ('[[instance["target"]]', '[instance["target"]'),
)
OWN_EXAMPLES = changed(
    GENERATION,
    (
        "    def format_instance",
        """\
    def construct_examples(self, instance=None):
        lines = [row["q"] + " né" for row in self.example_data] + [instance["q"] + " né"]
        return " ".join(line for line in lines if len(self.tokenizer_encode(line)) <= 5)

    def format_instance""",
    ),
)
PAGES = """
    from ..metric import PPL
    from .dataset import Dataset

    class Words(Dataset):
        evaluation_type = "perplexity"
        evaluation_set = "test"
        metrics = [PPL()]

        def load_raw_dataset(self, *place):
            super().load_raw_dataset(*place)
            words, pages = [row["q"] + " né " for row in self.evaluation_data], []
            while words:
                text, _, count = self.truncate_by_word(words, 12, "right")
                pages.append({"text": text})
                words = words[count:]
            self.evaluation_data = pages

        def format_instance(self, instance):
            return {"options": [instance["text"]]}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a file by the model, into a folder."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    tree = Tree(tmp_path)

    def evaluate(text, out, **options):
        given = {"dataset_path": str(tree.rows), "num_shots": 1, "report": False} | options
        return kshot.evaluate("model.py:Letters", f"{tree.add(text)}:Words", out=out, **given)

    return evaluate


def figures(result):
    return [(row["metric"], row["value"], row["n"]) for row in result.results]


@pytest.mark.parametrize("text", [CUT_BY_TOKENS, OWN_EXAMPLES, PAGES], ids=["metric", "examples", "pages"])
def test_a_run_is_scored_again_without_its_tokenizer(run, text):
    first = figures(run(text, "run"))
    samples, facts = Path("run/samples.jsonl").read_bytes(), read_spec("run")["tasks"]
    assert facts["letters"]["mine"]["token_lengths"]
    again = kshot.score("run")
    assert figures(again) == first
    assert not any("in place of tokens" in note for note in again.notes)
    assert Path("run/samples.jsonl").read_bytes() == samples
    assert read_spec("run")["tasks"] == facts


@pytest.mark.parametrize("text", [CUT_BY_TOKENS, OWN_EXAMPLES, PAGES], ids=["metric", "examples", "pages"])
def test_shards_that_counted_tokens_are_merged(run, text):
    whole = run(text, "run")
    for number in (1, 2):
        run(text, f"part{number}", shard=f"{number}/2")
    merged = kshot.merge(["part1", "part2"], "merged")
    assert figures(merged) == figures(whole)
    assert Path("merged/samples.jsonl").read_bytes() == Path("run/samples.jsonl").read_bytes()
    assert read_spec("merged")["tasks"] == read_spec("run")["tasks"]

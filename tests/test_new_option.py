"""A new option is two places: where it is declared and where it is used. It works everywhere, or is said not to."""

import json

import pytest

from tests.changed_copy import changed_copy, run_copy
from tests.commands import CAPITALS

NEW = {
    'core/settings.py:     stop: tuple[str, ...] | None = _option(None, "end the reply before this text (repeatable)", repeat=True)':
    '    repetition_penalty: float | None = _option(None, "above 1, a reply repeats less", kind=float, above=0)',
    'core/settings.py:             "top_k": self.top_k,':
    '            "repetition_penalty": self.repetition_penalty,',
}  # fmt: skip
MODEL = """
from kshot import Generate, Generated
class Noting:
    name = fingerprint = "noting"
    answers = (Generate,)
    def serve(self, queue):
        for request in queue:
            print(request.repetition_penalty, file=open("asked", "a"))
            yield request, Generated("2")
"""
CONFIG = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
mine_datasets = [dict(
    abbr="mine",
    reader_cfg=dict(input_columns=["q"], output_column="a"),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template="{q}"),
        retriever=dict(type=ZeroRetriever),
        inferencer=dict(type=GenInferencer),
    ),
    eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
)]
"""
TASK_FILE = """
task: mine
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    return changed_copy(tmp_path_factory.mktemp("changed"), NEW)


@pytest.fixture
def here(tmp_path):
    for name, text in {"capitals.py": CAPITALS, "mine.py": CONFIG, "mine.yaml": TASK_FILE, "noting.py": MODEL}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "1+1=", "a": "2"}) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        (("-d", "capitals.py:Cities"), True),
        (("-d", "rows.jsonl", "--question", "q", "--target", "a"), True),
        (("mine.py", "--data", "mine=rows.jsonl"), True),
        (("-d", "lmeval:mine.yaml"), True),
        (("-d", "handbook", "--method", "rag"), True),
        (("-d", "capitals.py:Cities,repetition_penalty=1.5"), True),
        (("-d", "handbook", "-m", "fts5"), False),
        (("-d", "lookup:UR", "--samples", "2"), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_is_declared_and_used(changed, here, command, reads):
    asked = here / "asked"
    model = () if "-m" in command else ("-m", "noting.py:Noting")
    given = () if "penalty" in command[1] else ("--repetition-penalty", "1.5")
    done = run_copy(changed, "run", *model, *command, *given, "--limit", "1", "--out", "run", cwd=here)
    assert done.returncode == 0, done.stderr
    assert ("--repetition-penalty has no effect on" in done.stderr) != reads
    if model:
        assert set(asked.read_text().split()) == {"1.5" if reads else "None"}


def test_it_is_in_help_and_python(changed, here):
    assert "--repetition-penalty X" in run_copy(changed, "run", "--help", cwd=here).stdout
    (here / "script.py").write_text(
        "import kshot\nkshot.evaluate('noting.py:Noting', 'capitals.py:Cities', repetition_penalty=1.2, limit=1)\n"
    )
    done = run_copy(changed, cwd=here, program=("script.py",))
    assert done.returncode == 0, done.stderr
    assert (here / "asked").read_text().split()[0] == "1.2"

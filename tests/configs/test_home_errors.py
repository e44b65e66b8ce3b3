"""What errors of a home's code say: which config, which entry, what to do."""

import re
import sys
from pathlib import Path

import pytest

from kshot.cli.main import main
from tests.configs.homes import CONFIG, write_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement of homes is Linux's")


FAILING = """
    from opencompass.openicl.icl_evaluator import BaseEvaluator

    class RefusesEvaluator(BaseEvaluator):
        def score(self, predictions, references):
            raise ValueError("not these")

    class LateEvaluator(BaseEvaluator):
        def score(self, predictions, references):
            if len(predictions) > 3:
                raise ValueError("too late")
            return {"accuracy": 1.0}

    class StepsEvaluator(BaseEvaluator):
        def score(self, predictions, references, steps):
            return {"accuracy": 1.0}

    class WishesEvaluator(BaseEvaluator):
        def score(self, predictions, wishes, references, hopes):
            return {"accuracy": 1.0}

    class RefusesDataset:
        @staticmethod
        def load(path):
            raise ValueError("no rows")

    def broken_judge_postprocess(output, output_path):
        raise ValueError("no judge")
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RefusesEvaluator", r"own.py, own: .*opencompass/datasets/own.py:\d+: ValueError: not these"),
        ("LateEvaluator", r"own.py, own: .*opencompass/datasets/own.py:\d+: ValueError: too late"),
        (
            "StepsEvaluator",
            r"own.py, own: StepsEvaluator of OpenCompass wants 'steps', which kshot does not have. Evaluators of agent c",
        ),
        (
            "WishesEvaluator",
            r"own.py, own: WishesEvaluator of OpenCompass wants 'wishes' and 'hopes', which kshot does not",
        ),
        ("NobodysEvaluator", r"own.py, own: .*NobodysEvaluator"),
    ],
)
def test_an_error_of_an_evaluator_names_the_config_and_the_entry(tmp_path, monkeypatch, capsys, name, said):
    monkeypatch.chdir(tmp_path)
    write_home(tmp_path / "clone", {"datasets/own.py": FAILING})
    Path("own.py").write_text(CONFIG.replace("OwnEvaluator", name))
    Path("rows.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n' * 4)
    Path("model.py").write_text("def answer(prompt):\n    return '0'\n")
    assert main(["run", "own.py", "-m", "model.py:answer", "--home", "clone", "--out", "run"]) == 2
    assert re.search(said, capsys.readouterr().err)


JUDGED = """
judged = dict(
    type="opencompass.evaluator.GenericLLMEvaluator",
    prompt_template=dict(type="PromptTemplate", template="{prediction} A or B?"),
    dict_postprocessor=dict(type="opencompass.datasets.own.broken_judge_postprocess"),
)
own_datasets[0]["eval_cfg"] = dict(evaluator=judged)
"""


def test_an_error_of_a_judges_post_processor_names_them_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_home(tmp_path / "clone", {"datasets/own.py": FAILING})
    Path("own.py").write_text(CONFIG + JUDGED)
    Path("rows.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n' * 4)
    Path("model.py").write_text("def answer(prompt):\n    return '0'\n")
    command = [
        "run",
        "own.py",
        "-m",
        "model.py:answer",
        "--judge",
        "model.py:answer",
        "--home",
        "clone",
        "--out",
        "run",
    ]
    assert main(command) == 2
    assert re.search(r"own.py, own: .*own.py:\d+: ValueError: no judge", capsys.readouterr().err)


def test_an_error_of_a_loader_names_them_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_home(tmp_path / "clone", {"datasets/own.py": FAILING})
    loader = 'own_datasets[0]["type"] = "opencompass.datasets.own.RefusesDataset"\n'
    Path("own.py").write_text(CONFIG.replace("OwnEvaluator", "LateEvaluator") + loader)
    assert main(["preview", "own.py", "--home", "clone"]) == 2
    said = r"own.py, own: .*own.py:\d+: RefusesDataset of OpenCompass gives no rows: ValueError: no rows"
    assert re.search(said, capsys.readouterr().err)

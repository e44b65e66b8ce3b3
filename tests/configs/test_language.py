"""The language of config files, run in this process on files of ours, without confinement."""

import json
import sys

import pytest

from kshot.configs._language import Interpreter
from kshot.configs.project import Project
from tests.configs import written

WHOLE = """
from mmengine.config import read_base, ConfigDict
from functools import partial
from opencompass.registry import TEXT_POSTPROCESSORS
from opencompass.openicl.icl_evaluator import BaseEvaluator
from opencompass.utils.text_postprocessors import first_option_postprocess
import os.path as osp

with read_base():
    from .parts.base import shared_datasets, common
    from opencompass.configs.more import far_datasets

@TEXT_POSTPROCESSORS.register_module('shout')
def shout(text, mark='!'):
    return text.upper() + mark

class Longest(BaseEvaluator):
    def __init__(self, unit='char'):
        self.unit = unit
    def score(self, predictions, references):
        return {'longest': max(len(p) for p in predictions), 'unit': self.unit}

settings = ConfigDict(a=dict(b=1))
settings.a.b += common['step']
shared_datasets[0]['abbr'] = 'mine'
names = [d['abbr'] for d in shared_datasets + far_datasets if d]
base = osp.basename('a/b.txt')
cut = partial(first_option_postprocess, options='AB')
x_datasets = sum([v for k, v in locals().items() if k.endswith('_datasets')], [])
del base
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "opencompass" / "configs" / "parts").mkdir(parents=True)
    root = tmp_path / "opencompass" / "configs"
    (root / "parts" / "base.py").write_text("shared_datasets = [dict(abbr='base')]\ncommon = dict(step=4)\n")
    (root / "more.py").write_text("far_datasets = [dict(abbr='far')]\n")
    (root / "main.py").write_text(WHOLE)
    return tmp_path


def interpreter(tree, name="opencompass/configs/main.py"):
    return Interpreter(str(tree / name), Project(tree / name, tree), [str(tree)])


def asked(language, action="load", **request):
    return json.loads(language.answer({"id": 1, "action": action, **request}))


def test_a_file_with_everything(tree):
    answer = asked(interpreter(tree))
    assert "fault" not in answer, answer
    text = json.dumps(answer["result"])
    for expected in ("mine", "far", "opencompass", "shout"):
        assert expected in text
    assert "b.txt" not in text  # deleted by the file itself


def test_what_a_file_imports_is_a_copy(tree):
    language = interpreter(tree)
    space = language.run(str(tree / "opencompass/configs/main.py"))
    base = language.run(str(tree / "opencompass/configs/parts/base.py"))
    assert base["shared_datasets"] == [{"abbr": "base"}]
    assert space["names"] == ["mine", "far"]
    assert space["settings"].a.b == 5
    assert [d["abbr"] for d in space["x_datasets"]] == ["mine", "far"]
    assert language.frameworks >= {"opencompass"}


def test_functions_and_classes_are_called_later(tree):
    language = interpreter(tree)
    space = language.run(str(tree / "opencompass/configs/main.py"))
    codec = language._codec
    shout, longest = (codec.encode(space[name])["$own"][0] for name in ("shout", "Longest"))
    answer = asked(language, "call", number=shout, args=codec.encode(["hi"]), kwargs=codec.encode({"mark": "?"}))
    assert answer["result"] == "HI?"
    given = {"predictions": ["a", "abc"], "references": [], "extra": 1}  # what it has no parameter for is left out
    rated = asked(language, "method", number=longest, method="score", options={"unit": "u"}, kwargs=codec.encode(given))
    assert rated["result"] == {"longest": 3, "unit": "u"}


@pytest.mark.parametrize("name", [n for n in vars(written) if n.isupper() and isinstance(getattr(written, n), str)])
def test_the_written_configs_load_here_too(tmp_path, name):
    (tmp_path / "c.py").write_text(getattr(written, name))
    answer = asked(interpreter(tmp_path, "c.py"))
    # some of them import neighbours that are not here: the fault says where
    assert "result" in answer or answer["fault"]["message"]


FAULTS = {
    "x = (\n": ("SyntaxError", 1),
    "x = 1\ny = x / 0\n": ("ZeroDivisionError", 2),
    "import nothing_like_this\n": ("ModuleNotFoundError", 1),
    "from .nowhere import x\n": ("ConfigFault", 1),
    "from mmengine.config import read_base\nwith read_base():\n    from opencompass.configs.nowhere import x\n": (
        "NoConfig",
        3,
    ),
    "from opencompass.datasets import Nothing\nNothing.load('x') + 1\n": (None, 2),
    "import sys\nsys.exit(3)\n": ("SystemExit", 2),
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_name_their_place(tmp_path, text):
    (tmp_path / "c.py").write_text(text)
    answer = asked(interpreter(tmp_path, "c.py"))
    kind, line = FAULTS[text]
    assert answer["fault"]["line"] == line
    assert kind is None or answer["fault"]["kind"] == kind
    assert answer["fault"]["file"] == str(tmp_path / "c.py")


def test_a_circle_of_files_is_an_error(tmp_path):
    (tmp_path / "a.py").write_text("from .b import x\n")
    (tmp_path / "b.py").write_text("from .a import x\n")
    answer = asked(interpreter(tmp_path, "a.py"))
    assert "circle" in answer["fault"]["message"]


REGISTERS = """
from opencompass.registry import TEXT_POSTPROCESSORS, ICL_EVALUATORS
@TEXT_POSTPROCESSORS.register_module('mine')
def one(text):
    return text
@ICL_EVALUATORS.register_module('mine')
def other(text):
    return text
{more}
def two(text):
    return text
"""


def test_a_name_is_registered_once_in_each_registry(tmp_path):
    path = tmp_path / "c.py"
    path.write_text(REGISTERS.format(more="@TEXT_POSTPROCESSORS.register_module('mine')"))
    fault = asked(interpreter(tmp_path, path.name))["fault"]
    assert "'mine' is registered twice in opencompass.registry.TEXT_POSTPROCESSORS" in fault["message"]
    assert fault["line"] == (9 if sys.version_info >= (3, 11) else 10)  # older Pythons name the line below a decorator
    for more in ("@TEXT_POSTPROCESSORS.register_module('mine', force=True)", "@TEXT_POSTPROCESSORS.register_module()"):
        path.write_text(REGISTERS.format(more=more))
        assert "fault" not in asked(interpreter(tmp_path, path.name))

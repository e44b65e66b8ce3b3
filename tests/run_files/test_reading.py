"""Run files: what they say by the names of the command line, and errors that name the line."""

import pytest

from kshot.core.errors import KshotError
from kshot.run_files.reading import read_run_file

SUITE = """\
out = "runs/nightly"
reuse = "runs/before"
log = [{ name = "wandb", mode = "offline" }]
configs = ["opencompass.py"]
json = true

[[models]]
name = "hf:model"
dtype = "float16"
deterministic = true

[[models]]
name = "openai:m@http://localhost:8000/v1"
header = ["A=env:X", "B=env:Y"]

[[datasets]]
name = "quiz.py:Quiz"
dataset_path = "data, old/quiz"
num_shots = [0, 1, 5]
instruction = "{{a + b}}"
stop = ["1+1", "\\n"]

[[datasets]]
name = "lookup:UR,UL"

[settings]
limit = 100
temperature = [0, 0.7]
stop = "\\n\\n"
length = [10, 20]
max_cost = 5
report = false

[gates]
fail_under = { Accuracy = 40, "quiz:EM" = 12.5 }
fail_if_worse = ["runs/last"]
fail_on_failed = true
junit = "gates.xml"
step_summary = true
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "suite.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_whole_suite(written):
    path = written(SUITE)
    found = read_run_file(path)
    assert found.values == {
        "out": "runs/nightly",
        "reuse": ["runs/before"],
        "log": ["wandb,mode=offline"],
        "config": ["opencompass.py"],
        "json": True,
        "model": [
            "hf:model,dtype=float16,deterministic=yes",
            "openai:m@http://localhost:8000/v1,header=A=env:X+B=env:Y",
        ],
        "dataset": [
            "quiz.py:Quiz,dataset_path=data\\, old/quiz,num_shots=0+1+5,instruction={{a + b}},stop=1\\+1+\n",
            "lookup:UR,UL",
        ],
        "limit": 100,
        "temperature": (0, 0.7),
        "stop": ("\n\n",),
        "length": (10, 20),
        "max_cost": 5,
        "report": False,
        "fail_under": ["Accuracy=40", "quiz:EM=12.5"],
        "fail_if_worse": ["runs/last"],
        "fail_on_failed": True,
        "junit": "gates.xml",
        "step_summary": "",
    }
    assert found.folder == path.parent
    assert found.origins["model", found.values["model"][1]] == f"{path}:12"
    assert found.origins["setting", "stop"] == f"{path}:29"


def test_names_may_stand_alone(written):
    found = read_run_file(written('models = "embedded"\ndatasets = ["lookup", { name = "quiz", limit = 3 }]'))
    assert found.values == {"model": ["embedded"], "dataset": ["lookup", "quiz,limit=3"]}


WRONG = [
    ("[gates]\nfail_under = 3\n", 2, "fail_under is 3, which names no figure. Write fail_under = { Accuracy = 40 }"),
    ('models = ["a"\n\nx = 1', 3, "this is not TOML"),
    ("[settings]\nlimit = 1\nlimit = 2\n", 3, "this is not TOML"),
    (b"\n\xff\xfe = 1", 2, "this is not UTF-8"),
    ("model = 1", 1, "a run file has no key 'model'. Do you mean models?"),
    ("\nlimit = 1", 2, "It belongs below a line [settings]"),
    ("\nfail-under = 1", 2, "It belongs below a line [gates]"),
    ("[settings]\nseed = 1\nnum_shot = 1", 3, "no key 'num_shot'. Do you mean num_shots?"),
    ("[settings]\nnum-shots = 1", 2, "Do you mean num_shots?"),
    ("[settings]\nk = 1", 2, "Do you mean num_shots?"),
    ("[settings]\nxyzzy = 1", 2, "kshot run --help"),
    ("[settings]\n\nnum_shots = -1", 3, "--num-shots is -1; it must be 0 or more"),
    ('[settings]\nnum_shots = "two"', 2, "num_shots is 'two'; it must be int"),
    ("[settings]\nnum_shots = [0, -2]", 2, "--num-shots is -2"),
    ('[settings]\nranking_type = "best"', 2, "it must be one of"),
    ("settings = 1", 1, "settings is no table"),
    ("[gates]\nfail_under = ['x']", 2, "x"),
    ("[gates]\nfail_under = [\n  'Accuracy=1',\n  'x'\n]", 4, "x"),
    ("[gates.fail_under]\nAccuracy = 'a lot'", 2, "it must be a number"),
    ("[gates]\nfail_on_failed = 1", 2, "it must be true or false"),
    ("[gates]\njunit = true", 2, "it must be a text"),
    ("[gates]\nfail_if_worse = [\n'a',\n1]", 4, "it must be a text"),
    ("[gates]\nfail_uner = ['x=1']", 2, "Do you mean fail_under?"),
    ("out = 1", 1, "it must be a text"),
    ("folder = 'nowhere'", 1, "there is no folder"),
    ("models = []", 1, "models is empty"),
    ("models = [1]", 1, "1 is no name"),
    ("models = ['a', '']", 1, "a name in models is empty"),
    ("[[models]]\nname = 'a'\n[[models]]\ndtype = 'x'", 3, "an entry of models has no name"),
    ("[[models]]\nname = 7", 2, "it must be a text"),
    ("[[models]]\nname = 'a'\nx = { y = 1 }", 3, "it must be a text, a number"),
    ("[[models]]\nname = 'a'\n\nx = 1979-05-27", 4, "it must be a text, a number"),
    ("[[models]]\nname = 'a'\nx = []", 3, "it must be a text, a number"),
    ("[[models]]\nname = 'a'\n'x y' = 1", 3, "'x y' is no name of an option"),
    ("[[models]]\nname = 'a,x=1'\nx = 2", 3, "the option 'x' is given in the name and here"),
    ("[[models]]\nname = 'a'\nx = 'y\\'\nz = 1", 3, "ends in a backslash"),
    ("[[datasets]]\nname = 'quiz'\nnum_shoots = 2", 3, "Do you mean num_shots?"),
    ("[[datasets]]\nname = 'quiz'\nnum_shots = 'x'", 3, "it must be int"),
    ("[[datasets]]\nname = 'quiz'\nlimit = 0", 3, "--limit is 0"),
    ("[[datasets]]\nname = 'quiz'\ninstruction = ['a', 'b']", 3, "Several are for all: below [settings]"),
    ("[[datasets]]\nname = 'quiz'\nretriever = 'a+b'", 3, "retriever has a plus"),
    ("x = " + "[" * 5000 + "]" * 5000, None, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "line", "what"), WRONG)
def test_errors_name_the_line(text, line, what, written):
    path = written(text)
    with pytest.raises(KshotError) as caught:
        read_run_file(path)
    said = str(caught.value)
    assert said.startswith(f"{path}:{line}: " if line else f"{path}: "), said
    assert what in said
    assert "\n" not in said


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(KshotError, match=r"none\.toml: it cannot be read: No such file"):
        read_run_file(tmp_path / "none.toml")


def test_options_of_lmeval_tasks_are_read_by_their_front_end(written):
    found = read_run_file(written("[[datasets]]\nname = 'lmeval:arc'\nnum_fewshot = 5"))
    assert found.values["dataset"] == ["lmeval:arc,num_fewshot=5"]

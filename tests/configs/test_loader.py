"""Loading config files: what a file defines, and what it may import."""

import pytest

from kshot.configs import ConfigSource, load
from kshot.configs.models import ModelEntry
from kshot.core.errors import DataError, UsageError
from tests.commands import kshot
from tests.configs.written import ALL, ARC, GSM8K, MMLU, OWN, RACE, RAW, SUBJECTS, tree, write


def test_loops_and_imports_of_a_package_that_is_not_installed(tmp_path):
    config = load(write(tmp_path, RACE))
    assert list(config.datasets) == ["race_datasets"]
    middle, high = config.datasets["race_datasets"]
    assert (middle.abbr, high.abbr, high["name"]) == ("race-middle", "race-high", "high")
    kind = middle["type"]
    assert kind == "RaceDataset"
    assert kind.called == "ais_bench.benchmark.datasets.RaceDataset"
    assert kind.at.endswith("config.py:6")
    assert not config.strict


def test_comprehensions_del_and_label_dicts(tmp_path):
    config = load(write(tmp_path, ARC))
    (arc,) = config.datasets["arc_datasets"]
    assert list(arc.infer_cfg["prompt_template"]["template"]) == ["A", "B", "C", "D"]
    assert "labels" not in config.variables


def test_read_base_relative_and_absolute(tmp_path):
    config = load(tree(tmp_path) / "eval_all.py")
    assert set(config.datasets) == {"mmlu_datasets", "gsm8k_datasets", "datasets"}
    assert [each.abbr for each in config.chosen] == ["mmlu_anatomy", "mmlu_virology", "mmlu_world_religions", "gsm8k"]
    lengths = [each.inferencer["max_out_len"] for each in config.datasets["datasets"]]
    assert lengths == [9, 9, 9, 11]  # as attribute and as item, shared by both variables
    assert config.variables["work_dir"] == "outputs/here"
    assert len(config.files) == 4
    hint = config.datasets["mmlu_datasets"][2].infer_cfg["ice_template"]["template"]
    assert hint.startswith("There is a single choice question about world religions.\n{input}")


ABSOLUTE = """from mmengine.config import read_base
with read_base():
    from opencompass.configs.datasets.gsm8k.gsm8k_gen import gsm8k_datasets
"""


def test_a_package_elsewhere_is_found_by_its_home(tmp_path):
    tree(tmp_path / "home")
    (tmp_path / "away").mkdir()
    path = write(tmp_path / "away", ABSOLUTE)
    with pytest.raises(DataError, match=r"config.py:3: there is no config 'opencompass.*its package: --home DIR"):
        load(path)
    (tmp_path / "other" / "ais_bench").mkdir(parents=True)
    with pytest.raises(DataError, match=rf"there is no config 'opencompass.*gsm8k_gen.py. Nor has {tmp_path}/other.$"):
        load(path, home=tmp_path / "other")
    for home in ("home", "home/opencompass", "home/opencompass/configs"):
        assert load(path, home=tmp_path / home).datasets["gsm8k_datasets"][0].abbr == "gsm8k"
    assert load(path, config_root=tmp_path / "home").datasets["gsm8k_datasets"][0].abbr == "gsm8k"


def test_the_package_as_home_opens_no_folder_around_it(tmp_path):
    tree(tmp_path / "home")
    write(tmp_path / "home", "x = 1\n", "beside.py")
    (tmp_path / "away").mkdir()
    path = write(
        tmp_path / "away", "from mmengine.config import read_base\nwith read_base():\n    from beside import x\n"
    )
    with pytest.raises(DataError, match="beside"):
        load(path, home=tmp_path / "home" / "opencompass")


@pytest.mark.parametrize(
    ("home", "said"),
    [
        ("empty", "--home empty: there is neither a folder opencompass nor a folder ais_bench in it"),
        ("nowhere", "--home nowhere: there is no such folder"),
        ("away/config.py", "--home away/config.py: it is a file, not a folder"),
        ("~nobody-at-all", "--home ~nobody-at-all: there is no such user"),
        ("x" * 300, "--home x+: there is no such folder"),
        ("", "--home is empty"),
        ("a\0b", "--home .*: there is no such folder"),
    ],
)
def test_a_home_that_is_none(tmp_path, monkeypatch, home, said):
    monkeypatch.chdir(tmp_path)
    for name in ("away", "empty"):
        (tmp_path / name).mkdir()
    path = write(tmp_path / "away", ABSOLUTE)
    with pytest.raises(UsageError, match=said):
        load(path, home=home)


def test_a_home_around_the_config_may_be_any_folder(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, "x = 3\n", "base.py")
    path = write(tmp_path / "sub", "from ..base import x\n")
    assert load(path, home=tmp_path).variables["x"] == 3


@pytest.mark.parametrize("path", ["~nobody-at-all/c.py", "x" * 300 + ".py", "x" * 300 + "/c.py", "a\0b.py"])
def test_a_path_that_cannot_be(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="there is no such file"):
        load(path)


@pytest.mark.parametrize("command", ["run", "check", "preview"])
def test_the_command_line_says_what_is_wrong_with_a_path_in_one_message(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "away").mkdir()
    config = str(write(tmp_path / "away", ABSOLUTE))
    for home in ("empty", "~nobody-at-all", "x" * 300, "away/config.py"):
        done = kshot(capsys, command, config, "--home", home)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert f"--home {home}: " in done.err
    done = kshot(capsys, command, "x" * 300 + ".py")
    assert done.code == (1 if command == "check" else 2)
    assert "there is no such file" in done.err
    assert "fault in kshot" not in done.err


WHOLE = """
datasets = [
    dict(
        abbr="sums",
        path="rows.jsonl",
        reader_cfg=dict(input_columns=["q"], output_column="a"),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{q}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="GenInferencer", max_out_len=4),
        ),
        eval_cfg=dict(evaluator=dict(type="AccEvaluator")),
    )
]
"""
RUNNERS = """
runner = dict(type="LocalRunner", max_num_workers=16)
infer = dict(partitioner=dict(type="NaivePartitioner"), runner=runner)
eval = dict(runner=runner)
model_dataset_combinations = [dict(models=[], datasets=[])]
"""


def test_sections_for_the_frameworks_runners_are_named(tmp_path, monkeypatch, capsys):
    """By check, by preview and by a run; a dataset, or nothing, of such a name is no section."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"q": "1+1", "a": "2"}\n')
    write(tmp_path, WHOLE + RUNNERS)
    said = (
        "infer (partitioner, runner) and eval (runner) of config.py have no effect: kshot divides, runs and scores",
        "model_dataset_combinations of config.py has no effect: every model answers every dataset",
    )
    for command in ("check", "preview", "run -m embedded --limit 1 --no-report"):
        name, *options = command.split()
        shown = kshot(capsys, name, "config.py", *options)
        assert shown.code == 0, shown.err
        assert all(shown.err.count(each) == 1 for each in said), shown.err
    write(tmp_path, WHOLE + "infer = {}\neval = []\njudge_infer = None\n")
    assert "no effect" not in kshot(capsys, "check", "config.py").err


def test_what_two_files_read_is_not_shared(tmp_path):
    write(tmp_path, "a_datasets = [dict(abbr='x', deep=dict(n=1))]\n", "base.py")
    one = "from mmengine.config import read_base\nwith read_base():\n    from .base import a_datasets\na_datasets[0]['deep']['n'] = 2\nb_datasets = a_datasets\n"
    write(tmp_path, one, "one.py")
    both = "from mmengine.config import read_base\nwith read_base():\n    from .one import b_datasets\n    from .base import *\n"
    config = load(write(tmp_path, both))
    assert config.datasets["b_datasets"][0]["deep"] == {"n": 2}
    assert config.datasets["a_datasets"][0]["deep"] == {"n": 1}


CHANGES = """
from mmengine.config import read_base
with read_base():
    from .base import a_datasets, asks
copies = []
for each in a_datasets:
    each['asks']['prompt'] += '!'
    copy = each.deepcopy()
    copy['asks']['stop'].append('x')
    copy.asks.update(dict(options=dict(seed=1)), prompt='new')
    copy['more'] = dict(deep=[dict(n=1)])
    copy['more'].deep[0].n += 1
    copy.setdefault('last', {})['n'] = 3
    copies.append(copy)
copy_datasets = copies
"""


def test_what_is_read_changes_as_in_the_frameworks(tmp_path):
    base = (
        "asks = dict(prompt='q', stop=[], options=dict(top=5))\na_datasets = [dict(abbr=n, asks=asks) for n in 'ab']\n"
    )
    write(tmp_path, base, "base.py")
    config = load(write(tmp_path, CHANGES))
    asks = {"prompt": "q", "stop": [], "options": {"top": 5}}
    assert config.variables["asks"] == asks
    # two entries that were written with one dict have one each
    assert [each["asks"] for each in config.datasets["a_datasets"]] == [{**asks, "prompt": "q!"}] * 2
    for copy in config.datasets["copy_datasets"]:
        assert copy["asks"] == {"prompt": "new", "stop": ["x"], "options": {"top": 5, "seed": 1}}
        assert (copy["more"], copy["last"]) == ({"deep": [{"n": 2}]}, {"n": 3})


def test_strict_unless_a_framework_is_imported(tmp_path):
    text = "from kshot.retrievers import RandomRetriever\nx_datasets = [dict(abbr='x', r=dict(type=RandomRetriever, ice_num=3))]\n"
    config = load(write(tmp_path, text))
    assert config.strict
    assert config.datasets["x_datasets"][0].strict
    assert config.datasets["x_datasets"][0]["r"] == {"type": "RandomRetriever", "ice_num": 3}


def test_values_keep_their_kind(tmp_path):
    text = "x_datasets = [dict(t=(1, (2,)), i={0: 'a', 1: 'b'}, s={3}, r=range(3), n=None, f=float('inf'), u='\\ud800', d={'$own': [0, 'x', 'y']})]\n"
    (entry,) = load(write(tmp_path, text)).datasets["x_datasets"]
    assert entry.body == {
        "t": (1, (2,)), "i": {0: "a", 1: "b"}, "s": {3}, "r": [0, 1, 2], "n": None, "f": float("inf"), "u": "\ud800",
        "d": {"$own": [0, "x", "y"]},
    }  # fmt: skip


def test_a_prompt_beside_the_file_can_be_read(tmp_path):
    write(tmp_path, "think first", "hint.txt")
    text = "import os\nhint = open(os.path.join(os.path.dirname(__file__), 'hint.txt')).read()\n"
    assert load(write(tmp_path, text)).variables["hint"] == "think first"


def test_a_name_without_equivalent_fails_only_when_used(tmp_path):
    text = "from opencompass.utils import dreamt\nfrom lagent import ReAct\nimport torch\nx = dict(a=dreamt, b=ReAct.deep, c=torch.float16)\n"
    held = load(write(tmp_path, text)).variables["x"]
    assert [each.called for each in held.values()] == ["opencompass.utils.dreamt", "lagent.ReAct.deep", "torch.float16"]
    with pytest.raises(
        DataError, match=r"config.py:5: opencompass.utils.dreamt \(imported at .*config.py:1\) is called"
    ):
        load(write(tmp_path, text + "y = dreamt(3)\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", r"config.py:1: this is not Python"),
        ("x = 1\ny = x / 0", r"config.py:2: the config fails: ZeroDivisionError"),
        ("import no_such_package", r"config.py:1: .*there is no package 'no_such_package'"),
        ("from .nothing import x", r"config.py:1: there is no config file .*nothing.py"),
        ("from .config import x", r"import each other in a circle"),
        ("a_datasets = [{}]\na_datasets[0]['a'] = a_datasets", r"RecursionError"),
    ],
)
def test_broken_files(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path, text))


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.py")


def test_files_of_every_style_load(tmp_path):
    write(tmp_path, SUBJECTS, "mmlu_all_sets.py")
    for text in (RACE, ARC, GSM8K, MMLU, RAW, OWN):
        assert load(write(tmp_path, text)).datasets


def test_models(tmp_path):
    source = ConfigSource(tree(tmp_path) / "eval_all.py")
    tiny, far = source.model_entries
    assert (tiny.spec, tiny.model_type) == ("hf:some/model", "base")
    assert (far.spec, far.model_type) == ("openai:gpt", "chat")
    config = ALL.replace("HuggingFaceCausalLM, OpenAI", "HuggingFaceCausalLM, Nobodys").replace("=OpenAI", "=Nobodys")
    (tmp_path / "opencompass" / "configs" / "eval_all.py").write_text(config)
    *_, far = ConfigSource(tmp_path / "opencompass" / "configs" / "eval_all.py").model_entries
    with pytest.raises(DataError, match=r"'far' of the kind Nobodys \(imported at .*eval_all.py:5\).*-m MODEL"):
        far.spec  # noqa: B018


@pytest.mark.parametrize(
    "path", ["m,trust_remote_code=yes", "m, trust_remote_code = true", "m,dtype=float16,revision=x"]
)
def test_a_config_says_nothing_of_how_a_model_is_opened(path):
    with pytest.raises(DataError, match="holds options of kshot"):
        ModelEntry({"type": "HuggingFaceCausalLM", "path": path}).spec  # noqa: B018


@pytest.mark.parametrize("path", ["evil.py:Evil", "/evil.py:Evil", "evil.py", "a/b.py:C:d"])
def test_the_path_of_a_model_is_no_plug_in(path):
    """A file may be called ``hf:evil.py``, and ``-m hf:evil.py:Evil`` would import it."""
    with pytest.raises(DataError, match="is a Python file"):
        ModelEntry({"type": "HuggingFaceCausalLM", "path": path}).spec  # noqa: B018


def test_a_file_with_one_reader_and_no_list(tmp_path):
    text = "reader_cfg = dict(input_columns=['q'], output_column='a')\ninfer_cfg = dict(prompt_template=dict(type='PromptTemplate', template='{q}?'), retriever=dict(type='ZeroRetriever'), inferencer=dict(type='GenInferencer'))\n"
    (one,) = load(write(tmp_path, text)).chosen
    assert one.abbr == "config"
    assert one.prompts(rows={"test": [{"q": "x", "a": "y"}]}) == ["x?"]


IDIOMS = """
from __future__ import annotations
import os, re, json, math, random, itertools, functools, string, sys, datetime, collections, typing, pathlib
from functools import partial
from typing import List, Optional
from mmengine.config import read_base
import opencompass.datasets as ocd
from opencompass.partitioners import NumWorkerPartitioner
from opencompass.runners import LocalRunner
from opencompass.tasks import OpenICLInferTask
from opencompass.utils.text_postprocessors import first_option_postprocess
try:
    from opencompass.nothing.at.all import Gone
except ImportError:
    Gone = None
with read_base():
    from .base import *
    from .pack import packed_datasets
    from .groups.one import one_summary_groups, shared as renamed

infer = dict(partitioner=dict(type=NumWorkerPartitioner, num_worker=8), runner=dict(type=LocalRunner, task=dict(type=OpenICLInferTask)))
summarizer = dict(summary_groups=sum([v for k, v in locals().items() if k.endswith('_summary_groups')], []))
_table = {k: v for k, v in zip('ab', itertools.count())}
by_datasets = [dict(abbr='-'.join([d['abbr'], str(i)]), **{k: v for k, v in d.items() if k != 'abbr'}) for i, d in enumerate(base_datasets)]
def prompt_of(name: str, *more: Optional[str]) -> str:
    return f'{name!r:>10}' + ''.join(more)
class Holder:
    level = 3
    names: List[str] = [f'n{i}' for i in range(level)]
extra_datasets = [dict(abbr=name, prompt=prompt_of(name), type=ocd.X.Y, clean=partial(first_option_postprocess, options='AB')) for name in Holder.names]
extra_datasets += [dict(abbr=x) for x in renamed if (y := x)]
for d in extra_datasets:
    d.setdefault('path', './data/x')
    d.update(n=1)
needle_datasets = ['only', 'names']
lengths = sorted({len(d['abbr']) for d in extra_datasets}, key=lambda n: -n)
if not os.environ.get('NOTHING'):
    work_dir = os.path.join(os.getcwd(), 'out', datetime.datetime(2024, 1, 1).strftime('%Y'))
del d
"""


def test_the_idioms_of_real_files(tmp_path):
    for name in ("groups", "pack"):
        (tmp_path / name).mkdir()
    write(tmp_path, "_private = 1\nbase_datasets = [dict(abbr='b', n=2)]\n", "base.py")
    write(tmp_path, "packed_datasets = [dict(abbr='p')]\n", "pack/__init__.py")
    write(tmp_path, "one_summary_groups = [dict(name='g')]\nshared = ['s']\n", "groups/one.py")
    config = load(write(tmp_path, IDIOMS + "x = _private\n"))
    assert set(config.datasets) == {"base_datasets", "packed_datasets", "by_datasets", "extra_datasets"}
    assert config.variables["summarizer"] == {"summary_groups": [{"name": "g"}]}
    assert config.datasets["by_datasets"][0].body == {"abbr": "b-0", "n": 2}
    extra = config.datasets["extra_datasets"]
    assert [each.abbr for each in extra] == ["n0", "n1", "n2", "s"]
    assert extra[0]["prompt"] == "      'n0'"
    assert extra[0]["clean"]("The answer is B") == "B"
    assert config.variables["infer"]["runner"]["task"]["type"].called == "opencompass.tasks.OpenICLInferTask"
    config.close()

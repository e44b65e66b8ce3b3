"""The restricted reader: where the kernel layers are missing, a config is read without running it."""

import json
from pathlib import Path

import pytest

from kshot.configs import load
from kshot.core.errors import DataError
from tests.configs import written
from tests.configs.written import tree, write

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "golden" / "real_configs.json"
RESTRICTED = ("guard",)


def bodies(config):
    return {name: [each.body for each in entries] for name, entries in config.datasets.items()}


def both(path):
    """Return what the reader finds, after it was compared with what running the file gives."""
    read, run = load(path, layers=RESTRICTED), load(path)
    assert bodies(read) == bodies(run)
    assert (read.models, read.strict, read.frameworks) == (run.models, run.strict, run.frameworks)
    run.close()
    return read


@pytest.mark.parametrize("name", ["RACE", "ARC", "GSM8K", "MMLU", "RAW"])
def test_files_of_every_style(tmp_path, name):
    write(tmp_path, written.SUBJECTS, "mmlu_all_sets.py")
    assert both(write(tmp_path, getattr(written, name))).datasets


def test_read_base_relative_and_absolute(tmp_path):
    assert len(both(tree(tmp_path) / "eval_all.py").chosen) == 4


def test_it_is_said(tmp_path):
    assert "was read without running it" in load(write(tmp_path, "x = 1"), layers=RESTRICTED).notes[1]
    (root,) = load(write(tmp_path, "x = 1")).notes
    assert str(tmp_path) in root


def test_functions_are_names_that_cannot_be_used(tmp_path):
    config = load(write(tmp_path, written.OWN), layers=RESTRICTED)
    (entry,) = config.datasets["own_datasets"]
    assert "function shout" in repr(config.registered["shout"])
    assert "class LengthEvaluator" in repr(entry.eval_cfg["evaluator"]["type"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 'x' * 3 + '%s-%d' % ('y', 2) + '{}/{n}'.format(1, n=2)", "xxxy-21/2"),
        ("n = 3\nx = f'{n:>3}{[n]!r}'", "  3[3]"),
        ("x = {k: i for i, k in enumerate('ab') if k != 'c'}", {"a": 0, "b": 1}),
        ("x = [(a, b) for a in 'ab' for b in range(2)]", [("a", 0), ("a", 1), ("b", 0), ("b", 1)]),
        ("x = []\nfor a in range(9):\n    if a == 2: continue\n    if a > 3: break\n    x.append(a)", [0, 1, 3]),
        ("a = dict(b=[1])\nx = {**a, 'c': not a, 'd': a['b'][-1], 'e': 1 < 2 <= 2}", {"b": [1], "c": False, "d": 1, "e": True}),
        ("try:\n    x = nothing\nexcept NameError:\n    x = 1", 1),
        ("a, (b, c) = 1, (2, 3)\nx = [a, *[b, c]]\nx += [4]\ndel a", [1, 2, 3, 4]),
        ("import os\nx = open(os.path.join(os.path.dirname(__file__), 'hint.txt')).read()", "think"),
        ("with open('hint.txt') as f:\n    x = f.read().upper()", "THINK"),
        ("from copy import deepcopy\na = [1]\nx = deepcopy(a)\nx.append(sum([1, 2]))", [1, 3]),
    ],
)  # fmt: skip
def test_expressions_and_statements(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "think", "hint.txt")
    assert load(write(tmp_path, text), layers=RESTRICTED).variables["x"] == expected
    assert load(write(tmp_path, text)).variables["x"] == expected


def test_an_error_names_its_place(tmp_path):
    write(tmp_path, "a = 1\nb = a / 0\n", "base.py")
    with pytest.raises(DataError, match=r"base.py:2: .*ZeroDivisionError"):
        load(write(tmp_path, "from .base import a\n"), layers=RESTRICTED)
    with pytest.raises(DataError, match=r"config.py:2: not allowed .*without running it: a call of os.system"):
        load(write(tmp_path, "import os\nos.system('true')\n"), layers=RESTRICTED)


def as_python(value, types):
    """Write a value of the golden file as a config does."""
    if isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str) and kind.isidentifier():
            types.add(kind)
        written_out = [
            f"{k!r}: {kind if k == 'type' and kind in types else as_python(v, types)}" for k, v in value.items()
        ]
        return "{" + ", ".join(written_out) + "}"
    return f"[{', '.join(as_python(v, types) for v in value)}]" if isinstance(value, list) else repr(value)


@pytest.mark.skipif(
    not GOLDEN.exists(), reason="real_configs.json holds other people's text and is not in this repository"
)
def test_every_real_config_is_read(tmp_path):
    cases = json.loads(GOLDEN.read_text())["cases"]
    types: set[str] = set()
    entries = [{key: case[key] for key in ("abbr", "reader_cfg", "infer_cfg")} for case in cases]
    text = "real_datasets = " + as_python(entries, types)
    both(write(tmp_path, f"from opencompass.openicl import {', '.join(sorted(types))}\n{text}\n"))

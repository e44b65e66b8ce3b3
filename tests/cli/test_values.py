"""Values that cannot be used are refused whatever the model, before anything runs."""

import json
from pathlib import Path

import pytest

from tests.commands import kshot

RUN = ("run", "-m", "embedded", "-d", "lookup:UR", "--length", "10", "--samples", "2", "--out", "run")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--base-url", "http://[::1", "--base-url is not a URL"),
        ("--judge-base-url", "nowhere", "--base-url is not a URL"),
        ("--max-reply", "0x10", "--max-reply is '0x10'"),
        ("--request-option", "word", "--request-option is 'word'"),
        ("--sample-num", "999999999", "--sample-num is 999999999; it must be from 1 to 100000"),
    ],
)
def test_a_value_is_checked_though_the_model_does_not_read_it(capsys, tmp_path, monkeypatch, option, value, words):
    monkeypatch.chdir(tmp_path)
    done = kshot(capsys, *RUN, option, value)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not Path("run").exists()


def test_a_spec_that_lists_a_dataset_many_times_is_not_scored(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert kshot(capsys, *RUN).code == 0
    spec = json.loads(Path("run/spec.json").read_text())
    spec["identity"]["datasets"] *= 2000
    Path("run/spec.json").write_text(json.dumps(spec))
    done = kshot(capsys, "score", "run")
    assert done.code == 2
    assert "spec.json lists the dataset lookup:UR more than once" in done.err

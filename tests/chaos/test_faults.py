"""A small part of ``make chaos``: 300 samples on a server with faults."""

import os
from contextlib import closing

import pytest

from tests.chaos import faults
from tests.chaos.faulty_server import KINDS, REFUSALS
from tests.chaos.kills import Launcher

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.needs("aiohttp"),
]


def test_every_sample_is_accounted_for_and_only_the_failed_ones_are_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "TIMEOUT_SECONDS", 1)
    with closing(Launcher()) as launcher:
        found = faults.run_with_faults(300, tmp_path, launcher, lasting=())
    assert found["violations"] == []
    assert found["answered"] + found["failed"] == 300
    assert found["asked_in_second"] == found["failed"] >= 5
    assert len(found["faults"]) > 20
    assert found["requests"] > 300


def test_there_are_more_than_twenty_kinds_of_fault():
    assert len(KINDS) - len(REFUSALS) > 20


def test_a_sample_without_a_row_and_a_kind_that_did_not_happen_are_violations(tmp_path):
    """The checks can fail."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "samples.jsonl").write_text('{"task": "cities", "id": "1"}\n{"task": "cities", "id": "1"}\n')
    (tmp_path / "run" / "summary.json").write_text('{"results": [{"task": "cities", "n": 1, "failed": 0}]}')
    (tmp_path / "err.txt").touch()
    (tmp_path / "memory.json").write_text('{"500": 1000, "4000": 99000}')
    found = faults.FaultFigures(5000)
    with faults.FaultyServer() as server:
        faults._first(found, server, {"code": 0}, tmp_path)
    assert found.violations[0] == "5000 samples, and 2 rows of 1"
    assert found.violations[1] == "summary.json says n = 1, samples.jsonl 2"
    assert found.violations[2] == "the memory grew by 98000 kB"
    assert found.violations[3].startswith("faults that did not happen: ")

"""BFCL's conversations: their functions are described in files of their own."""

import json

import pytest

from kshot.configs import entry
from kshot.configs.data import splits_of
from kshot.configs.loaders import science
from kshot.core.errors import DataError

ROW = {"id": "multi_turn_miss_func_0", "question": [[]], "involved_classes": ["TicketAPI", "MathAPI"]}
DOCUMENTS = {"ticket_api": ("add", "count"), "math_api": ("mean", "add")}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(folder, row, documents=DOCUMENTS, place=""):
    name = "BFCL_v3_multi_turn_miss_func.json"
    (folder / "possible_answer").mkdir(parents=True)
    (folder / name).write_text(lines(row), encoding="utf-8")
    (folder / "possible_answer" / name).write_text(
        lines({"id": row["id"], "ground_truth": [["f()"]]}), encoding="utf-8"
    )
    described = folder / place / "multi_turn_func_doc"
    described.mkdir(parents=True)
    for file, names in documents.items():
        (described / f"{file}.json").write_text(
            lines(*({"name": name, "of": file} for name in names)), encoding="utf-8"
        )
    return folder


def rows_of(folder):
    found = entry(
        {
            "type": "ais_bench.benchmark.datasets.BFCLDataset",
            "path": str(folder),
            "category": "multi_turn_miss_func",
            "reader_cfg": {"input_columns": ["question"], "output_column": "ground_truth"},
        }
    )
    rows = splits_of(found, {})
    return [{name: json.loads(row[name]) for name in ("function", "missed_function") if name in row} for row in rows]


def named(*names):
    return [{"name": name, "of": file} for name, file in names]


def test_functions_of_all_classes_are_offered(tmp_path):
    assert rows_of(written(tmp_path, ROW)) == [
        {"function": named(("add", "ticket_api"), ("count", "ticket_api"), ("mean", "math_api"), ("add", "math_api"))}
    ]


def test_missed_functions_are_kept_for_their_turn(tmp_path):
    row = {**ROW, "missed_function": {"1": ["add", "unknown"], "2": ["mean", "add"]}}
    assert rows_of(written(tmp_path, row)) == [
        {
            "function": named(("count", "ticket_api")),
            "missed_function": {
                "1": named(("add", "ticket_api")),
                "2": named(("mean", "math_api"), ("add", "math_api")),
            },
        }
    ]


def test_documents_may_be_those_of_the_package(tmp_path, monkeypatch):
    (tmp_path / "packages" / "bfcl_eval").mkdir(parents=True)
    (tmp_path / "packages" / "bfcl_eval" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "packages")
    folder = written(tmp_path / "rows", ROW, place="../packages/bfcl_eval/data")
    assert len(rows_of(folder)[0]["function"]) == 4


def test_documents_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(science, "find_spec", lambda _: None)
    folder = written(tmp_path, ROW, {"ticket_api": ("add",)})
    with pytest.raises(DataError, match=r"functions of MathAPI are described neither.*pip install"):
        rows_of(folder)


def test_classes_that_bfcl_has_not(tmp_path):
    with pytest.raises(DataError, match="no class 'Bank'"):
        rows_of(written(tmp_path, {**ROW, "involved_classes": ["Bank"]}))

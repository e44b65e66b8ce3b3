"""Rows from files of every kind, and places to load them from."""

import csv
import json

import pytest

import kshot

ROWS = [{"q": "one", "a": "1"}, {"q": "zwei, „2“", "a": "2"}, {"q": "three\nlines", "a": "3"}]


def write(path, rows=ROWS):
    """Write rows in the format of the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".parquet":
            pa = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)
        case _:
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
                writer.writeheader()
                writer.writerows(rows)
    return path


def saved(path, **splits):
    """Write what ``save_to_disk`` writes: splits, or one dataset."""
    datasets = pytest.importorskip("datasets")
    made = {name: datasets.Dataset.from_list(rows) for name, rows in splits.items()}
    (made.pop("whole") if "whole" in made else datasets.DatasetDict(made)).save_to_disk(str(path))


def load(path, split="test", subset=None, name="mine", load_args=None):
    return list(kshot.get_raw_dataset_loader(name, path, subset, load_args)(split))


def marked(mark):
    return [{"from": mark}]

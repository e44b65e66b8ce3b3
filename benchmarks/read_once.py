"""``--limit 1`` on a large file of rows: how often the file is read, and CPU seconds beside those of reading it once.

    python benchmarks/read_once.py [--rows 200000]

One file as a config's data (JSON lines, train and test split) and as a table (csv, whose form is found by looking at
all rows). ``compile``: the rows are read and the task is compiled, once. ``run``: a whole run of one sample, on a model
that answers at once. Exit code 1 if a run reads its file twice, or takes more than 1.15 times as long as ``compile``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kshot
from kshot.settings import settings_from
from kshot.sources import source_of
from kshot.tables import files

ROWS, MOST = 200_000, 1.15
CONFIG = """
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_evaluator import AccEvaluator
datasets = [dict(
    abbr="rows", type="HFDataset", path="json", data_files=dict(train="rows.jsonl", test="rows.jsonl"),
    reader_cfg=dict(input_columns=["question"], output_column="A"),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template="Q: {question}\\nA:"),
        retriever=dict(type=ZeroRetriever), inferencer=dict(type=GenInferencer)),
    eval_cfg=dict(evaluator=dict(type=AccEvaluator)))]
"""
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "config": ("config.py", {}),
    "table": ("rows.csv", {"question": "question", "options": ("A", "B", "C", "D"), "answer": "answer"}),
}


def answer(_: str) -> str:
    """Answer at once."""
    return "A"


def write_files(count: int) -> None:
    """Write the rows in both kinds of file, and the config."""
    names = ("question", "A", "B", "C", "D", "answer")
    options = ("city", "town", "village", "place")
    rows = [
        (f"What is the capital of country {n}?", *(f"{each} {n}" for each in options), "ABCD"[n % 4])
        for n in range(count)
    ]
    with Path("rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    with Path("rows.jsonl").open("w") as file:
        file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    Path("config.py").write_text(CONFIG)


def measured(way: str) -> tuple[float, float, int]:
    """Return the CPU seconds of compiling once and of the run, and how often the run read its file."""
    dataset, options = WAYS[way]
    settings = settings_from({"limit": 1, **options})
    begun = time.process_time()
    with files.files_read_once():
        list(source_of(dataset, settings).tasks(settings))
    compiled = time.process_time() - begun
    reads, parsed = [], files._parsed_file  # noqa: SLF001 - what is counted
    files._parsed_file = lambda path, **how: reads.append(path) or parsed(path, **how)  # noqa: SLF001
    begun = time.process_time()
    kshot.evaluate(answer, dataset, limit=1, **options)
    taken = time.process_time() - begun
    files._parsed_file = parsed  # noqa: SLF001
    return compiled, taken, len(reads)


def main() -> int:
    """Measure both ways, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    count = parser.parse_args().rows
    good = True
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files(count)
        kshot.evaluate(answer, "rows.csv", limit=1, target="A", question="question")  # imports what both use
        print(f"{count:,} rows, --limit 1      reads   compile s   run s   ratio")
        for way in WAYS:
            compiled, taken, reads = measured(way)
            good &= reads == 1 and taken <= MOST * compiled
            print(f"{way:<26}{reads:>7}{compiled:>12.2f}{taken:>8.2f}{taken / compiled:>8.2f}")
        os.chdir("/")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

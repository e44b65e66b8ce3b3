"""Benchmarks for other tools: a task and its corpus as a BEIR folder and qrels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kshot.core.durable import new_version
from kshot.core.errors import RunError
from kshot.core.records import Evidence, Graded, Sample
from kshot.core.task import Task
from kshot.core.text_files import path_inside
from kshot.metrics.ranking import EvidenceFinder
from kshot.passages.graded import check_qrels, write_qrels


def export_benchmark(task: Task[Any], folder: Path) -> Iterator[Path]:
    """Write ``corpus.jsonl``, ``queries.jsonl``, ``qrels/test.tsv`` and ``qrels.trec``; yield their paths.

    Evidence becomes grades: a passage's grade is the number of components that it contains.
    """
    corpus = task.corpus
    if corpus is None:
        raise RunError(f"{task.name} is not a passage benchmark", hint="Only searches have rankings to export.")
    samples = list(task.samples)
    finder = EvidenceFinder(corpus)
    grades = {}
    for sample in samples:
        request = task.template(sample, ())
        among = corpus.among(request.where)
        searched = corpus.passages if among is None else [corpus.passages[position] for position in among]
        grades[sample.id] = _grades(sample, finder, [passage.id for passage in searched])
    check_qrels(grades)
    paths = {name: path_inside(folder, name) for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")}
    passages = ({"_id": passage.id, "title": "", "text": passage.text, **passage.fields} for passage in corpus)
    yield _write_lines(paths["corpus.jsonl"], passages)
    queries = ({"_id": each.id, "text": each.fields.get("query", each.fields["question"])} for each in samples)
    yield _write_lines(paths["queries.jsonl"], queries)
    table = paths["qrels/test.tsv"]
    rows = [f"{topic}\t{passage}\t{grade}\n" for topic, judged in grades.items() for passage, grade in judged.items()]
    with new_version(table, errors="surrogatepass") as file:
        file.writelines(["query-id\tcorpus-id\tscore\n", *rows])
    yield table
    write_qrels(folder / "qrels.trec", grades)
    yield folder / "qrels.trec"


def _grades(sample: Sample, finder: EvidenceFinder, passages: Iterable[str]) -> dict[str, int]:
    match sample.target:
        case Graded(grades):
            return dict(grades)
        case Evidence(parts):
            matches = finder.matches(parts)
            return {passage: count for passage in passages if (count := matches[passage].bit_count())}
        case _:
            return {}


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    with new_version(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path

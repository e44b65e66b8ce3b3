"""Passage retrieval: documents, chunks, and benchmarks of questions with evidence."""

from __future__ import annotations

from kshot.core.specs import parse_spec

BENCHMARKS = {
    "handbook": "Questions about kshot's own documentation, with evidence: the built-in benchmark.",
    "passages": "Your own documents and questions, in fastbook-benchmark's format (--data FOLDER_OR_URL).",
    "fastbook": "The same, cut as the published results are (--data FOLDER_OR_URL).",
    "beir": "A BEIR folder: corpus.jsonl, queries.jsonl, qrels/ (--data FOLDER).",
    "trec": "TREC files (--data topics=FILE --data qrels=FILE --data corpus=FILE).",
}


def is_passages(spec: str) -> bool:
    """Whether a spec names a passage benchmark."""
    return parse_spec(spec).name in BENCHMARKS


__all__ = ["BENCHMARKS", "is_passages"]

"""Passage retrieval: documents, chunks, and benchmarks of questions with evidence."""

from kshot.passages.names import BENCHMARKS, is_passages

__all__ = ["BENCHMARKS", "is_passages"]

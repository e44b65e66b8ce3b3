"""Passage retrieval: documents, chunks, and benchmarks of questions with evidence."""

from kshot.passages.names import NAMES, is_passages

__all__ = ["NAMES", "is_passages"]

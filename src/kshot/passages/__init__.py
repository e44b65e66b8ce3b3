"""Passage retrieval: documents, chunks, and benchmarks of questions with evidence."""

from kshot.passages.source import PassagesSource, is_passages

__all__ = ["PassagesSource", "is_passages"]

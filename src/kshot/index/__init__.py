"""Indexes: under example retrievers and search engines alike."""

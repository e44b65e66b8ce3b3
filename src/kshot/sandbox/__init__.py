"""Confined processes for code that nobody has read."""

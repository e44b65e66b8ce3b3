"""Runs for other programs: one module for each format. What they write has the figures of ``summary.json``."""

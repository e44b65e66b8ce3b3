"""Evaluators that configs name, as metrics: ``making`` finds one by its name, the other modules hold them by kind.

Each module has a table ``EVALUATORS`` of its names. A metric for a config of another project gives its figures the
names and the scale that they have there.
"""

"""The measures of a metric by name."""

from kshot.core.metric import Measure, Metric


def measure(metric: Metric, name: str = "") -> Measure:
    """Return the measure of a name, or the first one."""
    return next(each for each in metric.measures if name in (each.name, ""))


def names(metric: Metric) -> tuple[str, ...]:
    """Return the names of the measures."""
    return tuple(each.name for each in metric.measures)

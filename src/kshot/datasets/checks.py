"""Checks of a dataset class: metrics that cannot be used, and what is legal but probably a mistake."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kshot.core.errors import DataError, KshotError
from kshot.core.metric import Metric
from kshot.core.specs import split_names
from kshot.datasets.dataset import Dataset, where_of
from kshot.metrics import make_metric
from kshot.metrics.judge import with_judge_options
from kshot.metrics.metric import as_metric
from kshot.prompts.strings import names_used

RESERVED_FIELDS = {
    *("options", "target", "source", "target_idx", "label", "source_idx", "num_turns", "turn_idx", "real_num_shots"),
    *("example_idx", "dataset_name", "subset_name", "display_name"),
}
"""Names that an instruction may use though no field has them."""

_DOCUMENTED = [name for name in vars(Dataset) if not name.startswith("_")]
_MIN_SIMILARITY = 0.8
"""From this ratio on, an unknown attribute looks like a misspelt one."""


def requested_metrics(dataset: Dataset) -> list[Metric]:
    """Return the metrics that the user named with ``--metric``."""
    return [make_metric(name) for names in dataset.args.metric or () for name in split_names(names)]


def checked_metrics(dataset: Dataset) -> list[Metric]:
    """Return the metrics of a dataset; a text is a spec, such as ``"f1"``. What is no metric is an error."""
    where = where_of(dataset)
    if not isinstance(dataset.metrics, (list, tuple)):
        raise DataError(f"metrics is {dataset.metrics!r}", where=where, hint="Write a list: metrics = [Em()].")
    if not dataset.metrics:
        raise DataError("it has no metrics", where=where, hint="Set metrics = [Em(), F1()], for example.")
    found = []
    for given in dataset.metrics:
        metric = _named_metric(given, where) if isinstance(given, str) else as_metric(given)
        if isinstance(metric, type) or not isinstance(metric, Metric):
            hint = f"Write {metric.__name__}()." if isinstance(metric, type) else "See kshot list metrics."
            raise DataError(f"metrics has {metric!r}, which is not a metric", where=where, hint=hint)
        found.append(metric)
    return with_judge_options(found, dataset.args, where=where)


def _named_metric(spec: str, where: str) -> Metric:
    try:
        return make_metric(spec)
    except KshotError as exc:
        exc.where = exc.where or where
        raise


def likely_mistakes(dataset: Dataset, kind: type[Dataset], fields: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Find what is legal but probably a mistake: template names that no field has, attributes with a misspelt name.

    ``fields`` gives those of the first row; it is called only if they matter.
    """
    unknown = names_used(dataset.instruction or "", dataset.jinja2_env) - RESERVED_FIELDS
    for name in sorted(unknown - set(fields()) if unknown else ()):
        yield f"the instruction uses {name!r}, which row 0 does not have: it renders as nothing"
    known = set(dir(kind))
    for name in vars(type(dataset)):
        if name.startswith("_") or name in known:
            continue
        meant = difflib.get_close_matches(name, _DOCUMENTED, 1, cutoff=_MIN_SIMILARITY)
        if meant:
            yield f"the class defines {name!r}, which means nothing to kshot; {meant[0]!r} would"

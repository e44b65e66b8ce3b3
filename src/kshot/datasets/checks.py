"""What a dataset class cannot mean, and what it hardly means."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kshot.core.errors import DataError
from kshot.core.protocols import Scorer
from kshot.core.registry import split_names
from kshot.datasets.dataset import Dataset, place
from kshot.metrics import make_metric
from kshot.prompts.strings import names_used

_KNOWN = {
    *("options", "target", "source", "target_idx", "label", "source_idx", "num_turns", "turn_idx", "real_num_shots"),
    *("example_idx", "dataset_name", "subset_name", "display_name"),
}
_DOCUMENTED = [name for name in vars(Dataset) if not name.startswith("_")]
_CLOSE = 0.8


def chosen_metrics(dataset: Dataset) -> Any:
    """Return the metrics of ``--metric``, else the class's own; a text among them is a spec."""
    asked = dataset.args.metric
    if asked:
        return [make_metric(name) for names in asked for name in split_names(names)]
    own: Any = dataset.metrics
    if not isinstance(own, (list, tuple)):
        return own
    return [make_metric(metric) if isinstance(metric, str) else metric for metric in own]


def check_metrics(dataset: Dataset) -> None:
    """Refuse metrics that are none: ``Em`` for ``Em()``, text, an empty list."""
    where = place(dataset)
    if not isinstance(dataset.metrics, (list, tuple)):
        raise DataError(f"metrics is {dataset.metrics!r}", where=where, hint="Write a list: metrics = [Em()].")
    if not dataset.metrics:
        raise DataError("it has no metrics", where=where, hint="Set metrics = [Em(), F1()], for example.")
    for metric in dataset.metrics:
        if isinstance(metric, type) or not isinstance(metric, Scorer):
            called = f"Write {metric.__name__}()." if isinstance(metric, type) else "See kshot list metrics."
            raise DataError(f"metrics has {metric!r}, which is not a metric", where=where, hint=called)


def doubts(dataset: Dataset, kind: type[Dataset], fields: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Say what is legal and hardly meant: template names that no field has, attributes misspelt by a little."""
    unknown = names_used(dataset.instruction or "", dataset.jinja2_env) - _KNOWN
    for name in sorted(unknown - set(fields()) if unknown else ()):
        yield f"the instruction uses {name!r}, which row 0 does not have: it renders as nothing"
    for name in vars(type(dataset)):
        if name.startswith("_") or hasattr(kind, name):
            continue
        meant = difflib.get_close_matches(name, _DOCUMENTED, 1, cutoff=_CLOSE)
        if meant:
            yield f"the class defines {name!r}, which means nothing to kshot; {meant[0]!r} would"

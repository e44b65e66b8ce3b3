"""The options of generation: what a class sets in ``extra_model_args``, and what the user sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from kshot.core.errors import DataError
from kshot.datasets.compiler import DatasetCompiler


def _number(least: float, most: float = math.inf) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return type(value) is not bool and isinstance(value, Real) and least <= float(value) <= most

    return check


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is not bool and isinstance(value, Integral) and int(value) >= least


def _texts(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, str)
        or (isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value))
    )


SAMPLING_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "max_tokens": _whole(1),
    "temperature": _number(0, 1e6),
    "stop": _texts,
    "top_p": _number(1e-9, 1),
    "top_k": _whole(1),
    "repetition_penalty": _number(1e-9, 1e6),
    "no_repeat_ngram_size": _whole(0),
    "seed": _whole(0),
}
"""What ``extra_model_args`` may set for a method that generates, with the check of a value."""


def refuse_sampling_options(compiler: DatasetCompiler, method: str) -> None:
    """Refuse ``extra_model_args`` for a method that generates nothing."""
    given = compiler.dataset.extra_model_args
    if given:
        raise DataError(
            f"extra_model_args has {', '.join(given)}, which {method} cannot use",
            where=compiler.where,
            hint="Only generation can use them.",
        )


def sampling_options(compiler: DatasetCompiler) -> dict[str, Any]:
    """Merge what the class and the user set for generation; the user wins."""
    dataset = compiler.dataset
    chosen = _own_options(compiler)
    settings = dataset.args
    chosen |= settings.sampling()
    if "stop" in chosen:
        stop = chosen["stop"] or ()
        chosen["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    if settings.sample_num > 1 and not chosen.get("temperature"):
        chosen["temperature"] = 1.0
        compiler.note(f"temperature 0 becomes 1, since {settings.sample_num} replies are sampled")
    if chosen.get("temperature"):
        chosen.setdefault("seed", dataset.seed)
    else:
        chosen.pop("seed", None)
        compiler.mark_unread("top_p", "top_k")
    return chosen


def _own_options(compiler: DatasetCompiler) -> dict[str, Any]:
    """Return the ``extra_model_args`` of the class, checked."""
    given: object = compiler.sampling_options()
    if not isinstance(given, Mapping):
        raise DataError(f"extra_model_args is {given!r:.60}; it must be a dict", where=compiler.where)
    for name, value in given.items():
        if name not in SAMPLING_OPTIONS:
            raise DataError(
                f"extra_model_args has {name!r}, which generation cannot use",
                where=compiler.where,
                hint=f"It can use: {', '.join(SAMPLING_OPTIONS)}.",
            )
        if not SAMPLING_OPTIONS[name](value):
            raise DataError(f"extra_model_args has {name} = {value!r}, which cannot be used", where=compiler.where)
    return {name: _plain_number(value) for name, value in given.items()}


def _plain_number(value: Any) -> Any:
    """Return Python's own numbers for numpy's: a request is written as JSON."""
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value

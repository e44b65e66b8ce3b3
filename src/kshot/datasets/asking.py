"""Around the asking: what generation is told, and how a class's own post_processing gets to see the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed, Repeats, Sample
from kshot.datasets.compiled import Compiled

Processing = Callable[[Sequence[Any]], Sequence[Any]]

SAMPLING = ("max_tokens", "temperature", "stop", "top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size", "seed")
"""What ``extra_model_args`` may set for a method that generates."""


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
        or (isinstance(value, (list, tuple)) and all(isinstance(t, str) for t in value))
    )


_SOUND: dict[str, Callable[[Any], bool]] = {
    "max_tokens": _whole(1),
    "temperature": _number(0, 1e6),
    "stop": _texts,
    "top_p": _number(1e-9, 1),
    "top_k": _whole(1),
    "repetition_penalty": _number(1e-9, 1e6),
    "no_repeat_ngram_size": _whole(0),
    "seed": _whole(0),
}


def _plain(value: Any) -> Any:
    """Python's own numbers for numpy's: a request is written as JSON."""
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def refuse_sampling(compiled: Compiled, method: str) -> None:
    """Refuse ``extra_model_args`` for a method that samples nothing."""
    given = compiled.dataset.extra_model_args
    if given:
        raise DataError(
            f"extra_model_args has {', '.join(given)}, which {method} cannot use",
            where=compiled.where,
            hint="It can use none; generation can.",
        )


def sampling(compiled: Compiled) -> dict[str, Any]:
    """Merge what the class and the user say about generation; the user wins."""
    dataset = compiled.dataset
    for name in dataset.extra_model_args:
        if name not in SAMPLING:
            raise DataError(
                f"extra_model_args has {name!r}, which generation cannot use",
                where=compiled.where,
                hint=f"It can use: {', '.join(SAMPLING)}.",
            )
        if not _SOUND[name](dataset.extra_model_args[name]):
            value = dataset.extra_model_args[name]
            raise DataError(f"extra_model_args has {name} = {value!r}, which cannot be used", where=compiled.where)
    chosen = {name: _plain(value) for name, value in dataset.extra_model_args.items()}
    for name in ("max_tokens", "temperature", "stop", "top_p", "top_k"):
        if getattr(dataset.args, name) is not None:
            chosen[name] = getattr(dataset.args, name)
    if "stop" in chosen:
        stop = chosen["stop"] or ()
        chosen["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    times = dataset.args.sample_num
    if times > 1 and not chosen.get("temperature"):
        chosen["temperature"] = 1.0
        compiled.note(f"temperature 0 becomes 1, since {times} replies are sampled")
    if chosen.get("temperature"):
        chosen.setdefault("seed", dataset.seed)
    else:
        chosen.pop("seed", None)
    return chosen


def finished(compiled: Compiled, blank: Callable[[Sample], Any], process: Processing | None = None) -> Processing:
    """Let the class's own post_processing see all raw answers in order, a blank in place of each failed one.

    Repeats are processed a round at a time, so that every call sees one answer per evaluated row.
    """
    call = process or compiled.dataset.post_processing
    times = compiled.dataset.args.sample_num

    def processed(answers: Sequence[Any]) -> Sequence[Any]:
        given = compiled.call("post_processing", lambda: call(answers))
        if isinstance(given, (str, bytes, Mapping, AbstractSet)):
            raise DataError(f"post_processing returned a {type(given).__name__}, not a list", where=compiled.where)
        done: list[Any] = compiled.call("post_processing", lambda: list(given))
        size = len(compiled.dataset.evaluation_data)
        if len(done) != size:
            raise DataError(f"post_processing returned {len(done)} answers for {size} rows", where=compiled.where)
        return done

    def blanked(sample: Sample) -> Any:
        return blank(sample) if times == 1 else Repeats((blank(sample),) * times)

    def finish(answers: Sequence[Any]) -> Sequence[Any]:
        pairs = zip(answers, compiled.samples(), strict=True)
        whole = [blanked(sample) if isinstance(answer, Failed) else answer for answer, sample in pairs]
        if times == 1:
            return processed(whole)
        rounds = [processed([answer.answers[i] for answer in whole]) for i in range(times)]
        return [Repeats(tuple(each)) for each in zip(*rounds, strict=True)]

    return finish

"""Around the asking: what generation is told, and how a class's own post_processing gets to see the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kshot.datasets.compiled import Compiled
from kshot.errors import DataError
from kshot.records import Failed, Repeats, Sample

Processing = Callable[[Sequence[Any]], Sequence[Any]]

SAMPLING = ("max_tokens", "temperature", "stop", "top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size", "seed")
"""What ``extra_model_args`` may set for a method that generates."""


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
    chosen = dict(dataset.extra_model_args)
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
        done: list[Any] = compiled.call("post_processing", lambda: list(call(answers)))
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

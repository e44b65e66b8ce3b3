"""Replies: the options of generation, the answer taken out of a reply, and ``post_processing`` of all answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from kshot.cleanups import make_cleanup
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.cleanups.chosen_option import chosen_option
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.extras import missing_package
from kshot.core.options import flag
from kshot.core.records import AskFailed, Explained, Failed, Repeats, Sample
from kshot.datasets.compiler import DatasetCompiler, PostProcessing
from kshot.methods.generation import Extract, raw


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


def reply_extractor(compiler: DatasetCompiler) -> Extract:
    """Return what takes the answer out of a reply, or out of every reply of a conversation.

    Without ``--cleanup`` and ``--answer-pattern`` replies stay as they are.
    """
    pattern = answer_pattern(compiler)
    if pattern is None:
        return _cleaned(compiler)

    def extract(_: Sample, reply: Any) -> Any:
        if not isinstance(reply, tuple):
            answer, rule = pattern.answer(reply)
            return answer if compiler.processes_answers else Explained(answer, {"rule": rule})
        found = [pattern.answer(each) for each in reply]
        answers = tuple(answer for answer, _ in found)
        return answers if compiler.processes_answers else Explained(answers, {"rule": [rule for _, rule in found]})

    return extract


def option_extractor(compiler: DatasetCompiler) -> Callable[[Sample, str], Explained]:
    """Return what finds the option that a reply chooses, with the rule that found it."""
    pattern, clean = answer_pattern(compiler), _cleaned(compiler)

    def extract(sample: Sample, reply: str) -> Explained:
        if pattern is not None:
            found = pattern.option(reply, sample.choices)
        else:
            found = chosen_option(str(clean(sample, reply)), sample.choices)
        return Explained(found.index, {"rule": found.rule})

    return extract


def answer_pattern(compiler: DatasetCompiler) -> AnswerPattern | None:
    """Return the pattern of ``--answer-pattern``; one that cannot be read is an error before any model is asked."""
    text = compiler.dataset.args.answer_pattern
    if text is not None and compiler.dataset.args.cleanup is not None:
        raise UsageError(
            "--cleanup and --answer-pattern both take the answer out of a reply",
            where=compiler.where,
            hint="Use one of them.",
        )
    return None if text is None else AnswerPattern(text, where=compiler.where)


def _cleaned(compiler: DatasetCompiler) -> Extract:
    spec = compiler.dataset.args.cleanup
    if spec is None:
        return raw
    cleanup = make_cleanup(spec)

    def extract(sample: Sample, reply: Any) -> Any:
        try:
            return tuple(map(cleanup, reply)) if isinstance(reply, tuple) else cleanup(reply)
        except (KshotError, AskFailed):
            raise
        except Exception as exc:
            where = f"{compiler.where}, sample {sample.id}"
            missing = missing_package(exc, f"the clean-up {spec}")
            raise missing or DataError(f"the clean-up {spec} fails: {type(exc).__name__}: {exc}", where=where) from exc

    return extract


def refuse_cleanup(compiler: DatasetCompiler, method: str, hint: str = "") -> None:
    """Refuse ``--cleanup`` and ``--answer-pattern`` for a method that gets no replies."""
    settings = compiler.dataset.args
    for name, value in {"cleanup": settings.cleanup, "answer_pattern": settings.answer_pattern}.items():
        if value is not None:
            raise UsageError(
                f"{flag(name)} takes answers out of replies, and {method} asks for none",
                where=compiler.where,
                hint=f"{hint}To use it for another dataset only, write -d NAME,{name}=….",
            )


def post_processing_of(
    compiler: DatasetCompiler, blank: Callable[[Sample], Any], process: PostProcessing | None = None
) -> PostProcessing:
    """Return the class's own post_processing, which sees all raw answers in order and a blank for each failed one.

    Repeats are processed a round at a time, so that every call sees one answer per evaluated row; a failed repeat is
    blank too.
    """
    call = process or compiler.dataset.post_processing
    times = compiler.dataset.args.sample_num

    def processed(answers: Sequence[Any]) -> Sequence[Any]:
        given = compiler.call("post_processing", lambda: call(answers))
        if isinstance(given, (str, bytes, Mapping, AbstractSet)):
            raise DataError(f"post_processing returned a {type(given).__name__}, not a list", where=compiler.where)
        done: list[Any] = compiler.call("post_processing", lambda: list(given))
        size = len(compiler.dataset.evaluation_data)
        if len(done) != size:
            raise DataError(f"post_processing returned {len(done)} answers for {size} rows", where=compiler.where)
        return done

    def blanks(sample: Sample) -> Any:
        return blank(sample) if times == 1 else Repeats((blank(sample),) * times)

    def finish(answers: Sequence[Any]) -> Sequence[Any]:
        pairs = zip(answers, compiler.samples(), strict=True)
        whole = [blanks(sample) if isinstance(answer, Failed) else answer for answer, sample in pairs]
        if times == 1:
            return processed(whole)
        filled = [
            (*answer.answers, *blanks(sample).answers[len(answer.answers) :])
            for answer, sample in zip(whole, compiler.samples(), strict=True)
        ]
        rounds = zip(*(processed(list(each)) for each in zip(*filled, strict=True)), strict=True)
        return [
            replace(answer, answers=each[: len(answer.answers)]) for answer, each in zip(whole, rounds, strict=True)
        ]

    return finish

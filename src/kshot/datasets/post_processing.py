"""How the ``post_processing`` of a class gets to see all answers at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed, Repeats, Sample
from kshot.datasets.compiler import DatasetCompiler, PostProcessing


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

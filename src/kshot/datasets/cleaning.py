"""The answer in a reply: by ``--cleanup``, by ``--answer-pattern``, or by kshot's rules for options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshot.cleanups import make_cleanup
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.cleanups.chosen_option import chosen_option
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.extras import missing_package
from kshot.core.options import flag
from kshot.core.records import AskFailed, Explained, Sample
from kshot.datasets.compiler import DatasetCompiler
from kshot.methods.generation import Extract, raw


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

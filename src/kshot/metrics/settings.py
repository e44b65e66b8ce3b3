"""The settings of scores: metrics, clean-ups and the judge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.errors import UsageError
from kshot.core.options import Options, flag, option

_option = partial(option, group="generation")


@dataclass(frozen=True, kw_only=True)
class ScoringSettings(Options):
    """How replies are scored."""

    pass_at_k: tuple[int, ...] | None = _option(
        None, "values of k for pass@k, such as 1,10", kind=int, listed=True, least=1
    )
    metric: tuple[str, ...] | None = _option(
        None,
        "metrics to use instead of the dataset's own, such as em,f1 or file.py:Class (kshot list metrics; repeatable)",
        repeat=True,
        metavar="NAME",
    )
    cleanup: str | None = _option(
        None,
        "clean-up that takes the answer out of each reply, such as first-capital (kshot list cleanups)",
        metavar="NAME",
    )
    answer_pattern: str | None = _option(
        None,
        "regular expression that takes the answer out of each reply: its first group, or all that it matches",
        metavar="REGEX",
    )
    judge: str | None = _option(None, "model that judges replies (for GPTEval)", metavar="MODEL", whole_run=True)
    judge_rubric: str | None = _option(
        None, "what the judge is to look at, or a file that says it", metavar="TEXT|FILE"
    )
    judge_scale: str | None = _option(
        None, "lowest and highest rating of the judge, such as 1-5 (default: 1-10)", metavar="LOW-HIGH"
    )
    judge_prompt: str | None = _option(
        None,
        "jinja file that is the judge's prompt; it may use question, answer, reference, rubric, scale",
        metavar="FILE",
    )


JUDGE_OPTIONS = ("judge_rubric", "judge_scale", "judge_prompt")
"""What a judge is told; they have an effect where a metric asks one."""


def refuse_scoring_options(
    settings: ScoringSettings, source: str, *, where: str = "", hint: str = "", judged: bool = False
) -> None:
    """Refuse options that would have no effect on a source that scores by rules of its own; ``judged``: by a judge."""
    for name in ("metric", "cleanup", "answer_pattern", *(() if judged else JUDGE_OPTIONS)):
        if getattr(settings, name) is not None:
            raise UsageError(
                f"{flag(name)} has no effect on {source}",
                where=where,
                hint=f"{hint}To use it for another dataset only, write -d NAME,{name}=….",
            )

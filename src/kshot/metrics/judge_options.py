"""The judge's rubric, scale and prompt as the user sets them on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.metric import Metric
from kshot.core.options import flag
from kshot.core.text_files import read_text
from kshot.metrics.judge import GPTEval
from kshot.metrics.settings import JUDGE_OPTIONS, ScoringSettings

_SCALE = re.compile(r"\s*(-?\d{1,6})\s*(?:-|–|\.\.|to)\s*(-?\d{1,6})\s*")
_FILE_ENDINGS = {".txt", ".md", ".jinja", ".jinja2", ".j2"}


def check_judge_options(settings: ScoringSettings) -> None:
    """Refuse a scale that cannot be read, and files that are not there; a dataset checks the prompt itself."""
    judged_as_set(GPTEval(), replace(settings, judge_prompt=None))
    if settings.judge_prompt is not None:
        _file("judge_prompt", settings.judge_prompt)


def with_judge_options(metrics: Sequence[Metric], settings: ScoringSettings, *, where: str = "") -> list[Metric]:
    """Return the metrics, those that ask a judge with what the user set for it."""
    named = [name for name in JUDGE_OPTIONS if getattr(settings, name) is not None]
    if named and not any(isinstance(metric, GPTEval) for metric in metrics):
        raise UsageError(
            f"{flag(named[0])} needs a metric that asks a judge",
            where=where,
            hint="Add --metric GPTEval --judge MODEL.",
        )
    return [judged_as_set(metric, settings) if isinstance(metric, GPTEval) else metric for metric in metrics]


def judged_as_set(metric: GPTEval, settings: ScoringSettings) -> GPTEval:
    """Return the metric with the rubric, the scale and the prompt that the user set."""
    given: dict[str, Any] = {}
    if settings.judge_scale is not None:
        given["scale"] = read_scale(settings.judge_scale)
    if settings.judge_rubric is not None:
        given["rubric"] = _text_or_file(settings.judge_rubric)
    if settings.judge_prompt is not None:
        given |= {"prompt": _file("judge_prompt", settings.judge_prompt), "where": settings.judge_prompt}
    return metric.with_options(**given) if given else metric


def read_scale(text: str) -> tuple[float, float]:
    """Read a scale such as ``1-5``."""
    found = _SCALE.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        raise UsageError(
            f"--judge-scale is {text!r}",
            hint="Write its lowest and its highest rating, whole numbers: --judge-scale 1-5.",
        )
    return float(found[1]), float(found[2])


def _text_or_file(given: str) -> str:
    """Return the rubric: the content of a file, or the text itself."""
    if "\n" not in given and (Path(given).suffix.lower() in _FILE_ENDINGS or Path(given).expanduser().is_file()):
        return _file("judge_rubric", given).strip()
    if not given.strip():
        raise UsageError("--judge-rubric is empty", hint="Say what the judge is to look at, or name a file.")
    return given


def _file(name: str, path: str) -> str:
    try:
        return read_text(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{flag(name)} cannot be read: {exc}", where=path) from exc

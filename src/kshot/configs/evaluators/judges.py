"""LLM judges of configs: a template with the prediction in it is put to the judge, and its verdict is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.configs.answers import cleaner, one_cleaned
from kshot.configs.evaluators.factories import Factory
from kshot.configs.names import ConfigCallable, short
from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import (
    AskFailed,
    Failed,
    Generate,
    Message,
    Prompt,
    Request,
    RequestGenerator,
    Sample,
    ask,
    reference,
)
from kshot.metrics import Metric
from kshot.metrics.judge import PLACEHOLDER
from kshot.metrics.judge_replies import parse_rating

_GRADES = {"A": 100.0, "B": 0.0, "CORRECT": 100.0, "INCORRECT": 0.0}
_LETTER = re.compile(r"(?<![A-Za-z])(A|B|C|CORRECT|INCORRECT)(?![A-Za-z])")


class JudgeEvaluator(Metric):
    """Share of predictions that a judge model calls right: it replies A for right, B for wrong.

    The template is filled with the row's columns, ``prediction``, ``reference`` and ``obj_gold``. A judge that is asked
    for a rating instead ([[7]]) reports ``Rating``. The requests have the role ``judge``.
    """

    def __init__(
        self,
        prompt_template: Mapping[str, Any] | None = None,
        dict_postprocessor: Mapping[str, Any] | None = None,
        postprocessor: Mapping[str, Any] | None = None,
        pred_postprocessor: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        *,
        scope: Scope | None = None,
        **_: Any,
    ) -> None:
        if not isinstance(prompt_template, Mapping):
            raise DataError("the judge has no prompt_template")
        self._template, self.max_tokens = dict(prompt_template), max_tokens
        self._scope = scope or Scope("judge")
        self._read, self._clean = dict_postprocessor or postprocessor or {}, pred_postprocessor
        # Configs have no field for it: a judge that is to rate is told the form of a rating in its template.
        template = repr(prompt_template)
        self.name = "Rating" if "rating" in template.lower() and "[[" in template else "Accuracy"

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"JudgeEvaluator({self.name!r})"

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about one answer."""
        gold = None if sample.target is None else reference(sample.target)
        text = "\n\n".join(map(str, answer)) if isinstance(answer, tuple) else str(answer)
        if self._clean:
            text = str(one_cleaned(cleaner(self._clean, self._scope), text))
        row = {**sample.fields, "prediction": text, "reference": gold, "obj_gold": gold}
        (reply,) = yield from ask(Generate(self._prompt(row), max_tokens=self.max_tokens, role="judge"))
        return {self.name: self._verdict(reply.text, text, gold)}

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        asking = self.score(sample, answer)
        requests: Sequence[Request] = next(asking)
        asking.close()
        return requests

    def _prompt(self, row: Mapping[str, Any]) -> Prompt:
        reader = {"input_columns": list(row), "output_column": None}
        infer = {"prompt_template": self._template, "retriever": {}, "inferencer": {"type": "GenInferencer"}}
        rows = read_rows(reader, {"train": [], "test": [row]}, strict=False, abbr="judge")
        messages = render(reader, infer, rows, [[]], strict=False).chat(0, None)
        return Prompt(messages=tuple(Message(each["role"], each["content"]) for each in messages))

    def _verdict(self, reply: str, prediction: str, gold: Any) -> float:
        reader = self._read.get("type")
        if isinstance(reader, ConfigCallable):
            return _verdict_by_config(reader, reply, prediction, gold)
        if self.name == "Rating":
            rating = parse_rating(reply)
            if rating is None:
                raise AskFailed(Failed("judge", f"no rating in the judge's reply: {reply[-200:]!r}"))
            return rating
        found = _LETTER.findall(reply)
        if not found:
            raise AskFailed(Failed("judge", f"neither A nor B in the judge's reply: {reply[-200:]!r}"))
        takes_last = "last" in short(reader or "")  # a config says it by nothing but the name of this function
        return _GRADES.get(found[-1] if takes_last else found[0], 0.0)


def _verdict_by_config(reader: ConfigCallable, reply: str, prediction: str, gold: Any) -> float:
    """Let a function of the config read the verdict. It takes all judgements, by number, and returns figures."""
    found = reader({"0": {"prediction": reply, "gold": gold, "origin_prompt": prediction}}, "")
    if isinstance(found, Mapping):
        figures = [v for v in found.values() if isinstance(v, (int, float)) and not isinstance(v, bool)]
        found = figures[0] if figures else None
    if not isinstance(found, (int, float)):
        raise DataError(f"{reader.__name__} gave no figure for the judge's reply")
    return float(found)


def _judge(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return JudgeEvaluator(**options, scope=scope)


EVALUATORS: dict[str, Factory] = dict.fromkeys(("GenericLLMEvaluator", "LMEvaluator"), _judge)

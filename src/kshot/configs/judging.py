"""LLM judges as configs write them: a template with the prediction in it, put to the judge, its verdict read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.names import Own, short
from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.core.errors import DataError
from kshot.core.records import AskFailed, Failed, Generate, Message, Prompt, RequestGenerator, Sample, ask, reference
from kshot.metrics import Metric
from kshot.metrics.judge import parse_rating

_GRADES = {"A": 100.0, "B": 0.0, "CORRECT": 100.0, "INCORRECT": 0.0}
_LETTER = re.compile(r"(?<![A-Za-z])(A|B|C|CORRECT|INCORRECT)(?![A-Za-z])")


class Judge(Metric):
    """Share of predictions that a judge model calls right: it replies A for right, B for wrong.

    The template is filled with the row's columns, ``prediction``, ``reference`` and ``obj_gold``. A judge that is asked
    for a rating instead ([[7]]) is reported as ``Rating``. Requests go to the backend called ``judge``.
    """

    def __init__(
        self,
        prompt_template: Mapping[str, Any] | None = None,
        dict_postprocessor: Mapping[str, Any] | None = None,
        postprocessor: Mapping[str, Any] | None = None,
        pred_postprocessor: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        **_: Any,
    ) -> None:
        if not isinstance(prompt_template, Mapping):
            raise DataError("the judge has no prompt_template")
        self._template, self.max_tokens = dict(prompt_template), max_tokens
        self._read, self._clean = dict_postprocessor or postprocessor or {}, pred_postprocessor
        rated = "rating" in repr(prompt_template).lower() and "[[" in repr(prompt_template)
        self.name = "Rating" if rated else "Accuracy"

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"Judge({self.name!r})"

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about one answer."""
        truth = None if sample.target is None else reference(sample.target)
        said = (
            answer
            if isinstance(answer, str)
            else "\n\n".join(map(str, answer))
            if isinstance(answer, tuple)
            else str(answer)
        )
        said = self._cleaned(said)
        row = {**sample.fields, "prediction": said, "reference": truth, "obj_gold": truth}
        (reply,) = yield from ask(Generate(self._prompt(row), max_tokens=self.max_tokens, role="judge"))
        return {self.name: self._verdict(reply.text, said, truth)}

    def _cleaned(self, said: str) -> str:
        if not self._clean:
            return said
        from kshot.configs.answers import cleaner

        return str(cleaner(self._clean, "judge", {})(said))

    def _prompt(self, row: Mapping[str, Any]) -> Prompt:
        reader = {"input_columns": list(row), "output_column": None}
        infer = {"prompt_template": self._template, "retriever": {}, "inferencer": {"type": "GenInferencer"}}
        rows = read_rows(reader, {"train": [], "test": [row]}, strict=False, abbr="judge")
        messages = render(reader, infer, rows, [[]], strict=False).chat(0, None)
        return Prompt(messages=tuple(Message(each["role"], each["content"]) for each in messages))

    def _verdict(self, reply: str, said: str, truth: Any) -> float:
        own = self._read.get("type")
        if isinstance(own, Own):
            return self._own_verdict(own, reply, said, truth)
        if self.name == "Rating":
            rating = parse_rating(reply)
            if rating is None:
                raise AskFailed(Failed("judge", f"no rating in the judge's reply: {reply[-200:]!r}"))
            return rating
        found = _LETTER.findall(reply)
        if not found:
            raise AskFailed(Failed("judge", f"neither A nor B in the judge's reply: {reply[-200:]!r}"))
        chosen = found[0] if "last" not in short(own or "") else found[-1]
        return _GRADES.get(chosen, 0.0)

    def _own_verdict(self, own: Own, reply: str, said: str, truth: Any) -> float:
        """Let the config's own function read the verdict: it takes all judgements, by number, and gives figures."""
        found = own({"0": {"prediction": reply, "gold": truth, "origin_prompt": said}}, "")
        if isinstance(found, Mapping):
            figures = [v for v in found.values() if isinstance(v, (int, float)) and not isinstance(v, bool)]
            found = figures[0] if figures else None
        if not isinstance(found, (int, float)):
            raise DataError(f"{own.__name__} gave no figure for the judge's reply")
        return float(found)

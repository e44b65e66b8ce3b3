"""LLM judges of configs: a template with the prediction in it is put to the judge, and its replies become figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.configs.answers import Cleaner, cleaner, one_cleaned
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.judge_readings import reading_of
from kshot.configs.evaluators.scores import SeesRows
from kshot.configs.evaluators.tallies import Tally, gold_of
from kshot.configs.foreign_template import with_foreign_templates
from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.reasoning import whole_text
from kshot.core.records import Generate, Message, Prompt, Request, RequestGenerator, Row, Sample, ask
from kshot.metrics import Metric
from kshot.metrics.judge import PLACEHOLDER

_MAX_TOKENS = 1024


class JudgeEvaluator(SeesRows):
    """Figures of a judge's replies, as ``reading`` makes them: it scores the reply in place of the answer.

    The template is filled with the row's columns, ``prediction``, ``reference`` and ``obj_gold``. The requests have the
    role ``judge``.
    """

    def __init__(
        self,
        template: Any,
        reading: Metric,
        *,
        clean: Cleaner | None = None,
        clean_reply: Sequence[Cleaner] = (),
        max_tokens: int = _MAX_TOKENS,
        several: bool = False,
        whole_replies: bool = False,
    ) -> None:
        """Ask by a template. ``clean`` is for the answer, ``clean_reply`` for the judge's reply.

        ``several``: the reference has a list of prompts, and the judge is asked them all. ``whole_replies``: thoughts
        are part of a reply, as in the projects whose configs these are; ``clean_reply`` may take them away.
        """
        self.whole_replies = whole_replies
        self.template = dict(template) if isinstance(template, Mapping) else template  # a home's is an object
        self.reading, self.max_tokens, self.several = reading, max_tokens, several
        self._clean, self._clean_reply = clean, tuple(clean_reply)

    def __repr__(self) -> str:
        """Show what reads the replies."""
        return f"JudgeEvaluator({self.reading!r})"

    # ---- the figures are those of the replies ----

    @property
    def measures(self) -> Sequence[Measure]:
        """Those of the replies, of which several may be averaged."""
        return [replace(measure, binary=False) for measure in self.reading.measures]

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to what reads the replies."""
        if isinstance(self.reading, SeesRows):
            self.reading.see(samples)

    # ---- asking ----

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about one answer."""
        replies = yield from self.replies(sample, answer)
        found = [self.reading.score(sample, reply) for reply in replies]
        return found[0] if len(found) == 1 else added(found)

    def replies(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about one answer, and return its replies, cleaned up."""
        return (yield from self.asked(self.judge_requests(sample, answer)))

    def asked(self, requests: Sequence[Request]) -> RequestGenerator:
        """Ask the judge, and return its replies, cleaned up."""
        given = yield from ask(*requests)
        texts = []
        for reply in given:
            text: Any = whole_text(reply) if self.whole_replies else reply.text
            for clean in self._clean_reply:
                text = one_cleaned(clean, text)
            texts.append(text)
        return texts

    def judge_requests(self, sample: Sample, answer: Any = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        turns = [self.cleaned(each) for each in answer] if isinstance(answer, (list, tuple)) else []
        text = "\n\n".join(turns) if turns else self.cleaned(answer)
        rounds = {f"prediction_r{number}": each for number, each in enumerate(turns, 1)}
        gold = gold_of(sample)
        asked = [text]
        if self.several and isinstance(gold, Mapping) and gold.get("judge_prompt_list"):
            asked = [str(prompt).replace("{prediction}", text) for prompt in gold["judge_prompt_list"]]
        return [self.request(sample, each, gold=gold, **rounds) for each in asked]

    def request(self, sample: Sample, text: str, *, gold: Any, **more: Any) -> Request:
        """Return what the judge is asked about a text; ``more`` are columns beside those of the row."""
        own = {"prediction": text, "model_answer": text, "reference": gold, "obj_gold": gold}
        prompt = self._prompt({**_word_counts(text), **sample.fields, **more, **own})
        return Generate(prompt, max_tokens=self.max_tokens, role="judge")

    def cleaned(self, answer: Any) -> str:
        """Return the text of an answer that the judge sees."""
        return str(one_cleaned(self._clean, answer) if self._clean else answer)

    def _prompt(self, row: Row) -> Prompt:
        reader = {"input_columns": list(row), "output_column": None}
        infer = {"prompt_template": self.template, "retriever": {}, "inferencer": {"type": "GenInferencer"}}
        rows = read_rows(reader, {"train": [], "test": [row]}, strict=False, abbr="judge")
        messages = render(reader, infer, rows, [[]], strict=False).chat(0, None)
        if not all(isinstance(each["content"], str) for each in messages):
            raise DataError("the judge's prompt holds images, and kshot asks judges about text alone")
        return Prompt(messages=tuple(Message(each["role"], each["content"]) for each in messages))


def _word_counts(text: str) -> dict[str, int]:
    return {
        "prediction_en_word_count": len(re.findall(r"\b[a-zA-Z]+\b", text)),
        "prediction_cn_word_count": len(re.findall(r"[\u4e00-\u9fff]", text)),
    }


def added(found: Sequence[Any]) -> dict[str, Any]:
    """Return the values of several replies about one answer: counts are added, others averaged."""
    sums: dict[str, Any] = {}
    for name in found[0]:
        values = [each[name] for each in found]
        tuples = [value for value in values if isinstance(value, tuple)]
        sums[name] = tuple(sum(column) for column in zip(*tuples, strict=True)) if tuples else sum(values) / len(values)
    return sums


def judge_of(options: Mapping[str, Any], scope: Scope, framework: str, reading: Metric | None = None) -> JudgeEvaluator:
    """Return the judge that an ``LMEvaluator`` or a ``GenericLLMEvaluator`` describes; ``reading`` replaces its own."""
    template = options.get("prompt_template")
    if not isinstance(template, Mapping):
        raise DataError("the judge has no prompt_template", where=scope.where)
    judge = options.get("judge_cfg")
    cfg = judge if isinstance(judge, Mapping) else {}
    wanted, after = options.get("pred_postprocessor"), cfg.get("pred_postprocessor")
    several = bool(options.get("multi_eval"))
    made = reading or reading_of(options.get("dict_postprocessor") or options.get("postprocessor"), template, scope)
    if several and not isinstance(made, Tally):
        raise DataError("multi_eval needs figures that are sums", where=scope.where, hint="Leave multi_eval out.")
    most = cfg.get("max_out_len") or options.get("max_tokens")
    return JudgeEvaluator(
        _usable(template, scope),
        made,
        clean=cleaner(wanted, scope) if wanted else None,
        clean_reply=[cleaner(after, scope)] if after else [],
        max_tokens=most if isinstance(most, int) and not isinstance(most, bool) else _MAX_TOKENS,
        several=several,
        whole_replies=bool(framework),
    )


def _usable(template: Mapping[str, Any], scope: Scope) -> Any:
    """Return a judge's template; one of a home is an object."""
    return with_foreign_templates({"prompt_template": template}, scope)["prompt_template"]


def judge_of_inference(
    config: Mapping[str, Any], eval_cfg: Mapping[str, Any], scope: Scope, reading: Metric
) -> JudgeEvaluator:
    """Return the judge that an entry's ``judge_infer_cfg`` describes; the entry's clean-up is for the judge's reply."""
    model, template = config.get("judge_model"), config.get("prompt_template")
    if not isinstance(template, Mapping):
        raise DataError("judge_infer_cfg has no prompt_template", where=scope.where)
    cfg = model if isinstance(model, Mapping) else {}
    steps = [cfg.get("pred_postprocessor"), eval_cfg.get("pred_postprocessor")]
    return JudgeEvaluator(
        _usable(template, scope),
        reading,
        clean_reply=[cleaner(step, scope) for step in steps if step],
        max_tokens=cfg.get("max_out_len") or _MAX_TOKENS,
        whole_replies=True,
    )


class SaysA(Metric):
    """Share of a judge's replies that are A, once they are cleaned up."""

    name = "accuracy"
    bounds = (0.0, 100.0)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - the reply tells all
        """Look at the reply."""
        return 100.0 if prediction == "A" else 0.0


def _judge(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:
    return judge_of(options, scope, name.framework)


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("GenericLLMEvaluator", "LMEvaluator"), _judge),
    "LLMJudgeCorrectEvaluator": plain(SaysA),
}

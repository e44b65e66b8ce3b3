"""LLM judges of configs: a template with the prediction in it is put to the judge, and its replies become figures."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.configs.answers import Cleaner, cleaner, one_cleaned
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.evaluators.factories import Factory, compared
from kshot.configs.evaluators.judge_readings import Wins, own_verdict, reading_of
from kshot.configs.evaluators.repeats import is_right
from kshot.configs.evaluators.scores import Counts, SeesRows, Tally, gold_of, ratio
from kshot.configs.foreign_template import with_foreign_templates
from kshot.configs.loaders.places import check_place, place_of
from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.reasoning import whole_text
from kshot.core.records import Generate, Gold, Message, Prompt, Request, RequestGenerator, Row, Sample, ask
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
        counts = {
            "prediction_en_word_count": len(re.findall(r"\b[a-zA-Z]+\b", text)),
            "prediction_cn_word_count": len(re.findall(r"[\u4e00-\u9fff]", text)),
        }
        own = {"prediction": text, "model_answer": text, "reference": gold, "obj_gold": gold}
        prompt = self._prompt({**counts, **sample.fields, **more, **own})
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


# ---- a rule first, then a judge ----

Maker = Callable[[Mapping[str, Any], Scope], Metric]
"""Makes the metric that a dict with ``type`` names."""


class Cascade(Tally):
    """Accuracy of a rule and a judge together, and what each of them says alone.

    ``parallel``: the judge sees all answers; else only those that the rule calls wrong. The judge calls an answer right
    by the reply ``A``, or one that begins with CORRECT.
    """

    name = mean = "accuracy"
    names = (
        *("accuracy", "total_samples", "rule_correct", "rule_accuracy", "llm_evaluated", "llm_correct", "llm_accuracy"),
        *("final_correct", "final_accuracy"),
    )

    def __init__(
        self, rule: Metric, judge: JudgeEvaluator, *, clean: Cleaner | None = None, parallel: bool = True
    ) -> None:
        self.rule, self.judge, self.parallel = rule, judge, parallel
        self._clean = clean

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to the rule."""
        if isinstance(self.rule, SeesRows):
            self.rule.see(samples)

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:  # type: ignore[override]  # it asks a judge
        """Apply the rule, then ask the judge where it is wanted."""
        right = self._by_rule(sample, answer)
        asked, agreed = self.parallel or not right, False
        if asked:
            (reply,) = yield from self.judge.replies(sample, answer)
            said = str(reply).strip().upper()
            agreed = said == "A" or said.startswith("CORRECT")
        counts = (1.0, float(right), float(asked), float(agreed), float(right or agreed))
        alone = {"accuracy": 100 * counts[-1]}
        return {name: alone.get(name, counts) for name in self.names}

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        return self.judge.judge_requests(sample, answer)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return shares in percent, and the counts."""
        rows, rule, asked, judged, right = sums
        return {
            "accuracy": 100 * ratio(right, rows),
            "total_samples": rows,
            "rule_correct": rule,
            "rule_accuracy": 100 * ratio(rule, rows),
            "llm_evaluated": asked,
            "llm_correct": judged,
            "llm_accuracy": 100 * ratio(judged, asked),
            "final_correct": right,
            "final_accuracy": 100 * ratio(right, rows),
        }

    def _by_rule(self, sample: Sample, answer: Any) -> bool:
        cleaned = one_cleaned(self._clean, answer) if self._clean else answer
        scored = self.rule.score(sample, cleaned)
        if not isinstance(scored, Mapping):
            raise DataError("the rule_evaluator of a cascade asks a judge itself", hint="Name one that compares.")
        return is_right(self.rule.measures[0], scored)


def cascade_of(name: Name, options: Mapping[str, Any], scope: Scope, make: Maker) -> Cascade:
    """Return the cascade that a config describes; ``make`` makes its rule of a dict with ``type``."""
    rule, judge = options.get("rule_evaluator"), options.get("llm_evaluator")
    if not isinstance(rule, Mapping) or not isinstance(judge, Mapping):
        raise DataError(
            "CascadeEvaluator needs rule_evaluator and llm_evaluator, each a dict with type",
            where=scope.where,
            hint="A sample_score_fn alone is not supported.",
        )
    clean = rule.get("pred_postprocessor")
    bare = {name: value for name, value in rule.items() if name != "pred_postprocessor"}
    return Cascade(
        make(bare, scope),
        judge_of(judge, scope, name.framework, own_verdict()),
        clean=cleaner(clean, scope) if clean else None,
        parallel=bool(options.get("parallel", True)),
    )


# ---- comparing with a base model ----

_COMPARED = "model"
"""What the evaluated model is called in the reference that the figures are grouped by."""
_ORDER_SEED = 666


class PairJudge(JudgeEvaluator):
    """A judge that sees the base model's answer and the evaluated one, as ``prediction`` and ``prediction2``.

    ``order``: ``double`` asks about both orders, ``random`` about one that is drawn for each row, as OpenCompass draws
    it; else the base model comes first.
    """

    def __init__(self, judge: JudgeEvaluator, base: str, replies: Sequence[Sequence[str]], order: str | None) -> None:
        """``replies``: those of the base model, each with one text for a turn."""
        super().__init__(judge.template, judge.reading, max_tokens=judge.max_tokens, whole_replies=judge.whole_replies)
        self._clean, self._clean_reply = judge._clean, judge._clean_reply  # noqa: SLF001 - it is the same judge
        self.base, self.order = base, order
        self._replies, self._draws = list(replies), random.Random(_ORDER_SEED)  # noqa: S311 - no secret
        self._drawn: list[bool] = []

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to what reads the replies; each needs a reply of the base model."""
        given = list(samples)
        if missing := [sample.position for sample in given if sample.position >= len(self._replies)]:
            raise DataError(
                f"the base model {self.base} has {len(self._replies)} replies, and none to row {missing[0]}"
            )
        super().see([self._paired(sample, swapped=False) for sample in given])

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask about the pair, in one order or in both."""
        orders = self._orders(sample.position)
        requests = [self._pair_request(sample, answer, swapped=swapped) for swapped in orders]
        replies = yield from self.asked(requests)
        pairs = zip(orders, replies, strict=True)
        return added([self.reading.score(self._paired(sample, swapped=s), reply) for s, reply in pairs])

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer."""
        return [self._pair_request(sample, answer, swapped=each) for each in self._orders(sample.position)]

    def _orders(self, position: int) -> list[bool]:
        """Return whether the evaluated answer comes first, for each time that the judge is asked."""
        while len(self._drawn) <= position:
            pair = [False, True]
            self._draws.shuffle(pair)
            self._drawn.append(pair[0])
        return [False, True] if self.order == "double" else [self.order == "random" and self._drawn[position]]

    def _paired(self, sample: Sample, *, swapped: bool) -> Sample:
        gold = gold_of(sample)
        names = (_COMPARED, self.base) if swapped else (self.base, _COMPARED)
        told = dict(gold) if isinstance(gold, Mapping) else {}
        told |= {"answer1": names[0], "answer2": names[1], "base_models": [self.base]}
        return replace(sample, target=Gold(told))

    def _pair_request(self, sample: Sample, answer: Any, *, swapped: bool) -> Request:
        turns = answer if isinstance(answer, (list, tuple)) else [answer]
        pair = [self._replies[sample.position], [self.cleaned(each) for each in turns]]
        first, second = reversed(pair) if swapped else pair
        rounds = {f"prediction_r{number}": each for number, each in enumerate(first, 1)}
        rounds |= {f"prediction1_r{number}": each for number, each in enumerate(second, 1)}
        gold = gold_of(self._paired(sample, swapped=swapped))
        return self.request(sample, "\n\n".join(first), gold=gold, prediction2="\n\n".join(second), **rounds)


def with_base(metric: Metric, entry: DatasetEntry) -> Metric:
    """Return a judge of pairs with the replies of the base model that the entry names; other metrics as they are."""
    given = entry["given_pred"]
    if not isinstance(metric, JudgeEvaluator) or not isinstance(metric.reading, Wins):
        return metric
    body = given[0] if isinstance(given, (list, tuple)) else given
    if not isinstance(body, Mapping) or not {"abbr", "path"} <= set(body):
        raise DataError("given_pred must name abbr and path of the base model's replies", where=entry.place)
    file = place_of(entry, str(body["path"])) / f"{entry.abbr}.json"
    check_place(entry, file)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        replies = [_turns(found[str(number)]["prediction"]) for number in range(len(found))]
    except OSError as exc:
        raise DataError(
            f"the base model's replies cannot be read: {exc.strerror or exc}",
            where=f"{entry.place}, {file}",
            hint="given_pred names the folder; the file is called like the entry.",
        ) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise DataError('the file must have {"0": {"prediction": …}, …}', where=str(file)) from exc
    return PairJudge(metric, str(body["abbr"]), replies, entry.get("infer_order"))


def _turns(said: Any) -> list[str]:
    """Return what a base model said: one text, or that of each turn of a conversation."""
    turns = said if isinstance(said, list) else [said]
    return [str(each["assistant"]) if isinstance(each, Mapping) else str(each) for each in turns]


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(
        ("GenericLLMEvaluator", "LMEvaluator"), lambda name, options, scope: judge_of(options, scope, name.framework)
    ),
    "LLMJudgeCorrectEvaluator": compared(lambda reply, _: bool(reply == "A")),
}

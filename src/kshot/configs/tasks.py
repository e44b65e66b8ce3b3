"""From an entry of a config and its rows to a Task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kshot.configs.answers import cleaner, extraction, one_cleaned
from kshot.configs.data import copies_of, without_copies
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.evaluators.foreign import HomeEvaluator
from kshot.configs.evaluators.judges import judge_of_inference, with_base
from kshot.configs.evaluators.making import evaluator, own_cleanup
from kshot.configs.evaluators.repeats import Form, Repeated, repeated
from kshot.configs.evaluators.scores import CorpusMetric, SeesRows
from kshot.configs.function_calls import FUNCTION_MODE, function_calls, function_turns
from kshot.configs.home import Home
from kshot.configs.inference import (
    LENGTH_COLUMN,
    LOSS_MODES,
    ConfigMethod,
    answer_to,
    as_prompt,
    conversation,
    generate_by_row,
    left_out,
    probabilities,
    sampling,
    scored_texts,
    scoring_method,
    with_attacked_prompt,
)
from kshot.configs.media import PromptMedia, holds_media
from kshot.configs.rendering import PromptKind, located_in_row
from kshot.configs.rows import Splits
from kshot.configs.settings import ConfigSettings
from kshot.configs.values import repeats, whole_numbers
from kshot.core.errors import DataError
from kshot.core.metric import Metric
from kshot.core.records import Gold, Sample
from kshot.core.task import Task
from kshot.methods import generate, repeat
from kshot.methods.generation import Extract, sampled_anew
from kshot.metrics import PassAtK
from kshot.metrics.passatk import check_programs, programs_needed
from kshot.retrievers.base import is_provisional

_THOUGHTS_KEPT = "--keep-thoughts: clean-ups, evaluators and later turns get the model's thoughts, too"
_FORMS: Mapping[str, Form] = {"opencompass": "opencompass", "ais_bench": "ais_bench"}
_HOME_ROLES = {"user": "HUMAN", "assistant": "BOT", "system": "SYSTEM"}


class ConfigTask:
    """An entry with its rows, under settings; ``task`` compiles it."""

    def __init__(
        self,
        entry: DatasetEntry,
        splits: Splits,
        settings: ConfigSettings | None = None,
        *,
        model_cfg: Mapping[str, Any] | None = None,
        retriever: Mapping[str, Any] | None = None,
        count: Callable[[str], int] | None = None,
        media_places: Sequence[Path] = (),
        run: int = 0,
    ) -> None:
        """Choose examples and check templates; ``model_cfg`` is a config's model entry (meta template, lengths).

        ``media_places``: files and folders that the user named; images, sounds and videos of rows may lie there too.
        ``run``: so many entries before it ask the same; its sampled replies are new ones.
        """
        self._run = run
        self.entry, self.settings, self.model_cfg = entry, settings or ConfigSettings(), model_cfg or {}
        self.kind: PromptKind = "chat" if self.settings.model_type == "chat" else "text"
        self.meta: Mapping[str, Any] | None = self.model_cfg.get("meta_template")
        splits = with_attacked_prompt(entry, without_copies(entry, splits))
        self.rendered, self._retriever = entry.prepare(splits, retriever=retriever, count=count)
        self.mode = entry.mode
        self._media = PromptMedia(entry, media_places)
        if holds_media(self.rendered.plan.prompt_template):
            self.kind = "chat"  # text has no place for them
        votes = entry.inferencer.get("sc_size") or self.settings.sample_num
        asked = entry.repeats * copies_of(entry)  # one of them is 1
        self.times = asked if asked > 1 else repeats(votes, "sc_size", entry.place)
        self._copies = entry.repeats  # they stand among the rows; one sample asks for all of them
        self.notes: list[str] = [*entry.notes, *([note] if (note := left_out(entry)) else [])]

    def task(self, *, scored: bool = True) -> Task[Any]:
        """Compile it. ``scored=False``: for its prompts alone, so that kshot need not have its evaluator."""
        metrics = self._metrics() if scored else ()
        if not scored:
            self.entry = self.entry.with_body(eval_cfg={})
        samples = self.samples()
        self._show_rows(metrics, samples)
        keeps = self.settings.keep_thoughts and self.mode not in (*LOSS_MODES, "clp")
        return Task(
            self.entry.abbr,
            samples,
            self._template,
            sampled_anew(self._method(metrics), self._run * self.times),
            metrics,
            notes=(*self.notes, *([_THOUGHTS_KEPT] if keeps else [])),
            facts={"retriever": self._retriever.facts, "mode": "strict" if self.entry.strict else "compat"}
            | (self._code_facts() if self.entry.used else {}),
            labels=self._code_labels() if self.entry.used else {},
            keep_thoughts=keeps,
            provisional=is_provisional(self._retriever),
        )

    def check_scoring(self, *, rows: bool) -> tuple[Metric, ...]:
        """Make everything that scoring needs; ``rows``: they are the entry's own, so evaluators may look at them."""
        metrics = self._metrics()
        self._method(metrics)
        if rows:
            self._show_rows(metrics, self.samples())
        else:
            self._reference_cleaner()
        return metrics

    def _show_rows(self, metrics: Sequence[Metric], samples: Sequence[Sample]) -> None:
        """Let metrics look at the rows, and those of a home that want them at the prompts."""
        for metric in metrics:
            if isinstance(metric, HomeEvaluator):
                metric.answer_of = answer_to(self.rendered, self._extraction())
                metric.prompt_of = self._prompt_shown if metric.wants_prompts else None
            if isinstance(metric, SeesRows):
                metric.see(samples)

    def _prompt_shown(self, sample: Sample) -> Any:
        """Return the prompt of a sample as the homes keep it: text, or a list of turns."""
        place = self.rendered.rows.first_copy(sample.position)
        if self.rendered.mode == "multiturn" or self.rendered.labels is not None:
            return ""
        if self.kind == "text":
            return self.rendered.text(place, self.meta)
        return [
            {"role": _HOME_ROLES.get(each["role"], each["role"]), "prompt": each["content"]}
            for each in self.rendered.chat(place, self.meta)
        ]

    def _code_facts(self) -> dict[str, Any]:
        """Return the digest of the code of each home that the entry uses, and what it uses of it."""
        parts: dict[Home, list[str]] = {}
        for key, home in self.entry.used.items():
            parts.setdefault(home, []).append(" ".join(key))
        return {"home": {home.framework: {"digest": home.digest, "parts": sorted(own)} for home, own in parts.items()}}

    def _code_labels(self) -> dict[str, Any]:
        """Return what the table says of the code of homes: which parts of the task it ran."""
        kinds: dict[str, dict[str, None]] = {}
        for (part, _), home in self.entry.used.items():
            kinds.setdefault(home.title, {})[part] = None
        return {"code": "; ".join(f"{', '.join(parts)} by {title}" for title, parts in kinds.items())}

    def samples(self) -> list[Sample]:
        """Return a sample for each test row; its position is the row's number."""
        rendered, gold = self.rendered, self.rendered.gold
        clean = self._reference_cleaner()
        size = len(rendered) // self._copies
        size = size if self.settings.limit is None else min(size, self.settings.limit)
        if not size:
            raise DataError("there are no rows to evaluate", where=self.entry.place)
        rows = [dict(rendered.rows.test[rendered.rows.first_copy(position)]) for position in range(size)]
        return [
            Sample(
                str(position),
                row,
                None if gold is None else Gold(clean(gold[rendered.rows.first_copy(position)])),
                position=position,
                row=row,
            )
            for position, row in enumerate(rows)
        ]

    def _reference_cleaner(self) -> Callable[[Any], Any]:
        config = self.entry.eval_cfg.get("dataset_postprocessor")
        clean = cleaner(config, self.entry.scope) if config else None
        last = self.rendered.mode == "multiturn" and self.rendered.plan.infer_mode == "last"

        def cleaned(gold: Any) -> Any:
            if last and isinstance(gold, (list, tuple)):
                gold = gold[-1:]
            if clean is None:
                return gold
            return [clean(each) for each in gold] if isinstance(gold, (list, tuple)) else clean(gold)

        return cleaned

    # ---- inference ----

    def _template(self, sample: Sample, _: Sequence[Sample]) -> Any:
        rendered = self.rendered
        place = rendered.rows.first_copy(sample.position)
        system = self.settings.system_prompt or self.model_cfg.get("system_prompt")
        if rendered.mode == "multiturn":
            return place, system
        if self.mode == FUNCTION_MODE:
            row = rendered.rows.test[place]
            return function_turns(row, f"{self.entry.place}, row {place}"), system
        if self.mode in LOSS_MODES:
            return scored_texts(self.entry, rendered, place, kind=self.kind, meta=self.meta, system=system)
        shown = rendered.text(place, self.meta) if self.kind == "text" else rendered.chat(place, self.meta)
        with located_in_row(f"{self.entry.place}, row {place}"):
            return as_prompt(shown, system, self._media.content)

    def _method(self, metrics: Sequence[Metric]) -> ConfigMethod:
        entry = self.entry
        if self.mode in LOSS_MODES:
            return scoring_method(entry, self.rendered.labels)
        if self.mode == "clp":
            return probabilities(entry, all_options=any(isinstance(each, CorpusMetric) for each in metrics))
        options, note = sampling(entry, self.settings, self.model_cfg, self.times)
        if note:
            self.notes.append(note)
        extract = self._extraction()
        method: ConfigMethod = (
            function_calls(extract, options, self.kind)
            if self.mode == FUNCTION_MODE
            else conversation(self.rendered, extract, options, self.kind, self.meta, read=self._media.content)
            if self.rendered.mode == "multiturn"
            else generate_by_row(extract, options)
            if self._limits_by_row
            else generate(extract, **options)
        )
        if self.times == 1:
            return method
        all_count = any(isinstance(metric, Repeated) for metric in metrics)  # avg@n is a mean of n
        return repeat(method, self.times, at_least=self.times if all_count else programs_needed(metrics))

    def _extraction(self) -> Extract:
        """Return the function from a reply to the answer; the evaluator may have a clean-up of its own."""
        entry = self.entry
        config, scope = dict(entry.eval_cfg), entry.scope
        if entry.get("judge_infer_cfg"):
            config.pop("pred_postprocessor", None)  # it is for the judge's reply
        extract = extraction(config, self.meta, self.model_cfg, scope)
        own = own_cleanup(config.get("evaluator"), scope)
        if own is None:
            return extract
        clean = cleaner(own, scope)

        def extracted(sample: Sample, reply: Any) -> Any:
            answer = extract(sample, reply)
            several = isinstance(answer, tuple)
            return tuple(one_cleaned(clean, each) for each in answer) if several else one_cleaned(clean, answer)

        return extracted

    @property
    def _limits_by_row(self) -> bool:
        named = LENGTH_COLUMN in self.rendered.rows.input_columns and not self.entry.strict
        return named and self.settings.max_tokens is None

    # ---- scoring ----

    def _metrics(self) -> tuple[Metric, ...]:
        entry, config = self.entry, self.entry.eval_cfg.get("evaluator")
        if config is None:
            raise DataError(
                "eval_cfg has no evaluator",
                where=entry.place,
                hint="Write eval_cfg=dict(evaluator=dict(type=AccEvaluator)).",
            )
        body = config if isinstance(config, Mapping) else {"type": config}
        metric = evaluator(body, entry.scope)
        if entry.get("given_pred"):
            metric = with_base(metric, entry)
        if entry.get("judge_infer_cfg"):
            metric = judge_of_inference(entry["judge_infer_cfg"], entry.eval_cfg, entry.scope, metric)
        if self.rendered.mode == "multiturn":
            metric.binary = False  # the turns of a conversation are averaged
        ks = whole_numbers(entry.get("k"), "k", entry.place)
        ks = ks if entry.repeats > 1 else []
        check_programs([metric])
        if isinstance(metric, PassAtK):
            wanted = self.settings.pass_at_k or ks or [k for k in metric.k if k <= self.times] or [1]
            return (metric.with_k(wanted),)
        if copies_of(entry) > 1:
            return (repeated(metric, self.times, form="copies"),)
        form: Form | None = _FORMS.get(entry.scope.name(body.get("type")).framework)
        if entry.repeats > 1 and form:
            return (repeated(metric, self.times, ks, form),)
        if entry.repeats == 1:
            return (metric,)
        if isinstance(metric, CorpusMetric):
            raise DataError("n cannot be combined with a metric of the whole corpus", where=entry.place)
        return (repeated(metric, self.times, ks),)


def task_of(entry: DatasetEntry, splits: Splits, settings: ConfigSettings | None = None, **more: Any) -> Task[Any]:
    """Compile an entry with its rows to a Task; ``more`` are the options of ``ConfigTask``."""
    return ConfigTask(entry, splits, settings, **more).task()

"""From a task file with its documents to a Task, whose answers have the values that were measured with them.

A document is put to a model as likelihoods of texts, as a document by itself, or for replies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.metric import Metric
from kshot.core.records import (
    AnyOption,
    AskFailed,
    Explained,
    Failed,
    Generate,
    Gold,
    Loglik,
    Message,
    Option,
    Prompt,
    RequestGenerator,
    RollingStart,
    Sample,
    Target,
    ask,
)
from kshot.core.settings import GenerationSettings
from kshot.core.task import Task
from kshot.lmeval.documents import Documents
from kshot.lmeval.figures import NO_VALUE, DocumentFigure, FigureSpec, UnlistedFigures, figure_of
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import Functions, references
from kshot.lmeval.metrics import TaskMetric, check_metric, task_metrics
from kshot.lmeval.pipelines import Pipeline, pipelines
from kshot.lmeval.scoring import (
    NO_OPTION,
    PipelineScores,
    aggregation_of,
    gold_index,
    named_metrics,
    pipeline_scores,
)
from kshot.lmeval.settings import LmevalSettings
from kshot.methods.likelihood import best

DEFAULT_MAX_TOKENS = 256
"""lm-eval's limit where a task names none."""
RequestForms: TypeAlias = Sequence[Mapping[str, Any]]
"""The requests of one document, as ``lmeval.requests`` gives them."""
DocumentMethod: TypeAlias = Callable[[Sample, RequestForms], RequestGenerator]
"""Asks about one document; the answer has, for each request, the responses in lm-eval's form."""
_NUMBERS = ("top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size")
"""Options of a generation that kshot passes on beside those of the common form."""
_WHOLE_NUMBERS = ("top_k", "no_repeat_ngram_size")


def likelihood_method(config: TaskConfig) -> DocumentMethod:
    """Ask for the likelihood of each text after its context; texts after one context share a request."""

    def method(sample: Sample, forms: RequestForms) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
        places: dict[tuple[Prompt, RollingStart | None], list[int]] = {}
        for place, form in enumerate(forms):
            places.setdefault(_before(form), []).append(place)
        replies = yield from ask(
            *(
                Loglik(prompt, tuple(str(forms[place]["continuation"]) for place in own), rolling=start)
                for (prompt, start), own in places.items()
            )
        )
        found: list[Any] = [None] * len(forms)
        for own, reply in zip(places.values(), replies, strict=True):
            for place, each in zip(own, reply.likelihoods, strict=True):
                found[place] = [(each.logprob, each.greedy)] * config.repeats
        return found

    return method


def _before(form: Mapping[str, Any]) -> tuple[Prompt, RollingStart | None]:
    """Return what stands before a text; a first token is predicted after BOS, else EOS, as in lm-eval."""
    if form["type"] == "loglikelihood_rolling":
        return Prompt(), "lm-eval"
    if not form["context"]:
        return Prompt(), "auto"
    return replace(prompt_of(form["context"]), rules="lm-eval"), None


def prompt_of(context: Any) -> Prompt:
    """Return a context as a record: a text, or turns, which become a text by lm-eval's rules."""
    if isinstance(context, str):
        return Prompt(context)
    messages = tuple(Message(turn["role"], str(turn["content"])) for turn in context)
    return Prompt(messages=messages, opened=bool(messages) and messages[-1].role == "assistant", rules="lm-eval")


def generation_method(config: TaskConfig, settings: GenerationSettings, seed: int) -> DocumentMethod:
    """Ask for as many replies as the task has ``repeats``; without sampling they are all the same, and asked once."""
    given = settings.sampling()

    def method(sample: Sample, forms: RequestForms) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
        (form,) = forms
        options = sampling(config, form, given, seed)
        times = config.repeats if options["temperature"] else 1
        prompt = prompt_of(form["context"])
        replies = yield from ask(*(Generate(prompt, replica=number, **options) for number in range(times)))
        texts = [reply.text for reply in replies]
        return [texts if len(texts) == config.repeats else texts * config.repeats]

    return method


def sampling(config: TaskConfig, form: Mapping[str, Any], of_run: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the fields of ``Generate``: those of the task, or the user's (``of_run``)."""
    given = config.generation_kwargs or {}
    chosen: dict[str, Any] = {
        "max_tokens": form["max_gen_toks"] or DEFAULT_MAX_TOKENS,
        "temperature": form["temperature"],
        "stop": tuple(form["until"]),
        **{name: _number(given[name], name, config) for name in _NUMBERS if given.get(name) is not None},
    }
    chosen |= of_run
    return {**chosen, "seed": seed} if chosen["temperature"] else chosen


def _number(value: Any, name: str, config: TaskConfig) -> float:
    try:
        return int(value) if name in _WHOLE_NUMBERS else float(value)
    except (TypeError, ValueError) as exc:
        where = config.where("generation_kwargs")
        raise DataError(f"{name} of generation_kwargs is {value!r:.60}, which is no number", where=where) from exc


@dataclass
class DocumentAnswers:
    """Scores the responses to documents, and has the figures of all of them.

    With several pipelines the name of a figure is lm-eval's own, ``metric,filter``; with one it is the metric.
    """

    config: TaskConfig
    functions: Functions
    documents: Documents
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By figure: lm-eval's metric and filter, and how many times lm-eval's figure it is."""

    def __post_init__(self) -> None:
        """Make the figures of the metrics that the task lists."""
        self._pipelines = pipelines(self.config)
        own = self.config.process_results is not None
        listed = task_metrics(self.config) if own else named_metrics(self.config, self.functions)
        metrics = [each for each in listed if not (own and each.function is not None)]
        if self.config.output_type == "generate_until" and not own:
            for metric in metrics:
                check_metric(metric, self.config)
        self.figures: dict[str, DocumentFigure] = {}
        for pipeline in self._pipelines:
            for metric in metrics:
                name = self._name(metric.name, pipeline)
                self.figures[name] = self._figure(name, metric, pipeline)
        self.unlisted = UnlistedFigures(self._unlisted) if own or any(each.function for each in metrics) else None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All figures, for a Task."""
        return (*self.figures.values(), *([self.unlisted] if self.unlisted is not None else []))

    @property
    def at_once(self) -> bool:
        """Whether documents are scored together: a function sees all of them, or is called for all in one go."""
        config = self.config
        return any(True for _ in references([config.process_results, config.metric_list, config.filter_list]))

    def _name(self, metric: str, pipeline: Pipeline) -> str:
        return metric if len(self._pipelines) == 1 else f"{metric},{pipeline.name}"

    def _figure(self, name: str, metric: TaskMetric, pipeline: Pipeline) -> DocumentFigure:
        by_function = self.config.process_results is not None or metric.function is not None
        spec = FigureSpec(name, metric.name, metric.aggregation, metric.higher_is_better, by_function)
        figure = figure_of(self.config, self.functions, spec)
        self.labels[name] = {"lmeval_metric": metric.name, "filter": pipeline.name, "scale": figure.scale}
        return figure

    def _unlisted(self, name: str) -> DocumentFigure:
        """Make the figure of a name that a function gave."""
        pipeline = next(each for each in self._pipelines if name.endswith(f",{each.name}") or len(self._pipelines) == 1)
        metric = name if len(self._pipelines) == 1 else name.removesuffix(f",{pipeline.name}")
        aggregation = aggregation_of(self.config, self.functions, metric)
        return self._figure(name, TaskMetric(metric, None, {}, aggregation), pipeline)

    # ---- answers ----

    def one(self, place: int, responses: Sequence[Sequence[Any]]) -> Explained | Failed:
        """Score one document by itself."""
        (answer,) = self._answers([place], [responses])
        return answer

    def all(self, responses: Sequence[Any]) -> list[Any]:
        """Score all documents; ``responses`` has ``Failed`` where a document was not answered."""
        places = [place for place, each in enumerate(responses) if not isinstance(each, Failed)]
        answers = self._answers(places, [responses[place] for place in places]) if places else []
        scored = [each for each in answers if isinstance(each, Explained)]
        try:
            self._fit(scored)
        except DataError as exc:
            exc.where = exc.where or self.config.where("metric_list")
            raise
        found: list[Any] = list(responses)
        for place, answer in zip(places, answers, strict=True):
            found[place] = answer
        return found

    def _fit(self, scored: Sequence[Explained]) -> None:
        """Show the figures the values of all documents."""
        for name, figure in self.figures.items():
            figure.fit([each.values[name] for each in scored])
            self.labels[name]["scale"] = figure.scale
        if self.unlisted is not None:
            self.unlisted.fit([each.values[""] for each in scored])
            for name, figure in self.unlisted.figures.items():
                self.labels[name]["scale"] = figure.scale

    def _answers(self, places: Sequence[int], responses: Sequence[Any]) -> list[Explained | Failed]:
        scores = [pipeline_scores(self.documents, places, responses, pipeline) for pipeline in self._pipelines]
        return [self._answer(index, place, scores, responses[index]) for index, place in enumerate(places)]

    def _answer(self, index: int, place: int, scores: Sequence[PipelineScores], responses: Any) -> Explained | Failed:
        values: dict[str, Any] = dict.fromkeys(self.figures, NO_VALUE)
        others: dict[str, Any] = {}
        unlisted: dict[str, Any] = {}
        for pipeline, scored in zip(self._pipelines, scores, strict=True):
            own = scored.values[index]
            if isinstance(own, Failed):
                return own
            for metric, value in own.items():
                name = self._name(metric, pipeline)
                (values if name in self.figures else unlisted)[name] = value
                if len(self._pipelines) > 1:
                    others[name] = _bare(scored.results[index])
        values[""] = unlisted
        answer, rules, tied = self._shown(place, scores[0].results[index], responses)
        return Explained(answer, others={**rules, **others}, tied=tied, values=values)

    def _shown(
        self, place: int, results: Sequence[Any], responses: Sequence[Sequence[Any]]
    ) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
        """Return the answer that is shown, those by other rules, and the rules by which several options come first."""
        if self.config.output_type != "multiple_choice" or len(self._pipelines) > 1:
            return _bare(results), {}, ()
        options = self.documents.choices[place]
        logprobs = [float(each[0][0]) for each in responses][: len(options)]
        lengths = {"acc": [1] * len(options), "acc_norm": list(map(len, options))}
        lengths["acc_bytes"] = [len(option.encode("utf-8")) for option in options]
        first = {
            rule: best([logprob / max(length, 1) for logprob, length in zip(logprobs, own, strict=True)])
            for rule, own in lengths.items()
            if rule in self.figures
        }
        rules = {rule: found[0] for rule, found in first.items()}
        answer = rules.get("acc", best(logprobs)[0])
        tied = tuple(rule for rule, found in first.items() if len(found) > 1)
        return answer, rules if len(rules) > 1 else {}, tied


def _bare(results: Sequence[Any]) -> Any:
    """Return one filtered response as it is, several as a list, in a form that JSON has."""
    found = [list(each) if isinstance(each, tuple) else each for each in results]
    return found[0] if len(found) == 1 else found


def compiled(
    config: TaskConfig,
    functions: Functions,
    documents: Documents,
    requests: Sequence[RequestForms],
    settings: LmevalSettings,
    *,
    name: str | None = None,
    notes: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> Task[Any]:
    """Return the Task of a task file; ``requests`` are those of each document, without repeats.

    Documents are scored as they are answered, unless a function of the task takes part: it then gets all at once.
    """
    answers = DocumentAnswers(config, functions, documents)
    generates = config.output_type == "generate_until"
    method = generation_method(config, settings, settings.seed) if generates else likelihood_method(config)
    samples = _samples(config, documents)
    return Task(
        name=name or str(config.task or config.path.stem),
        samples=samples,
        template=lambda sample, _: requests[sample.position],
        method=method if answers.at_once else _scored_by_itself(method, answers),
        metrics=answers.metrics,
        finish=answers.all if answers.at_once else None,
        notes=(*notes, *_notes(config, samples)),
        facts=dict(facts or {}),
        metric_labels=answers.labels,
    )


def _scored_by_itself(method: DocumentMethod, answers: DocumentAnswers) -> DocumentMethod:
    def scored(sample: Sample, forms: RequestForms) -> RequestGenerator:
        responses = yield from method(sample, forms)
        found = answers.one(sample.position, responses)
        if isinstance(found, Failed):
            raise AskFailed(found)
        return found

    return scored


def _samples(config: TaskConfig, documents: Documents) -> list[Sample]:
    targets = _targets(config, documents)
    choices: Sequence[Any] = documents.choices if config.output_type == "multiple_choice" else [()] * len(targets)
    return [
        Sample(str(place), dict(doc), target, tuple(map(str, options)), position=place, row=dict(doc))
        for place, (doc, target, options) in enumerate(zip(documents.docs, targets, choices, strict=True))
    ]


def _targets(config: TaskConfig, documents: Documents) -> list[Target | None]:
    """Return what is right for each document, as far as it can be told without the task's functions."""
    if config.output_type == "multiple_choice" and config.process_results is None:
        return [_option(config, documents, place) for place in range(len(documents.docs))]
    found: Sequence[Any] = [None] * len(documents.docs)
    with suppress(DataError):  # process_results may know without doc_to_target
        found = documents.targets
    return [None if target is None else Gold(target) for target in found]


def _option(config: TaskConfig, documents: Documents, place: int) -> Target | None:
    golds = documents.texts if documents.multiple_inputs else documents.targets
    right = gold_index(golds[place], documents.choices[place], f"{config.path}, document {place}")
    if isinstance(right, list):
        return AnyOption(tuple(right))
    return None if right == NO_OPTION else Option(right)


def _notes(config: TaskConfig, samples: Sequence[Sample]) -> list[str]:
    """Say how many questions have no right option: they count as wrong, as in lm-eval."""
    if config.output_type != "multiple_choice" or config.process_results is not None:
        return []
    lost = [sample.id for sample in samples if sample.target is None]
    if not lost:
        return []
    shown = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")  # noqa: PLR2004 - so many fit a line
    return [f"{config.task}: {len(lost)} documents name none of their options as right, and count as wrong ({shown})"]

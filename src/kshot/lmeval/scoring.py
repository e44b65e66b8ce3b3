"""Scoring documents as lm-eval does: filters, the metrics of each document, and the figures of all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from kshot.core.errors import DataError
from kshot.core.records import Absent, Failed
from kshot.lmeval.documents import Documents
from kshot.lmeval.figures import aggregated
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import FunctionFault, Functions
from kshot.lmeval.metrics import MUTUAL_INFO, TaskMetric, check_metric, exact_matches, task_metrics
from kshot.lmeval.pipelines import Pipeline, filtered, pipelines

Values: TypeAlias = dict[str, Any]
"""The values of one document, by metric."""

NO_OPTION = -100
"""The gold where the target names none of the options: the document counts as wrong, as in lm-eval."""
UNKNOWN_GREEDY = Absent("it is not known which tokens are the likeliest")
"""The value where a server does not say whether a text is the greedy one."""


def choice_values(
    results: Sequence[Any], choices: Any, gold: Any, metrics: Sequence[str], *, multiple_targets: bool, where: str
) -> Values:
    """Return the values of a question: by each rule, whether the likeliest option is right.

    ``gold`` is what the task file gives: an index, the text of an option, or a list of indices.
    """
    measured = _likelihoods(results, where)
    logprobs, greedy = np.array([each[0] for each in measured]), [each[1] for each in measured]
    options = _options(choices, where)
    alone = None
    if MUTUAL_INFO in metrics and len(logprobs) == 2 * len(options):
        logprobs, alone = logprobs[: len(options)], logprobs[len(options) :]
    if len(logprobs) != len(options):
        raise DataError(f"{len(logprobs)} likelihoods were given for {len(options)} options", where=where)
    right = gold_index(gold, options, where)
    if multiple_targets and not isinstance(right, list):
        raise DataError(f"doc_to_target gave {gold!r:.80}; the first document has a list", where=where)
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty option has no length
        best = {
            "acc": logprobs,
            "acc_norm": logprobs / np.array([float(len(option)) for option in options]),
            "acc_bytes": logprobs / np.array([float(len(option.encode("utf-8"))) for option in options]),
            **({} if alone is None else {MUTUAL_INFO: logprobs - alone}),
        }
    chosen = {name: int(np.argmax(values)) for name, values in best.items()}
    rights = right if isinstance(right, list) else [right]
    values: Values = {name: float(index in rights) for name, index in chosen.items()}
    pair = (right, chosen["acc"])
    values |= {"f1": pair, "mcc": pair, "brier_score": (right, _softmax(logprobs))}
    values["likelihood"] = (right, logprobs.tolist())
    if "exact_match" in metrics:
        golds = [greedy[index] for index in rights if index != NO_OPTION]
        values["exact_match"] = UNKNOWN_GREEDY if None in golds else int(any(golds))
    return values


def gold_index(gold: Any, options: Sequence[str], where: str) -> int | list[int]:
    """Return the index of the right option, or of each right one; -100 stands for one that is not among them."""
    if isinstance(gold, list) and all(isinstance(each, int) for each in gold):
        return [each if each < len(options) else NO_OPTION for each in gold]
    if isinstance(gold, int):
        return gold if gold < len(options) else NO_OPTION
    if isinstance(gold, str):
        return options.index(gold) if gold in options else NO_OPTION
    raise DataError(f"the right option is {gold!r:.80}; it must be a number, a text or a list of numbers", where=where)


def _likelihoods(results: Sequence[Any], where: str) -> list[tuple[float, bool | None]]:
    """Return the log-likelihood of each request, and whether its text is the greedy one."""
    found = []
    for each in results:
        if not isinstance(each, list | tuple) or len(each) != 2:  # noqa: PLR2004 - a pair
            what = f"a likelihood is {each!r:.80}, not a pair of log-probability and flag"
            raise DataError(what, where=where, hint="Filters of tasks that are scored by likelihood end in take_first.")
        found.append((float(each[0]), None if each[1] is None else bool(each[1])))
    if not found:
        raise DataError("there is no likelihood for it", where=where)
    return found


def _options(choices: Any, where: str) -> list[str]:
    listed = list(choices) if isinstance(choices, list | tuple) else []
    if not listed or not all(isinstance(option, str) for option in listed):
        raise DataError(f"doc_to_choice gave {choices!r:.80}, which is no list of texts", where=where)
    return listed


def _softmax(logprobs: Any) -> list[float]:
    shifted = np.exp(logprobs - np.max(logprobs))
    found: list[float] = (shifted / shifted.sum()).tolist()
    return found


_EXACT = "exact_match"


@dataclass(slots=True)
class _Answer:
    """One document: the gold, what is compared with it, and the values so far."""

    gold: Any
    result: Any
    values: dict[str, Any] = field(default_factory=dict)
    failed: Failed | None = None


def generated_values(
    documents: Documents, places: Sequence[int], results: Sequence[Sequence[Any]], metrics: Sequence[TaskMetric]
) -> list[dict[str, Any] | Failed]:
    """Return the values of the documents at these places, from the filtered responses of each."""
    config, several = documents.config, documents.multiple_targets
    for metric in metrics:
        check_metric(metric, config)
    bypassed = any(metric.name == "bypass" for metric in metrics)
    answers = []
    for index, (place, own) in enumerate(zip(places, results, strict=True)):
        where = f"{config.path}, document {index}"
        choices = None if config.doc_to_choice is None else documents.choices[place]
        gold = _gold(documents.targets[place], own[0], choices, where, several=several, cast=not bypassed)
        answers.append(_Answer(gold, own[0]))
    for metric in metrics:
        (_score_any if several else _score_each)(metric, documents.functions, answers)
    return [each.values if each.failed is None else each.failed for each in answers]


def _gold(target: Any, result: Any, choices: Any, where: str, *, several: bool, cast: bool) -> Any:
    """Return what a response is compared with, of the type of the response where that is one value."""
    try:
        if choices is not None:
            return choices[target]
        if several:
            return list(target)
        if not cast or isinstance(result, list) or type(target) is type(result):
            return target
        return type(result)(target)
    except (TypeError, ValueError, IndexError, KeyError) as exc:
        what = f"doc_to_target gave {target!r:.80}, which cannot be compared with {result!r:.80}: {exc}"
        raise DataError(what, where=where) from exc


def _score_each(metric: TaskMetric, functions: Functions, answers: Sequence[_Answer]) -> None:
    """Score documents that have one gold each; a metric that gives a dict gives several values."""
    live = [each for each in answers if each.failed is None]
    found = _measured(metric, functions, [(each.gold, each.result) for each in live])
    for answer, value in zip(live, found, strict=True):
        if isinstance(value, Failed):
            answer.failed = value
        elif isinstance(value, Mapping):
            answer.values |= {str(name): own for name, own in value.items()}
        else:
            answer.values[metric.name] = value


def _score_any(metric: TaskMetric, functions: Functions, answers: Sequence[_Answer]) -> None:
    """Score documents by any of their golds: 1 if one of them has a value that is not 0."""
    live = [each for each in answers if each.failed is None]
    for answer in live:
        answer.gold = answer.gold if isinstance(answer.gold, list) else [answer.gold]
    if metric.name == _EXACT and metric.function is None:
        for answer in live:  # later metrics see the response as often as there are golds, as in lm-eval
            answer.result = [answer.result] * len(answer.gold)
        found: list[Any] = list(exact_matches([(each.result, each.gold) for each in live], metric.options))
        groups = [[value] for value in found]
    else:
        pairs = [(gold, answer.result) for answer in live for gold in answer.gold]
        values = iter(_measured(metric, functions, pairs))
        groups = [[next(values) for _ in answer.gold] for answer in live]
    for answer, group in zip(live, groups, strict=True):
        failed = next((value for value in group if isinstance(value, Failed)), None)
        if failed is not None:
            answer.failed = failed
        else:
            answer.values[metric.name] = float(any(_own(value, metric) for value in group))


def _own(value: Any, metric: TaskMetric) -> Any:
    if not isinstance(value, Mapping):
        return value
    if metric.name not in value:
        raise DataError(f"the metric {metric.name} gave a dict without {metric.name!r}: {sorted(map(str, value))}")
    return value[metric.name]


def _measured(metric: TaskMetric, functions: Functions, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return what a metric gives for each pair of gold and response."""
    if metric.function is not None:
        found = functions.measured(metric.function, metric.options, pairs, keep_faults=True)
        return [Failed("metric", str(each)) if isinstance(each, FunctionFault) else each for each in found]
    if metric.name == _EXACT:
        return list(exact_matches([([result], [gold]) for gold, result in pairs], metric.options))
    if metric.name == "bypass":
        return [None] * len(pairs)
    return [[gold, result] for gold, result in pairs]


def scored(
    config: TaskConfig, functions: Functions, documents: Documents, responses: Sequence[Sequence[Sequence[Any]]]
) -> dict[str, Any]:
    """Score all documents: the figures by ``metric,filter``, and the values of each document.

    ``responses`` has for each document, and each of its requests, as many responses as the task has ``repeats``.
    """
    docs: list[dict[str, Any]] = [{} for _ in documents.docs]
    metrics: dict[str, Any] = {}
    places = range(len(documents.docs))
    for pipeline in pipelines(config):
        values = pipeline_scores(documents, places, responses, pipeline).values
        columns: dict[str, list[Any]] = {}
        for position, (doc, own) in enumerate(zip(docs, values, strict=True)):
            if isinstance(own, Failed):
                raise DataError(own.message, where=f"{config.path}, document {position}")
            for name, value in own.items():
                doc[f"{name},{pipeline.name}"] = value
                columns.setdefault(name, []).append(value)
        for name, column in columns.items():
            metrics[f"{name},{pipeline.name}"] = summed_up(config, functions, name, column)
    return {"metrics": metrics, "docs": docs}


@dataclass(frozen=True, slots=True)
class PipelineScores:
    """What one pipeline makes of all documents."""

    results: Sequence[Sequence[Any]]
    """For each document, the filtered response to each of its requests."""
    values: Sequence[Values | Failed]
    """For each document, its values; ``Failed`` where nobody knows them."""


def pipeline_scores(
    documents: Documents, places: Sequence[int], responses: Sequence[Sequence[Sequence[Any]]], pipeline: Pipeline
) -> PipelineScores:
    """Filter the responses to the documents at these places by one pipeline, and score them."""
    config = documents.config
    owners = [index for index, requests in enumerate(responses) for _ in requests]
    flat = [_given(config, request) for requests in responses for request in requests]
    docs = [documents.docs[places[index]] for index in owners]
    made = filtered(pipeline, documents.functions, flat, docs, config.where("filter_list"))
    results: list[list[Any]] = [[] for _ in responses]
    for owner, each in zip(owners, made, strict=True):
        results[owner].append(each)
    first = [next((each for each in own if isinstance(each, Failed)), None) for own in results]
    failed = {index: each for index, each in enumerate(first) if each is not None}
    whole = [index for index in range(len(results)) if index not in failed]
    given = [results[index] for index in whole]
    known = document_values(documents, [places[index] for index in whole], given)
    values = dict(zip(whole, known, strict=True))
    return PipelineScores(results, [failed[i] if i in failed else values[i] for i in range(len(results))])


def _given(config: TaskConfig, request: Sequence[Any]) -> list[Any]:
    """Return the responses to a request as filters see them: pairs as tuples, without the flag for documents."""
    if config.output_type == "loglikelihood_rolling":
        return [each[0] if isinstance(each, Sequence) else each for each in request]
    return [tuple(each) if isinstance(each, list) else each for each in request]


def document_values(documents: Documents, places: Sequence[int], results: Sequence[Any]) -> list[Values | Failed]:
    """Return the values of the documents at these places, from their filtered responses."""
    config, functions = documents.config, documents.functions
    if config.process_results is not None:
        pairs = [(documents.docs[place], each) for place, each in zip(places, results, strict=True)]
        return [_table(config, each) for each in functions.each(config.process_results, pairs, keep_faults=True)]
    metrics = named_metrics(config, functions)
    if config.output_type == "generate_until":
        return generated_values(documents, places, results, metrics)
    names = [metric.name for metric in metrics]
    return [
        _likelihood_values(config, documents, place, each, names) for place, each in zip(places, results, strict=True)
    ]


def _likelihood_values(
    config: TaskConfig, documents: Documents, index: int, results: Sequence[Any], names: Sequence[str]
) -> Values:
    """Return the values of a document that is scored by likelihood."""
    where = f"{config.path}, document {index}"
    if config.output_type == "loglikelihood":
        logprob, greedy = _likelihoods(results, where)[0]
        known: Values = {"perplexity": logprob, "acc": UNKNOWN_GREEDY if greedy is None else int(greedy)}
    elif config.output_type == "loglikelihood_rolling":
        known = _rolling_values(results, documents.targets[index], where)
    else:
        gold = documents.texts[index] if documents.multiple_inputs else documents.targets[index]
        several, choices = documents.multiple_targets, documents.choices[index]
        known = choice_values(results, choices, gold, names, multiple_targets=several, where=where)
    return {name: value for name, value in known.items() if name in names}


def _rolling_values(results: Sequence[Any], document: Any, where: str) -> Values:
    """Return the log-likelihood of a whole document with its words, or with its bytes."""
    if len(results) != 1 or not isinstance(results[0], int | float):
        raise DataError(f"a document has the response {list(results)!r:.80}, not a log-likelihood", where=where)
    if not isinstance(document, str):
        raise DataError(f"doc_to_target gave {document!r:.80}, which is no text", where=where)
    (logprob,) = results
    words, size = len(re.split(r"\s+", document)), len(document.encode("utf-8"))
    return {"word_perplexity": (logprob, words), "byte_perplexity": (logprob, size), "bits_per_byte": (logprob, size)}


def named_metrics(config: TaskConfig, functions: Functions) -> list[TaskMetric]:
    """Return the metrics of a task under the names of their values."""
    return [
        each if each.function is None else replace(each, name=functions.name(each.function))
        for each in task_metrics(config)
    ]


def _table(config: TaskConfig, found: Any) -> Values | Failed:
    if isinstance(found, FunctionFault):
        return Failed("process_results", str(found))
    if not isinstance(found, Mapping):
        what = f"process_results returned {type(found).__name__}, not a dict of metrics"
        raise DataError(what, where=config.where("process_results"))
    return {str(name): value for name, value in found.items()}


def aggregation_of(config: TaskConfig, functions: Functions, name: str) -> str | FunctionRef:
    """Return how the values of a name are summed up.

    That is what ``metric_list`` says of it. Other names are those that a metric gives beside its own, which then has
    the say; those of ``process_results`` are summed up by the mean.
    """
    if config.process_results is not None:
        listed = {metric.name: metric.aggregation for metric in reversed(task_metrics(config)) if not metric.function}
        return listed.get(name, "mean")
    metrics = named_metrics(config, functions)
    listed = {metric.name: metric.aggregation for metric in metrics}
    spread = next((metric.aggregation for metric in metrics if metric.function is not None), "mean")
    return listed.get(name, spread)


def summed_up(config: TaskConfig, functions: Functions, name: str, values: Sequence[Any]) -> Any:
    """Return the figure of a metric over the values of all documents that have one."""
    aggregation = aggregation_of(config, functions, name)
    where = config.where("metric_list")
    if isinstance(aggregation, str):
        return aggregated(aggregation, name, values, where)
    (found,) = functions.each(aggregation, [(list(values),)])
    return found

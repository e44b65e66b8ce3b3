"""Scoring documents as lm-eval does: filters, the metrics of each document, and the figures of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.lmeval.aggregation import aggregated
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import FunctionFault, Functions
from kshot.lmeval.generated_scores import generated_values
from kshot.lmeval.likelihood_scores import Values, choice_values, likelihood_values, rolling_values
from kshot.lmeval.metrics import TaskMetric, task_metrics
from kshot.lmeval.pipelines import Pipeline, filtered, pipelines


class ScoredDocuments(Protocol):
    """The documents that are scored, and what the task file says of each; asked for when they are needed."""

    @property
    def docs(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the evaluated split, after ``process_docs``."""
        ...

    @property
    def multiple_inputs(self) -> bool:
        """Whether the options are put into the question."""
        ...

    @property
    def multiple_targets(self) -> bool:
        """Whether several answers are right."""
        ...

    def targets(self) -> Sequence[Any]:
        """Return ``doc_to_target`` of each document."""
        ...

    def choices(self) -> Sequence[Any]:
        """Return ``doc_to_choice`` of each document."""
        ...

    def texts(self) -> Sequence[Any]:
        """Return ``doc_to_text`` of each document."""
        ...


def scored(
    config: TaskConfig, functions: Functions, documents: ScoredDocuments, responses: Sequence[Sequence[Sequence[Any]]]
) -> dict[str, Any]:
    """Score all documents: the figures by ``metric,filter``, and the values of each document.

    ``responses`` has for each document, and each of its requests, as many responses as the task has ``repeats``.
    """
    docs: list[dict[str, Any]] = [{} for _ in documents.docs]
    metrics: dict[str, Any] = {}
    for pipeline in pipelines(config):
        values = pipeline_scores(config, functions, documents, responses, pipeline).values
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
    config: TaskConfig,
    functions: Functions,
    documents: ScoredDocuments,
    responses: Sequence[Sequence[Sequence[Any]]],
    pipeline: Pipeline,
) -> PipelineScores:
    """Filter the responses to all documents by one pipeline, and score them."""
    owners = [index for index, requests in enumerate(responses) for _ in requests]
    flat = [_given(config, request) for requests in responses for request in requests]
    made = filtered(pipeline, functions, flat, [documents.docs[i] for i in owners], config.where("filter_list"))
    results: list[list[Any]] = [[] for _ in responses]
    for owner, each in zip(owners, made, strict=True):
        results[owner].append(each)
    failed = {i: next(r for r in own if isinstance(r, Failed)) for i, own in enumerate(results) if _has_failed(own)}
    whole = [index for index in range(len(results)) if index not in failed]
    values = dict(zip(whole, document_values(config, functions, documents, whole, results), strict=True))
    return PipelineScores(results, [failed[i] if i in failed else values[i] for i in range(len(results))])


def _given(config: TaskConfig, request: Sequence[Any]) -> list[Any]:
    """Return the responses to a request as filters see them: pairs as tuples, without the flag for documents."""
    if config.output_type == "loglikelihood_rolling":
        return [each[0] if isinstance(each, Sequence) else each for each in request]
    return [tuple(each) if isinstance(each, list) else each for each in request]


def _has_failed(results: Sequence[Any]) -> bool:
    return any(isinstance(each, Failed) for each in results)


def document_values(
    config: TaskConfig, functions: Functions, documents: ScoredDocuments, whole: Sequence[int], results: Sequence[Any]
) -> list[Values | Failed]:
    """Return the values of the documents at these places, from the filtered responses of all."""
    own = [results[index] for index in whole]
    if config.process_results is not None:
        pairs = [(documents.docs[index], each) for index, each in zip(whole, own, strict=True)]
        return [_table(config, each) for each in functions.each(config.process_results, pairs, keep_faults=True)]
    metrics = named_metrics(config, functions)
    if config.output_type == "generate_until":
        choices = None if config.doc_to_choice is None else [documents.choices()[index] for index in whole]
        targets = [documents.targets()[index] for index in whole]
        several = documents.multiple_targets
        return generated_values(config, functions, own, metrics, choices=choices, targets=targets, several=several)
    names = [metric.name for metric in metrics]
    return [_likelihood_values(config, documents, index, results[index], names) for index in whole]


def _likelihood_values(
    config: TaskConfig, documents: ScoredDocuments, index: int, results: Sequence[Any], names: Sequence[str]
) -> Values:
    where = f"{config.path}, document {index}"
    if config.output_type == "loglikelihood":
        return likelihood_values(results, names, where)
    if config.output_type == "loglikelihood_rolling":
        return rolling_values(results, documents.targets()[index], names, where)
    gold = documents.texts()[index] if documents.multiple_inputs else documents.targets()[index]
    several, choices = documents.multiple_targets, documents.choices()[index]
    return choice_values(results, choices, gold, names, multiple_targets=several, where=where)


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
        return next((each.aggregation for each in task_metrics(config) if _is_name(each, name)), "mean")
    metrics = named_metrics(config, functions)
    listed = {metric.name: metric.aggregation for metric in metrics}
    spread = next((metric.aggregation for metric in metrics if metric.function is not None), "mean")
    return listed.get(name, spread)


def _is_name(metric: TaskMetric, name: str) -> bool:
    return metric.function is None and metric.name == name


def summed_up(config: TaskConfig, functions: Functions, name: str, values: Sequence[Any]) -> Any:
    """Return the figure of a metric over the values of all documents that have one."""
    aggregation = aggregation_of(config, functions, name)
    where = config.where("metric_list")
    if isinstance(aggregation, str):
        return aggregated(aggregation, name, values, where)
    (found,) = functions.each(aggregation, [(list(values),)])
    return found

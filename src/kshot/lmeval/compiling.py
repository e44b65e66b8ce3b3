"""From a task file with its documents to a Task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import AnyOption, AskFailed, Failed, Gold, Option, RequestGenerator, Sample, Target
from kshot.core.task import Task
from kshot.lmeval.asking import DocumentMethod, RequestForms, generation_method, likelihood_method
from kshot.lmeval.document_answers import DocumentAnswers
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import Functions
from kshot.lmeval.scoring import NO_OPTION, ScoredDocuments, gold_index
from kshot.lmeval.settings import LmevalSettings


def compiled(
    config: TaskConfig,
    functions: Functions,
    documents: ScoredDocuments,
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


def _samples(config: TaskConfig, documents: ScoredDocuments) -> list[Sample]:
    targets = _targets(config, documents)
    choices: Sequence[Any] = documents.choices() if config.output_type == "multiple_choice" else [()] * len(targets)
    return [
        Sample(str(place), dict(doc), target, tuple(map(str, options)), position=place, row=dict(doc))
        for place, (doc, target, options) in enumerate(zip(documents.docs, targets, choices, strict=True))
    ]


def _targets(config: TaskConfig, documents: ScoredDocuments) -> list[Target | None]:
    """Return what is right for each document, as far as it can be told without the task's functions."""
    if config.output_type == "multiple_choice" and config.process_results is None:
        return [_option(config, documents, place) for place in range(len(documents.docs))]
    found: Sequence[Any] = [None] * len(documents.docs)
    with suppress(DataError):  # process_results may know without doc_to_target
        found = documents.targets()
    return [None if target is None else Gold(target) for target in found]


def _option(config: TaskConfig, documents: ScoredDocuments, place: int) -> Target | None:
    golds = documents.texts() if documents.multiple_inputs else documents.targets()
    right = gold_index(golds[place], documents.choices()[place], f"{config.path}, document {place}")
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

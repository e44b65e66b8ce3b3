"""A model that gives the responses that a test has for each request of a task file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.api import evaluate
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored
from kshot.core.task import Task
from kshot.lmeval.compiling import compiled, prompt_of
from kshot.lmeval.requests import doc_requests, shots_of
from kshot.lmeval.settings import LmevalSettings
from kshot.lmeval.task_file import TaskFile


class Replayed:
    """Answers each request by its texts; a reply that is sampled also by its number."""

    name = fingerprint = "replayed"
    answers = (Generate, Loglik)

    def __init__(self, forms: Sequence[Mapping[str, Any]], responses: Sequence[Any]) -> None:
        self.asked: list[Any] = []
        self._texts: dict[Any, str] = {}
        self._likelihoods: dict[Any, Likelihood] = {}
        for form, response in zip(forms, responses, strict=True):
            rolling = form["type"] == "loglikelihood_rolling"
            prompt = prompt_of("" if rolling else form["context"])
            if prompt.text and form["type"] == "loglikelihood":
                prompt = replace(prompt, rules="lm-eval")
            if form["type"] == "generate_until":
                number = sum(each == prompt for each, _ in self._texts)
                self._texts[prompt, number] = response
            else:
                self._likelihoods[prompt, form["continuation"]] = Likelihood(response[0], 3, response[1])

    def serve(self, queue):
        """Answer what waits."""
        for request in queue:
            self.asked.append(request)
            if isinstance(request, Generate):
                yield request, Generated(self._texts[request.prompt, request.replica])
            else:
                found = [self._likelihoods[request.prompt, text] for text in request.continuations]
                yield request, Scored(tuple(found))


def compiled_task(task: TaskFile, rows: Mapping[str, Any], num_fewshot: int | None = None, **options: Any) -> Task[Any]:
    """Return the Task of a task file and rows."""
    documents, config = task.documents(rows), task.config
    requests = list(doc_requests(documents, shots_of(config, num_fewshot)))
    return compiled(config, task._functions, documents, requests, LmevalSettings(**options))


def ran(task: TaskFile, rows: Mapping[str, Any], responses: Sequence[Any], **options: Any):
    """Run a task on a model that gives these responses, in the order of its requests; return the result."""
    model = Replayed(task.requests(rows), responses)
    return evaluate(model, compiled_task(task, rows, **options))


def lmeval_figures(result) -> dict[str, float]:
    """Return the figures of a result as lm-eval writes them."""
    return {f"{row['lmeval_metric']},{row['filter']}": row["value"] / row["scale"] for row in result.results}

"""A task file in Python: its requests and its scores, for rows that the caller has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.lmeval.documents import Documents
from kshot.lmeval.files import TaskConfig, read_body, root_of, task_config
from kshot.lmeval.functions import Functions, functions_of
from kshot.lmeval.requests import ChatForm, ChatTemplate, RequestForm, doc_requests, request_counts, shots_of


class TaskFile:
    """One task of lm-eval. Its functions run confined, in a worker that ``close`` ends."""

    def __init__(self, config: TaskConfig, functions: Functions | None = None) -> None:
        """``functions``: a worker that several tasks share; without one it has its own."""
        self.config = config
        self._functions = functions or functions_of(config)

    def __enter__(self) -> TaskFile:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker of its functions; the next call starts another."""
        self._functions.close()

    def documents(self, rows: Mapping[str, Sequence[Row]]) -> Documents:
        """Return the documents that are evaluated; ``rows``: the raw rows by split."""
        return Documents(self.config, self._functions, rows)

    def requests(
        self,
        rows: Mapping[str, Sequence[Row]],
        num_fewshot: int | None = None,
        *,
        chat_template: ChatTemplate | None = None,
        multiturn: bool = True,
    ) -> list[RequestForm]:
        """Return the requests that the task makes of rows.

        ``rows`` are the raw rows by split. ``num_fewshot``: how many examples, in place of the file's number, unless
        that is 0. ``chat_template(turns, add_generation_prompt)`` writes contexts for a chat model; ``multiturn``:
        examples are turns of their own.
        """
        chat = None if chat_template is None else ChatForm(chat_template, multiturn)
        found = doc_requests(self.documents(rows), shots_of(self.config, num_fewshot), chat)
        return [dict(each) for requests in found for each in requests for _ in range(self.config.repeats)]

    def score(
        self, rows: Mapping[str, Sequence[Row]], responses: Sequence[Any], num_fewshot: int | None = None
    ) -> dict[str, Any]:
        """Return the figures of responses, given in the order of the requests: ``metrics``, and ``docs`` for each.

        A response is a text, or ``[log-probability, is greedy]``.
        """
        from kshot.lmeval.scoring import scored

        documents = self.documents(rows)
        shots_of(self.config, num_fewshot)  # a number that is none is refused; no score depends on it
        sizes = request_counts(documents)
        wanted = sum(sizes) * self.config.repeats
        if len(responses) != wanted:
            what = f"there are {len(responses)} responses to {wanted} requests"
            raise DataError(what, where=str(self.config.path), hint="Give one response for each request, in order.")
        for number, response in enumerate(responses):
            if not _fits(self.config.output_type, response):
                what = f"response {number} is {response!r:.60}"
                raise DataError(what, where=str(self.config.path), hint=_RESPONSES[self.config.output_type])
        return scored(self.config, self._functions, documents, _by_document(responses, sizes, self.config.repeats))


_PAIR = "Give [log-probability, is greedy] for each request, such as [-2.5, True]."
_RESPONSES = {
    "generate_until": "Give a text for each request.",
    "multiple_choice": _PAIR,
    "loglikelihood": _PAIR,
    "loglikelihood_rolling": "Give the log-probability of each document.",
}
"""What a response to each type of request is, for a message."""


def _fits(output_type: str, response: Any) -> bool:
    """Whether something can be the response to a request of this type; that to a document may be a pair, too."""
    if output_type == "generate_until":
        return isinstance(response, str)
    if output_type == "loglikelihood_rolling" and isinstance(response, Real):
        return True
    return isinstance(response, (list, tuple)) and len(response) == 2 and isinstance(response[0], Real)  # noqa: PLR2004 - a pair


def _by_document(responses: Sequence[Any], sizes: Sequence[int], repeats: int) -> list[list[list[Any]]]:
    """Return the responses of each document, by request: a list of so many as it is repeated."""
    waiting: Iterator[Any] = iter(responses)
    return [[[next(waiting) for _ in range(repeats)] for _ in range(size)] for size in sizes]


def load(path: str | Path, lmeval_root: str | Path | None = None) -> TaskFile:
    """Return the task of a file of lm-eval; ``lmeval_root``: the tree whose files it may include."""
    place = Path(path).expanduser().resolve()
    root = None if lmeval_root is None else root_of(lmeval_root)
    body = read_body(place, root)
    if "group" in body and not isinstance(body.get("task"), str):
        hint = "Load one of its tasks, or run all of them: kshot run -d lmeval:PATH."
        raise DataError("it is a group of tasks", where=str(place), hint=hint)
    return TaskFile(task_config(body, place, root))

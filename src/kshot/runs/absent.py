"""What stands in for the models of a run that is scored again: the journal answers, or the request fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.corpus import Corpus, corpus_fingerprint
from kshot.core.errors import RunError
from kshot.core.protocols import Abilities, IndexStore, Model, RequestQueue
from kshot.core.records import Failed, Generate, Loglik, Request, Response, Search
from kshot.core.task import NOT_ASKED, TaskResult
from kshot.runs.folder import RunFolder


class AbsentModel:
    """Replaces a model that is not loaded: every request that the journal lacks fails."""

    notes = ()

    def __init__(
        self, name: str, fingerprint: str, answers: tuple[type, ...] = (Generate, Loglik), *, server: bool = False
    ) -> None:
        """Take what ``spec.json`` recorded of the model."""
        self.name, self.fingerprint, self.answers = name, fingerprint, answers
        self.abilities = Abilities(server=server)

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Fail every request."""
        for request in queue:
            yield request, Failed(NOT_ASKED, "the run holds no answer to this request")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class AbsentSearchEngine:
    """Replaces a search engine that is not loaded."""

    def __init__(self, name: str, fingerprint: str) -> None:
        """Take what ``spec.json`` recorded of the search engine."""
        self.name, self.fingerprint = name, fingerprint

    def over(self, corpus: Corpus, store: IndexStore) -> AbsentModel:
        """Return the backend that the journal answers for."""
        del store  # there is nothing to index
        return AbsentModel(self.name, corpus_fingerprint(self.fingerprint, corpus), (Search,))

    def close(self) -> None:
        """Do nothing: nothing is open."""


def absent_model(noted: Mapping[str, Any]) -> Model:
    """Return the replacement of a model that ``spec.json`` lists."""
    if noted["role"] in {"search_engine", "corpus"}:
        return AbsentSearchEngine(noted["name"], noted["fingerprint"])
    answers = (Generate, Loglik, Search) if noted.get("searches") else (Generate, Loglik)
    return AbsentModel(noted["name"], noted["fingerprint"], answers, server=noted.get("server", False))


def check_nothing_lost(results: Sequence[TaskResult], folder: RunFolder) -> None:
    """Refuse to replace figures of samples to which the journal holds no answer any more."""
    before = {f"{row.get('task')} {row.get('model')}": row for row in folder.earlier_results()}
    for result in results:
        row = before.get(f"{result.task.name} {result.model}", {})
        n, failed = (count if type(count := row.get(name)) is int else 0 for name in ("n", "failed"))
        if len(result.positions) < n and result.failed > failed:
            lost = result.failed - failed
            samples = "1 sample" if lost == 1 else f"{lost} samples"
            scored = "has been scored before" if lost == 1 else "have been scored before"
            raise RunError(
                f"the journal holds no answer to {samples} of {result.task.name} on {result.model} that {scored}; "
                "nothing was changed",
                where=str(folder.path),
                hint="The command of the run asks again for what is missing. If the dataset or its template has "
                "changed, give it another folder with --out.",
            )

"""Patterns of task files, run in a confined process that can be killed: a pattern may take forever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.sandbox.kept_process import OUT_OF_MEMORY, TOO_SLOW, KeptProcess, started
from kshot.sandbox.profiles import ProcessLimits, Profile
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

SECONDS = 2.0
"""How long a pattern may work on the responses to one request, in seconds of processor time."""
MAX_SLOW = 20
"""After so many responses on which patterns do not finish, the task is refused."""
_BATCH = 200
_WORKER = "kshot.lmeval._pattern_worker"
_PROFILE = Profile(
    name="a pattern of a task file",
    folder_prefix="kshot-patterns-",
    limits=ProcessLimits(file_mb=1),
    packages=("kshot", "kshot.sandbox", "kshot.lmeval"),
)


class PatternProcess(KeptProcess):
    """A process that runs filters and removes what patterns match."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(lambda: _started())  # noqa: PLW0108 - tests replace it

    def filtered(
        self, name: str, options: Mapping[str, Any], responses: Sequence[Any], docs: Sequence[Any]
    ) -> list[Any]:
        """Return what a filter makes of the responses to each request; ``Failed`` where it does not finish.

        Of a document only its ``choices`` are used.
        """
        shown = [{"choices": doc["choices"]} if name == "multi_choice_regex" else None for doc in docs]
        request = {"filter": name, "options": dict(options)}
        what = f"the filter {name} with {', '.join(f'{key}={value!r:.80}' for key, value in options.items())}"
        return self._all(request, list(zip(responses, shown, strict=True)), what)

    def without(self, patterns: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Any]:
        """Remove what patterns match from each list of texts; ``Failed`` where they do not finish."""
        request = {"patterns": list(patterns)}
        return self._all(request, [(each, None) for each in texts], f"regexes_to_ignore {list(patterns)!r:.160}")

    def _all(self, request: Mapping[str, Any], items: list[tuple[Any, Any]], what: str) -> list[Any]:
        found: list[Any] = []
        slow = 0
        for batch in _batches(items):
            answers = self._batch(request, batch, what)
            if answers is None:  # one of them is too much: which?
                answers = [self._one(request, each, what) for each in batch]
            slow += sum(isinstance(each, Failed) for each in answers)
            if slow > MAX_SLOW:
                raise DataError(f"{what} does not finish within {SECONDS:g} s on more than {MAX_SLOW} responses")
            found += answers
        return found

    def _one(self, request: Mapping[str, Any], item: tuple[Any, Any], what: str) -> Any:
        answers = self._batch(request, [item], what)
        return Failed("filter", f"{what} does not finish within {SECONDS:g} s") if answers is None else answers[0]

    def _batch(self, request: Mapping[str, Any], items: Sequence[Any], what: str) -> list[Any] | None:
        """Return the answers to a batch; None if it takes too long."""
        try:
            answers = self.ask({**request, "items": items})
        except NoAnswer:
            return None
        except RequestFailed as exc:
            if exc.kind in (TOO_SLOW, OUT_OF_MEMORY):
                return None
            raise DataError(f"{what} fails: {exc.kind}: {exc.message}") from None
        if not isinstance(answers, list) or len(answers) != len(items):
            raise DataError(f"{what} gives no result for some responses")
        return answers


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _started() -> RequestProcess:
    return started(_PROFILE, _WORKER, {"seconds": SECONDS}, work="runs the patterns of task files")


PATTERN_PROCESS = PatternProcess()

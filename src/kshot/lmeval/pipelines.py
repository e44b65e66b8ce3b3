"""``filter_list``: pipelines of filters. Each one starts from the raw responses and is scored by itself.

Patterns of task files run in a confined process that can be killed: a pattern may take forever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.filters import FILTERS, WITH_PATTERNS
from kshot.lmeval.functions import Functions
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

MAX_SLOW = 20
"""After so many responses on which patterns do not finish, the task is refused."""
FILTERED = ConfinedFunction("kshot.lmeval.filters:filtered_alone", seconds=2, work="runs the patterns of task files")
WITHOUT = ConfinedFunction(
    "kshot.lmeval.filters:without_patterns", seconds=2, work="removes what patterns of task files match"
)


def filtered_by_pattern(
    name: str, options: Mapping[str, Any], responses: Sequence[Any], docs: Sequence[Any]
) -> list[Any]:
    """Return what a filter makes of the responses to each request; ``Failed`` where it does not finish.

    Of a document only its ``choices`` are used.
    """
    shown = [{"choices": doc["choices"]} if name == "multi_choice_regex" else None for doc in docs]
    calls = [(name, dict(options), *each) for each in zip(responses, shown, strict=True)]
    what = f"the filter {name} with {', '.join(f'{key}={value!r:.80}' for key, value in options.items())}"
    return _results(FILTERED, calls, what)


def without_patterns(patterns: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Any]:
    """Remove what patterns match from each list of texts; ``Failed`` where they do not finish."""
    calls = [(list(patterns), each) for each in texts]
    return _results(WITHOUT, calls, f"regexes_to_ignore {list(patterns)!r:.160}")


def _results(function: ConfinedFunction, calls: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
    """Return the results of calls, for each of which the time counts anew."""
    results: list[Any] = []
    slow = 0
    for result in function.each(calls):
        if isinstance(result, Refused):
            raise DataError(f"{what} fails: {result}")
        if not isinstance(result, TooSlow):
            results.append(result)
            continue
        too_slow = f"{what} does not finish within {function.seconds:g} s"
        results.append(Failed("filter", too_slow))
        slow += 1
        if slow > MAX_SLOW:
            raise DataError(f"{too_slow} on more than {MAX_SLOW} responses")
    return results


_FAULTS = (TypeError, ValueError, AttributeError, KeyError, IndexError)


@dataclass(frozen=True, slots=True)
class Step:
    """One filter: lm-eval's own by name, or a function or class of the task."""

    function: str | FunctionRef
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Filters in order; figures are named after the pipeline."""

    name: str
    steps: tuple[Step, ...]


DEFAULT = Pipeline("none", (Step("take_first"),))
"""The pipeline of a task that lists none."""


def pipelines(config: TaskConfig) -> list[Pipeline]:
    """Return the pipelines of a task."""
    if config.filter_list is None:
        return [DEFAULT]
    where = config.where("filter_list")
    found = [_pipeline(entry, where) for entry in config.filter_list]
    if not found:
        raise DataError("filter_list is empty", where=where, hint="Leave it out: the first response is then scored.")
    return found


def _pipeline(entry: Mapping[str, Any], where: str) -> Pipeline:
    name, steps = entry.get("name"), entry["filter"]
    if name is None or not isinstance(steps, list):
        hint = "Write `- name: NAME` and below it `filter:` with a list of `- function: …`."
        raise DataError("an entry of filter_list needs a name and a list of filters", where=where, hint=hint)
    return Pipeline(str(name), tuple(_step(step, where) for step in steps))


def _step(step: Any, where: str) -> Step:
    function = step.get("function") if isinstance(step, Mapping) else None
    if not isinstance(function, str | FunctionRef):
        raise DataError(f"a filter has no function: {step!r:.80}", where=where)
    if isinstance(function, str) and function not in FILTERS and function != "custom":
        near = get_close_matches(function, [*FILTERS, "custom"], n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join([*FILTERS, 'custom'])}."
        raise DataError(f"there is no filter {function!r}", where=where, hint=hint)
    options = {key: value for key, value in step.items() if key != "function"}
    if function == "custom" and not isinstance(options.get("filter_fn"), FunctionRef):
        raise DataError("the filter custom needs filter_fn: a !function", where=where)
    return Step(function, options)


def filtered(
    pipeline: Pipeline, functions: Functions, responses: Sequence[Any], docs: Sequence[Mapping[str, Any]], where: str
) -> list[Any]:
    """Return what a pipeline makes of the responses to all requests; ``docs`` has the document of each request.

    ``Failed`` stands where a pattern does not finish. A function sees all that did not fail at once.
    """
    found: list[Any] = list(responses)
    for step in pipeline.steps:
        whole = [index for index, each in enumerate(found) if not isinstance(each, Failed)]
        given, own = [found[index] for index in whole], [docs[index] for index in whole]
        try:
            made = _applied(step, functions, given, own) if whole else []
        except DataError as exc:
            exc.where = exc.where or where
            raise
        except _FAULTS as exc:
            what = f"the filter {step.function} of {pipeline.name!r} fails: {type(exc).__name__}: {exc}"
            raise DataError(what, where=where) from exc
        if len(made) != len(whole):
            what = f"the filter {step.function} of {pipeline.name!r} makes {len(made)} of {len(whole)} responses"
            raise DataError(what, where=where)
        for index, each in zip(whole, made, strict=True):
            found[index] = each
    return found


def _applied(step: Step, functions: Functions, responses: list[Any], docs: list[Mapping[str, Any]]) -> list[Any]:
    if isinstance(step.function, FunctionRef):
        return functions.filtered(step.function, step.options, responses, docs)
    if step.function == "custom":
        (made,) = functions.each(step.options["filter_fn"], [(responses, docs)])
        if not isinstance(made, list):
            raise DataError(f"filter_fn returned {type(made).__name__}, not a list of responses")
        return made
    if step.function in WITH_PATTERNS:
        return filtered_by_pattern(step.function, step.options, responses, docs)
    return FILTERS[step.function](responses, docs, **step.options)

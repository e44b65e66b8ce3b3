"""Evaluators of function calling: BFCL's calls of one turn, its conversations, and whether there is a call at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kshot.configs.evaluators.bfcl_calls import Call, NoCallsError, calls_of
from kshot.configs.evaluators.bfcl_check import right_calls
from kshot.configs.evaluators.bfcl_turns import needs_functions, right_turns
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Metric


class CallsCounted(Tally):
    """The share of right answers as a fraction, how many are right, and how many there are."""

    mean = name = "accuracy"
    bounds = None
    names = ("accuracy", "correct_count", "total_count")

    def __init__(self, category: str) -> None:
        self.category = category

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count a right answer."""
        return (float(self.right(sample, answer)), 1.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the share and the numbers."""
        right, total = sums
        return {"accuracy": ratio(right, total), "correct_count": right, "total_count": total}

    def right(self, sample: Sample, answer: Any) -> bool:
        """Whether the answer of a sample is right."""
        raise NotImplementedError


class RightCalls(CallsCounted):
    """Replies whose calls are those that the row wants (BFCL, one turn)."""

    def right(self, sample: Sample, answer: Any) -> bool:
        """Compare the calls; a reply without any that can be read is wrong."""
        calls = well_formed(answer)
        if calls is None:
            return False
        functions = decoded(column(sample, "function"), "function")
        answers = decoded(gold_of(sample), "ground_truth")
        if not isinstance(functions, list) or not isinstance(answers, list) or not functions:
            raise DataError("BFCL's functions and answers are lists", hint="Look at the columns of the row.")
        try:
            return right_calls(functions, calls, answers, self.category)
        except (AttributeError, LookupError, StopIteration, TypeError) as exc:
            raise DataError(f"the row's functions or answers do not have BFCL's form: {exc!r:.120}") from exc


class CallsOrNone(CallsCounted):
    """Replies that call a function where one is relevant, and none where the row's id has ``irrelevance`` (BFCL)."""

    def right(self, sample: Sample, answer: Any) -> bool:
        """Look whether there is a call."""
        return bool(well_formed(answer)) is not ("irrelevance" in str(column(sample, "id")))


class RightTurns(CallsCounted):
    """Conversations whose calls do, turn by turn, what the right ones do (BFCL)."""

    def see(self, samples: Iterable[Sample]) -> None:
        """Look, before anything is asked, whether the functions of the rows can be called."""
        needs_functions(sample.fields for sample in samples)

    def right(self, sample: Sample, answer: Any) -> bool:
        """Compare the calls of every turn."""
        return right_turns(sample.fields, answer, decoded(gold_of(sample), "ground_truth"))


def well_formed(answer: Any) -> list[Call] | None:
    """Return the calls of an answer, each a name with named arguments; None: it has no such form."""
    try:
        calls = calls_of(answer)
    except NoCallsError:
        return None
    return calls if all(_is_call(each) for each in calls) else None


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), dict)


def column(sample: Sample, name: str) -> Any:
    """Return a column of a sample's row that must be there."""
    if name not in sample.fields:
        raise DataError(f"the row has no column {name!r}", hint="BFCL's rows have it.")
    return sample.fields[name]


def decoded(value: Any, name: str) -> Any:
    """Return what a column holds, which may be written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as exc:
        raise DataError(f"the column {name!r} is not JSON: {exc}", hint="BFCL's loader writes it so.") from exc


def _of_category(metric: type[CallsCounted]) -> Factory:
    """Return the factory of a metric that is made with a category.

    The form of an answer says whether it is text or an API's list of calls, so ``is_fc_model`` is not needed.
    """

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:
        if not isinstance(options.get("category"), str):
            raise DataError(f"{name.last} needs a category, such as 'simple'", where=scope.where)
        return metric(options["category"])

    return make


EVALUATORS: dict[str, Factory] = {
    "BFCLSingleTurnEvaluator": _of_category(RightCalls),
    "BFCLRelevanceEvaluator": _of_category(CallsOrNone),
    "BFCLMultiTurnEvaluator": _of_category(RightTurns),
}

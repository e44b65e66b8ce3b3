"""The values of documents that are scored by likelihood: options, a target, or the document itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from kshot.core.errors import DataError
from kshot.core.records import Absent
from kshot.lmeval.metrics import MUTUAL_INFO

Values: TypeAlias = dict[str, Any]
"""The values of one document, by metric."""

NO_OPTION = -100
"""The gold where the target names none of the options: the document counts as wrong, as in lm-eval."""
UNKNOWN_GREEDY = Absent("it is not known which tokens are the likeliest")
"""The value where a server does not say whether a text is the greedy one."""


def likelihood_values(results: Sequence[Any], metrics: Sequence[str], where: str) -> Values:
    """Return the values of one target after its context: its log-likelihood, and whether it is the greedy one."""
    logprob, greedy = _measured(results, where)[0]
    known = {"perplexity": logprob, "acc": UNKNOWN_GREEDY if greedy is None else int(greedy)}
    return {name: known[name] for name in known if name in metrics}


def rolling_values(results: Sequence[Any], document: Any, metrics: Sequence[str], where: str) -> Values:
    """Return the values of a document: its log-likelihood with its words, or with its bytes."""
    if len(results) != 1 or not isinstance(results[0], int | float):
        raise DataError(f"a document has the response {list(results)!r:.80}, not a log-likelihood", where=where)
    if not isinstance(document, str):
        raise DataError(f"doc_to_target gave {document!r:.80}, which is no text", where=where)
    (logprob,) = results
    words, size = len(re.split(r"\s+", document)), len(document.encode("utf-8"))
    known = {"word_perplexity": (logprob, words), "byte_perplexity": (logprob, size), "bits_per_byte": (logprob, size)}
    return {name: value for name, value in known.items() if name in metrics}


def choice_values(
    results: Sequence[Any], choices: Any, gold: Any, metrics: Sequence[str], *, multiple_targets: bool, where: str
) -> Values:
    """Return the values of a question: by each rule, whether the likeliest option is right.

    ``gold`` is what the task file gives: an index, the text of an option, or a list of indices.
    """
    measured = _measured(results, where)
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
    values: Values = {name: _is_right(index, right) for name, index in chosen.items()}
    pair = (right, chosen["acc"])
    values |= {"f1": pair, "mcc": pair, "brier_score": (right, _softmax(logprobs))}
    values["likelihood"] = (right, logprobs.tolist())
    if "exact_match" in metrics:
        values["exact_match"] = _is_greedy(greedy, right)
    return {name: value for name, value in values.items() if name in metrics}


def gold_index(gold: Any, options: Sequence[str], where: str) -> int | list[int]:
    """Return the index of the right option, or of each right one; -100 stands for one that is not among them."""
    if isinstance(gold, list) and all(isinstance(each, int) for each in gold):
        return [each if each < len(options) else NO_OPTION for each in gold]
    if isinstance(gold, int):
        return gold if gold < len(options) else NO_OPTION
    if isinstance(gold, str):
        return options.index(gold) if gold in options else NO_OPTION
    raise DataError(f"the right option is {gold!r:.80}; it must be a number, a text or a list of numbers", where=where)


def _measured(results: Sequence[Any], where: str) -> list[tuple[float, bool | None]]:
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


def _is_right(index: int, right: int | Sequence[int]) -> float:
    return float(index in right if isinstance(right, Sequence) else index == right)


def _is_greedy(greedy: Sequence[bool | None], right: int | Sequence[int]) -> int | Absent:
    golds = [greedy[index] for index in (right if isinstance(right, Sequence) else [right]) if index != NO_OPTION]
    return UNKNOWN_GREEDY if None in golds else int(any(golds))


def _softmax(logprobs: Any) -> list[float]:
    shifted = np.exp(logprobs - np.max(logprobs))
    found: list[float] = (shifted / shifted.sum()).tolist()
    return found

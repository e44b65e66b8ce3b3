"""Comparing kshot with lm-eval's own results: prompts, log-probabilities, replies and figures."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

TOLERANCE = 1e-4
ROUNDING = 3e-7
"""lm-eval sums in single precision, which shows in a document of a thousand tokens."""

SHOTS = (0, 5)
_ACCURACIES = {name: f"{name},none" for name in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")}
FIGURES = {
    "text": _ACCURACIES,
    "letters": _ACCURACIES,
    "spelled": {"Accuracy": "acc,none"},
    "continuation": _ACCURACIES,
    "lastword": {"acc": "acc,none", "perplexity": "perplexity,none"},
    "generation": {"exact_match": "exact_match,strict-match"},
    "flexible": {"exact_match": "exact_match,flexible-extract"},
    "rolling": {name: f"{name},none" for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")},
    "yesno": _ACCURACIES,
}
"""By class of ``shapes``: kshot's name of a figure → lm-eval's."""

TASK_OF = {"flexible": "generation", "spelled": "letters"}
"""The task of lm-eval that a class belongs to, where the names differ."""

OPTIONS_OF = {"rolling": {"rolling_start": "lm-eval"}, "spelled": {"ranking_type": "prob", "letters": "spaced"}}
_SHARES = ("acc", "Acc", "exact_match")


def options_of(shape: str, folder: Path, shots: int) -> dict[str, str]:
    """Return the settings under which kshot runs a shape as lm-eval does."""
    found = {"dataset_path": f"{folder}/{TASK_OF.get(shape, shape)}_{{split}}.jsonl", **OPTIONS_OF.get(shape, {})}
    if not shots or shape == "rolling":  # lm-eval shows no examples before a document that is measured whole
        return found
    return found | {"num_shots": str(shots), "retriever": "lm_eval"}


@dataclass
class Tally:
    """What was compared, and what differs."""

    prompts: int = 0
    logprobs: int = 0
    largest: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


def read_run(run: Path, shape: str) -> tuple[list[Any], dict[str, float]]:
    """Return the rows of a shape in a run folder, and its figures."""
    rows = [json.loads(line) for line in (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    results = json.loads((run / "summary.json").read_text(encoding="utf-8"))["results"]
    figures = {row["metric"]: row["value"] for row in results if row["task"].startswith(f"{shape},")}
    return [row for row in rows if row["task"].startswith(f"{shape},")], figures


def compare(shape: str, rows: Sequence[Any], figures: Mapping[str, float], expected: Mapping[str, Any]) -> Tally:
    """Compare rows and figures of kshot with lm-eval's, document by document, then the figures."""
    tally = Tally()
    samples = distinct_documents(expected["samples"])
    if len(rows) != len(samples):
        tally.differences.append(f"{len(rows)} rows, {len(samples)} documents")
        return tally
    for index, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        differences = _replies(row, sample, tally) if isinstance(row["response"], str) else _scores(row, sample, tally)
        tally.differences += [f"document {index}: {each}" for each in differences]
    for name, key in FIGURES[shape].items():
        theirs, ours = expected["metrics"][key] * (100 if name.startswith(_SHARES) else 1), figures.get(name)
        # shares are counts, and so are equal to the last digit; a perplexity has the rounding of its sums
        allowed = 1e-12 if name.startswith(_SHARES) else 1e-5
        if ours is None or not math.isclose(ours, theirs, rel_tol=allowed, abs_tol=1e-12):
            tally.differences.append(f"{name}: kshot {ours}, lm-eval {theirs}")
        tally.figures |= {} if ours is None else {name: ours}
    return tally


def distinct_documents(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each document once, in order: with several filters lm-eval lists it once for each."""
    return list({sample["doc_id"]: sample for sample in sorted(samples, key=lambda each: each["doc_id"])}.values())


def _replies(row: dict[str, Any], sample: dict[str, Any], tally: Tally) -> Iterator[str]:
    tally.prompts += 1
    if row["prompt"] != (context := sample["arguments"][0][0]):
        yield f"prompt: kshot {row['prompt']!r}, lm-eval {context!r}"
    # lm-eval decodes the new tokens by themselves: SentencePiece then loses the space before the first word
    ours, theirs = (text.removeprefix(" ") for text in (row["response"], sample["resps"][0][0]))
    if ours != theirs:
        yield f"reply: kshot {ours!r}, lm-eval {theirs!r}"


def _scores(row: dict[str, Any], sample: dict[str, Any], tally: Tally) -> Iterator[str]:
    ours = row["response"]
    pairs = [(each.get("prompt", row["prompt"]), each["text"]) for each in ours]
    asked = list(zip(sample["arguments"], sample["resps"], strict=True))[: len(ours)]
    wanted = [("", *arguments) if len(arguments) == 1 else tuple(arguments) for arguments, _ in asked]
    tally.prompts += len(pairs)
    if pairs != wanted:
        yield f"asked: kshot {pairs!r}, lm-eval {wanted!r}"
        return
    for mine, (arguments, (answer,)) in zip(ours, asked, strict=True):
        logprob, greedy = answer if isinstance(answer, list) else (answer, None)
        allowed = max(TOLERANCE, ROUNDING * abs(logprob)) if len(arguments) == 1 else TOLERANCE
        difference = abs(mine["logprob"] - logprob)
        tally.logprobs, tally.largest = tally.logprobs + 1, max(tally.largest, difference)
        if difference > allowed:
            yield f"log-probability of {mine['text']!r:.40}: kshot {mine['logprob']}, lm-eval {logprob}"
        if greedy is not None and mine["greedy"] != greedy:
            yield f"greedy of {mine['text']!r:.40}: kshot {mine['greedy']}, lm-eval {greedy}"

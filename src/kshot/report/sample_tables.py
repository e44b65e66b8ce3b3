"""What a sample has several of: options with their log-probabilities, passages with their ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from kshot.core.records import ResultRow
from kshot.report.cells import SafeText, assembled, cell, joined
from kshot.report.sample_answers import option_words
from kshot.report.sample_evidence import evidence_mark, evidence_ranks, evidence_summary
from kshot.report.sample_responses import SampleOptions, is_number
from kshot.report.sample_texts import TextLimit, counted, excerpt, figure_text, written

_MAX_PASSAGES, _MAX_RELEVANT = 5, 5
_SHORT = TextLimit(240, 4)
_DIM = "dim"


def passages_table(passages: Sequence[ResultRow], row: ResultRow, *, full: bool) -> Iterator[RenderableType]:
    """Show the best passages, marked with their grade or with the evidence that they have; then what is missing."""
    if not passages:
        yield cell("nothing", "dim italic")
        return
    target, ranks = row.get("target"), evidence_ranks(row)
    grades = target if isinstance(target, dict) else {}
    shown = passages if full else passages[:_MAX_PASSAGES]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rank, hit in enumerate(shown, start=1):
        grade = grades.get(hit["id"])
        mark = f"✓ relevant (grade {written(grade)})" if grade else evidence_mark(ranks, rank)
        table.add_row(cell(rank, _DIM), cell(hit["id"]), _narrow(figure_text(hit["score"])), cell(mark, "green"))
    if len(shown) < len(passages):
        table.add_row("", cell(f"… {len(passages) - len(shown)} more", "dim italic"))
    yield table
    missing = evidence_summary(ranks, len(shown))
    if missing is not None:
        yield missing


def relevant_text(grades: Mapping[str, Any], passages: Sequence[ResultRow], *, full: bool) -> SafeText:
    """Return which passages the reference grades, and at which rank each was found."""
    ranks = {hit["id"]: rank for rank, hit in enumerate(passages, start=1)}
    names = [name for name, grade in grades.items() if grade]
    shown = names if full else names[:_MAX_RELEVANT]
    more = [cell(f"… {len(names) - len(shown)} more", "dim italic")] if len(shown) < len(names) else []
    lines = [
        assembled(cell(name), f" (grade {written(grades[name])}) ", cell(_rank(ranks.get(name)), _DIM))
        for name in shown
    ]
    return joined("\n", [*lines, *more]) if names else cell("none", _DIM)


def _rank(rank: int | None) -> str:
    return "not found" if rank is None else f"found as number {rank}"


def options_table(options: SampleOptions, answer: Any, target: Any, *, full: bool) -> Table:
    """Show every option, and its log-probability if it has one; a sign and a word mark the chosen and the right one."""
    rights = target if isinstance(target, list) else [target]
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    for index, text in enumerate(options.texts):
        chosen, fits = index == answer, index in rights
        words = {(True, True): "chosen, ✓ right", (True, False): "chosen ✗", (False, True): "✓ right"}
        style = "green" if fits else "red" if chosen else ""
        cells = [excerpt(text, None if full else _SHORT)]
        if options.logprobs:
            cells.append(_narrow(f"{options.logprobs[index]:.2f}", justify="right"))
        if full and options.tokens:
            tokens = options.tokens[index]
            cells.append(cell("" if tokens is None else counted(tokens, "token"), _DIM))
        if full and options.baselines:
            cells.append(cell(f"baseline {options.baselines[index]:.2f}", _DIM))
        table.add_row(*cells, _narrow(words.get((chosen, fits), ""), style))
    return table


def _narrow(text: str, style: str = "", **options: Any) -> SafeText:
    """Return a figure or a mark, which stays on one line beside a long text."""
    return cell(text, style, no_wrap=True, **options)


def likelihood_text(answer: Any) -> str:
    """Return how likely a text is, in words."""
    if not isinstance(answer, dict):
        return written(answer)
    counts = [
        counted(answer[f"{name}s"], name)
        for name in ("token", "word", "byte")
        if isinstance(answer.get(f"{name}s"), int)
    ]
    greedy = {True: ["the model would write it"], False: ["the model would write something else"]}
    nats = f"{answer['nll']:.2f} nats" if is_number(answer.get("nll")) else ""
    told = answer.get("greedy")
    return " · ".join([nats, *counts, *(greedy[told] if isinstance(told, bool) else [])])


def option_text(index: Any, options: SampleOptions, row: ResultRow) -> SafeText:
    """Return the text of an option, or its letter where only the prompt has the texts, as in folders of 0.1."""
    return excerpt(option_words(index, options, row), _SHORT)

"""``kshot passages``: inspect a benchmark before a run, and export results for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshot.cli.streams import say, show, show_json
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def passages(parsed: argparse.Namespace) -> int:
    """Run one action of the command."""
    return _ACTIONS[parsed.action](parsed)


def _check(parsed: argparse.Namespace) -> int:
    from kshot.core.errors import KshotError
    from kshot.passages.card import data_card
    from kshot.passages.fastbook import HANDBOOK, find_questions, handbook, own_benchmark
    from kshot.passages.questions import read_questions
    from kshot.report.cards import card_view

    built_in = parsed.file == "handbook"
    questions = read_questions(HANDBOOK / "questions.json" if built_in else find_questions(parsed.file))
    benchmark = None
    try:
        benchmark = handbook() if built_in else own_benchmark([parsed.file])
    except KshotError as exc:  # the card of a question file needs no documents
        say(f"quotes are not looked for in documents: {exc}")
    card = data_card(questions, benchmark)
    return _show(card, card_view(card), as_json=parsed.json)


def _ceiling(parsed: argparse.Namespace) -> int:
    from kshot.cli.settings_options import settings_of
    from kshot.core.errors import UsageError
    from kshot.passages.card import ceiling_card
    from kshot.passages.source import EVIDENCE_MEASURES, PassagesSource
    from kshot.report.cards import ceiling_view
    from kshot.report.systems import searched_where

    settings = settings_of(parsed)
    source = PassagesSource(parsed.dataset)
    benchmark = source.benchmark(settings)
    if benchmark.graded:
        raise UsageError(f"{parsed.dataset} has graded passages: their best order scores 1")
    for cutter in source.chunkers(benchmark, settings):
        card = ceiling_card(benchmark, benchmark.corpus(cutter), settings.measures or EVIDENCE_MEASURES)
        card = {"benchmark": benchmark.name, "chunks": str(cutter), "within": benchmark.within or "none", **card}
        if not parsed.json:
            show(one_line(f"{benchmark.name} cut by {cutter}, {searched_where(card)}"))
        _show(card, ceiling_view(card, everything=parsed.all), as_json=parsed.json)
    return 0


def _question(parsed: argparse.Namespace) -> int:
    from kshot.cli.settings_options import settings_of
    from kshot.passages.card import question_card
    from kshot.passages.source import PassagesSource
    from kshot.report.cards import question_view

    settings = settings_of(parsed)
    source = PassagesSource(parsed.dataset)
    benchmark = source.benchmark(settings)
    cutter = source.chunkers(benchmark, settings)[0]
    card = question_card(benchmark, benchmark.corpus(cutter), parsed.number)
    return _show(card, question_view(card), as_json=parsed.json)


def _chunks(parsed: argparse.Namespace) -> int:
    from kshot.cli.settings_options import settings_of
    from kshot.passages.source import PassagesSource

    settings = settings_of(parsed)
    source = PassagesSource(parsed.dataset)
    benchmark = source.benchmark(settings)
    for cutter in source.chunkers(benchmark, settings):
        for passage in benchmark.corpus(cutter):
            row = {"id": passage.id, "text": passage.text, "tokens": passage.tokens, **passage.fields}
            if parsed.json:
                show_json(row)
            else:
                show(f"── {one_line(passage.id)} · {passage.tokens} tokens " + "─" * 40 + f"\n{passage.text}")
    return 0


def _export(parsed: argparse.Namespace) -> int:
    from kshot.exporting import trec_files

    for path in trec_files(parsed.run, parsed.out, parsed.trust or ()):
        show(one_line(path))
    return 0


def _show(card: Any, parts: Iterable[Any], *, as_json: bool) -> int:
    if as_json:
        show_json(card, indent=2)
        return 0
    from kshot.cli.screen import Screen

    console = Screen()
    for part in parts:
        console.print(part)
    return 0


_ACTIONS = {"check": _check, "ceiling": _ceiling, "question": _question, "chunks": _chunks, "export": _export}

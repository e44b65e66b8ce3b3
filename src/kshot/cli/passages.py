"""kshot passages: inspect a benchmark before a run, and export results for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from kshot.cli.parser import add_settings, settings_of
from kshot.cli.score import add_trust
from kshot.cli.streams import say, show, show_json
from kshot.core.visible import one_line
from kshot.report.cells import block, cell
from kshot.report.drawn_table import drawn
from kshot.report.view import Cell, TableView, Tone, numbers, words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from kshot.core.protocols import TextChunker
    from kshot.passages.benchmark import Benchmark

_MAX_TEXT_WIDTH = 72
_MAX_LISTED = 10


def card_view(card: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show the counts of a question file, by chapter, and its oddities."""
    rows = [*card["chapters"], card["total"]]
    tones: list[Tone] = ["", "strong"]
    lines = [
        [
            Cell(f"{value:.1f}" if isinstance(value, float) else str(value), tone=tones[row is rows[-1]])
            for value in row.values()
        ]
        for row in rows
    ]
    first, *others = rows[0]
    yield drawn(TableView([*words(first), *numbers(*others)], lines))
    yield cell(f"{card['contexts']} contexts in all")
    yield from (cell(f"{count:>5}  {name}") for name, count in card["oddities"].items())


def ceiling_view(card: Mapping[str, Any], *, everything: bool) -> Iterator[RenderableType]:
    """Show the best score that the passages allow, and the components that none of them contains."""
    best = [[name, f"{value:.4f}"] for name, value in card["ceiling"].items()]
    counts = ", ".join(f"{chapter}: {count}" for chapter, count in card["by chapter"].items())
    yield cell(f"{card['passages']} passages ({counts})", style="bold", overflow="fold")
    yield drawn(TableView([*words("measure"), *numbers("best possible")], best))
    unreachable = card["unreachable"]
    yield cell(
        f"{card['components']} components: {card['empty']} have no context, {len(unreachable)} more lie in no passage "
        f"({card['contexts in no passage']} contexts: {card['contexts that straddle a border']} straddle a border, "
        f"{card['contexts not in the text']} are not in the text)."
    )
    shown = unreachable if everything else unreachable[:_MAX_LISTED]
    listed = []
    for row in shown:
        text = one_line(" ".join(row["component"].split()))
        whole = everything or len(text) <= _MAX_TEXT_WIDTH
        listed.append([row["question"], text if whole else text[: _MAX_TEXT_WIDTH - 1] + "…", row["why"]])
    if shown:
        yield drawn(TableView(words("question", "component", "why"), listed))
    if len(shown) < len(unreachable):
        yield cell(f"… and {len(unreachable) - len(shown)} more; --all shows them")


def question_view(card: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show one question, its answer and context, and the passages that contain each component."""
    yield block(card["question"], style="bold")
    yield block(card["answer"])
    for item in card["question_context"]:
        for text in item.get("context", ()):
            yield block(f"  the text on the question: {text}", style="dim")
    for number, component in enumerate(card["components"], start=1):
        passages = ", ".join(component["passages"]) or ("in no passage" if component["quotes"] else "no quote shows it")
        yield block(f"{number}. {component['text']}\n   → {passages}")
        yield from (block(f"   “{quote}”", style="dim") for quote in component["quotes"])


def add(passages: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    actions = passages.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="read a question file and print its data card")
    check.add_argument("file", metavar="FILE", help="question file, folder or URL (or: handbook)")
    check.add_argument("--json", action="store_true", help="print JSON")
    best = actions.add_parser(
        "ceiling", help="print the best score that the passages allow, and what none of them contains"
    )
    best.add_argument("--all", action="store_true", help="list every component that no passage contains, in full")
    one = actions.add_parser("question", help="print one question in full, and the passages that answer it")
    one.add_argument("number", metavar="CHAPTER.NUMBER", help="such as 4.20")
    cut = actions.add_parser("chunks", help="print the passages")
    for action in (best, one, cut):
        action.add_argument(
            "-d", "--dataset", default="fastbook", metavar="DATASET", help="handbook or fastbook (default: fastbook)"
        )
        action.add_argument("--json", action="store_true", help="print JSON")
        add_settings(action, only={"data", "chunker", "within", "components", "measures"})
    export = actions.add_parser("export", help="write a run's rankings as TREC files and a BEIR folder")
    export.add_argument("run", metavar="RUN", help="run folder")
    export.add_argument("out", metavar="DIR", help="folder to write to")
    add_trust(export)


def execute(parsed: argparse.Namespace) -> int:
    """Run one action of the command."""
    return _ACTIONS[parsed.action](parsed)


def _check(parsed: argparse.Namespace) -> int:
    from kshot.core.errors import KshotError
    from kshot.passages.card import data_card
    from kshot.passages.fastbook import HANDBOOK, find_questions, handbook, own_benchmark
    from kshot.passages.questions import read_questions

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
    from kshot.core.errors import UsageError
    from kshot.passages.card import ceiling_card
    from kshot.passages.source import EVIDENCE_MEASURES, PassagesSource
    from kshot.report.verdicts import searched_where

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


def _cut(parsed: argparse.Namespace) -> tuple[Benchmark, list[TextChunker | None]]:
    """Return the benchmark, and what cuts its documents."""
    from kshot.passages.source import PassagesSource

    source, settings = PassagesSource(parsed.dataset), settings_of(parsed)
    benchmark = source.benchmark(settings)
    return benchmark, source.chunkers(benchmark, settings)


def _question(parsed: argparse.Namespace) -> int:
    from kshot.passages.card import question_card

    benchmark, cutters = _cut(parsed)
    card = question_card(benchmark, benchmark.corpus(cutters[0]), parsed.number)
    return _show(card, question_view(card), as_json=parsed.json)


def _chunks(parsed: argparse.Namespace) -> int:
    benchmark, cutters = _cut(parsed)
    for cutter in cutters:
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

"""One sample on the screen: what was asked, what came back, how the answer was read, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kshot.core.records import UNANSWERED, ResultRow
from kshot.report.cells import block, cell
from kshot.report.sample_look import SampleLook
from kshot.report.sample_responses import MeasuredOptions, ReadResponse
from kshot.report.sample_texts import (
    TextLimit,
    excerpt,
    figure_text,
    one_of,
    option_letter,
    prompt_text,
    written,
)
from kshot.runs.sample_filters import name_of
from kshot.runs.sample_verdicts import MetricScale, SampleVerdict

_PROMPT, _REPLY, _SHORT = TextLimit(900, 14), TextLimit(600, 9), TextLimit(240, 4)
_MAX_REPLIES, _MAX_PASSAGES = 4, 5
_SIGNS: Mapping[SampleVerdict, tuple[str, str]] = {
    "right": ("✓ right", "green"),
    "partly": ("~ partly right", ""),
    "wrong": ("✗ wrong", "red"),
    "failed": ("! failed", "red"),
    "unrated": ("", ""),
}
"""A sign, a word and a colour: who does not see one sees the others."""
_DIM = "dim"


def sample_view(look: SampleLook) -> Iterator[RenderableType]:
    """Show one sample."""
    yield _head(look, verdict_text(look))
    grid = _grid()
    _add(grid, _asked(look))
    _add(grid, _answered(look))
    _add(grid, _expected(look))
    yield grid


def flip_view(looks: Sequence[SampleLook], labels: tuple[str, str]) -> Iterator[RenderableType]:
    """Show a sample of the first run, and below it the same one as the systems of the second run answered it."""
    first = looks[0]
    yield _head(first, Text())
    same = all(look.row.get("prompt") == first.row.get("prompt") for look in looks)
    grid = _grid()
    if same:
        _add(grid, _asked(first))
    for number, look in enumerate(looks):
        name, model = labels[min(number, 1)], name_of(look.row, "model")
        other = f" · {model}" if any(name_of(each.row, "model") != model for each in looks) else ""
        grid.add_row(cell("run", _DIM), Text.assemble(cell(f"{name}{other}", "bold"), "  ", verdict_text(look)))
        _add(grid, [] if same else _asked(look))
        _add(grid, _answered(look))
    _add(grid, _expected(first))
    yield grid


def verdict_text(look: SampleLook) -> Text:
    """Return whether a sample is right, and its score."""
    sign, colour = _SIGNS[look.scale.verdict(look.row)]
    score = look.scale.score(look.row)
    figure = "" if score is None else f"{look.scale.metric} {figure_text(score)}"
    return Text.assemble((sign, f"bold {colour}"), cell(" · " if sign and figure else ""), cell(figure))


def _head(look: SampleLook, outcome: Text) -> Text:
    names = [name for part in ("task", "id", "category", "model") if (name := name_of(look.row, part))]
    return Text.assemble("── ", cell(" · ".join(names), "bold"), " ── " if outcome else "", outcome)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=8)
    grid.add_column(overflow="fold")
    return grid


def _add(grid: Table, rows: Any) -> None:
    for label, shown in rows:
        grid.add_row(cell(label, _DIM), shown)


# ---- what was asked ----


def _asked(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    response, prompt = look.response, look.row.get("prompt")
    if response.measured.contexts or (response.likelihood and not prompt):
        return  # the contexts are the options, and a document has no prompt
    if prompt is None:
        yield "prompt", cell("(nothing was asked)", _DIM)
        return
    label = "query" if response.passages and not response.replies else "prompt"
    yield label, prompt_text(prompt, look.limit(_PROMPT), look.shots, whole=look.full)
    if response.rewritten:
        note = "the rewriter wrote the query"
        yield "", cell(note, "dim italic")


# ---- what came back ----


def _answered(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    row, response = look.row, look.response
    if response.passages:
        yield "found", _passages(response, row.get("target"), look)
    if look.full:
        yield from (("thoughts", excerpt(text, None)) for text in response.reasoning if text)
    yield from _replies(look, response.replies)
    if response.measured.texts:
        yield "options", _options(response.measured, row, full=look.full)
    if response.likelihood:
        yield "text", excerpt(response.likelihood["text"], look.limit(_REPLY))
        yield "measured", cell(_likelihood(row.get("answer")))
    if row.get("failed"):
        yield "failed", Text.assemble(block(written(row["failed"]), "red"))
    elif not response.likelihood:
        yield "answer", _answer(look, response)
    if look.full:
        yield from _details(row)
    yield from _judgements(look)


def _replies(look: SampleLook, replies: Sequence[str]) -> Iterator[tuple[str, RenderableType]]:
    if len(replies) == 1:
        yield "reply", excerpt(replies[0], look.limit(_REPLY))
        return
    shown = replies if look.full else replies[:_MAX_REPLIES]
    for number, reply in enumerate(shown, start=1):
        yield f"reply {number}", excerpt(reply, look.limit(_SHORT))
    if len(shown) < len(replies):
        yield "", cell(f"… {len(replies) - len(shown)} more replies", "dim italic")


def _passages(response: ReadResponse, target: Any, look: SampleLook) -> RenderableType:
    grades = target if isinstance(target, dict) else {}
    shown = response.passages if look.full else response.passages[:_MAX_PASSAGES]
    table = Table.grid(padding=(0, 2))
    for rank, hit in enumerate(shown, start=1):
        grade = grades.get(hit["id"])
        relevant = cell(f"✓ relevant (grade {written(grade)})", "green") if grade else cell("")
        table.add_row(cell(rank, _DIM), cell(hit["id"], overflow="fold"), cell(figure_text(hit["score"])), relevant)
    if len(shown) < len(response.passages):
        table.add_row("", cell(f"… {len(response.passages) - len(shown)} more", "dim italic"))
    return table


def _options(measured: MeasuredOptions, row: ResultRow, *, full: bool) -> RenderableType:
    """Show every option with its log-probability; a sign and a word mark the chosen and the right one."""
    right = row.get("target")
    rights = right if isinstance(right, list) else [right]
    table = Table.grid(padding=(0, 2))
    for index, text in enumerate(measured.texts):
        chosen, fits = index == row.get("answer"), index in rights
        mark = "✓ right" if fits else "✗" if chosen else ""
        words = ", ".join(word for word in ("chosen" if chosen else "", mark) if word).replace(", ✗", " ✗")
        style = "green" if fits else "red" if chosen else ""
        cells = [excerpt(text, None if full else _SHORT), cell(f"{measured.logprobs[index]:.2f}", justify="right")]
        if measured.tokens[index] is not None and full:
            cells.append(cell(f"{measured.tokens[index]} tokens", _DIM))
        if full and measured.baselines:
            cells.append(cell(f"baseline {measured.baselines[index]:.2f}", _DIM))
        table.add_row(*cells, cell(words, style))
    return table


def _likelihood(answer: Any) -> str:
    if not isinstance(answer, dict):
        return written(answer)
    counts = [f"{answer[name]:,} {name}" for name in ("tokens", "words", "bytes") if isinstance(answer.get(name), int)]
    greedy = {True: ["the model would write it"], False: ["the model would write something else"]}
    nats = f"{answer['nll']:.2f} nats" if isinstance(answer.get("nll"), (int, float)) else ""
    told = answer.get("greedy")
    return " · ".join([nats, *counts, *(greedy[told] if isinstance(told, bool) else [])])


def _answer(look: SampleLook, response: ReadResponse) -> RenderableType:
    """Return the answer, and the rule that read it."""
    answer, rule = look.row.get("answer"), _rule(look.row, look.scale, response)
    ranks = response.passages and not response.replies
    if ranks and isinstance(answer, list):
        shown = cell(f"the order of these {len(answer)} passages")
    elif response.chooses and isinstance(answer, int):
        shown = _option_name(answer, response.measured, look.row)
    elif isinstance(answer, dict) and isinstance(answer.get("text"), str):
        shown = excerpt(answer["text"], look.limit(_SHORT))
    elif isinstance(answer, list):
        whole = answer == list(response.replies)
        shown = cell("the replies as they are") if whole else one_answer_each(answer, look.limit(_SHORT))
    elif isinstance(answer, str) and [answer] == list(response.replies) and len(answer) > _SHORT.characters:
        shown = cell("the whole reply")
    else:
        shown = excerpt(written(answer), look.limit(_SHORT))
    return Text.assemble(shown, cell(f"   {rule}", _DIM)) if rule else shown


def one_answer_each(answers: Sequence[Any], limit: TextLimit | None) -> Text:
    """Return several answers, one on each line."""
    shown = answers if limit is None else answers[:_MAX_REPLIES]
    more = [cell(f"… {len(answers) - len(shown)} more", "dim italic")] if len(shown) < len(answers) else []
    lines = (Text.assemble((f"{number}. ", _DIM), excerpt(written(a), limit)) for number, a in enumerate(shown, 1))
    return Text("\n").join([*lines, *more])


def _option_name(index: int, measured: MeasuredOptions, row: ResultRow) -> Text:
    if index == UNANSWERED:
        return cell("none: several options come first" if row.get("tied") else "none")
    if 0 <= index < len(measured.texts):
        return excerpt(measured.texts[index], _SHORT)
    return cell(option_letter(index) if 0 <= index < 10_000 else index)  # noqa: PLR2004 - no prompt has more options


def _rule(row: ResultRow, scale: MetricScale, response: ReadResponse) -> str:
    """Return the rule by which the answer was read from the reply, or chosen among the options."""
    rule = row.get("rule")
    if isinstance(rule, list):
        names = dict.fromkeys(written(each) for each in rule if each is not None)
        return f"the most frequent; read by: {', '.join(names)}" if names else ""
    if rule is not None:
        return f"({written(rule)})" if row.get("answer") == UNANSWERED else f'by the rule "{written(rule)}"'
    if response.measured.texts and scale.rule:
        others = row.get("answers")
        differ = (
            [name for name, index in others.items() if index != row.get("answer")] if isinstance(others, dict) else []
        )
        return f"by {scale.rule}" + (f" (not by {', '.join(differ)})" if differ else "")
    return ""


def _details(row: ResultRow) -> Iterator[tuple[str, RenderableType]]:
    """Yield what else a row says: whether the reply is whole, answers by other rules, every score."""
    if row.get("stop_reason"):
        yield "stopped", cell(f"by {written(row['stop_reason'])}")
    names = ("answers", "tied", "identical_options", "failed_replies", "cut_tokens")
    yield from ((name.replace("_", " "), excerpt(written(row[name]), None)) for name in names if name in row)
    scores = row.get("scores")
    for name, value in scores.items() if isinstance(scores, dict) else ():
        yield "score", cell(f"{name} {written(value)}")


def _judgements(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    found = look.row.get("judge")
    for each in found if isinstance(found, list) else ():
        if not isinstance(each, dict):
            continue
        if look.full:
            yield "judge's", Text.assemble(cell("prompt\n", _DIM), prompt_text(each.get("prompt"), None, 0, whole=True))
        yield "judge", excerpt(written(each.get("response")), look.limit(_REPLY))


# ---- what would be right ----


def _expected(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    row, response = look.row, look.response
    target = row.get("target")
    if target is None or (response.likelihood and target == [response.likelihood["text"].strip()]):
        return
    if response.chooses:
        rights = target if isinstance(target, list) else [target]
        names = [_option_name(each, response.measured, row) for each in rights if isinstance(each, int)]
        yield "target", Text(" or ").join(names)
    elif isinstance(target, dict) and response.passages:
        yield "relevant", cell(", ".join(f"{name} ({written(grade)})" for name, grade in target.items()))
    elif isinstance(target, list) and target and all(isinstance(each, list) for each in target):
        lines = [Text(" or ").join(block(f"“{written(q)}”") for q in quotes) for quotes in target]
        yield "evidence", Text("\n").join(lines)
    else:
        yield "target", one_of(target, look.limit(_SHORT))

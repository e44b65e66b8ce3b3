"""One sample on the screen: what was asked, what came back, how the answer was read, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from kshot.core.records import ResultRow, TokenLogprobs
from kshot.report.cells import SafeText, assembled, block, cell, joined
from kshot.report.sample_look import (
    ReadResponse,
    SampleLook,
    SampleOptions,
    TextLimit,
    counted,
    cut_notes,
    evidence_mark,
    evidence_ranks,
    evidence_summary,
    excerpt,
    figure_text,
    likelihood_text,
    option_words,
    parts_of,
    rule_words,
    several,
    whole_prompt,
    written,
)
from kshot.runs.sample_filters import SampleVerdict, name_of

_PROMPT, _REPLY, _SHORT = TextLimit(900, 14), TextLimit(600, 9), TextLimit(240, 4)
_MAX_REPLIES = 4
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
    yield _grid([*_asked(look), *_answered(look), *_expected(look), *(_details(look) if look.full else ())])


def flip_view(looks: Sequence[SampleLook], labels: tuple[str, str]) -> Iterator[RenderableType]:
    """Show a sample of the first run, and below it the same one as the systems of the second run answered it."""
    first = looks[0]
    yield _head(first, block(""))
    same = first.full is False and all(look.question.messages == first.question.messages for look in looks)
    rows = [*_asked(first, note=False)] if same else []
    for number, look in enumerate(looks):
        name, model = labels[min(number, 1)], name_of(look.row, "model")
        other = f" · {model}" if any(name_of(each.row, "model") != model for each in looks) else ""
        above = f"   after {look.question.above}" if same and look.question.above else ""
        title = assembled(cell(f"{name}{other}", "bold"), "  ", verdict_text(look), (above, "dim italic"))
        rows += [("run", title), *(() if same else _asked(look)), *_answered(look)]
    yield _grid([*rows, *_expected(first)])


def verdict_text(look: SampleLook) -> SafeText:
    """Return whether a sample is right, and its score."""
    sign, colour = _SIGNS[look.scale.verdict(look.row)]
    score = look.scale.score(look.row)
    figure = "" if score is None else f"{look.scale.label} {figure_text(score)}"
    return assembled((sign, f"bold {colour}"), cell(" · " if sign and figure else ""), cell(figure))


def _head(look: SampleLook, outcome: SafeText) -> SafeText:
    names = [name for part in ("task", "id", "category", "model") if (name := name_of(look.row, part))]
    return assembled("── ", cell(" · ".join(names), "bold"), " ── " if outcome else "", outcome)


def _grid(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=8)
    grid.add_column(overflow="fold")
    for label, shown in rows:
        grid.add_row(cell(label, _DIM), shown)
    return grid


# ---- what was asked ----


def _asked(look: SampleLook, *, note: bool = True) -> Iterator[tuple[str, RenderableType]]:
    response, prompt = look.response, look.row.get("prompt")
    if response.options.contexts or (response.likelihood and not prompt):
        return  # the contexts are the options, and a document has no prompt
    if prompt is None:
        yield "prompt", cell("(nothing was asked)", _DIM)
        return
    shown = look.question if note else replace(look.question, above="")
    yield "query" if response.ranks else "prompt", shown.text(look.limit(_PROMPT))
    if response.rewritten:
        yield "", cell("the rewriter wrote the query", "dim italic")


# ---- what came back ----


def _answered(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    row, response = look.row, look.response
    if response.passages or response.ranks:
        for number, part in enumerate(passages_table(response.passages, row, full=look.full)):
            yield "" if number else "found", part
    if look.full:
        yield from (("reasoning", excerpt(text, None)) for text in response.reasoning if text)
    elif thoughts := sum(map(len, response.reasoning)):
        yield "", cell(f"… {counted(thoughts, 'character')} of reasoning", "dim italic")
    yield from _replies(look, response.replies)
    yield from (("", cell(note, "dim italic")) for note in cut_notes(row))
    options = response.options
    if options.logprobs or (options.texts and response.chooses and not _prompt_lists_options(look)):
        yield "options", options_table(options, look.answer, row.get("target"), full=look.full)
    if response.likelihood:
        yield "text", excerpt(response.likelihood["text"], look.limit(_REPLY))
        yield "measured", cell(likelihood_text(row.get("answer")))
    if look.full:
        yield from token_rows(response)
    if row.get("failed"):
        yield "failed", block(written(row["failed"]), "red")
    elif not response.likelihood:
        yield "answer", _answer(look, response)
    yield from _judgements(look)


def _prompt_lists_options(look: SampleLook) -> bool:
    """Whether the prompt on the screen has a line for each option, so that they need not be told again."""
    listed = look.row.get("options")
    lines = [line.strip() for line in look.question.text(look.limit(_PROMPT)).plain.splitlines()]
    texts = [each.strip() for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    return not look.full and all(any(line.endswith(text) for line in lines) for text in texts)


def _replies(look: SampleLook, replies: Sequence[str]) -> Iterator[tuple[str, RenderableType]]:
    if len(replies) == 1:
        yield "reply", excerpt(replies[0], look.limit(_REPLY))
        return
    shown = replies if look.full else replies[:_MAX_REPLIES]
    for number, reply in enumerate(shown, start=1):
        yield f"reply {number}", excerpt(reply, look.limit(_SHORT))
    if len(shown) < len(replies):
        yield "", cell(f"… {len(replies) - len(shown)} more replies", "dim italic")


def _answer(look: SampleLook, response: ReadResponse) -> RenderableType:
    """Return the answer, and the rule that read it."""
    answer, rule = look.answer, rule_words(look)
    if response.ranks:
        shown = cell(f"{counted(len(answer), 'passage')}, in this order" if answer else "no passage")
    elif response.chooses and isinstance(answer, int):
        shown = option_text(answer, response.options, look.row)
    elif isinstance(answer, dict) and isinstance(answer.get("text"), str):
        shown = excerpt(answer["text"], look.limit(_SHORT))
    elif isinstance(answer, list):
        whole = answer == list(response.replies)
        shown = cell("the replies as they are") if whole else several(answer, look.limit(_SHORT), numbered=True)
    elif isinstance(answer, str) and [answer] == list(response.replies) and len(answer) > _SHORT.characters:
        shown = cell("the whole reply")
    else:
        shown = excerpt(written(answer), look.limit(_SHORT))
    return assembled(shown, cell(f"   {rule}", _DIM)) if rule else shown


def _judgements(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    found = look.row.get("judge")
    for each in found if isinstance(found, list) else ():
        if not isinstance(each, dict):
            continue
        reply = excerpt(written(each.get("response")), look.limit(_REPLY))
        if look.full:
            asked = whole_prompt(each.get("prompt")).text(None)
            reply = assembled(asked, "\n", ("[the judge's reply]", _DIM), "\n", reply)
        yield "judge", reply


# ---- what would be right ----


def _expected(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    row, response = look.row, look.response
    target = row.get("target")
    if target is None or (response.likelihood and target == [response.likelihood["text"].strip()]):
        return
    if response.chooses:
        yield "target", joined(" or ", [option_text(each, response.options, row) for each in parts_of(target)])
    elif isinstance(target, dict) and response.ranks:
        yield "relevant", relevant_text(target, response.passages, full=look.full)
    elif isinstance(target, list) and target and all(isinstance(each, list) for each in target):
        yield "evidence", _evidence(target, look)
    elif isinstance(target, list) and target and all(isinstance(each, (str, int, float)) for each in target):
        turns = isinstance(row.get("answer"), list) and len(row["answer"]) == len(target)
        yield "target", several(target, look.limit(_SHORT), numbered=turns and len(target) > 1)
    else:
        yield "target", excerpt(written(target), look.limit(_SHORT))


def _evidence(target: Sequence[Sequence[Any]], look: SampleLook) -> SafeText:
    """Return the quotes of each component; several components are numbered."""
    lines = []
    for number, quotes in enumerate(target, start=1):
        shown = [assembled("“", excerpt(written(each), look.limit(_SHORT)), "”") for each in quotes]
        words = joined(" or ", shown) if shown else cell("(no quote)", "dim italic")
        lines.append(assembled((f"{number}. " if len(target) > 1 else "", _DIM), words))
    return joined("\n", lines)


def _details(look: SampleLook) -> Iterator[tuple[str, RenderableType]]:
    """Yield what else a row says: answers by other rules, every score, and what is not whole."""
    row, options = look.row, look.response.options
    answers, scores = row.get("answers"), row.get("scores")
    if isinstance(answers, dict) and answers:
        yield "by rule", _named({rule: option_text(each, options, row) for rule, each in answers.items()})
    if isinstance(scores, dict) and scores:
        yield "scores", _named({name: cell(written(value)) for name, value in scores.items()})
    names = ("tied", "identical_options", "failed_replies")
    yield from ((name.replace("_", " "), excerpt(written(row[name]), None)) for name in names if name in row)


def _named(values: Mapping[str, SafeText]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        table.add_row(cell(name, _DIM, overflow="fold"), value)
    return table


_MAX_PASSAGES, _MAX_RELEVANT = 5, 5


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
    found = {name: f"found as number {ranks[name]}" if name in ranks else "not found" for name in shown}
    lines = [assembled(cell(name), f" (grade {written(grades[name])}) ", cell(found[name], _DIM)) for name in shown]
    return joined("\n", [*lines, *more]) if names else cell("none", _DIM)


def options_table(options: SampleOptions, answer: Any, target: Any, *, full: bool) -> Table:
    """Show every option, and its log-probability if it has one; a sign and a word mark the chosen and the right one."""
    rights = list(parts_of(target))
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


def option_text(index: Any, options: SampleOptions, row: ResultRow) -> SafeText:
    """Return the text of an option, or its letter where only the prompt has the texts, as in folders of 0.1."""
    return excerpt(option_words(index, options, row), _SHORT)


_SPACE = "␣"


def tokens_text(tokens: TokenLogprobs) -> SafeText:
    """Return tokens, each before its log-probability; spaces are shown."""
    pairs = (assembled(cell(text.replace(" ", _SPACE)), cell(f"({logprob:.2f})", "dim")) for text, logprob in tokens)
    return joined("  ", pairs)


def token_rows(response: ReadResponse) -> Iterator[tuple[str, SafeText]]:
    """Yield the tokens of each reply, option and measured text that has them."""
    several = len(response.replies) > 1
    for number, tokens in enumerate(response.reply_tokens, start=1):
        if tokens:
            yield f"tokens {number}" if several else "tokens", tokens_text(tokens)
    if any(options := [tokens for tokens in response.options.token_logprobs if tokens]):
        yield "tokens", joined("\n", map(tokens_text, options))
    if response.likelihood_tokens:
        yield "tokens", tokens_text(response.likelihood_tokens)

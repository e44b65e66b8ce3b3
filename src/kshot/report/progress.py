"""How the progress of a run looks: one overall bar, then a few lines for each model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from kshot.core.visible import one_line
from kshot.report.cells import cell, shortened
from kshot.report.quantities import abridged, duration, money, pace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kshot.core.watcher import MeterReading
    from kshot.runs.progress import ProgressState, StepProgress, TaskProgress

_MAX_BAR, _MIN_BAR = 40, 8
_MAX_DONE_LINES = 6
"""More tasks that are done become one line, also where there is room."""
_SEPARATOR = " · "
_ASCII = str.maketrans("━─·…", "#-|.")
"""What stands for signs that a terminal without Unicode lacks."""


def progress_view(state: ProgressState, width: int, height: int = 24, *, ascii_only: bool = False) -> RenderableType:
    """Return the progress as at most ``height`` lines, none of them wider than ``width``."""
    lines = progress_lines(state, width, height)
    for line in lines if ascii_only else ():
        line.plain = line.plain.translate(_ASCII)
    return Group(*lines)


def progress_lines(state: ProgressState, width: int, height: int = 24) -> list[Text]:
    """Return the lines of the view. The overall line and what runs now come before all else that has no room."""
    first = [overall_line(state, width)]
    if state.step is not None:
        first.append(_within(cell(_step_text(state.step)), width))
    models = [(model, list(tasks)) for model, tasks in groupby(state.tasks, key=lambda task: task.model)]
    for folded in (False, True):
        blocks = [_model(model, tasks, width, folded=folded, alone=len(models) == 1) for model, tasks in models]
        if len(first) + sum(map(len, blocks)) <= height:
            return first + [line for block in blocks for line in block]
    room = height - len(first)
    running = [
        block
        for (_, tasks), block in zip(models, blocks, strict=True)
        if any(task.state == "running" for task in tasks)
    ]
    shown = [line for block in running for line in block][: max(0, room - 1)]
    rest = len(models) - len(running)
    if rest and room > len(shown):
        done = sum(all(task.state == "done" for task in tasks) for _, tasks in models)
        shown.append(Text(f"{done:,} of {len(models):,} models done"[:width], "dim"))
    return (first + shown)[: max(1, height)]


# ---- lines ----


def overall_line(state: ProgressState, width: int) -> Text:
    """Return the bar of the whole run, with its samples, its rate and the time that it still takes."""
    parts = [(cell(_SEPARATOR if at else "", "dim"), part) for at, part in enumerate(_overall(state))]
    text, share = Text.assemble(*chain.from_iterable(parts)), _share(state)
    if share is not None:
        text = Text.assemble((f"{100 * share:5.1f} %  ", "bold"), text)
        room = min(_MAX_BAR, width - cell_len(text.plain) - 2)
        if room >= _MIN_BAR:
            filled = int(share * room)
            text = Text.assemble(("━" * filled, "green"), ("─" * (room - filled), "dim"), "  ", text)
    return _within(text, width)


def progress_line(state: ProgressState) -> str:
    """Return the state as one line of plain text, for a log."""
    share = _share(state)
    parts = [part.plain for part in _overall(state)]
    if share is not None:
        parts[0] += f" ({100 * share:.1f} %)"
    running = next((task for task in state.tasks if task.state == "running"), None)
    if state.step is not None:
        parts.append(_step_text(state.step))
    elif running is not None:
        several = any(task.model != running.model for task in state.tasks)
        name = f"{running.task} on {running.model}" if several else running.task
        figure = "" if running.reading.value is None else f" {running.reading.label} {running.reading.value:.1f}"
        parts.append(name + figure)
    return one_line(_SEPARATOR.join([*parts, *([f"{state.failed:,} failed"] if state.failed else [])]))


def _share(state: ProgressState) -> float | None:
    """Return how much of the run is done: of its samples, or of its tasks where the former are not known."""
    total = state.total
    if total is not None:
        return None if not total else min(1.0, state.done / total)
    if not state.complete or not state.tasks:
        return None
    return sum(task.state == "done" for task in state.tasks) / len(state.tasks)


def _overall(state: ProgressState) -> list[Text]:
    done, total = state.done, state.total
    if total is not None:
        parts = [cell(f"{done:,} of {total:,}", "bold")]
    elif state.complete:
        finished = sum(task.state == "done" for task in state.tasks)
        parts = [cell(f"{finished:,} of {len(state.tasks):,} tasks", "bold"), cell(f"{done:,} samples")]
    elif state.tasks:
        parts = [cell(f"{done:,} samples", "bold"), cell("the total is not known")]
    else:
        parts = [cell("preparing", "bold")]
    rate = next((task.rate for task in state.tasks if task.state == "running"), None)
    if rate is not None:
        parts.append(cell(pace(rate)))
    is_open = state.left is not None and (total is None or done < total)
    parts.append(cell(f"{duration(state.left or 0)} left" if is_open else f"{duration(state.elapsed)} so far"))
    return parts


def _step_text(step: StepProgress) -> str:
    counts = f": {step.done:,} of {step.total:,}" if step.total > 1 else ""
    return step.label + counts


def _model(model: str, tasks: Sequence[TaskProgress], width: int, *, folded: bool, alone: bool) -> list[Text]:
    """Return the lines of one model: what is done, what runs, and how much waits."""
    states = {task.state for task in tasks}
    if states == {"waiting"}:
        if alone:
            return []
        return list(_flowing(model, [cell("waits", "dim")], width, indent=""))
    lines = list(_flowing(model, [], width, indent="", style="bold"))
    singles: list[TaskProgress] = []
    for group, members in groupby(tasks, key=lambda task: task.group):
        subsets = list(members)
        if group and len(subsets) > 1:
            lines += _fold(group, subsets, "subsets", width)
        else:
            singles += subsets
    finished = [task for task in singles if task.state == "done"]
    folded = len(finished) > (1 if folded else _MAX_DONE_LINES)
    if folded:
        lines += _fold("", singles, "tasks", width)
    else:
        lines += [line for task in finished for line in _done(task, width)]
    lines += [line for task in tasks if task.state == "running" for line in _running(task, width)]
    waiting = sum(task.state == "waiting" for task in singles)
    if waiting and not folded:
        lines.append(Text(f"  {waiting:,} {'task waits' if waiting == 1 else 'tasks wait'}", "dim"))
    return lines


def _fold(name: str, tasks: Sequence[TaskProgress], what: str, width: int) -> Iterator[Text]:
    """Return one line for many tasks."""
    done = [task for task in tasks if task.state == "done"]
    parts = [cell(f"{len(done):,} of {len(tasks):,} {what} done")]
    readings = [task.reading for task in done]
    figures = [each.value for each in readings if each.value is not None]
    metrics = {each.label for each in readings}
    if figures and what == "subsets" and len(metrics) == 1 and len(figures) == len(done):
        parts.append(cell(f"mean {metrics.pop()} {sum(figures) / len(figures):.1f}", "bold"))
    parts += _spent(readings)
    return _flowing(name, parts, width)


def _done(task: TaskProgress, width: int) -> Iterator[Text]:
    """Return the line of a task that is done; what it took is told of the running ones and in the results."""
    now = task.reading
    failed = [cell(f"{now.failed:,} failed", "red")] if now.failed else []
    return _flowing(task.task, [cell(f"{now.done:,} done"), *_figure(now), *failed], width)


def _running(task: TaskProgress, width: int) -> Iterator[Text]:
    """Return the lines of a task that runs."""
    now = task.reading
    parts = [cell(f"{now.done:,} done" if task.total is None else f"{now.done:,} of {task.total:,}")]
    if now.recalled:
        parts.append(cell(f"{now.recalled:,} from the journal"))
    if now.ahead:
        parts.append(cell(f"{now.ahead:,} of later tasks"))
    if task.rate is not None:
        parts.append(cell(pace(task.rate)))
    workers = [cell(now.workers, "dim")] if now.workers else []
    return _flowing(task.task, [*parts, *_figure(now), *_spent([now]), *workers], width)


def _figure(now: MeterReading) -> Iterator[Text]:
    if now.value is not None:
        ends = "" if now.interval is None else " [{:.1f}, {:.1f}]".format(*now.interval)
        yield cell(f"{now.label} {now.value:.1f}{now.mark}{ends}", "bold")


def _spent(readings: Sequence[MeterReading]) -> Iterator[Text]:
    """Yield what went wrong with tasks, and what they took."""
    failed, retried = sum(each.failed for each in readings), sum(each.retried for each in readings)
    if failed:
        yield cell(f"{failed:,} failed", "red")
    if retried:
        yield cell(f"{retried:,} retried")
    read, written = sum(each.prompt_tokens for each in readings), sum(each.completion_tokens for each in readings)
    if read or written:
        yield cell(f"{abridged(read)} tokens read, {abridged(written)} written")
    costs = [each.cost_usd for each in readings if each.cost_usd is not None]
    if costs:
        yield cell(money(sum(costs)))


# ---- fitting ----


def _flowing(name: str, parts: Sequence[Text], width: int, indent: str = "  ", style: str = "") -> Iterator[Text]:
    """Yield a name and what is said about it: as many lines as needed, each within the width."""
    room = max(8, (width if not parts else width // 2) - len(indent))
    line = Text.assemble(indent, cell(shortened(name, room) if name else "", style))
    empty = not name
    for part in parts:
        separator = "" if empty else "  " if line.plain.strip() and part is parts[0] else _SEPARATOR
        if not empty and cell_len(line.plain) + cell_len(separator) + part.cell_len > width:
            yield _within(line, width)
            line, separator = Text(indent + "    "), ""
        line = Text.assemble(line, cell(separator, "dim"), part)
        empty = False
    yield _within(line, width)


def _within(line: Text, width: int) -> Text:
    """Cut a line that is too wide; its styles stay."""
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line

"""How the progress of a run looks: one overall bar, then a few lines for each model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Group
from rich.text import Text

from kshot.core.visible import one_line
from kshot.report.quantities import abridged, duration, money, pace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kshot.runs.progress import ProgressState, StepProgress, TaskProgress

_MAX_BAR, _MIN_BAR = 40, 8
_SEPARATOR = " · "


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a line that is never broken."""

    text: str
    style: str = ""


def progress_view(state: ProgressState, width: int, height: int = 24) -> RenderableType:
    """Return the progress as at most ``height`` lines, none of them wider than ``width``."""
    return Group(*progress_lines(state, width, height))


def progress_lines(state: ProgressState, width: int, height: int = 24) -> list[Text]:
    """Return the lines of the view. The overall line and what runs now come before all else that has no room."""
    first = [_overall(state, width)]
    if state.step is not None:
        first.append(_step(state.step, width))
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


def _overall(state: ProgressState, width: int) -> Text:
    """Return the bar of the whole run, with its samples, its rate and the time that it still takes."""
    done, total = state.done, state.total
    rate = next((task.rate for task in reversed(state.tasks) if task.state != "waiting"), None)
    said = [_Part(f"{done:,} samples" if total is None else f"{done:,} of {total:,}", "bold")]
    if total is None:
        said.append(_Part("the total is not known"))
    if rate is not None:
        said.append(_Part(pace(rate)))
    if state.left is not None:
        said.append(_Part(f"{duration(state.left)} left"))
    elif total is not None and done < total:
        said.append(_Part(f"{duration(state.elapsed)} so far"))
    text = _joined(said)
    share = None if not total else min(1.0, done / total)
    if share is not None:
        text = Text(f"{100 * share:5.1f} %  ", "bold") + text
        room = min(_MAX_BAR, width - cell_len(text.plain) - 2)
        if room >= _MIN_BAR:
            text = _bar(share, room) + Text("  ") + text
    text.truncate(width, overflow="ellipsis")
    return text


def _bar(share: float, width: int) -> Text:
    filled = int(share * width)
    return Text("━" * filled, "green") + Text("─" * (width - filled), "dim")


def _step(step: StepProgress, width: int) -> Text:
    counts = f"{step.done:,} of {step.total:,}" if step.total > 1 else ""
    label = _shortened(step.label, width - len(counts) - 3)
    return _joined([_Part(each) for each in (label, counts) if each])


def _model(model: str, tasks: Sequence[TaskProgress], width: int, *, folded: bool, alone: bool) -> list[Text]:
    """Return the lines of one model: what is done, what runs, and how much waits."""
    states = {task.state for task in tasks}
    if states == {"waiting"}:
        if alone:
            return []
        return list(_flowing(model, [_Part("waits", "dim")], width, indent=""))
    lines = list(_flowing(model, [], width, indent="", style="bold"))
    singles: list[TaskProgress] = []
    for group, members in groupby(tasks, key=lambda task: task.group):
        subsets = list(members)
        if group and len(subsets) > 1:
            lines += _fold(group, subsets, "subsets", width)
        else:
            singles += subsets
    finished = [task for task in singles if task.state == "done"]
    if folded and len(finished) > 1:
        lines += _fold("", singles, "tasks", width)
    else:
        for task in finished:
            lines += _task(task, width)
    for task in tasks:
        if task.state == "running":
            lines += _task(task, width)
    waiting = sum(task.state == "waiting" for task in singles)
    if waiting and not (folded and len(finished) > 1):
        lines.append(Text(f"  {waiting:,} {'task waits' if waiting == 1 else 'tasks wait'}", "dim"))
    return lines


def _fold(name: str, tasks: Sequence[TaskProgress], what: str, width: int) -> Iterator[Text]:
    """Return one line for many tasks."""
    done = [task for task in tasks if task.state == "done"]
    parts = [_Part(f"{len(done):,} of {len(tasks):,} {what} done")]
    figures = [task.value for task in done if task.value is not None]
    metrics = {task.metric for task in done}
    if figures and what == "subsets" and len(metrics) == 1 and len(figures) == len(done):
        parts.append(_Part(f"mean {metrics.pop()} {sum(figures) / len(figures):.1f}"))
    parts += _spent(done)
    return _flowing(name, parts, width)


def _task(task: TaskProgress, width: int) -> Iterator[Text]:
    """Return the lines of one task."""
    parts = [_Part(f"{task.done:,}" if task.total is None else f"{task.done:,} of {task.total:,}")]
    if task.recalled:
        parts.append(_Part(f"{task.recalled:,} from the journal"))
    if task.state == "running" and task.rate is not None:
        parts.append(_Part(pace(task.rate)))
    if task.value is not None:
        ends = "" if task.low is None or task.high is None else f" [{task.low:.1f}, {task.high:.1f}]"
        parts.append(_Part(f"{one_line(task.metric)} {task.value:.1f}{ends}", "bold"))
    return _flowing(task.task, [*parts, *_spent([task])], width)


def _spent(tasks: Sequence[TaskProgress]) -> Iterator[_Part]:
    """Yield what went wrong with tasks, and what they took."""
    failed, retried = sum(task.failed for task in tasks), sum(task.retried for task in tasks)
    if failed:
        yield _Part(f"{failed:,} failed", "red")
    if retried:
        yield _Part(f"{retried:,} retried")
    read, written = sum(task.prompt_tokens for task in tasks), sum(task.completion_tokens for task in tasks)
    if read or written:
        yield _Part(f"{abridged(read)} tokens read, {abridged(written)} written")
    costs = [task.cost_usd for task in tasks if task.cost_usd is not None]
    if costs:
        yield _Part(money(sum(costs)))


# ---- fitting ----


def _flowing(name: str, parts: Sequence[_Part], width: int, indent: str = "  ", style: str = "") -> Iterator[Text]:
    """Yield a name and what is said about it: as many lines as needed, each within the width."""
    room = max(8, (width if not parts else width // 2) - len(indent))
    line = Text(indent) + Text(_shortened(name, room), style) if name else Text(indent)
    empty = not name
    for part in parts:
        separator = "" if empty else "  " if line.plain.strip() and part is parts[0] else _SEPARATOR
        if not empty and cell_len(line.plain) + cell_len(separator) + cell_len(part.text) > width:
            yield _cut(line, width)
            line, separator = Text(indent + "    "), ""
        line = line + Text(separator, "dim") + Text(part.text, part.style)
        empty = False
    yield _cut(line, width)


def _joined(parts: Sequence[_Part]) -> Text:
    text = Text()
    for number, part in enumerate(parts):
        text = text + Text(_SEPARATOR if number else "", "dim") + Text(part.text, part.style)
    return text


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


def _shortened(name: str, room: int) -> str:
    """Shorten a name in its middle: the end of a model's name tells it apart."""
    text = one_line(name)
    if cell_len(text) <= room:
        return text
    head = (room - 1) // 3
    tail = chop_cells(text[::-1], room - 1 - head)[0][::-1]
    return f"{set_cell_size(text, head)}…{tail}"

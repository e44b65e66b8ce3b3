"""A comparison of runs as a table of data, in sentences, and the names of what it compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Literal, NamedTuple

from kshot.core.failed_parts import failure_mark, p_text, side_mark
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.cells import shortened
from kshot.report.figures import number, rounded, signed
from kshot.report.sample_look import counted
from kshot.report.verdicts import shown_p
from kshot.report.view import Cell, Column, Content, TableView, Tone, count_cell, numbers, words
from kshot.runs.headline import grouped

SENTENCES = 5
"""Comparisons that are told in sentences; the others are counted."""

GLUE = "\xa0"
"""A space at which no line is broken."""

_MAX_TASK = 100
"""Columns of the name of a task; strangers may have chosen it."""

_MAX_NAMED = 3
"""Tasks that a warning names."""


def answers(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Answer the question of a comparison: averages first, then what is clearest, and the rest in numbers."""
    many = len(rows) > SENTENCES
    found = [row for row in rows if row["difference"] is not None or not many]
    found.sort(key=lambda row: ("average" not in row, row["p_corrected"] is None, row["p_corrected"] or 0.0))
    told = found if len(found) <= SENTENCES else found[:SENTENCES]
    if averages := [row for row in told if "average" in row]:
        told = averages  # what they average is counted
    yield from map(sentence, told)
    if rest := found[len(told) :]:
        yield _counted(rest)
    if many:
        yield from (f"{line}." for line in not_compared(rows, "task"))


def sentence(row: ResultRow) -> str:
    """Say in words what a comparison shows."""
    run, other, task = row["run"], row["baseline"], task_name(row) + failure_mark(row)
    if row["difference"] is None:
        return f"{run} and {other} cannot be compared on {task}: {_obstacle(row)}."
    sign = 1 if row["higher_is_better"] else -1
    ahead = sign * row["difference"]
    unit = f"{'points ' if 'both' in row else ''}in {metric_label(row)}"
    if row["verdict"] is None:
        amount = f"{signed(row['difference'], digits_of([row]))} {unit}"
        if row.get("won") == row.get("lost") == 0:
            who = "the only question has" if row["n"] == 1 else f"each of the {row['n']:,} questions has"
            return f"{run} and {other} do the same on {task}: {who} the same {metric_label(row)}."
        return f"{run} and {other} cannot be told apart on {task}: {amount}{_beside(row, sign=1)}{_questions(row)}."
    better = row["verdict"] == "better"
    word = "ahead of" if better else "behind"
    amount = f"by {number(abs(ahead), digits_of([row]))} {unit}"
    return f"{run} is {word} {other} on {task} {amount}{_beside(row, sign if better else -sign)}{_questions(row)}."


def _obstacle(row: ResultRow) -> str:
    """Say why a row has no difference."""
    if row["n"]:
        return f"{metric_label(row)} has no value in one of them"
    failed = row.get("failed_baseline") or row.get("failed_run")
    return "no question was answered in both" if failed else "no question is in both"


def not_compared(rows: Iterable[ResultRow], noun: Literal["task", "category"]) -> Iterator[str]:
    """Say which tasks or categories have no difference, and why."""
    every = list(rows)
    tasks, pairs = {task_name(row) for row in every}, {(row["baseline"], row["run"]) for row in every}
    reasons: dict[str, dict[str, None]] = {}
    for row in (row for row in every if row["difference"] is None):
        name = task_name(row)
        if noun == "category":
            name = shortened(row["category"], _MAX_TASK) + (f" of {name}" if len(tasks) > 1 else "")
        reasons.setdefault(_obstacle(row), {})[name + (f" in {row['run']}" if len(pairs) > 1 else "")] = None
    for reason, names in reasons.items():
        more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        nouns = noun if len(names) == 1 else _PLURALS[noun]
        yield f"{len(names):,} {nouns} cannot be compared: {reason} ({', '.join(list(names)[:_MAX_NAMED])}{more})"


_PLURALS = {"task": "tasks", "category": "categories"}


def task_name(row: ResultRow) -> str:
    """Return the name of a task; both names, if the runs have it under different ones."""
    names = [row["task"], *([row["run_task"]] if row.get("run_task") else [])]
    return " → ".join(shortened(name, _MAX_TASK) for name in names)


def _beside(row: ResultRow, sign: int) -> str:
    """Return the interval, as seen by who is ahead, and p; in brackets."""
    parts = [] if row["higher_is_better"] else ["lower is better"]
    ends, shown = row["ci95"], row["verdict"] is not None
    if ends is not None and row["verdict"] is None:
        shown = ends[0] <= 0 <= ends[1]  # else it would contradict: it knows nothing of the correction, or of the test
    if ends is not None and shown:
        low, high = sorted(sign * end for end in ends)
        write = number if row["verdict"] else signed
        digits = digits_of([row])
        parts.append(f"95{GLUE}%: {write(rounded(low, digits), digits)} to {write(rounded(high, digits), digits)}")
    if row["p_corrected"] is not None:
        parts.append(shown_p(row).replace(" ", GLUE))
    return f" ({'; '.join(parts)})" if parts else ""


def _questions(row: ResultRow) -> str:
    """Say on how many questions the run does better than its baseline, and on how many worse."""
    if row.get("won") is None or row.get("lost") is None:
        return ""
    won, lost = row["won"], row["lost"]
    who = row["run"] if row["verdict"] is None else "it"
    what = f"{who} wins {counted(won, 'question')} and loses {lost:,}"
    if row.get("both") is not None and row.get("neither") is not None:
        return f": {what}; both are right on {row['both']:,}, neither on {row['neither']:,}"
    tied = row.get("tied")
    return f": {what}" + ("" if tied is None else f"; {tied:,} {'is' if tied == 1 else 'are'} tied")


def _counted(rest: Sequence[ResultRow]) -> str:
    """Say of many comparisons how many show a difference."""
    better, worse = (sum(row["verdict"] == verdict for row in rest) for verdict in ("better", "worse"))
    names = {row["run"] for row in rest}
    who = next(iter(names)) if len(names) == 1 else "the run"
    open_ones = len(rest) - better - worse
    if not better and not worse:
        return f"In {counted(len(rest), 'more comparison')} {who} cannot be told apart from its baseline."
    return (
        f"In {counted(len(rest), 'more comparison')}, {who} is ahead in {better:,} and behind in {worse:,}; "
        f"{open_ones:,} cannot be told apart."
    )


def warnings(rows: Sequence[ResultRow]) -> list[str]:
    """Say which questions are no part of a comparison: those that one run does not have, and those that failed."""
    told: dict[str, None] = {}
    for (baseline, run), compared in grouped(rows, pair_of).items():
        own = [row for row in compared if "average" not in row]
        for name, here, there in (("baseline", baseline, run), ("run", run, baseline)):
            for found, what in (
                (_by_task(own, name, "only"), f"asked in {here} and not in {there}"),
                (_by_task(own, name, "failed"), f"failed in {here}"),
            ):
                if found:
                    where = _named_tasks(found, {task_of(row, name) for row in own})
                    told[f"{counted(sum(found.values()), 'question')} {what}{where}: no part of the comparison"] = None
    return list(told)


def _by_task(rows: Iterable[ResultRow], side: str, what: str) -> dict[str, int]:
    """Return the counts of the tasks of one side that have any; each has them once, whatever it is compared by."""
    found: dict[str, int] = {}
    for row in rows:
        if count := row.get(f"{what}_{side}"):
            task = task_of(row, side)
            found[task] = max(found.get(task, 0), count)
    return found


def task_of(row: ResultRow, side: str) -> str:
    """Return the name that a task has on one side."""
    return str(row["run_task"] if side == "run" and "run_task" in row else row["task"])


def _named_tasks(tasks: Iterable[str], among: Iterable[str]) -> str:
    """Name a few of the tasks, if there are others."""
    names = list(dict.fromkeys(tasks))
    if len(set(among)) == 1:
        return ""
    more = f" and {len(names) - _MAX_NAMED} more tasks" if len(names) > _MAX_NAMED else ""
    return f" ({', '.join(shortened(name, _MAX_TASK) for name in names[:_MAX_NAMED])}{more})"


# ---- numbers ----


def digits_of(rows: Iterable[ResultRow]) -> int:
    """Return how many digits figures of one scale need: one in percent, three where all lie between -1 and 1."""
    known = [
        row[name]
        for row in rows
        for name in ("baseline_value", "run_value")
        if row[name] is not None and "both" not in row  # which is a share of right answers, in percent
    ]
    return 3 if any(known) and all(abs(value) <= 1 for value in known) else 1


_MAX_LABEL = 20
"""Longer labels of runs are cut in their middle."""

PairKey = tuple[str, str]


class PairNames(NamedTuple):
    """What a table calls the pairs of its rows: the heading of their column, and each by the labels of its systems.

    ``baseline`` and ``run`` are what all rows compare, where that is one thing; else they are empty.
    """

    heading: str
    names: dict[PairKey, str]
    baseline: str
    run: str

    @property
    def several(self) -> bool:
        """Whether there is more than one pair."""
        return len(self.names) > 1


def pair_of(row: ResultRow) -> PairKey:
    """Return the labels of the systems that a row compares."""
    return row["baseline"], row["run"]


def pair_names(rows: Sequence[ResultRow]) -> PairNames:
    """Name the pairs of systems that rows compare.

    A model that is compared with itself in two runs is named by its own name alone. Where one baseline serves all, a
    pair is named by what is compared with it.
    """
    pairs = {pair_of(row): row for row in rows}
    baselines, runs = ([*dict.fromkeys(pair[side] for pair in pairs)] for side in (0, 1))
    folders = dict.fromkeys((row["baseline_run"], row["run_run"]) for row in pairs.values())
    one_each = len(folders) == 1 and all(before != after for before, after in folders)  # two runs, several models
    if len(baselines) == 1:
        return PairNames("run", _named_pairs(pairs, "run", runs), baselines[0], runs[0] if len(runs) == 1 else "")
    if one_each:
        ((before, after),) = folders
        if all(row["baseline_model"] == row["run_model"] for row in pairs.values()):
            models = {pair: str(row["run_model"]) for pair, row in pairs.items()}
            return PairNames("model", models, before, after)
        names = {pair: f"{row['run_model']} − {row['baseline_model']}" for pair, row in pairs.items()}
        return PairNames("models", names, before, after)
    one_baseline = len({before for before, _ in folders}) == 1
    if all(row["baseline_model"] == row["run_model"] for row in pairs.values()):
        if one_baseline:
            return PairNames("run", _named_pairs(pairs, "run", runs), next(iter(folders))[0], "")
        several = len({row["run_model"] for row in pairs.values()}) > 1
        names = {
            pair: f"{row['run_run']} − {row['baseline_run']}" + (f" · {row['run_model']}" if several else "")
            for pair, row in pairs.items()
        }
        return PairNames("run", names, "", "")
    short = _short([label for pair in pairs for label in pair])
    return PairNames("run", {(one, two): f"{short[two]} − {short[one]}" for one, two in pairs}, "", "")


def _named_pairs(pairs: dict[PairKey, ResultRow], side: str, labels: Sequence[str]) -> dict[PairKey, str]:
    short = _short(labels)
    return {pair: short[row[side]] for pair, row in pairs.items()}


def _short(labels: Sequence[str]) -> dict[str, str]:
    short = {label: shortened(label, _MAX_LABEL) for label in labels}
    if len(set(short.values())) < len(short):
        return {label: label for label in labels}  # their ends do not tell them apart
    return short


COUNTS = ("won", "lost", "both", "neither", "tied")
SYSTEMS = ("baseline system", "run system")
"""The columns with the names of what is compared."""

_VERDICTS: dict[str | None, tuple[str, Tone]] = {
    "better": ("ahead", "good"),
    "worse": ("behind", "bad"),
    None: ("open", ""),
}


def comparison_view(
    rows: Sequence[ResultRow],
    *,
    tasks: Sequence[str] | None = None,
    digits: Callable[[int], tuple[int, int]] = lambda few: (max(few, 2), few),
) -> TableView:
    """Return a row for each comparison; ``tasks`` are other names of their tasks. Counts that no row has are left out.

    ``digits`` returns those of figures and of intervals for those that the scale needs.
    """
    scales = {name: digits_of(own) for name, own in grouped(rows, itemgetter("metric")).items()}
    held = [name for name in COUNTS if any(row.get(name) is not None for row in rows)]
    named = list(map(task_name, rows)) if tasks is None else tasks
    lines = [_line(row, task, digits(scales[row["metric"]]), held) for row, task in zip(rows, named, strict=True)]
    columns = [*words("task", "category", "metric"), Column("baseline", key=SYSTEMS[0]), Column("run", key=SYSTEMS[1])]
    columns += numbers("n", "baseline", "run", "difference", "95 %", "p")
    return TableView([*columns, Column("verdict", wraps=False), *numbers(*held)], lines)


def _line(row: ResultRow, task: str, digits: tuple[int, int], held: Sequence[str]) -> list[Content]:
    p, difference = row["p_corrected"], difference_cell(row, digits)
    return [
        task,
        str(row.get("category", "")),
        Cell(metric_label(row), mark="" if row["higher_is_better"] else " ↓"),  # as the field marks what should be low
        str(row.get("baseline", "")),
        str(row.get("run", "")),
        count_cell(row["n"]),
        *(_side(row, side, digits[0]) for side in ("baseline", "run")),
        difference,
        difference,
        None if p is None else Cell(p_text(p), p),
        Cell(_VERDICTS[row["verdict"]][0], tone=difference.tone),
        *(None if row.get(name) is None else count_cell(row[name]) for name in held),
    ]


def difference_cell(row: ResultRow, digits: tuple[int, int]) -> Cell:
    """Return the run minus its baseline, with its interval, and whether it is ahead."""
    value, tone = row["difference"], _VERDICTS[row["verdict"]][1]
    if value is None:
        return Cell("–", tone=tone)
    ends = [Cell(signed(end, digits[1]), end) for end in row["ci95"] or ()]
    interval = (ends[0], ends[1]) if ends else None
    return Cell(signed(value, digits[0]), value, mark=failure_mark(row), tone=tone, interval=interval, signed=True)


def _side(row: ResultRow, side: str, digits: int) -> Cell:
    value = row[f"{side}_value"]
    return Cell("–" if value is None else number(value, digits), value, mark=side_mark(row, side))

"""What would run of a config, entry by entry, and what is missing: ``kshot check``. No model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from kshot.configs.data import OnHub, splits_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.planning import make_template
from kshot.configs.rows import Splits
from kshot.configs.scope import Scope
from kshot.configs.settings import ConfigSettings
from kshot.configs.tasks import ConfigTask
from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import DataError, KshotError
from kshot.core.extras import require
from kshot.core.metric import judged
from kshot.core.records import Row
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault

_MADE_UP_ROWS, _MOST_MADE_UP_ROWS = 8, 10_000
_POSTPROCESSORS = ("pred_postprocessor", "dict_postprocessor", "postprocessor")
_NO_JUDGE = DataError("its metrics ask a judge, and none is named", hint="Name the judging model: --judge MODEL.")


def check_entry(
    entry: DatasetEntry, data: Mapping[str, str], settings: ConfigSettings, judge: str | KshotError | None = None
) -> EntryCheck:
    """Compile an entry with its own rows, or with made-up ones where it has none here.

    ``judge``: the model that a run would ask, or why the one that is named cannot be opened.
    """
    try:
        entry.check_is_run()
    except DataError as exc:
        return EntryCheck(entry.abbr, "", "", "", missing=(_lack("kind", exc, entry),))
    missing: list[Lack] = []
    rows, found = _rows(entry, data, settings, missing)
    splits = rows if rows is not None else made_up_rows(entry)
    task, prompts = _prompts(entry, splits, settings, missing, seen=rows is not None)
    evaluation, judged = _evaluation(entry, task, missing, seen=rows is not None)
    if judged and not isinstance(judge, str):
        missing.append(_lack("judge", judge or _NO_JUDGE, entry))
    named = judge if judged and isinstance(judge, str) else ""
    return EntryCheck(entry.abbr, prompts, found, evaluation, named, tuple(dict.fromkeys(missing)), tuple(entry.notes))


def called_twice(check: EntryCheck) -> EntryCheck:
    """Return the check of an entry whose name another entry has too."""
    what = f"two entries are called {check.entry!r}"
    return replace(check, missing=(*check.missing, Lack("name", f"{what}. Change an abbr.", (what,))))


def _rows(
    entry: DatasetEntry, data: Mapping[str, str], settings: ConfigSettings, missing: list[Lack]
) -> tuple[Splits | None, str]:
    try:
        splits = splits_of(entry, data, settings.dataset_path, online=False)
    except OnHub as exc:
        try:
            require("loading Hugging Face datasets", "datasets")
        except KshotError as lacking:
            missing.append(_lack("data", lacking, entry))
        return None, f"hub: {exc.dataset}"
    except KshotError as exc:
        missing.append(_lack("data", exc, entry))
        return None, ""
    home = next((home.title for (part, _), home in entry.used.items() if part == "loader"), "")
    sizes = (
        ", ".join(f"{len(rows)} {split}" for split, rows in splits.items())
        if isinstance(splits, Mapping)
        else f"{len(splits)} rows"
    )
    return splits, f"{sizes}{f' (loader of {home})' if home else ''}"


def made_up_rows(entry: DatasetEntry) -> Splits:
    """Return rows that have the entry's columns, each with its own name as the value, or a label of the templates.

    Where the retriever needs lists, all rows have the same, so that they have something in common.
    """
    reader = entry.reader_cfg
    columns = reader.get("input_columns") or ()
    names = columns.split() if isinstance(columns, str) else list(columns)
    output = reader.get("output_column")
    names = [name for name in [*names, output] if isinstance(name, str)]
    rows: list[Row] = [{name: f"{name} {number}" for name in names} for number in range(_made_up_size(entry))]
    labels = _labels(entry)
    if labels and isinstance(output, str):
        rows = [{**row, output: label} for row, label in zip(rows, cycle(labels), strict=False)]
    lists = {name: [name] for name in entry.list_columns}
    return [{**row, **lists} for row in rows]


def _made_up_size(entry: DatasetEntry) -> int:
    """Return how many rows there must be for the examples that the entry names, or counts."""
    try:
        retriever = entry.infer_cfg.get("retriever")
    except KshotError:  # it is told when the entry is compiled
        return _MADE_UP_ROWS
    options = retriever if isinstance(retriever, Mapping) else {}
    named = options.get("fix_id_list")
    ids = [each + 1 for each in named if type(each) is int] if isinstance(named, (list, tuple)) else []
    counted = options.get("ice_num")
    wanted = [_MADE_UP_ROWS, *ids, *([counted] if type(counted) is int else [])]
    return min(max(wanted), _MOST_MADE_UP_ROWS)


def _labels(entry: DatasetEntry) -> list[Any]:
    """Return the labels that have a template of their own, of the examples first: no other label can be shown."""
    for key in ("ice_template", "prompt_template"):
        try:
            template = make_template(entry.infer_cfg.get(key), strict=False, where=key)
        except KshotError:  # it is told when the entry is compiled
            continue
        if template is not None and template.by_label:
            return [*template.by_label]
    return []


def _prompts(
    entry: DatasetEntry, splits: Splits, settings: ConfigSettings, missing: list[Lack], *, seen: bool
) -> tuple[ConfigTask | None, str]:
    """Return the task, and what its prompts are. ``seen``: the rows are the entry's own, not made up."""
    task = None
    try:
        task = ConfigTask(entry, splits, settings)
        rendered = task.rendered
        if rendered.mode != "multiturn":
            rendered.chat(0, None) if settings.model_type == "chat" else rendered.text(0, None)
    except KshotError as exc:
        if seen or not _depends_on_values(exc):
            missing.append(_lack("prompts", exc, entry))
            return None, ""
        return task, ""
    kind = "messages" if settings.model_type == "chat" else "text"
    if rendered.mode == "multiturn":
        return task, "turns"
    return task, f"{kind} of {len(rendered.labels)} labels" if rendered.labels is not None else kind


def _depends_on_values(exc: BaseException | None) -> bool:
    """Whether an error is that of a home's code, which may well take other values than those made up."""
    while exc is not None and not isinstance(exc, GuestFault):
        exc = exc.__cause__
    return exc is not None and exc.kind not in SETUP_FAULTS


def _evaluation(entry: DatasetEntry, task: ConfigTask | None, missing: list[Lack], *, seen: bool) -> tuple[str, bool]:
    """Return what scores the entry, and whether it asks a judge."""
    if task is None:
        return "", False
    try:
        metrics = task.check_scoring(rows=seen)
    except KshotError as exc:
        missing.append(_lack("evaluation", exc, entry))
        return "", False
    names = [*_named(entry.scope, entry.eval_cfg)]
    said = ", ".join(dict.fromkeys(f"{name} ({_whose(entry, name)})" for name in names))
    return said, bool(judged(metrics))


def _named(scope: Scope, eval_cfg: Mapping[str, Any]) -> Iterator[str]:
    """Yield the evaluator, then the clean-ups, of an ``eval_cfg``."""
    evaluator = eval_cfg.get("evaluator")
    yield scope.name(evaluator.get("type") if isinstance(evaluator, Mapping) else evaluator).last
    parts: Sequence[Any] = [eval_cfg, evaluator] if isinstance(evaluator, Mapping) else [eval_cfg]
    for part in parts:
        for key in (*_POSTPROCESSORS, "dataset_postprocessor"):
            named = part.get(key)
            if named:
                yield scope.name(named.get("type") if isinstance(named, Mapping) else named).last


def _whose(entry: DatasetEntry, name: str) -> str:
    if name in entry.registered:
        return "the config"
    return next((home.title for (_, used), home in entry.used.items() if used == name), "kshot")


def _lack(part: str, exc: KshotError, entry: DatasetEntry) -> Lack:
    """Return what an error says, without the entry, which is named beside it."""
    text, where = str(exc), exc.where
    for place in (entry.place, entry.where, entry.abbr):
        text, where = text.removeprefix(f"{place}: "), where.removeprefix(place)
    return Lack(part, text, (exc.what, where))

"""Task files of lm-eval as a source of Tasks: ``lmeval:PATH_OR_NAME[,num_fewshot=5,…]``.

It records which files a task was made of, says for ``kshot check`` what is missing, asking neither a model nor the hub,
and gives the figures of groups: the mean of a metric over the tasks below a group, weighted by their documents or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.extras import require
from kshot.core.failed_parts import with_parts_named
from kshot.core.metric import Measure, measure_names
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.specs import Spec, option_text, split_options, with_options
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.core.text_files import read_at_most
from kshot.core.watcher import PlannedTask
from kshot.lmeval.compiling import compiled
from kshot.lmeval.documents import Documents
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions, functions_of, references
from kshot.lmeval.requests import ChatForm, RequestForm, doc_requests, shots_of
from kshot.lmeval.rows import TaskRows, hub_name, row_packages
from kshot.lmeval.settings import LmevalSettings
from kshot.lmeval.tree import Group, GroupAggregate, Leaf, Node, find, groups, leaves
from kshot.statistics.averages import AveragedPart, average_row, part_of


@dataclass(frozen=True, slots=True)
class _GroupPart:
    """One figure of one task: its measure, and the part of the average that it is."""

    measure: Measure
    result: TaskResult
    part: AveragedPart

    @property
    def labels(self) -> Mapping[str, Any]:
        """What the figure is in lm-eval."""
        return self.result.task.metric_labels.get(self.measure.name, {})

    @property
    def scale(self) -> float:
        """How many times lm-eval's figure it is."""
        return float(self.labels.get("scale", 1.0))


def group_rows(groups: Iterable[Group], results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    """Yield the figures of groups, of which at least one task ran, for each model; ``results`` have tasks by name."""
    models = dict.fromkeys(result.model for result in results)
    for group in groups:
        names = {leaf.name for leaf in leaves(group)}
        for model in models:
            own = [result for result in results if result.model == model and result.task.name in names]
            for aggregate in group.aggregates:
                yield from _rows(group, aggregate, own)


def _rows(group: Group, aggregate: GroupAggregate, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    found = {filter_name: list(_parts(results, aggregate.metric, filter_name)) for filter_name in _filters(results)}
    wanted = sorted(found) if aggregate.filters is None else aggregate.filters
    told = {filter_name: parts for filter_name in wanted if (parts := found.get(filter_name))}
    for filter_name, parts in told.items():
        metric = aggregate.metric if len(told) == 1 else f"{aggregate.metric},{filter_name}"
        if row := _row(group, aggregate, parts, metric):
            yield row


def _filters(results: Sequence[TaskResult]) -> dict[str, None]:
    labels = [label for result in results for label in result.task.metric_labels.values()]
    return dict.fromkeys(str(label["filter"]) for label in labels if "filter" in label)


def _parts(results: Sequence[TaskResult], metric: str, filter_name: str) -> Iterator[_GroupPart]:
    for result in results:
        measures = {measure.name: measure for measure in result.measures()}
        for name, label in result.task.metric_labels.items():
            if (label.get("lmeval_metric"), label.get("filter")) != (metric, filter_name) or name not in measures:
                continue
            part = part_of(result, measures[name])
            if part.value is not None or part.is_lost:
                yield _GroupPart(measures[name], result, part)


def _row(group: Group, aggregate: GroupAggregate, parts: Sequence[_GroupPart], metric: str) -> ResultRow | None:
    held = [each for each in parts if not each.part.is_lost] or parts
    first = held[0]
    alike = all(each.scale == first.scale for each in held)  # else on the scale of lm-eval, which they share
    labels = {
        "task": group.name,
        "dataset": group.name,
        "average": _kind(aggregate, held, metric) if alike else "group",
        "metric": metric,
        **first.labels,
        "scale": first.scale if alike else 1.0,
        "higher_is_better": first.measure.higher_is_better,
    }
    averaged = []
    for each in parts:
        value = each.part.value if alike or each.part.value is None else each.part.value / each.scale
        weight = float(len(each.result.positions)) if aggregate.weighted else 1.0
        averaged.append(replace(each.part, value=value, weight=weight))
    return average_row(labels, averaged, measure=first.measure if alike else None, named=True)


def _kind(aggregate: GroupAggregate, parts: Sequence[_GroupPart], metric: str) -> str:
    """Return which average it is, so that runs can be compared by it; of figures with other names, a group's own."""
    if any(part.measure.name != metric for part in parts):
        return "group"
    return "weighted" if aggregate.weighted else "macro"


_ASKS = {
    "generate_until": "generates",
    "multiple_choice": "compares choices",
    "loglikelihood": "measures a target",
    "loglikelihood_rolling": "measures a document",
}


def _missing_function(functions: Functions, function: FunctionRef) -> Lack | None:
    try:
        functions.find(function)
    except KshotError as exc:
        return _lack("functions", exc)
    return None


def _metrics(config: TaskConfig) -> list[str]:
    if config.process_results is not None:
        return [str(config.process_results)]
    return [str(each["metric"]) for each in config.metric_list or ()] or ["default metrics"]


def _sizes(task: Task[Any]) -> str:
    count = sum(1 for _ in task.samples)
    return f"{count} document{'s' if count > 1 else ''}"


def _lack(part: str, exc: KshotError) -> Lack:
    return Lack(part, str(exc), (exc.what,))


_DIGEST_BYTES = 8


def has_functions(config: TaskConfig) -> bool:
    """Whether a task names functions."""
    return next(references(config), None) is not None


def file_facts(config: TaskConfig) -> dict[str, Any]:
    """Return the version that the task gives itself, and a digest of each YAML and Python file that it names."""
    functions = [each.file for each in references(config) if each.file is not None]
    files = dict.fromkeys([*config.files, *functions])
    facts: dict[str, Any] = {"files": {_shown(file, config): _digest(file) for file in files}}
    version = (config.metadata or {}).get("version")
    return facts | ({"version": version} if isinstance(version, (int, float, str)) else {})


def changed_files(now: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[str]:
    """Return the files of a task that are not what an earlier run recorded; none where it recorded nothing."""
    before = earlier.get("files")
    files: Mapping[str, Any] = now["files"]
    return [name for name, digest in files.items() if isinstance(before, dict) and before.get(name) != digest]


def _shown(file: Path, config: TaskConfig) -> str:
    """Return the path of a file from the root of its tree, which may lie elsewhere on another machine."""
    root = config.root
    return file.relative_to(root).as_posix() if root is not None and file.is_relative_to(root) else str(file)


def _digest(file: Path) -> str:
    try:
        return blake2b(read_at_most(file), digest_size=_DIGEST_BYTES).hexdigest()
    except OSError:  # it was removed since
        return ""


_Prepared: TypeAlias = tuple[Documents, list[list[RequestForm]]]
"""The documents of a task, and the requests for each."""

PREFIX = "lmeval:"
_PURPOSE = "a task file of lm-eval"
_SHOTS = ("num_shots", "num_fewshot")
LMEVAL_OPTIONS = tuple(name for name, declared in LmevalSettings.declared().items() if not declared.whole_run)
"""The settings that may follow the name."""
_MAX_KEPT_DOCUMENTS = 200_000
_MAX_REHEARSED = 20
"""How many tasks are tried out before a model is opened: the rows of a large group take minutes to load."""


class LmevalSource(Source[LmevalSettings]):
    """The tasks that a name, a pattern, a file or a folder stands for."""

    def __init__(self, text: str, root: str | Path | None = None) -> None:
        """``text``: what the user wrote, with ``lmeval:``; ``root``: the folder of the task files."""
        head, options = split_options(text)
        self.text, self.wanted, self._root = text, head.removeprefix(PREFIX), options.pop("lmeval_root", None) or root
        self._spec = Spec(text, "lmeval", self.wanted, options)
        self._workers: dict[Path, Functions] = {}
        self._made: dict[tuple[str, LmevalSettings], _Prepared] = {}
        self._kept = 0
        self._tried = TriedTasks()
        self._reads: set[str] = set()
        """The options that its tasks have read."""
        if not self.wanted:
            raise UsageError("it names no task", where=text, hint="Write lmeval:NAME, or lmeval:FILE.yaml.")
        for name in options:
            if name not in LMEVAL_OPTIONS:
                known = ", ".join(LMEVAL_OPTIONS)
                raise UsageError(f"a task file has no option {name!r}", where=text, hint=f"It has: {known}.")

    @property
    def label(self) -> str:
        """What the user wrote."""
        return self.text

    @property
    def options(self) -> str:
        """The settings after the name, as they are written; the names of its tasks end in them."""
        return option_text(self._spec.options)

    @cached_property
    def node(self) -> Node:
        """What the name stands for."""
        return find(self.wanted, self._root)

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The tasks."""
        found = leaves(self.node)
        if not found:
            raise DataError("it has no tasks", where=self.text)
        return found

    @cached_property
    def _groups_of(self) -> dict[str, list[str]]:
        """By task: the groups that hold it, the inner ones first."""
        found: dict[str, list[str]] = {}
        for group in groups(self.node):
            for leaf in leaves(group):
                found.setdefault(leaf.name, []).insert(0, group.name)
        return found

    # ---- options ----

    def check(self, settings: LmevalSettings) -> None:
        """Refuse a name that stands for nothing, and two numbers of examples for one task."""
        given = {name: self._spec.options[name] for name in _SHOTS if name in self._spec.options}
        if len(set(given.values())) > 1:
            what = " and ".join(f"{name}={number}" for name, number in given.items())
            hint = "Leave one of them out."
            raise UsageError(f"{what} both say how many examples it shows", where=self.text, hint=hint)
        self._own(settings)
        _ = self.leaves

    def _own(self, settings: LmevalSettings) -> LmevalSettings:
        """Return the settings of the run, changed by those after the name; a number of examples there is the number."""
        own = with_options(settings, self._spec).noting(self._reads)
        named = "num_shots" in self._spec.options and "num_fewshot" not in self._spec.options
        return own.with_values(num_fewshot=own.num_shots) if named else own

    def data_names(self) -> Collection[str] | None:
        """Return the names under which ``--data`` finds its tasks: their own, those of groups, and their datasets."""
        inner = [group.name for group in groups(self.node)]
        named = [name for leaf in self.leaves for name in (leaf.name, leaf.config.dataset_path) if name]
        return [*dict.fromkeys([*inner, *named])]

    def packages(self, settings: LmevalSettings, *, scored: bool = True) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that its files, rows and functions need."""
        del scored  # functions make the documents, too
        own = self._own(settings)
        needed = {"pyyaml": None}
        for leaf in self.leaves:
            needed |= dict.fromkeys(row_packages(leaf.config, self._given(leaf, own)))
        return {_PURPOSE: tuple(needed)}

    @property
    def without_logprobs(self) -> str:
        """Another task or model: a task file says what is asked."""
        return "Run a task that generates, or a model with log-probabilities (hf:, vllm:, embedded)."

    def announcements(self) -> Sequence[str]:
        """Say that code of the files runs, and how."""
        trees = dict.fromkeys(leaf.root or leaf.path.parent for leaf in self.leaves if _holds(has_functions, leaf))
        return [f"functions of the task files in {tree} run confined" for tree in trees]

    def close(self) -> None:
        """End the workers of functions."""
        self._tried.clear()
        self._made.clear()
        self._kept = 0
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    # ---- tasks ----

    def tasks(
        self, settings: LmevalSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile each task."""
        own = self._own(settings)
        for leaf in self.leaves:
            task = self._task(leaf, own, tried=model is None)
            changed = changed_files(task.facts, (facts or {}).get(task.name, {}))
            since = f"{task.name}: {', '.join(changed)} changed since the run" if changed else ""
            yield replace(task, notes=(*task.notes, *filter(None, [since])))

    def previews(self, settings: LmevalSettings) -> Iterator[Task[Any]]:
        """Compile each task for its prompts."""
        return self.tasks(settings)

    def rehearsals(self, settings: LmevalSettings) -> Iterator[Task[Any]]:
        """Compile the first tasks; all of them if they are few. The others may read any option."""
        own = self._own(settings)
        for leaf in self.leaves[:_MAX_REHEARSED]:
            yield self._task(leaf, own, tried=True)
        if len(self.leaves) > _MAX_REHEARSED:
            own.mark_read(*own.declared())
        for name in self._spec.options:
            if name not in self._reads:
                raise UsageError(f"its option {name} has no effect", where=self.text, hint="Leave it out here.")
        if all(_holds(lambda config: config.num_fewshot == 0, leaf) for leaf in self.leaves):  # which no option changes
            own.mark_unread(*_SHOTS)

    def planned(self, settings: LmevalSettings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask]:
        """Return all tasks; the sizes of those that were not tried out are not known."""
        del settings
        more = [PlannedTask(f"{leaf.name}{self.options}") for leaf in self.leaves[len(rehearsed) :]]
        return [*rehearsed, *more]

    def _task(self, leaf: Leaf, settings: LmevalSettings, *, tried: bool = False) -> Task[Any]:
        """Compile a task, which no model changes, or return the one that was tried out."""
        (task,) = self._tried.take((leaf.name, settings), lambda: [self._compiled(leaf, settings)], keep=tried)
        return task

    def _compiled(self, leaf: Leaf, settings: LmevalSettings) -> Task[Any]:
        """Compile a task. Its documents and requests are kept: each model needs them."""
        config = leaf.config
        functions = self._functions(config, network=settings.allow_download)
        key = (leaf.name, settings)
        made = self._made.get(key) or self._prepared(leaf, settings, functions)
        documents, requests = made
        if key not in self._made and self._kept + len(documents.docs) <= _MAX_KEPT_DOCUMENTS:
            self._made[key] = made
            self._kept += len(documents.docs)
        shots = shots_of(config, given_shots(settings))
        facts = {**file_facts(config), "num_fewshot": shots, "split": documents.splits.evaluated_split}
        name = f"{leaf.name}{self.options}"
        kept = [f"{name}: its file says num_fewshot 0, which stays, as in lm-eval"] if given_shots(settings) else []
        notes = kept if config.num_fewshot == 0 else []
        return compiled(config, functions, documents, requests, settings, name=name, notes=notes, facts=facts)

    def _prepared(self, leaf: Leaf, settings: LmevalSettings, functions: Functions) -> _Prepared:
        """Make the documents of a task from its rows, and the requests for them."""
        config = leaf.config
        rows = TaskRows(config, functions, self._given(leaf, settings))
        documents = Documents(config, functions, rows, limit=settings.limit)
        chat = ChatForm(None, settings.examples_as == "turns") if settings.model_type == "chat" else None
        shots = shots_of(config, given_shots(settings))
        return documents, list(doc_requests(documents, shots, chat, system=settings.system_prompt))

    def _functions(self, config: TaskConfig, *, network: bool) -> Functions:
        """Return the worker of a tree, which all its tasks share."""
        made = functions_of(config, network=network)
        worker = self._workers.setdefault(made.tree, made)
        worker.allow(config)
        return worker

    def _given(self, leaf: Leaf, settings: LmevalSettings) -> str | None:
        """Return the place that the user names for the rows of a task; None: the task's own."""
        places = dict(text.partition("=")[::2] for text in settings.data or () if "=" in text)
        names = [leaf.name, leaf.config.dataset_path, *self._groups_of.get(leaf.name, ())]
        plain = next((text for text in settings.data or () if "=" not in text), settings.dataset_path)
        return next((places[name] for name in names if name in places), plain)

    def checks(self, settings: LmevalSettings) -> Iterator[EntryCheck]:
        """Say of each task what of it would run, and what is missing."""
        own = self._own(settings)
        for leaf in self.leaves:
            yield self._checked(leaf, own)

    def _checked(self, leaf: Leaf, settings: LmevalSettings) -> EntryCheck:
        """Compile a task with its rows, if they are here; else read its file, and look for its functions alone."""
        missing: list[Lack] = []
        try:
            config = leaf.config
        except KshotError as exc:
            return EntryCheck(leaf.name, "", "", "", missing=(_lack("file", exc),))
        functions = self._functions(config, network=settings.allow_download)
        missing += filter(None, (_missing_function(functions, each) for each in dict.fromkeys(references(config))))
        data, evaluation = "", ", ".join(dict.fromkeys(_metrics(config)))
        hub = hub_name(config, self._given(leaf, settings))
        try:
            if hub is not None:
                require("loading Hugging Face datasets", "datasets")
                data = f"hub: {hub}"
            elif not missing:
                task = self._task(leaf, settings)
                data = _sizes(task)
                evaluation = ", ".join(measure_names(task.metrics))
        except KshotError as exc:
            missing.append(_lack("data" if not data else "prompts", exc))
        count = config.num_fewshot or 0
        shots = f", {count} example{'s' if count > 1 else ''}" if count else ""
        return EntryCheck(leaf.name, f"{_ASKS[config.output_type]}{shots}", data, evaluation, missing=tuple(missing))

    # ---- figures over several tasks ----

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return the figures that groups name, over their tasks."""
        own = [
            replace(result, task=replace(result.task, name=result.task.name.removesuffix(self.options)))
            for result in results
        ]
        for row in group_rows([each for each in groups(self.node) if isinstance(each, Group)], own):
            task = f"{row['task']}{self.options}"
            yield with_parts_named({**row, "task": task, "dataset": task}, lambda name: f"{name}{self.options}")


def _holds(question: Callable[[TaskConfig], bool], leaf: Leaf) -> bool:
    """Return the answer for a task. Unreadable tasks count as no; the error is raised when the task is used."""
    try:
        return question(leaf.config)
    except KshotError:
        return False


def given_shots(settings: LmevalSettings) -> int | None:
    """Return how many examples the user wants; None: as many as the file says."""
    return settings.num_fewshot if settings.num_fewshot is not None else settings.num_shots or None

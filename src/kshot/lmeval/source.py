"""Task files of lm-eval as a source of Tasks: ``lmeval:PATH_OR_NAME[,num_fewshot=5,…]``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.entry_checks import EntryCheck
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.failed_parts import with_parts_named
from kshot.core.options import with_options
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.specs import Spec, option_text, split_options
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.core.watcher import PlannedTask
from kshot.lmeval.checking import check_task
from kshot.lmeval.compiling import compiled
from kshot.lmeval.documents import Documents
from kshot.lmeval.facts import changed_files, file_facts, has_functions
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import Functions, functions_of
from kshot.lmeval.group_averages import group_rows
from kshot.lmeval.requests import RequestForm, document_requests, shots_of
from kshot.lmeval.rows import TaskRows, row_packages
from kshot.lmeval.settings import LmevalSettings
from kshot.lmeval.tree import Group, Leaf, Node, find, groups, leaves

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
        trees = dict.fromkeys(leaf.root or leaf.path.parent for leaf in self.leaves if _runs_code(leaf))
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
        if all(map(_shows_no_examples, self.leaves)):
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
        requests = document_requests(
            documents,
            shots_of(config, given_shots(settings)),
            chat=settings.model_type == "chat",
            multiturn=settings.examples_as == "turns",
            system=settings.system_prompt,
        )
        return documents, requests

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
            yield check_task(
                leaf,
                partial(self._given, leaf, own),
                partial(self._functions, network=own.allow_download),
                partial(self._task, leaf, own),
            )

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


def _runs_code(leaf: Leaf) -> bool:
    """Whether a task has functions; one that cannot be read has none, and its fault is told where it is needed."""
    try:
        return has_functions(leaf.config)
    except KshotError:
        return False


def _shows_no_examples(leaf: Leaf) -> bool:
    """Whether the file of a task says 0, which no option changes; one that cannot be read is told of later."""
    try:
        return leaf.config.num_fewshot == 0
    except KshotError:
        return False


def given_shots(settings: LmevalSettings) -> int | None:
    """Return how many examples the user wants; None: as many as the file says."""
    return settings.num_fewshot if settings.num_fewshot is not None else settings.num_shots or None

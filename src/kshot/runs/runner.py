"""A whole run: every model on every dataset, with the rows and figures that result.

One call of a run with ``--batch-api`` collects answers, lets all tasks go as far as they can, and submits the rest.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import IO, Any, TypeAlias

from kshot.core.budget import LimitReached
from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError, RunError, UsageError
from kshot.core.extras import versions
from kshot.core.failed_parts import failure_notes
from kshot.core.kill_points import reach
from kshot.core.memo import Memo
from kshot.core.postponed import BatchesOpen, BatchQueue, RequestsPostponed
from kshot.core.protocols import (
    Backend,
    IndexStore,
    LanguageModel,
    Model,
    RecordedBackend,
    SearchEngine,
    Source,
)
from kshot.core.records import Generate, Loglik, Outcome, ResultRow, Sample, Search
from kshot.core.settings import Shard
from kshot.core.task import Task, TaskResult
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.watcher import PlannedTask, Watcher
from kshot.runs.data_digest import DataDigests
from kshot.runs.folder import SUMMARY, RunFolder
from kshot.runs.limits import budget_of, check_prices, usage_rows
from kshot.runs.record import RunRecord, failure_line
from kshot.runs.results import compared, corrected_gaps, result_rows
from kshot.runs.sample_row import note_on_token_logprobs
from kshot.runs.samples_file import SAMPLES, keeping_passages
from kshot.runs.task_run import Split, TaskRun, asked_together, notes_of, run_tasks, size_of
from kshot.runs.watchers import RunMeter, SilentWatcher
from kshot.settings import Settings

BATCHES = "batches.json"


class BatchFile:
    """The state of the batches of a run; each version of the file is complete and on the disk before it is used."""

    def __init__(self, folder: RunFolder) -> None:
        """Take the folder."""
        self._folder = folder

    def read(self) -> dict[str, Any]:
        """Return the state; an empty one if there is none."""
        place = path_inside(self._folder.path, BATCHES)
        try:
            found = parse_json(read_at_most(place))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise self._damaged() from exc
        if not isinstance(found, dict):
            raise self._damaged()
        return found

    def write(self, state: Mapping[str, Any]) -> None:
        """Store the state."""
        with self._folder.replacing(BATCHES) as file:
            file.write(json.dumps(state) + "\n")

    def is_answered(self, key: str) -> bool:
        """Whether the journal of the run has the answer to a request."""
        return self._folder.journal.get(key) is not None

    def _damaged(self) -> RunError:
        hint = "Delete it to submit again what is not in the journal; batches that are under way are then paid twice."
        return RunError(f"{BATCHES} is damaged", where=str(self._folder.path), hint=hint)


class BatchRound:
    """The batches of all models of a run. Without ``--batch-api`` there are none, and nothing is done here."""

    def __init__(self, folder: RunFolder | None) -> None:
        """Take the run folder, which keeps the state of the batches."""
        self._folder = folder
        self._opened: dict[int, BatchQueue] = {}  # by their id
        self.postponed = False
        """Whether a task of this call waits for a batch."""

    @property
    def in_use(self) -> bool:
        """Whether a model of this run has a batch API."""
        return bool(self._opened)

    def open(self, models: Mapping[str, Model]) -> None:
        """Collect what the batches of these models, given by role, have brought."""
        for role, model in models.items():
            batches = _batches_of(model)
            if batches is None or id(batches) in self._opened:
                continue
            if self._folder is None:
                raise UsageError("--batch-api needs a run folder: a later call collects the answers", hint="Give out.")
            self._folder.failures |= batches.open(BatchFile(self._folder), role)
            self._opened[id(batches)] = batches

    @contextmanager
    def postponing(self) -> Iterator[None]:
        """Run a task of which a part may be postponed; the next one is then tried all the same."""
        try:
            yield
        except RequestsPostponed:
            self.postponed = True
        except LimitReached:
            if not self.postponed:  # else what was taken before the limit is submitted first
                raise

    def submit(self, models: Iterable[Model]) -> None:
        """Submit what these models were asked and have not answered."""
        for model in models:
            batches = _batches_of(model)
            if batches is not None:
                batches.submit()

    def end(self) -> None:
        """Stop the run if it waits for batches; a complete one asks again for what failed when it is called again."""
        if self.postponed:
            waiting = sum(batches.waiting for batches in self._opened.values())
            raise BatchesOpen(
                f"{waiting:,} {'request waits' if waiting == 1 else 'requests wait'} in batches",
                where="" if self._folder is None else str(self._folder.path),
                hint="The same command collects the answers when they are there, which may take 24 hours.",
            )
        for batches in self._opened.values():
            batches.done()


def _batches_of(model: Model) -> BatchQueue | None:
    return model.abilities.batches if isinstance(model, LanguageModel) else None


def note_on_sharing(tokens: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield what models saved that read once what several prompts begin with: one note for all of them.

    ``tokens``: by model, those of all its requests, and those that it has read.
    """
    saved = [
        f"{model} read {read:,} tokens instead of {wanted:,} ({100 * (wanted - read) // wanted} % less)"
        for model, (wanted, read) in tokens.items()
        if 100 * (wanted - read) >= wanted > 0
    ]
    if saved:
        yield f"{'; '.join(saved)}: the beginnings that prompts share are read once"


_KEPT = "The answers so far are kept: the same command continues from there."
_FLUSH_SECONDS = 1.0

_Ended: TypeAlias = tuple[list[TaskResult], list[ResultRow]]
"""The results of the tasks of one source, and their figures."""


class Run:
    """One evaluation of every model on every dataset. It collects the rows and figures."""

    def __init__(
        self,
        settings: Settings,
        memo: Memo,
        *,
        store: IndexStore,
        folder: RunFolder | None = None,
        watcher: Watcher | None = None,
        helpers: Mapping[str, Model] | None = None,
        facts: Mapping[str, Any] | None = None,
        identity: Mapping[str, Any] | None = None,
        planned: Sequence[PlannedTask] | None = None,
        check: Callable[[Sequence[TaskResult]], None] = lambda _: None,
    ) -> None:
        """Take what the run needs: ``memo`` stores the answers, ``watcher`` shows the progress.

        ``helpers`` are the models beside the evaluated one, by role: judge, rewriter, corpus (the search engine of
        rag). ``facts`` are those that an earlier run recorded, by model; ``store`` keeps the indexes of search engines.
        ``identity``: what the results depend on, models and datasets included. ``planned``: all tasks of the run, with
        their models; None if they are not known. ``check`` may refuse the results before the files are replaced.
        """
        self._settings = settings
        self._memo = memo
        self._folder = folder
        self._watcher = watcher or SilentWatcher()
        self._helpers = dict(helpers or {})
        self._store = store
        self._earlier_facts = facts or {}
        self._identity = dict(identity or settings.identity())
        self._scores_again = facts is not None
        self._planned, self._check = planned, check
        self._split = None if settings.shard is None else Split(Shard.parse(settings.shard), planned)
        self._notes: dict[str, None] = {}
        self._failures: list[str] = []
        self._results: list[TaskResult] = []
        self._usage: dict[tuple[str, str], list[int]] = {}
        self._servers: set[str] = set()
        self._tokens_read: dict[str, tuple[int, int]] = {}
        self._keep: Callable[[ResultRow], None] = lambda _: None
        self._keep_passages: Callable[[Corpus, ResultRow], None] | None = None
        recorded = {} if folder is None else folder.spec.get("data", {})
        self._data = DataDigests(
            recorded, lambda task: self._watcher.note(f"{task}: its data have changed since this run began")
        )
        self._budget = budget_of(settings, folder, self._record_spent, scores_again=self._scores_again)
        self._meter = RunMeter(self._budget)
        self._batches = BatchRound(folder)

    def all(self, models: Iterable[Model], sources: Sequence[Source[Settings]]) -> RunRecord:
        """Evaluate every model on every source; the next model is opened when the one before is done.

        At a limit of the settings, ``LimitReached`` is raised: the answers so far are in the journal.
        """
        try:
            return self._all(models, sources)
        except BackendError as exc:
            if self._budget.refused:  # a server could not find out what it offers
                raise self._budget.reached() from exc
            if self._folder is not None and len(self._folder.journal):
                exc.hint = f"{exc.hint} {_KEPT}".strip()
            raise
        finally:
            with suppress(RunError):  # the error that ends the run is the one to show
                self._budget.record_rest()

    def _all(self, models: Iterable[Model], sources: Sequence[Source[Settings]]) -> RunRecord:
        results: list[ResultRow] = []
        samples: list[ResultRow] = []
        self._watcher.started(self._identity, None if self._folder is None else self._folder.path)
        self._watcher.planned(self._planned or (), self._meter, complete=self._planned is not None)
        for note in self._folder.notes if self._folder is not None else ():
            self._watcher.note(note)
        with ExitStack() as stack:
            self._keep = samples.append
            if self._folder is not None:
                self._keep = _writer(stack.enter_context(self._folder.replacing(SAMPLES)))
                self._keep_passages = stack.enter_context(keeping_passages(self._folder))
            for model in models:
                results += self._model(model, sources)
            self._batches.submit(self._helpers.values())
            for helper in self._helpers.values():
                self._tell_notes(helper)
            self._batches.end()
            if self._tokens_read:
                for note in note_on_sharing(self._tokens_read):
                    self._watcher.note(note)
            self._check(self._results)  # before the files are replaced
        results = corrected_gaps(results)
        comparisons = [] if self._split else compared(self._results, results)
        notes, usage = list(self._notes), usage_rows(self._usage, self._budget, self._settings, self._servers)
        path = None if self._folder is None else self._folder.path
        held = samples if path is None else None  # those of a folder are read when they are asked for
        record = RunRecord(results, notes, path, self._failures, comparisons, usage, self._identity, held)
        if self._folder is not None:
            with self._folder.replacing(SUMMARY) as file:
                more = {"shard": self._settings.shard, "comparisons": comparisons, "usage": usage}
                body = {"results": results, "notes": notes} | {name: rows for name, rows in more.items() if rows}
                file.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
        self._watcher.ended(results, usage)
        return record

    def _model(self, model: Model, sources: Sequence[Source[Settings]]) -> list[ResultRow]:
        self._record({"search_engine" if isinstance(model, SearchEngine) else "model": model, **self._helpers})
        reach("run.model_opened")
        rows: list[ResultRow] = []
        suitable = [source for source in sources if suits(model, searching=source.searches(self._settings))]
        if not suitable:
            kind = "search engine" if isinstance(model, SearchEngine) else "language model"
            needed = "language models" if isinstance(model, SearchEngine) else "search engines"
            raise UsageError(f"{model.name} is a {kind}, and the datasets of this run need {needed}")
        if isinstance(model, LanguageModel) and model.abilities.chat_template and self._sends_text(model, suitable):
            self._watcher.note(f"{model.name} has a chat template; --model-type chat would use it")
        done = len(self._results)
        ended: list[_Ended] = [([], []) for _ in suitable]
        for tasks in asked_together(self._tasks(suitable, model), apart=self._batches.in_use):
            self._ask(tasks, model, ended)
        if self._budget.refused and not self._batches.postponed:
            raise self._budget.reached()
        for source, (results, figures) in zip(suitable, ended, strict=True):
            rows += self._with_totals(source, results, figures)
        if self._settings.token_logprobs and (note := note_on_token_logprobs(model.name, self._results[done:])):
            self.note(note)
        self._batches.submit([model])
        self._tell_notes(model)
        reach("run.model_done")
        return rows

    def _sends_text(self, model: Model, sources: Sequence[Source[Settings]]) -> bool:
        wanted = self._settings.model_type
        return wanted != "chat" and (wanted == "base" or not all(source.wants_chat(model) for source in sources))

    def _tell_notes(self, model: Model) -> None:
        """Show a model's own notes. They differ from run to run, and a resumed run must write the same summary."""
        if isinstance(model, LanguageModel):
            for note in model.notes:
                self._watcher.note(f"{model.name}: {note}")
            if model.abilities.tokens_read is not None:  # told at the end, once for all models
                self._tokens_read[model.name] = model.abilities.tokens_read()

    def _roles(self, model: Model, corpus: Corpus | None) -> dict[str, Backend]:
        """Return the backend of each role; a search engine gets the task's corpus first."""
        roles = {}
        for role, helper in self._helpers.items():
            if corpus is not None or not isinstance(helper, SearchEngine):  # which needs passages
                roles[role] = self._backend(helper, corpus)
        found = self._backend(model, corpus)
        if corpus is not None and "corpus" not in roles:
            roles["corpus"] = found
        return {"model": found, **roles}

    def _backend(self, model: Model, corpus: Corpus | None) -> Backend:
        if not isinstance(model, SearchEngine):
            return model
        if corpus is None:
            raise UsageError(f"{model.name} is a search engine, and this task has no passages to search")
        return model.over(corpus, self._store)

    def _tasks(self, sources: Sequence[Source[Settings]], model: Model) -> Iterator[tuple[int, Task[Any]]]:
        """Compile the tasks of all sources, each when it is needed; at a limit there are no more."""
        for number, source in enumerate(sources):
            for task in source.tasks(self._settings, model, self._earlier_facts.get(model.name)):
                if self._budget.refused:
                    return
                yield number, task

    def _ask(self, tasks: Iterator[tuple[int, Task[Any]]], model: Model, ended: Sequence[_Ended]) -> None:
        """Ask tasks as one stream. What each one gives is added to ``ended``, at the number of its source."""
        first = next(tasks)
        roles = self._roles(model, first[1].corpus)
        opened: deque[tuple[int, Task[Any], ExitStack]] = deque()
        with self._batches.postponing(), ExitStack() as stack:

            def runs() -> Iterator[TaskRun]:
                for number, compiled in chain([first], tasks):
                    own = stack.enter_context(ExitStack())
                    task, run = self._opened(compiled, model, roles, own)
                    opened.append((number, task, own))
                    yield run

            for run in run_tasks(runs(), roles, self._memo, budget=self._budget):
                number, run.result.task, own = opened.popleft()  # sources know the samples that they made
                own.close()
                ended[number][0].append(run.result)
                ended[number][1].extend(self._end(run.result, roles))

    def _opened(
        self, compiled: Task[Any], model: Model, roles: Mapping[str, Backend], own: ExitStack
    ) -> tuple[Task[Any], TaskRun]:
        """Prepare a task to be asked; its samples are digested on their way. It is shown when the ones before end."""
        task, notes = self._with_recordings(compiled, model, roles)
        part = None if self._split is None else self._split.part(task)
        emit = self._emitting(task, own)
        result = TaskResult(own.enter_context(self._recorded(task, model.name)), roles["model"].name)

        def begin(early: Sequence[Outcome[Sample]]) -> None:
            for note in (*notes, *task.notes):
                self.note(note)
            self._meter.begin(result, early)
            self._watcher.begin(task.name, model.name, size_of(task, part))
            for outcome in early:
                self._watcher.answered(outcome)

        return task, TaskRun(
            result,
            emit,
            begin,
            self._answered,
            answered_ahead=self._meter.answered_ahead,
            part=part,
            token_logprobs=self._settings.token_logprobs,
        )

    def _emitting(self, task: Task[Any], own: ExitStack) -> Callable[[Sample, ResultRow], None]:
        """Return what writes the row of each sample: to ``samples.jsonl``, and to the files that the task asks for."""
        export = None
        if task.export is not None and self._folder is not None:
            export = own.enter_context(self._folder.exporting())

        def emit(sample: Sample, row: ResultRow) -> None:
            if task.corpus is not None and self._keep_passages is not None:
                self._keep_passages(task.corpus, row)
            self._keep(row)
            self._watcher.scored(row)
            if task.export is not None and export is not None:
                export(*task.export(sample, row))

        return emit

    @contextmanager
    def _recorded(self, task: Task[Any], model: str) -> Iterator[Task[Any]]:
        """Write the facts of a task before it runs, because the run may be killed, and as it has filled them after.

        The digest of its data joins them. A run that is scored again keeps what it recorded when it asked its models,
        and tells whether its data are still those.
        """
        if self._folder is None:
            yield task
            return
        if self._scores_again:
            yield replace(task, samples=self._data.of(task.name, task.samples))
            return
        facts = self._folder.spec.get("tasks", {})
        self._folder.write_spec(tasks={**facts, model: {**facts.get(model, {}), task.name: task.facts}})
        self._budget.record_soon()
        try:
            yield replace(task, samples=self._data.of(task.name, task.samples))
        except BaseException:
            with suppress(RunError):  # the error that ends the run is the one to show
                self._budget.record()
            raise
        self._budget.record()

    def _end(self, result: TaskResult, roles: Mapping[str, Backend]) -> list[ResultRow]:
        """Note what a task that is done leaves for the summary, and return its figures.

        Those of a part would be taken for the whole.
        """
        for note in () if self._split else notes_of(result):
            self.note(note)
        if result.first_failure:
            counts = (result.failed, result.failed_replies)
            self._failures.append(failure_line(result.task.name, result.model, *counts, result.first_failure))
        for role, spent in result.usage.items():
            sums = self._usage.setdefault((roles[role].name, role), [0, 0, 0])
            sums[:] = [before + more for before, more in zip(sums, spent, strict=True)]
        figures = [] if self._split else list(result_rows(result))
        self._watcher.finished(figures)
        self._meter.end()
        reach("run.task_done")
        return figures

    def _with_totals(
        self, source: Source[Settings], results: Sequence[TaskResult], figures: Sequence[ResultRow]
    ) -> list[ResultRow]:
        """Return the figures of the tasks of a source, and those over several of them."""
        self._results += results
        if self._split or self._batches.postponed:
            return []
        rows = [*figures, *source.totals(results)]
        for note in failure_notes(rows):
            self.note(note)
        return rows

    def _answered(self, outcome: Outcome[Sample]) -> None:
        self._meter.answered(outcome)
        self._watcher.answered(outcome)

    def _with_recordings(
        self, task: Task[Any], model: Model, roles: Mapping[str, Backend]
    ) -> tuple[Task[Any], Sequence[str]]:
        """Tell which questions a recorded run lacks, also among the facts: a run that is scored again opens no file."""
        if self._scores_again:
            notes = self._earlier_facts.get(model.name, {}).get(task.name, {}).get("recordings", ())
        else:
            notes = []
            for each in {backend.name: backend for backend in roles.values()}.values():
                if isinstance(each, RecordedBackend):
                    topics = [sample.id for sample in task.samples]
                    notes += [f"{each.name}: {note}" for note in each.notes_on(topics)]
        return (replace(task, facts={**task.facts, "recordings": notes}) if notes else task), notes

    def note(self, text: str) -> None:
        """Show a note, and keep it for the summary; once, however often it is given."""
        if text not in self._notes:
            self._notes[text] = None
            self._watcher.note(text)

    def _record_spent(self, spent: Mapping[str, Any]) -> None:
        """Record what was spent, and the data that it was spent on."""
        if self._folder is not None:
            self._folder.write_spec(spent=spent, data=self._data.records())

    def _record(self, models: Mapping[str, Model]) -> None:
        served = [role for role, model in models.items() if _is_server(model)]
        self._servers.update(models[role].name for role in served)
        if self._settings.max_cost is not None and not self._scores_again:
            check_prices(self._settings, served)
        for role, model in models.items():
            if isinstance(model, LanguageModel) and model.abilities.tries is not None:
                self._budget.follow(role, model.name, model.abilities.tries)
                self._meter.follow_tries(model.abilities.tries)
        evaluated = models.get("model")
        self._meter.follow_workers(evaluated.abilities.activity if isinstance(evaluated, LanguageModel) else None)
        if self._folder is None:
            self._batches.open(models)
            return
        for role, model in models.items():
            searches = isinstance(model, LanguageModel) and Search in model.answers
            self._folder.note_model(role, model.name, model.fingerprint, server=_is_server(model), searches=searches)
        more = {} if self._split is None else {"planned_samples": self._split.samples}
        self._folder.write_spec(options=self._settings.recorded(), versions=versions(), **more)
        self._batches.open(models)


def _is_server(model: Model) -> bool:
    return isinstance(model, LanguageModel) and model.abilities.server


def suits(model: Model, *, searching: bool) -> bool:
    """Whether a model fits a source: a search engine where passages are searched, a language model elsewhere."""
    if isinstance(model, SearchEngine):
        return searching
    kinds = (Search,) if searching else (Generate, Loglik)
    return any(kind in model.answers for kind in kinds)


def _writer(file: IO[str]) -> Callable[[ResultRow], None]:
    """Return what writes rows; others who read the draft see them about a second later, and the first at once."""
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    flushed = -_FLUSH_SECONDS

    def write(row: ResultRow) -> None:
        nonlocal flushed
        file.write(encode(row) + "\n")
        if time.monotonic() - flushed >= _FLUSH_SECONDS:
            file.flush()
            flushed = time.monotonic()

    return write

"""A config file as something to evaluate: ``kshot run CONFIG.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.configs.data import read_data, splits_of
from kshot.configs.entry import Entry
from kshot.configs.loader import Config, load
from kshot.configs.models import ModelEntry
from kshot.configs.tasks import Compiled
from kshot.core.errors import DataError
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import ResultRow
from kshot.core.task import Task, TaskResult
from kshot.settings import Settings
from kshot.statistics.averages import macro_rows

_NO_DATASETS = "A config lists them in a variable that ends in 'datasets'; a dataset class is named FILE.py:Class."


class ConfigSource(Source[Settings]):
    """The datasets of a config file, as Tasks.

    ``data``: rows by an entry's abbr, name or loader (a file, or a folder with a file a split). ``retriever`` replaces
    the config's own. ``models`` are the config's; the one that is asked gives its meta template and lengths.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        data: Mapping[str, str] | None = None,
        config_root: str | Path | None = None,
        retriever: Mapping[str, Any] | None = None,
        only: Sequence[str] = (),
    ) -> None:
        """Name the file; it is run when it is first needed. ``only``: the abbrs of the entries to run."""
        self.path, self._data, self._root = Path(path), dict(data or {}), config_root
        self._retriever, self._only = retriever, tuple(only)

    @property
    def label(self) -> str:
        """How the user wrote it."""
        return str(self.path)

    @cached_property
    def config(self) -> Config:
        """The config, run."""
        return load(self.path, self._root)

    @property
    def models(self) -> list[str]:
        """The models that the config lists, as ``-m`` would name them."""
        return [entry.spec for entry in self.model_entries]

    @property
    def judges(self) -> list[str]:
        """The judges that the config names, as ``--judge`` would name them."""
        return [entry.spec for entry in self._judge_entries]

    @cached_property
    def model_entries(self) -> list[ModelEntry]:
        """The models that the config lists."""
        return [ModelEntry(body, str(self.path)) for body in self.config.models]

    @cached_property
    def _judge_entries(self) -> list[ModelEntry]:
        """The judges of the config: ``judge_models``, and the ``judge_cfg`` of its evaluators."""
        held = [each.eval_cfg.get("evaluator") for each in self.entries]
        written = [each.get("judge_cfg") for each in held if isinstance(each, Mapping)]
        found = [*self.config.judge_models, *(each for each in written if isinstance(each, Mapping) and each)]
        return [ModelEntry(body, str(self.path)) for body in found]

    @property
    def entries(self) -> list[Entry]:
        """The entries to run."""
        found = [each for each in self.config.chosen if not self._only or each.abbr in self._only]
        if not found:
            names = ", ".join(each.abbr for each in self.config.chosen)
            raise DataError(
                "it has no datasets" if not names else f"it has no entry {', '.join(self._only)}",
                where=str(self.path),
                hint=f"It has: {names}." if names else _NO_DATASETS,
            )
        return found

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """One Task per entry."""
        del facts  # examples are chosen without a model
        return self._tasks(settings, model, scored=True)

    def previews(self, settings: Settings) -> Iterator[Task[Any]]:
        """One Task per entry to look at; kshot need not have its evaluators and clean-ups."""
        return self._tasks(settings, None, scored=False)

    def _tasks(self, settings: Settings, model: Model | None, *, scored: bool) -> Iterator[Task[Any]]:
        data = {**_given(settings.data), **self._data}
        name = "" if model is None else model.name
        cfg = next((each.body for each in self.model_entries if each.is_called(name)), None)
        seen: dict[str, int] = {}
        for entry in self.entries:
            rows: Any = splits_of(entry, data, settings.dataset_path)
            task = Compiled(
                entry,
                rows,
                settings,
                model_cfg=cfg,
                retriever=self._retriever,
                count=model.abilities.count_tokens if isinstance(model, LanguageModel) else None,
            ).task(scored=scored)
            seen[task.name] = seen.get(task.name, 0) + 1
            if seen[task.name] > 1:
                raise DataError(f"two entries are called {task.name!r}", where=str(self.path), hint="Change an abbr.")
            yield task

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Averages over the entries of a variable, where it has several and all were run."""
        ran = {result.task.name: result for result in results}
        for variable, entries in self.config.datasets.items():
            names = [each.abbr for each in entries]
            same = {tuple(name for name, _ in ran[n].named()) for n in names if n in ran}
            if len(names) > 1 and all(name in ran for name in names) and len(same) == 1:
                yield from macro_rows(variable, {name: ran[name] for name in names}, None)


def _given(data: Any) -> dict[str, str]:
    texts = [data] if isinstance(data, str) else list(data or ())
    return read_data([text for text in texts if "=" in text])

"""Config files: ``load`` runs one in a confined process and returns what it defines; ``entry`` takes a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.confine import CALL_SECONDS, LOAD_SECONDS, MEMORY_MB, ConfigProcess
from kshot.configs.dataset_entry import DatasetEntry, tasks_named
from kshot.configs.home import Home, find_homes
from kshot.configs.names import ConfigCallable, ImportedName, Opaque, names_framework
from kshot.configs.project import Project, config_file, home_folder, root_folder
from kshot.core.errors import DataError, KshotError
from kshot.sandbox.calls import UNREADABLE
from kshot.sandbox.process import LAYERS

_RUNNING = ("infer", "eval", "judge_infer")
"""The sections of a whole evaluation file for partitioners, runners and their tasks."""
_KEYS = 5
"""How many keys of a section its note names."""
_COMBINATIONS = "model_dataset_combinations"
_CHATML = "chatml_datasets"
_PARTS = ("reader_cfg", "infer_cfg", "eval_cfg")


class Config:
    """A config file that was run: ``datasets`` by variable, ``models``, and all its other ``variables``."""

    def __init__(
        self,
        project: Project,
        found: Mapping[str, Any],
        process: ConfigProcess,
        homes: Mapping[str, Home] | None = None,
    ) -> None:
        """Sort what the file defined; ``homes``: the projects whose source is here."""
        self.homes = dict(homes or {})
        self.path, self.project, self._process = project.file, project, process
        self.variables: dict[str, Any] = dict(found["variables"])
        self.files = [Path(file) for file in found["files"]]
        self.frameworks: list[str] = list(found["frameworks"])
        self.strict = not self.frameworks
        self.notes = [
            *_notes(project, str(found["lacking"] or "")),
            *map(_home_note, self.homes.values()),
        ]
        self.registered: dict[str, Any] = dict(found["registered"])
        self._tasks = tasks_named(self.variables)
        self.datasets: dict[str, list[DatasetEntry]] = {
            name: [self._entry(each) for each in value]
            for name, value in self.variables.items()
            if name.endswith("datasets") and isinstance(value, (list, tuple))
            if all(isinstance(each, dict) for each in value)
        }
        if not self.not_run:
            self.notes += _unread_sections(project.file.name, self.variables)
        self.models: list[dict[str, Any]] = self._dicts("models")
        self.judge_models: list[dict[str, Any]] = self._dicts("judge_models")

    @property
    def chosen(self) -> list[DatasetEntry]:
        """The entries to run: those of ``datasets``, or of all ``…_datasets``, each once.

        A file that only has a ``reader_cfg`` and an ``infer_cfg`` is one entry, named after the file.
        """
        if "datasets" in self.datasets:
            return self.datasets["datasets"]
        if not self.datasets and {"reader_cfg", "infer_cfg"} <= set(self.variables):
            parts = {name: self.variables[name] for name in _PARTS if name in self.variables}
            return [self._entry({"abbr": self.path.stem, **parts})]
        seen: dict[str, DatasetEntry] = {}
        for entries in self.datasets.values():
            for each in entries:
                seen.setdefault(repr(each.body), each)
        return list(seen.values())

    @property
    def not_run(self) -> bool:
        """Whether kshot runs none of its entries."""
        return bool(self.chosen) and not any(each.is_run for each in self.chosen)

    def close(self) -> None:
        """End the config's process, and those of the homes."""
        self._process.close()
        for home in self.homes.values():
            home.close()

    def _dicts(self, name: str) -> list[dict[str, Any]]:
        value = self.variables.get(name, [])
        return [each for each in value if isinstance(each, dict)] if isinstance(value, (list, tuple)) else []

    def _entry(self, body: dict[str, Any]) -> DatasetEntry:
        return DatasetEntry(
            body,
            strict=self.strict,
            where=str(self.path),
            registered=self.registered,
            framework=next(iter(self.frameworks), ""),  # sorted: AISBench goes first
            project=self.project,
            homes=self.homes,
            tasks=self._tasks,
        )


def _notes(project: Project, lacking: str) -> Iterator[str]:
    another = "" if project.given else "; --home names another"
    yield f"config root: {', '.join(map(str, project.roots))} (a config reads files there{another})"
    if lacking:
        yield (
            f"{project.file.name} was read without running it, because this system lacks {lacking}: functions and "
            "classes that it defines cannot be used"
        )


def _unread_sections(file: str, variables: Mapping[str, Any]) -> Iterator[str]:
    """Note the sections of a whole evaluation file that have no effect."""
    found = [
        f"{name} ({', '.join(f'{key!s:.40}' for key in [*each][:_KEYS])})"
        for name in _RUNNING
        if isinstance(each := variables.get(name), Mapping) and each
    ]
    if found:
        one = "has" if len(found) == 1 else "have"
        yield f"{' and '.join(found)} of {file} {one} no effect: kshot divides, runs and scores the work in its own way"
    if variables.get(_CHATML) and "datasets" in variables:
        yield f"{_CHATML} of {file} has no effect: OpenCompass adds these datasets, and kshot does not run them"
    if variables.get(_COMBINATIONS):
        yield f"{_COMBINATIONS} of {file} has no effect: every model answers every dataset (-m and --only choose)"


def _home_note(home: Home) -> str:
    how = "" if home.found == "--home" else f" ({home.found}; --home names another)"
    return f"home: {home.title} in {home.folder}{how}: what kshot does not know runs by its code, confined"


def load(
    path: str | Path,
    config_root: str | Path | None = None,
    *,
    home: str | Path | None = None,
    allow_download: bool = False,
    load_seconds: float = LOAD_SECONDS,
    call_seconds: float = CALL_SECONDS,
    memory_mb: int = MEMORY_MB,
    layers: tuple[str, ...] = LAYERS,
) -> Config:
    """Run a config file in a confined process.

    ``home``: the folder of OpenCompass's or AISBench's source, whose code runs what kshot does not know, confined; it
    holds the packages of absolute ``read_base`` imports, too. ``config_root`` is its older name, for a folder of any
    packages. ``allow_download`` lets that code use the network.
    """
    file = config_file(path)
    root = None if config_root is None else root_folder(config_root)
    root = root if home is None else home_folder(home, file)
    project = Project(file, root)
    codec = Codec(name=ImportedName, opaque=Opaque)
    process = ConfigProcess(
        file,
        project=project,
        codec=codec,
        load_seconds=load_seconds,
        call_seconds=call_seconds,
        memory_mb=memory_mb,
        layers=layers,
    )
    codec.make_own = partial(ConfigCallable, process)
    try:
        found = process.load()
        homes = {
            name: each
            for name, each in find_homes(file, root, network=allow_download).items()
            if name in found["frameworks"] or names_framework(found["variables"], name)
        }
        config = Config(project, found, process, homes)
    except (KeyError, TypeError, ValueError) as exc:
        process.close()
        raise DataError(UNREADABLE, where=str(file)) from exc
    except BaseException:
        process.close()
        raise
    if not codec.decoded_own:
        process.close()
    return config


def entry(body: Mapping[str, Any], *, strict: bool | None = None) -> DatasetEntry:
    """Make an entry from a dict. It is ``strict`` unless it names something of AISBench or OpenCompass."""
    plain = dict(body)
    named = next((each for each in FRAMEWORKS if names_framework(plain, each)), "")
    return DatasetEntry(plain, strict=not named if strict is None else strict, where="entry", framework=named)


# ---- work_dir: where the home would write its results, and where the run folder then lies ----


def work_folder(path: Path, home: str | None, config_root: str | None = None) -> str | None:
    """Return the ``work_dir`` of a config that names one below the current folder; None: it names none there.

    A config does not choose where else files are written.
    """
    try:
        if b"work_dir" not in config_file(path).read_bytes():
            return None
        config = load(path, config_root, home=home)
    except (OSError, KshotError):
        return None  # running the config will say what is wrong
    config.close()
    named = config.variables.get("work_dir")
    if not isinstance(named, str) or not named.strip():
        return None
    here = Path.cwd().resolve()
    place = (here / named).resolve()
    return str(place.relative_to(here)) if place != here and place.is_relative_to(here) else None

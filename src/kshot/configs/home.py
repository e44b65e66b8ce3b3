"""The projects that configs are written for, where the user has their source: their code runs confined.

What kshot does not know by name (a loader, a clean-up, an evaluator, a retriever, a judge's post-processor) is taken
from there. One worker serves all entries of a config.
"""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.names import ConfigCallable, ImportedName, Opaque, ambiguous_name, short
from kshot.configs.project import OPEN_FLAGS
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.text_files import regular_file
from kshot.sandbox.calls import UNREADABLE
from kshot.sandbox.guest import Guest, GuestFault, opaque_class

Part: TypeAlias = Literal["loader", "clean-up", "evaluator", "retriever", "template", "judge"]
"""What a config names. ``judge``: the function that makes figures of a judge's replies."""

TITLES = {"opencompass": "OpenCompass", "ais_bench": "AISBench"}
_ADAPTER = "kshot.configs._home_adapter"
_ROWS_A_REQUEST = 500
CLEAN_SECONDS = 60.0
"""How long a clean-up may work on one text."""
_NOT_GIVEN = "NotGivenError"
"""The fault by which the worker says that an evaluator has parameters for which there is nothing to give."""
_AGENTS = "Evaluators of agent configs want the steps of an agent (steps), and kshot runs none."
_AMBIGUOUS = "AmbiguousNameError"
"""The worker's fault for a bare name that several modules have."""
_ABSENT = "NoSuchNameError"
"""The fault by which the worker says that there is no such name."""
_MAX_ROWS, _MAX_ROW_BYTES = 5_000_000, 4 << 30


class Home:
    """The source of one project."""

    def __init__(self, framework: str, folder: Path, found: str, *, network: bool = False) -> None:
        """``folder`` is that of its package; ``found`` says how it was found, for the user."""
        self.framework, self.folder, self.found = framework, folder.resolve(), found
        self.title = TITLES[framework]
        self.guest = Guest(
            self.title,
            {framework: self.folder},
            _ADAPTER,
            readable=[*data_folders(self.folder)],
            network=network,
        )
        self._known: dict[tuple[str, str], Mapping[str, Any] | None] = {}

    def __repr__(self) -> str:
        """Show which project it is; where it lies is no setting of a metric."""
        return f"Home({self.framework!r})"

    @cached_property
    def digest(self) -> str:
        """A digest of its code: of every Python file."""
        return code_digest(self.folder)

    def close(self) -> None:
        """End its worker."""
        self.guest.close()

    def has(self, part: Part, name: str) -> bool:
        """Whether its code defines a name. Code that cannot be loaded is an error that says why."""
        return self._found(part, name) is not None

    def wants_prompts(self, name: str) -> bool:
        """Whether an evaluator wants to see the prompts."""
        parameters = (self._found("evaluator", name) or {}).get("score")
        return isinstance(parameters, list) and "origin_prompt" in parameters

    def _found(self, part: Part, name: str) -> Mapping[str, Any] | None:
        key = (part, name)
        if key not in self._known:
            try:
                found = self.guest.ask("find", kind=part, name=name)
                self._known[key] = found if isinstance(found, Mapping) else {}
            except GuestFault as exc:
                if exc.kind == _AMBIGUOUS:
                    dotted = exc.what.removeprefix(f"{_AMBIGUOUS}: ")
                    raise ambiguous_name(part, name, dotted) from exc
                if exc.kind != _ABSENT:
                    raise
                self._known[key] = None
        return self._known[key]

    # ---- what it does ----

    def _ask(self, action: str, name: str, options: Mapping[str, Any], **given: Any) -> Any:
        """Have the worker do something with what a config gives a name and options."""
        return self.guest.ask(action, name=name, options=plain_options(options), **given)

    def clean(self, name: str, options: Mapping[str, Any], text: Any) -> Any:
        """Clean a text up."""
        answer = self._ask("clean", name, options, texts=[text], seconds=CLEAN_SECONDS)
        found = answer[0] if isinstance(answer, list) and len(answer) == 1 else None
        if not isinstance(found, Mapping) or not found.keys() & {"value", "error"}:
            raise GuestFault(UNREADABLE, kind="NoAnswer", where=self.title)
        if "error" in found:
            raise GuestFault(f"it fails on {text!r:.80}: {found['error']}", kind="TextFault")
        if opaque := opaque_class(found["value"]):
            raise GuestFault(f"it makes a value of the class {opaque} of {text!r:.80}", kind="TextFault")
        return found["value"]

    def evaluate(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        predictions: Sequence[Any],
        references: Sequence[Any],
        rows: Sequence[Row],
        prompts: Sequence[Any] | None = None,
    ) -> Mapping[str, Any]:
        """Return what an evaluator makes of all predictions; ``prompts`` are what the model was asked."""
        called = f"{short(name)} of {self.title}"
        given = {"predictions": predictions, "references": references, "rows": rows, "prompts": prompts}
        try:
            found = self._ask("evaluate", name, options, **given)
        except GuestFault as exc:
            if exc.kind != _NOT_GIVEN:
                raise
            wanted = exc.what.removeprefix(f"{_NOT_GIVEN}: ")
            raise DataError(f"{called} wants {wanted}, which kshot does not have", hint=_AGENTS) from exc
        return _checked_figures(found, called)

    def judged(
        self, name: str, options: Mapping[str, Any], replies: Sequence[Mapping[str, Any]], rows: Sequence[Row]
    ) -> Mapping[str, Any]:
        """Return what a post-processor makes of all replies of a judge: ``prediction``, ``gold``, ``origin_prompt``."""
        found = self._ask("judge", name, options, replies=replies, rows=rows)
        return _checked_figures(found, f"{short(name)} of {self.title}")

    def template(
        self, name: str, options: Mapping[str, Any], method: str, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what a method of a template gives, as ``made``; without a method, the template's tokens."""
        found = self._ask("template", name, options, method=method, given=plain_options(given))
        if not isinstance(found, Mapping) or (method and "made" not in found):
            raise GuestFault(UNREADABLE, kind="NoAnswer", where=self.title)
        return found

    def rows(
        self, name: str, options: Mapping[str, Any], places: Sequence[Path] = ()
    ) -> tuple[dict[str, list[Row]] | list[Row], list[str]]:
        """Return the rows that a loader gives, by split, and the names of the options that it does not take.

        ``places``: files and folders that it may read, too.
        """
        self.guest.allow_reading(*places)
        loaded = self._ask("load", name, options)
        parts = loaded if isinstance(loaded, Mapping) else {}
        sizes, not_taken = parts.get("sizes"), parts.get("not_taken")
        if not isinstance(not_taken, list) or not all(isinstance(option, str) for option in not_taken):
            raise GuestFault(UNREADABLE, kind="NoAnswer", where=self.title)
        if not isinstance(sizes, Mapping) or not all(type(size) is int and size >= 0 for size in sizes.values()):
            raise DataError(f"{short(name)} of {self.title} gave no splits of rows")
        if sum(sizes.values()) > _MAX_ROWS:
            raise DataError(f"{short(name)} of {self.title} gives more than {_MAX_ROWS:,} rows")
        found = {str(split): list(self._rows(str(split), size)) for split, size in sizes.items()}
        return found[""] if [*found] == [""] else found, [option for option in options if option in not_taken]

    def _rows(self, split: str, size: int) -> Iterator[Row]:
        before = self.guest.answered_bytes
        for start in range(0, size, _ROWS_A_REQUEST):
            part = self.guest.ask("rows", split=split, start=start, stop=start + _ROWS_A_REQUEST)
            if not isinstance(part, list):
                raise DataError(f"a loader of {self.title} gave no rows")
            for number, row in enumerate(part, start):
                yield self._checked_row(row, f"{split} row {number}".strip())
            if self.guest.answered_bytes - before > _MAX_ROW_BYTES:
                raise DataError(f"a loader of {self.title} gives more than {_MAX_ROW_BYTES >> 30} GB of rows")

    def _checked_row(self, row: Any, where: str) -> Row:
        if not isinstance(row, dict):
            raise DataError(f"a loader of {self.title} gave {type(row).__name__} in place of a row", where=where)
        for column, value in row.items():
            if opaque := opaque_class(value):
                what = f"a loader of {self.title} gave a value of the class {opaque} in the column {column!r}"
                raise DataError(what, where=where)
        return row

    def examples(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        train: Sequence[Row],
        test: Sequence[Row],
        columns: Sequence[str],
        output: str | None,
    ) -> list[list[int]]:
        """Return the numbers of the training rows that a retriever chooses for each test row."""
        found = self._ask("retrieve", name, options, train=train, test=test, columns=columns, output=output)
        right = (
            isinstance(found, list)
            and len(found) == len(test)
            and all(isinstance(numbers, list) for numbers in found)
            and all(type(each) is int and 0 <= each < len(train) for numbers in found for each in numbers)
        )
        if not right:
            what = f"{short(name)} of {self.title} did not choose rows that there are, for each of {len(test)} rows"
            raise DataError(what, hint=f"It gave {found!r:.120}.")
        ids: list[list[int]] = found
        return ids


def _checked_figures(found: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise DataError(f"{what} returned {type(found).__name__}, not a dict of figures")
    if "error" in found and isinstance(found["error"], str):
        raise DataError(f"{what} reports an error: {found['error']:.300}")
    return found


def plain_options(value: Any) -> Any:
    """Return the options of a config as the worker takes them: a name of another package becomes its dotted text."""
    if isinstance(value, ImportedName):
        return value.called
    if isinstance(value, (ConfigCallable, Opaque)):
        raise DataError(f"{value!r} cannot be given to the code of another project", hint="Name it by text instead.")
    if isinstance(value, type) or callable(value):
        return short(value)
    if isinstance(value, Mapping):
        return {name: plain_options(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain_options, value))
    return value


def find_homes(config: Path, given: Path | None, *, network: bool = False) -> dict[str, Home]:
    """Return the projects whose source is here: the user's folder first, then that around the config, then installed.

    Nothing is imported. A folder may be a clone, what is installed, or the package itself.
    """
    homes: dict[str, Home] = {}
    for framework in FRAMEWORKS:
        for folder, found in places(framework, config, given):
            if (folder / "__init__.py").is_file() and has_code(folder):
                homes[framework] = Home(framework, folder, found, network=network)
                break
    return homes


# ---- where homes and their data lie ----

DATA_FOLDERS = ("data", "ais_bench/datasets")
"""Where the frameworks keep data, below the working directory, below themselves and below their caches."""
_DATA_VARIABLES = (
    *("COMPASS_DATA_CACHE", "AIS_BENCH_DATASETS_CACHE", "NLTK_DATA", "TIKTOKEN_CACHE_DIR", "HF_HUB_CACHE"),
)
"""The user's environment variables that name folders of data; the worker sees them, and may read there."""
_MAX_CODE_BYTES = 16 << 20
_WRITABLE_BY_ALL = 0o002


def places(framework: str, config: Path, given: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may hold a project, and how each was found: the user's first, then others."""
    if given is not None:
        for folder in (given / framework, given, *given.parents):
            if folder.name == framework:
                yield folder, "--home"
    for folder in config.parents:
        if folder.name == framework and _is_trusted(folder):
            yield folder, "the config lies in it"
        if _is_trusted(folder / framework):
            yield folder / framework, "the config lies beside it"
    try:
        spec = importlib.util.find_spec(framework)
    except (ImportError, ValueError):
        spec = None
    for place in spec.submodule_search_locations or () if spec is not None else ():
        if not Path(place).resolve().is_relative_to(Path.cwd().resolve()) or "site-packages" in Path(place).parts:
            yield Path(place), "it is installed"


def _is_trusted(folder: Path) -> bool:
    """Whether a folder that nobody has named may be used: it is the user's or root's, and others cannot change it."""
    if not hasattr(os, "getuid"):  # Windows
        return folder.is_dir()
    try:
        status, above = folder.lstat(), folder.parent.stat()
    except OSError:
        return False
    owned = status.st_uid in {os.getuid(), 0} and stat.S_ISDIR(status.st_mode)
    sticky = bool(above.st_mode & stat.S_ISVTX)
    return owned and not status.st_mode & _WRITABLE_BY_ALL and (sticky or not above.st_mode & _WRITABLE_BY_ALL)


def has_code(folder: Path) -> bool:
    """Whether it holds the project's code, and not configs alone."""
    return any((folder / part).is_dir() for part in ("datasets", "openicl", "benchmark/openicl", "benchmark/datasets"))


def data_folders(home: Path | None = None) -> Iterator[Path]:
    """Return the folders in which the homes' data lies on this machine, whether or not they are there.

    A link that leads out of the current folder, or out of the home's, is left out: it could lead anywhere.
    """
    for below in (Path.cwd(), *((home.parent,) if home is not None else ())):
        top = below.resolve()
        yield from (place for folder in DATA_FOLDERS if (place := (top / folder).resolve()).is_relative_to(top))
    for variable in _DATA_VARIABLES:
        if place := os.environ.get(variable):
            yield Path(place)


def code_digest(folder: Path) -> str:
    """Return a digest of a project's code: of every Python file."""
    total = sha256()
    for path in _code_files(folder):
        total.update(os.fsencode(path.relative_to(folder).as_posix()) + b"\0")
        total.update(_file_digest(path))
    return total.hexdigest()[:32]


def _code_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files that are files: neither links nor anything else."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and name[0] != ".")
        for name in sorted(files):
            path = Path(place, name)
            if name.endswith(".py") and stat.S_ISREG(path.lstat().st_mode):
                yield path


def _file_digest(path: Path) -> bytes:
    try:
        with os.fdopen(regular_file(path, OPEN_FLAGS), "rb") as file:
            data = file.read(_MAX_CODE_BYTES + 1)
    except OSError as exc:
        raise DataError(f"a file of the home cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    if len(data) > _MAX_CODE_BYTES:
        raise DataError(f"a file of the home has more than {_MAX_CODE_BYTES >> 20} MB", where=str(path))
    return sha256(data).digest()

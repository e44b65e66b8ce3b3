"""The projects that configs are written for, where the user has their source: their code runs confined.

What kshot does not know by name (a loader, a clean-up, an evaluator, a retriever, a judge's post-processor) is taken
from there. One worker serves all entries of a config.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.home_folders import code_digest, data_folders, has_code, places
from kshot.configs.names import ConfigCallable, ImportedName, Opaque, ambiguous_name, short
from kshot.core.errors import DataError
from kshot.core.records import Row
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

    def clean(self, name: str, options: Mapping[str, Any], text: Any) -> Any:
        """Clean a text up."""
        given = {"name": name, "options": plain_options(options), "texts": [text]}
        answer = self.guest.ask("clean", seconds=CLEAN_SECONDS, **given)
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
        try:
            found = self.guest.ask(
                "evaluate",
                name=name,
                options=plain_options(options),
                predictions=list(predictions),
                references=list(references),
                rows=[dict(row) for row in rows],
                prompts=None if prompts is None else list(prompts),
            )
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
        found = self.guest.ask(
            "judge",
            name=name,
            options=plain_options(options),
            replies=[dict(reply) for reply in replies],
            rows=[dict(row) for row in rows],
        )
        return _checked_figures(found, f"{short(name)} of {self.title}")

    def template(
        self, name: str, options: Mapping[str, Any], method: str, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what a method of a template gives, as ``made``; without a method, the template's tokens."""
        found = self.guest.ask(
            "template", name=name, options=plain_options(options), method=method, given=plain_options(given)
        )
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
        loaded = self.guest.ask("load", name=name, options=plain_options(options))
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
        found = self.guest.ask(
            "retrieve",
            name=name,
            options=plain_options(options),
            train=[dict(row) for row in train],
            test=[dict(row) for row in test],
            columns=list(columns),
            output=output,
        )
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

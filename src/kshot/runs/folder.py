"""The run folder: settings, responses, samples and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from kshot.core.budget import LimitReached
from kshot.core.durable import disk_hint, new_version, sync_folder, writing
from kshot.core.errors import DataError, MissingExtra, RunError, UsageError
from kshot.core.records import Response, ResultRow
from kshot.core.serialization import FORMAT, journal_lines
from kshot.core.settings import FsyncMode
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.runs.journal import Journal
from kshot.runs.progress import PROGRESS
from kshot.runs.samples_file import PASSAGES, SAMPLES
from kshot.runs.spec_file import SPEC, ended, new_session, read_spec, reason, with_session, without_reasons
from kshot.settings import Settings


def differences(earlier: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Say which settings of a run are not those that it began with."""
    before, now = without_defaults(earlier), without_defaults(present)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [f"{name} was {_shown(name, before)}, is {_shown(name, now)}" for name in names]


def without_defaults(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without default values: earlier folders hold every value, also former defaults."""
    declared = Settings.declared()
    holds_defaults = any(name in declared and value == declared[name].default for name, value in identity.items())
    return {
        name: value
        for name, value in identity.items()
        if not (declared[name].is_unset(value) if name in declared else value is None)
        and not (holds_defaults and name in declared and value is not None and value == declared[name].former_default)
    }


def _shown(name: str, identity: Mapping[str, Any]) -> str:
    """Show a value of an identity for a message, which must stay on one line."""
    if name in identity:
        return half_a_line(json.dumps(identity[name], ensure_ascii=False))
    declared = Settings.declared().get(name)
    default = (
        None if declared is None else declared.default if declared.default is not None else declared.earlier_default
    )
    return "not set" if default is None else f"{json.dumps(default)} (default)"


def half_a_line(text: str) -> str:
    """Return a text for a message; a long one is cut."""
    return text if len(text) <= 60 else text[:57] + "…"  # noqa: PLR2004 - about half a line


JOURNAL, SUMMARY = "journal.jsonl", "summary.json"
FILES = (SPEC, JOURNAL, SAMPLES, PASSAGES, SUMMARY, PROGRESS)
_POINTS = {SPEC: "spec", SAMPLES: "samples", SUMMARY: "summary"}
"""How kill points name these files; all others are exports."""

_CONTINUE = "Every answer is in the journal: the same command continues from there."
_REFUSALS = (UsageError, DataError, MissingExtra)
"""Errors in what the user gave. If they come before anything is asked, the folder is not worth keeping."""
_FIRST_FILES = {SPEC, JOURNAL, PROGRESS, *(f".{name}.draft" for name in (SPEC, PROGRESS, SAMPLES, SUMMARY, PASSAGES))}
"""What a run writes before the first answer is in its journal."""
_KEPT = ("sessions", "spent")
"""What a folder records whatever the settings."""


class RunFolder:
    """One run on disk. The same settings continue it; other settings are refused."""

    def __init__(
        self,
        path: str | Path,
        identity: Mapping[str, Any],
        *,
        reuse: str | Path | Iterable[str | Path] = (),
        fsync: FsyncMode = "group",
        repair: bool = True,
    ) -> None:
        """Create the folder or continue it; ``reuse`` names other runs whose answers may be used, in this order.

        Without ``repair``, damaged lines of the journal stay where they are.
        """
        self.path = Path(path).expanduser()
        self._identity = json.loads(json.dumps(identity))
        self._fsync = fsync
        self._session = new_session()
        self._is_recorded = False
        self._made: list[Path] = []
        self.failures: dict[str, Response] = {}
        """What this call does not ask again, although it failed: see ``BatchQueue.open``."""
        with ExitStack() as stack:  # an error that is kept must not keep a file open
            self._others: list[Journal] = []
            for run in (reuse,) if isinstance(reuse, (str, Path)) else reuse:  # before a new folder is made
                self._others.append(_journal_of(run))
                stack.callback(self._others[-1].close)
            stack.callback(self._remove_made)
            with _reading(self.path):
                self._make()
                has_journal = (self.path / JOURNAL).exists()
                times = file_times(self.path)  # before anything in it is opened, and mended
                self._changed = max(times).isoformat(timespec="seconds") if times else None
                self.spec: dict[str, Any] = self._checked_spec()
            self.journal = Journal(self.path / JOURNAL, fsync=fsync, repair=repair)
            self._is_new = not has_journal and not (self.path / SPEC).exists()
            stack.pop_all()

    def __enter__(self) -> RunFolder:  # noqa: PYI034 - Self needs Python 3.11
        """Use the folder until the block ends."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, *rest: object) -> None:
        """Record how the session ended, and release the journal.

        A session that failed before it began leaves nothing; nor does a new run that was refused before it asked.
        """
        refused = isinstance(exc, _REFUSALS) and self._is_new and not self._has_asked()
        with ExitStack() as stack:
            if exc is not None and (refused or not self._is_recorded) and self._is_ours():
                stack.callback(self._remove)
            stack.callback(self._close)
            self._end_session(exc)

    def _has_asked(self) -> bool:
        """Whether a request was sent, as far as the journal and ``spec.json`` say."""
        spent = self.spec.get("spent", {}).values()
        return bool(len(self.journal)) or any(counts.get("requests") for counts in spent)

    def _is_ours(self) -> bool:
        """Whether the folder is still that of this run."""
        with suppress(RunError):
            self.journal.check()
            return True
        return False

    def _remove(self) -> None:
        """Remove the progress of a session that leaves nothing; if the run is new, its other files and folders, too."""
        with suppress(OSError):
            (self.path / PROGRESS).unlink(missing_ok=True)
            if self._is_new and not (self.path / JOURNAL).stat().st_size:
                (self.path / SPEC).unlink(missing_ok=True)
                (self.path / JOURNAL).unlink()
                self._remove_made()

    def _remove_made(self) -> None:
        """Remove the folders that were made, if they are empty."""
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def _close(self) -> None:
        with ExitStack() as stack:
            for journal in (self.journal, *self._others):
                stack.callback(journal.close)

    def _end_session(self, exc: BaseException | None) -> None:
        if not self._is_recorded:
            return
        if exc is None:
            ended(self._session, "done")
            self.write_spec(sessions=without_reasons(self.spec["sessions"]))
            return
        stopped = isinstance(exc, (KeyboardInterrupt, LimitReached))
        ended(self._session, "stopped" if stopped else "failed", reason(exc))
        with suppress(RunError):  # the error that ends the run is the one to show
            self.write_spec()

    @property
    def started(self) -> str:
        """When this session began, as ``spec.json`` has it."""
        return str(self._session["started"])

    @property
    def notes(self) -> list[str]:
        """What a user should know of damaged lines in the journals."""
        return [note for journal in (self.journal, *self._others) for note in journal.notes]

    # ---- the memo of the engine ----

    def get(self, key: str) -> Response | None:
        """Return a response of this run, or else copy that of the first run to reuse that has one."""
        own = self.journal.get(key)
        if own is not None:
            return own
        found = next((record for other in self._others if (record := other.record(key)) is not None), None)
        if found is None:
            return self.failures.get(key)
        self.journal.put(key, found.asked, found.response)
        return found.response

    def put(self, key: str, asked: str, response: Response) -> None:
        """Store a response in the journal."""
        self.journal.put(key, asked, response)

    # ---- files ----

    def note_model(
        self, role: str, name: str, fingerprint: str, *, server: bool = False, searches: bool = False
    ) -> None:
        """Record a model with its role and fingerprint; refuse a fingerprint that differs from the recorded one.

        ``server``: it is behind a server. ``searches``: it is a language model that answers searches too, as the replay
        of a journal does.
        """
        known: list[dict[str, Any]] = self.spec.setdefault("models", [])
        noted = next((each for each in known if (each["role"], each["name"]) == (role, name)), None)
        if noted is None:
            noted = {"role": role, "name": name, "fingerprint": fingerprint}
            known.append(noted)
        elif noted["fingerprint"] != fingerprint:
            raise RunError(
                f"{name} has changed since this run began (its weights, code, format or template; "
                "if it is deterministic, also the machine and the versions of packages)",
                where=str(self.path),
                hint="Choose another folder with --out.",
            )
        noted |= {mark: True for mark, holds in {"server": server, "searches": searches}.items() if holds}

    def write_spec(self, **more: Any) -> None:
        """Add to ``spec.json``."""
        if not self._is_recorded:
            self._is_recorded = True
            # A session that was killed ended when it last wrote a file, as far as anyone knows.
            earlier = [
                {**each, "ended": self._changed} if each.get("state") == "running" else each
                for each in self.spec.get("sessions", [])
            ]
            more["sessions"] = with_session(earlier, self._session)
        self.spec |= {"format": FORMAT, **more}
        with self.replacing(SPEC) as file:
            file.write(json.dumps(self.spec, indent=2, ensure_ascii=False) + "\n")

    def earlier_results(self) -> list[ResultRow]:
        """Return the figures of the last ``summary.json``; none if there is no such file, or a damaged one."""
        try:
            rows = parse_json(read_at_most(path_inside(self.path, SUMMARY)))["results"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    @contextmanager
    def replacing(self, name: str) -> Iterator[IO[str]]:
        """Write a new version of a file beside the old one; replace the old one when the new one is complete."""
        self.journal.check()  # if the folder is gone, no new one is made for this file
        with writing(self.path / name, _CONTINUE):
            target = path_inside(self.path, name).resolve()
        with new_version(
            target,
            _POINTS.get(name, "export"),
            fsync=self._fsync != "never",
            before=self.journal.sync,  # no figure is on the disk without the answers behind it
            advice=_CONTINUE,
        ) as file:
            yield file

    @contextmanager
    def exporting(self) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
        """Write lines to files of the folder, by relative path; the files are in place when the block ends."""
        with ExitStack() as stack:
            files: dict[str, IO[str]] = {}

            def write(name: str, line: Mapping[str, Any]) -> None:
                if name not in files:
                    files[name] = stack.enter_context(self.replacing(name))
                files[name].write(json.dumps(line, ensure_ascii=False) + "\n")

            yield write

    def _make(self) -> None:
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise RunError(
                f"the run folder cannot be made: {exc.strerror or exc}", where=str(self.path), hint=disk_hint(exc)
            ) from exc
        self._made = made
        if made and self._fsync != "never":
            sync_folder(self.path.parent)
        for name in (SPEC, JOURNAL, SAMPLES, SUMMARY, PASSAGES):
            path_inside(self.path, name)  # a folder from elsewhere may have links to files of the user
        if any(self.path.iterdir()) and not _holds_run(self.path):
            raise RunError(
                "the folder is not empty and holds no run",
                where=str(self.path),
                hint="Choose another folder with --out.",
            )

    def _checked_spec(self) -> dict[str, Any]:
        if not (self.path / SPEC).exists():
            return {"identity": self._identity}
        journal = self.path / JOURNAL
        if not journal.exists() or not journal.stat().st_size:
            # Nothing was answered yet, so other settings do no harm, and neither does a damaged file.
            # What was spent stays so: a server counts requests that it refuses, too.
            earlier: dict[str, Any] = {}
            with suppress(RunError):
                earlier = read_spec(self.path)
            return {"identity": self._identity, **{name: earlier[name] for name in _KEPT if name in earlier}}
        spec = read_spec(self.path)
        changes = differences(spec["identity"], self._identity)
        if changes:
            raise RunError(
                f"this folder holds a run with other settings ({'; '.join(changes)})",
                where=str(self.path),
                hint=f"Choose another folder with --out; --reuse {self.path} reuses its answers.",
            )
        return spec


def _holds_run(folder: Path) -> bool:
    """Whether kshot began a run there; files of these names may also be the user's own."""
    with suppress(RunError):
        return bool(read_spec(folder))
    journal = folder / JOURNAL
    if not journal.is_file():
        return False
    if not journal.stat().st_size:  # a run that was killed while its model was being opened
        return {path.name for path in folder.iterdir()} <= _FIRST_FILES
    with journal.open("rb") as file:
        return any(line.record for line in journal_lines(file, str(journal)))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the disk while a folder is opened into one clear message."""
    try:
        yield
    except OSError as exc:
        raise RunError(
            f"the run folder cannot be used: {exc.strerror or exc}", where=str(path), hint=disk_hint(exc)
        ) from exc


def file_times(folder: Path) -> list[datetime]:
    """Return when each file of a run folder was last written."""
    found = []
    for name in FILES:
        with suppress(OSError, ValueError, OverflowError):  # it is not there, or its time is no date
            found.append(datetime.fromtimestamp((folder / name).lstat().st_mtime, timezone.utc))
    return found


def stored_answers(folder: Path) -> Journal:
    """Open the journal of a run folder to read, its failures too."""
    return Journal(path_inside(folder, JOURNAL), read_only=True, use_failures=True)


def _journal_of(run: str | Path) -> Journal:
    path = Path(run).expanduser()
    file = path / JOURNAL if path.is_dir() else path
    if not file.is_file():
        raise RunError("there is no journal to reuse", where=str(path), hint="Name a run folder.")
    journal = Journal(file, read_only=True)
    if journal.notes and not journal.has_records:
        journal.close()
        raise RunError("this line is not a journal record", where=f"{file}:1", hint="Name a run folder.")
    return journal

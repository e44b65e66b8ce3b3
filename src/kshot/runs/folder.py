"""The run folder: settings, responses, samples and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from kshot.core.errors import RunError
from kshot.core.kill_points import reach
from kshot.core.records import Response, ResultRow
from kshot.core.serialization import response_from_json
from kshot.runs.journal import Journal
from kshot.settings import Settings

SPEC, JOURNAL, SAMPLES, SUMMARY = "spec.json", "journal.jsonl", "samples.jsonl", "summary.json"
_POINTS = {SPEC: "spec", SAMPLES: "samples", SUMMARY: "summary"}
"""How kill points name these files; all others are exports."""


class RunFolder:
    """One run on disk. The same settings continue it; other settings are refused."""

    def __init__(
        self, path: str | Path, identity: Mapping[str, Any], *, reuse: str | Path | Iterable[str | Path] = ()
    ) -> None:
        """Create the folder or continue it; ``reuse`` names other runs whose answers may be used, in this order."""
        self.path = Path(path).expanduser()
        self._identity = json.loads(json.dumps(identity))
        self._make()
        self.spec: dict[str, Any] = self._checked_spec()
        self.journal = Journal(self.path / JOURNAL)
        self._others: list[Journal] = []
        try:
            for run in (reuse,) if isinstance(reuse, (str, Path)) else reuse:
                self._others.append(_journal_of(run))
        except BaseException:
            self._close()  # an error that is kept must not keep the lock
            raise

    def __enter__(self) -> RunFolder:  # noqa: PYI034 - Self needs Python 3.11
        """Use the folder until the block ends."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Release the journal."""
        self._close()

    def _close(self) -> None:
        for journal in (self.journal, *self._others):
            journal.close()

    # ---- the memo of the engine ----

    def get(self, key: str) -> Response | None:
        """Return a response of this run, or else copy that of the first run to reuse that has one."""
        own = self.journal.get(key)
        if own is not None:
            return own
        row = next((found for other in self._others if (found := other.row(key)) is not None), None)
        if row is None:
            return None
        response = response_from_json(row["response"])
        self.journal.put(key, str(row.get("asked", "")), response)
        return response

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
        self.spec |= more
        with self.replacing(SPEC) as file:
            file.write(json.dumps(self.spec, indent=2, ensure_ascii=False) + "\n")

    def earlier_results(self) -> list[ResultRow]:
        """Return the figures of the last ``summary.json``; none if there is no such file, or a damaged one."""
        try:
            rows = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))["results"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    @contextmanager
    def replacing(self, name: str) -> Iterator[IO[str]]:
        """Write a new version of a file beside the old one; replace the old one when the new one is complete."""
        target = (self.path / name).resolve()
        if not target.is_relative_to(self.path.resolve()):
            raise RunError(f"{name!r} lies outside the run folder", where=str(self.path))
        draft = target.with_name(f".{target.name}.draft")
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            # In JSON text a lone surrogate becomes its escape, so that every reader accepts the file.
            file = draft.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
        point = _POINTS.get(name, "export")
        reach(f"{point}.opened")
        try:
            yield cast("IO[str]", _Draft(file, target, f"{point}.writing"))
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
        with _writing(target):
            file.close()
            reach(f"{point}.written")
            draft.replace(target)
            reach(f"{point}.replaced")

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
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise RunError(f"the run folder cannot be made: {exc.strerror or exc}", where=str(self.path)) from exc
        others = {p.name for p in self.path.iterdir()} - {SPEC, JOURNAL, SAMPLES, SUMMARY}
        if others and not (self.path / SPEC).exists() and not (self.path / JOURNAL).exists():
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
            return {"identity": self._identity}  # nothing was answered yet, so other settings do no harm
        spec = read_spec(self.path)
        before, now = _without_defaults(spec["identity"]), _without_defaults(self._identity)
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if names:
            changes = "; ".join(f"{name} was {_shown(name, before)}, is {_shown(name, now)}" for name in names)
            raise RunError(
                f"this folder holds a run with other settings ({changes})",
                where=str(self.path),
                hint=f"Choose another folder with --out; --reuse {self.path} reuses its answers.",
            )
        return spec


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn errors of the disk, and only those, into one clear message."""
    try:
        yield
    except OSError as exc:
        raise _unwritten(target, exc) from exc


def _unwritten(target: Path, exc: OSError) -> RunError:
    return RunError(
        f"it cannot be written: {exc.strerror or exc}",
        where=str(target),
        hint="Every answer is in the journal: the same command continues from there.",
    )


class _Draft:
    """A file that is being written; only its own errors are reported as errors of the disk."""

    def __init__(self, file: IO[str], target: Path, point: str) -> None:
        self._file, self._target, self._point = file, target, point

    def write(self, text: str) -> int:
        reach(self._point, lambda: self._write_half(text))
        try:
            return self._file.write(text)
        except OSError as exc:
            raise _unwritten(self._target, exc) from exc

    def _write_half(self, text: str) -> None:
        self._file.write(text[: len(text) // 2])
        self._file.flush()


def _without_defaults(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without the values that are defaults: earlier folders hold every value."""
    declared = Settings.declared()
    defaults = {name: declared[name].default for name in identity if name in declared}
    return {name: value for name, value in identity.items() if value != defaults.get(name)}


def _shown(name: str, identity: Mapping[str, Any]) -> str:
    """Show a value of an identity for a message, which must stay on one line."""
    if name in identity:
        text = json.dumps(identity[name], ensure_ascii=False)
        return text if len(text) <= 60 else text[:57] + "…"  # noqa: PLR2004 - about half a line
    declared = Settings.declared().get(name)
    return "not set" if declared is None or declared.default is None else f"{json.dumps(declared.default)} (default)"


def read_spec(path: str | Path) -> dict[str, Any]:
    """Read the ``spec.json`` of a run folder."""
    file = Path(path).expanduser() / SPEC
    try:
        spec = json.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise RunError(f"this is not a run folder: spec.json cannot be read ({exc.strerror})", where=str(path)) from exc
    except ValueError as exc:
        raise RunError("spec.json is damaged", where=str(path), hint="Delete it and run the command again.") from exc
    if not isinstance(spec, dict) or not isinstance(spec.get("identity"), dict):
        raise RunError("kshot did not write this spec.json", where=str(path))
    parts = {"options": dict, "tasks": dict, "models": list, "fingerprints": dict}
    whole = all(isinstance(spec.get(name, kind()), kind) for name, kind in parts.items())
    if whole:
        _name_roles(spec)
    if not whole or not _is_complete(spec):
        raise RunError("spec.json is damaged", where=str(path), hint="Delete it and run the command again.")
    return spec


def _is_complete(spec: dict[str, Any]) -> bool:
    """Whether the parts of a ``spec.json`` have the types that kshot writes."""
    datasets, fields = spec["identity"].get("datasets", []), ("role", "name", "fingerprint")
    return (
        isinstance(datasets, list)
        and all(isinstance(label, str) for label in datasets)
        and all(isinstance(each, dict) for facts in spec.get("tasks", {}).values() for each in _values(facts))
        and all(
            isinstance(each, dict) and all(isinstance(each.get(name), str) for name in fields)
            for each in spec.get("models", ())
        )
    )


def _values(facts: Any) -> Iterable[Any]:
    return facts.values() if isinstance(facts, dict) else (facts,)


_EARLY_ROLES = {"engine": "search_engine", "judge": "judge", "rewriter": "rewriter", "corpus": "corpus"}


def _name_roles(spec: dict[str, Any]) -> None:
    """Convert the models of a folder of version 0.1 to the present form: it had ``"ROLE NAME": fingerprint``."""
    early = spec.pop("fingerprints", None)
    if early is None:
        return
    models = []
    for label, fingerprint in early.items():
        word, _, rest = label.partition(" ")
        role = _EARLY_ROLES.get(word) if rest else None
        noted = {"role": role or "model", "name": rest if role else label, "fingerprint": fingerprint}
        models.append(noted | _early_marks(noted["role"], noted["name"]))
    spec["models"] = models


def _early_marks(role: str, name: str) -> dict[str, bool]:
    """Return what ``note_model`` would have marked in a folder of version 0.1, by the role and name of a model."""
    kind = name.partition(":")[0]
    if kind in {"openai", "anthropic"}:
        return {"server": True}
    return {"searches": True} if (role, kind) == ("model", "replay") else {}


def _journal_of(run: str | Path) -> Journal:
    path = Path(run).expanduser()
    file = path / JOURNAL if path.is_dir() else path
    if not file.is_file():
        raise RunError("there is no journal to reuse", where=str(path), hint="Name a run folder.")
    return Journal(file, read_only=True)

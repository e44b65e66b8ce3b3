"""``kshot.export``: runs as tables for a paper or a program, and as files that other tools read."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kshot.core.durable import new_binary_version, new_version
from kshot.core.errors import KshotError, RunError, UsageError
from kshot.core.export_formats import FORMATS, PARTS, TEXTS, ExportedPart, Format
from kshot.core.records import ResultRow
from kshot.core.text_files import portable
from kshot.core.visible import one_line
from kshot.report.exports.paper_tables import in_summary_form
from kshot.runs.compared_run import checked_samples
from kshot.runs.record import RunRecord, read_record, read_summary
from kshot.runs.run_state import spare_run_folders, spare_runs
from kshot.runs.sample_filters import with_rules

if TYPE_CHECKING:
    from kshot.report.exports.columns import Rows
    from kshot.report.view import TableView
    from kshot.runs.compared_run import ComparedRun
    from kshot.runs.comparing import Comparison

_PAPER, _FOLDERS = ("markdown", "latex"), ("trec", "inspect", "hf", "lmeval")
_OWN_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "--what": (*TEXTS, "parquet"),
    "--raw": ("csv",),
    "--no-intervals": _PAPER,
    "--caption": _PAPER,
    "--label": ("latex",),
    "--dataset-id": ("hf",),
    "--trust": ("trec",),
}
"""The options that only some formats have."""


def export(
    *runs: str | Path | RunRecord,
    to: Format,
    out: str | Path | None = None,
    what: ExportedPart | None = None,
    raw: bool = False,
    intervals: bool = True,
    caption: str | None = None,
    label: str | None = None,
    dataset_id: str | Sequence[str] = (),
    trust: str | Path | Sequence[str | Path] = (),
) -> str | list[Path]:
    """Write runs in another form, as ``kshot export`` does with the same options.

    Each run is a folder, or what ``evaluate`` or ``load`` returned. Without ``out``, csv, markdown and latex are
    returned as a text; the others get a file or folder here, named after the run. Else the paths are returned.
    What could not be compared is a warning.
    """
    asked = Export(runs, to, what, raw, intervals, caption, label, _several(dataset_id), _several(trust))
    asked.check()
    if out is not None or to not in TEXTS:
        return list(asked.files(out))
    text = io.StringIO(newline="")
    asked.write_text(text)
    return text.getvalue()


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, (str, Path)) else tuple(given)


def _warn(text: str) -> None:
    warnings.warn(one_line(text), stacklevel=2)


@dataclass(frozen=True)
class Export:
    """What is made of some runs; see ``export``. ``tell`` is called with what the user should know."""

    runs: Sequence[str | Path | RunRecord]
    to: Format
    what: ExportedPart | None = None
    raw: bool = False
    intervals: bool = True
    caption: str | None = None
    label: str | None = None
    dataset_id: Sequence[str] = ()
    trust: Sequence[str | Path] = ()
    tell: Callable[[str], None] = _warn

    def check(self) -> None:
        """Refuse what makes no sense, and options that would have no effect."""
        for name, value, known in (("--to", self.to, FORMATS), ("--what", self.what or PARTS[0], PARTS)):
            if value not in known:
                raise UsageError(f"{name} is {value!r:.60}", hint=f"It is one of {', '.join(known)}.")
        if not self.runs:
            raise UsageError("there is no run to export", hint="Name a run folder.")
        self._check_options()
        if self.to in _FOLDERS and len(self.runs) > 1:
            raise UsageError(f"--to {self.to} takes one run", hint="Export each run to a folder of its own.")
        if self.to in _PAPER and self.what == "samples":
            hint = "--to csv or parquet has them; kshot samples shows them."
            raise UsageError(f"samples are too long for a table of {self.to}", hint=hint)

    def _check_options(self) -> None:
        given = {
            "--what": self.what,
            "--raw": self.raw,
            "--no-intervals": not self.intervals,
            "--caption": self.caption,
            "--label": self.label,
            "--dataset-id": self.dataset_id,
            "--trust": self.trust,
        }
        for flag, formats in _OWN_OPTIONS.items():
            if given[flag] and self.to not in formats:
                raise UsageError(f"{flag} is for --to {', '.join(formats)}, not for {self.to}")
        for flag in ("--caption", "--label"):
            if given[flag] == "":
                raise UsageError(f"{flag} is empty", hint="Leave it out.")
        if self.label is not None:
            from kshot.report.exports.latex import is_label

            if not is_label(self.label):
                raise UsageError(f"--label is {self.label!r:.60}", hint="Use letters, digits, and : . _ / - only.")

    def files(self, out: str | Path | None) -> Iterator[Path]:
        """Write files; yield their paths."""
        if out is not None and not str(out):
            raise UsageError("--out is empty", hint="Name a file or a folder, or leave it out.")
        place = Path(out or self._default_name())
        if self.to in _FOLDERS:
            spare_run_folders(place)
        folder = self._folder() if self.to == "trec" else None
        runs = self._opened()
        if folder is not None:
            yield from trec_files(folder, place, self.trust)
        elif self.to == "inspect":
            from kshot.report.exports.inspect_logs import write_logs

            yield from write_logs(place.expanduser(), runs[0].record, runs[0].spec)
        elif self.to == "lmeval":
            from kshot.report.exports.lmeval_results import write_results

            _check_figures(runs)
            yield from write_results(place.expanduser(), runs[0].record, runs[0].spec)
        elif self.to == "hf":
            from kshot.report.exports.hub import write_eval_results

            known = _on_hub(runs[0].spec)
            yield from write_eval_results(
                place.expanduser(), runs[0].record, runs[0].spec, list(self.dataset_id), known
            )
        else:
            spare_runs(place)
            self._write_table(place.expanduser(), runs)
            yield place

    def write_text(self, file: IO[str]) -> None:
        """Write csv, markdown or latex."""
        self._write_text(file, self._opened())

    # ---- the runs ----

    def _opened(self) -> list[ComparedRun]:
        from kshot.runs.compared_run import name_runs, open_run

        runs = [open_run(run) for run in self.runs]
        name_runs(runs)
        for caution in dict.fromkeys(caution for run in runs for caution in run.cautions):
            self.tell(caution)
        return runs

    def _folder(self) -> str | Path:
        run = self.runs[0]
        folder = run.path if isinstance(run, RunRecord) else run
        if folder is None:
            raise UsageError(f"--to {self.to} needs a run folder", hint="Give evaluate an out=DIR.")
        return folder

    def _default_name(self) -> str:
        """Return the file or folder without ``--out``: it is named after the run, and lies here."""
        run = self.runs[0]
        folder = run.path if isinstance(run, RunRecord) else Path(run)
        name = "run" if folder is None else portable(folder.expanduser().absolute().name)
        return f"{name}-{self.to}" if self.to in _FOLDERS else f"{name}-{self.what or PARTS[0]}.{self.to}"

    # ---- tables ----

    def _write_table(self, path: Path, runs: Sequence[ComparedRun]) -> None:
        if self.to != "parquet":
            with new_version(path) as file:
                self._write_text(file, runs)
            return
        from kshot.core.extras import require
        from kshot.report.exports.columns import write_parquet

        require("--to parquet", "pyarrow")
        with new_binary_version(path) as binary:
            write_parquet(binary, self._rows(runs))

    def _write_text(self, file: IO[str], runs: Sequence[ComparedRun]) -> None:
        if self.to == "csv":
            from kshot.report.exports.columns import write_csv

            write_csv(file, self._rows(runs), raw=self.raw)
        elif self.to == "markdown":
            from kshot.report.markdown_table import markdown_of

            file.write(markdown_of(self._tables(runs), self.caption))
        else:
            from kshot.report.exports.latex import label_of, latex_of

            label = self.label or label_of(runs[0].label, self.what or PARTS[0])
            file.write(latex_of(self._tables(runs), label, self.caption))

    def _tables(self, runs: Sequence[ComparedRun]) -> list[TableView]:
        from kshot.report.exports.paper_tables import comparisons_table, figures_tables

        if self.what == "comparisons":
            return [comparisons_table(self._comparisons(runs), intervals=self.intervals)]
        _check_figures(runs)
        records = {run.label: run.record for run in runs}
        tables = list(figures_tables(records, self._known_comparisons(runs), intervals=self.intervals))
        if not tables:  # all its figures are details
            raise _without_figures(runs[0])
        return tables

    def _rows(self, runs: Sequence[ComparedRun]) -> Rows:
        """Return what reads the rows of a part, each with the name of its run."""
        if self.what == "comparisons":
            found = self._comparisons(runs)
            return lambda: found
        _check_figures(runs)

        def read() -> Iterator[ResultRow]:
            for run in runs:
                results = run.record.results
                samples = with_rules(checked_samples(run.record), results)
                for row in samples if self.what == "samples" else results:
                    told = {name: value for name, value in row.items() if name != "run"}
                    yield {"run": run.label, **told, **({"response": None} if told.get("response") == [] else {})}

        return read

    def _comparisons(self, runs: Sequence[ComparedRun]) -> list[ResultRow]:
        """Return the comparisons of every two systems; that there are none is an error."""
        found = self._within(runs[0]) if len(runs) == 1 else self._between(runs)
        if not found:
            hint = "A run of several models has some, and so have several runs."
            raise RunError("there are no comparisons", where=runs[0].label, hint=hint)
        return found

    def _known_comparisons(self, runs: Sequence[ComparedRun]) -> list[ResultRow]:
        """Return the comparisons, if there are any; runs that cannot be compared can still stand side by side."""
        if len(runs) == 1:
            return self._within(runs[0])
        try:
            return self._between(runs)
        except KshotError as exc:
            self.tell(f"the runs are not compared: {exc}")
            return []

    def _within(self, run: ComparedRun) -> list[ResultRow]:
        """Return the comparisons of one run: those of ``summary.json``, and those of its categories."""
        found = run.record.comparisons
        if not found or not any("category" in row for row in run.record.results):
            return found
        try:
            categories = _compared([run]).categories
        except KshotError as exc:
            self.tell(f"categories are not compared: {exc}")
            return found
        return [*found, *(in_summary_form(row) for row in categories)]

    def _between(self, runs: Sequence[ComparedRun]) -> list[ResultRow]:
        """Compare every two systems of the runs."""
        found = _compared(runs)
        rows = [in_summary_form(row) for row in (*found.rows, *found.categories)]
        named = {row[side] for row in rows for side in ("a_run", "b_run")}
        alone = [f"{run.label} has nothing in common with the other runs" for run in runs if run.label not in named]
        for note in (*found.notes, *alone):
            self.tell(note)
        return rows


def _compared(runs: Sequence[ComparedRun]) -> Comparison:
    from kshot.metrics.aggregates import aggregate
    from kshot.runs.comparing import compare_runs

    return compare_runs(runs, aggregate, every_system=True)


def trec_files(run: str | Path, out: str | Path, trust: Sequence[str | Path]) -> Iterator[Path]:
    """Write the rankings of a run as TREC files and its benchmark as a BEIR folder; yield their paths."""
    from kshot.rescoring import export_passages

    if read_summary(Path(run).expanduser()) is not None:  # without figures there is nothing to agree with
        for _ in checked_samples(read_record(run)):
            pass
    try:
        yield from export_passages(run, out, trust=trust)
    except OSError as exc:
        raise RunError(f"the folder cannot be written: {exc.strerror or exc}", where=str(out)) from exc


def _on_hub(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of kshot's own datasets that the run has read from the hub; no code that the folder names runs."""
    from kshot.core.specs import parse_spec
    from kshot.datasets.source import DATASETS

    identity = spec["identity"]
    if identity.get("dataset_path") is not None:
        return {}  # rows of the user, perhaps others than those of the hub
    specs = [parse_spec(label) for label in identity.get("datasets", ())]
    named = {each.name for each in specs if each.file is None}
    own = [entry for entry in DATASETS.entries() if entry.origin == "kshot" and entry.name in named]
    loaded = {entry.name: entry.load().load_args for entry in own}
    return {name: given[0] for name, given in loaded.items() if given}


def _check_figures(runs: Sequence[ComparedRun]) -> None:
    """Refuse a run without figures: it would be missing in a table, and nobody would see that."""
    for run in runs:
        if not run.record.results:
            raise _without_figures(run)


def _without_figures(run: ComparedRun) -> RunError:
    return RunError("the run has no figures", where=run.name)

"""``kshot export``: runs as tables for a paper or a program, and as files that other tools read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kshot.cli.streams import say, show
from kshot.core.errors import KshotError, RunError, UsageError
from kshot.core.file_names import portable
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse

    from kshot.core.records import ResultRow
    from kshot.report.exports.columns import Rows
    from kshot.runs.compared_run import ComparedRun

FORMATS = ("csv", "parquet", "markdown", "latex", "trec", "inspect", "hf")
PARTS = ("results", "samples", "comparisons")

_ROWS, _TEXTS, _FOLDERS = ("csv", "parquet"), ("markdown", "latex"), ("trec", "inspect", "hf")
_OWN_OPTIONS = {"raw": ("csv",), "trust": ("trec",), "dataset_id": ("hf",), "what": (*_ROWS, *_TEXTS)}
"""The options that only some formats have."""


def add(commands: Any) -> None:
    """Declare the command and its arguments."""
    export = commands.add_parser(
        "export",
        help="write runs as tables, or for other tools",
        description="Write the figures or the samples of runs as a table (csv, parquet, markdown, latex), or a run for "
        "other tools: trec (rankings and a BEIR folder), inspect (logs of Inspect), hf (.eval_results of the hub).",
    )
    export.add_argument("run", nargs="+", metavar="RUN", help="run folder; tables take several, side by side")
    export.add_argument("--to", required=True, choices=FORMATS, help="the format to write")
    export.add_argument(
        "--out",
        metavar="PATH",
        help="file (for trec, inspect and hf: folder) to write; what is there is replaced (default: csv, markdown and "
        "latex are printed, the others get a name here after the run)",
    )
    export.add_argument("--what", choices=PARTS, help="what a table shows (default: results)")
    export.add_argument(
        "--raw",
        action="store_true",
        default=None,
        help="csv for programs: texts that look like formulas get no apostrophe, control characters no escapes",
    )
    export.add_argument(
        "--dataset-id",
        action="append",
        metavar="[TASK=]ID[:TASK_ID]",
        help="hf: what the run, or one task of it, is on the hub, such as cais/mmlu:anatomy (repeatable)",
    )
    export.add_argument(
        "--trust",
        action="append",
        metavar="FILE.py",
        help="trec: a file of yours that the run uses and that has changed since: its code may run (repeatable)",
    )


def execute(parsed: argparse.Namespace) -> int:
    """Write what the user wants; print a table, or the path of each file."""
    _check(parsed)
    for path in _written(parsed):
        show(one_line(path))
    return 0


def _check(parsed: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    for name, formats in _OWN_OPTIONS.items():
        if getattr(parsed, name) is not None and parsed.to not in formats:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for --to {', '.join(formats)}, not for {parsed.to}")
    if parsed.to in _FOLDERS and len(parsed.run) > 1:
        raise UsageError(f"--to {parsed.to} takes one run", hint="Export each run to a folder of its own.")
    if parsed.to in _TEXTS and parsed.what == "samples":
        hint = "--to csv or parquet has them; kshot samples shows them."
        raise UsageError(f"samples are too long for a table of {parsed.to}", hint=hint)
    if parsed.out == "":
        raise UsageError("--out is empty", hint="Name a file or a folder, or leave it out.")
    if parsed.raw and parsed.out is None:
        raise UsageError("--raw needs --out", hint="A terminal is shown control characters as escapes.")


def _written(parsed: argparse.Namespace) -> Iterator[Path]:
    """Write the files; yield their paths."""
    if parsed.to == "trec":
        yield from trec_files(parsed.run[0], parsed.out or _default_name(parsed), parsed.trust or ())
        return
    from kshot.runs.compared_run import name_runs, open_run

    runs = [open_run(run) for run in parsed.run]
    name_runs(runs)
    if parsed.to in _FOLDERS:
        yield from _for_tool(parsed, runs[0])
        return
    if parsed.out is not None:
        _spare_runs(Path(parsed.out), runs)
    if parsed.to == "parquet":
        yield _write_parquet(Path(parsed.out or _default_name(parsed)), parsed, runs)
    elif parsed.out is None:
        _write_text(sys.stdout, parsed, runs)
    else:
        from kshot.core.durable import new_version

        with new_version(Path(parsed.out).expanduser()) as file:
            _write_text(file, parsed, runs)
        yield Path(parsed.out)


def trec_files(run: str, out: str, trust: Sequence[str]) -> Iterator[Path]:
    """Write the rankings of a run as TREC files and its benchmark as a BEIR folder; yield their paths."""
    from kshot.rescoring import export_passages

    try:
        yield from export_passages(run, out, trust=trust)
    except OSError as exc:
        raise RunError(f"the folder cannot be written: {exc.strerror or exc}", where=out) from exc


def _for_tool(parsed: argparse.Namespace, run: ComparedRun) -> Iterator[Path]:
    out = Path(parsed.out or _default_name(parsed)).expanduser()
    if parsed.to == "inspect":
        from kshot.report.exports.inspect_logs import write_logs

        return write_logs(out, run.record, run.spec)
    from kshot.report.exports.hub import write_eval_results

    return write_eval_results(out, run.record, run.spec, parsed.dataset_id or (), _on_hub(run.spec))


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


def _default_name(parsed: argparse.Namespace) -> str:
    """Return the file or folder of a command without ``--out``: it is named after the run, and lies here."""
    name = portable(Path(parsed.run[0]).expanduser().absolute().name)
    if parsed.to in _FOLDERS:
        return f"{name}-{parsed.to}"
    return f"{name}-{parsed.what or 'results'}.{parsed.to}"


def _spare_runs(out: Path, runs: Sequence[ComparedRun]) -> None:
    """Refuse to replace a file of a run."""
    from kshot.runs.folder import JOURNAL, SUMMARY
    from kshot.runs.samples_file import SAMPLES
    from kshot.runs.spec_file import SPEC

    target = out.expanduser().absolute()
    folders = [run.record.path.absolute() for run in runs if run.record.path is not None]
    if any(target == folder / name for folder in folders for name in (SPEC, JOURNAL, SAMPLES, SUMMARY)):
        raise UsageError("this is a file of the run", where=str(out), hint="Choose another name.")


# ---- tables ----


def _write_parquet(path: Path, parsed: argparse.Namespace, runs: Sequence[ComparedRun]) -> Path:
    from kshot.core.durable import new_binary_version
    from kshot.core.extras import require
    from kshot.report.exports.parquet import write_parquet

    require("--to parquet", "pyarrow")
    with new_binary_version(path.expanduser()) as file:
        write_parquet(file, _rows(parsed.what, runs))
    return path


def _write_text(file: IO[str], parsed: argparse.Namespace, runs: Sequence[ComparedRun]) -> None:
    if parsed.to == "csv":
        from kshot.report.exports.csv_table import write_csv

        write_csv(file, _rows(parsed.what, runs), raw=bool(parsed.raw))
        return
    from kshot.report.exports.figures import comparisons_table, figures_tables
    from kshot.report.exports.latex import latex_of
    from kshot.report.exports.markdown import markdown_of

    if parsed.what == "comparisons":
        tables = [comparisons_table(_comparisons(runs))]
    else:
        tables = list(figures_tables({run.label: run.record for run in runs}, _known_comparisons(runs)))
    if not tables:
        raise RunError("the run has no figures", where=parsed.run[0])
    file.write(markdown_of(tables) if parsed.to == "markdown" else latex_of(tables, runs[0].label))


def _rows(part: str | None, runs: Sequence[ComparedRun]) -> Rows:
    """Return what reads the rows of a part, each with the name of its run."""
    if part == "comparisons":
        found = _comparisons(runs)
        return lambda: found

    def read() -> Iterator[ResultRow]:
        for run in runs:
            for row in run.record.iter_samples() if part == "samples" else run.record.results:
                told = {name: value for name, value in row.items() if name != "run"}
                yield {"run": run.label, **told, **({"response": None} if told.get("response") == [] else {})}

    return read


def _comparisons(runs: Sequence[ComparedRun]) -> list[ResultRow]:
    """Return the comparisons of the models of one run, or of every two runs; that there are none is an error."""
    found = runs[0].record.comparisons if len(runs) == 1 else _between(runs)
    if not found:
        hint = "A run of several models has some, and so have several runs."
        raise RunError("there are no comparisons", where=runs[0].label, hint=hint)
    return found


def _known_comparisons(runs: Sequence[ComparedRun]) -> list[ResultRow]:
    """Return the comparisons, if there are any; runs that cannot be compared can still stand side by side."""
    if len(runs) == 1:
        return runs[0].record.comparisons
    try:
        return _between(runs)
    except KshotError as exc:
        say(f"the runs are not compared: {exc}")
        return []


def _between(runs: Sequence[ComparedRun]) -> list[ResultRow]:
    """Compare every two runs; return rows in the form of ``summary.json``: the first system is ``a``."""
    from kshot.comparing import compare

    found = compare(*(run.record for run in runs), all_pairs=True)
    for note in found.notes:
        say(note)
    return [_in_summary_form(row) for row in found.rows]


_SIDES = {"a": "run", "b": "baseline", "a_run": "run_run", "b_run": "baseline_run", "a_model": "run_model"}
_SIDES["b_model"] = "baseline_model"
_AHEAD = {"better": "a", "worse": "b"}


def _in_summary_form(row: ResultRow) -> ResultRow:
    sides = {name: row[other] for name, other in _SIDES.items()}
    rest = {name: value for name, value in row.items() if name not in _SIDES.values()}
    return {**sides, **rest, "ahead": sides.get(_AHEAD.get(row["verdict"], ""))}

"""Runs as ``.eval`` logs of Inspect: one file for each task of each model, which its viewer opens."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from kshot.core.durable import new_binary_version
from kshot.core.errors import RunError
from kshot.core.extras import importing
from kshot.core.records import ResultRow
from kshot.core.text_files import FileNames, path_inside
from kshot.report.exports.inspect_header import StandardErrors, figures_of, log_header
from kshot.report.exports.inspect_samples import forms_of, inspect_sample, sample_id
from kshot.runs.compared_run import by_task, checked_by_task
from kshot.runs.record import RunRecord

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


def write_logs(folder: Path, record: RunRecord, spec: Mapping[str, Any]) -> Iterator[Path]:
    """Write the logs of a run to a folder; yield their paths. One sample is in memory at a time."""
    with importing("--to inspect", "inspect-ai"):
        import inspect_ai.log
        import inspect_ai.scorer  # noqa: F401 - the log and its samples are made of both
    _check_samples(record)
    names = FileNames()
    for (task, model), rows in by_task(record.iter_samples()):
        figures = figures_of(record, task, model)
        header = log_header(record, spec, task, model)
        started = header.eval.created.replace(":", "-")
        name = names.of(f"{started}_{task.replace('_', '-')}_{model.replace('_', '-')}_{header.eval.task_id}")
        path = path_inside(folder, f"{name}.eval")
        with new_binary_version(path) as file:
            _write_log(file, header, rows, figures)
        yield path


def _check_samples(record: RunRecord) -> None:
    """Refuse samples that cannot be logs, before the first one is written."""
    for _, rows in checked_by_task(record):
        seen: set[int] = set()
        for row in rows:
            _refuse_twice(row, seen, record)


def _write_log(file: IO[bytes], header: EvalLog, rows: Iterator[ResultRow], figures: Sequence[ResultRow]) -> None:
    """Write a file of the log for each sample, the summaries of all, and the header."""
    forms = forms_of(figures)
    ranking_type = next((str(row["ranking_type"]) for row in figures if row.get("ranking_type")), "")
    errors = StandardErrors(figures)
    began = datetime.fromisoformat(header.eval.created)
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, tempfile.TemporaryFile() as summaries:
        for at, row in enumerate(rows):
            if not row.get("failed") and isinstance(row.get("scores"), dict):
                errors.add(row["scores"])
            sample = inspect_sample(row, forms, ranking_type, began)
            _add(archive, f"samples/{sample.id}_epoch_1.json", sample.model_dump_json(exclude_none=True))
            summaries.write((b"," if at else b"[") + _encoded(sample.summary()))
        summaries.write(b"]")
        summaries.seek(0)
        with archive.open(_entry("summaries.json"), "w", force_zip64=True) as member:
            shutil.copyfileobj(summaries, member)
        errors.write_to(header)
        _add(archive, "header.json", header.model_dump_json(exclude_none=True))


def _encoded(summary: Any) -> bytes:
    text: str = summary.model_dump_json(exclude_none=True)
    return text.encode()


def _add(archive: ZipFile, name: str, text: str) -> None:
    archive.writestr(_entry(name), text)


def _entry(name: str) -> ZipInfo:
    """Return a file of the log without a time, so that the same run gives the same bytes."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    return entry


def _refuse_twice(row: ResultRow, seen: set[int], record: RunRecord) -> None:
    name = sample_id(row.get("id"))
    mark = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    if mark in seen:
        raise RunError(f"two samples of a task have the id {name!r}", where=str(record.path))
    seen.add(mark)

"""Reading ``samples.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kshot.core.errors import RunError
from kshot.core.file_names import path_inside
from kshot.core.json_text import parse_json
from kshot.core.records import ResultRow
from kshot.core.text_files import lines_of, regular_file

SAMPLES = "samples.jsonl"


def read_samples(folder: Path) -> list[ResultRow]:
    """Return the rows of a run folder."""
    return list(sample_rows(folder))


def sample_rows(folder: Path) -> Iterator[ResultRow]:
    """Yield the rows of a run folder, as they are read."""
    path = path_inside(folder, SAMPLES)
    try:
        with open(path, "rb", opener=regular_file) as lines:
            for number, line in enumerate(lines_of(lines, path), start=1):
                yield _row(line, f"{path}:{number}")
    except OSError as exc:
        raise RunError(f"it cannot be read: {exc.strerror or exc}", where=str(path)) from exc


def _row(line: bytes, where: str) -> ResultRow:
    try:
        row = parse_json(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        row = None
    if not isinstance(row, dict):
        hint = "kshot score writes the file again from the journal."
        raise RunError("this line is damaged", where=where, hint=hint)
    return row

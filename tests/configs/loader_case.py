"""A small data folder in the layout of AISBench or OpenCompass, for one loader."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Content = str | bytes | Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """A loader, its files below the working folder, and the options of a config's entry."""

    loader: str
    files: Mapping[str, Content]
    options: Mapping[str, Any]
    framework: str = "opencompass"
    splits: tuple[str, str] = ("train", "test")
    columns: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The case, among all cases."""
        more = "-".join(str(value) for key, value in self.options.items() if key not in ("path", "data_files"))
        return "-".join(part for part in (self.framework, self.loader, more.replace("/", "")) if part)

    def write(self, folder: Path) -> None:
        """Write its files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def parquet(*rows: dict[str, Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.Table.from_pylist(list(rows)), path)

    return write


def zipped(member: str, text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, text)

    return write

"""The settings of data: where it is, and which rows are used."""

from __future__ import annotations

from dataclasses import dataclass

from kshot.core.options import Options, option


@dataclass(frozen=True, kw_only=True)
class TableSettings(Options):
    """Where the rows of a dataset are, and which splits are used."""

    dataset_path: str | None = option(
        None, "local file, local folder, or pattern with {subset} and {split}", metavar="PATH"
    )
    evaluation_set: str | None = option(None, "split to evaluate instead of the dataset's own; slices are allowed")
    example_set: str | None = option(None, "split to take examples from instead of the dataset's own")


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(Options):
    """Whether code that kshot runs confined may use the network."""

    allow_download: bool = option(
        default=False,
        text="let the code of a config's home, or of a task file, use the network, to download data",
        kind=bool,
    )


@dataclass(frozen=True, kw_only=True)
class DataSettings(Options):
    """Files and folders that a front end reads in its own way."""

    data: tuple[str, ...] | None = option(
        None,
        "where the data is: FILE for lookup, FOLDER_OR_URL for passages, KEY=FILE_OR_FOLDER for a config or task "
        "file (repeatable)",
        repeat=True,
        metavar="[KEY=]FILE",
    )

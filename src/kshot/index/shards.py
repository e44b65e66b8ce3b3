"""Building an index in shards: which passages go together, and the finished parts, kept in files until all are."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kshot.core.corpus import Corpus
from kshot.core.protocols import Executor, InlineExecutor, ProgressCallback, ShardedIndex, Work
from kshot.core.work_folders import DIGEST_BYTES, file_digest
from kshot.index.ranking import Array

Part: TypeAlias = Mapping[str, Array]
"""What the work makes of a shard: arrays by name."""

_FORMAT = "part2"
"""Begins the name of every file: parts of another format are not read."""


@dataclass(frozen=True, slots=True)
class TextShards:
    """An index of a corpus, built from the texts of its passages alone."""

    label: str
    work: Work
    corpus: Corpus
    shards: Sequence[range]
    joined: Callable[[Path, Iterable[Part]], None]

    def item(self, shard: range, /) -> list[str]:
        """Return the texts of these passages."""
        return [passage.text for passage in self.corpus.passages[shard.start : shard.stop]]

    def join(self, folder: Path, parts: Iterable[Part], /) -> None:
        """Write the index."""
        self.joined(folder, parts)


def shard_ranges(corpus: Corpus, passages: int, characters: int) -> list[range]:
    """Divide a corpus into shards of at most so many passages and characters; a longer passage is alone in its shard.

    There is at least one shard, though the corpus be empty.
    """
    found: list[range] = []
    first = size = 0
    for position, passage in enumerate(corpus.passages):
        if position > first and (position - first == passages or size + len(passage.text) > characters):
            found.append(range(first, position))
            first, size = position, 0
        size += len(passage.text)
    return [*found, range(first, len(corpus))]


def finished_parts(
    index: ShardedIndex, folder: Path, executor: Executor, progress: ProgressCallback
) -> Iterable[Mapping[str, Any]]:
    """Do the shards whose parts are not in the folder yet, and return the parts of all, in order."""
    shards = index.shards
    if len(shards) == 1:  # nothing that an interrupted build could keep
        progress(index.label, 0, 1)
        found = [index.work.open()(index.item(shards[0]))]
        progress(index.label, 1, 1)
        return found
    paths = [folder / f"{_FORMAT}-{shard.start}-{shard.stop}.npz" for shard in shards]
    missing = [number for number, path in enumerate(paths) if not _is_whole(path)]
    done = len(paths) - len(missing)
    progress(index.label, done, len(paths))
    if missing:
        chosen = executor if len(missing) > 1 else InlineExecutor()
        with closing(chosen.map(index.work, missing, lambda number: index.item(shards[number]))) as parts:
            for number, part in parts:
                _write(paths[number], part)
                done += 1
                progress(index.label, done, len(paths))
    return _Parts(paths)


class _Parts:
    """The parts in these files, opened one by one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[Part]:
        for path in self._paths:
            with path.open("rb") as file:
                file.seek(DIGEST_BYTES)
                with np.load(file) as part:  # it reads an array when it is asked for
                    yield part


def _write(path: Path, part: Part) -> None:
    """Write a file of arrays, with the digest of all that follows at its beginning."""
    draft = path.with_suffix(".draft")
    with draft.open("wb+") as file:
        file.seek(DIGEST_BYTES)
        with zipfile.ZipFile(file, "w") as arrays:
            for name, values in part.items():
                with arrays.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)
        file.seek(DIGEST_BYTES)
        digest = file_digest(file)
        file.seek(0)
        file.write(digest)
    draft.replace(path)


def _is_whole(path: Path) -> bool:
    """Whether a part is there as it was written."""
    try:
        with path.open("rb") as file:
            return file.read(DIGEST_BYTES) == file_digest(file)
    except OSError:
        return False

"""Rows of one's own, ``CustomDataset`` and ``CodeCustomDataset``, AISBench's rows with images, sounds and videos."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from kshot.configs.loaders.reading import DataPlace, Loader, MissingFileError, changed, without
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.templates import MMPromptTemplate

# ---- rows of one's own ----


def _custom(place: DataPlace, *, repeated: bool) -> Splits:
    """Read JSON lines, or CSV whose first line is the header."""
    if place.root.is_file():
        path = place.file()
    elif place.options.get("file_name") is None:
        raise MissingFileError("it is a folder, and the config names no file_name", where=str(place.root))
    else:
        path = place.file(place.text("file_name"))
    rows = _rows(place, path)
    if place.framework == "ais_bench":
        rows = [_with_length(row) for row in rows]
    return place.repeated(rows) if repeated else rows


def _rows(place: DataPlace, path: Path) -> list[Row]:
    if path.suffix == ".jsonl":
        return place.json_lines(path)
    if path.suffix != ".csv":
        raise MissingFileError("it is neither a .jsonl nor a .csv file", where=str(path))
    rows = place.table(path)
    if rows is None:
        raise DataError("it has no header", where=str(path))
    return rows


def _with_length(row: Row) -> Row:
    """Rename a row's own limit on the length of its reply, as AISBench does."""
    if "max_tokens" not in row:
        return row
    rest = without(row, "max_tokens")
    return rest if row["max_tokens"] is None else {**rest, "max_out_len": row["max_tokens"]}


# ---- images, sounds and videos of AISBench ----
# Where AISBench puts the base64 of a file into a row, the row here says file://PATH: the file is read when the prompt
# is made, where a row may name it, and its bytes are sent. What is sent is the same.

_START = {kind: start for start, kind in MMPromptTemplate.starts.items()}
_AS_BYTES = "file://"


def content_text(parts: Iterable[tuple[str, str]]) -> str:
    """Return parts as one text with AISBench's tags: pairs of a kind and a text, a path, an address or base64."""
    return "".join(f"{_START[kind]}{said}{MMPromptTemplate.cut}" for kind, said in parts)


def _own_media(place: DataPlace) -> Splits:
    """Read rows of one's own: ``type``, ``path`` (a list of files) and ``question``."""
    encoded = place.text("mm_type") == "base64"

    def change(row: Row) -> Row:
        kind, paths = row["type"], row["path"]
        if kind not in _START or kind == "text":
            raise ValueError(f"its type is {kind!r:.40}, not image, video or audio")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise ValueError(f"its path is {paths!r:.60}, not a list of paths")
        if encoded and kind == "video":
            raise ValueError("mm_type='base64' sends pictures of a video, which kshot does not take out: use 'path'")
        media = content_text((kind, _AS_BYTES * encoded + path) for path in paths)
        return {**row, "content": f"{media}{_START['text']}{row['question']}"}

    return place.json_lines(place.only_file(), change)


def _textvqa(place: DataPlace) -> Splits:
    """Read questions, and their answers from the file of annotations beside them."""
    path = place.only_file()
    listed = place.json(_beside(place, path, f"{path.name.split('.')[0]}_annotations.json"))
    notes = listed.get("annotations") if isinstance(listed, dict) else None
    if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
        raise DataError("the file of annotations must hold a list 'annotations'", where=str(path.parent))
    answers = {note.get("question_id"): note.get("answers") for note in notes}
    encoded = place.text("image_type") == "image_base64"

    def change(row: Row) -> Row:
        if row["question_id"] not in answers:
            raise ValueError(f"the annotations have no answers to the question {row['question_id']!r}")
        url = _AS_BYTES * encoded + str(row["image"])
        content = content_text([("image", url), ("text", str(row["question"]))])
        return {**row, "answer": answers[row["question_id"]], "image_url": url, "content": content}

    return place.json_lines(path, change)


def _beside(place: DataPlace, path: Path, name: str) -> Path:
    file = path.with_name(name)
    if not file.is_file():
        raise DataError("there is no such file; it has the answers to the questions", where=str(file))
    place.check(file)
    return file


def _hle_row(row: Row) -> Row:
    image = row.get("image")
    shown = [("image", image)] if image and isinstance(image, str) else []
    parts = [("text", str(row.get("question", ""))), *shown]
    return {"content": content_text(parts), "answer": row.get("answer", "")}


HLE = Loader(lambda place: changed(place.hub_split("test"), _hle_row, str(place.root)))
"""AISBench's class of that name gives other rows than OpenCompass's: it shows the images."""


LOADERS = {
    "CustomDataset": Loader(partial(_custom, repeated=False)),
    "CodeCustomDataset": Loader(partial(_custom, repeated=True)),
    "MMCustomDataset": Loader(_own_media),
    "TEXTVQADataset": Loader(_textvqa),
}

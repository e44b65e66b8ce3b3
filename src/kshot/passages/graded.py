"""Benchmarks with graded passages: BEIR folders, also written for other tools, and TREC topics, qrels, collections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.corpus import Passage, trec_word
from kshot.core.durable import new_version
from kshot.core.errors import DataError, RunError, UsageError
from kshot.core.records import Evidence, Graded, Sample
from kshot.core.task import Task
from kshot.core.text_files import lines_of, parse_json, path_inside, regular_file
from kshot.metrics.ranking import EvidenceFinder
from kshot.passages.benchmark import Benchmark
from kshot.passages.fetching import fetch_notes, local_path

Judgements: TypeAlias = dict[str, dict[str, int]]
"""Topic → document → grade."""

_TOPIC = re.compile(r"<top>(.*?)(?:</top>|(?=<top>)|\Z)", re.DOTALL | re.IGNORECASE)
# No pattern searches for the end of a tag from each of its beginnings: a file of beginnings would take for ever.
_NUM = re.compile(r"<num>\s*(?:Number:\s*)?([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_DOC = re.compile(r"<(/?)DOC>", re.IGNORECASE)
_DOCNO = re.compile(r"<DOCNO>([^<]*(?:<(?!/?DOCNO>)[^<]*)*)</DOCNO>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MAX_GRADE = 1000
"""No collection grades higher, and trec_eval expects small numbers."""

_DETECT_CHARACTERS = 100_000
"""How much of a collection is searched for a ``<DOC>`` tag."""


def beir(data: Sequence[str] | None, split: str | None = None) -> Benchmark:
    """Read a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""
    if not data or len(data) != 1:
        raise UsageError("beir needs one folder", hint="--data FOLDER with corpus.jsonl, queries.jsonl and qrels/.")
    folder = local_path(data[0])
    qrels = folder / "qrels"
    if not folder.is_dir() or not qrels.is_dir():
        raise DataError(
            "this is not a BEIR folder", where=str(folder), hint="It needs corpus.jsonl, queries.jsonl, qrels/."
        )
    splits = sorted(file.stem for file in qrels.glob("*.tsv"))
    split = split or ("test" if "test" in splits or not splits else splits[0])
    if split not in splits:
        raise DataError(f"it has no split {split!r}", where=str(qrels), hint=f"It has: {', '.join(splits) or 'none'}.")
    grades = read_qrels(qrels / f"{split}.tsv")
    queries, passages = _texts(folder / "queries.jsonl"), _collection(folder / "corpus.jsonl")
    return _graded(f"beir/{folder.name}", queries, grades, passages, fetch_notes(data))


def trec(data: Sequence[str] | None) -> Benchmark:
    """Read ``topics=FILE``, ``qrels=FILE`` and ``corpus=FILE``."""
    given = dict(entry.partition("=")[::2] for entry in data or ())
    if set(given) != {"topics", "qrels", "corpus"} or len(set(data or ())) > len(given):
        raise UsageError("trec needs three files", hint="--data topics=FILE --data qrels=FILE --data corpus=FILE.")
    paths = {key: local_path(value) for key, value in given.items()}
    topics, grades = _topics(paths["topics"]), read_qrels(paths["qrels"])
    return _graded("trec", topics, grades, _collection(paths["corpus"]), fetch_notes(data))


def read_qrels(path: str | Path) -> Judgements:
    """Read judgements: TREC's four columns (topic, iteration, document, grade), or BEIR's three with a header."""
    grades: Judgements = {}
    for number, line in enumerate(_lines(Path(path)), start=1):
        parts = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or (number == 1 and parts[0] in {"query-id", "query_id"}):
            continue
        if len(parts) not in {3, 4} or not re.fullmatch(r"-?[0-9]{1,9}", parts[-1].strip()):
            raise DataError(
                "this line is not a judgement",
                where=f"{path}:{number}",
                hint="topic 0 document grade, or query-id corpus-id score.",
            )
        topic, document, grade = parts[0].strip(), parts[-2].strip(), int(parts[-1])
        if grade > _MAX_GRADE:
            raise DataError(f"the grade {grade} is above {_MAX_GRADE}", where=f"{path}:{number}")
        if grades.setdefault(topic, {}).setdefault(document, grade) != grade:
            raise DataError(f"{document} is judged twice for {topic}, and differently", where=f"{path}:{number}")
    if not grades:
        raise DataError("it holds no judgements", where=str(path))
    return grades


def write_qrels(path: str | Path, grades: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements in TREC's four columns."""
    check_qrels(grades)
    lines = (
        f"{topic} 0 {document} {grade}\n" for topic, judged in grades.items() for document, grade in judged.items()
    )
    with new_version(Path(path), errors="surrogatepass") as file:
        file.writelines(lines)


def check_qrels(grades: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse ids that the columns of such a file cannot hold."""
    for topic, judged in grades.items():
        trec_word(topic, "topic")
        for document in judged:
            trec_word(document, "passage")


def _graded(
    name: str, queries: Mapping[str, str], grades: Judgements, passages: list[Passage], notes: list[str]
) -> Benchmark:
    """Join queries and judgements: judged queries are evaluated; a judged query without a text is an error."""
    if (unknown := next((topic for topic in grades if topic not in queries), None)) is not None:
        raise DataError(
            f"query {unknown} is judged, and has no text", where=name, hint="Add its text, or drop its judgements."
        )
    if (empty := next((topic for topic in grades if not queries[topic].strip()), None)) is not None:
        raise DataError(f"the text of query {empty} is empty", where=name)
    known = {passage.id for passage in passages}
    absent = sum(
        grade > 0 and document not in known for judged in grades.values() for document, grade in judged.items()
    )
    if absent:
        what = "relevant documents of the judgements are not in the corpus: they cannot be found, and count"
        notes.append(f"{absent} {what}")
    without = sum(not any(grade > 0 for grade in judged.values()) for judged in grades.values())
    if without:
        notes.append(f"{without} queries have no relevant document: they count as 0")
    if unjudged := len(queries.keys() - grades.keys()):
        notes.append(f"{unjudged} queries have no judgements: left out")
    samples = [
        Sample(topic, {"question": queries[topic]}, Graded(judged), position=position)
        for position, (topic, judged) in enumerate(grades.items())
    ]
    facts = {"queries": len(samples), "judgements": sum(map(len, grades.values()))}
    return Benchmark(name, samples, passages=passages, notes=tuple(notes), facts=facts, topics=tuple(grades))


# ---- reading queries and collections ----


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig", newline=None, opener=regular_file) as lines:
            for line in lines_of(lines, path):
                yield line.rstrip("\n")
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start} of a block)", where=str(path)) from exc


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as exc:
            raise DataError("this line is not JSON", where=f"{path}:{number}") from exc
        if not isinstance(row, dict):
            raise DataError("this line is not an object", where=f"{path}:{number}")
        yield number, row


def _identified(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the id, title and text of every line of a JSONL or TSV file."""
    if path.suffix.lower() in {".tsv", ".txt"}:
        for number, line in enumerate(_lines(path), start=1):
            identifier, tab, text = line.partition("\t")
            if not line.strip():
                continue
            if not tab or not identifier.strip():
                raise DataError("this line is not an id, a tab and a text", where=f"{path}:{number}")
            yield identifier.strip(), "", text
        return
    for number, row in _objects(path):
        row_id = next((row[key] for key in ("_id", "id", "docno", "qid") if key in row), None)
        body = next((row[key] for key in ("text", "contents", "query", "title") if key in row), None)
        if not isinstance(row_id, (str, int)) or isinstance(row_id, bool) or not isinstance(body, str):
            raise DataError("this line has no _id and text", where=f"{path}:{number}")
        title = row.get("title")
        yield str(row_id), title if isinstance(title, str) and "text" in row else "", body


def _texts(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for identifier, _, text in _identified(path):
        if identifier in found:
            raise DataError(f"the id {identifier} is there twice", where=str(path))
        found[identifier] = text
    return found


def _topics(path: Path) -> dict[str, str]:
    """Read topics in TREC's format, or one for each line: JSONL or TSV."""
    text = "\n".join(_lines(path)) if path.suffix.lower() not in {".jsonl", ".tsv"} else ""
    if "<top>" not in text.lower():
        return _texts(path)
    found = {}
    for block in _TOPIC.findall(text):
        number, title = _NUM.search(block), _TITLE.search(block)
        if number is None or title is None:
            raise DataError("a topic has no <num> or no <title>", where=str(path))
        if number.group(1) in found:
            raise DataError(f"topic {number.group(1)} is there twice", where=str(path))
        found[number.group(1)] = " ".join(title.group(1).split())
    return found


def _collection(path: Path) -> list[Passage]:
    """Read a collection: JSONL, TSV, or TREC documents between <DOC> tags; a title precedes the text, as in BEIR."""
    if path.suffix.lower() not in {".jsonl", ".json", ".tsv"}:
        text = "\n".join(_lines(path))
        if "<doc>" in text[:_DETECT_CHARACTERS].lower():
            return [_document(block, path) for block in _blocks(text, path)]
    return [
        Passage(identifier, f"{title} {text}".strip() if title else text)
        for identifier, title, text in _identified(path)
    ]


def _blocks(text: str, path: Path) -> Iterator[str]:
    """Yield what stands between each ``<DOC>`` and its ``</DOC>``."""
    start: int | None = None
    for tag in _DOC.finditer(text):
        if not tag[1]:
            if start is not None:
                break
            start = tag.end()
        elif start is not None:
            yield text[start : tag.start()]
            start = None
    if start is not None:
        raise DataError("a <DOC> is not closed by </DOC>", where=str(path))


def _document(block: str, path: Path) -> Passage:
    number = _DOCNO.search(block)
    if number is None or not number.group(1).strip():
        raise DataError("a document has no <DOCNO>", where=str(path))
    return Passage(number.group(1).strip(), " ".join(_TAG.sub(" ", _DOCNO.sub(" ", block)).split()))


def export_benchmark(task: Task[Any], folder: Path) -> Iterator[Path]:
    """Write ``corpus.jsonl``, ``queries.jsonl``, ``qrels/test.tsv`` and ``qrels.trec``; yield their paths.

    Evidence becomes grades: a passage's grade is the number of components that it contains.
    """
    corpus = task.corpus
    if corpus is None:
        raise RunError(f"{task.name} is not a passage benchmark", hint="Only searches have rankings to export.")
    samples = list(task.samples)
    finder = EvidenceFinder(corpus)
    grades = {}
    for sample in samples:
        searched = corpus.searched(task.template(sample, ()).where)
        grades[sample.id] = _grades(sample, finder, [passage.id for passage in searched])
    check_qrels(grades)
    paths = {name: path_inside(folder, name) for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")}
    passages = ({"_id": passage.id, "title": "", "text": passage.text, **passage.fields} for passage in corpus)
    yield _write_lines(paths["corpus.jsonl"], passages)
    queries = ({"_id": each.id, "text": each.fields.get("query", each.fields["question"])} for each in samples)
    yield _write_lines(paths["queries.jsonl"], queries)
    table = paths["qrels/test.tsv"]
    rows = [f"{topic}\t{passage}\t{grade}\n" for topic, judged in grades.items() for passage, grade in judged.items()]
    with new_version(table, errors="surrogatepass") as file:
        file.writelines(["query-id\tcorpus-id\tscore\n", *rows])
    yield table
    write_qrels(folder / "qrels.trec", grades)
    yield folder / "qrels.trec"


def _grades(sample: Sample, finder: EvidenceFinder, passages: Iterable[str]) -> dict[str, int]:
    match sample.target:
        case Graded(grades):
            return dict(grades)
        case Evidence(parts):
            matches = finder.matches(parts)
            return {passage: count for passage in passages if (count := matches[passage].bit_count())}
        case _:
            return {}


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    with new_version(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path

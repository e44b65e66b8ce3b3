"""kshot's search engines beside bm25s, tantivy and numpy used directly, on the same passages and queries.

    python benchmarks/search.py [--full] [--passages N] [--vectors N] [--queries N]

Passages of 60 words by Zipf's law (default 200,000; --full: 1,000,000), 384-dimensional vectors (1,000,000), 10 hits a
query. Each line is measured in a process of its own, so that its memory is its own. kshot's lines include everything:
from the corpus to the index file, and from Search requests to rankings. A ratio above 1 means that kshot takes more; on
a busy machine compare CPU times. Every process must stay within 8 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS, VOCABULARY, WIDTH, K = 60, 30_000, 384, 10
MAX_BYTES = 8 * 2**30
COLUMNS = ("index s", "CPU s", "queries/s", "CPU s", "data MiB", "peak MiB", "disk MiB")
RATIOS = ("index", "index_cpu", "search", "search_cpu", "peak")


def zipf(rng, shape):
    """Draw word numbers by Zipf's law."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    return rng.choice(VOCABULARY, shape, p=weights / weights.sum())


def texts(many: int):
    """Yield passages, made block by block."""
    rng = np.random.default_rng(0)
    names = [f"w{number}" for number in range(VOCABULARY)]
    for first in range(0, many, 50_000):
        for row in zipf(rng, (min(50_000, many - first), WORDS)).tolist():
            yield " ".join([names[word] for word in row])


def queries(many: int):
    """Make queries of six words: in half of them as frequent as in the passages, in half of them rare."""
    rng = np.random.default_rng(1)
    frequent = zipf(rng, (many // 2, 6)).tolist()
    rare = rng.integers(VOCABULARY // 6, VOCABULARY, (many - many // 2, 6)).tolist()
    return [" ".join(f"w{word}" for word in row) for row in frequent + rare]


class Queue:
    """Hands over all requests at once, as the engine does."""

    def __init__(self, requests):
        self.requests = requests

    def take(self, at_most=None):  # noqa: ARG002 - the protocol has this argument
        """Return all requests, once."""
        taken, self.requests = self.requests, []
        return taken


# ---- each function is one measurement: it yields after loading, after indexing, and the hits after searching ----


def corpus_of(many):
    """Make kshot's corpus."""
    from kshot.core.corpus import Corpus, Passage

    return Corpus(Passage(str(number), text) for number, text in enumerate(texts(many)))


def kshot_search_engine(spec):
    """Measure one of kshot's search engines."""

    def measure(many, questions, folder):
        from kshot.backends.search.specs import make_search_engine
        from kshot.core.records import Search
        from kshot.index.store import Store

        corpus, search_engine = corpus_of(many), make_search_engine(spec)
        yield
        backend = search_engine.over(corpus, Store(folder))
        search_engine.open(corpus, Store(folder))  # the backend would do this with the first query
        yield
        yield sum(len(response.hits) for _, response in backend.serve(Queue([Search(q, K) for q in questions])))

    return measure


def bm25s_direct(many, questions, folder):
    """Measure bm25s with the same words; its index is saved and mapped."""
    import bm25s

    from kshot.index.words import Words

    words = Words()
    passages = list(enumerate(texts(many)))
    yield
    tokens = [words(text) for _, text in passages]
    made = bm25s.BM25()
    made.index(tokens, show_progress=False)
    made.save(folder, show_progress=False)
    del tokens
    index = bm25s.BM25.load(folder, mmap=True)
    yield
    found, scores = index.retrieve([words(q) for q in questions], k=K, show_progress=False)
    rows = [
        [(passages[at][0], float(score)) for at, score in zip(*row, strict=True) if score > 0]
        for row in zip(found.tolist(), scores.tolist(), strict=True)
    ]
    yield sum(map(len, rows))


def tantivy_direct(many, questions, folder):
    """Measure tantivy with its own tokenizer and query parser, which give the same words here."""
    import os

    import tantivy

    passages = list(enumerate(texts(many)))
    yield
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", index_option="freq")
    schema.add_unsigned_field("number", fast=True, indexed=True)
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(128_000_000, min(os.cpu_count() or 1, 4))
    for number, text in passages:
        document = tantivy.Document()
        document.add_text("text", text)
        document.add_unsigned("number", number)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    yield
    searcher, rows = index.searcher(), []
    for query in questions:
        hits = searcher.search(index.parse_query(query, ["text"]), K, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        rows.append([(number, score) for number, (score, _) in zip(numbers, hits, strict=True)])
    yield sum(map(len, rows))


def vector_file(many, folder):
    """Write a file of random unit vectors, block by block."""
    path = folder / "vectors.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(many, WIDTH))
    rng = np.random.default_rng(3)
    for first in range(0, many, 50_000):
        block = rng.standard_normal((min(50_000, many - first), WIDTH), dtype=np.float32)
        out[first : first + 50_000] = block / np.linalg.norm(block, axis=1, keepdims=True)
    out.flush()
    return path


def query_vectors(many):
    """Draw random unit vectors to search for."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((many, WIDTH), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def kshot_vectors(many, questions, folder):
    """Measure the vector search of kshot's search engines."""
    from kshot.index.vectors import Vectors

    path = vector_file(many, folder)
    yield
    index = Vectors(path)
    yield
    yield sum(len(found.positions) for found in index.search(query_vectors(len(questions)), K))


def numpy_direct(many, questions, folder):
    """Measure a matrix product and a partition."""
    path = vector_file(many, folder)
    yield
    vectors = np.load(path, mmap_mode="r")
    yield
    rows, hits = query_vectors(len(questions)), 0
    for first in range(0, len(rows), 64):  # 64 × 1,000,000 products are 256 MB
        products = rows[first : first + 64] @ vectors.T
        top = np.argpartition(products, many - K, axis=1)[:, many - K :]
        scores = np.take_along_axis(products, top, axis=1)
        order = np.argsort(-scores, axis=1)
        top, scores = np.take_along_axis(top, order, axis=1), np.take_along_axis(scores, order, axis=1)
        hits += sum(map(len, top.tolist()))
    yield hits


LINES = {
    "kshot bm25": kshot_search_engine("bm25"),
    "bm25s": bm25s_direct,
    "kshot bm25:disk": kshot_search_engine("bm25:disk"),
    "tantivy": tantivy_direct,
    "kshot vectors": kshot_vectors,
    "numpy": numpy_direct,
}
PAIRS = (("kshot bm25", "bm25s"), ("kshot bm25:disk", "tantivy"), ("kshot vectors", "numpy"))


def one(name: str, many: int, question_count: int) -> dict[str, float]:
    """Measure one line of the table in this process."""
    with tempfile.TemporaryDirectory() as folder:
        steps = LINES[name](many, queries(question_count), Path(folder))
        next(steps)
        loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.perf_counter(), time.process_time()
        next(steps)
        indexed = time.perf_counter(), time.process_time()
        hits = next(steps)
        done = time.perf_counter(), time.process_time()
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 2**20
    return {
        "index": indexed[0] - began[0],
        "index_cpu": indexed[1] - began[1],
        "search": done[0] - indexed[0],
        "search_cpu": done[1] - indexed[1],
        "loaded": loaded,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk": size,
        "hits": hits,
    }


def main() -> None:
    """Run every line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1,000,000 passages")
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--only", help="a part of the names of the lines to run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.passages, given.queries)))
        return
    passages = 1_000_000 if given.full else given.passages
    print(
        f"{passages:,} passages × {WORDS} words, {given.vectors:,} vectors × {WIDTH}; {given.queries} queries, {K} hits"
    )
    print(f"{'':<16}" + "".join(f"{title:>11}" for title in COLUMNS))
    measured = {}
    for name in LINES:
        if given.only and given.only not in name:
            continue
        many = given.vectors if name in PAIRS[-1] else passages
        command = [sys.executable, __file__, "--one", name, "--passages", str(many), "--queries", str(given.queries)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        m = measured[name] = json.loads(done.stdout)
        cells = [
            m["index"],
            m["index_cpu"],
            given.queries / m["search"],
            m["search_cpu"],
            m["loaded"],
            m["peak"],
            m["disk"],
        ]
        print(f"{name:<16}" + "".join(f"{cell:>11.1f}" for cell in cells), flush=True)
        assert m["peak"] * 2**20 < MAX_BYTES, f"{name} needs more than 8 GiB"
    for ours, theirs in PAIRS:
        if ours in measured and theirs in measured:
            a, b = measured[ours], measured[theirs]
            assert a["hits"] == b["hits"], f"{ours} found {a['hits']}, {theirs} {b['hits']}"
            ratios = [f"{what} {a[what] / max(b[what], 1e-9):.2f}" for what in RATIOS]
            print(f"{ours} / {theirs}: {', '.join(ratios)}")


if __name__ == "__main__":
    main()

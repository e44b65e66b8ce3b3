"""TREC runs, qrels, topics and collections, and BEIR folders: read or refused; checked against pytrec-eval."""

import math

from hypothesis import strategies as st

from kshot.backends.search.recorded import RecordedSearchEngine, is_recorded_run, write_trec
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import DataError
from kshot.core.extras import PACKAGES, is_installed
from kshot.core.records import Hit, Ranking, Search
from kshot.metrics.ranking import Relevance
from kshot.passages.graded import beir, read_qrels, trec, write_qrels
from tests.fuzz.harness import FUZZING, Told, any_text, folder, fuzz, grafted, json_bytes, mutated, plain_text, told

REPEATS = 200_000 if FUZZING else 3_000
words = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=6)
scores = st.floats(allow_nan=False, allow_infinity=False)
RUN = b"q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1e-3 tag\nq2 Q0 d1 1 -1 tag\n"
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 -1\n"
BEIR_QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n"
TOPICS = b"<top>\n<num> Number: q1\n<title> Topic: first one\n<desc> more\n</top>\n<top><num>q2<title>second</top>\n"
DOCS = b"<DOC>\n<DOCNO> d1 </DOCNO>\n<TEXT>one two</TEXT>\n</DOC>\n<DOC><DOCNO>d2</DOCNO>three</DOC>\n"
LISTS = b'{"bm25": {"runs": [[0, 1], [1]]}, "dense": {"runs": [[1], [0]]}}'
PASSAGES = [Passage("d1", "one two"), Passage("d2", "three")]
TAGS = [
    b"<DOC>",
    b"</DOC>",
    b"<DOCNO>",
    b"</DOCNO>",
    b"<top>",
    b"</top>",
    b"<num>",
    b"<title>",
    b"<",
    b">",
    b" ",
    b"\n",
    b"x",
    b"Number:",
]
many = st.builds(
    lambda parts, times: b"".join(parts) * times,
    st.lists(st.sampled_from(TAGS), min_size=1, max_size=3),
    st.integers(1, REPEATS),
)
"""The same tags many times: a search for pairs must not start over at each of them."""


def odd(real):
    """Draw bytes that are nearly those of a real file."""
    return mutated(st.just(real)) | st.builds(
        lambda a, b, c: a + b + c, mutated(st.just(real)), many, st.just(real) | st.binary(max_size=9)
    )


def written(place, name, raw):
    """Write a file."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


# ---- runs ----


@fuzz(odd(RUN) | odd(LISTS) | st.binary(max_size=80), examples=50)
def test_a_run_of_any_bytes_is_opened_or_refused(raw):
    with folder() as place:
        path = written(place, "run.txt", raw)
        is_recorded_run(path)
        engine = told(RecordedSearchEngine, path, where=path)
        for system in ("bm25", "x"):
            told(RecordedSearchEngine, f"{path}#{system}", where=path)
        if isinstance(engine, Told):
            return
        backend = told(engine.over, Corpus(PASSAGES, topics=["q1", "q2"]), None, where=path)
        if isinstance(backend, Told):
            return
        for topic in ("q1", "q2", "q3"):
            found = told(lambda topic=topic: list(backend.serve([Search("words", 5, topic=topic)])), where=path)
            if not isinstance(found, Told) and isinstance(found[0][1], Ranking):
                hits = found[0][1].hits
                assert len({hit.id for hit in hits}) == len(hits)
                assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@fuzz(st.dictionaries(words, st.dictionaries(words, scores, min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_run_that_is_written_is_read_in_the_same_order(runs):
    with folder() as place:
        path = place / "run.txt"
        for topic, scored in runs.items():
            ranked = sorted(scored.items(), key=lambda item: -item[1])
            write_trec(path, topic, Ranking(tuple(Hit(*item) for item in ranked)))
        found = RecordedSearchEngine(path).runs
        for topic, scored in runs.items():
            assert [line.passage for line in found[topic]] == sorted(scored, key=lambda name: -scored[name])


# ---- judgements ----

grades = st.dictionaries(
    words, st.dictionaries(words, st.integers(-3, 1000), min_size=1, max_size=4), min_size=1, max_size=3
)


@fuzz(odd(QRELS) | odd(BEIR_QRELS) | st.binary(max_size=80), examples=50)
def test_judgements_of_any_bytes_are_read_or_refused(raw):
    with folder() as place:
        path = written(place, "qrels.txt", raw)
        found = told(read_qrels, path, kind=DataError, where=path)
        if not isinstance(found, Told):
            assert all(type(grade) is int for judged in found.values() for grade in judged.values())


@fuzz(grades.filter(lambda given: next(iter(given)) not in {"query-id", "query_id"}))
def test_judgements_that_are_written_are_read_back(given):
    with folder() as place:
        write_qrels(place / "qrels.txt", given)
        assert read_qrels(place / "qrels.txt") == given


if all(map(is_installed, PACKAGES)):

    @fuzz(
        st.dictionaries(words, st.integers(-2, 5), max_size=6),
        st.lists(words, max_size=6, unique=True),
        st.integers(1, 8),
    )
    def test_measures_are_those_of_their_definitions(judged, others, k):
        ranking = [*list(judged)[::2], *(word for word in others if word not in judged)]
        found = Relevance([f"P@{k}", f"R@{k}", f"RR@{k}", f"nDCG@{k}", "AP"]).rate(ranking, judged)
        assert all(0 <= value <= 1 for value in found.values())
        relevant = {name for name, grade in judged.items() if grade > 0}
        hits = [name in relevant for name in ranking[:k]]
        assert math.isclose(found[f"P@{k}"], sum(hits) / k)
        assert math.isclose(found[f"R@{k}"], sum(hits) / len(relevant) if relevant else 0)
        assert math.isclose(found[f"RR@{k}"], 1 / (hits.index(True) + 1) if any(hits) else 0)
        gain = sum(max(0, judged.get(name, 0)) / math.log2(at + 2) for at, name in enumerate(ranking[:k]))
        ideal = sum(
            grade / math.log2(at + 2)
            for at, grade in enumerate(sorted((g for g in judged.values() if g > 0), reverse=True)[:k])
        )
        assert math.isclose(found[f"nDCG@{k}"], gain / ideal if ideal else 0, abs_tol=1e-9)


# ---- whole benchmarks ----


@fuzz(odd(TOPICS), odd(QRELS), odd(DOCS), st.sampled_from(["txt", "tsv", "jsonl", "xml"]), examples=50)
def test_trec_files_of_any_bytes_are_a_benchmark_or_refused(topics, qrels, docs, suffix):
    with folder() as place:
        files = {
            "topics": (f"topics.{suffix}", topics),
            "qrels": ("qrels.txt", qrels),
            "corpus": (f"docs.{suffix}", docs),
        }
        data = [f"{name}={written(place, file, raw)}" for name, (file, raw) in files.items()]
        told(trec, data, kind=DataError)


@fuzz(many | odd(TOPICS), many | odd(DOCS), st.sampled_from(["txt", "tsv", "jsonl"]))
def test_one_odd_file_beside_good_ones_is_read_or_refused(topics, docs, suffix):
    with folder() as place:
        good = {
            "topics": written(place, "topics.xml", TOPICS),
            "qrels": written(place, "qrels.txt", QRELS),
            "corpus": written(place, "docs.xml", DOCS),
        }
        for name, raw in (("topics", topics), ("corpus", docs)):
            files = good | {name: written(place, f"odd.{suffix}", raw)}
            told(trec, [f"{key}={path}" for key, path in files.items()], kind=DataError)


rows = st.lists(grafted({"_id": "d1", "title": "one", "text": "two"}, odds=12), min_size=1, max_size=3).map(
    lambda rows: b"".join(json_bytes(row) + b"\n" for row in rows)
)


@fuzz(rows, rows, odd(BEIR_QRELS), any_text)
def test_a_beir_folder_of_any_bytes_is_a_benchmark_or_refused(corpus, queries, qrels, split):
    with folder() as place:
        written(place, "corpus.jsonl", corpus)
        written(place, "queries.jsonl", queries)
        written(place, "qrels/test.tsv", qrels)
        told(beir, [str(place)], kind=DataError, where=place.name)
        told(beir, [str(place)], split or None)


@fuzz(st.dictionaries(words, plain_text.filter(str.strip), min_size=1, max_size=4), st.data())
def test_a_beir_folder_comes_back(texts, data):
    judged = data.draw(st.dictionaries(st.sampled_from(sorted(texts)), st.just({"d1": 1}), min_size=1))
    with folder() as place:
        written(place, "corpus.jsonl", json_bytes({"_id": "d1", "text": "one"}) + b"\n")
        written(
            place,
            "queries.jsonl",
            b"".join(json_bytes({"_id": name, "text": text}) + b"\n" for name, text in texts.items()),
        )
        lines = "".join(
            f"{topic}\t{document}\t{grade}\n" for topic, own in judged.items() for document, grade in own.items()
        )
        written(place, "qrels/test.tsv", f"query-id\tcorpus-id\tscore\n{lines}".encode())
        found = beir([str(place)])
        assert {sample.id: sample.fields["question"] for sample in found.samples} == {
            topic: texts[topic] for topic in judged
        }

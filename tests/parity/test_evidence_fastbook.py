"""The published results of fastbook-benchmark: every question of four systems, the best possible order, what is in no chunk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshot.core.corpus import Corpus, Passage
from kshot.core.records import Evidence, Sample
from kshot.metrics.ceiling import ceiling, unreachable_evidence
from kshot.metrics.ranking import AnswerComponents, EvidenceFinder
from kshot.statistics import mean
from tests.measures import names

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "fastbook"
CHUNKS = {"1": 57, "2": 38, "4": 52, "8": 23, "9": 46, "10": 25, "13": 30}
PUBLISHED = {
    "bm25_500": (0.505464, 0.858333),
    "single_vector_500": (0.436333, 0.808290),
    "colbertv2_500": (0.563095, 0.873211),
    "answerai_colbert_500": (0.572904, 0.865881),
}

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the shared fastbook data are not here")


@pytest.fixture(scope="module")
def documents():
    """Chapter → its text."""
    texts = {}
    for chapter in CHUNKS:
        with (FOLDER / "chapters" / f"chapter_{chapter}.txt").open(encoding="utf-8", newline="") as file:
            texts[chapter] = file.read()
    return texts


@pytest.fixture(scope="module")
def finder(documents):
    """The chunks of the published runs; all tests share one finder."""
    parser = pytest.importorskip("llama_index.core.node_parser", reason="the published chunks are llama-index's")
    splitter = parser.SentenceSplitter(chunk_size=500, chunk_overlap=64)
    passages = []
    for chapter, text in documents.items():
        half = len(text) // 2
        chunks = splitter.split_text(text[:half]) + splitter.split_text(text[half:])
        assert len(chunks) == CHUNKS[chapter]
        passages += [Passage(f"{chapter}-{n}", chunk, {"chapter": chapter}) for n, chunk in enumerate(chunks)]
    return EvidenceFinder(Corpus(passages))


@pytest.fixture(scope="module")
def samples():
    questions = json.loads((FOLDER / "fastbook-benchmark.json").read_text("utf-8"))["questions"]
    return [
        Sample(
            f"{question['chapter']}.{question['question_number']}",
            {"chapter": str(question["chapter"])},
            Evidence(tuple(tuple(component["context"]) for component in question["answer_context"])),
        )
        for question in questions
    ]


def in_chapter(sample):
    return (("chapter", sample.fields["chapter"]),)


@pytest.mark.parametrize("system", PUBLISHED)
def test_every_question_of_a_published_run(finder, samples, system):
    run = json.loads((FOLDER / "published_runs.json").read_text("utf-8"))[system]
    metric = AnswerComponents(finder)
    found = [
        metric.score(sample, [f"{sample.fields['chapter']}-{n}" for n in numbers])
        for sample, numbers in zip(samples, run["runs"], strict=True)
    ]
    mrr, recall = ([values[name] for values in found] for name in names(metric))
    assert mrr == pytest.approx(run["mrr"], abs=1e-12)
    assert recall == pytest.approx(run["recall"], abs=1e-12)
    assert (round(mean(mrr), 6), round(mean(recall), 6)) == PUBLISHED[system]


def test_the_best_possible_order(finder, samples):
    assert len(samples) == 191
    mrr, recall = (mean(ceiling(finder, samples, name, within=in_chapter)) for name in ("AC_MRR@10", "AC_Recall@10"))
    assert (round(mrr, 4), round(recall, 4)) == (0.7487, 0.9111)


def test_what_no_chunk_holds(finder, samples, documents):
    found = unreachable_evidence(
        finder, samples, lambda sample: [documents[sample.fields["chapter"]]], within=in_chapter
    )
    assert len(found.empty) == 25
    assert len(found.components) == 19
    assert (len(found.straddling), len(found.absent)) == (16, 8)
    assert sum(len(quotes) for sample in samples for quotes in sample.target.parts) == 389

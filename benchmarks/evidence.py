"""Answer-component MRR@10 and recall@10 of 191 questions × 10 passages, beside the published functions.

    python benchmarks/evidence.py

It prints, for each run, the CPU seconds of the published functions (which fix the text of every pair), of kshot with an
empty cache, and of kshot with a full cache, and the ratios; it stops if the values differ. The runs are the published
ones of fastbook if ../shared/data/fastbook and llama-index-core, which cuts its chunks, are there; else made-up ones of
that shape. kshot must be 5 times faster with an empty cache and 100 times with a full one.
"""

from __future__ import annotations

import json
import random
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from ftfy import fix_text

from kshot.core.corpus import Corpus, Passage
from kshot.core.records import Evidence, Sample
from kshot.metrics.ceiling import ceiling
from kshot.metrics.ranking import AnswerComponents, EvidenceFinder

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "fastbook"
DEPTH, REPEATS = 10, 5


def holds(quotes, passage):
    """Tell whether a passage contains a quote, the published way: both are fixed for every pair."""
    return any(fix_text(quote) in fix_text(passage) for quote in quotes)


def published_mrr(parts, passages):
    """Return 1/rank of the passage by which every component is found."""
    last = 0
    for quotes in parts:
        for rank, passage in enumerate(passages[:DEPTH], start=1):
            if holds(quotes, passage):
                last = max(last, rank)
                break
        else:
            return 0.0
    return 1.0 / last


def published_recall(parts, passages):
    """Return the share of components that are found."""
    return sum(any(holds(quotes, passage) for passage in passages[:DEPTH]) for quotes in parts) / len(parts)


def fastbook():
    """Read the published benchmark, chunks and runs."""
    from llama_index.core.node_parser import SentenceSplitter

    splitter = SentenceSplitter(chunk_size=500, chunk_overlap=64)
    questions = json.loads((FOLDER / "fastbook-benchmark.json").read_text("utf-8"))["questions"]
    passages = []
    for chapter in dict.fromkeys(question["chapter"] for question in questions):
        with (FOLDER / "chapters" / f"chapter_{chapter}.txt").open(encoding="utf-8", newline="") as file:
            text = file.read()
        half = len(text) // 2
        chunks = splitter.split_text(text[:half]) + splitter.split_text(text[half:])
        fields = {"chapter": str(chapter)}
        passages += [Passage(f"{chapter}-{number}", chunk, fields) for number, chunk in enumerate(chunks)]
    samples = [
        Sample(
            str(number),
            {"chapter": str(question["chapter"])},
            Evidence(tuple(tuple(part["context"]) for part in question["answer_context"])),
        )
        for number, question in enumerate(questions)
    ]
    published = json.loads((FOLDER / "published_runs.json").read_text("utf-8"))
    runs = {
        name: [
            [f"{sample.fields['chapter']}-{number}" for number in numbers]
            for sample, numbers in zip(samples, run["runs"], strict=True)
        ]
        for name, run in published.items()
    }
    return Corpus(passages), samples, runs


def made_up():
    """Make questions, passages and runs of the same shape: 271 passages of 1,900 characters in 7 chapters."""
    rng = random.Random(0)
    words = [f"word{n}" for n in range(3000)] + ["—", "it’s", "×"] * 8
    passages = []
    for number in range(271):
        lines = [" ".join(rng.choices(words, k=22)) for _ in range(12)]
        passages.append(Passage(str(number), "\n".join(lines), {"chapter": str(number % 7)}))
    samples = []
    for number in range(191):
        chapter = str(number % 7)
        own = [passage for passage in passages if passage.fields["chapter"] == chapter]
        parts = []
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
            start = rng.randrange(1000)
            parts.append(tuple(rng.choice(own).text[start : start + 250] for _ in range(rng.choice([0, 1, 1, 1, 2]))))
        samples.append(Sample(str(number), {"chapter": chapter}, Evidence(tuple(parts))))
    ids = {str(c): [p.id for p in passages if p.fields["chapter"] == str(c)] for c in range(7)}
    runs = {"made-up": [rng.sample(ids[sample.fields["chapter"]], DEPTH) for sample in samples]}
    return Corpus(passages), samples, runs


def scored(metric, samples, run):
    """Score a run."""
    return [tuple(metric.score(sample, found).values()) for sample, found in zip(samples, run, strict=True)]


def spent(work, repeats=1):
    """Run a function several times; return its result and the fewest CPU seconds."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        times.append(time.process_time() - began)
    return result, min(times)


def main() -> None:
    """Measure each run."""
    real = FOLDER.exists() and find_spec("llama_index") is not None
    corpus, samples, runs = fastbook() if real else made_up()
    fix_text("it’s warm")
    print(f"{'run':<22}{'MRR@10':>9}{'recall':>9}{'published':>12}{'scratch':>20}{'again':>22}")
    for name, run in runs.items():
        texts = [[corpus[each].text for each in found] for found in run]
        pairs = [(sample.target.parts, found) for sample, found in zip(samples, texts, strict=True)]
        theirs, slow = spent(lambda pairs=pairs: [(published_mrr(*pair), published_recall(*pair)) for pair in pairs])
        ours, scratch = spent(lambda run=run: scored(AnswerComponents(EvidenceFinder(corpus)), samples, run), REPEATS)
        metric = AnswerComponents(corpus)
        scored(metric, samples, run)
        again, quick = spent(lambda metric=metric, run=run: scored(metric, samples, run), REPEATS)
        assert ours == again == theirs, f"{name}: the values differ"
        means = [sum(column) / len(column) for column in zip(*ours, strict=True)]
        print(f"{name:<22}{means[0]:>9.6f}{means[1]:>9.6f}{slow:>10.2f} s", end="")
        print(f"{scratch:>9.4f} s{slow / scratch:>7.0f} ×{quick:>11.5f} s{slow / quick:>7.0f} ×")
        if slow < 5 * scratch or slow < 100 * quick:
            sys.exit("too slow")
    finder = EvidenceFinder(corpus)
    for name in ("AC_MRR@10", "AC_Recall@10"):
        within = lambda sample: (("chapter", sample.fields["chapter"]),)  # noqa: E731 - one line is enough
        best, seconds = spent(lambda name=name, within=within: ceiling(finder, samples, name, within=within))
        print(f"best order, {name:<14} {sum(best) / len(best):.4f}  {seconds:.3f} s")


if __name__ == "__main__":
    main()

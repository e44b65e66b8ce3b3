"""A benchmark's data card: what is in the file, chapter by chapter, and how it is odd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshot.core.corpus import Corpus, Where
from kshot.core.errors import UsageError
from kshot.core.records import Evidence, Sample
from kshot.metrics.ceiling import ceiling, unreachable_evidence
from kshot.metrics.evidence import EvidenceFinder
from kshot.passages.benchmark import Benchmark
from kshot.passages.questions import Component, Question, QuestionSet, chapters

_COUNTS: Mapping[str, Callable[[Component], bool]] = {
    "components": lambda _: True,
    "empty context": lambda component: not component.quotes,
    "implicit": lambda component: not component.explicit,
    "extraneous": lambda component: component.extraneous,
}


def data_card(found: QuestionSet) -> dict[str, Any]:
    """Count questions and components by chapter, and list the file's oddities."""
    rows = [
        _line(chapter, [q for q in found.questions if q.chapter == chapter]) for chapter in chapters(found.questions)
    ]
    contexts = sum(len(component.quotes) for question in found.questions for component in question.components)
    return {
        "chapters": rows,
        "total": _line("Total", found.questions),
        "contexts": contexts,
        "oddities": {name: count for name, count in sorted(found.oddities.items()) if count},
    }


def _line(name: str, questions: Sequence[Question]) -> dict[str, Any]:
    held = [component for question in questions for component in question.components]
    counts = {label: sum(map(counts, held)) for label, counts in _COUNTS.items()}
    return {
        "chapter": name,
        "questions": len(questions),
        "components": counts["components"],
        "per question": len(held) / len(questions),
        **{label: count for label, count in counts.items() if label != "components"},
    }


def ceiling_card(benchmark: Benchmark, corpus: Corpus, measures: Sequence[str]) -> dict[str, Any]:
    """Give the best score these passages allow, and the components that none of them contains."""
    finder = EvidenceFinder(corpus)
    texts = benchmark.texts()
    within = where_of(benchmark.within)
    samples = list(benchmark.samples)

    def documents(sample: Sample) -> list[str]:
        chapter = str(sample.fields["chapter"])
        return [texts[chapter]] if benchmark.within == "chapter" else list(texts.values())

    missing = unreachable_evidence(finder, samples, documents, within=within)
    best = {name: ceiling(finder, samples, name, within=within) for name in measures}
    asked = {sample.id: sample.fields for sample in samples}
    return {
        "passages": len(corpus),
        "by chapter": {chapter: len(corpus.among((("chapter", chapter),)) or ()) for chapter in texts},
        "ceiling": {name: sum(values) / len(values) for name, values in best.items()},
        "components": sum(len(sample.fields["components"]) for sample in samples),
        "empty": len(missing.empty),
        "unreachable": [
            {
                "question": spot.sample,
                "component": asked[spot.sample]["components"][spot.component],
                "why": _why(spot.sample, spot.component, missing),
            }
            for spot in missing.components
        ],
        "contexts in no passage": len(missing.straddling) + len(missing.absent),
        "contexts that straddle a border": len(missing.straddling),
        "contexts not in the text": len(missing.absent),
    }


def question_card(benchmark: Benchmark, corpus: Corpus, number: str) -> dict[str, Any]:
    """Give all there is to one question: its answer by components, their quotes, and the passages that hold them."""
    sample = next((each for each in benchmark.samples if each.id == number), None)
    if benchmark.graded:
        raise UsageError(f"{benchmark.name} has graded passages: there are no components to show")
    if sample is None or not isinstance(sample.target, Evidence):
        some = ", ".join(each.id for each in benchmark.samples[:5])
        raise UsageError(f"{benchmark.name} has no question {number!r}", hint=f"It has: {some}, …")
    found = EvidenceFinder(corpus).matches(sample.target.parts)
    among = corpus.among(where_of(benchmark.within)(sample))
    allowed = corpus.passages if among is None else [corpus.passages[position] for position in among]
    return {
        "question": sample.fields["question"],
        "answer": sample.fields["answer"],
        "question_context": sample.fields.get("question_context", []),
        "components": [
            {
                "text": text,
                "quotes": list(quotes),
                "passages": [passage.id for passage in allowed if found[passage.id] >> place & 1],
            }
            for place, (text, quotes) in enumerate(zip(sample.fields["components"], sample.target.parts, strict=True))
        ],
    }


def _why(sample: str, component: int, missing: Any) -> str:
    straddles = any((spot.sample, spot.component) == (sample, component) for spot in missing.straddling)
    return "straddles a border" if straddles else "not in the text"


def where_of(within: str | None) -> Callable[[Sample], Where]:
    """Give the filter of a question: the passages that share this field with it."""

    def where(sample: Sample) -> Where:
        if within is None:
            return ()
        if within not in sample.fields:
            raise UsageError(f"questions have no field {within!r}", hint=f"They have: {', '.join(sample.fields)}.")
        return ((within, str(sample.fields[within])),)

    return where

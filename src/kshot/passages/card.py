"""The data card of a benchmark: what is in its question file, chapter by chapter, and what its passages allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshot.core.corpus import Corpus, Where
from kshot.core.errors import UsageError
from kshot.core.records import Evidence, Sample
from kshot.metrics.ceiling import PassageFilter, ceiling, unreachable_evidence
from kshot.metrics.ranking import EvidenceFinder
from kshot.passages.benchmark import Benchmark
from kshot.passages.questions import Component, EvidenceQuestion, QuestionSet

_COUNTED: Mapping[str, Callable[[Component], bool]] = {
    "components": lambda _: True,
    "empty context": lambda component: not component.quotes,
    "implicit": lambda component: not component.explicit,
    "extraneous": lambda component: component.extraneous,
}


def data_card(found: QuestionSet, benchmark: Benchmark | None = None) -> dict[str, Any]:
    """Count questions and components by chapter, and list the oddities of the file.

    ``benchmark`` has the documents too, where they are at hand: quotes that they do not contain are an oddity.
    """
    rows = [
        _card_row(chapter, [question for question in found.questions if question.chapter == chapter])
        for chapter in found.chapters()
    ]
    contexts = sum(len(component.quotes) for question in found.questions for component in question.components)
    oddities = Counter(found.oddities)
    if benchmark is not None:
        nowhere = unreachable_evidence(Corpus(()), benchmark.samples, _searched_texts(benchmark))
        oddities["contexts that are not in the documents"] = len(nowhere.absent)
    return {
        "chapters": rows,
        "total": _card_row("Total", found.questions),
        "contexts": contexts,
        "oddities": {name: count for name, count in sorted(oddities.items()) if count},
    }


def _card_row(name: str, questions: Sequence[EvidenceQuestion]) -> dict[str, Any]:
    components = [component for question in questions for component in question.components]
    counts = {label: sum(map(counted, components)) for label, counted in _COUNTED.items()}
    return {
        "chapter": name,
        "questions": len(questions),
        "components": counts["components"],
        "per question": len(components) / len(questions),
        **{label: count for label, count in counts.items() if label != "components"},
    }


def _searched_texts(benchmark: Benchmark) -> Callable[[Sample], list[str]]:
    """Return what gives the documents that a question may search."""
    texts = benchmark.texts()

    def documents(sample: Sample) -> list[str]:
        chapter = str(sample.fields["chapter"])
        return [texts[chapter]] if benchmark.within == "chapter" else list(texts.values())

    return documents


def ceiling_card(benchmark: Benchmark, corpus: Corpus, measures: Sequence[str]) -> dict[str, Any]:
    """Return the best score that these passages allow, and the components that none of them contains."""
    finder = EvidenceFinder(corpus)
    texts = benchmark.texts()
    within = passage_filter(benchmark.within)
    samples = list(benchmark.samples)
    missing = unreachable_evidence(finder, samples, _searched_texts(benchmark), within=within)
    straddling = {(each.sample, each.component) for each in missing.straddling}
    best = {name: ceiling(finder, samples, name, within=within) for name in measures}
    fields = {sample.id: sample.fields for sample in samples}
    return {
        "passages": len(corpus),
        "by chapter": {chapter: len(corpus.among((("chapter", chapter),)) or ()) for chapter in texts},
        "ceiling": {name: sum(values) / len(values) for name, values in best.items()},
        "components": sum(len(sample.fields["components"]) for sample in samples),
        "empty": len(missing.empty),
        "unreachable": [
            {
                "question": each.sample,
                "component": fields[each.sample]["components"][each.component],
                "why": "straddles a border" if (each.sample, each.component) in straddling else "not in the text",
            }
            for each in missing.components
        ],
        "contexts in no passage": len(missing.straddling) + len(missing.absent),
        "contexts that straddle a border": len(missing.straddling),
        "contexts not in the text": len(missing.absent),
    }


def question_card(benchmark: Benchmark, corpus: Corpus, number: str) -> dict[str, Any]:
    """Return one question with its answer, the components, their quotes, and the passages that contain them."""
    sample = next((each for each in benchmark.samples if each.id == number), None)
    if benchmark.graded:
        raise UsageError(f"{benchmark.name} has graded passages: there are no components to show")
    if sample is None or not isinstance(sample.target, Evidence):
        some = ", ".join(each.id for each in benchmark.samples[:5])
        raise UsageError(f"{benchmark.name} has no question {number!r}", hint=f"It has: {some}, …")
    matches = EvidenceFinder(corpus).matches(sample.target.parts)
    searched = corpus.searched(passage_filter(benchmark.within)(sample))
    components = zip(sample.fields["components"], sample.target.parts, strict=True)
    return {
        "question": sample.fields["question"],
        "answer": sample.fields["answer"],
        "question_context": sample.fields.get("question_context", []),
        "components": [
            {
                "text": text,
                "quotes": list(quotes),
                "passages": [passage.id for passage in searched if matches[passage.id] >> component & 1],
            }
            for component, (text, quotes) in enumerate(components)
        ],
    }


def passage_filter(within: str | None) -> PassageFilter:
    """Return the filter of questions: a question searches the passages that share this field with it."""

    def where(sample: Sample) -> Where:
        if within is None:
            return ()
        if within not in sample.fields:
            raise UsageError(
                f"--within {within}: questions have no field {within!r}",
                hint="Use chapter (a question's own document) or none (all documents).",
            )
        return ((within, str(sample.fields[within])),)

    return where

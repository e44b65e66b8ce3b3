"""Passage benchmarks as tasks: one for every way of cutting the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from kshot.core.corpus import Corpus
from kshot.core.errors import RunError, UsageError
from kshot.core.protocols import Model, Scorer, Source, TextChunker
from kshot.core.records import Answers, RequestGenerator, Sample, Search, Value
from kshot.core.task import Task
from kshot.methods.rag import Grounded, rag
from kshot.methods.search import search
from kshot.metrics import F1, Em, GPTEval
from kshot.metrics.ceiling import unreachable_evidence
from kshot.metrics.evidence import AnswerComponents, EvidenceFinder
from kshot.metrics.measures import Measure, parse_measure
from kshot.metrics.qrels import Relevance
from kshot.passages.benchmark import Benchmark
from kshot.passages.card import where_of
from kshot.passages.chunkers import make_chunker
from kshot.passages.fastbook import fastbook, handbook, own
from kshot.passages.graded import beir, trec
from kshot.passages.names import NAMES
from kshot.passages.prompts import answer_prompt, query_prompt
from kshot.passages.queries import read_queries
from kshot.passages.questions import FILTERS
from kshot.settings import Settings

EVIDENCE = (*(f"AC_{kind}@{k}" for kind in ("MRR", "Recall") for k in (1, 3, 5, 10)), "AC_Recall@2000t")
GRADED = ("nDCG@10", "AP@1000", "P@10", "R@100", "RR@10")
_READ = 5
_QUICKLY = 2_000_000
_DEEPEST = 1000


class PassagesSource(Source[Settings]):
    """``handbook``, ``fastbook``, ``beir`` or ``trec``; after a colon the chapters (or the split of a BEIR folder)."""

    def __init__(self, spec: str) -> None:
        """Take the spec as the user wrote it."""
        self._label = spec
        self._name, _, rest = spec.partition(":")
        if self._name not in NAMES:
            raise UsageError(f"there is no passage benchmark {self._name!r}", hint=f"There are: {', '.join(NAMES)}.")
        self._parts = tuple(part.strip() for part in rest.split(",") if part.strip())
        self._read: tuple[Settings, Benchmark] | None = None
        self._finders: dict[str, EvidenceFinder] = {}

    @property
    def label(self) -> str:
        """The spec as the user wrote it."""
        return self._label

    @property
    def has_corpus(self) -> bool:
        """Its passages can be found."""
        return True

    def searches(self, settings: Settings) -> bool:
        """Whether it is put to search engines (else to language models that read what an engine found)."""
        return settings.method != "rag"

    def benchmark(self, settings: Settings) -> Benchmark:
        """Read the benchmark, once for all models."""
        if self._read is None or self._read[0] != settings:
            self._read, self._finders = (settings, self._benchmark(settings)), {}
        return self._read[1]

    def _benchmark(self, settings: Settings) -> Benchmark:
        kinds = settings.components or ("all",)
        if (wrong := next((kind for kind in kinds if kind not in FILTERS), None)) is not None:
            raise UsageError(f"--components {wrong!r} is unknown", hint=f"Known: {', '.join(FILTERS)}.")
        match self._name:
            case "handbook":
                found = handbook(kinds=kinds, only=self._parts)
            case "fastbook":
                found = fastbook(settings.data, kinds=kinds, only=self._parts)
            case "passages":
                found = own(settings.data, kinds=kinds, only=self._parts)
            case "beir":
                found = beir(settings.data, *self._parts[:1])
            case _:
                found = trec(settings.data)
        if settings.within is not None:
            found = replace(found, within=None if settings.within == "none" else settings.within)
        return found

    def chunkers(self, benchmark: Benchmark, settings: Settings) -> list[TextChunker | None]:
        """Say how its documents are to be cut; passages that are given stay as they are."""
        if benchmark.chunker is None:
            if settings.chunker:
                raise UsageError(f"{self.label} judges whole passages, so they cannot be cut", hint="Drop --chunker.")
            return [None]
        return [make_chunker(spec) for spec in settings.chunker or (benchmark.chunker,)]

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile one task for each chunker; ``facts`` are what a run that is looked at again had found."""
        del model  # passages are cut without one
        benchmark = self.benchmark(settings)
        samples = list(islice(benchmark.samples, settings.limit))
        if not samples:
            raise UsageError(f"{self.label} has no question left", hint="Look at --components and the chapters named.")
        if settings.queries is not None:
            samples = read_queries(settings.queries, samples)
        cutters = self.chunkers(benchmark, settings)
        for cutter in cutters:
            task = self._task(benchmark, samples, cutter, settings, several=len(cutters) > 1)
            before = (facts or {}).get(task.name, {}).get("corpus", task.facts["corpus"])
            if before != task.facts["corpus"]:
                raise RunError(
                    f"the passages of {task.name} are not those of the run: its documents have changed",
                    hint="Restore them, or run the command again.",
                )
            yield task

    def _task(
        self,
        benchmark: Benchmark,
        samples: Sequence[Sample],
        cutter: TextChunker | None,
        settings: Settings,
        *,
        several: bool,
    ) -> Task[Search]:
        if str(cutter) not in self._finders:
            self._finders[str(cutter)] = EvidenceFinder(benchmark.corpus(cutter))
        finder = self._finders[str(cutter)]
        corpus = finder.corpus
        if not corpus:
            raise UsageError(f"{self.label} has no passage to find", hint="Its documents are empty.")
        reading = settings.read or _READ
        measures = _measures(benchmark, settings, reading)
        k = reading if settings.method == "rag" else depth(corpus, measures)
        rewrite = query_prompt(settings) if settings.rewrite else None
        labels: dict[str, Any] = {"benchmark": benchmark.name, "passages": len(corpus)}
        if cutter is not None:
            labels["chunks"] = str(cutter)
        if settings.method == "rag":
            labels["search"] = settings.search or "fts5"
        return Task(
            f"{benchmark.name}@{cutter}" if several else benchmark.name,
            samples,
            template=_request(benchmark.within, k),
            method=self._method(corpus, settings, rewrite),
            metrics=_metrics(benchmark, finder, measures, settings),
            notes=(*benchmark.notes, *self._out_of_reach(benchmark, samples, finder)),
            facts={**benchmark.facts, "passages": len(corpus), "corpus": corpus.digest},
            labels=labels,
            corpus=corpus,
            kind="passages",
        )

    def _out_of_reach(self, benchmark: Benchmark, samples: Sequence[Sample], finder: EvidenceFinder) -> Iterator[str]:
        """Say what no engine can find, where that is quickly found out."""
        if benchmark.graded or finder.corpus is None or len(finder.corpus) * len(samples) > _QUICKLY:
            return
        missing = unreachable_evidence(finder, samples, lambda _: (), within=where_of(benchmark.within))
        if missing.components:
            count = sum(len(sample.fields["components"]) for sample in samples)
            yield (
                f"{len(missing.components)} of {count} components have quotes that no passage contains, and "
                f"{len(missing.empty)} have no quote: kshot passages ceiling tells which"
            )

    def _method(
        self, corpus: Corpus, settings: Settings, rewrite: Callable[[Sample], Any] | None
    ) -> Callable[[Sample, Search], RequestGenerator]:
        if settings.method != "rag":
            return search(rewrite)
        names = ("max_tokens", "temperature", "top_p", "top_k", "stop")
        sampling = {name: value for name in names if (value := getattr(settings, name)) is not None}
        return rag(answer_prompt(settings), lambda mark: corpus[mark].text, rewrite, **sampling)


def depth(corpus: Corpus, measures: Sequence[Measure]) -> int:
    """Find how many passages the measures look at: their cutoffs, and as many as could ever fit into a token budget."""
    wanted = max((measure.cutoff or _DEEPEST for measure in measures if measure.budget is None), default=1)
    lengths = sorted(passage.tokens for passage in corpus)
    for budget in (measure.budget for measure in measures if measure.budget is not None):
        total = fitting = 0
        for length in lengths:
            total += length
            if total > budget or fitting >= _DEEPEST:
                break
            fitting += 1
        wanted = max(wanted, fitting)
    return wanted


def _request(within: str | None, k: int) -> Callable[[Sample, Sequence[Sample]], Search]:
    where = where_of(within)

    def template(sample: Sample, shots: Sequence[Sample]) -> Search:  # noqa: ARG001 - a search shows no examples
        return Search(sample.fields.get("query", sample.fields["question"]), k, where(sample), topic=sample.id)

    return template


def _measures(benchmark: Benchmark, settings: Settings, reading: int) -> tuple[Measure, ...]:
    if settings.measures:
        names: Sequence[str] = tuple(dict.fromkeys(settings.measures))
    elif benchmark.graded:
        names = GRADED
    elif settings.method == "rag":
        names = (f"AC_MRR@{reading}", f"AC_Recall@{reading}")
    else:
        names = EVIDENCE
    found = tuple(parse_measure(name) for name in names)
    for measure in found:
        if measure.needs_evidence == benchmark.graded:
            kind = "graded passages" if benchmark.graded else "answer components"
            known = ", ".join(GRADED if benchmark.graded else EVIDENCE)
            raise UsageError(f"{measure} cannot be measured on {kind}", hint=f"Try {known}.")
    return found


def _metrics(
    benchmark: Benchmark, finder: EvidenceFinder, measures: Sequence[Measure], settings: Settings
) -> tuple[Scorer, ...]:
    found: Scorer = Relevance(measures) if benchmark.graded else AnswerComponents(finder, measures)
    if settings.method != "rag":
        return (found,)
    scored: list[Scorer] = []
    if all("answer" in sample.fields for sample in benchmark.samples):
        scored += [
            _PartMetric("text", Em()),
            _PartMetric("text", F1()),
            *([_PartMetric("text", GPTEval())] if settings.judge else []),
        ]
    return (*scored, _PartMetric("passages", found))


class _PartMetric:
    """A metric of one part of a grounded answer; the text is compared with the gold answer."""

    grouped = False

    def __init__(self, part: Literal["text", "passages"], metric: Scorer) -> None:
        self._part, self._metric = part, metric
        self.names, self.details, self.token_budgeted = metric.names, metric.details, metric.token_budgeted
        self.bounds, self.higher_is_better = metric.bounds, metric.higher_is_better

    def score(self, sample: Sample, answer: Grounded) -> Mapping[str, Value] | RequestGenerator:
        if self._part == "passages":
            return self._metric.score(sample, answer.passages)
        return self._metric.score(replace(sample, target=Answers((sample.fields["answer"],))), answer.text)

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        return self._metric.reduce(name, values)

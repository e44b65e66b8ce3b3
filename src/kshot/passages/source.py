"""Passage benchmarks as Tasks, one for each chunker; prompts ask for a query, or for an answer from passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from kshot.core.corpus import Corpus
from kshot.core.errors import DataError, RunError, UsageError
from kshot.core.metric import Metric
from kshot.core.options import flag
from kshot.core.protocols import Model, Source, TextChunker
from kshot.core.records import Answers, Evidence, Message, Prompt, RequestGenerator, Row, Sample, Search
from kshot.core.specs import parse_spec
from kshot.core.task import Task, TriedTasks
from kshot.methods.search import Grounded, rag, search
from kshot.metrics import F1, Em, GPTEval
from kshot.metrics.ceiling import unreachable_evidence
from kshot.metrics.judge import judged_as_set
from kshot.metrics.metric import over
from kshot.metrics.ranking import (
    QRELS_PACKAGES,
    AnswerComponents,
    EvidenceFinder,
    RankingMeasure,
    Relevance,
    parse_measure,
)
from kshot.metrics.settings import refuse_scoring_options
from kshot.passages import BENCHMARKS
from kshot.passages.benchmark import Benchmark
from kshot.passages.card import passage_filter
from kshot.passages.chunkers import chunker_packages, make_chunker
from kshot.passages.fastbook import (
    FASTBOOK_CHUNKER,
    HANDBOOK_CHUNKER,
    OWN_CHUNKER,
    fastbook,
    handbook,
    own_benchmark,
    own_document_packages,
)
from kshot.passages.graded import beir, trec
from kshot.passages.questions import FILTERS
from kshot.passages.settings import PassageSettings
from kshot.prompts.strings import compile_string
from kshot.tables.files import read_file

_QUERY_COLUMNS = ("keywords", "query", "query_text", "text")
_ID_COLUMNS = ("id", "_id", "qid", "query-id")


def read_queries(path: str, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with the queries of the file, matched by chapter and question number, or by id."""
    rows = read_file(path)
    if isinstance(rows, Mapping) or not rows:
        raise DataError("a table of queries is expected", where=path)
    column = next((name for name in _QUERY_COLUMNS if name in rows[0]), None)
    if column is None:
        raise DataError(
            f"it has no column of queries, only {', '.join(rows[0])}", where=path, hint=f"Name it {_QUERY_COLUMNS[0]}."
        )
    queries: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        question = _question_id(row, f"{path}, row {number}")
        if question in queries:
            raise DataError(f"question {question} has two queries", where=f"{path}, row {number}")
        queries[question] = _query(row.get(column), f"{path}, row {number}")
    missing = [sample.id for sample in samples if sample.id not in queries]
    if missing:
        raise DataError(
            f"it has no query for {len(missing)} of {len(samples)} questions, the first is {missing[0]}",
            where=path,
            hint="Rows are matched by chapter and question_number, or by id.",
        )
    return [replace(sample, fields={**sample.fields, "query": queries[sample.id]}) for sample in samples]


def _question_id(row: Row, where: str) -> str:
    if "chapter" in row and "question_number" in row:
        return f"{str(row['chapter']).strip()}.{str(row['question_number']).strip()}"
    name = next((name for name in _ID_COLUMNS if name in row), None)
    if name is None:
        raise DataError("a row needs chapter and question_number, or id", where=where)
    return str(row[name])


def _query(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"the query is {value!r:.40}; it must be text", where=where)
    text = value.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


QUERY = """Write the words to type into a search engine to find the passage that answers this question. \
Give the words only, on one line.

Question: {question}
Words:"""

ANSWER = """Answer the question from these passages.

{passages}

Question: {question}
Answer:"""


def query_prompt(settings: PassageSettings) -> Callable[[Sample], Prompt]:
    """Return the function that asks for the query of a question."""
    prompt = _prompts(settings)
    return lambda sample: prompt(QUERY.format(question=sample.fields["question"]))


def answer_prompt(settings: PassageSettings) -> Callable[[Sample, Sequence[str]], Prompt]:
    """Return the function that asks for an answer from passages.

    ``--instruction`` with ``{passages}`` and ``{question}`` replaces the text.
    """
    render, prompt = compile_string(settings.instruction or ANSWER, where="--instruction"), _prompts(settings)

    def write(sample: Sample, passages: Sequence[str]) -> Prompt:
        listed = "\n\n".join(f"[{number}] {passage.strip()}" for number, passage in enumerate(passages, start=1))
        return prompt(render({**sample.fields, "passages": listed or "(none)"}))

    return write


def _prompts(settings: PassageSettings) -> Callable[[str], Prompt]:
    """Return what makes the prompt of a text, for a base or a chat model."""
    system, chat = settings.system_prompt or "", settings.model_type == "chat"

    def prompt(text: str) -> Prompt:
        if not chat:
            return Prompt(f"{system}\n\n{text}" if system else text)
        return Prompt(messages=(*((Message("system", system),) if system else ()), Message("user", text)))

    return prompt


EVIDENCE_MEASURES = (*(f"AC_{kind}@{k}" for kind in ("MRR", "Recall") for k in (1, 3, 5, 10)), "AC_Recall@2000t")
GRADED_MEASURES = ("nDCG@10", "AP@1000", "P@10", "R@100", "RR@10")
_CHUNKERS = {"handbook": HANDBOOK_CHUNKER, "fastbook": FASTBOOK_CHUNKER, "passages": OWN_CHUNKER}
"""How the documents of a benchmark are cut if the user names no chunker; other benchmarks have graded passages."""

_DEFAULT_READ = 5
"""Passages that a model reads for an answer."""

_MAX_CHECKED_PAIRS = 2_000_000
"""Pairs of a passage and a question up to which a run checks what no passage contains; more would take too long."""

_MAX_DEPTH = 1000
"""The longest ranking that a search asks for."""


class PassagesSource(Source[PassageSettings]):
    """A benchmark of ``names.BENCHMARKS``; after a colon, the chapters (of a BEIR folder: the split)."""

    def __init__(self, spec: str) -> None:
        """Take the spec as the user wrote it."""
        self._label = spec
        parsed = parse_spec(spec)
        self._name = parsed.name
        if parsed.options:
            name, value = next(iter(parsed.options.items()))
            raise UsageError(
                "a passage benchmark takes no options after its name", where=spec, hint=f"Write {flag(name)} {value}."
            )
        if self._name not in BENCHMARKS:
            raise UsageError(
                f"there is no passage benchmark {self._name!r}", hint=f"There are: {', '.join(BENCHMARKS)}."
            )
        self._chosen = tuple(part.strip() for part in parsed.argument.split(",") if part.strip())
        self._cached: tuple[PassageSettings, Benchmark] | None = None
        self._finders: dict[str, EvidenceFinder] = {}
        self._tried = TriedTasks()

    @property
    def label(self) -> str:
        """The spec as the user wrote it."""
        return self._label

    @property
    def has_corpus(self) -> bool:
        """Its passages can be searched."""
        return True

    def searches(self, settings: PassageSettings) -> bool:
        """Whether search engines are evaluated; else language models that read what a search engine found."""
        return settings.method != "rag"

    def packages(self, settings: PassageSettings, *, scored: bool = True) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that its measures, or its documents and chunkers, need."""
        if self._name not in _CHUNKERS:
            return {self._label: QRELS_PACKAGES} if scored else {}
        chunkers = settings.chunker or (_CHUNKERS[self._name],)
        found = {f"the chunker {spec}": chunker_packages(spec) for spec in chunkers}
        if self._name != "handbook":
            found[self._label] = own_document_packages(settings.data, self._name)
        return found

    def benchmark(self, settings: PassageSettings) -> Benchmark:
        """Return the benchmark; it is read once for all models."""
        if self._cached is None or self._cached[0] != settings:
            self._cached, self._finders = (settings, self._read(settings)), {}
        return self._cached[1]

    def _read(self, settings: PassageSettings) -> Benchmark:
        filters = settings.components or ("all",)
        if (wrong := next((each for each in filters if each not in FILTERS), None)) is not None:
            raise UsageError(f"--components {wrong!r} is unknown", hint=f"Known: {', '.join(FILTERS)}.")
        match self._name:
            case "handbook":
                found = handbook(filters=filters, only=self._chosen)
            case "fastbook":
                found = fastbook(settings.data, filters=filters, only=self._chosen)
            case "passages":
                found = own_benchmark(settings.data, filters=filters, only=self._chosen)
            case "beir":
                found = beir(settings.data, *self._chosen[:1])
            case _:
                found = trec(settings.data)
        if settings.within is not None:
            found = replace(found, within=None if settings.within == "none" else settings.within)
        return found

    def chunkers(self, benchmark: Benchmark, settings: PassageSettings) -> list[TextChunker | None]:
        """Return the chunkers of the documents; None where the benchmark has passages, which are used as they are."""
        if benchmark.chunker is None:
            if settings.chunker:
                raise UsageError(f"{self.label} has passages, which cannot be cut", hint="Leave --chunker out.")
            return [None]
        return [make_chunker(spec) for spec in settings.chunker or (benchmark.chunker,)]

    def tasks(
        self, settings: PassageSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile one task for each chunker; ``facts`` are those of the run that is scored again."""
        measured = "a passage benchmark, which has measures of its own"
        judged = settings.method == "rag" and settings.judge is not None
        hint = "Choose among them with --measures. "
        refuse_scoring_options(settings, measured, where=self.label, hint=hint, judged=judged)
        benchmark = self.benchmark(settings)
        if facts:
            benchmark = replace(benchmark, within=self._recorded_within(benchmark, settings, facts))
        samples = list(islice(benchmark.samples, settings.limit))
        if not samples:
            raise UsageError(f"{self.label} has no question left", hint="Check --components and the chapters.")
        if settings.queries is not None:
            samples = read_queries(settings.queries, samples)
        chunkers = self.chunkers(benchmark, settings)
        for chunker in chunkers:
            compiled = partial(self._compiled, benchmark, samples, chunker, settings, several=len(chunkers) > 1)
            key = settings, str(chunker), benchmark.within
            (task,) = self._tried.take(key, compiled, keep=model is None)
            digest = (facts or {}).get(task.name, {}).get("corpus", task.facts["corpus"])
            if digest != task.facts["corpus"]:
                raise RunError(
                    f"the passages of {task.name} differ from those of the run: its documents have changed",
                    hint="Restore them, or run the command again.",
                )
            yield task

    def _recorded_within(
        self, benchmark: Benchmark, settings: PassageSettings, facts: Mapping[str, Mapping[str, Any]]
    ) -> str | None:
        """Return where the run that is scored again searched; earlier runs did not record that it was the chapter."""
        earlier = next(iter(facts.values()))
        if "within" in earlier:
            return None if earlier["within"] == "none" else str(earlier["within"])
        searched_chapter = self._name in {"fastbook", "passages"} and settings.within is None
        return "chapter" if searched_chapter else benchmark.within

    def _compiled(
        self,
        benchmark: Benchmark,
        samples: Sequence[Sample],
        chunker: TextChunker | None,
        settings: PassageSettings,
        *,
        several: bool,
    ) -> list[Task[Search]]:
        if str(chunker) not in self._finders:
            self._finders[str(chunker)] = EvidenceFinder(benchmark.corpus(chunker))
        finder = self._finders[str(chunker)]
        corpus = finder.corpus
        if not corpus:
            raise UsageError(f"{self.label} has no passages: its documents are empty")
        read = (settings.read or _DEFAULT_READ) if settings.method == "rag" else 0
        measures = _measures(benchmark, settings, read)
        k, where = read or depth(corpus, measures), passage_filter(benchmark.within)
        labels: dict[str, Any] = {"benchmark": benchmark.name, "passages": len(corpus)}
        if chunker is not None:
            labels |= {"chunks": str(chunker), "within": benchmark.within or "none"}
        if settings.method == "rag":
            labels["search"] = settings.search or "fts5"
        task = Task(
            f"{benchmark.name}@{chunker}" if several else benchmark.name,
            samples,
            template=lambda sample, _: Search(
                sample.fields.get("query", sample.fields["question"]), k, where(sample), topic=sample.id
            ),
            method=_method(corpus, settings),
            metrics=_metrics(benchmark, finder, measures, settings),
            notes=(*benchmark.notes, *_unreachable_note(benchmark, samples, finder)),
            facts={
                **benchmark.facts,
                "passages": len(corpus),
                "corpus": corpus.digest,
                "within": benchmark.within or "none",
            },
            labels=labels,
            explain=None if benchmark.graded else _evidence_ranks(finder, measures),
            corpus=corpus,
            kind="passages",
        )
        return [task]


def _method(corpus: Corpus, settings: PassageSettings) -> Callable[[Sample, Search], RequestGenerator]:
    rewrite = query_prompt(settings) if settings.rewrite else None
    if settings.method != "rag":
        return search(rewrite)
    return rag(answer_prompt(settings), lambda passage: corpus[passage].text, rewrite, **settings.sampling())


def _unreachable_note(benchmark: Benchmark, samples: Sequence[Sample], finder: EvidenceFinder) -> Iterator[str]:
    """Say how much evidence no search engine can find, unless the check would take too long."""
    if benchmark.graded or finder.corpus is None or len(finder.corpus) * len(samples) > _MAX_CHECKED_PAIRS:
        return
    missing = unreachable_evidence(finder, samples, lambda _: (), within=passage_filter(benchmark.within))
    if missing.components:
        count = sum(len(sample.fields["components"]) for sample in samples)
        yield (
            f"{len(missing.components)} of {count} components have quotes that no passage contains, and "
            f"{len(missing.empty)} have no quote: kshot passages ceiling lists them"
        )


def depth(corpus: Corpus, measures: Sequence[RankingMeasure]) -> int:
    """Return how many passages the measures need: their cutoffs, and as many as could ever fit into a token budget."""
    needed = max((measure.cutoff or _MAX_DEPTH for measure in measures if measure.budget is None), default=1)
    lengths = sorted(passage.tokens for passage in corpus)
    for budget in (measure.budget for measure in measures if measure.budget is not None):
        total = fitting = 0
        for length in lengths:
            total += length
            if total > budget or fitting >= _MAX_DEPTH:
                break
            fitting += 1
        needed = max(needed, fitting)
    return needed


def _measures(benchmark: Benchmark, settings: PassageSettings, read: int) -> tuple[RankingMeasure, ...]:
    if settings.measures:
        names: Sequence[str] = tuple(dict.fromkeys(settings.measures))
    elif benchmark.graded:
        names = GRADED_MEASURES
    elif read:
        names = (f"AC_MRR@{read}", f"AC_Recall@{read}")
    else:
        names = EVIDENCE_MEASURES
    found = tuple(parse_measure(name) for name in names)
    for measure in found:
        if measure.needs_evidence == benchmark.graded:
            kind = "graded passages" if benchmark.graded else "answer components"
            known = ", ".join(GRADED_MEASURES if benchmark.graded else EVIDENCE_MEASURES)
            raise UsageError(f"{measure} cannot be measured on {kind}", hint=f"Try {known}.")
    return found


def _evidence_ranks(
    finder: EvidenceFinder, measures: Sequence[RankingMeasure]
) -> Callable[[Sample, Grounded | tuple[str, ...]], Mapping[str, Any]]:
    """Return what adds to a row at which ranks each component of the answer was found, as the measures find it."""
    metric = AnswerComponents(finder, measures)

    def explain(sample: Sample, answer: Grounded | tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(sample.target, Evidence):
            return {}
        passages = answer.passages if isinstance(answer, Grounded) else answer
        return {"evidence": metric.found_at(passages, sample.target.parts)}

    return explain


def _metrics(
    benchmark: Benchmark, finder: EvidenceFinder, measures: Sequence[RankingMeasure], settings: PassageSettings
) -> tuple[Metric, ...]:
    found: Metric = Relevance(measures) if benchmark.graded else AnswerComponents(finder, measures)
    if settings.method != "rag":
        return (found,)
    of_text: list[Metric] = []
    if all("answer" in sample.fields for sample in benchmark.samples):
        of_text = [Em(), F1(), *([judged_as_set(GPTEval(), settings)] if settings.judge else [])]
    texts = (over(metric, attrgetter("text"), _with_gold_text) for metric in of_text)
    return (*texts, over(found, attrgetter("passages")))


def _with_gold_text(sample: Sample) -> Sample:
    return replace(sample, target=Answers((sample.fields["answer"],)))

"""The settings of passage search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import PromptSettings
from kshot.tables.settings import DataSettings

_option = partial(option, group="passage search (-d handbook, passages, fastbook, beir, trec)")


@dataclass(frozen=True, kw_only=True)
class PassageSettings(ScoringSettings, GenerationSettings, DataSettings, PromptSettings, RunSettings):
    """What passage search reads."""

    chunker: tuple[str, ...] | None = _option(
        None,
        "how documents are cut: NAME:SIZE/OVERLAP or file.py:Class (kshot list chunkers; repeatable)",
        repeat=True,
    )
    queries: str | None = _option(
        None, "file with texts to search for instead of the questions, matched by their numbers", metavar="FILE"
    )
    rewrite: str | None = _option(
        None, "language model that writes the query for each question", metavar="MODEL", whole_run=True
    )
    within: str | None = _option(
        None,
        "where each question searches: chapter (within its own document) or none (all documents; the default, unless "
        "the benchmark says otherwise)",
        metavar="FIELD",
    )
    components: tuple[str, ...] | None = _option(
        None, "answer components that count: all, nonempty, explicit, essential", listed=True
    )
    measures: tuple[str, ...] | None = _option(
        None, "measures to report, such as AC_MRR@10,AC_Recall@2000t or nDCG@10", listed=True
    )
    method: str | None = _option(
        None, "search finds passages; rag answers from them", choices=("search", "rag"), whole_run=True
    )
    search: str | None = _option(
        None, "search engine for --method rag (default: fts5)", metavar="SEARCH_ENGINE", whole_run=True
    )
    read: int | None = _option(
        None, "number of passages that the model reads with --method rag (default: 5)", kind=int, least=1
    )

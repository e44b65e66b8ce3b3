"""kshot measures what language models and search engines can find.

Everything public is importable from here; heavy parts load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kshot.core.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kshot import configs, datasets, lmeval, lookup, methods, metrics, passages, prompts, retrievers, statistics
    from kshot.api import evaluate, preview
    from kshot.backends.search.search_engine import IndexSearchEngine
    from kshot.comparing import compare
    from kshot.core.budget import LimitReached
    from kshot.core.content import MediaPart, TextPart
    from kshot.core.corpus import Chunk, Corpus, Passage
    from kshot.core.errors import KshotError
    from kshot.core.metric import Measure
    from kshot.core.protocols import Abilities, LanguageModel, SearchEngine
    from kshot.core.records import (
        Absent,
        Answers,
        AnyOption,
        AskFailed,
        Evidence,
        Explained,
        Failed,
        Generate,
        Generated,
        Graded,
        Hit,
        Likelihood,
        Loglik,
        Message,
        Option,
        Prompt,
        Ranking,
        Sample,
        Scored,
        Search,
        TextLikelihood,
        Usage,
        ask,
    )
    from kshot.core.task import Task
    from kshot.core.watcher import Watcher
    from kshot.datasets import (
        Dataset,
        GenerationDataset,
        MultipleChoiceDataset,
        get_raw_dataset_loader,
        load_raw_dataset_from_file,
    )
    from kshot.exporting import export
    from kshot.index.ranking import Found
    from kshot.merging import merge
    from kshot.metrics import (
        F1,
        Accuracy,
        Bleu,
        Chrf,
        Em,
        ExactMatch,
        GPTEval,
        Greedy,
        Metric,
        PassAtK,
        Perplexity,
        Rouge,
        RougeLsum,
        SquadEm,
        SquadF1,
        Ter,
    )
    from kshot.reporting import write_report
    from kshot.rescoring import score
    from kshot.result import Result, load
    from kshot.retrievers import Retriever
    from kshot.runs.gates import GateFailed
    from kshot.runs.listing import list_runs
    from kshot.runs.previews import Preview

_HOMES = {
    "kshot.api": ("evaluate", "preview"),
    "kshot.backends.search.search_engine": ("IndexSearchEngine",),
    "kshot.comparing": ("compare",),
    "kshot.core.budget": ("LimitReached",),
    "kshot.core.content": ("MediaPart", "TextPart"),
    "kshot.core.corpus": ("Chunk", "Corpus", "Passage"),
    "kshot.core.errors": ("KshotError",),
    "kshot.core.protocols": ("Abilities", "LanguageModel", "SearchEngine"),
    "kshot.core.records": (
        "Absent",
        "Answers",
        "AnyOption",
        "AskFailed",
        "Evidence",
        "Explained",
        "Failed",
        "Generate",
        "Generated",
        "Graded",
        "Hit",
        "Likelihood",
        "Loglik",
        "Message",
        "Option",
        "Prompt",
        "Ranking",
        "Sample",
        "Scored",
        "Search",
        "TextLikelihood",
        "Usage",
        "ask",
    ),
    "kshot.core.metric": ("Measure",),
    "kshot.core.task": ("Task",),
    "kshot.core.watcher": ("Watcher",),
    "kshot.datasets": (
        "Dataset",
        "GenerationDataset",
        "MultipleChoiceDataset",
        "get_raw_dataset_loader",
        "load_raw_dataset_from_file",
    ),
    "kshot.exporting": ("export",),
    "kshot.index.ranking": ("Found",),
    "kshot.metrics": (
        "F1",
        "Accuracy",
        "Bleu",
        "Chrf",
        "Em",
        "ExactMatch",
        "GPTEval",
        "Greedy",
        "Metric",
        "PassAtK",
        "Perplexity",
        "Rouge",
        "RougeLsum",
        "SquadEm",
        "SquadF1",
        "Ter",
    ),
    "kshot.reporting": ("write_report",),
    "kshot.merging": ("merge",),
    "kshot.rescoring": ("score",),
    "kshot.result": ("Result", "load"),
    "kshot.retrievers": ("Retriever",),
    "kshot.runs.gates": ("GateFailed",),
    "kshot.runs.listing": ("list_runs",),
    "kshot.runs.previews": ("Preview",),
}
_PARTS = (
    "configs",
    "datasets",
    "lmeval",
    "lookup",
    "methods",
    "metrics",
    "passages",
    "prompts",
    "retrievers",
    "statistics",
)
"""Parts that people use by their own name: ``kshot.lookup.prompts(…)``."""

_find, _ = lazy_names(__name__, _HOMES)

__all__ = [
    "F1",
    "Abilities",
    "Absent",
    "Accuracy",
    "Answers",
    "AnyOption",
    "AskFailed",
    "Bleu",
    "Chrf",
    "Chunk",
    "Corpus",
    "Dataset",
    "Em",
    "Evidence",
    "ExactMatch",
    "Explained",
    "Failed",
    "Found",
    "GPTEval",
    "GateFailed",
    "Generate",
    "Generated",
    "GenerationDataset",
    "Graded",
    "Greedy",
    "Hit",
    "IndexSearchEngine",
    "KshotError",
    "LanguageModel",
    "Likelihood",
    "LimitReached",
    "Loglik",
    "Measure",
    "MediaPart",
    "Message",
    "Metric",
    "MultipleChoiceDataset",
    "Option",
    "PassAtK",
    "Passage",
    "Perplexity",
    "Preview",
    "Prompt",
    "Ranking",
    "Result",
    "Retriever",
    "Rouge",
    "RougeLsum",
    "Sample",
    "Scored",
    "Search",
    "SearchEngine",
    "SquadEm",
    "SquadF1",
    "Task",
    "Ter",
    "TextLikelihood",
    "TextPart",
    "Usage",
    "Watcher",
    "ask",
    "compare",
    "configs",
    "datasets",
    "evaluate",
    "export",
    "get_raw_dataset_loader",
    "list_runs",
    "lmeval",
    "load",
    "load_raw_dataset_from_file",
    "lookup",
    "merge",
    "methods",
    "metrics",
    "passages",
    "preview",
    "prompts",
    "retrievers",
    "score",
    "statistics",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in _PARTS:
        return importlib.import_module(f"kshot.{name}")
    return _find(name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)

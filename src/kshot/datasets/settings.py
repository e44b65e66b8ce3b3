"""The settings of dataset classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.datasets.rows.settings import RowSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import ConversationSettings, PromptSettings, TemplateSettings
from kshot.retrievers.settings import ExampleSettings
from kshot.tables.settings import TableSettings

ACCURACIES = ("acc", "acc_norm", "acc_bytes", "acc_token", "acc_mutual_info")
RANKING_TYPES = ("ppl_no_option", "ppl", "prob", "generation", "first_token", "auto")


@dataclass(frozen=True, kw_only=True)
class DatasetSettings(
    RowSettings,
    ScoringSettings,
    GenerationSettings,
    TableSettings,
    TemplateSettings,
    ConversationSettings,
    PromptSettings,
    RunSettings,
    ExampleSettings,
):
    """What a dataset class reads."""

    ranking_type: str | None = option(
        None,
        "how multiple choice is decided; several with commas; auto takes the best way that the model offers (default: "
        "ppl_no_option)",
        choices=RANKING_TYPES,
        sweeps=True,
    )
    accuracy: Literal["acc", "acc_norm", "acc_bytes", "acc_token", "acc_mutual_info"] | None = option(
        None,
        "the rule of Accuracy: options are compared by their log-likelihood (acc), by that per character (acc_norm), "
        "byte or token, or less that after a baseline (default: acc_norm for rows, the dataset's own or acc_token)",
        choices=ACCURACIES,
    )
    letters: Literal["both", "spaced"] | None = option(
        None,
        "the spellings of a letter that --ranking-type prob asks for: ' A' and 'A', or ' A' alone (default: both)",
        choices=("both", "spaced"),
    )
    description: str | None = option(None, "text that comes once, before all examples", metavar="TEXT")
    target_delimiter: str | None = option(
        None, "text between a question and its answer (default: a space, where there is no white space)", metavar="TEXT"
    )
    fewshot_delimiter: str | None = option(None, "text between examples (default: a blank line)", metavar="TEXT")
    average: Literal["macro", "weighted"] | None = option(
        None,
        "how subsets are averaged: each counts the same (macro), or by its number of samples (weighted) (default: "
        "macro, or the dataset's own)",
        choices=("macro", "weighted"),
    )
    rolling: bool | None = option(
        None, "measure the target as a document by itself, in windows if it is longer than the model's", kind=bool
    )
    rolling_start: Literal["auto", "bos", "eos", "none", "lm-eval"] = option(
        "auto",
        "the token before a document: BOS, else EOS (auto); bos; eos; none: its first is not scored; lm-eval: auto, "
        "and a BOS that the tokenizer adds is scored after it",
        choices=("auto", "bos", "eos", "none", "lm-eval"),
    )
    cot: str | None = option(None, "reasoning style; it must be one that the dataset supports")

"""CNN / Daily Mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import Rouge


class CnnDailymail(GenerationDataset):
    """CNN / Daily Mail: news articles to summarise in a few sentences.

    lm-eval (cnn_dailymail_abisee) writes "Summarize the following article:", the article and ``Summary:``. Its
    ``rouge1``, ``rouge2`` and ``rougeL`` are Rouge's, from 0 to 1; ``bertscore_precision``, ``bertscore_recall`` and
    ``bertscore_f1`` have no counterpart. It stops at a blank line, or after 128 tokens.
    """

    instruction = "Sum up the following article in three or four sentences.\n\nArticle: {article}\nSummary:"
    load_args = ("abisee/cnn_dailymail", "3.0.0")
    evaluation_set = "test"
    example_set = "validation"
    metrics = (Rouge(),)
    extra_model_args: Mapping[str, Any] = {"max_tokens": 256, "temperature": 0.0}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Use the highlights as the summary."""
        return {"article": instance["article"], "target": instance["highlights"]}

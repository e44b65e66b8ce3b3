"""Natural Questions, open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import F1, Em


class Nq(GenerationDataset):
    """Natural Questions (open): what people asked a search engine, answered without any passage.

    lm-eval (nq_open) writes ``Q:`` and ``A:`` after "Answer these questions:", without a blank line between examples.
    Its ``exact_match`` ignores case, ASCII punctuation and articles; a reply ends at a full stop or a comma, too.
    """

    instruction = "Answer the following question in a few words.\n\nQuestion: {question}\nAnswer:"
    load_args = ("google-research-datasets/nq_open",)
    evaluation_set = "validation"
    example_set = "train"
    metrics = (Em(), F1())
    extra_model_args: Mapping[str, Any] = {"max_tokens": 64, "temperature": 0.0, "stop": ["\n"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Accept any of the answers; examples show the first."""
        return {"question": instance["question"].removesuffix("?") + "?", "target": instance["answer"]}

"""SQuAD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import F1, Em


class Squad(GenerationDataset):
    """SQuAD 1.1: questions answered by a few words of a Wikipedia paragraph.

    lm-eval has no task of it (squadv2 has other rows). The official script's figures: ``--metric squadem,squadf1``.
    """

    instruction = (
        "Answer the question with words taken from the passage.\n\nPassage: {context}\nQuestion: {question}\nAnswer:"
    )
    load_args = ("rajpurkar/squad",)
    evaluation_set = "validation"
    example_set = "train"
    metrics = (Em(), F1())
    extra_model_args: Mapping[str, Any] = {"max_tokens": 64, "temperature": 0.0, "stop": ["\n"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Accept the answer of any annotator; examples show the first."""
        return {
            "context": instance["context"],
            "question": instance["question"],
            "target": list(dict.fromkeys(instance["answers"]["text"])),
        }

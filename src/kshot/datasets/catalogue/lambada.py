"""LAMBADA."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import Accuracy


class Lambada(GenerationDataset):
    """LAMBADA: predict the last word of a passage, which takes the whole passage to guess."""

    instruction = "{source}"
    load_args = ("cimec/lambada", "plain_text")
    evaluation_set = "test"
    example_set = "validation"
    metrics = (Accuracy(),)
    extra_model_args: Mapping[str, Any] = {"max_tokens": 16, "temperature": 0.0, "stop": ["\n"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Cut the last word off."""
        source, _, target = instance["text"].strip().rpartition(" ")
        return {"source": source, "target": target}

    def post_processing(self, predictions: Sequence[str]) -> list[str]:
        """Take the first word of each reply, without punctuation."""
        return [next(iter(reply.split()), "").strip(string.punctuation) for reply in predictions]

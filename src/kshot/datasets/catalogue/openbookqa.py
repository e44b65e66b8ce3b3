"""OpenBookQA."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Openbookqa(MultipleChoiceDataset):
    """OpenBookQA: elementary science that takes a known fact and some common sense.

    lm-eval (openbookqa) writes neither ``Question:`` nor ``Answer:``; it has the same options, and reports ``acc``
    and ``acc_norm``. Accuracy goes by mutual information here.
    """

    instruction = "Question: {{question}}{{'\n' + options if options}}\nAnswer:"
    load_args = ("allenai/openbookqa", "main")
    evaluation_set = "test"
    example_set = "train"
    use_normalization = True

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Find the answer key among the labels."""
        choices = instance["choices"]
        return {
            "question": instance["question_stem"],
            "options": choices["text"],
            "target_idx": choices["label"].index(instance["answerKey"].strip()),
        }

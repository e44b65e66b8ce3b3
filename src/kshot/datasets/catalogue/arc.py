"""ARC."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Arc(MultipleChoiceDataset):
    """AI2 Reasoning Challenge: school science questions (subsets ARC-Easy, ARC-Challenge).

    Options come labelled ``A…`` or ``1…``; the answer key is one of the labels.

    lm-eval (arc_easy) has the same prompt and the same options; its ``acc`` and ``acc_norm`` stand beside Accuracy,
    which goes by mutual information here.
    """

    instruction = "Question: {{question}}{{'\n' + options if options}}\nAnswer:"
    load_args = ("allenai/ai2_arc",)
    evaluation_set = "test"
    example_set = "train"
    use_normalization = True

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Find the answer key among the labels."""
        choices = instance["choices"]
        return {
            "question": instance["question"],
            "options": choices["text"],
            "target_idx": choices["label"].index(instance["answerKey"]),
        }

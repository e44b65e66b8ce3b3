"""WinoGrande."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Winogrande(MultipleChoiceDataset):
    """WinoGrande: which of two names fills a gap in a sentence; decided by how likely the rest is after each.

    lm-eval (winogrande) has the same prompt and the same options; it reports ``acc``.
    """

    instruction = "{source}"
    load_args = ("allenai/winogrande", "winogrande_xl")
    evaluation_set = "validation"
    example_set = "train"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Fill the gap with each name; what follows the gap is the target."""
        before, _, after = instance["sentence"].partition("_")
        return {
            "source": [before + instance["option1"], before + instance["option2"]],
            "source_idx": int(instance["answer"]) - 1,
            "target": after,
        }

"""COPA."""

from __future__ import annotations

from typing import Any

from kshot.datasets.multiple_choice import MultipleChoiceDataset


class Copa(MultipleChoiceDataset):
    """Choice of Plausible Alternatives: which of two sentences is the cause or the effect of a third.

    lm-eval (copa) has no first sentence, and puts two spaces before an option; it reports ``acc``.
    """

    instruction = (
        "Complete the following the sentence.\n\n"
        "{{premise[:-1]}}{{' because' if question == 'cause' else ' therefore'}}{{'\n'+options+'\nAnswer:' if options}}"
    )
    load_args = ("aps/super_glue", "copa")
    evaluation_set = "validation"
    example_set = "train"

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Start the alternatives with a small letter, since they continue the premise."""
        choices = (instance["choice1"], instance["choice2"])
        return instance | {"options": [choice[:1].lower() + choice[1:] for choice in choices]}

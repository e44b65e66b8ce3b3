"""TriviaQA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.datasets.generation import GenerationDataset
from kshot.metrics import F1, Em


class Triviaqa(GenerationDataset):
    """TriviaQA: quiz questions, answered without any passage.

    lm-eval (triviaqa) has no first sentence, and adds a question mark to the one that is there. Its ``exact_match``
    with any of the aliases ignores case and ASCII punctuation; a reply ends at a full stop or a comma, too.
    """

    instruction = "Answer the following question in a few words.\n\nQuestion: {question}\nAnswer:"
    load_args = ("mandarjoshi/trivia_qa", "rc.nocontext")
    evaluation_set = "validation"
    example_set = "train"
    metrics = (Em(), F1())
    id_column = "question_id"
    extra_model_args: Mapping[str, Any] = {"max_tokens": 64, "temperature": 0.0, "stop": ["\n"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Accept the answer and all its aliases; examples show the answer itself."""
        answer = instance["answer"]
        return {"question": instance["question"], "target": list(dict.fromkeys([answer["value"], *answer["aliases"]]))}

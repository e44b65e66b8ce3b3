"""LAMBADA."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from kshot.core.specs import split_names
from kshot.datasets.generation import GenerationDataset
from kshot.metrics import Greedy, Perplexity


class Lambada(GenerationDataset):
    """LAMBADA: predict the last word of a passage, which takes the whole passage to guess.

    ``acc`` is the share of passages whose last word the model itself would write, token by token, and ``perplexity`` is
    that of a word. With ``--metric accuracy`` the model writes a reply, and its first word is compared, as LLMBox does;
    a server without log-probabilities can do that too.

    lm-eval (lambada_standard) has the same prompt and the same options, here one; it reports the same ``acc`` and
    ``perplexity``. The rows of its lambada_openai are another version, for ``--dataset-path``. It puts two spaces
    before the last word of an example.
    """

    instruction = "{source}"
    keep_whitespace = True
    load_args = ("cimec/lambada", "plain_text")
    evaluation_set = "test"
    example_set = "validation"
    metrics = (Greedy(), Perplexity())

    def init_arguments(self) -> None:
        """Let the model write a few words, if the user names a metric of replies."""
        named = {name.lower() for names in self.args.metric or () for name in split_names(names)}
        if named and not named & {"greedy", "perplexity"}:
            self.extra_model_args = {"max_tokens": 16, "temperature": 0.0, "stop": ["\n"]}

    def format_instance(self, instance: dict[str, Any]) -> dict[str, Any]:
        """Cut the last word off."""
        source, _, target = instance["text"].rpartition(" ")
        return {"source": source, "target": target}

    def post_processing(self, predictions: Sequence[str]) -> list[str]:
        """Take the first word of each reply, without punctuation."""
        return [next(iter(reply.split()), "").strip(string.punctuation) for reply in predictions]

"""Examples after which a language model is surest of its answer: minimum description length (Wu, 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kshot.core.errors import BadValue
from kshot.core.extras import require
from kshot.index.encoders import model_name
from kshot.retrievers.base import whole_number
from kshot.retrievers.embedding import EmbeddingRetriever

_PURPOSE = "choosing examples by description length"
_PACKAGES = ("torch", "transformers")
DEFAULT_MODEL = "gpt2-xl"


@dataclass(frozen=True, slots=True)
class LabelPrompts:
    """What a test row looks like with some examples: their text, and the prompt of each label, examples included."""

    examples: str
    prompts: Sequence[str]


PromptsOf: TypeAlias = Callable[[int, Sequence[int]], LabelPrompts]
"""Gives the prompts of a test row with these training rows as examples."""
LossesOf: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Gives the loss of each text per token, without the tokens of the text that comes first."""


class MDLRetriever(EmbeddingRetriever):
    """Of several draws from the nearest rows, the one that leaves a language model the least doubt about the label.

    The first draw is the ``ice_num`` nearest rows; the others (``select_time`` in all) are random ones from the
    ``candidate_num`` nearest. For each, the losses of the prompts of all labels become probabilities; the lowest
    entropy wins, the first on a tie. Draws are numpy's legacy stream, one for all rows, as in OpenCompass.

    ``prompts(row, examples)`` gives the prompts of the labels; entries of configs give it from their templates.
    ``losses(examples, prompts)`` gives their losses, by default those of the model ``ce_model_name``.
    """

    reads_templates: ClassVar[bool] = True

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        candidate_num: int = 1,
        select_time: int = 5,
        ce_model_name: str = DEFAULT_MODEL,
        prompts: PromptsOf | None = None,
        losses: LossesOf | None = None,
        seed: int | None = 1,
        **options: Any,
    ) -> None:
        """Keep the options; the model is loaded when it is needed."""
        super().__init__(dataset, *positional, seed=seed, **options)
        self.candidate_num = whole_number("candidate_num", candidate_num)
        self.select_time = max(whole_number("select_time", select_time), 1)
        self.ce_model_name = model_name("ce_model_name", ce_model_name)
        self._prompts, self._losses = prompts, losses
        if prompts is None:
            raise BadValue(
                "MDLRetriever needs the prompts of all labels",
                hint="Use it in a config, or give prompts=, a function from a test row and examples to LabelPrompts.",
            )
        if losses is None:
            require(_PURPOSE, *_PACKAGES)

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the packages of kshot's extras that it needs with these options."""
        own = () if options.get("losses") is not None else _PACKAGES
        return tuple(dict.fromkeys((*super().packages(options), *own)))

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        named = self.ce_model_name if self._losses is None else "given"
        return {**super().facts, "candidates": self.candidate_num, "draws": self.select_time, "losses": named}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Try the nearest rows and random draws from them."""
        if self.candidate_num < self.ice_num:
            raise BadValue(
                f"candidate_num is {self.candidate_num}; ice_num asks for {self.ice_num} of the candidates",
                where=type(self).__name__,
                hint="Choose from more candidates than examples.",
            )
        stream = np.random.RandomState(self.seed)
        losses = self._losses or model_losses(self.ce_model_name)
        for row, found in enumerate(self.neighbours(self.candidate_num)):
            near = found.tolist()
            others = (stream.choice(near, self.ice_num, replace=False) for _ in range(self.select_time - 1))
            draws = [near[: self.ice_num], *(drawn.tolist() for drawn in others)]
            certainties = [self._certainty(row, draw, losses) for draw in draws]
            yield draws[certainties.index(max(certainties))]

    def _certainty(self, row: int, draw: Sequence[int], losses: LossesOf) -> float:
        """Return the negative entropy of the labels, each as probable as its loss says."""
        if self._prompts is None:
            raise BadValue("MDLRetriever needs the prompts of all labels")
        shown = self._prompts(row, draw)
        odds = np.exp(-np.asarray(losses(shown.examples, shown.prompts), dtype=np.float64))
        shares = odds / odds.sum()
        return float((shares * np.log(shares)).sum())


def model_losses(name: str) -> LossesOf:
    """Return the losses by a causal language model of transformers: its name on the hub, or a folder.

    The tokens of the examples are counted alone, and so many are left out at the start of every prompt.
    """
    require(_PURPOSE, *_PACKAGES)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kshot.core.hub import hub_is_unreachable, open_pretrained

    options = {"local_files_only": hub_is_unreachable()}
    tokenizer = open_pretrained("tokenizer", name, AutoTokenizer.from_pretrained, **options)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = open_pretrained("weights", name, AutoModelForCausalLM.from_pretrained, **options).to(device).eval()

    def losses(examples: str, prompts: Sequence[str]) -> list[float]:
        left_out = len(tokenizer(examples, verbose=False)["input_ids"])
        found = []
        for prompt in prompts:
            tokens = tokenizer(prompt, truncation=True, return_tensors="pt")["input_ids"].to(device)
            with torch.no_grad():
                logits = model(tokens).logits[0, :-1].float()
            each = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none")
            counted = tokens.shape[1] - left_out
            if counted <= 0:
                raise BadValue(
                    f"the examples have {left_out} tokens and fill the window of {name}",
                    where=MDLRetriever.__name__,
                    hint="Ask for fewer examples.",
                )
            found.append(float(each[left_out:].sum()) / counted)
        return found

    return losses

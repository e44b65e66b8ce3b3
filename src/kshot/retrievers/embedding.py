"""Examples by their embeddings, by brute force: the nearest to the row, also unlike each other, or near to many rows.

The nearest have the highest cosine or inner product. Near the row and unlike each other are those of maximal marginal
relevance and of a determinantal point process. Votes of nearest neighbours give the same choice for every test row.
Of draws among the nearest, minimum description length takes those after which a language model is surest (Wu, 2022).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kshot.core.errors import BadValue
from kshot.core.extras import require
from kshot.index.encoders import TextEncoder, checked_vectors, model_name, text_encoder, text_encoder_packages
from kshot.index.model_folders import MINILM
from kshot.index.ranking import DIGITS, Array, Doubles, Positions
from kshot.index.vectors import nearest, nearest_by_product, vector_lengths
from kshot.retrievers.base import ComparingRetriever, is_strict, whole_number

_PURPOSE = "choosing examples by embedding"


class EmbeddingRetriever(ComparingRetriever):
    """A retriever that compares vectors.

    They are given (``vectors``: a pair, or a dict of train and test), made by ``encoder``, a function from texts to an
    array, or by a model: ``minilm``, or the name or folder of a sentence-transformers model. compat compares by inner
    product, as OpenCompass does (faiss ``IndexFlatIP``): vectors keep the length that their model gives them.
    """

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        sentence_transformers_model_name: str | None = None,
        tokenizer_name: str | None = None,  # noqa: ARG002 - configs name one; the model has its own
        batch_size: int = 32,
        vectors: Any = None,
        encoder: Callable[[Sequence[str]], Any] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> None:
        """Keep the options; texts are encoded when they are needed."""
        super().__init__(dataset, *positional, **options)
        self.model = model or sentence_transformers_model_name or _default_model(strict=self.strict)
        self._encoder, self._given = encoder, vectors
        self._batch_size = max(whole_number("batch_size", batch_size), 1)
        if vectors is None and encoder is None:
            require(_PURPOSE, *text_encoder_packages(self.model))

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the packages of kshot's extras that it needs with these options."""
        if options.get("vectors") is not None or options.get("encoder") is not None:
            return ()
        named = options.get("model") or options.get("sentence_transformers_model_name")
        return text_encoder_packages(named or _default_model(strict=is_strict(options)))

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        # a user's encoder may be any callable, and only functions have a name
        given = "given" if self._given is not None else getattr(self._encoder, "__name__", "own")
        named = self.model if self._given is None and self._encoder is None else given
        return {**super().facts, "vectors": named}

    @cached_property
    def vectors(self) -> tuple[Array, Array]:
        """Training and test vectors."""
        if self._given is None:
            encode = self._encoder or text_encoder(self.model, self._batch_size, _PURPOSE, unit=not self.strict)
            train = self._encoded(encode, self.train)
            test = train if self.train is self.test else self._encoded(encode, self.test)
        elif isinstance(self._given, Mapping):
            train, test = self._given["train"], self._given["test"]
        elif isinstance(self._given, Sequence) and len(self._given) == 2:  # noqa: PLR2004 - train and test
            train, test = self._given
        else:
            raise BadValue("vectors must be a pair of arrays: those of the train rows and those of the test rows")
        return checked_vectors(train, len(self.train), "train"), checked_vectors(test, len(self.test), "test")

    def _encoded(self, encode: TextEncoder, rows: Sequence[Any]) -> Any:
        return encode([self.compared(row) for row in rows]) if len(rows) else np.zeros((0, 1), dtype=np.float32)

    def neighbours(self, k: int) -> Iterator[Positions]:
        """Yield for each test row its ``k`` nearest training rows, or all that may be shown where there are fewer."""
        self.check_pool()
        search = nearest if self.strict else nearest_by_product
        return search(*self.vectors, min(k, len(self.train)), self.excluded)


def _default_model(*, strict: bool) -> str:
    return MINILM if strict else "all-mpnet-base-v2"


class TopkRetriever(EmbeddingRetriever):
    """The training rows whose embeddings have the highest cosine (compat: inner product) with the test row's."""

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose the nearest rows."""
        return (found.tolist() for found in self.neighbours(self.ice_num))


class VotekRetriever(EmbeddingRetriever):
    """Training rows that are near neighbours of many others, spread out (Su, 2022).

    Every training row votes for its ``votek_k`` nearest. The vote of a row is worth ``discount ** -c`` once ``c`` of
    those it votes for are chosen, and nothing once it is chosen itself; the row with the most votes is chosen next, the
    lower number on a tie. A test row that is itself chosen (strict) is shown the next one instead.

    compat elects as OpenCompass does (``elect_unlike``), which never discounts a vote. Where too few rows win, it draws
    the others, by ``seed``; OpenCompass draws them from the generator of the process, differently in each run.
    """

    def __init__(
        self, dataset: Any, *positional: Any, votek_k: int = 3, discount: float = 10.0, **options: Any
    ) -> None:
        """Take the options of ``TopkRetriever``, the number of votes of each row, and the discount."""
        super().__init__(dataset, *positional, **options)
        self.votek_k, self.discount = whole_number("votek_k", votek_k), discount
        if not discount >= 1:
            raise BadValue(f"discount is {discount}; it must be 1 or more")

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "votek_k": self.votek_k, "discount": self.discount}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the chosen rows, without the row itself."""
        self.check_pool()
        hidden = [set(self.excluded(row)) for row in range(len(self.test))]
        wanted = self.ice_num + max((len(each) for each in hidden), default=0)
        chosen = self._elected(min(wanted, len(self.train)))
        for each in hidden:
            yield [index for index in chosen if index not in each][: self.ice_num]

    def _elected(self, count: int) -> list[int]:
        train = self.vectors[0]
        if not self.strict:
            won = elect_unlike(votes_by_cosine(train, self.votek_k), count)
            rest = [row for row in range(len(train)) if row not in won]
            draw = random.Random(self.seed)  # noqa: S311 - a reproducible draw, not a secret
            return won + draw.sample(rest, count - len(won))
        known = min(self.votek_k, max(len(train) - 1, 0))
        edges = list(nearest(train, train, known, lambda row: (row,)))
        return elect(np.asarray(edges, dtype=np.intp).reshape(len(train), known), count, self.discount)


def elect(edges: Positions, count: int, discount: float) -> list[int]:
    """Return the rows that win, one after the other, when row v votes for ``edges[v]``."""
    size = len(edges)
    won = np.zeros(size, dtype=bool)
    chosen: list[int] = []
    for _ in range(count):
        worth = np.where(won, 0.0, discount ** -won[edges].sum(axis=1).astype(np.float64))
        votes = np.bincount(edges.ravel(), np.repeat(worth, edges.shape[1]), minlength=size).astype(np.float64)
        votes[won] = -1.0
        chosen.append(int(np.argmax(votes)))
        won[chosen[-1]] = True
    return chosen


# ---- as OpenCompass elects ----


def votes_by_cosine(vectors: Array, known: int) -> dict[int, set[int]]:
    """Return the voters of each row that has any, in the order of first votes.

    A row votes for the ``known`` before the last in ascending order of cosine: the last is mostly the row itself, which
    gets no vote of its own. Cosines have the precision of the vectors, and numpy's own sort decides between equal ones.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths < 10 * np.finfo(vectors.dtype).eps] = 1  # as scikit-learn normalises
    unit = vectors / lengths[:, None]
    voters: dict[int, set[int]] = {}
    for row in range(len(unit)):
        ascending = np.argsort((unit @ unit[row : row + 1].T)[:, 0])
        for other in ascending[-known - 1 : -1].tolist():
            if other != row:
                voters.setdefault(other, set()).add(row)
    return voters


def elect_unlike(voters: Mapping[int, set[int]], count: int) -> list[int]:
    """Return up to ``count`` rows by number of votes, without those whose voters all voted for one row before it."""
    order = sorted(voters, key=lambda row: len(voters[row]), reverse=True)
    chosen: list[int] = []
    for place, row in enumerate(order):
        if len(chosen) == count:
            break
        if not any(voters[row] <= voters[before] for before in order[:place]):
            chosen.append(row)
    return chosen


_MIN_CANDIDATES, _CANDIDATES_PER_EXAMPLE = 100, 10


class DiverseRetriever(EmbeddingRetriever):
    """A choice among the ``candidate_num`` nearest training rows, nearest first."""

    def __init__(self, dataset: Any, *positional: Any, candidate_num: int | None = None, **options: Any) -> None:
        """Take the options of ``TopkRetriever`` and how many candidates there are (100, or 10 for each example)."""
        super().__init__(dataset, *positional, **options)
        default = max(_MIN_CANDIDATES, _CANDIDATES_PER_EXAMPLE * self.ice_num)
        wanted = default if candidate_num is None else whole_number("candidate_num", candidate_num)
        self.candidate_num = max(wanted, self.ice_num)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose among each row's candidates."""
        train, test = self.vectors
        train_lengths, test_lengths = vector_lengths(train), vector_lengths(test)
        for row, near in enumerate(self.neighbours(self.candidate_num)):
            candidates = train[near].astype(np.float64) / train_lengths[near][:, None]
            relevance = candidates @ (test[row].astype(np.float64) / test_lengths[row])
            chosen = sorted(self.choose(relevance, candidates @ candidates.T))  # candidates are sorted, nearest first
            if not self.strict:  # by inner product: as OpenCompass does, put the highest cosine first
                chosen.sort(key=lambda at: -relevance[at])
            yield near[np.asarray(chosen, dtype=np.intp)].tolist()

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Choose candidates, given their cosines with the test row and with each other."""
        raise NotImplementedError


class MMRRetriever(DiverseRetriever):
    """The candidate with the highest ``(1 - λ) · near - λ · like``, one after the other.

    ``near`` is its cosine with the test row, ``like`` the highest cosine with one already chosen, λ the ``diversity``:
    0 gives the nearest, 1 uses nearness for the first one only.
    """

    def __init__(self, dataset: Any, *positional: Any, diversity: float = 0.5, **options: Any) -> None:
        """Take the options of ``TopkRetriever``, the number of candidates and the weight of diversity."""
        super().__init__(dataset, *positional, **options)
        if not 0 <= diversity <= 1:
            raise BadValue(f"diversity is {diversity}; it must be from 0 to 1")
        self.diversity = diversity

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "candidate_num": self.candidate_num, "diversity": self.diversity}

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Choose the nearest, then by gain."""
        if not self.ice_num:
            return []
        chosen = [int(np.argmax(np.round(relevance, DIGITS)))]
        like = alike[chosen[0]].copy()
        while len(chosen) < self.ice_num:
            gain = np.round((1 - self.diversity) * relevance - self.diversity * like, DIGITS)
            gain[chosen] = -np.inf
            chosen.append(int(np.argmax(gain)))
            np.maximum(like, alike[chosen[-1]], out=like)
        return chosen


class DPPRetriever(DiverseRetriever):
    """The candidates with the greatest determinant, found greedily.

    The kernel is ``q_i · s_ij · q_j`` with likeness ``s = (1 + cosine) / 2`` and quality
    ``q = exp((r - max r) / (2 · scale_factor))`` of the relevance ``r = (1 + cosine with the test row) / 2``: a small
    ``scale_factor`` prefers near ones, a large one different ones. OpenCompass has the same kernel, but fails before it
    chooses anything.
    """

    def __init__(self, dataset: Any, *positional: Any, scale_factor: float = 0.1, **options: Any) -> None:
        """Take the options of ``TopkRetriever``, the number of candidates and the scale of relevance."""
        super().__init__(dataset, *positional, **options)
        if not scale_factor > 0:
            raise BadValue(f"scale_factor is {scale_factor}; it must be above 0")
        self.scale_factor = scale_factor

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "candidate_num": self.candidate_num, "scale_factor": self.scale_factor}

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Build the kernel and choose from it greedily."""
        near = (relevance - relevance.max(initial=-1.0)) / 2
        quality = np.exp(near / (2 * self.scale_factor))
        return greedy_map(quality[:, None] * (1 + alike) / 2 * quality[None, :], self.ice_num)


def greedy_map(kernel: Doubles, k: int) -> list[int]:
    """Choose one item after the other, each time the one that multiplies the determinant most (Chen et al., 2018).

    ``gain`` holds that factor for every item: the squared diagonal of a Cholesky factor that grows by one row each
    step. When no item multiplies the determinant any more, the first items left are chosen.
    """
    size = len(kernel)
    rows = np.zeros((k, size))
    gain = np.diag(kernel).copy()
    free = np.ones(size, dtype=bool)
    chosen: list[int] = []
    for step in range(min(k, size)):
        open_gain = np.where(free, np.round(gain, DIGITS + 2), -np.inf)
        item = int(np.argmax(open_gain))
        if open_gain[item] <= 0:
            chosen += np.flatnonzero(free)[: min(k, size) - step].tolist()
            break
        chosen.append(item)
        free[item] = False
        rows[step] = (kernel[item] - rows[:step, item] @ rows[:step]) / np.sqrt(gain[item])
        gain -= rows[step] ** 2
    return chosen


# ---- minimum description length ----

_MDL_PURPOSE = "choosing examples by description length"
_MDL_PACKAGES = ("torch", "transformers")
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
            require(_MDL_PURPOSE, *_MDL_PACKAGES)

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the packages of kshot's extras that it needs with these options."""
        own = () if options.get("losses") is not None else _MDL_PACKAGES
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
    require(_MDL_PURPOSE, *_MDL_PACKAGES)
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

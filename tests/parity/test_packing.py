"""Tree-packed log-probabilities and texts against one unshared forward at a time, for many architectures."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt  # noqa: E402
from tests.shapes import SHAPES, shaped  # noqa: E402
from tests.tiny_models import ask_all  # noqa: E402

TOLERANCE = 1e-4
PIECES = ["hello", " the answer is", "\n\n", " 日本", " 🙂", " é", " A", " B.", " people say", " fox", " 12", " dog;"]


@pytest.fixture(scope="session", params=[*SHAPES])
def backend(request, tmp_path_factory):
    torch.set_num_threads(1)
    folder = shaped(request.param, tmp_path_factory.mktemp(request.param) / "model")
    return Transformers(str(folder), device="cpu", batch_size=5, row_tokens=37)


def questions(seed: int) -> list[Loglik]:
    """Make random tries: duplicates, prompts that begin other prompts, empty, short and long ones, many options."""
    rng = random.Random(seed)
    stems = ["", "".join(rng.choices(PIECES, k=rng.choice([3, 40, 120])))]
    made = []
    for _ in range(12):
        stems.append(rng.choice(stems) + "".join(rng.choices(PIECES, k=rng.choice([1, 2, 9]))))
        options = ["".join(rng.choices(PIECES, k=rng.choice([1, 1, 2, 6]))) for _ in range(rng.choice([1, 4, 20]))]
        made.append(Loglik(Prompt(stems[-1]), tuple(options)))
    return [*made, *rng.sample(made, 2)]


@torch.no_grad()
def unshared(backend, prompt: str, text: str, count: int) -> float:
    ids = list(backend._tokenizer.encode(prompt + text))
    table = backend._model(torch.tensor([ids]), use_cache=False).logits[0].float().log_softmax(-1)
    return sum(table[at - 1, ids[at]].item() for at in range(len(ids) - count, len(ids)))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_packed_equals_unshared(backend, seed):
    rng = random.Random(seed)
    asked = questions(seed)
    for request, response in zip(asked, ask_all(backend, dict.fromkeys(asked)), strict=False):
        some = list(enumerate(request.continuations))
        for index, text in rng.sample(some, min(len(some), 4)):
            found = response.likelihoods[index]
            expected = unshared(backend, request.prompt.text, text, found.tokens)
            assert found.logprob == pytest.approx(expected, abs=TOLERANCE)


def test_greedy_texts_equal_those_of_generate(backend):
    stem = "".join(PIECES) * 3
    requests = [Generate(Prompt(stem + text), max_tokens=3 + 4 * at) for at, text in enumerate(PIECES[:6])]
    for request, response in zip(requests, ask_all(backend, requests), strict=True):
        ids = torch.tensor([backend._tokenizer.encode_prompt(request.prompt)])
        new = backend._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request.max_tokens,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=1,
        )[0, ids.shape[1] :]
        assert response.text == backend._tokenizer.tokenizer.decode(new, skip_special_tokens=True)

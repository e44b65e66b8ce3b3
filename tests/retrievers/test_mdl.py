"""Examples that leave a language model the least doubt."""

import math

import numpy as np
import pytest

from kshot.core.errors import BadValue
from kshot.retrievers import MDLRetriever
from kshot.retrievers.embedding import LabelPrompts, model_losses

TRAIN = [{"q": f"t{i}"} for i in range(6)]
TEST = [{"q": "a"}, {"q": "b"}]
VECTORS = (
    np.asarray([[5, 0.3], [4, 0.2], [3, 0.1], [2, 3], [1, 4], [0, 5]], dtype=np.float32),
    np.asarray([[1, 0], [0, 1]], dtype=np.float32),
)
NEAR = [[0, 1, 2, 3], [5, 4, 3, 0]]
"""The four training rows that are nearest to each test row."""


def shown(row, examples):
    return LabelPrompts(
        " ".join(map(str, examples)), [f"{row}|{','.join(map(str, examples))}|{label}" for label in "AB"]
    )


def made(losses, **options):
    dataset = {"train": TRAIN, "test": TEST, "input_columns": ["q"]}
    defaults = {"ice_num": 2, "candidate_num": 4, "select_time": 3, "seed": 1, "strict": False}
    return MDLRetriever(dataset, vectors=VECTORS, prompts=shown, losses=losses, **{**defaults, **options})


def test_without_other_draws_the_nearest_rows_are_shown():
    assert made(lambda _, prompts: [1.0] * len(prompts), select_time=1).retrieve() == [[0, 1], [5, 4]]


def test_equal_certainty_leaves_the_nearest_rows():
    assert made(lambda _, prompts: [1.0] * len(prompts)).retrieve() == [[0, 1], [5, 4]]


def test_the_draw_with_the_lowest_entropy_wins():
    """All draws come from one legacy stream; a draw is surer the more its losses differ."""
    stream = np.random.RandomState(1)
    draws = [[near[:2], *(stream.choice(near, 2, replace=False).tolist() for _ in range(2))] for near in NEAR]
    asked = []

    def losses(examples, prompts):
        asked.append(examples)
        row = (len(asked) - 1) // 3
        return [1.0, 2.0 if examples == " ".join(map(str, wanted[row])) else 1.0]

    wanted = [draws[0][2], draws[1][1]]
    assert all(draw != row[0] for draw, row in zip(wanted, draws, strict=True))
    assert made(losses).retrieve() == wanted
    assert asked == [" ".join(map(str, draw)) for row in draws for draw in row]


def test_options_that_cannot_work():
    with pytest.raises(BadValue, match=r"candidate_num is 1; ice_num asks for 2"):
        made(lambda _, prompts: [1.0] * len(prompts), candidate_num=1).retrieve()
    with pytest.raises(BadValue, match="needs the prompts of all labels"):
        MDLRetriever(TRAIN, vectors=(VECTORS[0], VECTORS[0]))
    facts = made(lambda _, prompts: [1.0] * len(prompts)).facts
    assert (facts["candidates"], facts["draws"], facts["losses"]) == (4, 3, "given")
    assert "torch" in MDLRetriever.packages({"vectors": VECTORS})
    assert MDLRetriever.packages({"vectors": VECTORS, "losses": max}) == ()


@pytest.mark.needs("torch", "transformers")
def test_losses_of_a_model_leave_out_the_tokens_of_the_examples(tiny_llama):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_llama), AutoModelForCausalLM.from_pretrained(tiny_llama)
    examples, prompt = "one two three\n", "one two three\nfour five six"
    (loss,) = model_losses(str(tiny_llama))(examples, [prompt])
    tokens = tokenizer(prompt, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        probabilities = model(tokens).logits[0].double().log_softmax(-1)
    skipped = len(tokenizer(examples)["input_ids"])
    scored = range(skipped + 1, tokens.shape[1])
    expected = -sum(float(probabilities[place - 1, tokens[0, place]]) for place in scored) / (tokens.shape[1] - skipped)
    assert math.isclose(loss, expected, rel_tol=1e-4)
    with pytest.raises(BadValue, match="fill the window"):
        model_losses(str(tiny_llama))(examples * 3, ["one"])

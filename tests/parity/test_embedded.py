"""The embedded model on onnxruntime against transformers on the same folder, and against its own card."""

from __future__ import annotations

import json
import re
from itertools import product

import numpy as np
import pytest

import kshot
from kshot.backends.embedded import FOLDER, Embedded
from kshot.core.records import Generate, Generated, Prompt
from kshot.lookup.generate import TASKS, generate, group_of
from kshot.lookup.prompt_writer import VARIANTS, prompts
from tests.cases import some
from tests.commands import CAPITALS
from tests.tiny_models import ask_all

NAMES = [task for tasks in TASKS.values() for task in tasks]
LENGTHS = (10, 20, 40, 80, 120)
SEED = 515_151  # neither training nor the card uses it
CARD = FOLDER / "CARD.md"


def mixed():
    """Make sixty prompts: every task ten times, lengths and variants in turn."""
    texts = []
    for index, (task, _) in enumerate(product(NAMES, range(10))):
        records = generate(group_of(task), LENGTHS[index % len(LENGTHS)], 1, SEED + index)
        texts += prompts(records, task=task, variant=VARIANTS[index * 7 % len(VARIANTS)])
    return texts


@pytest.fixture(scope="module")
def model():
    return Embedded()


@pytest.fixture(scope="module")
def other():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    return torch, transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval(), tokenizer


def test_logits_and_greedy_text_are_those_of_transformers(model, other):
    torch, llama, tokenizer = other
    texts = mixed()
    assert len(texts) == 60
    texts = [text for _, text in some(enumerate(texts), 3, lambda place: place[0] // 10)]
    written = ask_all(model, [Generate(Prompt(text), max_tokens=6) for text in texts])
    worst = 0.0
    for text, response in zip(texts, written, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        assert ids[0].tolist() == model._tokenizer.encode(text).ids
        ours, _, _ = model._run_from_start([ids[0].tolist()], np.arange(ids.shape[1])[None])
        with torch.no_grad():
            theirs = llama(ids).logits[0].numpy()
            new = llama.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
        worst = max(worst, float(np.abs(ours[0] - theirs).max()))
        assert isinstance(response, Generated)
        assert response.text == tokenizer.decode(new, skip_special_tokens=True)
    assert worst < 1e-3


def test_padding_and_cache_change_no_logit(model, other):
    torch, llama, tokenizer = other
    rows = [tokenizer(text).input_ids for text in mixed()[:5]]
    lengths = np.array([[len(row)] for row in rows])
    _, past, mask = model._run_from_start(rows, lengths - 1)
    new = np.array([[5], [70], [71], [300], [9]])
    mask = np.concatenate([mask, np.ones_like(new)], axis=1)
    logits, _ = model._run(new, lengths, mask, past, np.zeros_like(new))
    for row, token, ours in zip(rows, new[:, 0].tolist(), logits[:, 0], strict=True):
        with torch.no_grad():
            theirs = llama(torch.tensor([[*row, token]])).logits[0, -1].numpy()
        assert np.abs(ours - theirs).max() < 1e-3


def test_evaluations_with_onnxruntime_and_transformers_agree(tmp_path):
    pytest.importorskip("transformers")
    options = {"length": (10, 50), "variant": ("sep|small|bare", "nosep|same|math_rule"), "samples": 4, "seed": SEED}
    ours, theirs = (kshot.evaluate(name, "lookup", **options) for name in ("embedded", "hf:embedded"))
    assert len(ours.samples) == 6 * 2 * 2 * 4
    for mine, other in zip(ours.samples, theirs.samples, strict=True):
        assert [mine[key] for key in ("id", "prompt", "response", "answer", "scores")] == [
            other[key] for key in ("id", "prompt", "response", "answer", "scores")
        ]
    file = tmp_path / "capitals.py"
    file.write_text(CAPITALS)
    for ranking in ("ppl_no_option", "ppl", "prob"):
        options = {"num_shots": 2, "ranking_type": ranking}
        ours, theirs = (kshot.evaluate(name, f"{file}:Capitals", **options) for name in ("embedded", "hf:embedded"))
        for mine, other in zip(ours.samples, theirs.samples, strict=True):
            assert mine["answer"] == other["answer"]
            assert [(each["text"], each["tokens"]) for each in mine["response"]] == [
                (each["text"], each["tokens"]) for each in other["response"]
            ]
            assert [each["logprob"] for each in mine["response"]] == pytest.approx(
                [each["logprob"] for each in other["response"]], abs=1e-3
            )


@pytest.mark.parametrize(
    ("tasks", "variant", "least"),
    [
        (some(NAMES, 3), "sep|small|simple_rule", 97),
        (("UL", "UR", "NRLast"), "sep|small|bare", 95),
    ],
)
def test_accuracy_on_records_never_trained_on(tasks, variant, least):
    found = kshot.evaluate(
        "embedded", "lookup:" + ",".join(tasks), length=(10, 20, 40), variant=variant, samples=60, seed=SEED
    )
    accuracy = {(row["lookup"], row["length"]): row for row in found.results if row["metric"] == "Accuracy"}
    assert set(accuracy) == set(product(tasks, (10, 20, 40)))
    for place, row in accuracy.items():
        assert row["n"] == 60
        assert row["value"] >= least, place


# ---- the card ----


def card_table(variant):
    """Return task → length → accuracy, and the seed and number of records of the run that the card shows."""
    text = CARD.read_text(encoding="utf-8")
    made = text.split("<!-- table:")[1].split("<!-- end of table -->")[0]
    command = next(line for line in made.splitlines() if line.strip().startswith("kshot run"))
    seed, samples = (int(re.search(rf"--{name} (\d+)", command)[1]) for name in ("seed", "samples"))
    assert f"'{variant}'" in command
    section = made.split(f"### `{variant}`")[1].split("###")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    lengths = [int(length) for length in head[1:]]
    return {row[0]: dict(zip(lengths, row[1:], strict=True)) for row in rows}, seed, samples


@pytest.mark.parametrize(("variant", "task", "length"), [("sep|small|bare", "NRFirst", 120), ("sep|small|simple_rule", "UL", 20)])  # fmt: skip
def test_the_card_agrees_with_a_new_run(variant, task, length):
    table, seed, samples = card_table(variant)
    assert set(table) == set(NAMES)
    found = kshot.evaluate("embedded", f"lookup:{task}", length=length, variant=variant, samples=samples, seed=seed)
    row = next(row for row in found.results if row["metric"] == "Accuracy")
    value, low = map(float, re.fullmatch(r"([\d.]+) \(([\d.]+)\)", table[task][length]).groups())
    assert row["n"] == samples
    # On another processor, rounding may change one record.
    assert value == pytest.approx(row["value"], abs=100 / samples + 0.05)
    assert low == pytest.approx(row["ci95"][0], abs=100 / samples + 0.3)


def test_the_card_is_of_the_shipped_model(model):
    text = CARD.read_text(encoding="utf-8")
    assert model.fingerprint in text
    assert "Apache-2.0" in text
    weights = sum(int(np.prod(entry["shape"])) for name, entry in header().items() if name != "__metadata__")
    assert f"{weights:,} weights" in text


def header():
    data = (FOLDER / "model.safetensors").read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def test_the_shipped_files_have_five_megabytes_at_most():
    files = [path for path in FOLDER.iterdir() if path.is_file() and path.suffix != ".py"]
    names = {path.name for path in files}
    assert {"CARD.md", "config.json", "model.onnx", "model.safetensors", "tokenizer.json"} <= names
    assert sum(path.stat().st_size for path in files) <= 5_000_000

"""``compile``: compiled parts and block masks give the same numbers, and what cannot be compiled runs as before."""

from __future__ import annotations

import functools
import random
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._inductor.codegen.common import KernelArgs  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask  # noqa: E402

from kshot.backends import open_model  # noqa: E402
from kshot.backends.hf import compiling  # noqa: E402
from kshot.backends.hf.compiling import BLOCK_TOKENS, batch_spans, block_tables, row_spans  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.backends.hf.trie import TokenSequence, build_trie, make_tree_batch, plan_tree_batches  # noqa: E402
from kshot.core.errors import UsageError  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt  # noqa: E402
from tests.cases import ALL  # noqa: E402
from tests.tiny_models import ask_all, build  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles with g++, which is not here")
TRACED = functools.partial(torch.compile, backend="aot_eager")
"""Runs compiled graphs with torch's own kernels."""
STEM = "Question: what is the answer to this question? " * 5
OPTIONS = (" A", " the answer is B.", " the answer is C, people say")
SHARED = [Loglik(Prompt(f"{STEM}{at} {'people say ' * (at % 7)}hello"), OPTIONS) for at in range(30)]
APART = [Loglik(Prompt(f"{at} hello what is"), OPTIONS) for at in range(60)]
TEXTS = [Generate(Prompt(f"{STEM}{text}"), max_tokens=5) for text in ("hello", "fox", "0 1 2")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {kind: build(kind, tmp_path_factory.mktemp("compiling") / kind) for kind in ("llama", "gpt2")}


@pytest.fixture
def own_kernels(tmp_path, monkeypatch):
    """Compile anew, into a folder of this test.

    Inductor's FlexAttention for CPUs (seen up to torch 2.13) puts the name of a block's size into its code by text, and
    so breaks other names which begin with it: give it a name with which none begins. GPUs have other code.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))
    plain = KernelArgs.size

    def size(self, symbol):
        if symbol.name.startswith("u"):
            return self.sizevars.setdefault(symbol, f"block_{symbol}_")
        return plain(self, symbol)

    monkeypatch.setattr(KernelArgs, "size", size)
    torch._dynamo.reset()
    with torch._inductor.config.patch(compile_threads=1):
        yield
    torch._dynamo.reset()


def broken(*_args, **_options):
    """Stand for a compiler that fails when a function first runs."""

    def run(*_args, **_options):
        raise RuntimeError("no compiler\nin this world")

    return run


def logprobs(model, requests) -> list[float]:
    return [likelihood.logprob for found in ask_all(model, requests) for likelihood in found.likelihoods]


def assert_same_answers(compiled, plain):
    for requests in (SHARED, SHARED[::-1], APART):  # rows, a cached prefix, tree batches
        assert logprobs(compiled, requests) == pytest.approx(logprobs(plain, requests), abs=1e-4)
    assert ask_all(compiled, TEXTS) == ask_all(plain, TEXTS)


# ---- block masks ----


def random_trie(rng: random.Random, longest: int):
    stems = [[rng.randrange(50) for _ in range(rng.randint(1, longest))] for _ in range(3)]
    tails = [[rng.randrange(50) for _ in range(rng.randint(1, longest))] for _ in range(8)]
    sequences = [np.array(rng.choice(stems) + tail, np.int32) for tail in tails]
    return build_trie([TokenSequence(sequence, 0) for sequence in sequences])


def assert_tables_are_those_of_torch(spans, queries):
    rows, _, keys = spans.shape
    given = torch.from_numpy(spans)
    right = create_block_mask(
        lambda b, _h, q, k: (given[b, 0, k] <= q) & (q < given[b, 1, k]), rows, None, queries, keys, device="cpu"
    )
    expected = (right.kv_num_blocks, right.kv_indices, right.full_kv_num_blocks, right.full_kv_indices)
    for ours, theirs in zip(block_tables(spans, queries), expected, strict=True):
        assert ours.dtype == np.int32
        assert ours.tolist() == theirs.tolist()


def test_the_blocks_of_a_row_are_those_that_torch_finds():
    rng = random.Random(1)
    for _ in range(20):
        trie = random_trie(rng, 150)
        first = rng.randrange(len(trie))
        last = rng.randint(first + 1, len(trie))
        cached = np.flatnonzero(trie.ends[:first] > first)
        places = np.concatenate([cached, np.arange(first, last)])
        spans = row_spans(last - first, trie.ends[places], first, rng.choice([0, 5, 200]))
        for at, query in enumerate(range(first, last)):  # each token sees its ancestors and itself
            seen = np.flatnonzero((spans[0, 0] <= at) & (at < spans[0, 1]))
            assert places[seen].tolist() == [j for j in range(query + 1) if trie.ends[j] > query]
        assert_tables_are_those_of_torch(spans, last - first)


@pytest.mark.parametrize("equal_width", [True, False])
def test_the_blocks_of_a_tree_batch_are_those_that_torch_finds(equal_width):
    rng = random.Random(2)
    for _ in range(10):
        trie = plan_tree_batches(random_trie(rng, 90), 1024, equal_width=equal_width)
        if len(trie.row_edges) > 1:
            batch = make_tree_batch(trie, 0, len(trie.row_edges) - 1)
            assert_tables_are_those_of_torch(batch_spans(batch.ends), batch.ends.shape[1])


# ---- numbers ----


@needs_compiler
def test_a_compiled_model_gives_the_same_answers_with_few_kernels(folders, own_kernels, monkeypatch):
    if not ALL:  # traced as for a compiler, without the time of one
        monkeypatch.setattr(torch, "compile", TRACED)
    used = []
    plain_flex = compiling.attend_with_block_mask
    monkeypatch.setattr(
        compiling,
        "attend_with_block_mask",
        lambda *args, **options: used.append(args[1].shape) or plain_flex(*args, **options),
    )
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiled = Transformers(str(folders["llama"]), device="cpu", compile=True)
    plain = Transformers(str(folders["llama"]), device="cpu")
    assert_same_answers(compiled, plain)
    assert compiled.notes == ()
    assert compiled.token_counts == plain.token_counts
    assert {shape[0] == 1 for shape in used} == {True, False}  # rows and tree batches
    assert len({shape[2] for shape in used}) > 3
    assert min(shape[2] for shape in used) > BLOCK_TOKENS
    # The norm and the MLP; the attention of rows in two layouts of the cache, and of batches.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before <= 5


def test_another_family_of_models(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", TRACED)
    compiled = Transformers(str(folders["gpt2"]), device="cpu", compile=True)
    assert_same_answers(compiled, Transformers(str(folders["gpt2"]), device="cpu"))
    assert compiled.notes == ()
    assert {part.name for part in compiled._runner._packed.compiled._parts.values()} == {"Conv1D", "GPT2MLP"}


# ---- what cannot be compiled ----


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_compiler_that_fails_is_noted_and_nothing_else_changes(folders, kind, monkeypatch):
    monkeypatch.setattr(torch, "compile", broken)
    compiled = Transformers(str(folders[kind]), device="cpu", compile=True)
    assert_same_answers(compiled, Transformers(str(folders[kind]), device="cpu"))
    parts = {"llama": ("LlamaMLP", "LlamaRMSNorm"), "gpt2": ("Conv1D", "GPT2MLP")}[kind]
    assert sorted(compiled.notes) == sorted(
        [
            *(f"runs {part} uncompiled: RuntimeError: no compiler" for part in parts),
            "runs its attention with dense masks: RuntimeError: no compiler",
        ]
    )


def test_a_compiler_that_fails_in_mid_run_changes_no_answer(folders, monkeypatch):
    calls = []

    def until_later(function, **_options):
        def run(*args, **options):
            calls.append(function)
            if len(calls) > 40:
                raise RuntimeError("the disk is full")
            return function(*args, **options)

        return run

    monkeypatch.setattr(torch, "compile", until_later)
    monkeypatch.setattr(torch.nn.attention.flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    compiled = Transformers(str(folders["llama"]), device="cpu", compile=True)
    assert_same_answers(compiled, Transformers(str(folders["llama"]), device="cpu"))
    assert len(calls) == 43  # each of the three parts once more
    assert sum("the disk is full" in note for note in compiled.notes) == 3


def test_a_trial_that_differs_leaves_out_the_attention_alone(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_options: function)
    monkeypatch.setattr(
        torch.nn.attention.flex_attention, "flex_attention", lambda query, _key, _value, **_options: query * 0
    )
    compiled = Transformers(str(folders["llama"]), device="cpu", compile=True)
    assert_same_answers(compiled, Transformers(str(folders["llama"]), device="cpu"))
    (note,) = compiled.notes
    assert note.startswith("runs its attention with dense masks: a trial differs from unpacked computing by ")


def test_a_trial_that_differs_anyway_leaves_out_all(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_options: lambda *args, **options: args[1] * 0)
    compiled = Transformers(str(folders["llama"]), device="cpu", compile=True)
    assert_same_answers(compiled, Transformers(str(folders["llama"]), device="cpu"))
    (note,) = compiled.notes
    assert note.startswith("runs uncompiled: a trial differs from unpacked computing by ")


def test_memory_that_runs_out_is_no_failure_of_the_compiler():
    part = compiling.CompiledPart("part", torch, lambda: None)

    def no_memory():
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        part.attempt(no_memory, lambda: "plain")
    assert part.failure == ""


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_size": 1}, "each request is computed by itself"),
        ({"device_map": "sequential"}, "it is split over devices"),
    ],
)
def test_models_of_which_nothing_is_compiled(folders, monkeypatch, options, reason):
    monkeypatch.setattr(torch, "compile", broken)
    if "device_map" in options:
        pytest.importorskip("accelerate")
        options = {
            "device_map": {
                "model.embed_tokens": "cpu",
                "model.layers": "cpu",
                "model.norm": "cpu",
                "model.rotary_emb": "cpu",
                "lm_head": "disk",
            }
        }
    model = Transformers(
        str(folders["llama"]), **({"device": "cpu"} if "batch_size" in options else {}), compile=True, **options
    )
    ask_all(model, SHARED[:2])
    assert model.notes == (f"runs uncompiled: {reason}",)


def test_an_eager_attention_keeps_its_dense_masks(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_options: function)
    model = Transformers(str(folders["llama"]), device="cpu", compile=True)
    model._model.set_attn_implementation("eager")
    assert logprobs(model, SHARED) == pytest.approx(
        logprobs(Transformers(str(folders["llama"]), device="cpu"), SHARED), abs=1e-4
    )
    assert model.notes == ("runs its attention with dense masks: its attention is eager",)


def test_what_an_attention_asks_beyond_a_mask_is_left_to_transformers(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", broken)
    part = compiling.CompiledPart("attention", torch, None)
    spans = batch_spans(np.array([[3, 2, 3]]))
    tables = [torch.from_numpy(table) for table in block_tables(spans, 3)]
    mask = compiling.tree_mask_class()(part, torch.from_numpy(spans), 3, tables)
    states = torch.randn(1, 2, 3, 8)
    bias = torch.zeros(1, 2, 3, 3)
    found, _ = compiling.attend_with_block_mask(torch.nn.Module(), states, states, states, mask, position_bias=bias)
    assert part.failure == "NotImplementedError: its attention has position_bias"
    seen = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    right = torch.nn.functional.scaled_dot_product_attention(states, states, states, attn_mask=seen)
    assert torch.allclose(found, right.transpose(1, 2), atol=1e-6)
    with pytest.raises(TypeError, match="mask"):
        compiling.attend_with_block_mask(torch.nn.Module(), states, states, states, None)


def test_it_is_an_option_of_the_spec_and_no_part_of_the_fingerprint(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", broken)
    model = open_model(f"hf:{folders['llama']},compile=yes,device=cpu")
    assert model.name.endswith(",compile=yes,device=cpu")
    assert model.fingerprint == Transformers(str(folders["llama"]), device="cpu").fingerprint
    ask_all(model, SHARED[:2])
    assert any("uncompiled" in note for note in model.notes)


def test_nothing_of_it_stays_in_the_model(folders, monkeypatch):
    monkeypatch.setattr(torch, "compile", broken)
    model = Transformers(str(folders["llama"]), device="cpu", compile=True)
    ask_all(model, SHARED[:4])
    assert model._model.config._attn_implementation == "sdpa"
    assert not [module for module in model._model.modules() if "forward" in vars(module)]


def test_the_same_bytes_are_not_promised_for_it(folders):
    with pytest.raises(UsageError, match="--deterministic cannot be promised"):
        Transformers(str(folders["llama"]), device="cpu", compile=True, deterministic=True)

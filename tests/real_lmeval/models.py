"""Tiny models of three tokenizer families, trained for seconds on the text of the tasks, so that some answers are right."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tests.tiny_models import tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

POSITIONS = 512
STEPS = 400
FAMILIES = ("byte-level BPE", "unigram with metaspace and BOS", "byte-fallback BPE with BOS")
LLAMA_3 = "byte-level BPE by Llama 3's pattern, with BOS"
LLAMA_3_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<unk>", "<s>", "</s>"]


def family_tokenizer(family: str, texts: Sequence[str]) -> Any:
    """Train a tokenizer: as GPT-2 has it, as Llama 2 or T5, as Gemma, as Llama 3."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bos = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    quiet = {"special_tokens": SPECIAL, "show_progress": False}
    match family:
        case "byte-level BPE":
            core = Tokenizer(models.BPE())
            core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            core.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=460, initial_alphabet=alphabet, **quiet))
            core.post_processor = processors.ByteLevel(trim_offsets=True)
        case "unigram with metaspace and BOS":
            core = Tokenizer(models.Unigram())
            core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
            core.decoder = decoders.Metaspace(prepend_scheme="always")
            core.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", **quiet))
            core.post_processor = bos
        case "byte-level BPE by Llama 3's pattern, with BOS":
            core, bytes_only = (
                Tokenizer(models.BPE()),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            )
            split = pre_tokenizers.Split(Regex(LLAMA_3_PATTERN), "isolated")
            core.pre_tokenizer, core.decoder = pre_tokenizers.Sequence([split, bytes_only]), decoders.ByteLevel()
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            core.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=460, initial_alphabet=alphabet, **quiet))
            core.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), bos])
        case "byte-fallback BPE with BOS":
            core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
            core.normalizer = normalizers.Replace(" ", "▁")
            core.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
            core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
            byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
            trainer = trainers.BpeTrainer(
                vocab_size=560, limit_alphabet=60, special_tokens=[*SPECIAL, *byte_tokens], show_progress=False
            )
            core.train_from_iterator(texts, trainer)
            core = _plain_bytes(core, byte_tokens)
            core.post_processor = bos
    ends = (
        {"bos_token": "<s>", "eos_token": "</s>"}
        if family != FAMILIES[0]
        else {"bos_token": "</s>", "eos_token": "</s>"}
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", **ends)


def _plain_bytes(core: Any, byte_tokens: Sequence[str]) -> Any:
    """Make the byte tokens ordinary ones: as special tokens they would be cut out of texts that spell them."""
    import json

    from tokenizers import Tokenizer

    written = json.loads(core.to_str())
    written["added_tokens"] = [token for token in written["added_tokens"] if token["content"] not in byte_tokens]
    return Tokenizer.from_str(json.dumps(written))


def build_family(family: str, folder: Path, texts: Sequence[str]) -> Path:
    """Train a model of the family on the texts and save it."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # so small a model is slower on several
    torch.manual_seed(FAMILIES.index(family))
    tokenizer = family_tokenizer(family, texts)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.eos_token_id, **ends}
    if family == FAMILIES[0]:
        shape = {
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": POSITIONS,
            "resid_pdrop": 0.0,
            "attn_pdrop": 0.0,
        }
        model: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, embd_pdrop=0.0, **size))
    else:
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "hidden_size": 64}
        config = transformers.LlamaConfig(intermediate_size=128, max_position_embeddings=POSITIONS, **heads, **size)
        model = transformers.LlamaForCausalLM(config)
    train(model, tokenizer, texts)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def random_model(folder: Path, tokenizer: Any = None) -> Path:
    """Save a model with random weights, the same every time; its tokenizer is of the first family if none is given."""
    import torch
    import transformers

    tokenizer = tokenizer or tokenizer_of(bos=False)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    size = {"vocab_size": len(tokenizer), **ends}
    shape = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 2 * POSITIONS, "initializer_range": 0.2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def weights_digest(folder: Path) -> str:
    """Return a digest of weights and tokenizer: another version of torch or tokenizers may make others."""
    digest = hashlib.sha256((folder / "tokenizer.json").read_bytes())
    digest.update((folder / "model.safetensors").read_bytes())
    return digest.hexdigest()


def train(model: Any, tokenizer: Any, texts: Sequence[str]) -> None:
    """Train for some seconds on pieces of the joined texts."""
    import torch

    ids = torch.tensor([each for text in texts for each in [*tokenizer.encode(text), tokenizer.eos_token_id]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    length, draws = 128, torch.Generator().manual_seed(0)
    model.train()
    for _ in range(STEPS):
        starts = torch.randint(len(ids) - length, (8,), generator=draws)
        batch = torch.stack([ids[start : start + length] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()

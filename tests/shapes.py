"""Random models of many architectures, small enough to compare by hand, with the tokenizer of ``tiny_models``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.tiny_models import tokenizer_of

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.2}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GROUPED),
    "gpt2": ("GPT2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 2048, "initializer_range": 0.2}),
    "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 12}),
    "gemma": ("Gemma", {**GROUPED, "head_dim": 12}),
    "gemma2": ("Gemma2", {**GROUPED, "head_dim": 12, "sliding_window": 1024, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3", {**GROUPED, "head_dim": 12, "sliding_window": 1024}),
    "neox": ("GPTNeoX", {**SMALL, "max_position_embeddings": 2048, "initializer_range": 0.2}),
    "opt": (
        "OPT",
        {**SMALL, "ffn_dim": 96, "max_position_embeddings": 2048, "init_std": 0.2, "word_embed_proj_dim": 48},
    ),
    "granite": ("Granite", {**GROUPED, "logits_scaling": 4.0, "residual_multiplier": 0.5}),
    "cohere": ("Cohere", {**GROUPED, "logit_scale": 0.25}),
    "phi3": ("Phi3", {**GROUPED, "pad_token_id": 0}),
    "mixtral": ("Mixtral", {**GROUPED, "num_local_experts": 4, "sliding_window": None}),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 24}),
    "bloom": ("Bloom", {"hidden_size": 48, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}),
    "mpt": ("Mpt", {"d_model": 48, "n_layers": 2, "n_heads": 4, "max_seq_len": 2048, "initializer_range": 0.2}),
    "mamba": ("Mamba", {"hidden_size": 48, "num_hidden_layers": 2, "state_size": 8, "initializer_range": 0.2}),
    "rwkv": ("Rwkv", {"hidden_size": 48, "num_hidden_layers": 2, "attention_hidden_size": 48, "context_length": 2048}),
}


def shaped(name: str, folder: Path, **changes: Any) -> Path:
    """Save a random model of this shape."""
    import torch
    import transformers

    tokenizer = tokenizer_of(bos=False)
    kind, options = SHAPES[name]
    size = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1}
    config_name = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    config = getattr(transformers, config_name)(**{**size, **options, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                # Biases and norms begin at 0 and 1, which would hide mistakes.
                if parameter.dim() == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

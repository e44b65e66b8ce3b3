"""A Llama-shaped transformer with Hugging Face's parameter names, simple enough to train fast."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """Sizes of the model: 2.3 million weights, 4.6 MB in fp16."""

    vocab_size: int = 480
    hidden_size: int = 192
    intermediate_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 6
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden_size))
        self.eps = shape.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        """Scale to unit mean square, in fp32."""
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, self.eps).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.heads = shape.hidden_size, shape.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend to the tokens so far."""
        batch, length, width = x.shape
        q, k, v = (
            p(x).view(batch, length, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, width))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (i, i + half) by the angle of their position."""
    left, right = x.chunk(2, -1)
    return (x * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply SwiGLU."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each normalised and added."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(shape), Mlp(shape)
        self.input_layernorm, self.post_attention_layernorm = Norm(shape), Norm(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Apply one block."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The embedding, the layers and the last norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = Norm(shape)


class Llama(nn.Module):
    """The whole model; the output weights are the embedding's."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.model = shape, Decoder(shape)
        half = shape.hidden_size // shape.num_attention_heads // 2
        angles = torch.outer(
            torch.arange(shape.max_position_embeddings).float(),
            shape.rope_theta ** (-torch.arange(half).float() / half),
        ).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * shape.num_hidden_layers) ** 0.5 if deep else 0.02)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the last hidden states."""
        x = self.model.embed_tokens(tokens)
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            x = x.bfloat16()
        cos, sin = self.cos[: tokens.shape[1]].to(x.dtype), self.sin[: tokens.shape[1]].to(x.dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits at every position."""
        return F.linear(self.hidden(tokens), self.model.embed_tokens.weight)


def save(model: Llama, folder: Path) -> None:
    """Write the fp16-rounded weights as a Hugging Face Llama checkpoint that computes in fp32."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: p.detach().half().cpu().contiguous() for name, p in model.named_parameters()}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    sizes = asdict(model.shape)
    theta = sizes.pop("rope_theta")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **sizes,
        "num_key_value_heads": sizes["num_attention_heads"],
        "head_dim": sizes["hidden_size"] // sizes["num_attention_heads"],
        "hidden_act": "silu",
        "rope_theta": theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")

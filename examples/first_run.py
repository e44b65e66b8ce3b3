"""What ``make run`` shows: a dataset class on a tiny model that is made on the spot."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kshot.cli import main

HERE = Path(__file__).parent


def build(folder: Path) -> Path:
    """Make a random Llama of two layers with a byte-level tokenizer: it knows nothing, and runs everywhere."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(["<s>", *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet) + 1, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=2048, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>").save_pretrained(folder)
    return folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        model = build(Path(folder) / "tiny")
        data = HERE / "planets.py"
        main(["preview", "-d", f"{data}:Planets", "-k", "2", "--limit", "1"])
        sys.exit(
            main(
                [
                    "run",
                    "-m",
                    f"hf:{model}",
                    "-d",
                    f"{data}:Planets",
                    "-d",
                    f"{data}:PlanetNames",
                    "-k",
                    "2",
                    "--out",
                    f"{folder}/run",
                ]
            )
        )

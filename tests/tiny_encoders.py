"""Tiny random search models, saved as real model folders: a sentence encoder, a ColBERT model, a cross-encoder."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WORDS = (
    "the a of to in and is was for on with as by at from this that what which who how why when where not no are be it "
    "cat dog fox bird fish tree river stone house city king queen ship star moon sun rain snow wind fire red blue green "
    "quick slow old new big small runs sleeps eats flies swims grows falls shines burns"
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MARKS = ("[Q] ", "[D] ")
WIDTH = 32
SKIPPED = list(string.punctuation)
TEXTS = [
    "The cat sleeps.",
    "a dog runs, in the rain!",
    "the red fox - the blue bird",
    "star moon sun",
    "old king",
    "日",
]
"""Passages in these words, and one that is not; the next is longer than what the models read."""
LONG = "a dog runs in the rain and the old king eats fish " * 4 + "star moon"


def sentence_encoder(
    folder: Path, *, length: int = 24, prompts: Mapping[str, str] | None = None, seed: int = 0
) -> Path:
    """Save a BERT with mean pooling that reads ``length`` tokens."""
    _save_bert(folder, tiny_tokenizer(length), seed)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    _write(folder / "config_sentence_transformers.json", {"prompts": dict(prompts or {}), "default_prompt_name": None})
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True})
    return folder


def colbert(folder: Path, *, query_length: int = 12, length: int = 24, width: int = 16, seed: int = 0) -> Path:
    """Save a ColBERT model as PyLate 1.x does: a BERT, a projection, and marks that are tokens of their own."""
    import torch
    from safetensors.torch import save_file

    tokenizer = tiny_tokenizer(length - 1)
    tokenizer.add_tokens(list(MARKS))
    _save_bert(folder, tokenizer, seed)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length - 1, "do_lower_case": False})
    settings = {
        "model_type": "ColBERT",
        "prompts": {"query": "", "document": ""},
        "default_prompt_name": None,
        "similarity_fn_name": "MaxSim",
        "query_prefix": MARKS[0],
        "document_prefix": MARKS[1],
        "query_length": query_length,
        "document_length": length,
        "attend_to_expansion_tokens": False,
        "skiplist_words": SKIPPED,
        "do_query_expansion": True,
    }
    _write(folder / "config_sentence_transformers.json", settings)
    layer = {
        "in_features": WIDTH,
        "out_features": width,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
        "use_residual": False,
    }
    _write(folder / "1_Dense" / "config.json", layer)
    weight = torch.randn(width, WIDTH, generator=torch.Generator().manual_seed(seed))
    save_file({"linear.weight": weight}, folder / "1_Dense" / "model.safetensors")
    return folder


def cross_encoder(folder: Path, *, length: int = 32, labels: int = 1, seed: int = 0) -> Path:
    """Save a BERT that gives a pair of texts one score (or several)."""
    _save_bert(folder, tiny_tokenizer(length), seed, labels=labels)
    return folder


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _save_bert(folder: Path, tokenizer: Any, seed: int, labels: int = 0) -> None:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.4,
        num_labels=labels or 1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = (transformers.BertForSequenceClassification if labels else transformers.BertModel)(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def tiny_tokenizer(length: int) -> Any:
    """Make a tokenizer: WordPiece over a list of words, and any other ASCII word letter by letter."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = string.ascii_lowercase + string.digits
    pieces = dict.fromkeys([*SPECIAL, *WORDS.split(), *letters, *(f"##{one}" for one in letters), *string.punctuation])
    core = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )

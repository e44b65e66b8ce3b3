"""The embedded model's tokenizer: byte-level BPE whose merges are learnt from kshot's own template texts.

Each of the 62 characters is one token, alone and with a space before it; so is a blank line. The other merges form the
words of the templates. Nothing is random: of equally frequent pairs, the one that sorts first is merged.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from kshot.lookup.generate import VOCAB
from kshot.lookup.prompt_writer import default_texts

SIZE = 480
END = "<|end|>"
# Words, single digits, runs of newlines, runs of marks; a word, digit or mark includes the space before it.
PATTERN = r" ?[A-Za-z]+| ?[0-9]|\n+| ?[^\sA-Za-z0-9]+|\s"


def byte_alphabet() -> dict[int, str]:
    """Return the printable character of each byte, as byte-level tokenizers write them."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def corpus() -> str:
    """Return all text around the examples of a completion prompt."""
    texts = default_texts()
    pieces = [*texts["completion"].values(), texts["explanation"]]
    pieces += [text for rule in texts["rules"].values() for text in rule.values()]
    pieces += [text for words in texts["separators"].values() for text in words.values()]
    return "\n".join(re.sub(r"\{\w+\}", "", piece) for piece in pieces)


def learn(size: int) -> list[tuple[str, str]]:
    """Return the merges in order of rank: the 62 spaced characters, the bar, the blank line, the commonest pairs."""
    alphabet = byte_alphabet()
    space, newline = alphabet[32], alphabet[10]
    merges = [(space, c) for c in VOCAB] + [(space, "|"), (newline, newline)]
    words = Counter(tuple(alphabet[b] for b in word.encode()) for word in re.findall(PATTERN, corpus()))
    for pair in merges:
        words = _merged(words, pair)
    while len(merges) < size - 257:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        words = _merged(words, merges[-1])
    return merges


def _merged(words: Counter[tuple[str, ...]], pair: tuple[str, str]) -> Counter[tuple[str, ...]]:
    merged: Counter[tuple[str, ...]] = Counter()
    for word, count in words.items():
        out: list[str] = []
        for symbol in word:
            if out and (out[-1], symbol) == pair:
                out[-1] += symbol
            else:
                out.append(symbol)
        merged[tuple(out)] += count
    return merged


def build(size: int = SIZE) -> Tokenizer:
    """Make the tokenizer."""
    merges = learn(size)
    symbols = [END, *byte_alphabet().values(), *(left + right for left, right in merges)]
    vocabulary = {symbol: index for index, symbol in enumerate(dict.fromkeys(symbols))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json``, and the configuration that transformers needs beside it."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")

"""The tokens of texts, for classes that fit their own examples; a run records them, to be scored again alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b


class TokenLengths:
    """Counts the tokens of texts: by the model's tokenizer, else as an earlier run recorded them, else by bytes."""

    def __init__(self, count: Callable[[str], int] | None = None, recorded: Mapping[str, int] | None = None) -> None:
        """``recorded`` are the counts of an earlier run, by the digest of each text."""
        self._count = count
        self.counts: dict[str, int] = dict(recorded or {})

    @property
    def known(self) -> bool:
        """Whether tokens are counted, now or by an earlier run; else it is bytes."""
        return self._count is not None or bool(self.counts)

    def __call__(self, text: str) -> int:
        """Return the number of tokens of a text."""
        content = text.encode("utf-8", "surrogatepass")
        if not self.known:
            return len(content)
        key = blake2b(content, digest_size=8).hexdigest()
        if key not in self.counts:
            if self._count is None:
                return len(content)
            self.counts[key] = self._count(text)
        return self.counts[key]

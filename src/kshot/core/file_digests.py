"""The digest of a file, by which a later process knows that it is as it was written."""

from __future__ import annotations

import hashlib
from typing import IO

DIGEST_BYTES = 16
_READ_BYTES = 1 << 22


def content_digest(file: IO[bytes]) -> bytes:
    """Return the digest of a file from its present position to its end."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while block := file.read(_READ_BYTES):
        state.update(block)
    return state.digest()

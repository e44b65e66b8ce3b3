"""The global random generators, seeded for dataset files that draw from them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.RLock()
_LARGEST_SEED = 2**32


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed ``random`` and ``numpy.random`` for a block; their states are restored afterwards."""
    import numpy as np

    with _LOCK:
        plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - the files draw from the global one
        random.seed(seed)
        np.random.seed(seed % _LARGEST_SEED)  # noqa: NPY002 - see above
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002 - see above

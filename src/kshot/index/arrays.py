"""Names for the kinds of numpy arrays that the indexes hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any numbers."""
Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Positions: TypeAlias = npt.NDArray[np.intp]
"""Numbers of rows, columns or passages."""

"""Filters of EXT_meshopt_compression.

Stored values to the ones that accessors describe (its appendix B).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_Bytes = npt.NDArray[np.uint8]


def _octahedral(values: _Bytes) -> npt.NDArray[Any]:
    """Return unit vectors as normalised integers, (n, 4), the fourth as it was."""
    stride = values.shape[1]
    if stride not in (4, 8):
        raise ValueError(f"filter OCTAHEDRAL with a stride of {stride} bytes; it needs 4 or 8")
    stored = values.view("i1" if stride == 4 else "<i2")
    wide = stored.astype(np.float32)
    one = np.where(wide[:, 2] == 0.0, np.float32(1.0), wide[:, 2])
    x = wide[:, 0] / one
    y = wide[:, 1] / one
    z = np.float32(1.0) - np.abs(x) - np.abs(y)
    fold = np.minimum(z, np.float32(0.0))
    x = x - np.copysign(fold, x)
    y = y - np.copysign(fold, y)
    vectors = np.stack((x, y, z), axis=1)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    made = stored.copy()
    made[:, :3] = np.rint(unit * np.iinfo(stored.dtype).max)
    return made


def _quaternion(values: _Bytes) -> npt.NDArray[Any]:
    """Return unit quaternions as normalised integers of 16 bits, (n, 4)."""
    if values.shape[1] != 8:
        raise ValueError(f"filter QUATERNION with a stride of {values.shape[1]} bytes; it needs 8")
    stored = values.view("<i2")
    largest = stored[:, 3] & 3
    one = (stored[:, 3] | 3).astype(np.float64)
    three = stored[:, :3] / one[:, None] / np.sqrt(2.0)
    w = np.sqrt(np.maximum(1.0 - (three**2).sum(axis=1), 0.0))
    made = np.zeros(stored.shape, "<i2")
    rows = np.arange(len(stored))
    for step, component in enumerate((w, *three.T)):
        made[rows, (largest + step) % 4] = np.rint(component.clip(-1.0, 1.0) * 32767.0)
    return made


def _exponential(values: _Bytes) -> npt.NDArray[Any]:
    """Return floats, (n, k)."""
    stored = values.view("<i4")
    exponent = stored >> 24
    mantissa = (stored << 8) >> 8
    return np.asarray(np.ldexp(mantissa.astype(np.float64), exponent), "<f4")


FILTERS: Final[Mapping[str, Callable[[_Bytes], npt.NDArray[Any]] | None]] = {
    "NONE": None,
    "OCTAHEDRAL": _octahedral,
    "QUATERNION": _quaternion,
    "EXPONENTIAL": _exponential,
}
"""By name; None = the values are stored as they are."""

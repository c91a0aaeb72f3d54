"""From what the pass wrote to what a view asked for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M

__all__ = ["depth16", "gray8"]


def gray8(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Luma of sRGB values (h, w, 3): (77 R + 150 G + 29 B) / 256, shape (h, w)."""
    wide = rgb[..., 0].astype(np.uint16)
    wide *= 77
    wide += rgb[..., 1] * np.uint16(150)
    wide += rgb[..., 2] * np.uint16(29)
    wide >>= 8
    return wide.astype(np.uint8)


def depth16(z_m: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Metres (h, w) to metres x 655.35 rounded to nearest; 65535 = 100 m and beyond. Overwrites its argument."""
    z_m *= np.float32(DEPTH_UNITS_PER_M)
    z_m += np.float32(0.5)
    np.minimum(z_m, np.float32(DEPTH_NO_HIT), out=z_m)
    return z_m.astype(np.uint16)

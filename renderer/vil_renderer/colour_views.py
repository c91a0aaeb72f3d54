"""Images of ids, flow, normals and depth as colours for people.

uint8 (h, w, 3), R, G, B, top row first.
"""

from __future__ import annotations

from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import DEPTH_NO_HIT, BoolArray, ImageArray

FLOW_GAIN_PER_PX: Final = 1.0 / 32.0
"""Motion of 32 pixels and more is shown at full brightness."""

_Colour = npt.NDArray[np.uint8]
# An odd factor makes the product modulo 2^24 unique for each id; this one, near the golden ratio,
# puts neighbouring ids far apart.
_SPREAD: Final = 0x9E3779
_CODES: Final = (np.arange(65536, dtype=np.uint32) * _SPREAD) & 0xFFFFFF
_ID_COLOURS: Final[_Colour] = np.stack((_CODES >> 16, _CODES >> 8, _CODES), axis=1).astype(np.uint8)


def ids_to_colour(ids: ImageArray) -> _Colour:
    """Convert semantic or instance ids, uint16 (h, w).

    One colour for each id, black for 0 (none).
    """
    colour: _Colour = np.take(_ID_COLOURS, ids, axis=0)
    return colour


def flow_to_colour(
    flow_px: ImageArray, valid: BoolArray | None = None, gain: float = FLOW_GAIN_PER_PX
) -> _Colour:
    """Convert optical flow, float32 (h, w, 2), x right, y down.

    Hue shows the direction, brightness the length.

    Hue is atan2(-dy, -dx) / 2 pi + 0.5, which is the angle of (dx, dy) as a share of the circle;
    saturation 1, value min(1, gain |d|); black where not ``valid``.
    """
    dx, dy = (np.ascontiguousarray(flow_px[..., i], np.float32) for i in range(2))
    length, hue_deg = (np.asarray(part) for part in cv2.cartToPolar(dx, dy, angleInDegrees=True))
    value = np.minimum(length * np.float32(gain), np.float32(1.0))
    if valid is not None:
        value *= valid
    rgb: Any = cv2.cvtColor(np.dstack((hue_deg, np.ones_like(value), value)), cv2.COLOR_HSV2RGB)
    return _to_bytes(rgb)


def normals_to_colour(normals: ImageArray) -> _Colour:
    """Convert unit normals, float (h, w, 3): (n + 1) / 2 as R, G, B.

    Middle grey where there is no surface.
    """
    return _to_bytes(0.5 * normals.astype(np.float32) + 0.5)


def depth_to_grey(depth_u16: ImageArray) -> _Colour:
    """Convert depth16 (h, w): the fourth root of z / 100 m, so that near things differ.

    White = 100 m or no hit.
    """
    grey = _to_bytes(np.power(depth_u16.astype(np.float32) / DEPTH_NO_HIT, 0.25))
    return np.repeat(grey[:, :, None], 3, axis=2)


def _to_bytes(shares: ImageArray) -> _Colour:
    scaled: Any = cv2.convertScaleAbs(shares, alpha=255.0)  # rounds and saturates
    return np.asarray(scaled, np.uint8)

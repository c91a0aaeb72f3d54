"""Pictures in which Flightmare shows instances and motion as colours."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, ImageArray
from vil_renderer.colour_views import flow_to_colour

_IDS: Final = 1 << 16


def _colour_table() -> npt.NDArray[np.uint8]:
    """Return the colours (65536, 3) of the non-negative instance numbers of 16 bits.

    The number is doubled (odd ones are for negative numbers); the bits of its three low bytes are
    reversed and dealt out in turn to the 24 bits of the colour, so that near numbers get far
    colours.
    """
    u = 2 * np.arange(_IDS, dtype=np.uint32)
    mixed = np.zeros(_IDS, np.uint32)
    for byte in range(3):
        for bit in range(8):
            mixed |= ((u >> (8 * byte + bit)) & 1) << (3 * (7 - bit) + byte)
    return np.stack([mixed >> 8, mixed >> 16, mixed], axis=-1).astype(np.uint8)


_COLOURS: Final = _colour_table()
_CODES: Final = _COLOURS.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
_ORDER: Final = np.argsort(_CODES)


def colours_of_ids(ids: ImageArray) -> npt.NDArray[np.uint8]:
    """Return the segmentation layer: colours (h, w, 3) of instance numbers (h, w), 0 is black."""
    return _COLOURS[ids]


def ids_of_colours(colours: ImageArray) -> npt.NDArray[np.uint16]:
    """Return the instance numbers (h, w) of the colours of :func:`colours_of_ids`.

    0 for any other colour.
    """
    codes = colours.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    at = _ORDER[np.minimum(np.searchsorted(_CODES, codes, sorter=_ORDER), _IDS - 1)]
    return np.where(_CODES[at] == codes, at, 0).astype(np.uint16)


def flow_colours(flow_px: ImageArray, valid: BoolArray | None) -> npt.NDArray[np.uint8]:
    """Return the optical-flow layer (h, w, 3): hue shows the direction, value the length.

    Args:
        flow_px: (h, w, 2), pixels, x right, y down; Unity's motion is in fractions of the picture,
            y up.
        valid: (h, w), where the flow is known; black elsewhere.
    """
    height, width = flow_px.shape[:2]
    return flow_to_colour(flow_px / np.array([width, -height], np.float32), valid, gain=1.0)

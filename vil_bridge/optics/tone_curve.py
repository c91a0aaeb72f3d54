"""Tone curve of pictures with baked light.

Linear in the mid tones, shadows lifted, highlights rolled off.

It maps display values to display values, so that it is the same curve at every way of shading:
light is encoded as without it, but not cut off at 1, and the curve brings what lies above white
into the picture.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

TOE: Final = 0.25
"""Display value below which shadows are lifted."""
LIFT: Final = 0.8
"""Slope in the darkest shadows, less 1."""
SHOULDER: Final = 0.75
"""Display value above which highlights are rolled off."""
WHITE: Final = 1.85
"""Display value that becomes 1: light of 4.1."""
TONE_CURVE: Final = "tone_curve"
"""Key of a renderer's information: its pictures have the curve."""
_STEPS: Final = 1 << 14


def toned(display: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the values 0..1 of pictures for display values from 0 to any height.

    The same sum as in the shaders.
    """
    low = np.maximum(1.0 - display / TOE, 0.0)
    lifted = np.minimum(display, SHOULDER) + LIFT * display * low**2
    room = 1.0 - SHOULDER
    above = np.clip(display - SHOULDER, 0.0, WHITE - SHOULDER) / room
    most = (WHITE - SHOULDER) / room
    return np.asarray(lifted + room * above * (1.0 + above / most**2) / (1.0 + above), np.float64)


def untoned(picture: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the display values before the curve of a picture's, 0..1."""
    display, shown = _table()
    return np.asarray(np.interp(picture, shown, display), np.float64)


@lru_cache(maxsize=1)
def _table() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    display = np.linspace(0.0, WHITE, _STEPS)
    return display, toned(display)


def linear(display: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the linear light of display values (sRGB), from 0 to any height."""
    return np.where(display <= 0.04045, display / 12.92, ((display + 0.055) / 1.055) ** 2.4)


@lru_cache(maxsize=2)
def light_of_levels(*, tone_curve: bool) -> npt.NDArray[np.float32]:
    """Return the linear light of each level of a picture, 1 = white without the curve, float32
    (256,).
    """
    levels = np.arange(256) / 255.0
    return linear(untoned(levels) if tone_curve else levels).astype(np.float32)

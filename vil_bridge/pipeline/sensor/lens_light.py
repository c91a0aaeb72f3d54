"""Lens before a sensor: lateral chromatic aberration, veiling glare, halos and ghosts of lamps."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.protocols import opencv as cv2

Light = npt.NDArray[np.float32]

_COARSE: Final = 8
"""Scattered light is worked out in pixels this much larger."""
_LAMP_LEVEL: Final = 0.9
_LAMP_LIGHT: Final = 20.0
"""Light of what is drawn white: lamps, windows and the sun are cut off at white."""
_LAMP_SHARE: Final = 0.005
"""Of the picture.

A larger white area, such as an overcast sky, is white by less, as a camera exposes.
"""
_VEIL_SHARE: Final = 0.25
_HALO_SHARE: Final = 0.02
_GHOSTS: Final = ((-0.6, 0.5, (0.7, 1.0, 0.6)), (0.35, 0.3, (0.7, 0.6, 1.0)))
"""Size about the middle (negative = on the other side), strength, colour."""


def with_chromatic_aberration(light: Light, camera: CameraModel, shift_px: float) -> Light:
    """Magnify red and shrink blue about the principal point, so that they are off by ``shift_px``
    in the far corner.

    Args:
        light: linear, (h, w, 3); it is changed.
        camera: principal point.
        shift_px: pixels.
    """
    h, w = light.shape[:2]
    _, _, cx, cy = camera.intrinsics_px
    corner_px = math.hypot(max(cx, w - 1 - cx), max(cy, h - 1 - cy))
    for channel, sign in ((0, 1.0), (2, -1.0)):
        scale = 1.0 / (1.0 + sign * shift_px / corner_px)
        back = np.array([[scale, 0.0, (1.0 - scale) * cx], [0.0, scale, (1.0 - scale) * cy]])
        light[..., channel] = cv2.warpAffine(
            np.ascontiguousarray(light[..., channel]),
            back,
            (w, h),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
    return light


def with_glare(light: Light, glare: float, white: float = 1.0) -> Light:
    """Scatter a share of the light over the picture.

    Half of the share is veiling glare, a Gaussian of a quarter of the picture's width; a half is a
    halo of 2 % of it. What is drawn white counts as a lamp, twenty times as bright, and has ghosts
    mirrored about the middle. The excess of white areas that are larger than 0.5 % of the picture
    falls with their size.

    Args:
        light: linear, (h, w) or (h, w, 3); it is changed.
        glare: the share.
        white: largest light of the picture; what is brighter was cut off.
    """
    h, w = light.shape[:2]
    size = max(2, w // _COARSE), max(2, h // _COARSE)
    coarse = cv2.resize(light, size, interpolation=cv2.INTER_AREA)
    lamps = np.maximum(coarse - np.float32(_LAMP_LEVEL * white), 0.0) / np.float32(
        (1.0 - _LAMP_LEVEL) * white
    )
    lamps *= np.float32(
        (_LAMP_LIGHT - white) * min(1.0, _LAMP_SHARE / max(float(lamps.mean()), 1e-9))
    )
    coarse = coarse + lamps
    scattered = 0.5 * _blurred(coarse, _VEIL_SHARE * size[0]) + 0.5 * _blurred(
        coarse, max(_HALO_SHARE * size[0], 0.5)
    )
    if lamps.any():
        for scale, strength, colour in _GHOSTS:
            tint = np.array(colour, np.float32) if light.ndim == 3 else np.float32(np.mean(colour))
            scattered += strength * _scaled(lamps, scale) * tint
    light *= np.float32(1.0 - glare)
    light += cv2.resize(scattered * np.float32(glare), (w, h), interpolation=cv2.INTER_LINEAR)
    return light


def _blurred(light: Light, sigma: float) -> Light:
    return np.asarray(cv2.GaussianBlur(light, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE))


def _scaled(light: Light, scale: float) -> Light:
    """Return a picture scaled about its middle, as bright in sum; black beyond its borders."""
    h, w = light.shape[:2]
    cx = 0.5 * (w - 1)
    cy = 0.5 * (h - 1)
    back = 1.0 / scale
    matrix = np.array([[back, 0.0, (1.0 - back) * cx], [0.0, back, (1.0 - back) * cy]])
    soft = _blurred(light, 1.0 / abs(scale))
    return np.asarray(
        cv2.warpAffine(soft, matrix, (w, h), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    )

"""Effects of a sensor and its optics on a colour picture.

Blur, exposure, vignetting, dirt, noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel, Effects
from vil_bridge.core.types import BoolArray
from vil_bridge.optics.tone_curve import light_of_levels, toned
from vil_renderer.embedded.lru_cache import LruByteCache

_Picture = npt.NDArray[np.uint8]
_Glass = tuple[_Picture, npt.NDArray[np.float32]]

_MIDDLE_GRAY: Final = 0.18
_MIDDLE_LEVEL: Final = 118.0
_SETTLING_S: Final = 0.3
_EV_LIMIT: Final = 6.0
_FEWEST = 4
_MOST = 24
_TILE_PX: Final = 509
_STRIDE: Final = 8
_GLASS_BYTES: Final = 64 << 20
_OPEN_S: Final = 0.008
"""Of a camera without a shutter of its own, for what falls."""


@lru_cache(maxsize=2)
def _encode(*, tone_curve: bool) -> _Picture:
    """Return the display level of linear light in steps of 1/4095, uint8 (n,), up to the light
    of white.
    """
    c = np.arange(round(4095.0 * float(light_of_levels(tone_curve=tone_curve)[-1])) + 1) / 4095.0
    levels = np.where(c <= 0.0031308, 12.92 * c, 1.055 * np.maximum(c, 1e-9) ** (1 / 2.4) - 0.055)
    return np.rint(255.0 * (toned(levels) if tone_curve else levels)).astype(np.uint8)


def open_time_s(effects: Effects, interval_ns: int | None) -> float:
    """Return the time for which the shutter is open; 8 ms without a shutter or a known interval."""
    frame_ns = effects.frame_ns or interval_ns or 0
    return 1e-9 * effects.shutter * frame_ns if effects.shutter > 0.0 and frame_ns else _OPEN_S


def blurred(
    rgb: _Picture,
    flow_px: npt.NDArray[np.float32],
    valid: BoolArray,
    shutter: float,
    *,
    tone_curve: bool = False,
) -> _Picture:
    """Smear a picture (h, w, 3) along its flow (h, w, 2), symmetrically about its instant, in
    linear light.

    An edge that moves v pixels per frame becomes a ramp of ``shutter`` times v pixels.
    """
    step = np.where(valid[..., None], shutter * flow_px, np.float32(0.0)).astype(np.float32)
    longest = float(np.sqrt(np.einsum("hwc,hwc->hw", step, step).max(initial=0.0)))
    if longest < 0.5:
        return rgb
    count = min(max(_FEWEST, math.ceil(longest)), _MOST)
    light = light_of_levels(tone_curve=tone_curve)[rgb]
    levels = _encode(tone_curve=tone_curve)
    rows, columns = np.indices(rgb.shape[:2], dtype=np.float32)
    total = np.zeros(rgb.shape, np.float32)
    for k in range(count):
        share = np.float32((k + 0.5) / count - 0.5)
        x = columns + share * step[..., 0]
        y = rows + share * step[..., 1]
        total += cv2.remap(light, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    total *= np.float32(4095.0 / count)
    return np.asarray(
        levels[np.minimum(total + np.float32(0.5), np.float32(len(levels) - 1)).astype(np.uint16)]
    )


_GLASS: Final[LruByteCache[tuple[int, int, float, float], _Glass]] = LruByteCache(
    _GLASS_BYTES, lambda glass: glass[0].nbytes + glass[1].nbytes
)


def with_optics(rgb: _Picture, camera: CameraModel, *, tone_curve: bool = False) -> _Picture:
    """Darken the corners; add smudges that dim and scatter."""
    effects = camera.effects
    if effects.vignetting <= 0.0 and effects.dirt <= 0.0:
        return rgb
    w = camera.width_px
    h = camera.height_px
    dim, veil = _GLASS.get(
        (w, h, effects.vignetting, effects.dirt),
        lambda: _glass(w, h, effects.vignetting, effects.dirt),
    )
    dimmed = cv2.multiply(rgb, dim, scale=1.0 / 255.0)
    if effects.dirt > 0.0:
        haze = veil * float(_mean_light(rgb, tone_curve=tone_curve)) ** (1.0 / 2.2)
        return np.asarray(cv2.add(dimmed, haze.astype(np.uint8)), np.uint8)
    return np.asarray(dimmed, np.uint8)


def _mean_light(rgb: _Picture, *, tone_curve: bool) -> float:
    """Return the mean linear light, from every eighth pixel both ways."""
    return float(light_of_levels(tone_curve=tone_curve)[rgb[::_STRIDE, ::_STRIDE]].mean())


def _glass(w: int, h: int, vignetting: float, dirt: float) -> _Glass:
    """Return factors on display levels, uint8 (h, w, 3), and the smudges' light, float32.

    H, w, 3.
    """
    y, x = np.indices((h, w), dtype=np.float64)
    r2 = ((x - 0.5 * (w - 1)) ** 2 + (y - 0.5 * (h - 1)) ** 2) / max(
        0.25 * ((w - 1) ** 2 + (h - 1) ** 2), 1.0
    )
    light = 1.0 - vignetting * r2
    rng = np.random.default_rng(20)
    smudges = np.zeros((h, w), np.float32)
    for _ in range(40):
        centre = (int(rng.integers(0, w)), int(rng.integers(0, h)))
        radius = int(rng.integers(2, max(3, h // 16)))
        strength = float(rng.uniform(0.2, 1.0))
        cv2.circle(smudges, centre, radius, strength, -1, cv2.LINE_AA)
    soft = np.asarray(cv2.GaussianBlur(smudges, (0, 0), h / 160.0))
    light *= 1.0 - 0.6 * dirt * soft
    dim = np.rint(255.0 * np.clip(light, 0.0, 1.0) ** (1.0 / 2.2)).astype(np.uint8)
    veil = (60.0 * dirt * soft).astype(np.float32)
    return np.repeat(dim[..., None], 3, axis=2), np.repeat(veil[..., None], 3, axis=2)


def noisy(rgb: _Picture, effects: Effects, seed: int) -> _Picture:
    """Add shot noise of the given strength at middle gray; the same seed gives the same noise."""
    if effects.noise <= 0.0:
        return rgb
    rng = np.random.default_rng(seed & (2**63 - 1))
    tile = _normal_tile()
    h, w = rgb.shape[:2]
    at = rng.integers(0, _TILE_PX, 2)
    rows = (np.arange(h) + at[0]) % _TILE_PX
    grain = tile[rows][:, (np.arange(w) + at[1]) % _TILE_PX]
    sigma = effects.noise * np.sqrt(np.maximum(np.arange(256), 4.0) / _MIDDLE_LEVEL)
    made = grain * sigma.astype(np.float32)[rgb]
    made += rgb
    made += np.float32(0.5)
    return np.asarray(np.clip(made, 0.0, 255.0, out=made).astype(np.uint8))


@lru_cache(maxsize=1)
def _normal_tile() -> npt.NDArray[np.float32]:
    return np.random.default_rng(21).standard_normal((_TILE_PX, _TILE_PX, 3), np.float32)


class AutoExposure:
    """Exposure that settles so that the mean of the picture is middle gray."""

    def __init__(self) -> None:
        self._ev = 0.0
        self._t_ns: int | None = None

    @property
    def gain(self) -> float:
        """Factor on all light of the next picture."""
        return float(2.0**self._ev)

    def adapt(self, rgb: _Picture, t_ns: int, *, tone_curve: bool = False) -> None:
        """Adapt to a picture (h, w, 3) taken with the present gain."""
        elapsed_s = (
            _SETTLING_S if self._t_ns is None else min(max(0.0, 1e-9 * (t_ns - self._t_ns)), 1.0)
        )
        self._t_ns = t_ns
        missing_ev = math.log2(_MIDDLE_GRAY / max(_mean_light(rgb, tone_curve=tone_curve), 1e-4))
        self._ev += (1.0 - math.exp(-elapsed_s / _SETTLING_S)) * missing_ev
        self._ev = min(max(self._ev, -_EV_LIMIT), _EV_LIMIT)

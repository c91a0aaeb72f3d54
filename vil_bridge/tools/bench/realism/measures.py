"""Statistics of one picture that separate photographs from drawings.

Spectrum, edges, corners, noise, colours.

Every function takes a picture of any size. The gray levels are those of 8 bits, 0..255.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import cv2
import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray, ImageArray

LEVELS: Final = "levels"
UNITS: Final[Mapping[str, str]] = {
    "spectrum_slope": "",
    "gradient_p50": LEVELS,
    "gradient_p90": LEVELS,
    "gradient_p99": LEVELS,
    "corner_log10_p50": "",
    "corner_log10_p90": "",
    "corner_log10_p99": "",
    "noise": LEVELS,
    "noise_flat": LEVELS,
    "saturation": "",
    "colourfulness": LEVELS,
    "red_over_green": "",
    "blue_over_green": "",
}
"""The measures of a picture by name, with their units."""

BAND: Final = (1.0 / 64.0, 1.0 / 4.0)
"""Spatial frequencies of the spectrum's fit, cycles per pixel."""
_RINGS: Final = 24
_CORNER_WINDOW_PX: Final = 3
_LEAST_CORNER: Final = 1e-3
_LAPLACIAN: Final = np.array([[1.0, -2.0, 1.0], [-2.0, 4.0, -2.0], [1.0, -2.0, 1.0]], np.float32)
_BLOCK_PX: Final = 16
_FLAT_PERCENT: Final = 10.0


def measure(colour: ImageArray) -> dict[str, float]:
    """Return the measures of a picture by name; without those of colours where it has none.

    Args:
        colour: RGB, uint8 (h, w, 3).
    """
    gray = gray_of(colour)
    gradients = np.percentile(gradient(gray), (50.0, 90.0, 99.0))
    corners = np.percentile(corner_response(gray), (50.0, 90.0, 99.0))
    found = {"spectrum_slope": spectrum_slope(gray)}
    found |= {
        f"gradient_p{p}": float(value) for p, value in zip((50, 90, 99), gradients, strict=True)
    }
    found |= {
        f"corner_log10_p{p}": float(value) for p, value in zip((50, 90, 99), corners, strict=True)
    }
    found |= {"noise": noise(gray), "noise_flat": noise_flat(gray)}
    return found | colours(colour)


def gray_of(colour: ImageArray) -> ImageArray:
    """Return the luma (h, w), uint8, of RGB (h, w, 3)."""
    return np.asarray(cv2.cvtColor(np.asarray(colour), cv2.COLOR_RGB2GRAY))


def spectrum_slope(gray: ImageArray) -> float:
    """Return the exponent of the power spectrum.

    Power ~ frequency^slope, 0 of white noise, about -2 of nature.

    The power under a Hann window is averaged over rings that are equally wide in log frequency,
    between 1/64 and 1/4 cycles per pixel; a straight line is fitted to its logarithm.
    """
    h, w = gray.shape
    window = np.outer(np.hanning(h), np.hanning(w))
    level = np.average(gray, weights=window)
    power = np.abs(np.fft.rfft2((gray - level) * window)) ** 2
    f = np.hypot(np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None, :])
    edges = np.geomspace(*BAND, _RINGS + 1)
    ring = np.digitize(f.ravel(), edges) - 1
    good = (ring >= 0) & (ring < _RINGS)
    total = np.bincount(ring[good], power.ravel()[good], _RINGS)
    count = np.bincount(ring[good], minlength=_RINGS)
    used = (count > 0) & (total > 0.0)
    if used.sum() < 2:
        return math.nan
    middle = np.sqrt(edges[1:] * edges[:-1])[used]
    return float(np.polyfit(np.log(middle), np.log(total[used] / count[used]), 1)[0])


def gradient(gray: ImageArray) -> FloatArray:
    """Return the gradient's magnitude at each inner pixel, levels per pixel, by central
    differences.
    """
    g = gray.astype(np.float32)
    dx = 0.5 * (g[1:-1, 2:] - g[1:-1, :-2])
    dy = 0.5 * (g[2:, 1:-1] - g[:-2, 1:-1])
    return np.asarray(np.hypot(dx, dy), np.float64)


def corner_response(gray: ImageArray) -> FloatArray:
    """Return log10 of Shi and Tomasi's response.

    The least eigenvalue of the gradients' moments over 3x3 pixels.
    """
    found = cv2.cornerMinEigenVal(gray.astype(np.float32), _CORNER_WINDOW_PX)
    return np.asarray(np.log10(np.maximum(found, _LEAST_CORNER)), np.float64)


def noise(gray: ImageArray) -> float:
    """Return Immerkaer's estimate of the noise's standard deviation (1996).

    It takes fine texture for noise too.
    """
    return float(math.sqrt(0.5 * math.pi) / 6.0 * np.abs(_second_differences(gray)).mean())


def noise_flat(gray: ImageArray) -> float:
    """Return the same estimate in the flattest tenth of the blocks of 16x16 pixels.

    NaN where all are cut off.

    Blocks with black or white pixels do not count: there the noise is cut off.
    """
    high = np.abs(_second_differences(gray))
    means = _blocks(high).mean(axis=1)
    inner = _blocks(gray[1:-1, 1:-1].astype(np.float32))
    seen: BoolArray = (inner.min(axis=1) > 0.0) & (inner.max(axis=1) < 255.0)
    if not seen.any():
        return math.nan
    return float(math.sqrt(0.5 * math.pi) / 6.0 * np.percentile(means[seen], _FLAT_PERCENT))


def colours(colour: ImageArray) -> dict[str, float]:
    """Return the measures of colours; none of a gray picture.

    Mean of HSV's saturation, colourfulness of Hasler and Suesstrunk (2003), and ratios of the
    channels' means.
    """
    rgb = colour.astype(np.float64)
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    high, low = rgb.max(axis=2), rgb.min(axis=2)
    if not np.any(high - low):
        return {}
    opposed = red - green, 0.5 * (red + green) - blue
    spread, offset = (
        math.hypot(*(float(statistic(o)) for o in opposed)) for statistic in (np.std, np.mean)
    )
    middle = max(float(green.mean()), 1e-9)
    return {
        "saturation": float(np.mean((high - low) / np.maximum(high, 1.0))),
        "colourfulness": spread + 0.3 * offset,
        "red_over_green": float(red.mean()) / middle,
        "blue_over_green": float(blue.mean()) / middle,
    }


def _second_differences(gray: ImageArray) -> Any:
    """Return Immerkaer's difference of two Laplacians at each inner pixel."""
    return cv2.filter2D(gray.astype(np.float32), cv2.CV_32F, _LAPLACIAN)[1:-1, 1:-1]


def _blocks(values: Any) -> Any:
    """Return the whole blocks of an array as rows, (n, 256)."""
    h, w = (side // _BLOCK_PX for side in values.shape)
    cut = values[: h * _BLOCK_PX, : w * _BLOCK_PX].reshape(h, _BLOCK_PX, w, _BLOCK_PX)
    return cut.swapaxes(1, 2).reshape(h * w, _BLOCK_PX * _BLOCK_PX)

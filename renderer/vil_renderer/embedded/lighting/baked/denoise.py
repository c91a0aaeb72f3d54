"""Smoothing of baked light within its charts.

What rays leave as noise goes, edges of shadows stay.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.lighting.baked.charts import ChartLayout
from vil_renderer.embedded.lighting.baked.receivers import Receivers

_LEVELS: Final = 3
_SPLINE: Final = (0.25, 0.5, 0.25)
_RELATIVE: Final = 0.15
"""Difference of light, as a share of it, beyond which texels are different and not noisy."""
_LEAST: Final = 1e-4


def smoothed(light: Float32Array, layout: ChartLayout, receivers: Receivers) -> Float32Array:
    """Return light (r, c, 3) smoothed over the texels of each chart; that of vertices stays.

    An edge-avoiding a-trous wavelet transform (Dammertz et al., 2010) with one weight for all
    colours of a light.
    """
    width, height = layout.size
    count = len(receivers.texel)
    if not count:
        return light
    row, column = receivers.texel.T
    chart = np.full((height, width), -1, np.int32)
    chart[row, column] = layout.chart[receivers.triangle[:count]]
    out = light.copy()
    for source in range(light.shape[1]):
        picture = np.zeros((height, width, 3), np.float32)
        picture[row, column] = light[:count, source]
        for level in range(_LEVELS):
            picture = _once(picture, chart, 1 << level)
        out[:count, source] = picture[row, column]
    return out


def _once(
    picture: Float32Array, chart: np.ndarray[tuple[int, int], np.dtype[np.int32]], step: int
) -> Float32Array:
    total = np.zeros_like(picture)
    weights = np.zeros((*picture.shape[:2], 1), np.float32)
    grey = picture.sum(axis=2, keepdims=True)
    scale = np.float32(1.0) / (np.float32(_RELATIVE) * grey + np.float32(_LEAST))
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            here = _overlap(picture.shape[0], dy * step)
            there = _overlap(picture.shape[1], dx * step)
            to = (here[0], there[0])
            of = (here[1], there[1])
            same: BoolArray = (chart[to] == chart[of])[..., None]
            apart = (grey[of] - grey[to]) * scale[to]
            weight = np.float32(_SPLINE[dy + 1] * _SPLINE[dx + 1]) * same * np.exp(-apart * apart)
            total[to] += weight * picture[of]
            weights[to] += weight
    return np.asarray(total / np.maximum(weights, 1e-12), np.float32)


def _overlap(size: int, shift: int) -> tuple[slice, slice]:
    """Return the places that have a neighbour so far away, and the places of these."""
    return slice(max(-shift, 0), size - max(shift, 0)), slice(max(shift, 0), size - max(-shift, 0))

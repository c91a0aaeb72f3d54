"""Splats arranged for drawing.

In chunks of neighbours that are culled as one, with coarser levels of detail.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.splats.cloud import Float32, SplatCloud, blocks
from vil_renderer.embedded.splats.kernels import FAINTEST, NEAR_M

CHUNK: Final = 256
_GROUP: Final = 4
"""Splats that become one in the next level."""
_LEVELS: Final = 4
LEAST_FOR_LEVELS: Final = 1 << 16
"""Fewer splats have no coarser levels: they are fast enough."""
DETAIL_PX: Final = 1.75
"""Standard deviation in the picture that coarser splats may have.

34 dB and more to the finest level.
"""
_REACH: Final = float(np.sqrt(2.0 * np.log(1.0 / FAINTEST)))
_MARGIN_PX: Final = 3.0
"""Reach of the low-pass filter."""
_MOST_GROWTH: Final = 1.5
"""Factor of a coarser splat's half axes.

Four splats side by side become one of twice their size.
"""
_MOST_OPAQUE: Final = 0.995


@dataclass(frozen=True, slots=True, eq=False)
class SplatField:
    """Splats of all levels.

    Attributes:
        splats: the cloud along a space-filling curve, then its coarser levels, one after the other.
        start: int32 (levels, chunks + 1), where the chunks of each level begin.
        centre: (chunks, 3). radius: (chunks,), of a sphere around everything that a chunk draws.
        sigma: (levels, chunks), the typical largest standard deviation.
    """

    splats: SplatCloud
    start: npt.NDArray[np.int32]
    centre: FloatArray
    radius: FloatArray
    sigma: FloatArray


def arranged(cloud: SplatCloud) -> SplatField:
    """Arrange a cloud; with levels of detail from LEAST_FOR_LEVELS splats on."""
    order = _curve(cloud.p)
    p, axes, opacity, sh = (
        np.ascontiguousarray(a[order]) for a in (cloud.p, cloud.axes, cloud.opacity, cloud.sh)
    )
    level = SplatCloud(p, axes, opacity, sh, cloud.antialiased)
    levels = [level]
    while len(cloud.p) >= LEAST_FOR_LEVELS and len(levels) < _LEVELS:
        levels.append(_coarser(levels[-1]))
    first = np.arange(0, len(p), CHUNK)
    centre = _middles(level.p, first)
    radius = np.zeros(len(first))
    starts = []
    sigmas = []
    at = 0
    for n, each in enumerate(levels):
        begin = np.append(first // _GROUP**n, len(each.p))
        starts.append(begin + at)
        size = np.linalg.norm(each.axes, axis=1).max(axis=1, initial=0.0)
        sigmas.append(np.array([np.median(size[a:b]) for a, b in pairwise(begin)]))
        if len(first):
            apart = np.linalg.norm(each.p - np.repeat(centre, np.diff(begin), axis=0), axis=1)
            radius = np.maximum(radius, np.maximum.reduceat(apart + _REACH * size, begin[:-1]))
        at += len(each.p)
    parts = zip(*((each.p, each.axes, each.opacity, each.sh) for each in levels), strict=True)
    p, axes, opacity, sh = (np.concatenate(part) if len(levels) > 1 else part[0] for part in parts)
    splats = SplatCloud(p, axes, opacity, sh, cloud.antialiased)
    return SplatField(
        splats,
        np.array(starts, np.int32),
        centre,
        radius,
        np.array(sigmas).reshape(len(levels), -1),
    )


def seen(
    field: SplatField, camera: CameraModel, turn: FloatArray, shift: FloatArray, detail_px: float
) -> npt.NDArray[np.int32]:
    """Return the splats of the chunks that a picture may show, each chunk at one level.

    Args:
        field: the splats.
        camera: an ideal pinhole.
        turn: (3, 3), from the cloud's axes to optical ones, its scale included.
        shift: (3,), the cloud's origin in optical axes, metres.
        detail_px: a level is used where its splats are smaller than this, one standard deviation; 0
            = the finest.
    """
    fx, fy, cx, cy = camera.intrinsics_px
    scale = float(np.cbrt(np.linalg.det(turn)))
    centre = field.centre @ turn.T + shift
    radius = field.radius * scale
    shown = centre[:, 2] > NEAR_M - radius
    for axis, f, low, high in (
        (0, fx, cx, camera.width_px - cx),
        (1, fy, cy, camera.height_px - cy),
    ):
        for sign, edge in ((-1.0, low), (1.0, high)):
            slope = (edge + _MARGIN_PX) / f
            shown &= sign * centre[:, axis] - slope * centre[:, 2] < radius * np.hypot(1.0, slope)
    visible = np.flatnonzero(shown)
    near = np.maximum(np.linalg.norm(centre[visible], axis=1) - radius[visible], NEAR_M)
    fine_enough = field.sigma[:, visible] * (scale * max(fx, fy)) <= detail_px * near
    fine_enough[0] = True
    level = len(fine_enough) - 1 - np.argmax(fine_enough[::-1], axis=0)
    return _ranges(field.start[level, visible], field.start[level, visible + 1])


def _ranges(start: npt.NDArray[np.int32], stop: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return all integers of half-open ranges."""
    lengths = stop - start
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int32) + np.repeat(start - (ends - lengths), lengths).astype(
        np.int32
    )


def _curve(p: Float32) -> npt.NDArray[np.intp]:
    """Return the order of points along a Z curve."""
    if not len(p):
        return np.zeros(0, np.intp)
    low = p.min(axis=0)
    step = max(float((p.max(axis=0) - low).max()), 1e-12) / (2**21 - 1)
    key = np.zeros(len(p), np.uint64)
    for part in blocks(len(p)):
        cells = ((p[part] - low) / np.float64(step)).astype(np.uint64)
        for axis in range(3):
            key[part] |= _spread(np.minimum(cells[:, axis], np.uint64(2**21 - 1))) << np.uint64(
                axis
            )
    return np.argsort(key, kind="stable")


def _spread(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Put two zeros between the lowest 21 bits."""
    for shift, mask in (
        (32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3), (2, 0x1249249249249249),
    ):  # fmt: skip
        bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
    return bits


def _middles(p: Float32, first: npt.NDArray[np.intp]) -> FloatArray:
    """Return the middles of the boxes around chunks, (chunks, 3)."""
    if not len(first):
        return np.zeros((0, 3))
    made: FloatArray = 0.5 * (np.minimum.reduceat(p, first) + np.maximum.reduceat(p, first)).astype(
        np.float64
    )
    return made


# --- coarser levels --------------------------------------------------------------------------


def _coarser(level: SplatCloud) -> SplatCloud:
    """Return a level of a quarter of the splats.

    Each has the mean, the spread and the colour of four neighbours.
    """
    count = -(-len(level.p) // _GROUP)
    terms = level.sh.shape[1]
    p = np.empty((count, 3), np.float32)
    axes = np.empty((count, 3, 3), np.float32)
    opacity = np.empty(count, np.float32)
    sh = np.empty((count, terms, 3), np.float32)
    for part in blocks(count):
        fine = slice(part.start * _GROUP, min(part.stop * _GROUP, len(level.p)))
        p[part], axes[part], opacity[part], sh[part] = _merged(level, fine)
    return SplatCloud(p, axes, opacity, sh, level.antialiased)


def _merged(
    level: SplatCloud, fine: slice
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return position, axes, opacity and colour of groups of splats."""
    size = np.sort(np.linalg.norm(level.axes[fine], axis=1), axis=1).astype(np.float64)
    area = size[:, 1] * size[:, 2]
    opacity = level.opacity[fine].astype(np.float64)
    weight = _grouped(opacity * area + 1e-30)
    share = weight / weight.sum(axis=1, keepdims=True)
    own = _grouped(level.p[fine].astype(np.float64))
    p = np.einsum("ng,ngi->ni", share, own)
    spread = _grouped((level.axes[fine] @ level.axes[fine].transpose(0, 2, 1)).astype(np.float64))
    apart = own - p[:, None]
    covariance = np.einsum("ng,ngij->nij", share, spread) + np.einsum(
        "ng,ngi,ngj->nij", share, apart, apart
    )
    variance, turn = np.linalg.eigh(covariance)
    half = np.sqrt(np.maximum(variance, 0.0))
    mean_opacity = (share * _grouped(opacity)).sum(axis=1)
    # What all cover together; where it is more than one splat of this spread covers, that one
    # grows.
    layers = weight.sum(axis=1) / np.maximum(mean_opacity * half[:, 1] * half[:, 2], 1e-30)
    growth = np.clip(np.sqrt(layers), 1.0, _MOST_GROWTH)
    half[:, 1:] *= growth[:, None]
    layers = layers / growth**2
    stacked = 1.0 - (1.0 - np.minimum(mean_opacity, _MOST_OPAQUE)) ** np.maximum(layers, 1.0)
    merged = np.where(
        layers < 1.0,
        mean_opacity * layers,
        np.minimum(stacked, np.maximum(mean_opacity, _MOST_OPAQUE)),
    )
    colour = np.einsum("ng,ngkc->nkc", share, _grouped(level.sh[fine].astype(np.float64)))
    return p, turn * half[:, None, :], merged, colour


def _grouped(values: FloatArray) -> FloatArray:
    """Return values in groups of four, the last one filled with zeros, (n, 4, ...)."""
    filled = -len(values) % _GROUP
    padded = np.concatenate((values, np.zeros((filled, *values.shape[1:])))) if filled else values
    return padded.reshape(-1, _GROUP, *values.shape[1:])

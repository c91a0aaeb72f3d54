"""Probes: the light that comes to the points of a grid from all sides, for models that move.

A probe has nine terms for each light source, as
:class:`~vil_renderer.embedded.engine.model_light.LightField` mixes them. They are exact for
surfaces that face along an axis, and else as near as spherical harmonics of the second order
(Ramamoorthi and Hanrahan, An Efficient Representation for Irradiance Environment Maps, 2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.engine.model_light import LightField
from vil_renderer.embedded.lighting.baked.charts import ChartLayout
from vil_renderer.embedded.lighting.baked.receivers import Receivers
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides
from vil_renderer.embedded.lighting.baked.transport import NOTHING, sights

_MOST: Final = 16_384
_LEAST_STEP_M: Final = 1.0
_RAYS: Final = 512
_CHUNK: Final = 64
_OUTLIERS: Final = 1.0
"""Percentage of the vertices on each side that the grid leaves out.

A plain around a yard has few.
"""
_BURIED: Final = 0.2
"""Share of rays that meet backs from which a probe is inside of something."""
_FAINT: Final = 0.05
"""Weight of a point inside of something, which has the light of the next free one."""
_FAR_M: Final = 1.0e3
_ASIDE: Final = 0.25
"""Distance from a probe of the places that look for the sun, in steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Light around the points of a grid.

    Attributes:
        low_m: the first point, (3,). step_m: between neighbours, (3,).
        free: which points are not inside of something, (x, y, z).
        light: float16 (p, c, 9, 3), over all bounces, for c sources of white light 1; without what
            comes straight from lamps and suns. p counts along z first.
    """

    low_m: FloatArray
    step_m: FloatArray
    free: BoolArray
    light: npt.NDArray[np.float16]

    def field(self, colours: Float32Array, sun: Float32Array | np.float32) -> LightField:
        """Return the light of sources in their colours (c, 3), with the share of the sun at each
        point, (p,) or all.
        """
        terms = np.zeros((len(self.light), self.light.shape[2], 4), np.float32)
        for index in np.flatnonzero(colours.any(axis=1)).tolist():
            terms[..., :3] += self.light[:, index].astype(np.float32) * colours[index]
        terms[:, 0, 3] = sun
        if self.free.any():
            found = distance_transform_edt(
                ~self.free, self.step_m, return_distances=False, return_indices=True
            )
            assert found is not None
            terms = terms[np.ravel_multi_index(tuple(found), self.free.shape).ravel()]
        weight = np.where(self.free.ravel(), np.float32(1.0), np.float32(_FAINT))
        x, y, z = self.free.shape
        return LightField(self.low_m, self.step_m, (x, y, z), terms, weight)

    def sun_share(self, to_sun: FloatArray, solid: SolidSides) -> Float32Array:
        """Return the share of places around each point that the sun reaches, (p,).

        It changes softly on the way.
        """
        p_m = _points(self.low_m, self.step_m, self.free.shape)
        seen = np.zeros(len(p_m), np.float32)
        corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        for corner in corners * _ASIDE * self.step_m:
            place = (p_m + corner).astype(np.float32)
            seen += solid.sees(place, place + _FAR_M * to_sun)
        return seen / np.float32(len(corners))


def probes_of(
    p_m: Float32Array,
    solid: SolidSides,
    layout: ChartLayout,
    receivers: Receivers,
    leaving: Float32Array,
    progress: Callable[[float], object],
) -> Probes:
    """Return the probes of a mesh.

    Args:
        p_m: its vertices, (n, 3).
        solid: all that stops light.
        layout: of the mesh.
        receivers: of it.
        leaving: the light that leaves these, in the order of :meth:`.LightTransport.leaving`.
        progress: gets the share that is done.
    """
    low_m, step_m, shape = _grid(p_m)
    points = _points(low_m, step_m, shape)
    ways = _sphere(_RAYS)
    parts = _parts(ways)
    rows = leaving.reshape(len(leaving), -1)
    free = np.zeros(len(points), np.bool_)
    light = np.zeros((len(points), parts.shape[1], leaving.shape[1], 3), np.float16)
    for first in range(0, len(points), _CHUNK):
        part = slice(first, min(first + _CHUNK, len(points)))
        count = part.stop - first
        origins = np.repeat(points[part].astype(np.float32), len(ways), axis=0)
        seen = sights(solid, layout, receivers, origins, np.tile(ways, (count, 1))).reshape(
            count, -1
        )
        free[part] = (seen == NOTHING).mean(axis=1) < _BURIED
        light[part] = (parts.T @ rows[seen]).reshape(count, *light.shape[1:])
        progress(part.stop / len(points))
    return Probes(low_m, step_m, free.reshape(shape), light.transpose(0, 2, 1, 3))


def _grid(p_m: Float32Array) -> tuple[FloatArray, FloatArray, tuple[int, int, int]]:
    """Return first point, steps and shape of the grid in the box of most vertices (n, 3).

    Points amid its cells.
    """
    if not len(p_m):
        return np.zeros(3), np.ones(3), (1, 1, 1)
    low, high = np.percentile(p_m.astype(np.float64), (_OUTLIERS, 100.0 - _OUTLIERS), axis=0)
    size = np.maximum(high - low, _LEAST_STEP_M)
    step = max(_LEAST_STEP_M, float((size.prod() / _MOST) ** (1.0 / 3.0)))
    x, y, z = np.maximum(size / step, 1.0).astype(np.intp).tolist()
    steps = size / (x, y, z)
    return low + 0.5 * steps, steps, (x, y, z)


def _points(low_m: FloatArray, step_m: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    points: FloatArray = low_m + step_m * np.stack(
        np.unravel_index(np.arange(np.prod(shape)), shape), axis=1
    )
    return points


def _sphere(count: int) -> Float32Array:
    """Return directions evenly over the sphere, (count, 3): a spiral (Gonzalez, 2010)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - 5.0**0.5) * np.arange(count)
    radius = np.sqrt(1.0 - z * z)
    return np.stack((radius * np.cos(angle), radius * np.sin(angle), z), axis=1).astype(np.float32)


def _parts(ways: Float32Array) -> Float32Array:
    """Return what the light from each direction (k, 3) adds to each term, (k, 9).

    Sums of cosine lobes over pi.
    """
    x, y, z = ways.T
    even = 2.0 * np.abs(ways)
    odd = 2.0 * ways
    mixed = 3.75 * np.stack((x * y, y * z, z * x), axis=1)
    return (np.concatenate((even, odd, mixed), axis=1) / len(ways)).astype(np.float32)

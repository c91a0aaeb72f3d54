"""Light transport between receivers.

What each one sees of the sky and of the others, and all bounces of light.

Light is irradiance over pi, so that a white matt surface in a light of 1 has a radiance of 1 in the
same unit. Surfaces are matt. A receiver's light is E = D + K (albedo E): D comes straight from the
sky, the sun and lamps; each row of K has the mean over cosine-weighted directions of what is seen
there (Monte Carlo gathering; Cohen and Wallace, Radiosity and Realistic Image Synthesis, 1993). The
rays are cast once, for all lights and all bounces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.lighting.baked.charts import ChartLayout
from vil_renderer.embedded.lighting.baked.receivers import Index32, Receivers
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides, lifted

_CHUNK: Final = 1 << 15
_MOST_BOUNCES: Final = 64
_CONVERGED: Final = 1e-3
_GOLDEN: Final = 0.5 * (5.0**0.5 - 1.0)

NOTHING: Final = -1
UPPER_SKY: Final = -2
LOWER_SKY: Final = -3
"""Values for rays that meet no receiver."""


class RowStore(Protocol):
    """Rows that outlive the process."""

    def open(self, count: int, width: int) -> tuple[Index32, int]:
        """Return int32 (count, width) and how many rows of it an earlier run has finished."""
        ...

    def keep(self, done: int) -> None:
        """Store that so many rows are finished."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LightTransport:
    """Sights of all receivers, and the light that goes between them.

    Attributes:
        seen: by each one in each direction, int32 (r, k): a receiver, or one of the values above.
        albedo: of each receiver, linear RGB, float32 (r, 3).
    """

    seen: Index32
    albedo: Float32Array

    def sky(self) -> tuple[Float32Array, Float32Array]:
        """Return the shares of the light that come straight from the upper and the lower half of
        the sky, (r,) each.
        """
        upper, lower = (
            (self.seen == what).mean(axis=1, dtype=np.float32) for what in (UPPER_SKY, LOWER_SKY)
        )
        return upper, lower

    def all_bounces(
        self, direct: Float32Array, progress: Callable[[float], object]
    ) -> Float32Array:
        """Return the light of receivers over all bounces, float32 (r, c, 3).

        Args:
            direct: of c lights, float32 (r, c, 3).
            progress: gets the share that is done, at most.
        """
        total = direct.copy()
        last = direct
        for bounce in range(_MOST_BOUNCES):
            progress(bounce / _MOST_BOUNCES)
            last = self._gathered(last * self.albedo[:, None])
            total += last
            if (last.mean(axis=0) <= _CONVERGED * total.mean(axis=0)).all():
                break
        return total

    def leaving(self, light: Float32Array) -> Float32Array:
        """Return the light that leaves receivers that get (r, c, 3), float32 (r + 3, c, 3).

        Behind them come the lower half of the sky, source 1, the upper one, source 0, and nothing:
        what is seen is a row, counted from the end where it is negative.
        """
        beyond = np.zeros((3, *light.shape[1:]), np.float32)
        beyond[LOWER_SKY, 1] = beyond[UPPER_SKY, 0] = 1.0
        return np.concatenate((light * self.albedo[:, None], beyond))

    def _gathered(self, leaving: Float32Array) -> Float32Array:
        """Return what receivers get from the light (r, c, 3) that leaves all of them."""
        rows = np.concatenate(
            (leaving.reshape(len(leaving), -1), np.zeros((1, leaving[0].size), np.float32))
        )
        share = np.float32(1.0 / self.seen.shape[1])
        out = np.empty_like(leaving)
        for first in range(0, len(leaving), _CHUNK):
            seen = self.seen[first : first + _CHUNK]
            total = np.zeros((len(seen), rows.shape[1]), np.float32)
            one = np.empty_like(total)
            # Ray by ray: what all receivers see along it lies together.
            for row in np.ascontiguousarray(np.where(seen >= 0, seen, len(leaving)).T):
                total += np.take(rows, row, axis=0, out=one, mode="clip")
            out[first : first + _CHUNK] = (share * total).reshape(len(seen), *leaving.shape[1:])
        return out


def look_around(
    solid: SolidSides,
    layout: ChartLayout,
    receivers: Receivers,
    rays: int,
    progress: Callable[[float], object],
    rows: RowStore | None = None,
) -> Index32:
    """Return what receivers see in ``rays`` directions each, int32 (r, rays).

    Args:
        solid: all that stops light.
        layout: of the mesh.
        receivers: of it.
        rays: of each receiver.
        progress: gets the share that is done.
        rows: has the rows of a run that was ended, and gets further ones; None = memory.
    """
    count = len(receivers.p_m)
    seen, done = (np.empty((count, rays), np.int32), 0) if rows is None else rows.open(count, rays)
    for first in range(done, count, _CHUNK):
        part = slice(first, min(first + _CHUNK, count))
        d = _directions(receivers.normal[part], first, rays).reshape(-1, 3)
        o = np.repeat(lifted(receivers.p_m[part], receivers.normal[part]), rays, axis=0)
        seen[part] = sights(solid, layout, receivers, o, d).reshape(-1, rays)
        if rows is not None:
            rows.keep(part.stop)
        progress(part.stop / count)
    return seen


def sights(
    solid: SolidSides,
    layout: ChartLayout,
    receivers: Receivers,
    origins: Float32Array,
    directions: Float32Array,
) -> Index32:
    """Return what rays (n, 3) meet, int32 (n,): a receiver, or one of the values above."""
    triangle, hit, u, v = solid.strike(origins, directions)
    found = np.where(directions[:, 2] >= 0.0, UPPER_SKY, LOWER_SKY).astype(np.int32)
    found[hit] = NOTHING
    met = np.flatnonzero(triangle >= 0)
    found[met] = receivers.at(layout, triangle[met], u[met], v[met])
    return found


def _directions(normal: Float32Array, first: int, rays: int) -> Float32Array:
    """Return cosine-weighted directions (n, rays, 3).

    A spiral on the disc that each receiver turns by its number.
    """
    turn = np.modf(_GOLDEN * (first + np.arange(len(normal))) * 7.0)[0]
    jitter = np.modf(_GOLDEN * (first + np.arange(len(normal))) * 13.0)[0]
    angle = (2.0 * np.pi * (np.modf(np.arange(rays) * _GOLDEN)[0][None] + turn[:, None])).astype(
        np.float32
    )
    share = (np.arange(rays)[None] + jitter[:, None]) / rays
    radius = np.sqrt(share).astype(np.float32)
    height = np.sqrt(1.0 - share).astype(np.float32)
    tangent, binormal = across(normal)
    made: Float32Array = (radius * np.cos(angle))[..., None] * tangent[:, None]
    made += (radius * np.sin(angle))[..., None] * binormal[:, None]
    made += height[..., None] * normal[:, None]
    return made.astype(np.float32)


def across(n: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return two unit vectors across each unit vector (n, 3).

    Duff et al., Building an Orthonormal Basis, 2017.
    """
    sign = np.copysign(np.float32(1.0), n[:, 2])
    a = -1.0 / (sign + n[:, 2])
    b = n[:, 0] * n[:, 1] * a
    tangent = np.stack((1.0 + sign * n[:, 0] ** 2 * a, sign * b, -sign * n[:, 0]), axis=1)
    binormal = np.stack((b, sign + n[:, 1] ** 2 * a, -n[:, 1]), axis=1)
    return tangent.astype(np.float32), binormal.astype(np.float32)

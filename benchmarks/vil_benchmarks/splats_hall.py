"""A synthetic hall as a scan would show it.

Flat splats on all surfaces, with their colours and their noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.splats.cloud import SH_C0, StoredSplats, float32

HALF_M: Final = (10.0, 6.0, 2.5)
"""Half sizes of the hall; its floor is z = 0, its middle the origin."""
BOXES: Final = (
    ((-4.0, 2.0), (0.6, 0.4, 1.0)),
    ((3.0, -3.0), (0.4, 0.4, 2.4)),
    ((5.5, 2.5), (1.2, 0.5, 0.5)),
    ((-1.5, -2.5), (0.5, 1.0, 0.6)),
    ((0.5, 3.5), (0.3, 0.3, 2.4)),
    ((-6.5, -3.5), (0.8, 0.8, 0.8)),
)
"""Boxes on the floor: x, y of the middle, and half sizes."""
_SIGMA: Final = 0.55
"""Standard deviation over the distance of neighbours."""
_THICKNESS_M: Final = 0.002


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a box.

    Its middle, half edges u and v, and the unit normal on the visible side.
    """

    middle: FloatArray
    u: FloatArray
    v: FloatArray
    normal: FloatArray

    @property
    def area_m2(self) -> float:
        return float(4.0 * np.linalg.norm(self.u) * np.linalg.norm(self.v))


def hall_splats(count: int, degree: int = 0, seed: int = 1) -> StoredSplats:
    """Return about ``count`` splats of the hall, in metres, z up.

    Args:
        count: splats to spread evenly over all surfaces.
        degree: of spherical harmonics, 0 to 3: a gloss that depends on the direction.
        seed: of the noise in places, sizes and colours.
    """
    rng = np.random.default_rng(seed)
    sides = _sides()
    distance_m = float(np.sqrt(sum(side.area_m2 for side in sides) / count))
    parts = [_scanned(side, number, distance_m, rng) for number, side in enumerate(sides)]
    p, log_scale, q, colour = (np.concatenate(column) for column in zip(*parts, strict=True))
    sh = np.zeros((len(p), (degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (colour - 0.5) / SH_C0
    sh[:, 1:] = rng.normal(0.0, 0.04, (len(p), sh.shape[1] - 1, 3))
    opacity = rng.uniform(0.9, 0.99, len(p))
    return StoredSplats(float32(p), float32(log_scale), float32(q), float32(opacity), sh)


def _sides() -> list[_Side]:
    """Return the hall's sides, seen from within, and those of its boxes, seen from outside."""
    boxes = [((0.0, 0.0, HALF_M[2]), HALF_M, -1.0)]
    boxes += [((x, y, half[2]), half, 1.0) for (x, y), half in BOXES]
    sides = []
    for middle, half, outside in boxes:
        for axis in range(3):
            u = np.zeros(3)
            v = np.zeros(3)
            u[(axis + 1) % 3], v[(axis + 2) % 3] = half[(axis + 1) % 3], half[(axis + 2) % 3]
            for sign in (-1.0, 1.0):
                normal = sign * np.eye(3)[axis]
                if outside < 0.0 or axis < 2 or sign > 0.0:  # nothing sees the bottom of a box
                    sides.append(
                        _Side(np.array(middle) + half[axis] * normal, u, v, outside * normal)
                    )
    return sides


def _scanned(
    side: _Side, number: int, distance_m: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return positions, log scales, quaternions w, x, y, z and colours of the splats on a side."""
    length = np.linalg.norm(side.u), np.linalg.norm(side.v)
    steps = [max(2, round(2.0 * float(edge) / distance_m)) for edge in length]
    middles = [np.arange(n) + 0.5 for n in steps]
    a, b = (axis.ravel() for axis in np.meshgrid(*middles, indexing="ij"))
    n = len(a)
    a, b = (
        2.0 * (c + rng.uniform(-0.3, 0.3, n)) / m - 1.0 for c, m in zip((a, b), steps, strict=True)
    )
    p = (
        side.middle
        + a[:, None] * side.u
        + b[:, None] * side.v
        + rng.normal(0.0, 0.001, (n, 1)) * side.normal
    )
    log_scale = np.log(_SIGMA * distance_m) + rng.normal(0.0, 0.25, (n, 3))
    log_scale[:, 2] = np.log(_THICKNESS_M)
    turn = _from_z(side.normal)
    angle = rng.uniform(0.0, np.pi, n)
    spin = np.stack((np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)), axis=1)
    return (
        p,
        log_scale,
        _product(turn, spin),
        np.clip(_paint(p, number) + rng.normal(0.0, 0.02, (n, 3)), 0.02, 0.98),
    )


def _from_z(normal: FloatArray) -> FloatArray:
    """Return the quaternion w, x, y, z that turns z to a normal along an axis."""
    x, y, z = normal
    q = np.array([1.0 + z, -y, x, 0.0]) if z > -0.5 else np.array([0.0, 1.0, 0.0, 0.0])
    return np.asarray(q / np.linalg.norm(q))


def _product(q: FloatArray, r: FloatArray) -> FloatArray:
    """Return the products of one quaternion with many, (n, 4)."""
    w, x, y, z = q
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    return np.asarray(r @ left.T)


def _paint(p: FloatArray, number: int) -> FloatArray:
    """Return display colours at places: plaster, tiles and posters, different on each side."""
    shade = 0.06 * np.sin(p @ np.array([1.7, 2.3, 1.1]) + number) + 0.04 * np.sin(
        p @ np.array([9.0, -7.0, 8.0])
    )
    base = np.array([0.35, 0.45, 0.55])[np.arange(number, number + 3) % 3] + 0.02 * (number % 5)
    tiles = np.floor(p / 0.6 + 1e-3).sum(axis=1) % 2
    poster = (np.sin(p @ np.array([0.9, 0.7, 0.8]) + 2.0 * number) > 0.8)[:, None]
    made = base + shade[:, None] + 0.08 * (tiles[:, None] - 0.5)
    bright = 0.5 + 0.4 * np.sin(p[:, :1] * 5.0 + np.array([0.0, 2.0, 4.0]) + p[:, 1:2] * 3.0)
    return np.asarray(np.where(poster, bright, made))


def hall_range_m(origin: FloatArray, directions: FloatArray) -> npt.NDArray[np.float64]:
    """Return the distances from a place in the hall to its surfaces along directions (n, 3), in
    their lengths.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        walls = [(np.where(directions[:, i] > 0.0, 1.0, -1.0) * HALF_M[i] + (0.0, 0.0,
        HALF_M[2])[i] - origin[i])
                 / directions[:, i] for i in range(3)]  # fmt: skip
        reach = np.min(walls, axis=0)
        for (x, y), half in BOXES:
            low = np.array([x, y, half[2]]) - half
            high = np.array([x, y, half[2]]) + half
            t = np.stack(((low - origin) / directions, (high - origin) / directions))
            enter = np.nanmax(t.min(axis=0), axis=1)
            leave = np.nanmin(t.max(axis=0), axis=1)
            reach = np.where((enter < leave) & (enter > 0.0), np.minimum(reach, enter), reach)
    return np.asarray(reach)

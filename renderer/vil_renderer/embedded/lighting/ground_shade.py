"""Soft dark patches on the ground below actors, where no shadow map follows them."""

from __future__ import annotations

from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_normalize, q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.posed_models import PosedModels

_REACH_M: Final = 6.0
_LIFT_M: Final = 0.05
"""Above the origin of an actor, where its ray starts: the origin may lie in the ground."""
_WIDEST_M: Final = 0.5
_SMALLEST_M: Final = 0.05
_SPREAD: Final = 0.12
_DARKEST: Final = 0.55
_STANDING_M: Final = 0.1
"""Space between the ground and the box of an actor that stands on it."""
_RIM: Final = 1.35
_MOST: Final = 8
"""Radius of the patches of an actor on the ground, by half of its width, and the most patches."""
_CONTACT_M: Final = 0.3
_CONTACT: Final = 0.5
"""Height below which parts of a body have patches of their own, and the darkest of these."""

_Rows = npt.NDArray[np.float32]
_Index = npt.NDArray[np.intp]


class GroundShade:
    """The patches of all actors of one instant, wider and fainter with height.

    Tiny actors have none.

    What stands on the ground and is longer than high has patches along its length, and feet have
    their own. What is higher than long may have arms that stand over: it has one patch below its
    origin.
    """

    def __init__(self, posed: PosedModels, rays: RayWorld | None) -> None:
        self._rows = np.zeros((0, 5), np.float32)
        self._owner = np.zeros(0, np.intp)
        half_m = posed.half_size_m
        wide = np.flatnonzero(half_m.max(axis=1, initial=0.0) >= _SMALLEST_M)
        if rays is None or not len(wide):
            return
        p_m = (posed.p_m[wide] + (0.0, 0.0, _LIFT_M)).astype(np.float32)
        down = np.tile(np.array([0.0, 0.0, -1.0], np.float32), (len(p_m), 1))
        height_m, hit, _, _ = rays.still.strike(p_m, down, np.full(len(p_m), _REACH_M, np.float32))
        below = hit >= 0
        ground_m = np.full(len(posed), -np.inf)
        ground_m[wide[below]] = (p_m[:, 2] - height_m)[below]
        height_m = np.maximum(posed.p_m[:, 2] - ground_m, 0.0)
        capsules = list(chain.from_iterable(group.capsules for group in posed.groups))
        bodily = np.array([len(rows) for rows in capsules]) > 0
        flat = half_m[:, 2] < half_m[:, :2].max(axis=1)
        standing = (height_m < half_m[:, 2] + _STANDING_M) & ~bodily & flat
        above = np.isfinite(ground_m) & ~standing
        parts = [
            _overhead(posed.p_m, half_m, ground_m, np.flatnonzero(above)),
            _underfoot(posed, ground_m, np.flatnonzero(standing)),
            _contacts(capsules, ground_m),
        ]
        self._rows = np.concatenate([rows for rows, _ in parts])
        self._owner = np.concatenate([owner for _, owner in parts])

    def of(self, shown: BoolArray) -> _Rows:
        """Return patches (k, 5) of the shown actors, chosen by a mask (n,).

        Place, radius and strength.
        """
        return self._rows[shown[self._owner]]


def _overhead(
    p_m: FloatArray, half_m: FloatArray, ground_m: FloatArray, which: _Index
) -> tuple[_Rows, _Index]:
    """Return a patch for each of some actors, and their numbers."""
    height_m = np.maximum(p_m[which, 2] - ground_m[which], 0.0)
    radius_m = np.minimum(half_m[which, :2].max(axis=1), _WIDEST_M) + _SPREAD * height_m
    strength = _DARKEST / (1.0 + height_m)
    return np.column_stack((p_m[which, :2], ground_m[which], radius_m, strength)).astype(
        np.float32
    ), which


def _underfoot(posed: PosedModels, ground_m: FloatArray, which: _Index) -> tuple[_Rows, _Index]:
    """Return patches below some actors that stand on the ground, along the longer side of each,
    and their numbers.
    """
    bodies = list(chain.from_iterable(group.bodies for group in posed.groups))
    q = np.array([bodies[i].q_xyzw for i in which.tolist()]).reshape(-1, 4)
    axes = q_to_matrix(q_normalize(q))[:, :2, :2]
    size_m = np.maximum(posed.half_size_m[which, :2], _SMALLEST_M)
    ahead = size_m[:, 0] >= size_m[:, 1]
    long_m = size_m.max(axis=1)
    short_m = size_m.min(axis=1)
    along = np.where(ahead[:, None], axes[:, :, 0], axes[:, :, 1])
    count = np.minimum(np.rint(long_m / short_m), _MOST).astype(np.intp)
    each = np.repeat(np.arange(len(which)), count)
    place = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
    share = 2.0 * place / np.maximum(count[each] - 1, 1) - np.minimum(count[each] - 1, 1)
    rows = np.empty((len(each), 5), np.float32)
    rows[:, :2] = (
        posed.p_m[which, :2][each] + ((long_m - short_m)[each] * share)[:, None] * along[each]
    )
    rows[:, 2], rows[:, 3], rows[:, 4] = ground_m[which][each], _RIM * short_m[each], _DARKEST
    return rows, which[each]


def _contacts(capsules: list[FloatArray], ground_m: FloatArray) -> tuple[_Rows, _Index]:
    """Return patches below the parts of bodies that are near the ground, and the numbers of
    their actors.
    """
    owner = np.repeat(np.arange(len(capsules)), [len(rows) for rows in capsules])
    ends = np.concatenate([np.zeros((0, 8)), *capsules])
    place = np.concatenate((ends[:, :3], 0.5 * (ends[:, :3] + ends[:, 3:6]), ends[:, 3:6]))
    radius_m = np.concatenate((ends[:, 6], ends[:, 6:].mean(axis=1), ends[:, 7]))
    owner = np.tile(owner, 3)
    height_m = np.maximum(place[:, 2] - ground_m[owner], radius_m)
    near = height_m < _CONTACT_M
    place[:, 2] = ground_m[owner]
    share = np.minimum(1.0, radius_m / np.maximum(height_m, _LIFT_M))
    rows = np.column_stack((place, radius_m + height_m, _CONTACT * share * share))
    return rows[near].astype(np.float32), owner[near]

"""Soft dark patches on the ground below actors, where no shadow map follows them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.posed_models import PosedModels

_REACH_M: Final = 6.0
_WIDEST_M: Final = 0.5
_SMALLEST_M: Final = 0.05
_SPREAD: Final = 0.12
_DARKEST: Final = 0.55


class GroundShade:
    """The patches of all actors of one instant, wider and fainter with height; tiny actors have none."""

    def __init__(self, posed: PosedModels, rays: RayWorld | None) -> None:
        self._rows, self._owner = np.zeros((0, 5), np.float32), np.zeros(0, np.intp)
        half_m = posed.half_size_m
        wide = np.flatnonzero(half_m.max(axis=1, initial=0.0) >= _SMALLEST_M)
        if rays is None or not len(wide):
            return
        p_m = posed.p_m[wide].astype(np.float32)
        down = np.tile(np.array([0.0, 0.0, -1.0], np.float32), (len(p_m), 1))
        height_m, hit, _, _ = rays.still.strike(p_m, down, np.full(len(p_m), _REACH_M, np.float32))
        below = np.flatnonzero(hit >= 0)
        radius_m = np.minimum(half_m[wide, :2].max(axis=1), _WIDEST_M)
        p_m[:, 2] -= height_m
        shape = np.stack((radius_m + _SPREAD * height_m, _DARKEST / (1.0 + height_m)), axis=1)
        self._rows = np.hstack((p_m, shape))[below].astype(np.float32)
        self._owner = wide[below]

    def of(self, shown: BoolArray) -> npt.NDArray[np.float32]:
        """Return patches (k, 5) of the shown actors, chosen by a mask (n,): place, radius and strength."""
        return self._rows[shown[self._owner]]

"""Soft dark patches on the ground below actors, where no shadow map follows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.scene import Posed

_REACH_M: Final = 6.0
_WIDEST_M: Final = 0.5
_SMALLEST_M: Final = 0.05
_SPREAD: Final = 0.12
_DARKEST: Final = 0.55


class GroundShade:
    """The patches of all actors of one instant, wider and fainter with height; tiny actors have none."""

    def __init__(self, posed: Sequence[Posed], rays: RayWorld | None) -> None:
        wide = [p for p in posed if max(p.half_size_m) >= _SMALLEST_M] if rays is not None else []
        self._rows = np.zeros((0, 5), np.float32)
        self._row: dict[str, int] = {}
        if rays is None or not wide:
            return
        p_m = np.array([actor.T_world_body.p_m for actor in wide], np.float32)
        down = np.tile(np.array([0.0, 0.0, -1.0], np.float32), (len(p_m), 1))
        height_m, hit, _, _ = rays.still.strike(p_m, down, np.full(len(p_m), _REACH_M, np.float32))
        below = np.flatnonzero(hit >= 0)
        radius_m = np.minimum(np.array([max(actor.half_size_m[:2]) for actor in wide]), _WIDEST_M)
        p_m[:, 2] -= height_m
        shape = np.stack((radius_m + _SPREAD * height_m, _DARKEST / (1.0 + height_m)), axis=1)
        self._rows = np.hstack((p_m, shape))[below].astype(np.float32)
        self._row = {wide[i].name: row for row, i in enumerate(below.tolist())}

    def of(self, shown: Sequence[Posed]) -> npt.NDArray[np.float32]:
        """Return patches (k, 5) of the shown actors: place, radius and strength."""
        return self._rows[[self._row[p.name] for p in shown if p.name in self._row]]

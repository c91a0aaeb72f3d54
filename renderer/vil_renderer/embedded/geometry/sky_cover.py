"""Roofs of a scene as seen from above: where rain and snow arrive, and where they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.geometry.surfaces import solid_mesh
from vil_renderer.embedded.scene import CLASSES, Scene

_FINEST_M: Final = 0.1
_MOST_CELLS: Final = 640
"""Side of a cell, and cells along the longer side."""
_ROOM_M: Final = 0.3
_ROOM_CELLS: Final = 1.5
"""Depth below a surface down to which a point lies on it: cells of slopes and steps.

The larger of both.
"""
_SMOOTH_M: Final = 3.0
_LETS_THROUGH: Final = CLASSES["vegetation"]


@dataclass(frozen=True, slots=True, eq=False)
class SkyCover:
    """Height of the highest surface over each cell of the ground.

    Narrow ones, such as cables, are left out.

    Attributes:
        height_m: float32 (rows, columns), rows along y, the outermost as low as the scene.
        low_m: the scene's lowest corner, (3,). size_m: of the map, (3,).
        cell_m: side of a cell.
    """

    height_m: npt.NDArray[np.float32]
    low_m: FloatArray
    size_m: FloatArray
    cell_m: float

    @property
    def room_m(self) -> float:
        """Depth below a surface down to which a point lies on it."""
        return max(_ROOM_M, _ROOM_CELLS * self.cell_m)

    @classmethod
    def of(cls, scene: Scene) -> SkyCover | None:
        """Look down at the static solid objects; trees let everything through.

        None = there are none.

        Raises:
            RendererError: embreex is not installed.
        """
        roofs = tuple(
            o for o in scene.objects if not o.movable and o.solid and o.semantic != _LETS_THROUGH
        )
        still, _ = solid_mesh(replace(scene, objects=roofs))
        if not len(still.triangles):
            return None
        corners = still.p_m[still.triangles].reshape(-1, 3).astype(np.float64)
        low = corners.min(axis=0)
        high = corners.max(axis=0)
        cell = max(_FINEST_M, float((high - low)[:2].max()) / _MOST_CELLS)
        columns, rows = np.ceil((high - low)[:2] / cell).astype(int) + 2
        low[:2] -= cell
        x = low[0] + cell * (np.arange(columns) + 0.5)
        y = low[1] + cell * (np.arange(rows) + 0.5)
        from_m = np.empty((rows, columns, 3), np.float32)
        from_m[..., 0], from_m[..., 1], from_m[..., 2] = x, y[:, None], high[2] + 1.0
        down = np.tile(np.array([0.0, 0.0, -1.0], np.float32), (rows * columns, 1))
        reach = np.full(rows * columns, high[2] - low[2] + 2.0, np.float32)
        away, hit, _, _ = still.strike(from_m.reshape(-1, 3), down, reach)
        height = (
            np.where(hit >= 0, high[2] + 1.0 - away, low[2])
            .astype(np.float32)
            .reshape(rows, columns)
        )
        height = np.asarray(
            cv2.morphologyEx(height, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)), np.float32
        )
        height[[0, -1]], height[:, [0, -1]] = low[2], low[2]
        size = np.array([columns * cell, rows * cell, max(high[2] - low[2], _FINEST_M)])
        return cls(height, low, size, cell)

    def over(self, p_m: FloatArray) -> BoolArray:
        """Return whether something is above points (n, 3), (n,)."""
        at = np.floor((p_m[:, :2] - self.low_m[:2]) / self.cell_m).astype(np.intp)
        rows, columns = self.height_m.shape
        inside = (at >= 0).all(axis=1) & (at[:, 0] < columns) & (at[:, 1] < rows)
        found = np.zeros(len(p_m), np.bool_)
        found[inside] = self.height_m[at[inside, 1], at[inside, 0]] > p_m[inside, 2] + self.room_m
        return found

    def share_over(self, p_m: FloatArray) -> FloatArray:
        """Return which share of the places within 3 m of points (n, 3) is below something, (n,)."""
        steps = np.linspace(-_SMOOTH_M, _SMOOTH_M, 13)
        around = np.array(
            [(x, y, 0.0) for x in steps for y in steps if x * x + y * y <= _SMOOTH_M**2]
        )
        places = (p_m[:, None] + around).reshape(-1, 3)
        return np.asarray(self.over(places).reshape(len(p_m), -1).mean(axis=1))

"""Static geometry: textured panels cut into small quads, so that light can be baked into the vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross, yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.textures import Layer

__all__ = ["UV_WHOLE", "Mesh", "Panel", "Solids", "UvRect", "panel_mesh"]

UvRect = tuple[float, float, float, float]
UV_WHOLE: UvRect = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Triangles of static geometry.

    Attributes:
        p_m: float32 (n, 3). normal: float32 (n, 3). uv: float32 (n, 2), v = 0 is the texture's top row.
        layer: float32 (n,). tint: float32 (n, 3). glow: bool (n,), shines by itself.
        triangles: uint32 (m, 3), counter-clockwise seen from outside, panel after panel.
        panel_triangles: how many of them each panel has, shape (k,).
    """

    p_m: npt.NDArray[np.float32]
    normal: npt.NDArray[np.float32]
    uv: npt.NDArray[np.float32]
    layer: npt.NDArray[np.float32]
    tint: npt.NDArray[np.float32]
    glow: npt.NDArray[np.bool_]
    triangles: npt.NDArray[np.uint32]
    panel_triangles: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A textured parallelogram seen from the side that ``right x up`` points to.

    Attributes:
        corner_m: its bottom-left corner. right_m, up_m: its edges, shape (3,) each.
        uv: (u0, v0, u1, v1) of the left, top, right, bottom edge; a greater first value mirrors.
        cell_m: longest side of the quads it is cut into.
    """

    corner_m: FloatArray
    right_m: FloatArray
    up_m: FloatArray
    layer: Layer
    uv: UvRect = UV_WHOLE
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    glow: bool = False
    cell_m: float = 0.5

    @property
    def normal(self) -> FloatArray:
        """Unit vector that points away from the surface, shape (3,)."""
        normal = cross(self.right_m, self.up_m)
        return normal / math.sqrt(float(normal @ normal))


@dataclass(slots=True)
class Solids:
    """Panels and the boxes behind them, collected while a scene is built."""

    panels: list[Panel] = field(default_factory=list)
    boxes: list[Boxes] = field(default_factory=list)

    def box(
        self,
        centre_m: tuple[float, float, float],
        size_m: tuple[float, float, float],
        layer: Layer,
        *,
        yaw_rad: float = 0.0,
        uv: UvRect = UV_WHOLE,
        tint: tuple[float, float, float] = (1.0, 1.0, 1.0),
        glow: bool = False,
        cell_m: float = 0.5,
    ) -> None:
        """A solid box standing on its z axis; every face shows the same part of the texture."""
        rotation = yaw_matrix(yaw_rad)
        centre, half = np.array(centre_m), 0.5 * np.array(size_m)
        self.boxes.append(Boxes(centre[None], rotation[None], half[None]))
        x, y, z = (rotation * half).T
        for normal, right, up in ((x, y, z), (-x, -y, z), (y, -x, z), (-y, x, z), (z, x, y), (-z, x, -y)):
            self.panels.append(Panel(centre + normal - right - up, 2 * right, 2 * up, layer, uv, tint, glow, cell_m))


def panel_mesh(panels: list[Panel]) -> Mesh:
    """Cut panels into quads, each of two triangles."""
    grids = [_grid(p) for p in panels]
    starts = np.cumsum([0] + [len(g.p_m) for g in grids])
    return Mesh(
        np.concatenate([g.p_m for g in grids]),
        np.concatenate([g.normal for g in grids]),
        np.concatenate([g.uv for g in grids]),
        np.concatenate([g.layer for g in grids]),
        np.concatenate([g.tint for g in grids]),
        np.concatenate([g.glow for g in grids]),
        np.concatenate([g.triangles + np.uint32(s) for g, s in zip(grids, starts, strict=False)]),
        np.concatenate([g.panel_triangles for g in grids]),
    )


def _grid(panel: Panel) -> Mesh:
    columns = max(1, math.ceil(math.hypot(*panel.right_m) / panel.cell_m))
    rows = max(1, math.ceil(math.hypot(*panel.up_m) / panel.cell_m))
    s = np.tile(np.arange(columns + 1) / columns, rows + 1)
    t = np.repeat(np.arange(rows + 1) / rows, columns + 1)
    n = len(s)
    u0, v0, u1, v1 = panel.uv
    first = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    quad = np.stack((first, first + 1, first + columns + 2, first, first + columns + 2, first + columns + 1), axis=-1)
    return Mesh(
        (panel.corner_m + s[:, None] * panel.right_m + t[:, None] * panel.up_m).astype(np.float32),
        np.full((n, 3), panel.normal, np.float32),
        np.stack((u0 + s * (u1 - u0), v1 + t * (v0 - v1)), axis=-1).astype(np.float32),
        np.full(n, float(panel.layer), np.float32),
        np.full((n, 3), panel.tint, np.float32),
        np.full(n, panel.glow),
        quad.reshape(-1, 3).astype(np.uint32),
        np.array([2 * rows * columns], np.intp),
    )

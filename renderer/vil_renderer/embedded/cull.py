"""Which panels a camera can see: those that face it and reach into its view."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.mesh import Mesh, Panel

__all__ = ["Culler"]


class Culler:
    """Picks triangles panel by panel; half of them face away and most of the rest lie outside the view."""

    def __init__(self, panels: Sequence[Panel], mesh: Mesh) -> None:
        self._triangles = mesh.triangles
        self._counts = mesh.panel_triangles
        self._normal = np.array([p.normal for p in panels])
        self._centre_m = np.array([p.corner_m + 0.5 * (p.right_m + p.up_m) for p in panels])
        diagonals = np.array([(p.right_m + p.up_m, p.right_m - p.up_m) for p in panels])
        self._radius_m = 0.5 * np.linalg.norm(diagonals, axis=2).max(axis=1)

    def visible(self, clip_from_world: FloatArray, eye_m: FloatArray) -> npt.NDArray[np.uint32]:
        """Triangles (m, 3) that may be seen, in their order.

        Args:
            clip_from_world: shape (4, 4), from :mod:`camera`.
            eye_m: the camera's place, shape (3,).
        """
        keep = np.einsum("ki,ki->k", self._normal, eye_m - self._centre_m) > 0.0
        for axis in (0, 1):
            for sign in (1.0, -1.0):
                plane = clip_from_world[3] + sign * clip_from_world[axis]
                reach = self._centre_m @ plane[:3] + plane[3]
                keep &= reach > -self._radius_m * np.linalg.norm(plane[:3])
        triangles: npt.NDArray[np.uint32] = self._triangles[np.repeat(keep, self._counts)]
        return triangles

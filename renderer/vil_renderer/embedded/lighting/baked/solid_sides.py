"""The static mesh for light: what stops it, and which side of a triangle a ray meets."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.geometry.surfaces import TriangleSurface

_FAR_M: Final = 1.0e4
_LIFT_M: Final = 0.004
_AT_LIGHT_M: Final = 0.02
"""Distance from a lamp within which nothing hides it."""


class SolidSides:
    """Opaque triangles of a mesh, each once.

    The two sides of a double-sided surface are two triangles of the mesh.

    Args:
        mesh: static mesh. without: names of objects that stop no light.
    """

    def __init__(self, mesh: StaticMesh, without: frozenset[str] = frozenset()) -> None:
        chunks = mesh.chunks
        count = len(mesh.triangles)
        solid = np.ones(count, np.bool_)
        self._other: Final = np.full(count, -1, np.intp)
        for chunk, (start, stop) in enumerate(
            zip(chunks.start.tolist(), chunks.stop.tolist(), strict=True)
        ):
            material = mesh.materials[chunks.material[chunk]][0]
            clear = material.alpha == "blend" or material.transmission is not None
            if chunks.name[chunk] in without or chunks.gone[chunk] or clear:
                solid[start:stop] = False
            elif material.double_sided:
                middle = (start + stop) // 2
                solid[middle:stop] = False
                self._other[start:middle] = np.arange(middle, stop)
        self._triangle: Final = np.flatnonzero(solid)
        self._surface: Final = TriangleSurface(mesh.vertices["p"], mesh.triangles[solid])

    def strike(
        self, origins: Float32Array, directions: Float32Array
    ) -> tuple[npt.NDArray[np.intp], BoolArray, Float32Array, Float32Array]:
        """Return what rays (n, 3) meet first.

        Returns:
            The mesh's triangle whose front they see, -1 = none or a bare back; whether they meet
                anything; and the
            barycentrics of its second and third corner. All (n,).
        """
        _, hit, u, v = self._surface.strike(
            origins, directions, np.full(len(origins), _FAR_M, np.float32)
        )
        behind = self._surface.from_behind(hit, directions)
        found = np.full(len(hit), -1, np.intp)
        met = hit >= 0
        triangle = self._triangle[hit[met]]
        found[met] = np.where(behind[met], self._other[triangle], triangle)
        # A back's triangle has the corners c, b, a: its third one is the front's first one.
        return found, met, u, np.where(behind, np.float32(1.0) - u - v, v)

    def is_buried(self, p_m: Float32Array, normal: Float32Array) -> BoolArray:
        """Return which points of surfaces (n, 3) lie inside of something.

        What is straight above shows its back.
        """
        triangle, met, _, _ = self.strike(lifted(p_m, normal), normal)
        return met & (triangle < 0)

    def sees(self, p_m: Float32Array, light_m: FloatArray) -> BoolArray:
        """Return which points (n, 3) see a light at (3,) or (n, 3)."""
        way = (light_m - p_m).astype(np.float32)
        length = np.maximum(np.linalg.norm(way, axis=1), 1e-6)
        reach = np.maximum(1.0 - _AT_LIGHT_M / length, 0.0).astype(np.float32)
        return ~self._surface.blocks(p_m, way, reach)


def lifted(p_m: Float32Array, normal: Float32Array) -> Float32Array:
    """Return points of surfaces (n, 3), moved off them along their normals, so that rays do not
    meet their own.
    """
    return np.asarray(p_m + np.float32(_LIFT_M) * normal, np.float32)

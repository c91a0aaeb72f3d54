"""Methods of the scene's geometry: extents, meshes, and grids of voxels."""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.servers.airsim.frames import ned_of, quaternion_of, world_of
from vil_bridge.servers.airsim.methods import method
from vil_bridge.servers.airsim.scene import ServedScene
from vil_bridge.servers.airsim.state_methods import StateMethods
from vil_bridge.servers.airsim.values import AirsimGeoPoint, MeshPositionVertexBuffersResponse, Vector3r
from vil_bridge.servers.airsim.vehicles import ServedVehicles

_LONGEST_RUN: Final = 255
_SUFFIX: Final = ".binvox"
_MOST_ALONG: Final = 1 << 20


class GeometryMethods:
    """Geometry of the scene, without vehicles."""

    def __init__(self, vehicles: ServedVehicles, scene: ServedScene, states: StateMethods) -> None:
        self._vehicles = vehicles
        self._scene = scene
        self._states = states

    @method("simGetWorldExtents")
    async def world_extents(self) -> list[AirsimGeoPoint]:
        """Return the lowest and the highest corner of the scene on the Earth."""
        low, high = await self._scene.extents()
        return [self._states.geo_point(low), self._states.geo_point(high)]

    @method("simGetMeshPositionVertexBuffers")
    async def meshes(self) -> list[MeshPositionVertexBuffersResponse]:
        """Return the objects as triangles where they are now: vertices in the world, NED, metres."""
        found = await self._scene.meshes()
        objects = await self._scene.objects(self._vehicles.snapshot().t_ns)
        answers = []
        for mesh in found:
            if mesh.name not in objects:
                continue  # another program has just removed it
            T = objects[mesh.name].T_world_object
            ned = T.apply(mesh.p_m.astype(float))[:, [1, 0, 2]] * (1.0, 1.0, -1.0)
            indices = mesh.triangles.reshape(-1)  # ENU and NED are right-handed: normals still point outwards
            answers.append(
                MeshPositionVertexBuffersResponse(
                    ned_of(T.p_m), quaternion_of(T.q_xyzw), ned.reshape(-1).tolist(), indices.tolist(), mesh.name
                )
            )
        return answers

    @method("simCreateVoxelGrid")
    async def create_voxel_grid(self, position: Vector3r, x: int, y: int, z: int, res: float, of: str) -> bool:
        """Write the occupied cells of a box around a point as a new binvox file; sizes in metres.

        Raises:
            ValueError: a size is not positive, or the file is not a binvox file or cannot be written.
        """
        if not (min(x, y, z) > 0 and 0.0 < res <= min(x, y, z)):
            raise ValueError(
                f"sizes and resolution must be positive, and cells smaller than the box: {x} {y} {z} {res}"
            )
        if max(x, y, z) > _MOST_ALONG * res:
            raise ValueError(
                f"a grid has at most {_MOST_ALONG} cells along an axis: ask for a smaller box or larger cells"
            )
        path = Path(of)
        if path.suffix != _SUFFIX:
            raise ValueError(f"the name of a voxel grid must end with {_SUFFIX}, not {path.name!r:.80}")
        cells = (int(y / res), int(x / res), int(z / res))  # east, north, up
        first: FloatArray = world_of(position) - res * (np.array(cells) // 2)
        grid = await self._scene.occupied(first, res, cells)
        try:
            await asyncio.to_thread(path.write_bytes, _binvox(grid, res))
        except OSError as exc:
            raise ValueError(f"{path}: {exc}") from None
        return True


def _binvox(grid: BoolArray, cell_m: float) -> bytes:
    """Return a grid (east, north, up) as AirSim writes it: north runs fastest, then up, then east; runs of bytes."""
    east, north, up = grid.shape
    header = f"#binvox 1\ndim {north} {up} {east}\ntranslate {-north * 0.5:g} {-east * 0.5:g} {-up * 0.5:g}\n"
    ordered = grid.transpose(0, 2, 1).reshape(-1).tolist()
    data = bytearray()
    for value, run in groupby(ordered):
        length = sum(1 for _ in run)
        for begin in range(0, length, _LONGEST_RUN):
            data += bytes((value, min(_LONGEST_RUN, length - begin)))
    return f"{header}scale {cell_m * max(east, north, up):g}\ndata\n".encode() + bytes(data)

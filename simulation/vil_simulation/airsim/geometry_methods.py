"""Methods of the scene's geometry: extents, meshes, and grids of voxels."""

from __future__ import annotations

import asyncio
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.scene_queries import SceneMesh
from vil_simulation.airsim.frames import ned_of, ned_points, quaternion_of, world_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.pictures import packed_floats, packed_indices
from vil_simulation.airsim.program_files import ProgramFiles
from vil_simulation.airsim.quantities import CellSize, WholeMetres
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    AirsimGeoPoint,
    MeshPositionVertexBuffersResponse,
    PointNed,
)
from vil_simulation.airsim.vehicles import ServedVehicles

_LONGEST_RUN: Final = 255
_SUFFIX: Final = ".binvox"
_MOST_ALONG: Final = 1 << 20


class GeometryMethods:
    """Geometry of the scene, without vehicles."""

    def __init__(
        self,
        vehicles: ServedVehicles,
        scene: ServedScene,
        states: StateMethods,
        files: ProgramFiles,
    ) -> None:
        self._vehicles = vehicles
        self._scene = scene
        self._states = states
        self._files = files

    @method("simGetWorldExtents")
    async def world_extents(self) -> list[AirsimGeoPoint]:
        """Return the lowest and the highest corner of the scene on the Earth."""
        low, high = await self._scene.extents()
        return [self._states.geo_point(low), self._states.geo_point(high)]

    @method("simGetMeshPositionVertexBuffers")
    async def meshes(self) -> list[MeshPositionVertexBuffersResponse]:
        """Return the objects as triangles where they are now.

        Vertices in the world, NED, metres.
        """
        found = await self._scene.meshes()
        objects = await self._scene.objects(self._vehicles.snapshot().t_ns)
        answers = []
        for mesh in found:
            if mesh.name not in objects:
                continue  # another program has just removed it
            T = objects[mesh.name].T_world_object
            vertices, indices = await asyncio.to_thread(_packed, mesh, T)
            answers.append(
                MeshPositionVertexBuffersResponse(
                    ned_of(T.p_m), quaternion_of(T.q_xyzw), vertices, indices, mesh.name
                )
            )
        return answers

    @method("simCreateVoxelGrid")
    async def create_voxel_grid(
        self,
        position: PointNed,
        x: WholeMetres,
        y: WholeMetres,
        z: WholeMetres,
        res: CellSize,
        of: str,
    ) -> bool:
        """Write the occupied cells of a box around a point as a binvox file; sizes in metres.

        Raises:
            ValueError: the file is not a binvox file, leads out of the folder of files, or cannot
                be written.
        """
        if res > min(x, y, z):
            raise ValueError(
                f"cells must be smaller than the box, which is {x} x {y} x {z} m, not {res:g} m"
            )
        if max(x, y, z) > _MOST_ALONG * res:
            raise ValueError(
                f"a grid has at most {_MOST_ALONG} cells along an axis: ask for a smaller "
                "box or larger cells"
            )
        if not of.endswith(_SUFFIX):
            raise ValueError(f"the name of a voxel grid must end with {_SUFFIX}, not {of[-80:]!r}")
        cells = (int(y / res), int(x / res), int(z / res))  # east, north, up
        first: FloatArray = world_of(position) - res * (np.array(cells) // 2)
        grid = await self._scene.occupied(first, res, cells)
        try:
            await asyncio.to_thread(lambda: self._files.write(of, _binvox(grid, res)))
        except OSError as exc:
            raise ValueError(f"the voxel grid cannot be written: {exc}") from None
        return True


def _packed(mesh: SceneMesh, T_world_object: Transform) -> tuple[Packed, Packed]:
    """Return vertices (NED) and indices of a mesh.

    Both axes are right-handed, so that normals still point outwards.
    """
    ned = ned_points(T_world_object.apply(mesh.p_m.astype(float)))
    return packed_floats(ned), packed_indices(mesh.triangles)


def _binvox(grid: BoolArray, cell_m: float) -> bytes:
    """Return a grid (east, north, up) as AirSim writes it: north runs fastest, then up, then east.

    Runs of bytes.
    """
    east, north, up = grid.shape
    header = (
        f"#binvox 1\ndim {north} {up} {east}\ntranslate {-north * 0.5:g} {-east * 0.5:g} "
        f"{-up * 0.5:g}\n"
    )
    cells = grid.transpose(0, 2, 1).reshape(-1)
    begins = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    lengths = np.diff(begins, append=len(cells))
    pieces = -(-lengths // _LONGEST_RUN)
    runs = np.full((int(pieces.sum()), 2), _LONGEST_RUN, np.uint8)
    runs[:, 0] = np.repeat(cells[begins], pieces)
    runs[np.cumsum(pieces) - 1, 1] = lengths - (pieces - 1) * _LONGEST_RUN
    return f"{header}scale {cell_m * max(east, north, up):g}\ndata\n".encode() + runs.tobytes()

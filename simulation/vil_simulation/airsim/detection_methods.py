"""Methods of detections.

Objects that a camera sees, with their boxes in the picture and in space.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.interfaces.scene_queries import QueriedObject
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.expressions import Pattern, wildcards
from vil_simulation.airsim.frames import frd_of, mounted_quaternion_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.pictures import modality_of
from vil_simulation.airsim.quantities import Centimetres
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import Box2D, Box3D, DetectionInfo, Pose, Vector2r
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles

_MOST_FILTERS: Final = 100
_LONGEST: Final = 255
_AT_ONCE: Final = 16
"""Patterns that a name is compared with without other clients' turns between."""
_RADIUS_M: Final = 200.0
_M_PER_CM: Final = 0.01


@dataclass(slots=True)
class _Filter:
    """Filter of a camera: names with wildcards, and a radius around the camera."""

    names: list[Pattern] = field(default_factory=list)
    radius_m: float = _RADIUS_M

    async def passing(self, names: Sequence[str]) -> list[str]:
        """Return the names that pass, some at a time."""
        passing = []
        for name in names:
            for begin in range(0, len(self.names), _AT_ONCE):
                await asyncio.sleep(0)
                if any(pattern.fullmatch(name) for pattern in self.names[begin : begin + _AT_ONCE]):
                    passing.append(name)
                    break
        return passing


class DetectionMethods:
    """Detections of objects of the scene by their instance numbers.

    An object counts where a pixel of it is seen.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        cameras: ServedCameras,
        scene: ServedScene,
        states: StateMethods,
    ) -> None:
        self._vehicles = vehicles
        self._cameras = cameras
        self._scene = scene
        self._states = states
        self._filters: dict[tuple[str, str, int], _Filter] = {}

    @method("simAddDetectionFilterMeshName")
    def add_filter(
        self,
        camera_name: str,
        image_type: int,
        mesh_name: str,
        vehicle_name: str = "",
        external: bool = False,
    ) -> None:
        """Detect the objects of a name, in which * and ? stand for others; case does not matter."""
        found = self._filter(self._owner(vehicle_name, external=external), camera_name, image_type)
        if len(mesh_name) > _LONGEST or len(found.names) >= _MOST_FILTERS:
            raise ValueError(f"at most {_MOST_FILTERS} names of {_LONGEST} characters a camera")
        found.names.append(wildcards(mesh_name))

    @method("simSetDetectionFilterRadius")
    def set_radius(
        self,
        camera_name: str,
        image_type: int,
        radius_cm: Centimetres,
        vehicle_name: str = "",
        external: bool = False,
    ) -> None:
        """Detect the objects within a distance of the camera, centimetres."""
        owner = self._owner(vehicle_name, external=external)
        self._filter(owner, camera_name, image_type).radius_m = _M_PER_CM * radius_cm

    @method("simClearDetectionMeshNames")
    def clear(
        self, camera_name: str, image_type: int, vehicle_name: str = "", external: bool = False
    ) -> None:
        """Detect nothing."""
        self._filter(
            self._owner(vehicle_name, external=external), camera_name, image_type
        ).names.clear()

    @method("simGetDetections")
    async def detections(
        self, camera_name: str, image_type: int, vehicle_name: str = "", external: bool = False
    ) -> list[DetectionInfo]:
        """Return the objects that pass a camera's filter and are seen now."""
        owner = self._owner(vehicle_name, external=external)
        wanted = self._filter(owner, camera_name, image_type)
        snapshot = self._vehicles.snapshot()
        T_world_body = self._cameras.pose_of_owner(owner, snapshot)
        T = self._cameras.transform(owner, camera_name, T_world_body)
        view = self._cameras.view(
            owner, camera_name, image_type, Modality.INSTANCE, T_world_body, snapshot.t_ns
        )
        objects = await self._scene.objects(snapshot.t_ns)
        near = {
            name: objects[name]
            for name in await wanted.passing(list(objects))
            if np.linalg.norm(objects[name].T_world_object.p_m - T.p_m) <= wanted.radius_m
        }
        if not near:
            return []
        (image,) = await self._scene.images([view], snapshot)
        boxes = await asyncio.to_thread(_boxes, image.pixels)
        seen = []
        for name, found in near.items():
            if found.instance in boxes:
                seen.append(self._info(name, found, boxes[found.instance], T))
                await asyncio.sleep(0)
        return seen

    def _owner(self, vehicle_name: str, *, external: bool) -> ServedVehicle:
        return self._cameras.owner(self._vehicles, vehicle_name, external=external)

    def _filter(self, owner: ServedVehicle, camera_name: str, image_type: int) -> _Filter:
        """Return the filter of a camera's pictures of one kind.

        Raises ValueError: there is no such kind.
        """
        camera = self._cameras.key(owner, camera_name)
        modality_of(image_type)
        return self._filters.setdefault((*camera, image_type), _Filter())

    def _info(
        self, name: str, found: QueriedObject, box: Box2D, T_world_camera: Transform
    ) -> DetectionInfo:
        T = T_world_camera.inverse() @ found.T_world_object
        corners = T.apply(found.centre_m + np.array(found.size_m) * (_CORNERS - 0.5))
        low = corners.min(axis=0)
        high = corners.max(axis=0)
        box3d = Box3D(frd_of((low[0], high[1], high[2])), frd_of((high[0], low[1], low[2])))
        place = self._states.geo_point(found.T_world_object.p_m)
        return DetectionInfo(
            name, place, box, box3d, Pose(frd_of(T.p_m), mounted_quaternion_of(T.q_xyzw))
        )


_CORNERS: Final[FloatArray] = np.array(
    [(x, y, z) for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)]
)


def _boxes(instances: ImageArray) -> dict[int, Box2D]:
    """Return the boxes of the pixels of all instances that are seen, by number."""
    flat = instances.reshape(-1)
    order = np.argsort(flat, kind="stable")
    numbers, begins = np.unique(flat[order], return_index=True)
    rows, columns = np.divmod(order, instances.shape[1])
    low = np.stack(
        [np.minimum.reduceat(columns, begins), np.minimum.reduceat(rows, begins)], axis=1
    )
    high = (
        np.stack([np.maximum.reduceat(columns, begins), np.maximum.reduceat(rows, begins)], axis=1)
        + 1
    )
    corners = zip(
        numbers.tolist(), low.astype(float).tolist(), high.astype(float).tolist(), strict=True
    )
    return {number: Box2D(Vector2r(*least), Vector2r(*most)) for number, least, most in corners}

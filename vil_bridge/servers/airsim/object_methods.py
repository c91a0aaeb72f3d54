"""Methods of the scene's objects: names, poses, segmentation ids, line of sight."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vil_bridge.core.scene_queries import QueriedObject
from vil_bridge.core.types import FloatArray
from vil_bridge.servers.airsim.frames import ned_of, quaternion_of
from vil_bridge.servers.airsim.methods import method
from vil_bridge.servers.airsim.object_ids import matcher
from vil_bridge.servers.airsim.scene import ServedScene
from vil_bridge.servers.airsim.values import GeoPoint, Pose, Vector3r
from vil_bridge.servers.airsim.vehicles import ServedVehicles
from vil_bridge.vehicles.environment.geodesy import GeoOrigin

_NOT_HIT_M = 1e-3


class ObjectMethods:
    """Objects of the scene, and the vehicles among them.

    Args:
        origin: the world on the Earth.
    """

    def __init__(self, vehicles: ServedVehicles, scene: ServedScene, origin: GeoOrigin) -> None:
        self._vehicles = vehicles
        self._scene = scene
        self._origin = origin

    @method("simListSceneObjects")
    async def list_objects(self, name_regex: str = ".*") -> list[str]:
        """Return the objects whose whole names match an expression; case matters."""
        matches = matcher(name_regex)
        return [name for name in await self._scene.names() if matches(name)]

    @method("simGetObjectPose")
    async def object_pose(self, object_name: str) -> Pose:
        """Return an object's pose in the world; NaN = there is none of that name."""
        if object_name in self._vehicles.names:
            T = self._vehicles.motion(self._vehicles.find(object_name)).T_world_body
        elif (found := (await self._objects()).get(object_name)) is not None:
            T = found.T_world_object
        else:
            return Pose.unknown()
        return Pose(ned_of(T.p_m), quaternion_of(T.q_xyzw))

    @method("simGetObjectScale")
    async def object_scale(self, object_name: str) -> Vector3r:
        """Return an object's scale: 1 as drawn, 0 = there is none of that name."""
        known = object_name in self._vehicles.names or object_name in await self._objects()
        return Vector3r(1.0, 1.0, 1.0) if known else Vector3r()

    @method("simSetSegmentationObjectID")
    async def set_segmentation_id(self, mesh_name: str, object_id: int, is_name_regex: bool = False) -> bool:
        """Give a segmentation id to objects; a negative one hides them."""
        names = await self._scene.names()
        return self._scene.ids.set(names, mesh_name, object_id, is_expression=is_name_regex)

    @method("simGetSegmentationObjectID")
    async def segmentation_id(self, mesh_name: str) -> int:
        """Return the segmentation id of an object; -1 = there is none of that name, whose case does not matter."""
        wanted = mesh_name.lower()
        return next((self._scene.ids.of(n) for n in await self._scene.names() if n.lower() == wanted), -1)

    @method("simTestLineOfSightToPoint")
    async def sees_point(self, point: GeoPoint, vehicle_name: str = "") -> bool:
        """Return True if nothing stands between a vehicle and a place."""
        vehicle = self._vehicles.find(vehicle_name)
        p_m = self._vehicles.motion(vehicle).T_world_body.p_m
        return await self._free(p_m, self._place(point), (vehicle.actor,))

    @method("simTestLineOfSightBetweenPoints")
    async def sees_between(self, point1: GeoPoint, point2: GeoPoint) -> bool:
        """Return True if nothing stands between two places."""
        return await self._free(self._place(point1), self._place(point2), ())

    async def _objects(self) -> Mapping[str, QueriedObject]:
        return await self._scene.objects(self._vehicles.snapshot().t_ns)

    def _place(self, point: GeoPoint) -> FloatArray:
        return self._origin.to_world(point.latitude, point.longitude, point.altitude)

    async def _free(self, a_m: FloatArray, b_m: FloatArray, hide: tuple[str, ...]) -> bool:
        way = b_m - a_m
        length_m = float(np.linalg.norm(way))
        if length_m < _NOT_HIT_M:
            return True
        snapshot = self._vehicles.snapshot()
        hits = await self._scene.cast(a_m[None], (way / length_m)[None], length_m, snapshot, hide)
        return not bool(hits.range_m[0] < length_m - _NOT_HIT_M)

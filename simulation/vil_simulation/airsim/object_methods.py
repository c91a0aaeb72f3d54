"""Methods of the scene's objects: names, poses, segmentation ids, line of sight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.scene_queries import QueriedObject
from vil_simulation.airsim.expressions import matching
from vil_simulation.airsim.frames import ned_of, quaternion_of, transform_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.race_methods import ServedRace
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import AirsimGeoPoint, GivenPose, GivenScale, Pose, Vector3r
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

_NOT_HIT_M: Final = 1e-3
_LONGEST_NAME: Final = 200
_ORIGIN_M: Final[FloatArray] = np.zeros(3)
"""Positions of objects are those of the world."""


class ObjectMethods:
    """Objects of the scene, and the vehicles among them.

    Args:
        origin: the world on the Earth.
        race: its gates have the poses of the drone racing lab; None = there is none.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        scene: ServedScene,
        states: StateMethods,
        origin: GeoOrigin,
        race: ServedRace | None = None,
    ) -> None:
        self._vehicles = vehicles
        self._race = race
        self._states = states
        self._vehicle_scales: dict[str, tuple[float, float, float]] = {}
        self._scene = scene
        self._origin = origin

    @method("simListSceneObjects")
    async def list_objects(self, name_regex: str = ".*") -> list[str]:
        """Return the objects whose whole names match an expression; case matters."""
        names = await self._scene.names()
        if self._race is not None:
            names += [name for name in self._race.gates if name not in names]
        return await matching(names, name_regex)

    @method("simGetObjectPose")
    async def object_pose(self, object_name: str, add_noise: bool = False) -> Pose:
        """Return an object's pose in the world; NaN = there is none of that name.

        Noise has a race's gates only.
        """
        if self._race is not None and object_name in self._race.gates:
            return self._race.pose(object_name, noisy=add_noise)
        if object_name in self._vehicles.names:
            T = self._vehicles.motion(self._vehicles.find(object_name)).T_world_body
        elif (found := (await self._objects()).get(object_name)) is not None:
            T = found.T_world_object
        else:
            return Pose.unknown()
        return Pose(ned_of(T.p_m), quaternion_of(T.q_xyzw))

    @method("simGetObjectScale")
    async def object_scale(self, object_name: str) -> Vector3r:
        """Return an object's scale: 1 as drawn, of a race's gate as its opening.

        0 = there is none of that name.
        """
        if self._race is not None and object_name in self._race.gates:
            return self._race.scale(object_name)
        if object_name in self._vehicles.names:
            return Vector3r(*self._vehicle_scales.get(object_name, (1.0, 1.0, 1.0)))
        found = (await self._objects()).get(object_name)
        return Vector3r() if found is None else Vector3r(*found.scale)

    @method("simGetObjectScaleInternal")
    async def internal_scale(self, object_name: str) -> Vector3r:
        """Return an object's scale; a name of the drone racing lab."""
        return await self.object_scale(object_name)

    @method("simSetObjectPose")
    async def set_object_pose(
        self,
        object_name: str,
        pose: GivenPose,
        teleport: bool = True,  # noqa: ARG002
    ) -> bool:
        """Move an object, or a simulated vehicle.

        False = there is none of that name, or it cannot move.
        """
        if object_name in self._vehicles.names:
            vehicle, _ = self._vehicles.commanded(object_name)
            before = self._vehicles.motion(vehicle).T_world_body
            await self._states.place(vehicle, transform_of(pose, _ORIGIN_M, before))
            return True
        t_ns = self._vehicles.snapshot().t_ns
        found = (await self._scene.objects(t_ns)).get(object_name)
        if found is None:
            return False
        return await self._scene.place(
            object_name, transform_of(pose, _ORIGIN_M, found.T_world_object), t_ns=t_ns
        )

    @method("simSetObjectScale")
    async def set_object_scale(self, object_name: str, scale_vector: GivenScale) -> bool:
        """Scale an object; a vehicle only remembers its scale."""
        scale = _scale(scale_vector)
        if object_name in self._vehicles.names:
            self._vehicle_scales[object_name] = scale
            return True
        return await self._scene.place(
            object_name, scale=scale, t_ns=self._vehicles.snapshot().t_ns
        )

    @method("simSpawnObject")
    async def spawn_object(
        self,
        object_name: str,
        asset_name: str,
        pose: GivenPose,
        scale: GivenScale,
        physics_enabled: bool = False,
        is_blueprint: bool = False,  # noqa: ARG002
    ) -> str:
        """Make an object and return its name.

        With physics it falls, as a box, and rests on what is below it.
        """
        if not 0 < len(object_name) <= _LONGEST_NAME:
            raise ValueError(f"a name must have 1 to {_LONGEST_NAME} characters")
        T = transform_of(pose, _ORIGIN_M, Transform.identity())
        t_ns = self._vehicles.snapshot().t_ns
        return await self._scene.spawn(
            object_name, asset_name, T, _scale(scale), falls=physics_enabled, t_ns=t_ns
        )

    @method("simDestroyObject")
    async def destroy_object(self, object_name: str) -> bool:
        """Remove an object; False = there is none of that name, or it cannot be removed."""
        return await self._scene.destroy(object_name, self._vehicles.snapshot().t_ns)

    @method("simListAssets")
    async def list_assets(self) -> list[str]:
        """Return the names that objects can be spawned from."""
        return list(await self._scene.assets())

    @method("simSetSegmentationObjectID")
    async def set_segmentation_id(
        self, mesh_name: str, object_id: int, is_name_regex: bool = False
    ) -> bool:
        """Give a segmentation id to objects; a negative one hides them."""
        names = await self._scene.names()
        return await self._scene.ids.set(names, mesh_name, object_id, is_expression=is_name_regex)

    @method("simGetSegmentationObjectID")
    async def segmentation_id(self, mesh_name: str) -> int:
        """Return the segmentation id of an object.

        -1 = there is none of that name, whose case does not matter.
        """
        wanted = mesh_name.lower()
        return next(
            (self._scene.ids.of(n) for n in await self._scene.names() if n.lower() == wanted), -1
        )

    @method("simTestLineOfSightToPoint")
    async def sees_point(self, point: AirsimGeoPoint, vehicle_name: str = "") -> bool:
        """Return True if nothing stands between a vehicle and a place."""
        vehicle = self._vehicles.find(vehicle_name)
        p_m = self._vehicles.motion(vehicle).T_world_body.p_m
        return await self._free(p_m, self._place(point), (vehicle.actor,))

    @method("simTestLineOfSightBetweenPoints")
    async def sees_between(self, point1: AirsimGeoPoint, point2: AirsimGeoPoint) -> bool:
        """Return True if nothing stands between two places."""
        return await self._free(self._place(point1), self._place(point2), ())

    async def _objects(self) -> Mapping[str, QueriedObject]:
        return await self._scene.objects(self._vehicles.snapshot().t_ns)

    def _place(self, point: AirsimGeoPoint) -> FloatArray:
        return self._origin.to_world(point.latitude, point.longitude, point.altitude)

    async def _free(self, a_m: FloatArray, b_m: FloatArray, hide: tuple[str, ...]) -> bool:
        way = b_m - a_m
        length_m = float(np.linalg.norm(way))
        if length_m < _NOT_HIT_M:
            return True
        snapshot = self._vehicles.snapshot()
        hits = await self._scene.cast(a_m[None], (way / length_m)[None], length_m, snapshot, hide)
        return not bool(hits.range_m[0] < length_m - _NOT_HIT_M)


def _scale(v: Vector3r) -> tuple[float, float, float]:
    return v.x_val, v.y_val, v.z_val

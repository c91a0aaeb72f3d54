"""Methods that read and place vehicles.

Connection, poses, kinematics, states, collisions, surroundings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.interfaces.vehicle_moves import VehiclePlacement
from vil_simulation.airsim.frames import body_of, ned_of, transform_of, world_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.values import (
    AirsimGeoPoint,
    CollisionInfo,
    EnvironmentState,
    GivenKinematics,
    GivenPose,
    KinematicsState,
    MultirotorState,
    Pose,
    RotorState,
    RotorStates,
    Vector3r,
)
from vil_simulation.airsim.vehicles import (
    ServedVehicle,
    ServedVehicles,
    kinematics_of,
    poll,
    pose_of_motion,
)
from vil_simulation.vehicles.environment.atmosphere import density_kgpm3, pressure_pa, temperature_k
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.gravity import gravity_mps2

_VERSION: Final = 1


class StateMethods:
    """Vehicles as AirSim's programs read them.

    Args:
        settings: text of the settings.
        origin: the world on the Earth.
        on_reset: are called at ``reset``.
        clears_collisions: reading a collision resets it, as in AirSim.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        settings: str,
        origin: GeoOrigin,
        on_reset: Sequence[Callable[[], object]],
        *,
        clears_collisions: bool = True,
    ) -> None:
        self._vehicles = vehicles
        self._settings = settings
        self._origin = origin
        self._on_reset = on_reset
        self._clears_collisions = clears_collisions

    @method("ping")
    def ping(self) -> bool:
        """Answer."""
        return True

    @method("getServerVersion")
    def server_version(self) -> int:
        """Return the version of the interface."""
        return _VERSION

    @method("getMinRequiredClientVersion")
    def client_version(self) -> int:
        """Return the oldest client that this server serves."""
        return _VERSION

    @method("getSettingsString")
    def settings_string(self) -> str:
        """Return the text of the settings."""
        return self._settings

    @method("listVehicles")
    def list_vehicles(self) -> list[str]:
        """Return the names of all vehicles."""
        return self._vehicles.names

    @method("reset")
    async def reset(self) -> None:
        """Put every simulated vehicle back to its start."""
        for forget in self._on_reset:
            forget()
        subjects = [
            vehicle.subject for vehicle in self._vehicles.simulated if vehicle.subject is not None
        ]
        bus = self._vehicles.bus
        placements = {subject: bus.of(subject).state(subject).placements for subject in subjects}
        for subject in subjects:
            bus.send(subject, VehicleCommand("reset"))
        await poll(
            lambda: all(bus.of(s).state(s).placements > n for s, n in placements.items()),
            "the simulation stands",
        )
        for subject in subjects:
            bus.of(subject).collision(subject, clear=True)

    @method("simGetVehiclePose")
    def vehicle_pose(self, vehicle_name: str = "") -> Pose:
        """Return a vehicle's pose relative to its start."""
        vehicle = self._vehicles.find(vehicle_name)
        return pose_of_motion(self._vehicles.motion(vehicle), vehicle.origin_m)

    @method("simSetVehiclePose")
    async def set_vehicle_pose(
        self, pose: GivenPose, ignore_collision: bool, vehicle_name: str = ""
    ) -> None:
        """Put a vehicle at rest into a pose; NaN leaves a part unchanged."""
        await self._place(vehicle_name, pose, None, sweep=not ignore_collision)

    @method("simSetKinematics")
    async def set_kinematics(
        self, state: GivenKinematics, ignore_collision: bool, vehicle_name: str = ""
    ) -> None:
        """Put a vehicle into a pose and a motion."""
        pose = Pose(state.position, state.orientation)
        await self._place(vehicle_name, pose, state, sweep=not ignore_collision)

    @method("simGetGroundTruthKinematics")
    def true_kinematics(self, vehicle_name: str = "") -> KinematicsState:
        """Return a vehicle's motion."""
        vehicle = self._vehicles.find(vehicle_name)
        return kinematics_of(self._vehicles.motion(vehicle), vehicle.origin_m)

    @method("simGetGroundTruthEnvironment")
    def true_environment(self, vehicle_name: str = "") -> EnvironmentState:
        """Return the surroundings of a vehicle."""
        vehicle = self._vehicles.find(vehicle_name)
        p_m = self._vehicles.motion(vehicle).T_world_body.p_m
        place = self.geo_point(p_m)
        h_m = place.altitude
        return EnvironmentState(
            position=ned_of(p_m - vehicle.origin_m),
            geo_point=place,
            gravity=Vector3r(0.0, 0.0, float(gravity_mps2(h_m))),
            air_pressure=float(pressure_pa(h_m)),
            temperature=float(temperature_k(h_m)),
            air_density=float(density_kgpm3(h_m)),
        )

    @method("getMultirotorState")
    def multirotor_state(self, vehicle_name: str = "") -> MultirotorState:
        """Return a multirotor's state; reading does not reset the latched collision."""
        vehicle = self._vehicles.find(vehicle_name)
        state = self._vehicles.state(vehicle)
        motion = self._vehicles.motion_in(state, vehicle)
        flies = state is None or not state.landed
        return MultirotorState(
            collision=self._collision(vehicle, clear=False),
            kinematics_estimated=kinematics_of(motion, vehicle.origin_m),
            gps_location=self.geo_point(motion.T_world_body.p_m),
            timestamp=self._vehicles.utc_ns(motion.t_ns),
            landed_state=int(flies),
        )

    @method("getRotorStates")
    def rotor_states(self, vehicle_name: str = "") -> RotorStates:
        """Return thrust, torque and speed of every rotor; none of a tracked vehicle."""
        vehicle = self._vehicles.find(vehicle_name)
        state = self._vehicles.state(vehicle)
        if state is None:
            return RotorStates([], self._vehicles.utc_ns(self._vehicles.motion(vehicle).t_ns))
        return RotorStates(
            [RotorState(r.thrust_n, r.torque_nm, r.speed_radps) for r in state.rotors],
            self._vehicles.utc_ns(state.t_ns),
        )

    @method("simGetCollisionInfo")
    def collision_info(self, vehicle_name: str = "") -> CollisionInfo:
        """Return the latched collision of a vehicle, and reset it where programs may."""
        return self._collision(self._vehicles.find(vehicle_name), clear=self._clears_collisions)

    @method("getHomeGeoPoint")
    def home(self, vehicle_name: str = "") -> AirsimGeoPoint:
        """Return where a vehicle started."""
        return self.geo_point(self._vehicles.find(vehicle_name).origin_m)

    def geo_point(self, p_world_m: FloatArray) -> AirsimGeoPoint:
        """Return a point of the world on the Earth."""
        return AirsimGeoPoint(*(float(v) for v in self._origin.to_geodetic(p_world_m)))

    def _collision(self, vehicle: ServedVehicle, *, clear: bool) -> CollisionInfo:
        if vehicle.subject is None:
            return CollisionInfo()
        hit = self._vehicles.bus.of(vehicle.subject).collision(vehicle.subject, clear=clear)
        if hit is None:
            return CollisionInfo()
        room = vehicle.T_world_room
        turn = vehicle.T_world_room.rotation()
        return CollisionInfo(
            has_collided=True,
            penetration_depth=hit.depth_m,
            time_stamp=self._vehicles.utc_ns(hit.t_ns),
            normal=ned_of(turn @ np.array(hit.normal_world)),
            impact_point=ned_of(room.apply(np.array(hit.point_world_m)) - vehicle.origin_m),
            position=ned_of(room.apply(np.array(hit.p_world_m)) - vehicle.origin_m),
            object_name=self._vehicles.name_of(hit.other),
        )

    async def place(
        self,
        vehicle: ServedVehicle,
        T_world_body: Transform,
        motion: KinematicsState | None = None,
        *,
        sweep: bool = False,
    ) -> None:
        """Put a simulated vehicle somewhere, at rest or in motion, and wait until the simulation
        shows it.

        Raises:
            ValueError: the numbers are absurd, or the simulation stands still.
        """
        T = vehicle.T_world_room.inverse() @ T_world_body
        subject = vehicle.subject or ""
        still = np.zeros(3)
        v_mps = (
            still
            if motion is None
            else self._vehicles.in_room(vehicle, world_of(motion.linear_velocity))
        )
        w_radps = still if motion is None else body_of(motion.angular_velocity)
        bus = self._vehicles.bus
        placements = bus.of(subject).state(subject).placements
        bus.send(
            subject,
            VehiclePlacement(
                _three(T.p_m), _four(T.q_xyzw), _three(v_mps), _three(w_radps), sweep=sweep
            ),
        )
        await poll(
            lambda: bus.of(subject).state(subject).placements > placements,
            "the simulation stands",
        )

    async def _place(
        self, name: str, pose: Pose, motion: KinematicsState | None, *, sweep: bool
    ) -> None:
        vehicle, _ = self._vehicles.commanded(name)
        before = self._vehicles.motion(vehicle).T_world_body
        await self.place(vehicle, transform_of(pose, vehicle.origin_m, before), motion, sweep=sweep)


def _three(v: FloatArray) -> tuple[float, float, float]:
    x, y, z = v.tolist()
    return x, y, z


def _four(v: FloatArray) -> tuple[float, float, float, float]:
    x, y, z, w = v.tolist()
    return x, y, z, w

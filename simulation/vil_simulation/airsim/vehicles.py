"""Vehicles of the bridge under their names in AirSim.

Simulated ones are flown, tracked ones are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import Transform, q_conj, q_rotate, q_to_euler_zyx, turned
from vil_bridge.core.types import ActorState, FloatArray, Lighting, WorldSnapshot
from vil_bridge.core.weather import Weather
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus, VehicleState
from vil_simulation.airsim.frames import frd_of, ned_of, quaternion_of
from vil_simulation.airsim.methods import NoSuchVehicle, shown
from vil_simulation.airsim.settings import CameraSettings, SensorSettings
from vil_simulation.airsim.values import KinematicsState, Pose

_PATIENCE_S: Final = 30.0
"""A simulation may get no processor for seconds on a busy computer.

Programs wait for a minute or longer.
"""
_POLL_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class ServedVehicle:
    """A vehicle as the server sees it.

    Attributes:
        name: in AirSim. actor: in the world. subject: in the simulation; None = it is tracked.
        kind: multirotor, car or computervision.
        T_world_room: frame of the simulation's states in the world.
        origin_m: where AirSim's positions of this vehicle are zero, world, (3,).
    """

    name: str
    actor: str
    subject: str | None
    kind: str
    T_world_room: Transform
    origin_m: FloatArray
    cameras: Mapping[str, CameraSettings]
    sensors: Mapping[str, SensorSettings]

    def yaw_in_room(self, yaw_world_rad: float) -> float:
        """Return a heading of the world in the frame of the simulation, counter-clockwise from
        the x axis of each.
        """
        return yaw_world_rad - float(q_to_euler_zyx(self.T_world_room.q_xyzw)[0])


@dataclass(frozen=True, slots=True)
class ServedMotion:
    """Motion of a vehicle at an instant of bridge time: world ENU, body FLU."""

    t_ns: int
    T_world_body: Transform
    v_world_mps: FloatArray
    w_body_radps: FloatArray
    a_world_mps2: FloatArray
    alpha_body_radps2: FloatArray


class ServedVehicles:
    """Vehicles by name, their motion, and the world with the simulated ones where they are now.

    Args:
        vehicles: in the order in which AirSim lists them.
        default: name of the vehicle of calls that name none; the first one where there is none of
            that name.

    Attributes:
        lighting_at: light of the snapshots at an instant; None = the world's. weather: of the
            snapshots, blown by ``wind_mps`` (ENU); None = the world's.
        actors: of all vehicles, by their names in AirSim.
    """

    def __init__(
        self,
        vehicles: Sequence[ServedVehicle],
        bus: VehicleCommandBus,
        world: WorldView,
        wall_clock: WallClock,
        default: str = "",
    ) -> None:
        self.bus: Final = bus
        self.world: Final = world
        self.lighting_at: Callable[[int], Lighting] | None = None
        self.weather: Weather | None = None
        self.wind_mps: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._wall_clock = wall_clock
        self._default = default
        self._vehicles = {vehicle.name: vehicle for vehicle in vehicles}
        self._simulated = {v.actor: v for v in vehicles if v.subject is not None}
        self._looks: dict[str, ActorState] = {}
        self.actors: Final = {vehicle.name: vehicle.actor for vehicle in vehicles}

    @property
    def names(self) -> list[str]:
        """Names of all vehicles."""
        return list(self._vehicles)

    @property
    def simulated(self) -> list[ServedVehicle]:
        """Vehicles that can be commanded."""
        return list(self._simulated.values())

    def add(self, vehicle: ServedVehicle, look: ActorState) -> None:
        """Add a simulated vehicle that the world has not.

        Snapshots show its look where its simulation has it.
        """
        self._vehicles[vehicle.name] = self._simulated[vehicle.actor] = vehicle
        self._looks[vehicle.actor] = look
        self.actors[vehicle.name] = vehicle.actor

    def name_of(self, other: str) -> str:
        """Return the name in AirSim of what a vehicle hit.

        A subject, an actor, or an object, whose name stays.
        """
        named = (v.name for v in self._vehicles.values() if other and other in (v.subject, v.actor))
        return next(named, other)

    def find(self, name: str) -> ServedVehicle:
        """Return a vehicle; the empty name is the default one.

        Raises:
            NoSuchVehicle: there is none of that name.
        """
        if not name and self._vehicles:
            return self._vehicles.get(self._default) or next(iter(self._vehicles.values()))
        if name not in self._vehicles:
            raise NoSuchVehicle(
                f"Vehicle API for '{shown(name)}' is not available. This could either "
                "because this is simulation-only "
                f"API or this vehicle does not exist; known: {', '.join(self._vehicles)}"
            )
        return self._vehicles[name]

    def commanded(self, name: str) -> tuple[ServedVehicle, str]:
        """Return a simulated vehicle and its subject.

        Raises:
            NoSuchVehicle: there is none of that name.
            ValueError: a motion-capture system tracks it, or its simulation does not run yet.
        """
        vehicle = self.find(name)
        if vehicle.subject is None:
            raise ValueError(
                f"{vehicle.name} is a real vehicle that a motion-capture system tracks: "
                "it can be read, not commanded"
            )
        if not self._flies(vehicle):
            raise ValueError(_starting(vehicle))
        return vehicle, vehicle.subject

    def state(self, vehicle: ServedVehicle) -> VehicleState | None:
        """Return the simulation's state of a vehicle; None = it is tracked.

        Raises:
            ValueError: its simulation does not run yet.
        """
        if vehicle.subject is None:
            return None
        try:
            return self.bus.of(vehicle.subject).state(vehicle.subject)
        except KeyError:
            raise ValueError(_starting(vehicle)) from None

    def ready(self) -> bool:
        """Return True once every simulated vehicle flies."""
        return all(
            self._flies(v) and self.bus.of(v.subject or "").state(v.subject or "").mode
            for v in self._simulated.values()
        )

    def motion(self, vehicle: ServedVehicle) -> ServedMotion:
        """Return a vehicle's motion now.

        Raises:
            ValueError: its simulation does not run yet, or it has never been seen.
        """
        return self.motion_in(self.state(vehicle), vehicle)

    def motion_in(self, state: VehicleState | None, vehicle: ServedVehicle) -> ServedMotion:
        """Return a vehicle's motion in a state; None = it is tracked.

        Raises ValueError: it has never been seen.
        """
        if state is None:
            t_ns = now_ns()
            body = self.world.motion_at(vehicle.actor, t_ns)
            none = np.zeros(3)
            return ServedMotion(
                t_ns, body.T_world_body, body.v_world_mps, body.w_body_radps, none, none
            )
        q_room = vehicle.T_world_room.q_xyzw.tolist()
        return ServedMotion(
            state.t_ns,
            _pose_in_world(vehicle, state),
            np.array(turned(q_room, state.v_world_mps)),
            np.array(state.w_body_radps),
            np.array(turned(q_room, state.a_world_mps2)),
            np.array(state.alpha_body_radps2),
        )

    def in_room(self, vehicle: ServedVehicle, v_world: FloatArray) -> FloatArray:
        """Return a vector of the world in the frame of the vehicle's simulation, (3,)."""
        return q_rotate(q_conj(vehicle.T_world_room.q_xyzw), v_world)

    def point_in_room(self, vehicle: ServedVehicle, p_world_m: FloatArray) -> FloatArray:
        """Return a point of the world in the frame of the vehicle's simulation, (3,)."""
        return vehicle.T_world_room.inverse().apply(p_world_m)

    def snapshot(self) -> WorldSnapshot:
        """Return the world of now.

        Tracked actors at the instant of the simulated ones, which are where they are.
        """
        states = {
            name: self.bus.of(v.subject or "").state(v.subject or "")
            for name, v in self._simulated.items()
            if self._flies(v)
        }
        poses = {
            name: _pose_in_world(self._simulated[name], state) for name, state in states.items()
        }
        return self._snapshot(
            max((state.t_ns for state in states.values()), default=now_ns()), poses
        )

    def snapshot_at(self, t_ns: int, slack_ns: int = 0) -> WorldSnapshot:
        """Return the world at an instant of the last seconds, in the light of now.

        A simulated vehicle that was put elsewhere is in its old place until then, and for
        ``slack_ns`` after it.
        """
        poses = {
            vehicle.actor: vehicle.T_world_room
            @ self.bus.of(vehicle.subject or "").pose_at(vehicle.subject or "", t_ns, slack_ns)
            for vehicle in self._simulated.values()
            if self._flies(vehicle)
        }
        return self._snapshot(t_ns, poses)

    def _snapshot(self, t_ns: int, poses: Mapping[str, Transform]) -> WorldSnapshot:
        """Return the world at an instant with the simulated vehicles at poses, by their actors."""
        world = self.world.scene(t_ns)
        looks = [look for name, look in self._looks.items() if name in poses]
        actors = tuple(
            replace(actor, T_world_body=poses[actor.name]) if actor.name in poses else actor
            for actor in (*world.actors, *looks)
        )
        lighting = world.lighting if self.lighting_at is None else self.lighting_at(t_ns)
        if self.weather is not None:
            lighting = replace(
                lighting or Lighting(), weather=replace(self.weather, wind_mps=self.wind_mps)
            )
        return replace(world, actors=actors, lighting=lighting)

    def utc_ns(self, t_ns: int) -> int:
        """Return a bridge time as AirSim stamps it.

        Nanoseconds since the epoch of the simulated clock.
        """
        return self._wall_clock.utc_ns(t_ns)

    async def settle(self, t_ns: int) -> None:
        """Wait until every simulation has made its steps up to an instant.

        Raises:
            ValueError: one of them does not.
        """
        await poll(
            lambda: all(self._has_reached(v, t_ns) for v in self._simulated.values()),
            "the simulation stands",
        )

    def _has_reached(self, vehicle: ServedVehicle, t_ns: int) -> bool:
        subject = vehicle.subject or ""
        return not self._flies(vehicle) or self.bus.of(subject).has_reached(subject, t_ns)

    def _flies(self, vehicle: ServedVehicle) -> bool:
        return vehicle.subject in self.bus.names()


def _starting(vehicle: ServedVehicle) -> str:
    return f"the simulation of {vehicle.name} is starting: try again in a second"


def _pose_in_world(vehicle: ServedVehicle, state: VehicleState) -> Transform:
    return vehicle.T_world_room @ Transform(np.array(state.p_world_m), np.array(state.q_world_body))


def kinematics_of(motion: ServedMotion, origin_m: FloatArray) -> KinematicsState:
    """Return a motion as AirSim's kinematics, relative to the vehicle's start."""
    T = motion.T_world_body
    return KinematicsState(
        position=ned_of(T.p_m - origin_m),
        orientation=quaternion_of(T.q_xyzw),
        linear_velocity=ned_of(motion.v_world_mps),
        angular_velocity=frd_of(motion.w_body_radps),
        linear_acceleration=ned_of(motion.a_world_mps2),
        angular_acceleration=frd_of(motion.alpha_body_radps2),
    )


def pose_of_motion(motion: ServedMotion, origin_m: FloatArray) -> Pose:
    """Return the pose of a motion, relative to the vehicle's start."""
    return Pose(
        ned_of(motion.T_world_body.p_m - origin_m), quaternion_of(motion.T_world_body.q_xyzw)
    )


def pose_in(snapshot: WorldSnapshot, vehicle: ServedVehicle) -> Transform:
    """Return a vehicle's pose in a snapshot. Raises ValueError: it was never seen."""
    for actor in snapshot.actors:
        if actor.name == vehicle.actor and actor.age_ns is not None:
            return actor.T_world_body
    raise ValueError(f"{vehicle.name} has not been seen yet")


async def poll(reached: Callable[[], bool], problem: str) -> None:
    """Wait for a state of another thread.

    Raises:
        ValueError: it does not come; says the problem.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while not reached():
        if time.monotonic() > end_s:
            raise ValueError(f"{problem}: waited for {_PATIENCE_S:g} s")
        await asyncio.sleep(_POLL_S)

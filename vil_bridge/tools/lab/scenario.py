"""Scenario of the emulated lab: the motions, their rooms, and the true poses.

Two rooms stand next to each other in one virtual hall: a drone flies in the first (a simulated one, or
a recording of a real one), a human walks in the second. The lab's emulators film these motions; the
demo's evaluator asks the same motions for the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vil_adapters.motions.drone import DroneMotion
from vil_adapters.motions.walking_human import WalkMotion
from vil_adapters.recording.euroc import EurocMotion
from vil_bridge.config.base import TransformConfig
from vil_bridge.core.geometry import Transform
from vil_bridge.core.ports import InertialMotion, MocapMotion
from vil_bridge.core.skeleton import place_of
from vil_bridge.core.types import ActorKind, ActorState, TrackingState, WorldSnapshot

__all__ = ["HUMAN_SUBJECT", "VEHICLE_SUBJECT", "Scenario", "VehicleMotion"]

VEHICLE_SUBJECT = "drone"
HUMAN_SUBJECT = "Actor"


class VehicleMotion(MocapMotion, InertialMotion, Protocol):
    """A vehicle with mocap, inertial and true motion."""

    def truth(self, t_ns: int) -> Transform | None:
        """Return T_room_body, None where it is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """A vehicle in the flight room and a human in the actor room.

    Attributes:
        flight_room, actor_room: each room's frame in the shared world, as the configuration writes it.
        mocap_rate_hz: frame rate of the flight room's cameras.
    """

    vehicle: VehicleMotion
    human: MocapMotion
    flight_room: TransformConfig
    actor_room: TransformConfig
    mocap_rate_hz: float

    @classmethod
    def simulated(cls) -> Scenario:
        """Return the procedural drone and the procedural human."""
        return cls(DroneMotion(VEHICLE_SUBJECT, imu_rate_hz=250), _human(), TransformConfig(), _ACTOR_ROOM, 120.0)

    @classmethod
    def recorded(cls, folder: Path, seconds: float) -> Scenario:
        """Return a real vehicle's recording (EuRoC layout) in the flight room, and the human.

        A run shorter than the recording plays the recording's tracking gaps and its motion.

        Raises:
            ConfigError: the folder is not such a recording.
        """
        motion = EurocMotion.demo(folder, seconds, VEHICLE_SUBJECT)
        return cls(motion, _human(), _RECORDING_ROOM, _ACTOR_ROOM, motion.mocap_rate_hz)

    def snapshot(self, t_ns: int) -> WorldSnapshot | None:
        """Return the true world; None where the vehicle's pose is unknown."""
        truth = self.vehicle.truth(t_ns)
        if truth is None:
            return None
        T_world_vehicle = self.flight_room.transform() @ truth
        room = self.actor_room.transform()
        filmed = self.human.at(t_ns).skeletons[0]
        skeleton = filmed.moved(room)
        root = place_of(skeleton)
        tracked = TrackingState.TRACKED
        return WorldSnapshot(
            t_ns,
            (
                ActorState("drone", ActorKind.VEHICLE, tracked, 0, T_world_vehicle, size_m=(0.35, 0.35, 0.12)),
                ActorState("human", ActorKind.HUMAN, tracked, 0, root, skeleton),
            ),
        )


def _human() -> MocapMotion:
    return WalkMotion(HUMAN_SUBJECT)


# The actor room is turned against the flight room, as two halls with their own calibration squares are.
_ACTOR_ROOM = TransformConfig(p_m=(4.0, 0.0, 0.0), ypr_deg=(120.0, 0.0, 0.0))
_RECORDING_ROOM = TransformConfig(p_m=(-2.0, 0.0, 0.2))

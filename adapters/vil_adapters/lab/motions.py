"""Motions of the emulated lab.

The scenarios with their rooms and true poses, or any recording next to them.

Two rooms stand next to each other in one virtual hall: a drone flies in the first (a simulated one,
or a recording of a real one), a human walks in the second. The lab's emulators stream these
motions; the demo's evaluator asks the same motions for the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from vil_adapters.motions.carried_body import CarriedMotion
from vil_adapters.motions.drone import DroneMotion
from vil_adapters.recording.euroc import EurocMotion
from vil_bridge.bodies.skeleton import place_of
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.config.base import TransformConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, MotionFrame, TrackingState, WorldSnapshot
from vil_bridge.interfaces.ports import InertialMotion, MocapMotion

VEHICLE_SUBJECT = "drone"
HUMAN_SUBJECT = "Actor"
_STEP_NS: Final = 10 * NS_PER_MS


class VehicleMotion(MocapMotion, InertialMotion, Protocol):
    """A vehicle with mocap, inertial and true motion."""

    def truth(self, t_ns: int) -> Transform | None:
        """Return T_room_body, None where it is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """A vehicle in the flight room and a human in the actor room.

    Attributes:
        flight_room, actor_room: each room's frame in the shared world, as the configuration writes
            it.
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
        return cls(
            DroneMotion(VEHICLE_SUBJECT, imu_rate_hz=250),
            _human(),
            TransformConfig(),
            _ACTOR_ROOM,
            120.0,
        )

    @classmethod
    def recorded(cls, folder: Path, seconds: float) -> Scenario:
        """Return a real vehicle's recording (EuRoC layout) in the flight room, and the human.

        A run shorter than the recording plays the recording's tracking gaps and its motion.

        Raises:
            ConfigError: the folder is not such a recording.
        """
        motion = EurocMotion.demo(folder, seconds, VEHICLE_SUBJECT)
        return cls(motion, _human(), _RECORDING_ROOM, _ACTOR_ROOM, motion.mocap_rate_hz)

    def phase(self, t_ns: int) -> str:
        """Return what a recording shows now (``acquisition``, ``rest``, ``motion``, ``loss``).

        Empty if simulated.
        """
        return self.vehicle.phase(t_ns) if isinstance(self.vehicle, EurocMotion) else ""

    def untracked_s(self, from_ns: int, until_ns: int) -> float:
        """Return for how long the vehicle's tracking is lost on purpose between two run times,
        seconds.

        Only a recording loses it.
        """
        if not isinstance(self.vehicle, EurocMotion):
            return 0.0
        instants_ns = range(from_ns, until_ns, _STEP_NS)
        return sum(self.vehicle.truth(t_ns) is None for t_ns in instants_ns) * _STEP_NS / NS_PER_S

    def snapshot(self, t_ns: int) -> WorldSnapshot | None:
        """Return the true world; None where the vehicle's pose is unknown."""
        truth = self.vehicle.truth(t_ns)
        if truth is None:
            return None
        T_world_vehicle = self.flight_room.transform() @ truth
        room = self.actor_room.transform()
        seen = self.human.at(t_ns).skeletons[0]
        skeleton = seen.moved(room)
        root = place_of(skeleton)
        tracked = TrackingState.TRACKED
        return WorldSnapshot(
            t_ns,
            (
                ActorState(
                    "drone",
                    ActorKind.VEHICLE,
                    tracked,
                    0,
                    T_world_vehicle,
                    size_m=(0.35, 0.35, 0.12),
                ),
                ActorState("human", ActorKind.HUMAN, tracked, 0, root, skeleton),
            ),
        )


def _human() -> MocapMotion:
    return WalkMotion(HUMAN_SUBJECT)


# The actor room is turned against the flight room, as two halls with their own calibration squares
# are.
_ACTOR_ROOM = TransformConfig(p_m=(4.0, 0.0, 0.0), ypr_deg=(120.0, 0.0, 0.0))
_RECORDING_ROOM = TransformConfig(p_m=(-2.0, 0.0, 0.2))


_HUMAN_RATE_HZ: Final = 60.0
_NOISE_M: Final = 2e-5
"""Of a good system.

Poses of a body at rest that repeated to the bit would be taken for a frozen system's.
"""


class MeasuredMotion:
    """Simulated bodies with position noise that depends on the instant.

    Implements ``MocapMotion``.
    """

    def __init__(self, truth: MocapMotion) -> None:
        self.subjects = truth.subjects
        self.skeleton_models = truth.skeleton_models
        self._truth = truth

    def at(self, t_ns: int) -> MotionFrame:
        """Return the subjects at one instant."""
        frame = self._truth.at(t_ns)
        random = np.random.default_rng(t_ns % 2**63)
        return replace(frame, p_m=frame.p_m + random.normal(0.0, _NOISE_M, frame.p_m.shape))


@dataclass(frozen=True, slots=True)
class RoomMotion:
    """Motion in a room, and the rate of its cameras."""

    motion: MocapMotion
    rate_hz: float

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the bodies, then of the skeletons."""
        return (*self.motion.subjects, *(model.name for model in self.motion.skeleton_models))


@dataclass(frozen=True, slots=True)
class LabMotions:
    """Both rooms, and the vehicle's inertial motion; None = there is none."""

    flight: RoomMotion
    actor: RoomMotion
    imu: InertialMotion | None

    @classmethod
    def simulated(cls) -> LabMotions:
        """Return the procedural drone and the procedural human."""
        scenario = Scenario.simulated()
        return cls._of(scenario, MeasuredMotion(scenario.vehicle))

    @classmethod
    def carried(cls) -> LabMotions:
        """Return the vehicle, switched off, carried through the moves of ``vil-bridge align``."""
        simulated = cls.simulated()
        return cls(
            RoomMotion(CarriedMotion(VEHICLE_SUBJECT), simulated.flight.rate_hz),
            simulated.actor,
            None,
        )

    @classmethod
    def recorded(cls, path: Path, seconds: float = 0.0) -> LabMotions:
        """Return a recording in the room of its subjects; the other room is simulated.

        A folder (EuRoC layout) is a flight with its IMU, cut to its events within ``seconds`` (0 =
        all of it). Any other recording has no IMU, is looped, and is streamed at its own rate.

        Raises:
            ConfigError: it cannot be read.
        """
        if path.is_dir():
            scenario = Scenario.recorded(path, seconds)
            return cls._of(scenario, scenario.vehicle)
        from vil_adapters.recording.formats import open_recording

        subject = HUMAN_SUBJECT if path.suffix.lower() == ".bvh" else VEHICLE_SUBJECT
        recording = open_recording(path, subject=subject)
        room = RoomMotion(recording, recording.rate_hz)
        simulated = cls.simulated()
        if recording.skeleton_models and not recording.subjects:
            return cls(simulated.flight, room, simulated.imu)
        return cls(room, room if recording.skeleton_models else simulated.actor, None)

    @classmethod
    def _of(cls, scenario: Scenario, vehicle: MocapMotion) -> LabMotions:
        flight = RoomMotion(vehicle, scenario.mocap_rate_hz)
        return cls(flight, RoomMotion(scenario.human, _HUMAN_RATE_HZ), scenario.vehicle)

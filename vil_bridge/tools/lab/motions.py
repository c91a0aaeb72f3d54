"""Motions that the lab's cameras see: those of a scenario, or any recording next to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_adapters.motions.carried_body import CarriedMotion
from vil_bridge.core.ports import InertialMotion, MocapMotion
from vil_bridge.core.types import MotionFrame
from vil_bridge.tools.lab.scenario import HUMAN_SUBJECT, VEHICLE_SUBJECT, Scenario

__all__ = ["LabMotions", "MeasuredMotion", "RoomMotion"]

_HUMAN_RATE_HZ: Final = 60.0
_NOISE_M: Final = 2e-5
"""Of a good system. Poses of a body at rest that repeated to the bit would be taken for a frozen system's."""


class MeasuredMotion:
    """Simulated bodies with position noise that depends on the instant (implements ``MocapMotion``)."""

    def __init__(self, truth: MocapMotion) -> None:
        self.subjects, self.skeleton_models = truth.subjects, truth.skeleton_models
        self._truth = truth

    def at(self, t_ns: int) -> MotionFrame:
        """Return the subjects at one instant."""
        frame, random = self._truth.at(t_ns), np.random.default_rng(t_ns % 2**63)
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
        return cls(RoomMotion(CarriedMotion(VEHICLE_SUBJECT), simulated.flight.rate_hz), simulated.actor, None)

    @classmethod
    def recorded(cls, path: Path, seconds: float = 0.0) -> LabMotions:
        """Return a recording in the room of its subjects; the other room is simulated.

        A folder (EuRoC layout) is a flight with its IMU, cut to its events within ``seconds`` (0 = all
        of it). Any other recording has no IMU, is looped, and is streamed at its own rate.

        Raises:
            ConfigError: it cannot be read.
        """
        if path.is_dir():
            scenario = Scenario.recorded(path, seconds)
            return cls._of(scenario, scenario.vehicle)
        from vil_adapters.recording.formats import open_recording

        subject = HUMAN_SUBJECT if path.suffix.lower() == ".bvh" else VEHICLE_SUBJECT
        recording = open_recording(path, subject=subject)
        room, simulated = RoomMotion(recording, recording.rate_hz), cls.simulated()
        if recording.skeleton_models and not recording.subjects:
            return cls(simulated.flight, room, simulated.imu)
        return cls(room, room if recording.skeleton_models else simulated.actor, None)

    @classmethod
    def _of(cls, scenario: Scenario, vehicle: MocapMotion) -> LabMotions:
        flight = RoomMotion(vehicle, scenario.mocap_rate_hz)
        return cls(flight, RoomMotion(scenario.human, _HUMAN_RATE_HZ), scenario.vehicle)

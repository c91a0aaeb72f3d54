"""Actors of the world, bound to the subjects of their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription
from vil_bridge.core.types import ActorKind, TrackingState


@dataclass(frozen=True, slots=True)
class TrackingLimits:
    """Ages at which a pose stops being fresh, from the arrival of the newest tracked one, and
    limits of motion.

    Attributes:
        max_speed_mps, max_rate_radps: a pose further from the one before is taken for a mistake of
            the mocap system until it proves lasting.
        frozen_after_ns: poses that repeat to the bit for longer come from a system that is frozen;
            None = they may repeat, since they carry no noise (simulations, recordings).
    """

    coast_after_ns: int = 30_000_000
    stale_after_ns: int = 250_000_000
    lost_after_ns: int = 1_000_000_000
    max_speed_mps: float = 30.0
    max_rate_radps: float = 40.0
    frozen_after_ns: int | None = None

    def state(
        self, silence_ns: int | None, flagged_tracked: bool, *, frozen: bool = False
    ) -> TrackingState:
        """Return the state of a body.

        Args:
            silence_ns: time since the newest tracked pose arrived, None = never.
            flagged_tracked: what the mocap system said of the body in its newest frame.
            frozen: its poses repeat for too long, or its IMU contradicts them.
        """
        if silence_ns is None or silence_ns > self.lost_after_ns:
            return TrackingState.LOST
        if silence_ns > self.stale_after_ns:
            return TrackingState.STALE
        if frozen:
            return TrackingState.FROZEN
        if silence_ns > self.coast_after_ns or not flagged_tracked:
            return TrackingState.COASTING
        return TrackingState.TRACKED


@dataclass(frozen=True, slots=True)
class Actor:
    """A configured actor; (source, subject) is its identity at the edge.

    Attributes:
        T_body_markers: the tracked markers' frame in body axes.
        imu: name of the source whose inertial samples belong to this body, None = none.
        T_body_imu: the IMU's axes and place in the body.
        sensors: its further sensors by name, as far as they are known before they measure.
    """

    name: str
    kind: ActorKind
    source: str
    subject: str
    T_body_markers: Transform = field(default_factory=Transform.identity)
    imu: str | None = None
    T_body_imu: Transform = field(default_factory=Transform.identity)
    prefab: str = ""
    size_m: tuple[float, float, float] = (0.35, 0.35, 0.12)
    limits: TrackingLimits = TrackingLimits()
    sensors: Mapping[str, SensorDescription] = field(default_factory=dict)

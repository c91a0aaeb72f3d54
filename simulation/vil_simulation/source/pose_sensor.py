"""Poses of motion capture for the programs of autopilots: late and with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import q_mul, q_normalize
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink.pose_messages import Spread
from vil_simulation.autopilots.links.poses import PoseSample, TrueMotion
from vil_simulation.source.vehicle_config import AutopilotPose, Vehicle
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.components import LatencyLine, SampleSchedule

_STREAM: Final = 1700
_LEAST_SPREAD: Final = 0.01
"""Standard deviation that a message states at least, metres, radians, m/s.

With it PX4 and ArduPilot have flown.
"""


def motions_of(truth: TrueState) -> list[TrueMotion]:
    """Return the true motion of each vehicle."""
    columns = (
        truth.p_world_m.tolist(),
        truth.v_world_mps.tolist(),
        truth.q_world_body.tolist(),
        truth.w_body_radps.tolist(),
    )
    return [
        TrueMotion(tuple(p_m), tuple(v_mps), tuple(q_xyzw), tuple(w_radps))
        for p_m, v_mps, q_xyzw, w_radps in zip(*columns, strict=True)
    ]


class PoseSensor:
    """Motion capture of some vehicles that have the same.

    Args:
        config: theirs. vehicles: in the order of the truth's rows. origin: place of the room's
            zero.
        seed: of the noise.
    """

    def __init__(
        self, config: AutopilotPose, vehicles: Sequence[Vehicle], origin: GeoOrigin, seed: int
    ) -> None:
        deviations = config.position_m, config.velocity_mps, config.attitude_rad
        self._config = config
        self._origin = origin
        self._schedule = SampleSchedule(config.rate_hz)
        self._delay_ns = round(config.delay_ms * NS_PER_MS)
        self._deviations = np.repeat(deviations, 3)
        position_m, velocity_mps, attitude_rad = (max(value, _LEAST_SPREAD) for value in deviations)
        self._spread = Spread(position_m, attitude_rad, velocity_mps)
        self._numbers = np.array([vehicle.index for vehicle in vehicles])
        self._noise = NoiseStream(seed, _STREAM)
        self._count = 0
        self._line: LatencyLine[list[PoseSample]] = LatencyLine()

    def samples(self, truth: TrueState) -> list[PoseSample] | list[None]:
        """Return the pose of each vehicle that arrives now, None where there is none."""
        if self._schedule.due(truth.t_ns):
            self._count += 1
            self._line.push(truth.t_ns + self._delay_ns, self._seen(truth))
        return self._line.release(truth.t_ns) or [None] * len(self._numbers)

    def _seen(self, truth: TrueState) -> list[PoseSample]:
        errors = self._deviations * self._noise.normals(self._count, self._numbers, 9)
        seen = truth._replace(
            p_world_m=truth.p_world_m + errors[:, :3],
            v_world_mps=truth.v_world_mps + errors[:, 3:6],
            q_world_body=_turned(truth.q_world_body, errors[:, 6:]),
        )
        places = zip(
            *(values.tolist() for values in self._origin.to_geodetic(seen.p_world_m)), strict=True
        )
        kind = self._config.kind
        t_ns = truth.t_ns
        spread = self._spread
        return [
            PoseSample(kind, t_ns, *both, spread)
            for both in zip(motions_of(seen), places, strict=True)
        ]


def _turned(q_world_body: FloatArray, by_rad: FloatArray) -> FloatArray:
    """Return attitudes (n, 4) turned by small rotations (n, 3) about the body's axes."""
    return q_normalize(q_mul(q_world_body, np.hstack((0.5 * by_rad, np.ones((len(by_rad), 1))))))

"""Inertial sensors of the vehicles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from vil_adapters.simulated.ipc import Inertial
from vil_adapters.simulated.vehicle_config import IDEAL, ImuConfig
from vil_adapters.simulated.vehicle_group import VehicleGroup
from vil_bridge.vehicles.sensors.imu import ImuParameters, ImuSensor, InertialNoise
from vil_bridge.vehicles.sensors.presets import IMU_PRESETS


def share_of(rate_hz: float, step_hz: int) -> tuple[int, int]:
    """Return times per steps, in whole numbers."""
    return (Fraction(rate_hz).limit_denominator(1000) / step_hz).as_integer_ratio()


def is_due(step: int, share: tuple[int, int]) -> bool:
    """Return True if what has this share happens after this step, the first being step 1."""
    times, steps = share
    return step * times // steps > (step - 1) * times // steps


def imu_parameters(config: ImuConfig) -> ImuParameters:
    """Return the part of that name, sampled as often as asked.

    Raises:
        ValueError: no such part; says which there are.
    """
    if config.preset == IDEAL:
        return ImuParameters(gyro=InertialNoise(white=0.0), accel=InertialNoise(white=0.0))
    if config.preset not in IMU_PRESETS:
        raise ValueError(f"no inertial sensor {config.preset!r}; known: {IDEAL}, {', '.join(sorted(IMU_PRESETS))}")
    return replace(IMU_PRESETS[config.preset], rate_hz=None)


class ImuSensors:
    """Inertial sensors of all groups that have them."""

    def __init__(self, groups: Sequence[VehicleGroup], step_hz: int, seed: int) -> None:
        self._sensors: Final = [
            (g, share_of(g.config.imu.rate_hz, step_hz), ImuSensor(g.members, imu_parameters(g.config.imu), seed=seed))
            for g in groups
            if g.config.imu is not None
        ]

    def due(self, step: int) -> bool:
        """Return True if any sensor samples after this step."""
        return any(is_due(step, share) for _, share, _ in self._sensors)

    def samples(self, step: int, t_ns: int) -> list[Inertial]:
        """Return samples of the sensors that sample after this step."""
        found = []
        for group, share, imu in self._sensors:
            if not is_due(step, share):
                continue
            reading = imu.sample(group.truth())
            if reading is None:
                continue
            values = np.concatenate((reading.w_radps, reading.f_mps2), axis=1)
            found += [Inertial(int(i), [t_ns], row.tobytes()) for i, row in zip(group.members, values, strict=True)]
        return found

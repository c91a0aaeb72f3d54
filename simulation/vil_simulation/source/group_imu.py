"""Inertial sensors of a group's vehicles.

They feel impacts over their time, and nothing of being put elsewhere.
"""

from __future__ import annotations

from typing import Final

from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.imu import FleetImuReading, ImuSensor


class GroupImu:
    """Inertial sensors of a group's vehicles, read from now on.

    Args:
        sensor: measures whenever it is called. group: lets it begin again where a vehicle is put
            elsewhere.
    """

    def __init__(self, sensor: ImuSensor, group: VehicleGroup) -> None:
        self._sensor: Final = sensor
        self._group: Final = group
        self._clipped = 0
        sensor.begin(group.felt(group.truth()))
        group.imus.append(sensor)

    def sample(self, truth: TrueState, at_ns: int | None = None) -> FleetImuReading | None:
        """Return the reading of an instant within the newest step; None = that of the truth."""
        reading = self._sensor.sample(self._group.felt(truth), at_ns)
        clipped = int(self._sensor.clipped.sum())
        self._group.revision += clipped - self._clipped
        self._clipped = clipped
        return reading

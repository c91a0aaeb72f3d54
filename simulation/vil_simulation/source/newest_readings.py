"""Newest readings of the sensors of a source's vehicles."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from vil_bridge.core.clock import WallClock
from vil_bridge.core.sensor_readings import SensorKind, SensorReading, reading_of
from vil_simulation.source.ipc import SensorValues
from vil_simulation.source.sensor_parts import RANGING_KINDS, FittedSensor


class NewestReadings:
    """Store of the newest values of each sensor; any thread.

    Args:
        sensors: of all vehicles, by their numbers in messages.

    Attributes:
        sensors: as given, then those that were added.
    """

    def __init__(self, sensors: Sequence[FittedSensor]) -> None:
        self.sensors: tuple[FittedSensor, ...] = ()
        self._places: dict[str, dict[str, tuple[int, int]]] = {}
        self.add(sensors)
        self._lock = threading.Lock()
        self._start_ns = 0
        self._newest: dict[int, SensorValues] = {}
        self._made: dict[tuple[int, int], SensorReading] = {}

    def add(self, sensors: Sequence[FittedSensor]) -> None:
        """Add sensors of further vehicles, with the next numbers."""
        for number, sensor in enumerate(sensors, len(self.sensors)):
            for row, vehicle in enumerate(sensor.vehicles):
                self._places.setdefault(vehicle.name, {})[sensor.name] = number, row
        self.sensors += tuple(sensors)

    def begin(self, start_ns: int) -> None:
        """Forget all readings; simulation time 0 is at this bridge time."""
        with self._lock:
            self._start_ns = start_ns
            self._newest.clear()
            self._made.clear()

    def store(self, sensor: int, row: int, reading: SensorReading) -> None:
        """Store a reading that was made outside of the simulation."""
        with self._lock:
            self._made[sensor, row] = reading

    def update(self, values: Sequence[SensorValues]) -> None:
        """Store values, oldest first."""
        with self._lock:
            for one in values:
                if self.sensors[one.sensor].kind not in RANGING_KINDS:
                    self._newest[one.sensor] = one

    def kinds_of(self, subject: str) -> Mapping[str, SensorKind]:
        """Return the kinds of a vehicle's sensors by name."""
        return {
            name: self.sensors[number].kind
            for name, (number, _) in self._places.get(subject, {}).items()
        }

    def of(self, subject: str) -> dict[str, SensorReading]:
        """Return the newest reading of each sensor of a vehicle by name.

        A sensor without one yet is absent.
        """
        mine = self._places.get(subject, {})
        with self._lock:
            start_ns = self._start_ns
            newest = {name: self._newest.get(number) for name, (number, _) in mine.items()}
            found = {name: self._made[place] for name, place in mine.items() if place in self._made}
        offset_ns = WallClock.of_run().offset_ns
        for name, values in newest.items():
            if values is not None:
                number, row = mine[name]
                sensor = self.sensors[number]
                numbers = values.rows(len(sensor.vehicles))[row]
                label = values.labels[row] if values.labels else ""
                found[name] = reading_of(
                    sensor.kind, start_ns + values.t_ns, offset_ns, numbers, label
                )
        return found

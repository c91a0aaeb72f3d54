"""Sensors of a simulated vehicle for its autopilot, as in hardware in the loop.

Implements ``Output``.

Every inertial sample goes out at once, with the readings of the other sensors that are new since
the one before. Times are those of the measurements, in the clock that answers TIMESYNC.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    SensorReading,
)
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.mavlink.config import MavlinkSensorsConfig
from vil_bridge.outputs.mavlink.session import AutopilotSession
from vil_bridge.outputs.new_samples import WorldNews
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink.sensor_messages import distance_sensors, hil_gps, hil_sensor
from vil_bridge.protocols.transports import Transport, open_transport
from vil_bridge.runtime.supervisor import Status

_LOOKS_HZ: Final = 500.0
_SILENT_NS: Final = NS_PER_S
_BEAMS: Final = 64
"""Ids of each distance sensor's beams."""


class MavlinkSensorsOutput(OutputBase):
    """Sensors of one actor to one autopilot, on a line that may vanish and come back.

    Attributes:
        status: counts ``sent`` and, without a message of their own, ``unsent_readings``.
    """

    def __init__(self, name: str, config: MavlinkSensorsConfig) -> None:
        super().__init__(name)
        self._config = config

    async def run(self, world: WorldView) -> None:
        """Send readings until cancelled; a serial device is waited for.

        Raises:
            SinkError: the actor has no inertial sensor; UDP: the other side is unknown, no
                interface leads there, or the port is taken.
        """
        (actor,) = self._config.actors
        if not any(sensor.kind == "imu" for sensor in world.sensors.descriptions(actor).values()):
            raise SinkError(
                f"{actor} has no inertial sensor. Add one with type imu to the `sensors` "
                "of its vehicle"
            )
        while True:
            try:
                opened = await open_transport(self._config, self.status)
            except OSError as exc:
                raise SinkError(exc.strerror or str(exc)) from exc
            with closing(opened) as transport:
                await _SensorSession(self.name, self._config, transport, world, self.status).run()


class _SensorSession(AutopilotSession):
    """One opening of the transport."""

    def __init__(
        self,
        name: str,
        config: MavlinkSensorsConfig,
        transport: Transport,
        world: WorldView,
        status: Status,
    ) -> None:
        super().__init__(name, transport, (config.system, config.component), _LOOKS_HZ, status)
        (self._actor,) = config.actors
        self._news = WorldNews(world, config.actors)
        self._R_room_world = world.sensors.room_of(self._actor).rotation().T
        self._numbers: dict[str, dict[str, int]] = {}
        for sensor, described in world.sensors.descriptions(self._actor).items():
            of_kind = self._numbers.setdefault(described.kind, {})
            of_kind[sensor] = len(of_kind)
        self._magnetometer: MagnetometerReading | None = None
        self._barometer: BarometerReading | None = None
        self._t_sent_ns = now_ns()

    def on_tick(self) -> None:
        """Send the readings that are new."""
        for one in self._news.readings():
            self._send(one.sensor, one.reading)

    def on_heartbeat(self) -> None:
        """Report silence."""
        if now_ns() - self._t_sent_ns > _SILENT_NS:
            self.status.waiting(
                f"{self._actor} measures nothing: nothing is sent on {self.transport.place}"
            )

    def _send(self, sensor: str, reading: SensorReading) -> None:
        bodies: list[hil.HilSensor | hil.HilGps | hil.DistanceSensor] = []
        match reading:
            case MagnetometerReading():
                self._magnetometer = (
                    reading if self._number("magnetometer", sensor) == 0 else self._magnetometer
                )
            case BarometerReading():
                self._barometer = (
                    reading if self._number("barometer", sensor) == 0 else self._barometer
                )
            case ImuReading():
                bodies = [self._hil_sensor(reading, self._number("imu", sensor))]
            case GpsReading():
                bodies = [hil_gps(self._on_earth(reading))._replace(id=self._number("gps", sensor))]
            case DistanceReading():
                bodies = [*distance_sensors(reading, _BEAMS * self._number("distance", sensor))]
            case _:
                self.status.counters["unsent_readings"] += 1
        for body in bodies:
            self.port.send(body)
            self.status.counters["sent"] += 1
        if bodies:
            self._t_sent_ns = now_ns()
            self.status.running()

    def _on_earth(self, reading: GpsReading) -> GpsReading:
        """Return a reading whose velocity is east, north, up, as its latitude and longitude and
        the field are.
        """
        x, y, z = (self._R_room_world @ np.array(reading.v_world_mps)).tolist()
        return replace(reading, v_world_mps=(x, y, z))

    def _hil_sensor(self, reading: ImuReading, number: int) -> hil.HilSensor:
        """Return the message.

        The first inertial sensor takes the other sensors' readings along, each once.
        """
        if number:
            return hil_sensor(reading, None, None, number)
        message = hil_sensor(reading, self._magnetometer, self._barometer, number)
        self._magnetometer = self._barometer = None
        return message

    def _number(self, kind: str, sensor: str) -> int:
        return self._numbers.get(kind, {}).get(sensor, 0)

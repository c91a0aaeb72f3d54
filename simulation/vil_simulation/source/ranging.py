"""Distance sensors and lidars of simulated vehicles.

Rays from the poses that the simulation hands out.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import Emit
from vil_bridge.interfaces.ray_casting import RayCaster
from vil_bridge.runtime.supervisor import Status
from vil_simulation.source.ipc import SensorValues
from vil_simulation.source.newest_readings import NewestReadings
from vil_simulation.source.sensor_parts import (
    RANGING_KINDS,
    RangingParameters,
    noise_stream_of,
    part_of,
)
from vil_simulation.vehicles.sensors.beams import BeamParameters, LidarParameters, noise_of


class _Measurement(NamedTuple):
    """Poses (vehicles, 7) from which a sensor casts its rays.

    ``number`` counts its measurements.
    """

    t_ns: int
    number: int
    poses: FloatArray


class _RangingSensor(NamedTuple):
    """A sensor with the directions of its rays in the body, (rays, 3), and its noise."""

    parameters: RangingParameters
    directions_body: FloatArray
    noise: NoiseStream


class RangingSensors:
    """All distance sensors and lidars of a source; loop thread.

    A sensor whose rays are still under way when it measures again leaves the older measurement out.

    Args:
        source: its name. scene: that the rays meet. rays: casts them.
        readings: takes the newest readings. emit: takes every reading. status: counts what is left
            out.
        seed: of the noise.
    """

    def __init__(
        self,
        source: str,
        scene: str,
        rays: RayCaster,
        readings: NewestReadings,
        emit: Emit,
        status: Status,
        seed: int,
    ) -> None:
        self._source = source
        self._scene = scene
        self._rays = rays
        self._readings = readings
        self._emit = emit
        self._status = status
        self._waiting: dict[int, _Measurement] = {}
        self._counts: dict[int, int] = {}
        self._measured = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sensors: Final[dict[int, _RangingSensor]] = {}
        for number, fitted in enumerate(readings.sensors):
            if fitted.kind in RANGING_KINDS:
                parameters = part_of(fitted.config).parameters
                assert isinstance(parameters, BeamParameters | LidarParameters)
                directions = parameters.mounting.in_body(parameters.directions())
                noise = NoiseStream(seed, noise_stream_of(fitted))
                self._sensors[number] = _RangingSensor(parameters, directions, noise)

    def enqueue(self, values: SensorValues, t_ns: int) -> None:
        """Take the poses of a sensor's vehicles at a bridge time."""
        number = values.sensor
        count = self._counts[number] = self._counts.get(number, 0) + 1
        if number in self._waiting:
            self._status.counters["rays_left_out"] += 1
        self._waiting[number] = _Measurement(
            t_ns, count, values.rows(len(self._readings.sensors[number].vehicles))
        )
        self._measured.set()

    def start(self) -> None:
        """Cast the rays of what is enqueued from now on."""
        self._task = asyncio.create_task(self._run(), name=f"rays of {self._source}")

    def check(self) -> None:
        """Raise what ended it early: a bug."""
        if self._task is not None and self._task.done():
            self._task.result()

    def close(self) -> None:
        """End at once."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._measured.wait()
            self._measured.clear()
            for number in list(self._waiting):
                measurement = self._waiting.pop(number)
                try:
                    await self._measure(number, measurement)
                except RendererError as exc:
                    self._status.counters["rays_failed"] += 1
                    self._status.facts["rays_problem"] = str(exc)

    async def _measure(self, number: int, measurement: _Measurement) -> None:
        fitted = self._readings.sensors[number]
        t_ns = measurement.t_ns
        for row, vehicle in enumerate(fitted.vehicles):
            values = await self._row(
                number, vehicle.name, vehicle.index, measurement, measurement.poses[row]
            )
            arrived_ns = max(now_ns(), t_ns)
            event = SensorReadings(
                self._source,
                fitted.name,
                fitted.kind,
                t_ns,
                arrived_ns,
                (vehicle.name,),
                values[None],
            )
            self._readings.store(number, row, event.reading(0, 0))
            self._emit(event)

    async def _row(
        self, number: int, subject: str, vehicle: int, measurement: _Measurement, pose: FloatArray
    ) -> FloatArray:
        """Return the reading of one vehicle as numbers."""
        parameters, ahead_body, noise = self._sensors[number]
        q_world_body = pose[3:7]
        start = pose[:3] + q_rotate(q_world_body, np.array(parameters.mounting.p_body_m))
        directions = q_rotate(q_world_body, ahead_body)
        origins = np.broadcast_to(start, directions.shape)
        who = self._source, subject
        hits = await self._rays.cast(
            self._scene, who, measurement.t_ns, origins, directions, parameters.reach_m
        )
        normals = noise_of(parameters, noise, measurement.number, vehicle)
        return parameters.row(hits.range_m, hits.instance, normals)

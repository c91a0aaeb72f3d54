"""Further sensors of autopilots' programs, only where they are configured.

Battery, airspeed, range, optical flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.sensor_readings import DistanceReading
from vil_bridge.core.types import FloatArray
from vil_simulation.autopilots.links.link import AirData, AutopilotSample, BatteryState, FlowReading
from vil_simulation.source.autopilot_parts import AutopilotAirspeed, AutopilotFlow, AutopilotRange
from vil_simulation.source.mode_fleets import ModeFleets
from vil_simulation.source.program_power import Batteries
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, Vehicle
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.components import SampleSchedule
from vil_simulation.vehicles.sensors.rangefinder import to_floor

_AIR_STREAM = 1710
_RANGE_STREAM = 1720
_FLOW_STREAM = 1730
_WIND = ENVIRONMENT["wind_world_mps"]
_DENSITY = ENVIRONMENT["density_kgpm3"]
_DOWN: Final = (0.0, 0.0, -1.0)
_NEAREST_M: Final = 0.02


class ProgramParts:
    """Parts of some vehicles that have the same.

    Args:
        config: theirs. group: of the vehicles. vehicles: in the order of its rows. seed: of all
            noise.
    """

    def __init__(
        self,
        config: AutopilotProgramConfig,
        group: VehicleGroup,
        vehicles: Sequence[Vehicle],
        seed: int,
    ) -> None:
        numbers = np.array([vehicle.index for vehicle in vehicles])
        radius_m = vehicles[0].config.rotor_radius_m
        self._group = group
        self._batteries = (
            None if config.battery is None else Batteries(config.battery, len(vehicles), radius_m)
        )
        self._pitots = None if config.airspeed is None else _Pitots(config.airspeed, numbers, seed)
        self._ranges = (
            None if config.range_finder is None else _Ranges(config.range_finder, numbers, seed)
        )
        self._reach_m = max(
            [part.max_m for part in (config.range_finder, config.optical_flow) if part], default=0.0
        )
        self._flows = (
            None if config.optical_flow is None else _Flows(config.optical_flow, numbers, seed)
        )

    def added(self, samples: Sequence[AutopilotSample], truth: TrueState) -> list[AutopilotSample]:
        """Return the samples with what these parts measure now.

        The motors' supply follows the batteries.
        """
        nothing = [None] * len(samples)
        fleets = self._group.fleets
        air: Sequence[AirData | None] = nothing
        if self._pitots is not None:
            air = self._pitots.readings(truth, fleets)
        batteries: Sequence[BatteryState | None] = nothing
        if self._batteries is not None:
            batteries = self._batteries.states(truth.t_ns, fleets)
            assert self._group.program is not None
            self._group.program.supply[:] = self._batteries.supply
        ranges: Sequence[DistanceReading | None] = nothing
        flows: Sequence[FlowReading | None] = nothing
        if self._ranges is not None or self._flows is not None:
            below_m = self._below_m(truth)
            if self._ranges is not None:
                ranges = self._ranges.readings(truth, below_m)
            if self._flows is not None:
                flows = self._flows.readings(truth, below_m)
        rows = zip(samples, air, batteries, ranges, flows, strict=True)
        return [s._replace(air=a, battery=b, distance=r, flow=f) for s, a, b, r, f in rows]

    def _below_m(self, truth: TrueState) -> FloatArray:
        """Return distances to surfaces below the vehicles along their own axes, (n,).

        Inf = there is none.
        """
        down = q_rotate(truth.q_world_body, np.broadcast_to(_DOWN, truth.p_world_m.shape))
        below_m = np.full(len(down), np.inf)
        floor_m = self._group.config.contact.floor_m
        scene = self._group.scene
        if floor_m is not None:
            floor_below_m = to_floor(truth.p_world_m - (0.0, 0.0, floor_m), down)
            below_m = np.minimum(below_m, floor_below_m)
        if scene is not None:
            scene_below_m = scene.ranges_m(truth.p_world_m, down, self._reach_m)
            below_m = np.minimum(below_m, scene_below_m)
        return below_m


def parts_of(
    config: AutopilotProgramConfig, group: VehicleGroup, vehicles: Sequence[Vehicle], seed: int
) -> ProgramParts | None:
    """Return the parts of a group's vehicles; None = there are none."""
    parts = config.battery, config.airspeed, config.range_finder, config.optical_flow
    return ProgramParts(config, group, vehicles, seed) if any(parts) else None


class _Pitots:
    """Pitot tubes: the pressure of the air that comes from ahead."""

    def __init__(
        self, config: AutopilotAirspeed, numbers: npt.NDArray[np.int64], seed: int
    ) -> None:
        self._config = config
        self._numbers = numbers
        self._noise = NoiseStream(seed, _AIR_STREAM)
        self._schedule = SampleSchedule(config.rate_hz)
        self._count = 0
        self._newest: list[AirData] = []

    def readings(self, truth: TrueState, fleets: ModeFleets) -> list[AirData]:
        """Return the newest reading of each vehicle."""
        if not self._schedule.due(truth.t_ns) and self._newest:
            return self._newest
        self._count += 1
        around = fleets.around()
        wind = around[:, _WIND]
        density = around[:, _DENSITY][:, 0]
        ahead = q_rotate(q_conj(truth.q_world_body), truth.v_world_mps - wind)[:, 0]
        errors = self._config.offset_pa + self._config.noise_pa * self._noise.normals(
            self._count, self._numbers, 1
        )
        pressure_pa = 0.5 * density * ahead * np.abs(ahead) + errors[:, 0]
        speed_mps = np.sqrt(2.0 * np.maximum(pressure_pa, 0.0) / density)
        rows = zip(pressure_pa.tolist(), speed_mps.tolist(), wind.tolist(), strict=True)
        self._newest = [
            AirData(truth.t_ns, pa, mps, (east, north, up)) for pa, mps, (east, north, up) in rows
        ]
        return self._newest


class _Ranges:
    """Range finders."""

    def __init__(self, config: AutopilotRange, numbers: npt.NDArray[np.int64], seed: int) -> None:
        self._config = config
        self._numbers = numbers
        self._noise = NoiseStream(seed, _RANGE_STREAM)
        self._schedule = SampleSchedule(config.rate_hz)
        self._count = 0

    def readings(self, truth: TrueState, below_m: FloatArray) -> list[DistanceReading] | list[None]:
        """Return the reading of each vehicle that is new now."""
        if not self._schedule.due(truth.t_ns):
            return [None] * len(below_m)
        self._count += 1
        config = self._config
        read = below_m + config.noise_m * self._noise.normals(self._count, self._numbers, 1)[:, 0]
        read = np.where(
            below_m <= config.max_m, np.clip(read, config.min_m, config.max_m), config.max_m
        )
        bounds = config.min_m, config.max_m
        return [
            DistanceReading(truth.t_ns, *bounds, (0.0, 0.0, 0.0), (_DOWN,), (m,))
            for m in read.tolist()
        ]


class _Flows:
    """Cameras that look down, and how far their picture turned since the reading before."""

    def __init__(self, config: AutopilotFlow, numbers: npt.NDArray[np.int64], seed: int) -> None:
        self._config = config
        self._numbers = numbers
        self._noise = NoiseStream(seed, _FLOW_STREAM)
        self._schedule = SampleSchedule(config.rate_hz)
        self._count = 0
        self._t_ns = self._begun_ns = 0
        self._sums = np.zeros((len(numbers), 5))
        self._seen = np.ones(len(numbers), np.bool_)

    def readings(self, truth: TrueState, below_m: FloatArray) -> list[FlowReading] | list[None]:
        """Add a step's flow; return the reading of each vehicle that is new now."""
        seen = below_m <= self._config.max_m
        v = q_rotate(q_conj(truth.q_world_body), truth.v_world_mps)
        per_m = np.where(seen, 1.0 / np.maximum(below_m, _NEAREST_M), 0.0)
        moved = np.column_stack((v[:, 1] * per_m, -v[:, 0] * per_m))
        w = truth.w_body_radps
        self._sums += np.hstack((w[:, :2] + moved, w)) * ((truth.t_ns - self._t_ns) / NS_PER_S)
        self._seen &= seen
        self._t_ns = truth.t_ns
        span_s = (truth.t_ns - self._begun_ns) / NS_PER_S
        if not self._schedule.due(truth.t_ns) or not span_s:
            return [None] * len(below_m)
        self._count += 1
        self._sums[:, :2] += (
            self._config.noise_radps * span_s * self._noise.normals(self._count, self._numbers, 2)
        )
        rows = zip(self._sums.tolist(), self._seen.tolist(), strict=True)
        found = [
            FlowReading(truth.t_ns, span_s, (x, y), (p, q, r), ok) for (x, y, p, q, r), ok in rows
        ]
        self._begun_ns = truth.t_ns
        self._sums[:] = 0.0
        self._seen[:] = True
        return found

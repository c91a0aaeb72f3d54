"""Digests of what a seed promises: the same on every processor.

``python -m tests.support.seeded_flights [NAME...]`` prints them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from tests.support.lsy_levels import level_file
from vil_bridge.config.course import load_course
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.lsy import read_lsy
from vil_simulation.race.pilots import minimum_snap_pilot, time_optimal_pilot
from vil_simulation.race.simulated_race import PilotFactory, race
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.environment.wind import DrydenGusts
from vil_simulation.vehicles.envs.base import VehicleTask
from vil_simulation.vehicles.envs.hover import HoverTask
from vil_simulation.vehicles.envs.race import RaceTask
from vil_simulation.vehicles.envs.stabilise import ThreeRotorsTask
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.sensors.imu import ImuSensor
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS
from vil_simulation.vehicles.trajectories import circle, lemniscate, line, minimum_snap

_SEED: Final = 3
_STEPS: Final = 300


def _courses() -> list[FloatArray]:
    moved = perturbed(load_course("alphapilot"), _SEED)
    return [*(gate.corners_m for gate in moved.gates), moved.start.p_m, moved.start.q_xyzw]


def _curves() -> list[FloatArray]:
    waypoints = np.random.default_rng(_SEED).normal(size=(9, 3)).cumsum(axis=0)
    curves = (
        minimum_snap(waypoints, speed_mps=3.0, yaw_rad="along"),
        circle(2.0, 1.5),
        lemniscate(4.0, 2.0),
        lemniscate(4.0, 2.0, kind="gerono", turn_rad=0.3),
        line((0.0, 0.0, 1.0), (0.1, 0.2, 1.0), 3.0, 4.0, 30.0),
    )
    return [curve.derivatives(np.linspace(0.0, curve.duration_s, 50)) for curve in curves]


def _gusts_and_sensors(make_model: Callable[[], Model]) -> Iterable[FloatArray]:
    """Yield states and readings of vehicles that fly along a circle in turbulence."""
    model = make_model()
    fleet = Fleet(model, 3, disturbances=[DrydenGusts(7.7, seed=_SEED)])
    path = circle(2.0, 1.5, center_m=(0.0, 0.0, 10.0), facing="along")
    fleet.place(p_world_m=path.at([0.0]).p_world_m[0])
    pilot = tracking(model, [path] * 3)
    imu = ImuSensor(3, IMU_PRESETS["mpu6000"], seed=_SEED)
    for _ in range(_STEPS):
        fleet.command(pilot(1e-9 * fleet.t_ns, fleet.x))
        fleet.advance(4)
        truth = fleet.truth()
        yield fleet.x
        reading = imu.sample(truth)
        if reading is not None:
            yield from (reading.w_radps, reading.f_mps2)


def _episodes(make_task: Callable[..., VehicleTask]) -> Iterable[FloatArray]:
    """Yield observations and rewards of a task under random actions."""
    task = make_task(4, seed=_SEED)
    actions = np.random.default_rng(_SEED)
    task.reset()
    for _ in range(_STEPS):
        result = task.step(actions.uniform(-1.0, 1.0, (4, task.action_size)))
        yield from (result.obs, result.reward)  # type: ignore[misc]


def _race(course: Callable[[], Course], pilot: PilotFactory) -> Iterable[FloatArray]:
    result = race(course(), "seeded", pilot, [0])
    for episode, track in zip(result.episodes, result.tracks, strict=True):
        yield np.array([episode.time_s, episode.passed])
        yield from (track.t_s, track.p_world_m, track.v_world_mps)


def _level() -> Course:
    with TemporaryDirectory() as folder:
        return read_lsy(level_file(Path(folder), 2)).course


SEEDED: Final[dict[str, Callable[[], Iterable[FloatArray]]]] = {
    "courses": _courses,
    "curves": _curves,
    "flightgoggles": partial(_gusts_and_sensors, FlightGogglesMulticopter),
    "flightmare": partial(_gusts_and_sensors, FlightmareQuadrotor),
    "airsim": partial(_gusts_and_sensors, AirsimMultirotor),
    "hover": partial(_episodes, HoverTask),
    "gates": partial(_episodes, RaceTask),
    "three rotors": partial(_episodes, ThreeRotorsTask),
    "race": partial(_race, _level, minimum_snap_pilot),
    "time-optimal race": partial(_race, partial(load_course, "slalom"), time_optimal_pilot),
}
"""Results by name, as arrays."""


def digest(name: str) -> str:
    """Return a digest of all bits of a result."""
    found = hashlib.sha256()
    for array in SEEDED[name]():
        found.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: digest(name) for name in sys.argv[1:] or SEEDED}))

"""`vil-bridge bench vehicles`: simulated vehicles, compiled against NumPy.

One thread, one process; engines take turns, so that a busy machine slows both. A step of the
learning task is 20 ms of a quadrotor with actions, reward, observation, ends and new starts, flown
by random actions. The NumPy reference is the same task, vectorised over all vehicles; ``gymnasium``
is ``vil/Hover-v0`` with the same reward, made by ``make_vec``.

Steps of the physics are measured from hover, and 10 s later: of vehicles that hover, and of those
whose motors were switched off, where what decays would have become subnormal. Truth and sensors are
those of one multicopter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Final

import numpy as np

from vil_benchmarks.report import Row, ratio_row
from vil_bridge.core.compile import has_numba
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.installation import install_command
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.geomagnetism import LocalField, dipole_ned_t
from vil_simulation.vehicles.envs.hover import HoverTask
from vil_simulation.vehicles.fleet import Engine, Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.sensors.barometer import Barometer, BarometerParameters
from vil_simulation.vehicles.sensors.imu import ImuSensor
from vil_simulation.vehicles.sensors.magnetometer import Magnetometer, MagnetometerParameters
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS

SIZES: Final = (1, 10, 50, 150, 500, 1000)
RATIO_AT: Final = 150
PEER_SIZES: Final = (64, 256, 1024, 4096)
PEER_STEPS: Final = 50  # of a unit of work
_TICK_S: Final = 1.0 / 960.0
_SWARM: Final = 160
_REST_STEPS: Final = 9600
_CHUNK: Final = 480  # steps of a call
_ACTIONS: Final = 64
_WARM_CALL: Final = """
import time
begun = time.perf_counter()
import numpy
from vil_simulation.vehicles.envs.hover import HoverTask
task = HoverTask(1, engine="native")
task.reset()
task.step(numpy.zeros((1, 4)))
print(time.perf_counter() - begun)
"""
_PEERS: Final = """
import json, os, sys
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
from vil_benchmarks.vehicles import PEER_STEPS, interleaved
from vil_benchmarks.vehicles_peers import crazyflow_units, kernel_units
n, repetitions, block_s = json.loads(sys.argv[1])
works = [kernel_units(n, PEER_STEPS), crazyflow_units(n, PEER_STEPS)]
print(json.dumps(interleaved(works, repetitions, block_s)))
"""


def bench_vehicles(
    sizes: Sequence[int] = SIZES,
    repetitions: int = 15,
    block_s: float = 0.05,
    processes: int = 5,
    peer_sizes: Sequence[int] = PEER_SIZES,
) -> list[Row]:
    """Measure; about half a minute, two with crazyflow.

    Args:
        sizes: vehicles of the learning task.
        repetitions: blocks of each measure, whose median is the figure.
        block_s: length of a block.
        processes: fresh ones for the first call.
        peer_sizes: vehicles next to crazyflow, where that is installed.

    Raises:
        ConfigError: the extra ``sim`` is absent.
    """
    if not has_numba():
        raise ConfigError(f"the compiled kernels need numba: {install_command('sim')}")
    rows: list[Row] = []
    for n in sizes:
        works = {"kernel": _task_step(n, "native"), "numpy": _task_step(n, "numpy")}
        if find_spec("gymnasium") is not None:
            works["gymnasium"] = _gymnasium_step(n)
        costs = dict(
            zip(works, interleaved(list(works.values()), repetitions, block_s), strict=True)
        )
        for name, cpu_s in costs.items():
            rows.append(
                Row(
                    f"env_steps_per_cpu_s/{name}/{n}",
                    n / float(np.median(cpu_s)),
                    "1/s",
                    len(cpu_s),
                )
            )
        if n == RATIO_AT:
            rows.append(ratio_row("kernel_over_numpy_150", costs["numpy"], costs["kernel"]))
    rows += _physics_rows(repetitions, block_s)
    rows += _sensor_rows(repetitions, block_s)
    if find_spec("crazyflow") is not None:
        for n in peer_sizes:
            rows += _peer_rows(n, repetitions, block_s)
    rows.append(Row("bytes_per_vehicle", _bytes_per_vehicle(), "B", 1))
    first = [_warm_call_s() for _ in range(processes + 1)][1:]
    rows.append(Row("warm_first_call_s", float(np.median(first)), "s", len(first)))
    return rows


_Work = Callable[[int], None]
"""Does something a number of times."""


def interleaved(works: Sequence[_Work], repetitions: int, block_s: float) -> list[list[float]]:
    """Measure the CPU seconds of doing each once, measured in blocks that take turns."""
    times = [_fitting(work, block_s) for work in works]
    costs: list[list[float]] = [[] for _ in works]
    for _ in range(repetitions):
        for work, count, found in zip(works, times, costs, strict=True):
            begun = time.process_time()
            work(count)
            found.append((time.process_time() - begun) / count)
    return costs


def _fitting(work: _Work, block_s: float) -> int:
    """Return the repetitions that make a block.

    The first one, which may compile, does not count.
    """
    work(1)
    begun = time.process_time()
    work(4)
    return max(1, round(4 * block_s / max(time.process_time() - begun, 1e-6)))


def _task_step(n: int, engine: Engine) -> _Work:
    task = HoverTask(n, engine=engine)
    task.reset()
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (_ACTIONS, n, 4))

    def work(count: int) -> None:
        for step in range(count):
            task.step(actions[step % _ACTIONS])

    return work


def _gymnasium_step(n: int) -> _Work:
    import gymnasium

    import vil_simulation.learning  # noqa: F401 - registers the environments

    env = gymnasium.make_vec(
        "vil/Hover-v0", n, vectorization_mode="vector_entry_point", reward="flightmare"
    )
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (_ACTIONS, n, 4)).astype(np.float32)

    def work(count: int) -> None:
        for step in range(count):
            env.step(actions[step % _ACTIONS])

    return work


def _physics_rows(repetitions: int, block_s: float) -> list[Row]:
    """Measure one multicopter and a swarm; figures are those of the slower case after the rest."""
    slowest = []
    ratios = []
    for model, n in (
        (FlightGogglesMulticopter(), 1),
        (FlightGogglesMulticopter(integrator="euler"), _SWARM),
    ):
        speeds = (model.parameters.hover_radps, 0.0)
        works = [_ticks(model, n, speed, before) for speed in speeds for before in (0, _REST_STEPS)]
        costs = [float(np.median(found)) for found in interleaved(works, repetitions, block_s)]
        slowest.append(max(costs[1::2]))
        ratios += [fresh / rested for fresh, rested in zip(costs[::2], costs[1::2], strict=True)]
    return [
        Row("single_step_us", 1e6 * slowest[0], "us", repetitions),
        Row("flightgoggles_euler_steps_per_s", _SWARM / slowest[1], "1/s", repetitions),
        Row("hover_over_fresh_steps", min(ratios), "ratio", repetitions),
    ]


def _sensor_rows(repetitions: int, block_s: float) -> list[Row]:
    """Measure what sensors of one multicopter take, next to a step of its fleet in the same
    turns.
    """
    fleet = Fleet(FlightGogglesMulticopter(), dt_s=Fraction(1, 1000))
    origin = GeoOrigin(47.37, 8.54, 400.0)
    sensors = (
        ImuSensor(1, replace(IMU_PRESETS["mpu6000"], rate_hz=None)),
        Magnetometer(
            1, LocalField(origin, dipole_ned_t).enu_t, MagnetometerParameters(rate_hz=None)
        ),
        Barometer(1, origin, BarometerParameters(rate_hz=None)),
    )

    def step(count: int) -> None:
        for _ in range(count):
            fleet.advance()

    def truth(count: int) -> None:
        for _ in range(count):
            fleet.truth()

    def read(count: int) -> None:
        for _ in range(count):
            fleet.steps += 1  # every sample has a time of its own
            found = fleet.truth()
            for sensor in sensors:
                if sensor.sample(found) is None:
                    raise RuntimeError(
                        f"{type(sensor).__name__} did not measure: its time does not go on"
                    )

    steps, truths, reads = interleaved((step, truth, read), repetitions, block_s)
    return [
        Row("truth_us", 1e6 * float(np.median(truths)), "us", repetitions),
        Row("truth_imu_mag_baro_us", 1e6 * float(np.median(reads)), "us", repetitions),
        ratio_row("truth_over_step", truths, steps),
        ratio_row("truth_imu_mag_baro_over_step", reads, steps),
    ]


def _peer_rows(n: int, repetitions: int, block_s: float) -> list[Row]:
    """Measure on one core, else XLA's threads wait for each other, and in a process of its own.

    SciPy reads the switch that crazyflow needs when it is imported.
    """
    command = [sys.executable, "-c", _PEERS, json.dumps([n, repetitions, block_s])]
    switched = os.environ | {"SCIPY_ARRAY_API": "1"}
    said = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=True, timeout=300, env=switched
    )
    ours, theirs = json.loads(said.stdout.splitlines()[-1])
    steps = {"kernel": ours, "crazyflow": theirs}
    return [
        *(
            Row(
                f"physics_steps_per_cpu_s/{name}/{n}",
                n * PEER_STEPS / float(np.median(cpu_s)),
                "1/s",
                len(cpu_s),
            )
            for name, cpu_s in steps.items()
        ),
        ratio_row(f"kernel_over_crazyflow/{n}", theirs, ours),
    ]


def _ticks(model: FlightGogglesMulticopter, n: int, speed_radps: float, before: int) -> _Work:
    """Return work of 960 Hz steps in the kernel with rotors at a speed, from states ``before``
    steps after hover.
    """
    native = model.native()
    if native is None:
        raise ConfigError(f"{type(model).__name__} has no compiled kernel here")
    start, u, around = (
        model.initial(n),
        np.full((n, model.command.size), speed_radps),
        model.calm(n),
    )
    native(start, u, around, _TICK_S, before)
    x = start.copy()

    def work(count: int) -> None:
        for first in range(0, count, _CHUNK):
            x[:] = start
            native(x, u, around, _TICK_S, min(_CHUNK, count - first))

    return work


def _bytes_per_vehicle() -> float:
    """Return the memory of a task for each vehicle.

    State, surroundings, counts, observations, results.
    """
    n = 10_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        task = HoverTask(n, engine="native")
        task.reset()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / n


def _warm_call_s() -> float:
    """Measure the time from the first import to the first result in a fresh process."""
    command = [sys.executable, "-c", _WARM_CALL]
    said = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return float(said.stdout)

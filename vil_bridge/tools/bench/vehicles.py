"""`vil-bridge bench vehicles`: simulated vehicles, compiled against NumPy.

One thread, one process; engines take turns, so that a busy machine slows both. A step of the learning task is 20 ms of
a quadrotor with actions, reward, observation, ends and new starts, flown by random actions. The NumPy reference is the
same task, vectorised over all vehicles.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.tools.bench.report import Row, ratio_row
from vil_bridge.vehicles.compile import has_numba
from vil_bridge.vehicles.envs.hover import HoverTask
from vil_bridge.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_bridge.vehicles.model import Model

SIZES: Final = (1, 10, 50, 150, 500, 1000)
RATIO_AT: Final = 150
_ENGINES: Final = ("native", "numpy")
_ROW_NAMES: Final = {"native": "kernel", "numpy": "numpy"}
_TICK_S: Final = 1.0 / 960.0
_SWARM: Final = 160
_ACTIONS: Final = 64
_WARM_CALL: Final = """
import time
begun = time.perf_counter()
import numpy
from vil_bridge.vehicles.envs.hover import HoverTask
task = HoverTask(1, engine="native")
task.reset()
task.step(numpy.zeros((1, 4)))
print(time.perf_counter() - begun)
"""


def bench_vehicles(
    sizes: Sequence[int] = SIZES, repetitions: int = 15, block_s: float = 0.05, processes: int = 5
) -> list[Row]:
    """Measure; about half a minute.

    Args:
        sizes: vehicles of the learning task.
        repetitions: blocks of each measure, whose median is the figure.
        block_s: length of a block.
        processes: fresh ones for the first call.

    Raises:
        ConfigError: the extra ``sim`` is absent.
    """
    if not has_numba():
        raise ConfigError("the compiled kernels need numba: pip install 'vil-bridge[sim]'")
    rows: list[Row] = []
    for n in sizes:
        costs = _interleaved([_task_step(n, engine) for engine in _ENGINES], repetitions, block_s)
        for engine, cpu_s in zip(_ENGINES, costs, strict=True):
            name = f"env_steps_per_cpu_s/{_ROW_NAMES[engine]}/{n}"
            rows.append(Row(name, n / float(np.median(cpu_s)), "1/s", len(cpu_s)))
        if n == RATIO_AT:
            ours, reference = ([1.0 / cost for cost in engine_costs] for engine_costs in costs)
            rows.append(ratio_row("kernel_over_numpy_150", ours, reference))
    (single,) = _interleaved([_ticks(FlightGogglesMulticopter(), 1)], repetitions, block_s)
    rows.append(Row("single_step_us", 1e6 * float(np.median(single)), "us", len(single)))
    (swarm,) = _interleaved([_ticks(FlightGogglesMulticopter(integrator="euler"), _SWARM)], repetitions, block_s)
    rows.append(Row("flightgoggles_euler_steps_per_s", _SWARM / float(np.median(swarm)), "1/s", len(swarm)))
    rows.append(Row("bytes_per_vehicle", _bytes_per_vehicle(), "B", 1))
    first = [_warm_call_s() for _ in range(processes + 1)][1:]
    rows.append(Row("warm_first_call_s", float(np.median(first)), "s", len(first)))
    return rows


_Work = Callable[[int], None]
"""Does something a number of times."""


def _interleaved(works: Sequence[_Work], repetitions: int, block_s: float) -> list[list[float]]:
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
    """Return the repetitions that make a block; the first one, which may compile, does not count."""
    work(1)
    begun = time.process_time()
    work(4)
    return max(1, round(4 * block_s / max(time.process_time() - begun, 1e-6)))


def _task_step(n: int, engine: str) -> _Work:
    task = HoverTask(n, engine="native" if engine == "native" else "numpy")
    task.reset()
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (_ACTIONS, n, 4))

    def work(count: int) -> None:
        for step in range(count):
            task.step(actions[step % _ACTIONS])

    return work


def _ticks(model: Model, n: int) -> _Work:
    """Return work of 960 Hz steps in the kernel, all in one call, from hover."""
    native = model.native()
    if native is None:
        raise ConfigError(f"{type(model).__name__} has no compiled kernel here")
    x, u, around = model.initial(n), model.neutral(n), model.calm(n)

    def work(count: int) -> None:
        native(x, u, around, _TICK_S, count)

    return work


def _bytes_per_vehicle() -> float:
    """Return the memory of a task for each vehicle: state, surroundings, counts, observations, results."""
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
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    return float(said.stdout)

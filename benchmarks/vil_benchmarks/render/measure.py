"""CPU and wall time of cases that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vil_benchmarks.report import Row, ratio_row
from vil_bridge.core.types import FloatArray

WARM_UP: Final = 2


@dataclass(slots=True)
class Costs:
    """Milliseconds of each repetition: CPU time of all threads of this process, and wall time."""

    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)

    def __sub__(self, other: Costs) -> Costs:
        """Return the differences of the repetitions."""
        return Costs(_less(self.cpu_ms, other.cpu_ms), _less(self.wall_ms, other.wall_ms))


def _less(a: list[float], b: list[float]) -> list[float]:
    difference: FloatArray = np.subtract(a, b)
    made: list[float] = difference.tolist()
    return made


_Case = Callable[[int], object]


def in_turns(cases: Mapping[str, _Case], repetitions: int) -> Iterator[tuple[int, str, _Case]]:
    """Yield number, name and work of each repetition, the unmeasured first ones included.

    All cases take turns, so that a change of the machine's speed meets all of them.
    """
    for n in range(WARM_UP + repetitions):
        for name, work in cases.items():
            yield n, name, work


def interleaved(cases: Mapping[str, _Case], repetitions: int) -> dict[str, Costs]:
    """Return the costs of cases by name.

    Args:
        cases: by name; called with the number of the repetition.
        repetitions: how many count.
    """
    costs = {name: Costs() for name in cases}
    for n, name, work in in_turns(cases, repetitions):
        wall_s = time.perf_counter()
        cpu_s = time.process_time()
        work(n)
        cpu_ms = 1e3 * (time.process_time() - cpu_s)
        wall_ms = 1e3 * (time.perf_counter() - wall_s)
        if n >= WARM_UP:
            costs[name].cpu_ms.append(cpu_ms)
            costs[name].wall_ms.append(wall_ms)
    return costs


def ratio_rows(name: str, ours: Costs, reference: Costs) -> list[Row]:
    """Return the ratio of medians, of CPU time and (``wall_...``) of wall time."""
    return [
        ratio_row(name, ours.cpu_ms, reference.cpu_ms),
        ratio_row(f"wall_{name}", ours.wall_ms, reference.wall_ms),
    ]

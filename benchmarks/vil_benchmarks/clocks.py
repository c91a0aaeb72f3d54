"""`vil-bridge bench clocks`.

Clock mappings against simulated clocks and links whose truth is known.

Each way of an exchange takes 0.1 ms and a queueing time, exponentially distributed with a mean of 2
ms. The other clock gains 50 ppm; in some rows it is slewed for 20 s or stepped, or one way takes 2
ms more. Slews and steps go forward for even seeds and backward for odd ones. ``client`` is the
onboard client's mapping, ``bridge`` the bridge's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from vil_benchmarks.report import Row
from vil_bridge.client import ClockSync
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.types import FloatArray
from vil_bridge.world.clock_sync import ClockModel

SEEDS: Final = range(20)
DRIFT: Final = 50e-6
TRANSIT_NS: Final = 100_000
JITTER_NS: Final = 2.0 * NS_PER_MS
PERIOD_NS: Final = 60 * NS_PER_MS  # between exchanges: the client's
_READING_S: Final = 0.02
_DURATION_S: Final = 70.0
_SETTLED_S: Final = 10.0
_EVENT_S: Final = 30.0
_SLEW_S: Final = 20.0
_FOLLOWED_S: Final = 2.0  # after a step
_ORIGIN_NS: Final = 10**15 + 12345


@dataclass(frozen=True, slots=True)
class ForeignClock:
    """A clock by true time: an origin, a drift, a slew and a step.

    Attributes:
        slew: rate added for 20 s.
        step_ns: added from then on.
        way_back_ns: what the answers take longer than the questions; of the link, not of the clock.
        event_s: true time of the step, or of the start of the slew.
    """

    slew: float = 0.0
    step_ns: int = 0
    way_back_ns: int = 0
    event_s: float = _EVENT_S

    def at(self, t_ns: int) -> int:
        """Return its time at a true time."""
        since_ns = t_ns - round(self.event_s * NS_PER_S)
        slewed_ns = min(max(0, since_ns), round(_SLEW_S * NS_PER_S))
        step_ns = self.step_ns if since_ns >= 0 else 0
        return t_ns + _ORIGIN_NS + round(DRIFT * t_ns + self.slew * slewed_ns) + step_ns


class Mapping(Protocol):
    """A clock mapping in a simulation, by true time, which is bridge time."""

    def exchange(self, sent_ns: int, answered_ns: int, received_ns: int) -> None:
        """Account an exchange at these true times."""

    def read(self, t_ns: int) -> tuple[int, int] | None:
        """Return the error of a stamp of now and the stated uncertainty.

        None while nothing is known.
        """


class BridgeMapping:
    """The bridge asks, and maps stamps of the foreign clock."""

    def __init__(self, clock: ForeignClock) -> None:
        self.model = ClockModel()
        self._clock = clock

    def exchange(self, sent_ns: int, answered_ns: int, received_ns: int) -> None:
        """Account an exchange at these true times."""
        self.model.add_exchange(sent_ns, self._clock.at(answered_ns), received_ns)

    def read(self, t_ns: int) -> tuple[int, int] | None:
        """Return the error of a stamp of now and the stated uncertainty.

        None while nothing is known.
        """
        line = self.model.line
        if line is None:
            return None
        return line.to_bridge(self._clock.at(t_ns)) - t_ns, line.uncertainty_at(t_ns)


class ClientMapping:
    """The vehicle asks, by its clock, which is the foreign one, and maps the bridge's stamps to
    it.
    """

    def __init__(self, clock: ForeignClock) -> None:
        self.sync = ClockSync()
        self._clock = clock

    def exchange(self, sent_ns: int, answered_ns: int, received_ns: int) -> None:
        """Account an exchange at these true times."""
        self.sync.add(
            self._clock.at(sent_ns), answered_ns, answered_ns, self._clock.at(received_ns)
        )

    def read(self, t_ns: int) -> tuple[int, int] | None:
        """Return the error of a stamp of now and the stated uncertainty.

        None while nothing is known.
        """
        if not len(self.sync):
            return None
        vehicle_ns = self._clock.at(t_ns)
        return self.sync.to_vehicle_ns(t_ns) - vehicle_ns, self.sync.uncertainty_ns(vehicle_ns)


MAPPINGS: Final[dict[str, Callable[[ForeignClock], Mapping]]] = {
    "client": ClientMapping,
    "bridge": BridgeMapping,
}
SCENARIOS: Final = {
    "quiet": ForeignClock(),
    "slew_100ppm": ForeignClock(slew=100e-6),
    "slew_500ppm": ForeignClock(slew=500e-6),
    "step_1ms": ForeignClock(step_ns=NS_PER_MS),
    "step_3ms": ForeignClock(step_ns=3 * NS_PER_MS),
    "step_100ms": ForeignClock(step_ns=100 * NS_PER_MS),
    "lopsided_2ms": ForeignClock(way_back_ns=2 * NS_PER_MS),
}


def bench_clocks() -> list[Row]:
    """Simulate every row of the clock table for 20 seeds; half a minute."""
    rows: list[Row] = []
    for scenario in SCENARIOS:
        for mapping in MAPPINGS:
            runs = [simulated(scenario, mapping, seed) for seed in SEEDS]
            rows += clock_rows(scenario, mapping, runs)
    return rows


def simulated(scenario: str, mapping: str, seed: int) -> FloatArray:
    """Return readings of one simulated run of 70 s.

    Returns:
        shape (n, 3): true time in s, error in ms and stated uncertainty in ms.
    """
    rng = np.random.default_rng(seed)
    about = SCENARIOS[scenario]
    sign = -1 if seed % 2 else 1
    clock = ForeignClock(sign * about.slew, sign * about.step_ns, about.way_back_ns)
    reader = MAPPINGS[mapping](clock)
    count = round(_DURATION_S * NS_PER_S / PERIOD_NS)
    ways_ns = (TRANSIT_NS + rng.exponential(JITTER_NS, (count, 2))).astype(np.int64)
    arrivals = []
    for k, (go_ns, back_ns) in enumerate(ways_ns.tolist()):
        answered_ns = k * PERIOD_NS + go_ns
        arrivals.append((answered_ns + back_ns + clock.way_back_ns, answered_ns, k * PERIOD_NS))
    arrivals.sort()
    rows = []
    done = 0
    for t_ns in (
        (np.arange(_READING_S, _DURATION_S, _READING_S) * NS_PER_S).astype(np.int64).tolist()
    ):
        while done < count and arrivals[done][0] <= t_ns:
            reader.exchange(*reversed(arrivals[done]))
            done += 1
        reading = reader.read(t_ns)
        if reading is not None:
            rows.append((t_ns / NS_PER_S, reading[0] / NS_PER_MS, reading[1] / NS_PER_MS))
    return np.array(rows)


def judged(scenario: str, t_s: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which readings count, shape (n,) of bool.

    From 10 s on, of a slew from its start to 10 s after its end.

    The two seconds after a step are left out.
    """
    clock = SCENARIOS[scenario]
    if clock.slew:
        return (t_s > _EVENT_S) & (t_s < _EVENT_S + _SLEW_S + _SETTLED_S)
    chosen = t_s > _SETTLED_S
    return chosen & ((t_s < _EVENT_S) | (t_s > _EVENT_S + _FOLLOWED_S)) if clock.step_ns else chosen


def clock_rows(scenario: str, mapping: str, runs: list[FloatArray]) -> Iterator[Row]:
    """Yield the figures of the runs of one row of the table."""
    name = f"{scenario}/{mapping}"
    run = np.concatenate([one[judged(scenario, one[:, 0])] for one in runs])
    error_ms = np.abs(run[:, 1])
    yield Row(f"{name}/error_ms_p50", float(np.median(error_ms)), "ms", len(run))
    yield Row(f"{name}/error_ms_p99", float(np.percentile(error_ms, 99)), "ms", len(run))
    if SCENARIOS[scenario].step_ns:
        after_ms = error_ms[run[:, 0] > _EVENT_S + _FOLLOWED_S]
        yield Row(f"{name}/error_ms_max_after_2s", float(after_ms.max()), "ms", len(after_ms))
    yield Row(f"{name}/uncertainty_ms_p50", float(np.median(run[:, 2])), "ms", len(run))
    yield Row(f"{name}/covered", float((error_ms <= run[:, 2]).mean()), "ratio", len(run))

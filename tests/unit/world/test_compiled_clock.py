"""The compiled clock against its twin: the same bridge times, lines and epochs, to the bit."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceFrame, SourceReset
from vil_bridge.kernel import library
from vil_bridge.world.clock_sync import ClockModel
from vil_bridge.world.compiled_clock import CompiledClock
from vil_bridge.world.world import World

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

T_NS = 10**12
_HOSTILE = (0, 1, -1, 2**62, -(2**62), 2**62 - 1, 2**53 + 1, 10**18)


def frame(t_foreign_ns: int, t_arrival_ns: int, latency_ns: int) -> SourceFrame:
    nothing = np.zeros((0, 3)), np.zeros((0, 4)), np.zeros(0, dtype=np.bool_)
    return SourceFrame("room", 0, t_foreign_ns, t_arrival_ns, (), *nothing, latency_ns=latency_ns)


class ClockWorld(World):
    """A world that remembers at which bridge times it stored frames."""

    def __init__(self, of: type[ClockModel]) -> None:
        super().__init__({"room": Transform.identity()}, [])
        self.clocks = defaultdict(of)
        self.stored_ns: list[int] = []

    def _ingest_frame(self, frame: SourceFrame, t_ns: int) -> None:
        self.stored_ns.append(t_ns)


def assert_same(twin: ClockWorld, compiled: ClockWorld, event: SourceEvent) -> None:
    for world in (twin, compiled):
        world.ingest(event)
    assert compiled.stored_ns[-1:] == twin.stored_ns[-1:]
    one, other = twin.clocks["room"], compiled.clocks["room"]
    assert (other.line, other.epoch) == (one.line, one.epoch)


@given(
    seed=st.integers(0, 2**32),
    offset_ns=st.sampled_from([0, 17 * NS_PER_S, -(10**15), 2**60]),
    hostile=st.sampled_from([0.0, 0.0, 0.01, 0.1]),
    exchanges=st.booleans(),
)
def test_the_compiled_clock_equals_its_twin(
    seed: int, offset_ns: int, hostile: float, exchanges: bool
) -> None:
    rng = np.random.default_rng(seed)
    twin, compiled = ClockWorld(ClockModel), ClockWorld(CompiledClock)
    t_ns, drift = T_NS, float(rng.normal(0.0, 30e-6))
    for _ in range(1500):
        t_ns += int(rng.exponential(4 * NS_PER_MS)) + (4 * NS_PER_S if rng.random() < 0.002 else 0)
        if rng.random() < 0.002:
            offset_ns += int(rng.normal(0.0, NS_PER_S))  # the clock steps
        foreign_ns = t_ns + offset_ns + round(drift * (t_ns - T_NS))
        transit_ns = (
            100_000 + int(rng.exponential(200_000)) + (20 * NS_PER_MS if rng.random() < 0.01 else 0)
        )
        if rng.random() < hostile:
            foreign_ns = int(rng.choice(_HOSTILE)) + int(rng.integers(-3, 3))
        if exchanges and rng.random() < 0.05:
            assert_same(
                twin,
                compiled,
                ClockExchange("room", t_ns, foreign_ns + transit_ns, t_ns + 2 * transit_ns),
            )
        latency_ns = int(rng.choice((0, 3 * NS_PER_MS))) if rng.random() < hostile else 0
        assert_same(twin, compiled, frame(foreign_ns, t_ns + transit_ns, latency_ns))
        if rng.random() < hostile / 50:
            assert_same(twin, compiled, SourceReset("room", "", bool(rng.random() < 0.7)))


def test_the_kernel_judges_the_usual_stamps() -> None:
    world, judged = ClockWorld(CompiledClock), 0
    clock = world.clocks["room"]
    for number in range(1000):
        t_ns = T_NS + 4 * number * NS_PER_MS
        world.ingest(frame(t_ns + 17, t_ns + 100_000 + number % 7 * 1000, 0))
        judged += clock.usual(t_ns + 18, t_ns + 900_000, 0) is not None
    assert judged > 950

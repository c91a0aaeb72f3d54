"""The client's clock line is the bridge's: same weights, same prior, to the last digit of both."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.client import ClockSync
from vil_bridge.world.clock_sync import fit_clock_line


@pytest.mark.parametrize("count", [1, 2, 6, 30, 60, 100, 300])
@pytest.mark.parametrize("jitter_ns", [0.0, 50e3, 3e6])
def test_the_line_is_the_bridges(count: int, jitter_ns: float) -> None:
    """Of symmetric paths; for others the bridge keeps the line within what the round trips allow."""
    rng, sync = np.random.default_rng(count), ClockSync()
    t_ns, offset_ns, rtt_ns = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for i in range(count):
        t0, way_ns = 1_000_000_000 + 200_000_000 * i, 200_000 + 2 * round(0.5 * rng.exponential(jitter_ns))
        drifted = 7_000_000_000 + round(25e-6 * 200_000_000 * i) + round(rng.uniform(-20_000, 20_000))
        t2 = t0 + way_ns - drifted
        sync.add(t0, t2, t2 + 20_000, t0 + 2 * way_ns + 20_000)
        t_ns[i], offset_ns[i], rtt_ns[i] = t0 + way_ns + 10_000, drifted, 2 * way_ns
    line = fit_clock_line(t_ns, offset_ns, rtt_ns)
    t_ref, offset, slope, best = sync._line
    assert (t_ref, best) == (line.t_ref_ns, rtt_ns.min())
    assert abs(offset - line.offset_ns) <= 1  # both round to whole nanoseconds
    assert slope * 1e-9 == pytest.approx(line.drift, rel=1e-9, abs=1e-15)

"""The onboard client while the bridge's time is simulated: its stamps are the simulation's."""

from __future__ import annotations

import time

import pytest

from tests.support.common import wait_until
from tests.support.stream_rig import StreamRig, first, photo
from vil_bridge.client import Receiver
from vil_bridge.core.bridge_time import bridge_clock, now_ns

pytestmark = pytest.mark.wire


def test_stamps_are_simulation_time_while_the_world_is_slow() -> None:
    try:
        with StreamRig() as rig:
            bridge_clock().run(0.1)
            t_begin_ns, begun_s = now_ns(), time.monotonic()
            with rig.playing(photo()), Receiver(rig.endpoint) as receiver:
                frames = [first(receiver)]
                while time.monotonic() - begun_s < 1.0 or len(frames) < 5:
                    frames.append(first(receiver))
                elapsed_s = time.monotonic() - begun_s
                assert receiver.clock_sync.simulated
                assert all(f.t_ns == f.t_bridge_ns for f in frames)
                assert all(t_begin_ns <= f.t_ns <= now_ns() and 0.0 <= f.age_s <= elapsed_s for f in frames)
                assert frames[-1].t_ns - frames[0].t_ns < 0.11e9 * elapsed_s  # a tenth of what passed here
                assert receiver.counters["late"] == 0
                assert rig.hub.counters["odd_stamp"] == 0
                bridge_clock().real()
                wait_until(lambda: not receiver.clock_sync.simulated)
                wait_until(lambda: abs((f := first(receiver)).t_ns - f.t_bridge_ns) < 20_000_000)
    finally:
        bridge_clock().real()

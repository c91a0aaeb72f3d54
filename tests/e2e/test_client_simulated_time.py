"""The onboard client while the bridge's time is simulated: its stamps are the simulation's."""

from __future__ import annotations

import time

import pytest

from tests.support.common import wait_until
from tests.support.puppet_bridge import PuppetBridge
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
                assert all(
                    t_begin_ns <= f.t_ns <= now_ns() and 0.0 <= f.age_s <= elapsed_s for f in frames
                )
                # A tenth of what passed here.
                assert frames[-1].t_ns - frames[0].t_ns < 0.11e9 * elapsed_s
                assert receiver.counters["late"] == 0
                assert rig.hub.counters["odd_stamp"] == 0
                bridge_clock().real()
                wait_until(lambda: not receiver.clock_sync.simulated)
                wait_until(lambda: abs((f := first(receiver)).t_ns - f.t_bridge_ns) < 20_000_000)
    finally:
        bridge_clock().real()


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_restarted_simulation_begins_again_earlier(before: bool, after: bool) -> None:
    """Also where a real bridge takes its place or had it, and where a picture of the one before
    still waits.
    """
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:

        def picture() -> tuple[int, dict[str, int]]:
            t_ns = now_ns() + bridge.ahead_ns
            return t_ns, dict.fromkeys(
                ("capture", "arrival", "request", "image", "warp", "encode", "send"), t_ns
            )

        def show() -> bool:
            t_ns, stamps_ns = picture()
            return bridge.show(receiver, t_ns, stamps_ns=stamps_ns) is not None

        bridge.simulated, bridge.ahead_ns = before, 180 * 10**9 * before
        assert show()
        t_ns, stamps_ns = picture()
        bridge.send(receiver, t_ns, 6, stamps_ns=stamps_ns)
        wait_until(lambda: receiver._arrivals)
        bridge.instance, bridge.simulated, bridge.ahead_ns = "y", after, -180 * 10**9 * (not before)
        bridge.serve_until(
            lambda: receiver._instance == "y" and receiver.counters["registrations"] == 2
        )
        assert receiver.next(0.0) is None and receiver.counters["late"] == 1, "of another time"
        assert show() and show() and receiver.counters["late"] == 1

"""Connections of both protocols.

Counters that balance, a state that does not flap, peers that never speak.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.support import flightgoggles as flightgoggles_support
from tests.support import flightmare as flightmare_support
from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightmare_unity import unity
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.types import View, WorldSnapshot
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer import connection, connection_sockets
from vil_renderer.flightgoggles import client as flightgoggles_client
from vil_renderer.flightmare import client as flightmare_client

pytestmark = pytest.mark.wire


PROTOCOLS: dict[str, Any] = {
    "flightgoggles": flightgoggles_support,
    "flightmare": flightmare_support,
}
FATES = ("answered", "unanswered", "skipped", "swallowed")
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def open_poses(driven: Any) -> int:
    """Poses sent that have no fate yet."""
    counters = driven.status.counters
    return int(counters["sent"] - sum(counters[fate] for fate in FATES))


@protocols
def test_the_counters_add_up_to_what_was_sent(protocol: str) -> None:
    """Poses get lost and are repeated, the renderer passes some over, restarts and is silent for
    a while.
    """
    support = PROTOCOLS[protocol]
    hang, go_on = threading.Event(), threading.Event()

    def draw(views: tuple[View, ...], snapshot: WorldSnapshot) -> Any:
        if hang.is_set():
            go_on.wait(PATIENCE_S)
        return support.draw(views, snapshot)

    with support.client(answer_timeout_s=0.2, keep_alive_s=0.05) as bridge:
        pump = support.Pump(bridge)
        for _ in range(2):
            with support.server(support.ports(bridge), draw):
                seen = len(pump.frames)
                pump.frames_reach(seen + 20)
                hang.set()
                repeats = bridge.status.counters["repeats"] + 5
                pump.until(
                    lambda repeats=repeats: bridge.status.counters["repeats"] >= repeats,
                    asking=False,
                )
                hang.clear()
                go_on.set()
                pump.frames_reach(seen + 40)
                pump.until(lambda: bridge.status.counters["repeats"] >= 3, asking=False)
                pump.frames_reach(seen + 60)
                go_on.clear()
        assert bridge.status.counters["answered"] == len(pump.frames)
        assert 0 <= open_poses(bridge) <= bridge.in_flight + 1


def test_the_counters_add_up_over_a_lossy_link() -> None:
    with (
        flightmare_support.client(answer_timeout_s=0.1) as bridge,
        unity(flightmare_support.ports(bridge), lost=lambda n: n % 5 in (0, 1)),
    ):
        pump = flightmare_support.Pump(bridge)
        pump.frames_reach(30)
        assert bridge.status.counters["unanswered"] + bridge.status.counters["skipped"] > 0
        assert 0 <= open_poses(bridge) <= bridge.in_flight + 1


@dataclass
class Clock:
    """The machine's clock, which the test may put forward."""

    ahead_ns: int = 0

    def __call__(self) -> int:
        return machine_ns() + self.ahead_ns


@protocols
def test_a_renderer_in_overload_does_not_flap(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    support, clock = PROTOCOLS[protocol], Clock()
    for module in (connection, flightgoggles_client, flightmare_client):
        monkeypatch.setattr(module, "machine_ns", clock)
    busy, go_on = threading.Event(), threading.Event()
    go_on.set()

    def draw(views: tuple[View, ...], snapshot: WorldSnapshot) -> Any:
        busy.set()
        go_on.wait(PATIENCE_S)
        return support.draw(views, snapshot)

    with (
        support.client(answer_timeout_s=2.0) as bridge,
        support.server(support.ports(bridge), draw),
    ):
        pump = support.Pump(bridge)

        def answers_late() -> None:
            """One picture takes longer than the time-out, the next ones are quick again."""
            go_on.clear()
            busy.clear()
            pump.until(busy.is_set)
            clock.ahead_ns += 3 * NS_PER_S
            pump.until(lambda: bridge.status.state is ComponentState.WAITING)
            go_on.set()
            pump.frames_reach(len(pump.frames) + 5)

        pump.frames_reach(5)
        states = []
        for _ in range(5):
            answers_late()
            report = bridge.status.report()
            states.append((str(report.state), "too slow" in report.reason))
        assert states == [("running", False), *[("waiting", True)] * 4], "once may happen"
        pump.until(lambda: bridge.in_flight == 0, asking=False)
        clock.ahead_ns += 25 * NS_PER_S
        pump.until(lambda: bridge.status.state is ComponentState.RUNNING)


@protocols
def test_a_renderer_that_takes_anothers_place_is_a_new_one(protocol: str) -> None:
    """The end of the old connection is seen later: its host vanished, or its reset was ignored."""
    support = PROTOCOLS[protocol]
    context = zmq.Context()
    with support.client() as bridge:
        pump = support.Pump(bridge)
        address = f"tcp://127.0.0.1:{bridge.pose_port}"
        with context.socket(zmq.SUB) as new, context.socket(zmq.SUB) as old:
            for count, renderer in enumerate((old, new), 1):
                bridge._overdues = 2
                renderer.subscribe(b"")
                renderer.connect(address)
                pump.until(lambda count=count: bridge._topics[b""] == count)
                assert bridge._overdues == 0, (
                    "the new one is not blamed for what the old one did not answer"
                )
            old.close()
            pump.until(lambda: bridge._topics[b""] == 1)
            assert "no renderer has connected" not in bridge.status.report().reason
        pump.until(lambda: "no renderer has connected" in bridge.status.report().reason)
    context.term()


@protocols
def test_a_peer_that_never_speaks_is_cut_off(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZeroMQ alone would wait for 30 s."""
    monkeypatch.setattr(connection_sockets, "_HANDSHAKE_MS", 100)
    support = PROTOCOLS[protocol]
    with support.client() as bridge:
        for port in support.ports(bridge):
            with socket.create_connection(("127.0.0.1", port), timeout=60.0) as silent:
                while silent.recv(64):
                    pass
        pump = support.Pump(bridge)
        pump.until(
            lambda: (
                bridge.status.counters["bad_handshake"] + bridge.status.counters["disconnected"]
                >= 2
            )
        )


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="the policy is Linux's")
def test_the_thread_that_sends_poses_does_not_stop_the_one_that_hands_them_over() -> None:
    """One that receives pictures may: nothing waits for it."""
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        pytest.skip("this process has a policy of its own")
    threads = Path("/proc/self/task")
    before = set(threads.iterdir())
    sockets = connection_sockets.RendererSockets("127.0.0.1", 0, 0, 1 << 20, {})
    try:
        started = set(threads.iterdir()) - before

        def policies() -> set[int]:
            return {os.sched_getscheduler(int(thread.name)) for thread in started}

        # A thread sets its own policy, once it runs.
        wait_until(lambda: policies() == {os.SCHED_BATCH, os.SCHED_OTHER}, what=policies)
    finally:
        sockets.close()

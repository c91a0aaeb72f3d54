"""Single bad stamps, clocks that jump, names with two addresses, memory that comes back.

The reader goes on.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.puppet_bridge import PuppetBridge
from tests.support.stream_rig import SMALL, StreamRig, drain, first, header
from vil_bridge.client import Receiver, _fcntl
from vil_bridge.core.clock import NS_PER_S, now_ns

pytestmark = pytest.mark.wire


_REST = np.zeros(3), np.array([0.0, 0.0, 9.81])


@pytest.mark.parametrize("transport", ["tcp", "shm", "udp"])
def test_one_stamp_from_the_future_does_not_block_the_pictures_after_it(transport: str) -> None:
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw", transport=transport) as receiver,
    ):
        with rig.playing(SMALL):
            first(receiver)
        drain(rig, receiver)
        seen = receiver.counters["received"]
        rig.offer(SMALL, header(10_000, t_display_ns=now_ns() + 3600 * NS_PER_S))
        wait_until(lambda: receiver.counters["received"] > seen)
        wait_until(lambda: receiver.counters["malformed"] == 1)
        assert receiver.next(0.0) is None
        with rig.playing(SMALL):
            assert first(receiver).t_ns < now_ns() + NS_PER_S
        assert receiver.counters["late"] == 0


def test_pictures_flow_again_when_the_vehicle_had_been_asleep() -> None:
    """Its clock stood still, so that the old mapping puts all pictures into the future."""
    with PuppetBridge() as bridge, Receiver(bridge.endpoint, timeout_s=5) as receiver:
        assert bridge.show(receiver, now_ns()) is not None
        bridge.ahead_ns = 30 * NS_PER_S
        assert bridge.show(receiver, now_ns() + bridge.ahead_ns) is None
        assert receiver.counters["malformed"] == 1
        bridge.serve_until(lambda: receiver.clock_sync.epoch)
        assert bridge.show(receiver, now_ns() + bridge.ahead_ns) is not None
        bridge.show_until_covered(receiver)


def test_a_picture_keeps_what_was_known_of_the_clock_when_it_came() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint, timeout_s=5) as receiver:
        assert bridge.show(receiver, now_ns()) is not None
        t_ns = now_ns()
        bridge.send(receiver, t_ns)
        bridge.instance, bridge.ahead_ns = "restarted", -1000 * NS_PER_S
        registrations = receiver.counters["registrations"]
        bridge.serve_until(lambda: receiver.counters["registrations"] > registrations)
        frame = receiver.next(60.0)
        assert frame is not None and frame.t_bridge_ns == t_ns
        assert abs(frame.stamps["received"] - t_ns) < 5 * NS_PER_S
        assert frame.clock_uncertainty_ns > 0


def test_samples_that_do_not_increase_cost_themselves_only() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint) as receiver:
        wait_until(lambda: receiver.counters["registrations"] >= 1)
        t_ns = now_ns()
        times = np.array(
            [t_ns, t_ns + 1_000_000, t_ns + 1_000_000, t_ns + 500_000, t_ns + 2_000_000]
        )
        receiver.send_imu(times, np.tile(_REST[0], (5, 1)), np.tile(_REST[1], (5, 1)))
        wait_until(lambda: sum(len(window.t_ns) for _, window in rig.inertial) == 3)
        wait_until(lambda: (receiver.counters["imu"], receiver.counters["imu_dropped"]) == (3, 2))
        assert rig.hub.counters["malformed"] == 0


@pytest.mark.parametrize("binds", [False, True], ids=["reader", "bridge"])
def test_a_name_with_two_addresses_means_the_one_of_the_control_channel(
    monkeypatch: pytest.MonkeyPatch, binds: bool
) -> None:
    asked = socket.getaddrinfo

    def both(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        six = [(socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", port, 0, 0))]
        return six * (bool(kwargs.get("flags")) is binds) + asked(host, port, *args, **kwargs)

    with StreamRig() as rig:
        monkeypatch.setattr("vil_bridge.client.socket.getaddrinfo", both)
        with (
            rig.playing(SMALL),
            Receiver(rig.endpoint, encoding="raw", transport="udp") as receiver,
        ):
            first(receiver)


def test_a_name_that_is_unknown_for_a_while_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = socket.getaddrinfo

    def unknown(*args: Any, **kwargs: Any) -> list[Any]:
        if kwargs.get("flags"):  # the bridge, which binds
            return asked(*args, **kwargs)
        raise socket.gaierror(socket.EAI_AGAIN, "temporary failure in name resolution")

    with StreamRig() as rig, rig.playing(SMALL):
        with monkeypatch.context() as patched:
            patched.setattr("vil_bridge.client.socket.getaddrinfo", unknown)
            receiver = Receiver(rig.endpoint, encoding="raw", transport="udp")
            wait_until(lambda: "temporary failure" in receiver.problem)
        with receiver:
            first(receiver)
            wait_until(lambda: receiver.problem == "")


def test_a_restarted_bridge_is_asked_for_shared_memory_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vil_bridge.client._fcntl", None)
    with StreamRig() as rig, rig.playing(SMALL):
        endpoint = rig.endpoint
        receiver = Receiver(endpoint, encoding="raw", transport="shm")
        first(receiver)
        assert receiver.transport == "tcp" and receiver.fallback
    monkeypatch.setattr("vil_bridge.client._fcntl", _fcntl)
    with StreamRig(bind=endpoint) as rig, rig.playing(SMALL), receiver:
        wait_until(lambda: receiver.next(0.1) is not None and receiver.transport == "shm")
        assert receiver.fallback == ""


def test_a_credit_that_finds_no_connection_is_given_back_later() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:
        bridge.send(receiver, now_ns())
        with bridge.deaf():
            # All that time, since the reader notices some moments later.
            for frame_id in range(6, 17):
                bridge.send(receiver, now_ns(), frame_id)
                first(receiver)
                receiver.next(0.03)
        bridge.serve_until(lambda: 16 in bridge.credits)
        assert receiver.counters["registrations"] == 1


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_data_connection_that_does_not_come_about_is_told(transport: str) -> None:
    """As behind a firewall that lets the control channel pass only."""
    with StreamRig() as rig, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port, rig.sink().port = rig.sink().port, closed.getsockname()[1]
        with Receiver(rig.endpoint, transport=transport) as receiver, rig.playing(SMALL):
            told = (
                f"no connection to tcp://127.0.0.1:{rig.sink().port} so far, from where the "
                "pictures come"
            )
            wait_until(lambda: receiver.problem == told)
        rig.sink().port = port
        with Receiver(rig.endpoint, transport=transport) as receiver, rig.playing(SMALL):
            first(receiver)
            wait_until(lambda: receiver.problem == "")


class Watched(Counter[str]):
    """Counters that note which changes were made without a lock, which the caller holds during
    each.
    """

    def __init__(self, lock: threading.Condition, counted: Counter[str]) -> None:
        super().__init__(counted)
        self.unguarded = set[str]()
        self._lock = lock

    def __setitem__(self, name: str, n: int) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self.unguarded.add(name)
        super().__setitem__(name, n)


def test_what_two_threads_count_is_counted_under_the_lock() -> None:
    """Pictures that are late or broken: found on arrival, and by the caller of ``next()``."""
    with (
        PuppetBridge() as bridge,
        Receiver(bridge.endpoint, color="rgb", encoding="raw") as receiver,
    ):
        t_ns = now_ns()
        assert bridge.show(receiver, t_ns) is not None
        receiver.counters = counted = Watched(receiver._changed, receiver.counters)
        assert (
            bridge.show(receiver, t_ns) is None
            and bridge.show(receiver, t_ns + 1, t_expires_ns="soon") is None
        )
        assert bridge.show(receiver, t_ns + 2, format="gray16") is None
        receiver._handed_t_ns = 1 << 62
        assert bridge.show(receiver, t_ns + 3) is None
        assert counted["late"] == counted["malformed"] == 2
        receiver.send_imu(now_ns(), [0.0, 0.0, 0.0], [0.0, 0.0, 9.8])
        bridge.serve_until(lambda: counted["imu"] == 1)
        assert counted.unguarded.isdisjoint({"late", "malformed", "too_old", "imu_dropped"})

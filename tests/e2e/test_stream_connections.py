"""The stream's ports against messages without an end, crowds of connections and readers that
flood.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import zmq

from tests.attacks.zmtp import part
from tests.attacks.zmtp import peer as zmtp
from tests.support.common import wait_until
from tests.support.programs import Program
from tests.support.stream_rig import SMALL, RawClient, StreamRig, first
from vil_bridge.client import Receiver
from vil_bridge.protocols.zmq.connection_watch import CONNECTIONS_OF_ONE
from vil_bridge.runtime.peer_faults import PeerFaults

pytestmark = pytest.mark.wire


SAMPLE = {"w_radps": [[0, 0, 0]], "f_mps2": [[0, 0, 9.81]]}
MB = 1 << 20


def flood(peer: socket.socket, chunk: bytes, n: int) -> int:
    """Send the same bytes ``n`` times; returns how many went before the connection ended."""
    sent = 0
    with suppress(OSError):
        while sent < n * len(chunk):
            peer.sendall(chunk)
            sent += len(chunk)
    return sent


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MB


def reasons(faults: PeerFaults) -> set[tuple[str, str]]:
    return {(row.peer, row.reason) for row in faults.rows()}


# The end of a connection takes bytes out of the kernel while libzmq reads: what follows behind that
# gap is read as messages, which the hub refuses; many at once are a flood.
TORN = (["malformed"], ["malformed", "flood"])


def refusals(caplog: pytest.LogCaptureFixture, port: str) -> list[str]:
    """Return the reasons for which a port refused what loopback sent, in the order of their
    first times.
    """
    name = "control" if port == "control" else "stream/front"
    return re.findall(rf"{name}: refused a message of 127\.0\.0\.1 \((\w+)\)", caplog.text)


# --- messages without an end ----------------------------------------------------------------------


@pytest.mark.parametrize("payload", [bytes(250), b""], ids=["parts of 250 bytes", "empty parts"])
@pytest.mark.parametrize("port", ["control", "data"])
def test_a_message_without_end_costs_its_sender_the_connection(
    port: str, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    chunk = part(payload, more=True) * (65536 // (len(payload) + 2))
    with (
        StreamRig() as rig,
        rig.playing(SMALL),
        Receiver(rig.endpoint, name="jetson", encoding="raw") as receiver,
    ):
        first(receiver)
        faults = rig.hub if port == "control" else rig.sink()
        before_mb = rss_mb()
        with zmtp(
            int(rig.endpoint.rpartition(":")[2]) if port == "control" else rig.sink().port
        ) as peer:
            assert flood(peer, chunk, 5000) < 5000 * len(chunk)
            wait_until(lambda: faults.faults()["cut_off"] == 1)
        assert rss_mb() - before_mb < 100  # of 328; this process keeps other things too
        first_reason, *later = refusals(caplog, port)
        assert first_reason in (("flood", "endless") if port == "control" else ("flood",))
        assert later in ([], *TORN) if port == "control" else later == []
        assert {name for name, _ in reasons(faults.peer_faults)} == {
            "127.0.0.1"
        } and faults.faults()["cut_off"] == 1
        assert any(
            "127.0.0.1 sends what is refused" in text for text in faults.peer_faults.warnings()
        )
        received = receiver.counters["received"]
        wait_until(lambda: receiver.counters["received"] > received + 5)


def test_a_slow_message_without_end_is_ended_too(caplog: pytest.LogCaptureFixture) -> None:
    with StreamRig() as rig, zmtp(int(rig.endpoint.rpartition(":")[2])) as peer:
        for _ in range(100):
            # 200 kB/s, and less than a burst in all.
            if flood(peer, part(bytes(200), more=True) * 20, 1) == 0:
                break
            time.sleep(0.02)
        wait_until(lambda: rig.hub.faults()["cut_off"] == 1)
        first_reason, *later = refusals(caplog, "control")
        assert first_reason == "endless" and later in ([], *TORN)
        assert rig.hub.faults()["cut_off"] == 1


def test_long_messages_that_end_are_no_message_without_end() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        client.register()
        for _ in range(60):
            client.control.send(bytes(5000))
            time.sleep(0.02)
        wait_until(lambda: rig.hub.counters["malformed"] == 60)
        assert rig.hub.faults()["cut_off"] == 0


# --- crowds and floods ----------------------------------------------------------------------------


def fly(jetson: RawClient, token: str, pictures: int = 1) -> None:
    """Read pictures as a vehicle does, with a credit and an inertial sample for each."""
    for _ in range(pictures):
        picture = jetson.picture()
        assert picture is not None, "a credit was lost"
        jetson.acknowledge(token, picture[0]["frame_id"])
        jetson.say(type="imu", token=token, t_ns=[picture[0]["frame_id"]], **SAMPLE)


@pytest.fixture
def crowd() -> Iterator[Callable[[str], None]]:
    """Start 200 connections to an endpoint that flood and come back, in another process."""
    with ExitStack() as stack:

        def start(endpoint: str) -> None:
            port = endpoint.rpartition(":")[2]
            stack.enter_context(Program(sys.executable, "-m", "tests.attacks.crowd", port, 200))

        yield start


@pytest.mark.process
def test_a_crowd_that_floods_takes_no_readers_pictures_and_keeps_no_newcomer_out(
    crowd: Callable[[str], None],
) -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as jetson, rig.playing(SMALL):
        token = jetson.register(name="jetson")
        crowd(rig.endpoint)
        flown = 0
        while rig.hub.faults()["cut_off"] < 150:
            fly(jetson, token)
            flown += 1
        fly(jetson, token, 100)
        wait_until(lambda: len(rig.inertial) == flown + 100)
        assert len(rig.received) == flown + 100, "each credit was handled"
        assert rig.hub.faults().get("silent", 0) == 0
        assert {"too_many", "flood"} <= {reason for _, reason in reasons(rig.hub.peer_faults)}
        with Receiver(rig.endpoint, name="newcomer", encoding="raw") as newcomer:
            first(newcomer)


@pytest.mark.parametrize("port", ["control", "data"])
def test_idle_connections_beyond_those_of_one_address_are_ended_and_readers_go_on(
    port: str,
) -> None:
    with (
        StreamRig() as rig,
        RawClient(rig.endpoint) as jetson,
        rig.playing(SMALL),
        ExitStack() as stack,
    ):
        token = jetson.register(name="jetson")
        fly(jetson, token, 30)  # more than 4 KiB of pictures: its data connection is known by them
        faults = rig.hub if port == "control" else rig.sink()
        address = int(rig.endpoint.rpartition(":")[2]) if port == "control" else rig.sink().port
        for _ in range(CONNECTIONS_OF_ONE + 20):
            stack.enter_context(zmtp(address))
        while faults.faults()["cut_off"] < 21:
            fly(jetson, token)
        assert reasons(faults.peer_faults) == {("127.0.0.1", "too_many")}
        with Receiver(rig.endpoint, name="newcomer", encoding="raw") as newcomer:
            first(newcomer)
        fly(jetson, token, 10)
        gone = rig.hub.faults()
        assert gone["disconnected"] <= gone["cut_off"] + 1, (
            "the newcomer has left, and the first reader has not"
        )


def test_registered_readers_that_flood_are_named_and_ended_and_another_goes_on() -> None:
    with (
        StreamRig() as rig,
        RawClient(rig.endpoint) as jetson,
        rig.playing(SMALL),
        ExitStack() as stack,
    ):
        vandals = [stack.enter_context(RawClient(rig.endpoint)) for _ in range(10)]
        tokens = [vandal.register(name="vandal") for vandal in vandals]
        token = jetson.register(name="jetson")
        over = threading.Event()

        def run() -> None:
            while not over.wait(0.001):
                for vandal, its in zip(vandals, tokens, strict=True):
                    with suppress(zmq.Again):
                        for _ in range(20):
                            vandal.control.send(
                                b'{"type":"ping","t1":1,"token":"%s"}' % its.encode(), zmq.NOBLOCK
                            )

        thread = threading.Thread(target=run)
        thread.start()
        try:
            while rig.hub.faults().get("cut_off", 0) < 10:
                fly(jetson, token)
            fly(jetson, token, 20)
        finally:
            over.set()
            thread.join()
        assert ("127.0.0.1", "flood") in reasons(rig.hub.peer_faults)
        wait_until(lambda: len(rig.inertial) == len(rig.received))

"""Lines to autopilots: what their ends say when the other side takes nothing, or is not there."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import socket
from collections import Counter

import pytest

from tests.support.common import wait_until
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import encode
from vil_bridge.protocols.transports import SerialTransport, UdpTransport


def test_a_serial_line_that_takes_no_more_says_so() -> None:
    far, near = pty.openpty()
    with contextlib.closing(SerialTransport(os.ttyname(near), 115200, "MAVLink")) as wire:
        assert wire.send(b"first")
        # The kernel carries on for a while.
        wait_until(lambda: not (wire.send(bytes(4096)) or wire.send(b"x")))
        wait_until(lambda: os.read(far, 4096) and wire.send(b"x"))
    for end in (far, near):
        os.close(end)


@pytest.mark.wire
def test_a_computer_without_a_listener_is_told_from_a_silent_one() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        with contextlib.closing(UdpTransport("127.0.0.1", 0, port, Counter())) as wire:
            assert wire.cure.startswith("silent:")
            listener.close()
            wire.send(b"hello")
            wait_until(lambda: wire.receive() is None and wire.cure.startswith("refused:"))


@pytest.mark.wire
def test_another_port_of_the_vehicles_computer_is_not_the_vehicle() -> None:
    counters: Counter[str] = Counter()
    heartbeat = encode(mavlink.Heartbeat(0, 2, 12, 1, 3), 0, system=1, component=1)
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(contextlib.closing(UdpTransport("127.0.0.1", 0, None, counters)))
        vehicle, forger = (
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)
        )
        for one in (vehicle, forger):
            one.connect(("127.0.0.1", wire.port))
            one.settimeout(10)

        def received() -> bytes | None:
            assert select.select([wire.fileno()], (), (), 10)[0]
            return wire.receive()

        forger.send(b"hello")
        assert received() == b"hello", "it is counted as garbage"
        wire.send(b"too early")
        vehicle.send(heartbeat)
        assert received() == heartbeat
        forger.send(heartbeat)
        assert received() is None
        assert counters["foreign"] == 1
        assert f"127.0.0.1:{forger.getsockname()[1]}" in wire.cure
        vehicle.send(heartbeat)
        assert received() == heartbeat
        assert wire.cure.startswith("silent:"), "what the vehicle sends is no longer missed"
        wire.send(b"to the vehicle")
        assert vehicle.recv(100) == b"to the vehicle"
        forger.setblocking(False)
        with pytest.raises(BlockingIOError):
            forger.recv(100)

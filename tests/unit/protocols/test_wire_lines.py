"""Lines to autopilots: what their ends say when the other side takes nothing, or is not there."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
from collections import Counter

import pytest

from tests.support.common import wait_until
from vil_bridge.protocols.transports import SerialTransport, UdpTransport


def test_a_serial_line_that_takes_no_more_says_so() -> None:
    far, near = pty.openpty()
    with contextlib.closing(SerialTransport(os.ttyname(near), 115200, "MAVLink")) as wire:
        assert wire.send(b"first")
        wait_until(lambda: not (wire.send(bytes(4096)) or wire.send(b"x")))  # the kernel carries on for a while
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

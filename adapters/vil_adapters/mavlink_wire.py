"""Ways to an autopilot: a serial line or UDP, read by the event loop without waiting."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter
from typing import Final, Protocol

import serial

from vil_adapters.network import local_address
from vil_bridge.core.supervisor import Status

__all__ = ["SerialWire", "UdpWire", "Wire", "open_serial"]

_READ_BYTES: Final = 65536
_MAX_FOREIGN_PER_READ: Final = 64
_DEVICE_RETRY_S: Final = 0.2


class Wire(Protocol):
    """Bytes to and from one autopilot."""

    @property
    def place(self) -> str:
        """Where it leads, for people."""
        ...

    @property
    def cure(self) -> str:
        """What to check when nothing comes."""
        ...

    @property
    def datagrams(self) -> bool:
        """Whether what is received at once holds whole frames."""
        ...

    def fileno(self) -> int:
        """Descriptor that is readable when bytes wait."""
        ...

    def receive(self) -> bytes | None:
        """Bytes that wait; empty when the line hung up, None when there are none."""
        ...

    def send(self, frame: bytes) -> bool:
        """Write one frame without waiting; False when it found no room."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class SerialWire:
    """A serial line (implements :class:`Wire`).

    Raises:
        OSError: the device is absent (ENOENT), used by somebody else, or broken.
        ValueError: it refuses the baud rate.
    """

    datagrams = False
    cure = "check the baud rate and that MAVLink is enabled on the autopilot's port"

    def __init__(self, device: str, baud: int) -> None:
        # The inter-byte timeout sets VMIN to 1: only then does an empty read mean that the line hung up.
        self._port = serial.Serial(device, baud, timeout=0, write_timeout=0, inter_byte_timeout=0, exclusive=True)
        self.place = f"{device} at {baud} baud"

    def fileno(self) -> int:
        """As :class:`Wire` says."""
        return int(self._port.fileno())

    def receive(self) -> bytes | None:
        """As :class:`Wire` says."""
        try:
            return os.read(self.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def send(self, frame: bytes) -> bool:
        """As :class:`Wire` says."""
        try:
            return os.write(self.fileno(), frame) == len(frame)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the reader sees the same hang-up

    def close(self) -> None:
        """As :class:`Wire` says."""
        self._port.close()


async def open_serial(device: str, baud: int, status: Status) -> SerialWire:
    """Open a device as soon as it is there, telling meanwhile what is missing."""
    while True:
        try:
            wire = SerialWire(device, baud)
        except (OSError, ValueError) as exc:
            if isinstance(exc, OSError) and exc.errno == errno.ENOENT:
                status.waiting(f"{device} does not exist: is the autopilot connected and powered?")
            else:
                status.waiting(f"{device} cannot be opened: {exc}")
        else:
            status.facts["device"] = device
            return wire
        await asyncio.sleep(_DEVICE_RETRY_S)


class UdpWire:
    """UDP to one vehicle (implements :class:`Wire`): it sends first, or listens at a known port.

    Args:
        peer_ip: the vehicle's address; other senders are counted in ``foreign`` and dropped.
        port: local port, 0 = any free one.
        peer_port: where the vehicle listens; None = answers go to where it sends from.
        counters: gets ``foreign`` and ``unsent``.

    Raises:
        OSError: no route, or the port is taken.
    """

    datagrams = True

    def __init__(self, peer_ip: str, port: int, peer_port: int | None, counters: Counter[str]) -> None:
        self._counters = counters
        self._peer_ip = peer_ip
        self._peer: tuple[str, int] | None = None if peer_port is None else (peer_ip, peer_port)
        self._refused = False
        self._stranger = ""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self.local_ip = local_address(peer_ip, peer_port or port or 1)
            self._socket.bind((self.local_ip, port))
            if self._peer is not None:
                self._socket.connect(self._peer)  # so that refusals are heard
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    @property
    def place(self) -> str:
        """Both ends."""
        there = f"{self._peer_ip}:{self._peer[1]}" if self._peer else self._peer_ip
        return f"UDP {self.local_ip}:{self.port} from {there}"

    @property
    def cure(self) -> str:
        """What the network told."""
        if self._refused:
            return "refused: that computer is up, but no vehicle listens there"
        if self._stranger:
            return f"datagrams come from {self._stranger} instead: is that the vehicle's address?"
        return "silent: does the vehicle send to this address and port, and does the firewall here let UDP in?"

    def fileno(self) -> int:
        """As :class:`Wire` says."""
        return self._socket.fileno()

    def receive(self) -> bytes | None:
        """The next datagram of the vehicle; UDP never hangs up."""
        for _ in range(_MAX_FOREIGN_PER_READ):
            try:
                datagram, sender = self._socket.recvfrom(_READ_BYTES)
            except BlockingIOError:
                return None
            except OSError as exc:
                self._refused = exc.errno == errno.ECONNREFUSED
                continue
            if sender[0] != self._peer_ip:
                self._counters["foreign"] += 1
                self._stranger = sender[0]
            elif datagram:
                self._refused = False
                self._peer = sender
                return datagram
        return None

    def send(self, frame: bytes) -> bool:
        """As :class:`Wire` says; nothing is sent before it is known to where."""
        if self._peer is None:
            return True
        try:
            self._socket.sendto(frame, self._peer)
        except BlockingIOError:
            return False
        except OSError as exc:
            self._refused = exc.errno == errno.ECONNREFUSED
        return True

    def close(self) -> None:
        """As :class:`Wire` says."""
        self._socket.close()

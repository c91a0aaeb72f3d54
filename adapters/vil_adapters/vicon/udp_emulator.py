"""An emulated UDP object stream of Tracker on a real socket."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

import numpy as np

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.vicon.config import TrackerUdpEmulatorConfig
from vil_adapters.vicon.convert import M_PER_MM
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, encode_objects, euler_xyz
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.sockets import udp_socket

_HEADER_BYTES: Final = 5
_ITEM_BYTES: Final = 3 + ITEM.itemsize
_DITHER_MM: Final = 1e-7


class TrackerUdpEmulator(Emulator):
    """Sender of the rigid bodies of ``motion`` to one address.

    Attributes:
        port: UDP port that the datagrams go to, known after the start.
    """

    def __init__(
        self,
        config: TrackerUdpEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        rate_hz = config.rate_hz * (1.0 + (faults or Faults()).drift_ppm * 1e-6)
        super().__init__(motion, rate_hz, epoch_ns, faults)
        self.port = config.port
        self._config = config
        self._period_ns = round(NS_PER_S / rate_hz)
        self._first_ns = epoch_ns
        self._sock: socket.socket | None = None
        self._items = np.zeros(0, ITEM)
        self._was_seen = np.zeros(0, np.bool_)

    def listen(self) -> None:
        """Open the socket; finds a free port to send to where none is configured.

        Raises:
            OSError: the local address is not of this computer.
        """
        if self._sock is None:
            self._sock = udp_socket(self._config.bind)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if not self.port:
            with udp_socket(self._config.bind) as free:
                self.port = free.getsockname()[1]

    def close(self) -> None:
        """Release the socket; may be called twice."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def inject(self, datagram: bytes) -> None:
        """Send these bytes to where the frames go."""
        self._send(datagram)

    def foreign_ns(self, t_ns: int) -> int:
        """Return the server's clock, which its frame numbers count, at a bridge time."""
        return round((t_ns - self._first_ns) / self._period_ns * NS_PER_S / self._config.rate_hz)

    def _on_power(self, up: bool) -> None:
        """Leave the socket open: a server that is down sends nothing."""

    def _on_frame(self, frame: EmulatedFrame) -> None:
        self._first_ns = frame.t_ns - frame.number * self._period_ns
        items = self._objects(frame)
        room = (self._config.block_bytes - _HEADER_BYTES) // _ITEM_BYTES
        self.server.count("unsent_objects", max(0, len(items) - room))
        datagram = encode_objects(ObjectBlock(frame.number, items[:room]), self._config.block_bytes)
        self.server.send(
            self._send, datagram, latency_ns=round(self._config.latency_ms * NS_PER_MS)
        )

    def _objects(self, frame: EmulatedFrame) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the objects of one frame.

        A lost one is repeated or left out, one that was never seen is left out.
        """
        seen = frame.seen
        if len(self._items) != len(seen.subjects):
            self._items = np.zeros(len(seen.subjects), ITEM)
            self._was_seen = np.zeros(len(seen.subjects), np.bool_)
        found = seen.tracked
        self._was_seen |= found
        self._items["name"] = [name.encode()[:24] for name in seen.subjects]
        # A measurement never repeats to the last bit, as an emulated object at rest would.
        self._items["p"][found] = seen.p_m[found] / M_PER_MM + _DITHER_MM * (frame.number % 2)
        self._items["euler"][found] = euler_xyz(seen.q_xyzw[found])
        return self._items[found if self._config.lost == "omit" else self._was_seen]

    def _send(self, datagram: bytes) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # no client listens, or the buffer is full
                self._sock.sendto(datagram, (self._config.target, self.port))

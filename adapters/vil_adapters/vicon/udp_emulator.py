"""An emulated UDP object stream of Tracker on a real socket."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

import numpy as np

from vil_adapters.emulation.emulator import EmulatedFrame, EmulatedServer, Emulator
from vil_adapters.vicon.config import TrackerUdpEmulatorConfig
from vil_adapters.vicon.convert import M_PER_MM
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, encode_objects, euler_xyz
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.faults import Faults
from vil_bridge.core.ports import MocapMotion

__all__ = ["TrackerUdpEmulator"]

_HEADER_BYTES: Final = 5
_ITEM_BYTES: Final = 3 + ITEM.itemsize
_DITHER_MM: Final = 1e-7


class TrackerUdpEmulator(Emulator):
    """Sends the rigid bodies of ``motion`` to one address.

    Attributes:
        port: UDP port that the datagrams go to, known after the start.
        epoch_ns: bridge time at which the motion began.
    """

    def __init__(
        self, config: TrackerUdpEmulatorConfig, motion: MocapMotion, epoch_ns: int, faults: Faults | None = None
    ) -> None:
        faults = faults or Faults()
        self.port = config.port
        self.epoch_ns = epoch_ns
        self._config = config
        rate_hz = config.rate_hz * (1.0 + faults.drift_ppm * 1e-6)
        self._period_ns = round(NS_PER_S / rate_hz)
        self.stage = EmulatedServer(motion, rate_hz, epoch_ns, faults, on_shot=self._on_shot, on_power=self._on_power)
        self._first_ns = epoch_ns
        self._sock: socket.socket | None = None
        self._items = np.zeros(0, ITEM)

    async def open(self) -> None:
        """Open the socket; finds a free port to send to where none is given.

        Raises:
            OSError: the local address is not ours.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._sock = sock
        sock.bind((self._config.bind, 0))
        if not self.port:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
                free.bind((self._config.bind, 0))
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
        """The server's clock, which its frame numbers count, at an instant of the bridge's."""
        return round((t_ns - self._first_ns) / self._period_ns * NS_PER_S / self._config.rate_hz)

    def _on_power(self, on: bool) -> None:
        """A server that is down sends nothing; its socket matters to nobody."""
        del on

    def _on_shot(self, shot: EmulatedFrame) -> None:
        number = shot.number
        self._first_ns = shot.t_ns - number * self._period_ns
        items = self._film(shot, number)
        room = (self._config.block_bytes - _HEADER_BYTES) // _ITEM_BYTES
        self.stage.count("unsent_objects", max(0, len(items) - room))
        datagram = encode_objects(ObjectBlock(number, items[:room]), self._config.block_bytes)
        self.stage.send(self._send, datagram, latency_ns=round(self._config.latency_ms * NS_PER_MS))

    def _film(self, shot: EmulatedFrame, number: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Objects of one frame; what is lost is repeated or left out."""
        seen = shot.seen
        if len(self._items) != len(seen.subjects):
            self._items = np.zeros(len(seen.subjects), ITEM)
        found = seen.tracked
        self._items["name"] = [name.encode()[:24] for name in seen.subjects]
        # A measurement never repeats to the last bit, as an emulated object at rest would.
        self._items["p"][found] = seen.p_m[found] / M_PER_MM + _DITHER_MM * (number % 2)
        self._items["euler"][found] = euler_xyz(seen.q_xyzw[found])
        return self._items[found] if self._config.lost == "omit" else self._items.copy()

    def _send(self, datagram: bytes) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # nobody listens, or the buffer is full
                self._sock.sendto(datagram, (self._config.target, self.port))

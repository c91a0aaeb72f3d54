"""Emulated server: the same bytes on a real socket, driven by a motion."""

from __future__ import annotations

import contextlib
import socket

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.sockets import udp_socket
from vil_example.codec import encode
from vil_example.config import ExampleEmulatorConfig
from vil_example.convert import from_motion

__all__ = ["ExampleEmulator"]


class ExampleEmulator(Emulator):
    """Sends the rigid bodies of ``motion`` to one address.

    Attributes:
        port: UDP port that the datagrams go to, known after the start.
    """

    def __init__(
        self,
        config: ExampleEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        # TODO: offset and drift of the emulated server's clock, in seconds and ppm.
        super().__init__(motion, config.rate_hz, epoch_ns, faults, offset_s=1000.0, drift_ppm=20.0)
        self.port = config.port
        self._config = config
        self._sock: socket.socket | None = None

    def listen(self) -> None:
        """Open the socket; find a free port to send to where none is configured.

        Raises:
            OSError: the local address is not of this computer.
        """
        # TODO: the server's sockets, and readers for what its clients send.
        self._sock = udp_socket(self._config.bind)
        if not self.port:
            with udp_socket(self._config.bind) as free:
                self.port = free.getsockname()[1]

    def close(self) -> None:
        """Release the socket at once; may be called twice."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _on_frame(self, frame: EmulatedFrame) -> None:
        # TODO: one datagram for each client, if the system sends to clients that registered.
        streamed = from_motion(frame.seen, frame.number, self.foreign_ns(frame.t_ns))
        self.server.send(self._send, encode(streamed), latency_ns=0)

    def _send(self, datagram: bytes) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # no client listens, or the buffer is full
                self._sock.sendto(datagram, (self._config.target, self.port))

"""Betaflight's stand-in as a process: UDP ports of states and sticks in, of motors out."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from time import monotonic, sleep, time
from typing import Any, Final

from vil_simulation.autopilots.stand_ins.betaflight import BetaflightStandIn
from vil_simulation.autopilots.stand_ins.process import StandInProcess, udp_socket, waiting

STATE_PORT: Final = 9003
RC_PORT: Final = 9004
MOTOR_PORT: Final = 9002
RAW_PORT: Final = 9001
_LOOP_S: Final = 1e-4
_IDLE_S: Final = 0.05
_LARGEST: Final = 2048
_STAMPS: Final = 35
"""SO_TIMESTAMPNS of Linux."""
_STAMP: Final = Struct("qq")


@dataclass(frozen=True, slots=True)
class BetaflightOptions:
    """Options of the process.

    Attributes:
        host: that gets the motors. state_port, rc_port: to listen at. motor_port, raw_port: to send
            to.
        seconds: of its clock until it ends, 0 = none.
    """

    host: str
    state_port: int
    rc_port: int
    motor_port: int
    raw_port: int
    seconds: float


class BetaflightProcess(StandInProcess):
    """The process; see :class:`BetaflightOptions`."""

    def __init__(self, options: BetaflightOptions) -> None:
        super().__init__()
        self._options = options
        self._core = BetaflightStandIn()
        self._states = udp_socket(options.state_port)
        self._states.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)
        self._rc = udp_socket(options.rc_port)
        self.selector.register(self._states, selectors.EVENT_READ, self._on_states)
        self.selector.register(self._rc, selectors.EVENT_READ, self._on_rc)

    def turn(self) -> float:
        """Run its loop, each 100 us while a state waits for an answer."""
        packets = self._core.poll(monotonic())
        if packets is not None:
            targets = self._options.motor_port, self._options.raw_port
            for packet, port in zip(packets, targets, strict=True):
                with suppress(OSError):
                    self._states.sendto(packet, (self._options.host, port))
        self.ended |= 0.0 < self._options.seconds <= self._core.t_s
        if not self._core.waits():
            return _IDLE_S
        sleep(_LOOP_S)
        return 0.0

    def counters(self) -> dict[str, Any]:
        """Return the counters."""
        return {"autopilot": "betaflight", **self._core.counters()}

    def _on_states(self) -> None:
        for data, arrival_s in _arrived(self._states):
            self.heard()
            self._core.on_state(data, arrival_s)

    def _on_rc(self) -> None:
        for data, _ in waiting(self._rc):
            self._core.on_rc(data, monotonic())


def _arrived(opened: socket.socket) -> list[tuple[bytes, float]]:
    """Return the datagrams that wait, each with its arrival in monotonic seconds, however long
    this process slept.
    """
    found = []
    with suppress(BlockingIOError, ConnectionRefusedError):
        while True:
            data, ((_, _, stamp),), *_ = opened.recvmsg(_LARGEST, socket.CMSG_SPACE(_STAMP.size))
            s, ns = _STAMP.unpack(stamp)
            found.append((data, monotonic() - (time() - s - 1e-9 * ns)))
    return found

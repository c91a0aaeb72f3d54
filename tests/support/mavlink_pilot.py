"""A pilot with pymavlink.

Parameters, arming, take-off and set-points, while a simulation runs step by step.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from pymavlink.dialects.v20 import common as reference

_DEADLINE_S: Final = 300.0
_POSITION_ONLY: Final = 0x9F8


class Pilot:
    """A program with pymavlink that flies over a socket, while the simulation runs step by step."""

    def __init__(self, link: socket.socket, step: Callable[[], object]) -> None:
        self.heard: dict[str, Any] = {}
        self._link, self._step = link, step
        self._mav = reference.MAVLink(self, srcSystem=255, srcComponent=190)
        self._mav.robust_parsing = True
        self._peer: Any = None
        link.setblocking(False)

    def write(self, data: bytes) -> None:
        if self._peer:
            self._link.sendto(bytes(data), self._peer)
        else:
            self._link.sendall(bytes(data))

    def until(self, holds: Callable[[], bool], act: Callable[[], None] = lambda: None) -> None:
        """Step, and act ten times a simulated second, until something holds."""
        give_up = monotonic() + _DEADLINE_S
        steps = 0
        while not holds():
            assert monotonic() < give_up, self.heard
            if steps % 25 == 0:
                act()
            steps += 1
            self._step()
            self._listen()

    def command(self, number: int, *values: float) -> int:
        """The result of a command."""
        self.heard.pop("COMMAND_ACK", None)
        padded = [*values, *[0.0] * (7 - len(values))]
        self._mav.command_long_send(1, 1, number, 0, *padded)
        self.until(lambda: "COMMAND_ACK" in self.heard)
        assert self.heard["COMMAND_ACK"].command == number
        return int(self.heard["COMMAND_ACK"].result)

    def arm(self) -> None:
        while self.command(400, 1.0):
            pass

    def fly_to(self, north: float, east: float, down: float) -> None:
        self._mav.set_position_target_local_ned_send(
            *(0, 1, 1, 1, _POSITION_ONLY, north, east, down, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        )

    def at(self, north: float, east: float, down: float) -> bool:
        p = self.heard.get("LOCAL_POSITION_NED")
        return p is not None and max(abs(p.x - north), abs(p.y - east), abs(p.z - down)) < 0.1

    def request_parameters(self) -> None:
        self._mav.param_request_list_send(1, 1)

    def set_parameter(self, name: bytes, value: float, kind: int) -> None:
        self._mav.param_set_send(1, 1, name, value, kind)

    def _listen(self) -> None:
        try:
            data, peer = self._link.recvfrom(65536)
        except BlockingIOError:
            return
        self._peer = peer
        for message in self._mav.parse_buffer(data) or []:
            name = message.get_type()
            self.heard[f"PARAM {message.param_id}" if name == "PARAM_VALUE" else name] = message


def fly_px4_offboard(pilot: Pilot) -> None:
    """Set a parameter of PX4, arm, take off, follow set-points in OFFBOARD, and land."""
    pilot.until(lambda: "HEARTBEAT" in pilot.heard)
    pilot.request_parameters()
    pilot.until(lambda: "PARAM SYS_HAS_MAG" in pilot.heard)
    pilot.set_parameter(b"MIS_TAKEOFF_ALT", 1.0, 9)
    pilot.until(lambda: pilot.heard["PARAM MIS_TAKEOFF_ALT"].param_value == 1.0)
    pilot.arm()
    assert pilot.command(22, *[0.0] * 6, float("nan")) == 0
    pilot.until(lambda: pilot.at(0.0, 0.0, -1.0))
    assert pilot.command(176, 1.0, 6.0) == 1, "no set-points yet"
    pilot.fly_to(1.0, -1.0, -1.5)
    assert pilot.command(176, 1.0, 6.0) == 0
    pilot.until(lambda: pilot.at(1.0, -1.0, -1.5), lambda: pilot.fly_to(1.0, -1.0, -1.5))
    assert pilot.heard["HEARTBEAT"].custom_mode in (6 << 16, 4 << 16 | 2 << 24)
    assert pilot.command(21) == 0
    pilot.until(lambda: not pilot.heard["HEARTBEAT"].base_mode & 128)


def fly_ardupilot_guided(pilot: Pilot) -> None:
    """Set a parameter of ArduPilot, arm, take off and fly to a place in GUIDED."""
    pilot.until(lambda: "HEARTBEAT" in pilot.heard)
    assert pilot.heard["HEARTBEAT"].autopilot == 3
    pilot.set_parameter(b"VISO_DELAY_MS", 20.0, 6)
    pilot.until(lambda: "PARAM VISO_DELAY_MS" in pilot.heard)
    assert pilot.heard["PARAM VISO_DELAY_MS"].param_value == 20.0
    pilot.arm()
    assert pilot.command(22, *[0.0] * 6, 1.2) == 4, "GUIDED first"
    assert pilot.command(176, 1.0, 4.0) == 0
    assert pilot.command(22, *[0.0] * 6, 1.2) == 0
    pilot.until(lambda: pilot.at(0.0, 0.0, -1.2))
    pilot.fly_to(1.0, 1.0, -1.5)
    pilot.until(lambda: pilot.at(1.0, 1.0, -1.5))

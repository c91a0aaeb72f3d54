"""Piloting a simulated vehicle from a terminal.

Keys, a gamepad, and a running bridge's REST interface.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import select
import ssl
import struct
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TextIO
from urllib.parse import quote, urlsplit

from vil_bridge.core.errors import VilBridgeError

HELP: Final = (
    "w/s forward, back   a/d left, right   up/down climb, sink   left/right turn   space stop   "
    "m arm or disarm   0 reset   h help   q quit"
)
_PERIOD_S: Final = 0.05
_START_S: Final = 10.0
"""For the first answer: a bridge that has just started has yet to build its pages."""
_TIMEOUT_S: Final = 2.0
_MISSES: Final = 3
_DECAY_S: Final = 0.4
_SMALLEST: Final = 0.03
_DEAD_ZONE: Final = 0.08
_EVENT: Final = struct.Struct("<IhBB")
_BUTTON = 0x01
_AXIS = 0x02
_INITIAL = 0x80
_LARGEST: Final = 32767.0
_MOST_EVENTS: Final = 64

_MOVES: Final[Mapping[bytes, tuple[str, float]]] = {
    b"w": ("forward", 1.0),
    b"s": ("forward", -1.0),
    b"a": ("left", 1.0),
    b"d": ("left", -1.0),
    b"\x1b[A": ("up", 1.0),
    b"\x1b[B": ("up", -1.0),
    b"\x1b[D": ("turn", 1.0),
    b"\x1b[C": ("turn", -1.0),
}
_ACTIONS: Final[Mapping[bytes, str]] = {
    b"m": "arm",
    b"0": "reset",
    b"h": "help",
    b"q": "quit",
    b"\x03": "quit",
}


@dataclass(slots=True)
class Sticks:
    """Positions of the sticks, each -1 to 1; ``turn`` and ``left`` are to the left."""

    forward: float = 0.0
    left: float = 0.0
    up: float = 0.0
    turn: float = 0.0


@dataclass(slots=True)
class Keys:
    """Keys of a terminal, which reports presses and never releases: a pressed key fades away.

    Attributes:
        sticks: as of the newest :meth:`fade`. actions: pressed since they were taken (arm, reset,
            help, quit).
    """

    sticks: Sticks = field(default_factory=Sticks)
    actions: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def press(self, data: bytes) -> None:
        """Take what was typed; an escape sequence may come in parts."""
        data = self._rest + data
        self._rest = b""
        while data:
            if data[:1] == b"\x1b":
                if len(data) < 3 and b"\x1b[".startswith(data[:2]):
                    self._rest = data
                    return
                key = data[:3]
                data = data[3:]
            else:
                key = data[:1].lower()
                data = data[1:]
            if key in _MOVES:
                axis, value = _MOVES[key]
                setattr(self.sticks, axis, value)
            elif key == b" ":
                self.sticks = Sticks()
            elif key in _ACTIONS:
                self.actions.append(_ACTIONS[key])

    def fade(self, dt_s: float) -> None:
        """Move the sticks towards the middle."""
        share = math.exp(-dt_s / _DECAY_S)
        for axis in ("forward", "left", "up", "turn"):
            value = share * getattr(self.sticks, axis)
            setattr(self.sticks, axis, value if abs(value) > _SMALLEST else 0.0)

    def pop_actions(self) -> list[str]:
        """Return and clear the actions since the last call."""
        taken = self.actions
        self.actions = []
        return taken


class Gamepad:
    """A joystick device of Linux.

    Events of 8 bytes (time, value, type, number; Documentation/input/joystick-api).

    Args:
        path: the device, such as /dev/input/js0.
        axes: numbers of the axes for forward, left, up and turn; pushed forward or left they are
            negative.

    Attributes:
        sticks: as they stand. pressed: buttons pressed since they were taken: 0 = arm, 1 = reset.

    Raises:
        VilBridgeError: it cannot be opened.
    """

    def __init__(self, path: Path, axes: tuple[int, int, int, int] = (4, 3, 1, 0)) -> None:
        self.sticks = Sticks()
        self.pressed: list[int] = []
        self._axes = dict(zip(axes, ("forward", "left", "up", "turn"), strict=True))
        self._rest = b""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as exc:
            raise VilBridgeError(
                f"gamepad {path}: {exc.strerror}; `ls /dev/input/js*` lists those there are"
            ) from None

    def fileno(self) -> int:
        """Return the descriptor, readable when an event waits."""
        return self._fd

    def read(self) -> None:
        """Take the events that wait.

        Raises:
            VilBridgeError: it was unplugged.
        """
        try:
            read = os.read(self._fd, _MOST_EVENTS * _EVENT.size)
        except BlockingIOError:
            return
        except OSError as exc:
            raise VilBridgeError(f"the gamepad is gone: {exc.strerror}") from None
        if not read:
            raise VilBridgeError("the gamepad is gone: its device has ended")
        data = self._rest + read
        whole = len(data) - len(data) % _EVENT.size
        self._rest = data[whole:]
        for _, value, kind, number in _EVENT.iter_unpack(data[:whole]):
            if kind & ~_INITIAL == _AXIS and number in self._axes:
                share = -value / _LARGEST
                setattr(
                    self.sticks,
                    self._axes[number],
                    0.0 if abs(share) < _DEAD_ZONE else max(-1.0, share),
                )
            elif kind == _BUTTON and value:
                self.pressed.append(number)

    def pop_actions(self) -> list[str]:
        """Return and clear the actions of the buttons since the last call."""
        taken = self.pressed
        self.pressed = []
        return [{0: "arm", 1: "reset"}[number] for number in taken if number in (0, 1)]

    def close(self) -> None:
        """Release the device."""
        os.close(self._fd)


class HttpVehicleClient:
    """The REST interface of a bridge, for one vehicle.

    Args:
        url: of the bridge's status page. subject: the vehicle.
        headers: of each request, with the token. tls: checks the bridge's certificate; None = plain
            HTTP.
    """

    def __init__(
        self,
        url: str,
        subject: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        at = urlsplit(url)
        host = at.hostname or "127.0.0.1"
        if tls is None:
            self._connection = http.client.HTTPConnection(host, at.port or 80, timeout=_START_S)
        else:
            self._connection = http.client.HTTPSConnection(
                host, at.port or 443, timeout=_START_S, context=tls
            )
        self._headers = dict(headers)
        self._path = f"/api/v1/vehicles/{quote(subject, safe='')}"

    def state(self) -> dict[str, Any]:
        """Return the vehicle now.

        Raises:
            VilBridgeError: the bridge has no such vehicle. OSError: the bridge does not answer.
        """
        return self._ask("GET", self._path, None)

    def command(self, **body: object) -> dict[str, Any]:
        """Command it; returns the state before.

        Raises:
            VilBridgeError: it was refused. OSError: the bridge does not answer.
        """
        return self._ask("POST", f"{self._path}/command", json.dumps(body))

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        try:
            self._connection.request(method, path, body, self._headers)
            answer = self._connection.getresponse()
            found = json.loads(answer.read())
        except (http.client.HTTPException, OSError, ValueError) as exc:
            self._connection.close()  # the next question opens a new one
            raise OSError(str(exc)) from exc
        self._connection.timeout = _TIMEOUT_S
        if self._connection.sock is not None:  # else the answer ended the connection
            self._connection.sock.settimeout(_TIMEOUT_S)
        if not isinstance(found, dict):
            raise VilBridgeError(str(found))
        if answer.status != http.client.OK:
            raise VilBridgeError(str(found.get("detail", found)))
        return found


def values_for(
    state: Mapping[str, Any], sticks: Sticks, speed_mps: float, turn_radps: float
) -> dict[str, Any]:
    """Return a command's mode and values.

    Velocities along the vehicle's heading, or a car's speed and steering.

    Raises:
        VilBridgeError: the model has no mode that hands can fly.
    """
    modes: Mapping[str, Any] = state["modes"]
    x, y, z, w = state["q_world_body"]
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    if "velocity" in modes:
        ahead = speed_mps * sticks.forward
        aside = speed_mps * sticks.left
        v_world = [
            ahead * math.cos(yaw) - aside * math.sin(yaw),
            ahead * math.sin(yaw) + aside * math.cos(yaw),
            speed_mps * sticks.up,
        ]
        rate = turn_radps * sticks.turn
        own: dict[str, Any] = {
            "v_world_mps": v_world,
            "yaw_radps": rate,
            "yaw_rate_radps": rate,
            "yaw_by_rate": 1.0,
        }
        return {
            "mode": "velocity",
            "values": {f["name"]: own.get(f["name"], 0.0) for f in modes["velocity"]},
        }
    if "speed" in modes:
        steer = turn_radps * max(-1.0, min(1.0, sticks.turn + sticks.left))
        own = {
            "speed_mps": speed_mps * sticks.forward,
            "yaw_rate_radps": steer,
            "steering_rad": 0.5 * steer,
        }
        return {
            "mode": "speed",
            "values": {f["name"]: own.get(f["name"], 0.0) for f in modes["speed"]},
        }
    raise VilBridgeError(
        f"model {state['model']!r} has neither velocity nor speed commands: hands cannot fly it"
    )


def fly(
    link: HttpVehicleClient,
    gamepad: Gamepad | None,
    *,
    speed_mps: float,
    turn_radps: float,
    screen: TextIO = sys.stdout,
) -> str:
    """Fly until the pilot quits; returns why it ended.

    Raises:
        VilBridgeError: no terminal and no gamepad; the vehicle is not there or cannot be flown so;
            the gamepad is gone.
    """
    if gamepad is None and not sys.stdin.isatty():
        raise VilBridgeError(
            "flying with keys needs a terminal, and standard input is not one. Start "
            "`vil-bridge fly` in a terminal "
            "(`ssh -t`, `docker exec -it`), or fly with --gamepad /dev/input/js0"
        )
    keys = Keys()
    misses = 0
    print(HELP, file=screen)
    with _raw_terminal() as terminal:
        due_s = begun_s = time.monotonic()
        while misses < _MISSES:
            try:
                state = link.state()
                actions = keys.pop_actions()
                if gamepad is not None:
                    actions = actions + gamepad.pop_actions()
                for action in actions:
                    if action == "quit":
                        return "hands off: the vehicle does what on_timeout says"
                    _act(action, state, link, screen)
                sticks = _stronger(keys.sticks, None if gamepad is None else gamepad.sticks)
                link.command(**values_for(state, sticks, speed_mps, turn_radps))
                misses = 0
                _show(state, sticks, screen)
            except OSError:
                misses += 1
            due_s = max(due_s + _PERIOD_S, time.monotonic())
            _read_until(due_s, terminal, keys, gamepad)
            begun_s, before_s = time.monotonic(), begun_s
            keys.fade(begun_s - before_s)
    return "the bridge does not answer"


def _act(action: str, state: Mapping[str, Any], link: HttpVehicleClient, screen: TextIO) -> None:
    if action == "help":
        print(f"\r\n{HELP}", file=screen)
    elif action == "arm" and state["armed"]:
        link.command(action="disarm")
    else:
        link.command(action=action)


def _stronger(keys: Sticks, pad: Sticks | None) -> Sticks:
    """Return the stronger deflection of each axis."""
    if pad is None:
        return keys
    pick: Callable[[str], float] = lambda axis: max(  # noqa: E731
        getattr(keys, axis), getattr(pad, axis), key=abs
    )
    return Sticks(*(pick(axis) for axis in ("forward", "left", "up", "turn")))


def _show(state: Mapping[str, Any], sticks: Sticks, screen: TextIO) -> None:
    x, y, z = state["p_world_m"]
    speed = math.hypot(*state["v_world_mps"])
    armed = "armed" if state["armed"] else "DISARMED (m arms)"
    hands = f"{sticks.forward:+.1f} {sticks.left:+.1f} {sticks.up:+.1f} {sticks.turn:+.1f}"
    line = (
        f"{state['subject']}: {x:+7.2f} {y:+7.2f} {z:+6.2f} m  {speed:4.1f} m/s  {armed}  "
        f"sticks {hands}"
    )
    print(f"\r{line}  hits {state['collisions']}\x1b[K", end="", file=screen, flush=True)


def _read_until(due_s: float, terminal: int | None, keys: Keys, gamepad: Gamepad | None) -> None:
    """Take keys and events until an instant, or what waits where that is past."""
    watched: list[Any] = [fd for fd in (terminal, gamepad) if fd is not None]
    while True:
        ready, _, _ = select.select(watched, (), (), max(0.0, due_s - time.monotonic()))
        for one in ready:
            if one is gamepad and gamepad is not None:
                gamepad.read()
            elif terminal is not None:
                # The end of the terminal is the end of the flight.
                keys.press(os.read(terminal, 256) or b"q")
        if time.monotonic() >= due_s or "quit" in keys.actions:
            return


@contextlib.contextmanager
def _raw_terminal() -> Iterator[int | None]:
    """Read keys at once and without echo; None without a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)

"""Hovers of Betaflight's real program through a running bridge, and what of the computer spoiled
them.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from tests.support import betaflight
from tests.support.common import wait_until
from tests.support.network_namespaces import in_network
from tests.support.sitl import SitlBridge, sitl_bridge
from vil_simulation.sitl.options import SitlOptions

TARGET_M: Final = 1.5
_VEHICLE: Final = "betaflight"
_BOOT_S: Final = 7.5
_CLIMB_S: Final = 8.0
_ATTEMPTS: Final = 5
_FLIES_M: Final = 1.0
_TURN_S: Final = 0.03
"""Between two commands of the pilot: the daemon shares two cores with the program."""
_LATE_SHARE: Final = 0.02
_LONGEST_TURN_S: Final = 0.2
"""The pilot's loop of climb has a bandwidth of 4.6 rad/s.

It swings with commands that come later.
"""
_WAIT_SHARE: Final = 0.15
"""Of the time; flights that hold their height have 0.10 to 0.12, at any load."""
_ETHERTYPE_IP: Final = 0x0800
_OUTGOING: Final = 4
_UDP: Final = 17
_STAMP: Final = struct.Struct("qq")
_SO_TIMESTAMPNS: Final = 35
_WINDOW: Final = 10_000
"""States over which the least delay counts as none: the clocks of stamps and states drift apart."""


class Hover(NamedTuple):
    """One flight at the height of :data:`TARGET_M`.

    Attributes:
        heights_m: at each turn of the pilot. late_share: of the steps. longest_turn_s: of the
            pilot. wait_share: of the time in which the program waited for a core.
    """

    heights_m: list[float]
    late_share: float
    longest_turn_s: float
    wait_share: float

    @property
    def deviation_m(self) -> float:
        """Standard deviation of the height."""
        return statistics.pstdev(self.heights_m)

    def problem(self, deviation_m: float) -> str:
        """Return in what way it did not hold the height, with at most this deviation.

        Empty = it did.
        """
        mean_m = statistics.mean(self.heights_m)
        if abs(mean_m - TARGET_M) < 0.1 and self.deviation_m < deviation_m:
            return ""
        return f"height {mean_m:.3f} m with a deviation of {self.deviation_m:.3f} m"

    def excuse(self) -> str:
        """Return why the computer could not fly it in real time; empty = it could."""
        parts = []
        if self.late_share > _LATE_SHARE:
            parts.append(f"{self.late_share:.1%} of the steps were late")
        if self.longest_turn_s > _LONGEST_TURN_S:
            parts.append(
                f"a command of the pilot came {self.longest_turn_s:.2f} s after the one before"
            )
        if self.wait_share > _WAIT_SHARE:
            parts.append(f"Betaflight waited for a core in {self.wait_share:.1%} of the time")
        return ", ".join(parts)


class Pilot:
    """Remote control of one vehicle over REST, thirty times a second at most.

    Args:
        bridge: flies it. folder: in which the program runs.

    Attributes:
        folder: as given.
    """

    def __init__(self, bridge: SitlBridge, folder: Path) -> None:
        self._bridge, self.folder = bridge, folder
        self._program = next(process_in(folder))
        self._integral = 0.0
        self._turned_s = time.monotonic()

    @property
    def link(self) -> str:
        """State of the link, in words."""
        return self._bridge.link(_VEHICLE)

    def hover(self, seconds: float) -> Hover:
        """Boot, arm, climb, and hold the height so long.

        A program whose clock was late refuses to arm at first. One whose clock stands for good, as
        after some of its starts, is ended, and the bridge starts it again.
        """
        for _ in range(_ATTEMPTS):
            if self.link != f"{_VEHICLE} running":
                self._start_again()
            before, waited_s, begun_s = (
                self._bridge.counted(),
                _waited_s(self._program),
                time.monotonic(),
            )
            self._integral = 0.0
            self._hold(_BOOT_S, armed=False)
            self._hold(1.0, armed=True)
            if self._climb(_CLIMB_S)[0][-1] > _FLIES_M:
                break
        heights_m, longest_turn_s = self._climb(seconds)
        after, took_s = self._bridge.counted(), time.monotonic() - begun_s
        late, steps = (after[name] - before[name] for name in ("late", "steps"))
        return Hover(
            heights_m, late / steps, longest_turn_s, (_waited_s(self._program) - waited_s) / took_s
        )

    def _start_again(self) -> None:
        ended = self._program
        os.kill(ended, signal.SIGKILL)
        wait_until(lambda: [found for found in process_in(self.folder) if found != ended])
        self._program = next(process_in(self.folder))
        wait_until(lambda: self.link == f"{_VEHICLE} running")

    def _hold(self, seconds: float, *, armed: bool) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._send(1000, armed=armed)

    def _climb(self, seconds: float) -> tuple[list[float], float]:
        """Return heights and the longest time between two commands."""
        until_s, heights_m, longest_s = time.monotonic() + seconds, [], 0.0
        while time.monotonic() < until_s:
            state = self._bridge.web.get(f"/api/v1/vehicles/{_VEHICLE}").raise_for_status().json()
            height_m, climb_mps = state["p_world_m"][2], state["v_world_mps"][2]
            heights_m.append(float(height_m))
            wanted_mps = max(-0.5, min(0.7, TARGET_M - height_m))
            now_s = time.monotonic()
            turn_s, self._turned_s = now_s - self._turned_s, now_s
            longest_s = max(longest_s, turn_s)
            change = 40.0 * (wanted_mps - climb_mps) * min(turn_s, 0.1)
            self._integral = max(-100.0, min(100.0, self._integral + change))
            throttle = 1515.0 + 120.0 * (wanted_mps - climb_mps) + self._integral
            self._send(round(max(1050.0, min(1800.0, throttle))), armed=True)
        return heights_m, longest_s

    def _send(self, throttle_us: int, *, armed: bool) -> None:
        sticks = {"roll_us": 1500, "pitch_us": 1500, "throttle_us": throttle_us, "yaw_us": 1500}
        values = sticks | {"switches_us": [1900 if armed else 1000, 1900, 1000, 1000]}
        command = {"mode": "rc", "values": values}
        self._bridge.web.post(
            f"/api/v1/vehicles/{_VEHICLE}/command", json=command
        ).raise_for_status()
        time.sleep(_TURN_S)


@contextmanager
def preferred() -> Iterator[None]:
    """Let this thread and the bridge that it starts have a core before all others, where that is
    permitted.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def _first() -> list[str]:
    """Return what starts a program that has a core before all others, where that is permitted."""
    words = ["chrt", "--rr", "1"]
    with suppress(FileNotFoundError):
        if not subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            return words
    return []


@contextmanager
def flown(folder: Path) -> Iterator[Pilot]:
    """Run a bridge that starts a configured program, before other processes; yields its pilot."""
    own = folder / "autopilots" / _VEHICLE
    own.mkdir(parents=True)
    betaflight.prepare(own)
    command = [*_first(), str(betaflight.program())]
    options = SitlOptions(program="betaflight")
    with preferred(), sitl_bridge(folder, options, command=command, namespace=True) as bridge:
        yield Pilot(bridge, own)


def process_in(folder: Path) -> Iterator[int]:
    """Yield the processes whose working directory is a folder."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                yield int(process.name)
        except OSError:
            continue


def _waited_s(process: int) -> float:
    """Return for how long the threads of a process were ready and had no core, so far."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


class StateWatch:
    """Thread that stamps the states that the program of a folder gets.

    The end of the block ends it. Needs root.
    """

    def __init__(self, folder: Path) -> None:
        def make() -> socket.socket:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE_IP))
            opened.bind(("lo", _ETHERTYPE_IP))
            opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            opened.settimeout(0.2)
            return opened

        self._socket = in_network(Path(f"/proc/{next(process_in(folder))}/ns/net"), make)
        self._states: deque[tuple[float, float]] = deque()
        self._thread = threading.Thread(target=self._run)
        self._ends = False

    def __enter__(self) -> StateWatch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends = True
        self._thread.join()
        self._socket.close()

    def figures(self, seconds: float) -> dict[str, float]:
        """Return how late states came, 95th percentile, and the largest gap between two, both in
        ms; their number.

        Those of the end count: before the flight a state waits 20 ms for an answer.
        """
        states = np.array(self._states)
        arrived_s, sent_s = states[states[:, 0] > states[-1, 0] - seconds].T
        delay_s = arrived_s - sent_s
        parts = [delay_s[i : i + _WINDOW] for i in range(0, len(delay_s), _WINDOW)]
        late_s = np.concatenate([part - part.min() for part in parts])
        return {
            "late_ms_p95": 1e3 * float(np.percentile(late_s, 95)),
            "largest_gap_ms": 1e3 * float(np.diff(arrived_s).max()),
            "states": float(len(late_s)),
        }

    def _run(self) -> None:
        while not self._ends:
            try:
                data, (stamp, *_), _, address = self._socket.recvmsg(2048, 64)
            except TimeoutError:
                continue
            head = 4 * (data[0] & 15)
            state = data[head + 8 :]
            port = int.from_bytes(data[head + 2 : head + 4], "big")
            mine = (
                data[9] == _UDP
                and port == betaflight.STATE_PORT
                and len(state) == betaflight.STATE.size
            )
            if mine and address[2] != _OUTGOING:
                seconds, nanoseconds = _STAMP.unpack(stamp[2])
                self._states.append(
                    (seconds + 1e-9 * nanoseconds, betaflight.STATE.unpack(state)[0])
                )

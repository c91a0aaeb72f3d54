"""A day of each source.

Played once per name and day, all sources at the same time, and looked at by many tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import math
import pkgutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support import source_rigs
from tests.support.common import PATIENCE_S
from tests.support.events import Received, receiving
from tests.support.motions import DANCER, Dance
from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.faults import Episode, Faults
from vil_bridge.runtime.supervisor import ComponentState

CHOSEN = source_rigs.chosen()
OURS = sorted(module.name for module in pkgutil.iter_modules(source_rigs.__path__))
NAMES = OURS if CHOSEN is None else [CHOSEN.name]
OUTCOMES = (Exception, pytest.skip.Exception)
TURN_NS = math.pi * NS_PER_S  # the dance turns by 2 rad/s


def load(name: str) -> SourceRig:
    if CHOSEN is not None:
        return CHOSEN
    rig = importlib.import_module(f"tests.support.source_rigs.{name}").RIG
    assert isinstance(rig, SourceRig)
    return rig


class Standstills:
    """Times beyond 30 ms in which this process stood still, between two turns of a loop that
    sleeps for 10 ms.
    """

    def __init__(self) -> None:
        self._pieces_ns: list[tuple[int, int]] = []
        self._last_ns = now_ns()

    def turn(self) -> None:
        """Note the time since the last turn."""
        since_ns, self._last_ns = self._last_ns + 30 * NS_PER_MS, now_ns()
        if self._last_ns > since_ns:
            self._pieces_ns.append((since_ns, self._last_ns))

    def within_ns(self, begin_ns: int, end_ns: int) -> int:
        """Return how long it stood still between two times."""
        return sum(max(0, min(b, end_ns) - max(a, begin_ns)) for a, b in self._pieces_ns)


@dataclass
class Play:
    """What a source made of one day.

    Attributes:
        ran_s: how long the day took while this process ran; None = it did not come to its end.
        ended_s: how long the source took to end when it was cancelled.
        stood: when this process stood still on the way.
    """

    rig: SourceRig
    motion: Dance
    epoch_ns: int
    started_ns: int
    received: Received
    counters: Counter[str]
    ran_s: float | None
    ended_s: float
    stood: Standstills

    def __str__(self) -> str:
        status = self.received.status
        return (
            f"{self.rig.name}: {len(self.received.frames)} frames, {status.state} "
            f"{status.report().reason!r}, "
            f"counters {dict(status.counters)}, emulator {dict(self.counters)}"
        )

    def motion_ns(self, frame: SourceFrame) -> int | None:
        """Time of the motion at which this was so, from the place of a tracked subject on its
        circle.
        """
        for index, name in enumerate(self.motion.subjects):
            if name in frame.subjects and frame.tracked[frame.subjects.index(name)]:
                x, y, _ = frame.p_m[frame.subjects.index(name)]
                return self._unwrapped(math.atan2(y, x) - index, frame)
        for skeleton in frame.skeletons:
            if skeleton.tracked[0]:
                return self._unwrapped(
                    math.atan2(skeleton.p_m[0, 1], skeleton.p_m[0, 0] - 2.0), frame
                )
        return None

    def _unwrapped(self, angle: float, frame: SourceFrame) -> int:
        """The newest time with this angle that is not after the arrival."""
        t_ns = angle / 2.0 * NS_PER_S
        turns = math.floor((frame.t_arrival_ns - self.epoch_ns - t_ns) / TURN_NS)
        return round(t_ns + turns * TURN_NS)


@dataclass(frozen=True)
class Day:
    """A kind of day, how long it may take a process that runs, and how to know that enough of it
    was seen.
    """

    faults: str
    limit_s: float
    enough: Callable[[Received, Emulator, Standstills], object]


def after(seconds: float, more: int = 10) -> Callable[[Received, Emulator, Standstills], bool]:
    """So many frames have arrived later than so many seconds after the start."""

    def enough(received: Received, emulator: Emulator, _: Standstills) -> bool:
        since_ns = emulator.server.started_ns + round(seconds * NS_PER_S)
        return len(received.frames) >= more and received.frames[-more].t_arrival_ns > since_ns

    return enough


def restarted(by_s: float) -> Callable[[Received, Emulator, Standstills], bool]:
    """The server has restarted, and ten frames have come since that was due."""

    def enough(received: Received, emulator: Emulator, stood: Standstills) -> bool:
        return emulator.counters["restarts"] > 0 and after(by_s)(received, emulator, stood)

    return enough


# Repeats until enough frames come in it: they are few on a busy machine.
OCCLUDED = Episode(duration_ns=1_200_000_000, start_ns=600_000_000, period_ns=1_800_000_000)
FOUND_OUT_NS = 250_000_000  # by when a source finds out a loss that its wire does not tell
BACK_NS = 150_000_000  # by when a subject is tracked again
DOWN_S = (0.7, 2.2)  # longer than a busy machine stands still
SILENT_S = 0.7


def since_occlusion_ns(elapsed_ns: int) -> int | None:
    """Time since the newest occlusion began; None before the first."""
    since_ns = elapsed_ns - OCCLUDED.start_ns
    return since_ns % OCCLUDED.period_ns if since_ns >= 0 else None


def stood_around_ns(stood: Standstills, started_ns: int, elapsed_ns: int) -> int:
    """Return how long the process stood still since the subjects were seen before the newest
    occlusion.
    """
    since_ns = since_occlusion_ns(elapsed_ns) or 0
    before_ns = OCCLUDED.period_ns - OCCLUDED.duration_ns
    return stood.within_ns(started_ns + elapsed_ns - since_ns - before_ns, started_ns + elapsed_ns)


def occluded_often(received: Received, emulator: Emulator, stood: Standstills) -> bool:
    """Ten frames have arrived in occlusions, when these were found out, and ten after them."""
    started_ns, hidden, back = emulator.server.started_ns, 0, 0
    for frame in received.frames:
        elapsed_ns = frame.t_arrival_ns - started_ns
        since_ns = since_occlusion_ns(elapsed_ns)
        if since_ns is not None:
            found_out_ns = FOUND_OUT_NS + stood_around_ns(stood, started_ns, elapsed_ns)
            hidden += found_out_ns < since_ns < OCCLUDED.duration_ns
            back += since_ns > OCCLUDED.duration_ns + BACK_NS
    return hidden >= 10 and back >= 10


DAYS = {
    "calm": Day("", 8.0, after(1.5, 40)),
    "occlusion": Day(
        "occlude=drone:1200ms@600ms/1800ms,occlude=Actor:1200ms@600ms/1800ms",
        20.0,
        occluded_often,
    ),
    "restart": Day(
        f"restart={DOWN_S[1] - DOWN_S[0]:.1f}s@{DOWN_S[0]}s", 12.0, restarted(DOWN_S[1])
    ),
    "short restart": Day("restart=0.4s@0.7s", 12.0, restarted(1.1)),
    "half-open": Day(
        f"halfopen=1min@{SILENT_S}s",
        12.0,
        lambda received, _, __: received.status.state is ComponentState.WAITING,
    ),
    "garbage": Day(
        "garbage=20%,seed=5",
        20.0,
        lambda received, emulator, _: (
            emulator.counters["garbage"] >= 15 and received.status.counters["malformed"] >= 2
        ),
    ),
}


async def play(name: str, day: Day) -> Play:
    rig = load(name)
    motion = Dance(skeleton_models=(DANCER,) if rig.skeletons else ())
    epoch_ns = now_ns()
    ran_s: float | None = None
    async with rig.emulator(motion, epoch_ns, Faults.parse(day.faults)) as emulator:
        async with receiving(rig.source(emulator)) as received:
            stood = Standstills()

            def met() -> object:
                stood.turn()
                return day.enough(received, emulator, stood)

            with contextlib.suppress(TimeoutError):
                ran_s = await received.until(met, PATIENCE_S)
            told = len(received.events)
            cancelled_ns = now_ns()
        ended_s = (now_ns() - cancelled_ns) / NS_PER_S
        del received.events[told:]  # what a source says while it ends concerns nobody
        began_ns, counters = emulator.server.started_ns, emulator.counters.copy()
        return Play(rig, motion, epoch_ns, began_ns, received, counters, ran_s, ended_s, stood)


@functools.cache
def plays(day: str) -> dict[str, Play | BaseException]:
    """The day, played by all rigs at once."""

    async def all_of_them() -> list[Play | BaseException]:
        return await asyncio.gather(*(caught(name) for name in NAMES))

    async def caught(name: str) -> Play | BaseException:
        try:
            return await play(name, DAYS[day])
        except OUTCOMES as exc:
            return exc

    return dict(zip(NAMES, asyncio.run(all_of_them()), strict=True))


def played(name: str, day: str) -> Play:
    found = plays(day)[name]
    if isinstance(found, BaseException):
        raise found
    assert found.ran_s is not None, f"the {day} day did not come to its end: {found}"
    assert found.ran_s < DAYS[day].limit_s, f"the {day} day took {found.ran_s:.1f} s: {found}"
    return found

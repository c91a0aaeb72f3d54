"""A day of each source: played once per name and day, all sources at the same time, and looked at by many tests."""

from __future__ import annotations

import asyncio
import functools
import importlib
import math
import pkgutil
import sys
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
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.faults import Episode, Faults
from vil_bridge.core.supervisor import ComponentState
from vil_bridge.core.types import SourceFrame

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
    """Times beyond a tenth of a second in which this process stood still, between two turns of a loop."""

    def __init__(self) -> None:
        self._pieces_ns: list[tuple[int, int]] = []
        self._last_ns = now_ns()

    def turn(self) -> None:
        """Note the time since the last turn."""
        since_ns, self._last_ns = self._last_ns + NS_PER_S // 10, now_ns()
        if self._last_ns > since_ns:
            self._pieces_ns.append((since_ns, self._last_ns))

    def within_ns(self, begin_ns: int = 0, end_ns: int = sys.maxsize) -> int:
        """Return how long it stood still between two times."""
        return sum(max(0, min(b, end_ns) - max(a, begin_ns)) for a, b in self._pieces_ns)

    @property
    def seconds(self) -> float:
        """Return how long it stood still in all."""
        return self.within_ns() / NS_PER_S


@dataclass
class Play:
    """What a source made of one day.

    Attributes:
        enough: the day came to its end in time.
        ended_s: how long the source took to end when it was cancelled.
        stood: when this process stood still on the way.
    """

    rig: SourceRig
    motion: Dance
    epoch_ns: int
    started_ns: int
    received: Received
    counters: Counter[str]
    enough: bool
    ended_s: float
    stood: Standstills

    def __str__(self) -> str:
        status = self.received.status
        return (
            f"{self.rig.name}: {len(self.received.frames)} frames, {status.state} {status.report().reason!r}, "
            f"counters {dict(status.counters)}, emulator {dict(self.counters)}"
        )

    def motion_ns(self, frame: SourceFrame) -> int | None:
        """Time of the motion at which this was so, from the place of a tracked subject on its circle."""
        for index, name in enumerate(self.motion.subjects):
            if name in frame.subjects and frame.tracked[frame.subjects.index(name)]:
                x, y, _ = frame.p_m[frame.subjects.index(name)]
                return self._unwrapped(math.atan2(y, x) - index, frame)
        for skeleton in frame.skeletons:
            if skeleton.tracked[0]:
                return self._unwrapped(math.atan2(skeleton.p_m[0, 1], skeleton.p_m[0, 0] - 2.0), frame)
        return None

    def _unwrapped(self, angle: float, frame: SourceFrame) -> int:
        """The newest time with this angle that is not after the arrival."""
        t_ns = angle / 2.0 * NS_PER_S
        turns = math.floor((frame.t_arrival_ns - self.epoch_ns - t_ns) / TURN_NS)
        return round(t_ns + turns * TURN_NS)


@dataclass(frozen=True)
class Day:
    """A kind of day, and how to know that enough of it was seen."""

    faults: str
    enough: Callable[[Received, Emulator, Standstills], object]


def after(seconds: float, more: int = 10) -> Callable[[Received, Emulator, Standstills], bool]:
    """So many frames have arrived later than so many seconds after the start."""

    def enough(received: Received, emulator: Emulator, _: Standstills) -> bool:
        since_ns = emulator.server.started_ns + round(seconds * NS_PER_S)
        return len(received.frames) >= more and received.frames[-more].t_arrival_ns > since_ns

    return enough


def restarted(received: Received, emulator: Emulator, stood: Standstills) -> bool:
    """The server has restarted, and ten frames have come since that was due."""
    return emulator.counters["restarts"] > 0 and after(DOWN_S[1])(received, emulator, stood)


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


def found_out_by_ns(stood: Standstills, started_ns: int, elapsed_ns: int) -> int:
    """By when in the newest occlusion a source has found it out, where its wire does not tell it.

    What stood still in the period of that occlusion, which begins before it, counts in addition.
    """
    since_ns = since_occlusion_ns(elapsed_ns) or 0
    begin_ns = started_ns + elapsed_ns - since_ns - (OCCLUDED.period_ns - OCCLUDED.duration_ns)
    return FOUND_OUT_NS + stood.within_ns(begin_ns, begin_ns + OCCLUDED.period_ns)


def occluded_often(received: Received, emulator: Emulator, stood: Standstills) -> bool:
    """Ten frames have arrived in occlusions, when these were found out, and ten after them."""
    started_ns, hidden, back = emulator.server.started_ns, 0, 0
    for frame in received.frames:
        elapsed_ns = frame.t_arrival_ns - started_ns
        since_ns = since_occlusion_ns(elapsed_ns)
        if since_ns is not None:
            hidden += found_out_by_ns(stood, started_ns, elapsed_ns) < since_ns < OCCLUDED.duration_ns
            back += since_ns > OCCLUDED.duration_ns + BACK_NS
    return hidden >= 10 and back >= 10


DAYS = {
    "calm": Day("", after(1.5, 40)),
    "occlusion": Day(
        "occlude=drone:1200ms@600ms/1800ms,occlude=Actor:1200ms@600ms/1800ms",
        occluded_often,
    ),
    "restart": Day(f"restart={DOWN_S[1] - DOWN_S[0]:.1f}s@{DOWN_S[0]}s", restarted),
    "half-open": Day(
        f"halfopen=1min@{SILENT_S}s", lambda received, _, __: received.status.state is ComponentState.WAITING
    ),
    "garbage": Day(
        "garbage=20%,seed=5",
        lambda received, emulator, _: emulator.counters["garbage"] >= 15 and received.status.counters["malformed"] >= 2,
    ),
}


async def play(name: str, day: Day) -> Play:
    rig = load(name)
    motion = Dance(skeleton_models=(DANCER,) if rig.skeletons else ())
    epoch_ns = now_ns()
    enough = True
    async with rig.emulator(motion, epoch_ns, Faults.parse(day.faults)) as emulator:
        async with receiving(rig.source(emulator)) as received:
            stood = Standstills()

            def met() -> object:
                stood.turn()
                return day.enough(received, emulator, stood)

            try:
                await received.until(met, PATIENCE_S)
            except TimeoutError:
                enough = False
            told = len(received.events)
            cancelled_ns = now_ns()
        ended_s = (now_ns() - cancelled_ns) / NS_PER_S
        del received.events[told:]  # what a source says while it ends concerns nobody
        began_ns, counters = emulator.server.started_ns, emulator.counters.copy()
        return Play(rig, motion, epoch_ns, began_ns, received, counters, enough, ended_s, stood)


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
    assert found.enough, f"the {day} day did not come to its end: {found}"
    return found

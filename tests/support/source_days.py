"""A day of each source: played once per name and day, all sources at the same time, and looked at by many tests."""

from __future__ import annotations

import asyncio
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


@dataclass
class Play:
    """What a source made of one day.

    Attributes:
        enough: the day came to its end in time.
        ended_s: how long the source took to end when it was cancelled.
        stood_s: how long this process stood still on the way, in pieces beyond a tenth of a second.
    """

    rig: SourceRig
    motion: Dance
    epoch_ns: int
    started_ns: int
    received: Received
    counters: Counter[str]
    enough: bool
    ended_s: float
    stood_s: float

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
    enough: Callable[[Received, Emulator], object]


def after(seconds: float, more: int = 10) -> Callable[[Received, Emulator], bool]:
    """So many frames have arrived later than so many seconds after the start."""

    def enough(received: Received, emulator: Emulator) -> bool:
        since_ns = emulator.server.started_ns + round(seconds * NS_PER_S)
        return len(received.frames) >= more and received.frames[-more].t_arrival_ns > since_ns

    return enough


def restarted(received: Received, emulator: Emulator) -> bool:
    """The server has restarted, and ten frames have come since that was due."""
    return emulator.counters["restarts"] > 0 and after(DOWN_S[1])(received, emulator)


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


def occluded_often(received: Received, emulator: Emulator) -> bool:
    """Ten frames have arrived in occlusions, when these were found out, and ten after them."""
    arrived_ns = (frame.t_arrival_ns - emulator.server.started_ns for frame in received.frames)
    since_ns = [ns for ns in map(since_occlusion_ns, arrived_ns) if ns is not None]
    hidden = sum(FOUND_OUT_NS < ns < OCCLUDED.duration_ns for ns in since_ns)
    return hidden >= 10 and sum(ns > OCCLUDED.duration_ns + BACK_NS for ns in since_ns) >= 10


DAYS = {
    "calm": Day("", after(1.5, 40)),
    "occlusion": Day(
        "occlude=drone:1200ms@600ms/1800ms,occlude=Actor:1200ms@600ms/1800ms",
        occluded_often,
    ),
    "restart": Day(f"restart={DOWN_S[1] - DOWN_S[0]:.1f}s@{DOWN_S[0]}s", restarted),
    "half-open": Day(f"halfopen=1min@{SILENT_S}s", lambda received, _: received.status.state is ComponentState.WAITING),
    "garbage": Day(
        "garbage=20%,seed=5",
        lambda received, emulator: emulator.counters["garbage"] >= 15 and received.status.counters["malformed"] >= 2,
    ),
}


async def play(name: str, day: Day) -> Play:
    rig = load(name)
    motion = Dance(skeleton_models=(DANCER,) if rig.skeletons else ())
    epoch_ns = now_ns()
    enough = True
    async with rig.emulator(motion, epoch_ns, Faults.parse(day.faults)) as emulator:
        async with receiving(rig.source(emulator)) as received:
            begun_ns, ran_s = now_ns(), math.inf
            try:
                ran_s = await received.until(lambda: day.enough(received, emulator), PATIENCE_S)
            except TimeoutError:
                enough = False
            stood_s = max(0.0, (now_ns() - begun_ns) / NS_PER_S - ran_s)
            told = len(received.events)
            cancelled_ns = now_ns()
        ended_s = (now_ns() - cancelled_ns) / NS_PER_S
        del received.events[told:]  # what a source says while it ends concerns nobody
        began_ns, counters = emulator.server.started_ns, emulator.counters.copy()
        return Play(rig, motion, epoch_ns, began_ns, received, counters, enough, ended_s, stood_s)


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

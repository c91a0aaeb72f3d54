"""A bad day: all faults at random on every emulated mocap system, into one whole bridge.

``python -m tests.soak.bad_day --seconds 1800`` runs days of a quarter of a minute, one after the
other, each with its own faults, whose seed is printed; ``--seed`` plays them again. After each day
the counts of what the bridge received are held against what the emulators did; at the end all must
be well again. Exit code 0 = a bad day and nothing more; 1 = something is broken, said on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import random
import socket
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import bridge_rig
from tests.support.motions import Dance
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.lab.servers import ServerSpec
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame, SourceReset, TrackingState
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import Emit, PoseSource, SourceContext
from vil_bridge.runtime.supervisor import Status
from vil_simulation.demo.child_processes import free_ports

RATE_HZ = 100.0
CALM_S = 16.0
APART_M = 10.0  # between the rooms, so that nobody is warned of collisions
SNAPSHOT_S = 1.0 / 60.0
STREAMS = {"tracker", "vrpn", "qtm"}
INJECTED = "loss=2%,duplicate=1%,reorder=1%,garbage=1%,jitter=1ms,occlude=drone:200ms@1s/3s,seed=1"
GROWTH_MB = 40.0
GROWTH_OBJECTS = 20_000

# Kind of server to the source's section; QTM's client is an extra.
SOURCES: dict[str, Callable[[ServerSpec], dict[str, Any]]] = {
    "motive": lambda s: {"type": "optitrack", "command_port": s.port, "faults": INJECTED},
    "tracker": lambda s: {"type": "vicon", "port": s.port},
    "vrpn": lambda s: {"type": "vrpn", "port": s.port},
    **({"qtm": lambda s: {"type": "qualisys", "port": s.port}} if find_spec("qtm_rt") else {}),
}
HUMANS = {"motive", "tracker", "qtm"}


# --- the bridge -----------------------------------------------------------------------------------


def servers() -> list[ServerSpec]:
    """One of each kind on ports that are free now."""
    udp, tcp = free_ports(2, socket.SOCK_DGRAM), free_ports(len(SOURCES), socket.SOCK_STREAM)
    return [
        ServerSpec(kind, port=udp[0] if kind == "motive" else tcp[i], second_port=udp[1])
        for i, kind in enumerate(SOURCES)
    ]


def configuration(specs: Iterable[ServerSpec]) -> dict[str, Any]:
    """A bridge with a room, a source, two bodies and maybe a human for each server."""
    found: dict[str, Any] = {"version": 1, "rooms": {}, "sources": {}, "actors": {}}
    for number, spec in enumerate(specs):
        kind = spec.kind
        found["rooms"][kind] = {"T_world_room": {"p_m": [APART_M * number, 0.0, 0.0]}}
        found["sources"][kind] = {"room": kind, **SOURCES[kind](spec)}
        for subject in ("drone", "gate"):
            found["actors"][f"{kind}-{subject}"] = {
                "kind": "vehicle",
                "source": kind,
                "subject": subject,
            }
        if kind in HUMANS:
            found["actors"][f"{kind}-human"] = {"kind": "human", "source": kind, "subject": "Actor"}
    return found | {
        "stream": {"bind": "tcp://127.0.0.1:0"},
        "http": {"port": 0},
        "realtime": {"fifo_priority": 0},
    }


def build(specs: Iterable[ServerSpec]) -> Bridge:
    bridge = bridge_rig.build(json.dumps(configuration(specs)))  # YAML holds JSON
    for line in bridge.context.sources.values():
        line.source = Tapped(line.source)
    return bridge


class Tapped:
    """A source that counts what it emits."""

    def __init__(self, source: PoseSource) -> None:
        self.name = source.name
        self.counters: Counter[str] = Counter()
        self._source = source

    async def run(self, emit: Emit, status: Status, context: SourceContext) -> None:
        def tap(event: SourceEvent) -> None:
            match event:
                case SourceFrame():
                    self.counters["frames"] += 1
                    self.counters["blank"] += not event.tracked.any()
                case SourceReset():
                    self.counters["resets"] += 1
                case ImuSample():
                    raise AssertionError("nobody sends inertial samples here")
            self.counters["events"] += not isinstance(event, SourceReset)
            emit(event)

        await self._source.run(tap, status, context)


# --- faults ---------------------------------------------------------------------------------------


def random_faults(rng: random.Random, seconds: float, *, garbage: bool) -> str:
    """A few of everything that can go wrong within so many seconds."""

    def share(highest: float) -> str:
        return f"{100.0 * rng.uniform(0.0, highest):.2f}%"

    def episode(shortest_s: float, longest_s: float) -> str:
        length_s = min(rng.uniform(shortest_s, longest_s), 0.6 * seconds)
        return f"{1e3 * length_s:.0f}ms@{1e3 * rng.uniform(0.0, seconds - length_s):.0f}ms"

    possible = [
        f"loss={share(0.1)}",
        f"duplicate={share(0.05)}",
        f"reorder={share(0.05)}",
        f"delay={rng.uniform(1.0, 30.0):.1f}ms±{rng.uniform(0.0, 5.0):.1f}",
        f"jitter={rng.uniform(0.1, 4.0):.1f}ms",
        f"drift={rng.uniform(-100.0, 100.0):.0f}ppm",
        f"step={rng.uniform(-200.0, 200.0):.0f}ms@{rng.uniform(0.0, seconds):.1f}s",
        f"halfopen={episode(0.2, 5.0)}",
        f"burst={episode(0.05, 0.4)}/{seconds:.0f}s",
        f"restart={episode(0.1, 2.0)}",
        f"occlude=drone:{episode(0.05, 2.0)}",
        f"occlude=Actor:{episode(0.05, 2.0)}",
        f"flip=gate:{episode(0.01, 0.5)}",
        f"swap=drone+gate:{episode(0.01, 0.5)}",
    ]
    chosen = [fault for fault in possible if rng.random() < 0.6]
    if garbage:
        chosen.append(f"garbage={share(0.1)}")
    return ",".join([*chosen, f"seed={rng.randrange(10**6)}"])


# --- a day ----------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What an emulator did and what its source made of it on one day."""

    kind: str
    faults: str
    emulator: Counter[str]
    source: Counter[str]
    tap: Counter[str]
    problems: list[str] = field(default_factory=list)

    @property
    def frames(self) -> int:
        """Emitted frames that the server sent.

        VRPN says nothing of lost bodies, but its source does.
        """
        return self.tap["frames"] - (self.tap["blank"] if self.kind == "vrpn" else 0)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.problems.append(what)

    def judge(self) -> list[str]:
        """What does not add up."""
        e, s, frames = self.emulator, self.source, self.frames
        fates = e["lost"] + e["silenced"] + e["delivered"] + e["undelivered"] + e["overflow"]
        self.expect(
            e["offered"] + e["duplicated"] + e["garbage"] == fates,
            "the emulator lost track of its messages",
        )
        self.expect(
            frames + s["superseded"] <= e["delivered"], "more frames came than were delivered"
        )
        # A broken piece of a stream also spoils what follows it.
        broken = (2 if self.kind in STREAMS else 1) * e["garbage"]
        self.expect(s["malformed"] <= broken, "more was malformed than sent so")
        self.expect(s["foreign"] == 0, "nobody else sent anything")
        if not e["garbage"]:
            self.judge_numbers()
        injected = {
            name.removeprefix("injected_"): n
            for name, n in s.items()
            if name.startswith("injected_")
        }
        if injected:
            self.judge_injected(Counter(injected))
        return self.problems

    def judge_numbers(self) -> None:
        """Without garbage, which can say any number, every frame filmed is received or lost at
        most once.
        """
        e, s, frames = self.emulator, self.source, self.frames
        seen = frames + s["superseded"] + s["stale"] + s["undescribed"]
        skipped = 0
        # Its number is its clock: a step forward passes numbers that nobody filmed.
        if self.kind == "tracker":
            steps_ns = [size_ns for size_ns, _ in Faults.parse(self.faults).steps]
            skipped = sum(round(1e-9 * size_ns * RATE_HZ) for size_ns in steps_ns if size_ns > 0)
        self.expect(
            seen + s["lost"] <= e["frames"] + e["missed_ticks"] + skipped,
            "more numbers than frames",
        )
        bodies = 2 if self.kind == "vrpn" else 1  # which sends, and counts, them one by one
        # Another life may begin with the number that the last one ended with.
        chances = s["resets"] + s["disconnects"]
        # Its number is its clock: a step back may end at the number that came last.
        if self.kind == "tracker":
            chances += sum(size_ns < 0 for size_ns, _ in Faults.parse(self.faults).steps)
        self.expect(
            s["duplicates"] <= bodies * e["duplicated"] + chances, "more duplicates than sent"
        )
        if self.kind == "motive":  # its datagrams have numbers of their own: to the last one
            came = seen + s["duplicates"] + s["reordered"] + s["out_of_sequence"]
            self.expect(
                abs(e["sent_frames"] - came) <= 2,
                f"{e['sent_frames']} datagrams sent, {came} accounted for",
            )

    def judge_injected(self, i: Counter[str]) -> None:
        events = i["offered"] + i["duplicated"] + i["garbage"]
        fates = i["lost"] + i["silenced"] + i["delivered"] + i["undelivered"] + i["overflow"]
        # A few are on their way when a day begins or ends.
        self.expect(
            abs(events - fates) <= 5, f"the injected faults lost track: {events} in, {fates} out"
        )
        self.expect(
            i["offered"] == self.tap["events"],
            "the injected faults saw other events than were emitted",
        )

    def __str__(self) -> str:
        return (
            f"  {self.kind}: {self.faults}\n    emulator {dict(+self.emulator)}\n    "
            f"source   {dict(+self.source)}\n"
            f"    emitted  {dict(+self.tap)}"
        )


def opened(spec: ServerSpec, faults: str, epoch_ns: int) -> Emulator:
    """The emulator of a server on its ports."""
    emulator = replace(spec, faults=Faults.parse(faults)).open(Dance(), RATE_HZ, epoch_ns)
    assert isinstance(emulator, Emulator)
    return emulator


async def day(
    bridge: Bridge, specs: list[ServerSpec], faults: dict[str, str], seconds: float
) -> list[Ledger]:
    """Run emulators with these faults for so long."""
    before = {
        n: (Counter(line.status.counters), Counter(tapped(bridge, n).counters))
        for n, line in bridge.context.sources.items()
    }
    epoch_ns = now_ns()
    emulators = {spec.kind: opened(spec, faults[spec.kind], epoch_ns) for spec in specs}
    async with contextlib.AsyncExitStack() as stack:
        for emulator in emulators.values():
            await stack.enter_async_context(emulator)
        await watched(bridge, seconds)
    await asyncio.sleep(0.1)  # what the kernel holds is read
    ledgers = []
    for kind, emulator in emulators.items():
        source, tap = before[kind]
        status = Counter(bridge.context.sources[kind].status.counters)
        status.subtract(source)
        emitted = Counter(tapped(bridge, kind).counters)
        emitted.subtract(tap)
        ledgers.append(Ledger(kind, faults[kind], emulator.counters.copy(), status, emitted))
    return ledgers


def tapped(bridge: Bridge, name: str) -> Tapped:
    source = bridge.context.sources[name].source
    assert isinstance(source, Tapped)
    return source


async def watched(bridge: Bridge, seconds: float) -> None:
    """Look at the world as a renderer does, and at the status as people do."""
    ends_ns = now_ns() + round(seconds * NS_PER_S)
    looks = 0
    while now_ns() < ends_ns:
        await asyncio.sleep(SNAPSHOT_S)
        for actor in bridge.context.world.snapshot(now_ns()).actors:
            pose = np.concatenate((actor.T_world_body.p_m, actor.T_world_body.q_xyzw))
            assert np.isfinite(pose).all(), f"{actor.name} is at {pose}"
            assert abs(float(np.linalg.norm(pose[3:])) - 1.0) < 1e-3, (
                f"the attitude of {actor.name} is {pose[3:]}"
            )
        looks += 1
        if looks % 30 == 0:
            bridge.snapshot()


async def calm(bridge: Bridge, specs: list[ServerSpec]) -> None:
    """Without faults all actors are tracked again, and where they are.

    Raises:
        AssertionError: some are not in time; the injected faults occlude one now and then.
    """
    epoch_ns = now_ns()
    async with contextlib.AsyncExitStack() as stack:
        for spec in specs:
            await stack.enter_async_context(opened(spec, "", epoch_ns))
        deadline_ns = now_ns() + round(CALM_S * NS_PER_S)
        while wrong := astray(bridge):
            assert now_ns() < deadline_ns, (
                f"{CALM_S} s without faults, and still: {'; '.join(wrong)}"
            )
            await watched(bridge, 0.2)


def astray(bridge: Bridge) -> list[str]:
    """Actors that are not tracked, or beside their circles of 1 m."""
    wrong = []
    rooms = list(bridge.context.sources)
    for actor in bridge.context.world.snapshot(now_ns()).actors:
        room, _, subject = actor.name.rpartition("-")
        centre_m = (APART_M * rooms.index(room) + 2.0 * (subject == "human"), 0.0)
        radius_m = float(np.linalg.norm(actor.T_world_body.p_m[:2] - centre_m))
        if actor.state is not TrackingState.TRACKED:
            wrong.append(f"{actor.name} is {actor.state}")
        elif abs(radius_m - 1.0) > 0.1:
            wrong.append(f"{actor.name} is {radius_m:.2f} m from the centre of its circle")
    return wrong


# --- many days ------------------------------------------------------------------------------------


def memory() -> tuple[float, int]:
    """Resident memory in MB and the number of live objects."""
    gc.collect()
    rss_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return rss_pages * 4096 / 1e6, len(gc.get_objects())


def growth(samples: list[float]) -> float:
    """Of the last third over the first, the very first sample left out."""
    third = max(1, (len(samples) - 1) // 3)
    return statistics.median(samples[-third:]) - statistics.median(samples[1 : 1 + third])


async def days(seconds: float, seed: int) -> list[str]:
    """All days; returns what went wrong."""
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: problems.append(
            f"the loop: {context.get('message')}: {context.get('exception')!r}"
        )
    )
    specs = servers()
    bridge = build(specs)
    running = asyncio.create_task(bridge.run())
    day_s = min(15.0, seconds / 2.0)
    used: list[tuple[float, int]] = []
    begun_s = time.monotonic()
    number = 0
    while time.monotonic() - begun_s < seconds - 0.5 * day_s:
        rng = random.Random(f"{seed}/{number}")
        faults = {spec.kind: random_faults(rng, day_s, garbage=number % 2 == 1) for spec in specs}
        print(f"day {number}, seed {seed}/{number}", flush=True)
        ledgers = await alive(running, day(bridge, specs, faults, day_s))
        for ledger in ledgers:
            wrong = ledger.judge()
            problems += [f"day {number}: {ledger.kind}: {what}" for what in wrong]
            if wrong or number < 2:
                print(ledger, flush=True)
        used.append(memory())
        number += 1
    await alive(running, calm(bridge, specs))
    used.append(memory())
    print(
        f"{number} days; memory and objects: {used[1]} to {used[-1]}; world "
        f"{bridge.context.world.counters()}",
        flush=True,
    )
    grown_mb, grown_objects = (growth([float(u[i]) for u in used]) for i in (0, 1))
    if grown_mb > GROWTH_MB or grown_objects > GROWTH_OBJECTS:
        problems.append(f"grown by {grown_mb:.1f} MB and {grown_objects:.0f} objects")
    running.cancel()
    await asyncio.wait((running,), timeout=5.0)
    problems += [] if running.done() else ["the bridge did not end"]
    return problems


async def alive(bridge: asyncio.Task[None], doing: Coroutine[Any, Any, Any]) -> Any:
    """The result, unless the bridge ends before."""
    task = asyncio.ensure_future(doing)
    done, _ = await asyncio.wait((task, bridge), return_when=asyncio.FIRST_COMPLETED)
    if task not in done:
        task.cancel()
        await asyncio.wait((task,))
        bridge.result()
        raise AssertionError("the bridge ended by itself")
    return task.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    warnings.simplefilter("error", ResourceWarning)
    problems = asyncio.run(days(options.seconds, seed))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

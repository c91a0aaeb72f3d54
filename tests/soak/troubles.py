"""The random, repeatable troubles of a long run."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
from collections import Counter
from typing import Final

from tests.soak.plant import SURVIVORS, VICTIMS, Plant
from tests.support.garbage import noise

STOPPED_S: Final = {"daemon": 1.5}
"""Longest stop, 4 s where not told: of the daemon so short that nobody takes it for dead."""
WEATHER: Final = {
    "mocap": (
        "loss=5%",
        "duplicate=5%",
        "reorder=3%",
        "delay=15ms±4",
        "jitter=5ms",
        "rate=1Mbit",
        "cut=2500ms@0ms",
    ),
    "poses": ("delay=20ms±5", "loss=2%", "cut=1500ms@0ms", "rate=1Mbit"),
    "pictures": ("delay=20ms±5", "loss=2%", "cut=1500ms@0ms", "rate=8Mbit"),
    "radio0": ("delay=30ms±10", "loss=5%", "cut=2500ms@0ms"),
    "radio1": ("delay=30ms±10", "loss=5%", "rate=3Mbit", "cut=2500ms@0ms"),
}


PAUSE_S: Final = {
    "kills": (10.0, 40.0),
    "stops": (2.0, 12.0),
    "weather": (2.0, 12.0),
    "garbage": (2.0, 12.0),
}


class Troubles:
    """Makes trouble until told to stop, then puts all right again.

    Attributes:
        made: how often, by kind.
    """

    def __init__(self, plant: Plant, seed: int) -> None:
        self.made: Counter[str] = Counter()
        self._plant = plant
        self._seed = seed
        self._over = asyncio.Event()

    def stop(self) -> None:
        """No new trouble; what goes on ends as planned."""
        self._over.set()

    async def run(self) -> None:
        """Four kinds of trouble at once, each one after the other."""
        async with asyncio.TaskGroup() as group:
            for name in ("kills", "stops", "weather", "garbage"):
                group.create_task(self._repeat(name, random.Random(f"{self._seed}/{name}")))

    async def _repeat(self, name: str, choose: random.Random) -> None:
        while not await self._waited(choose.uniform(*PAUSE_S[name])):
            self.made[await getattr(self, f"_{name}")(choose)] += 1

    async def _waited(self, seconds: float) -> bool:
        """True when all shall end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        return self._over.is_set()

    async def _kills(self, choose: random.Random) -> str:
        name = choose.choice(VICTIMS)
        self._plant.kill(name)
        await self._waited(choose.uniform(0.0, 5.0))
        self._plant.start(name)
        return f"killed {name}"

    async def _stops(self, choose: random.Random) -> str:
        name = choose.choice(SURVIVORS)
        self._plant.signal(name, signal.SIGSTOP)
        await self._waited(choose.uniform(0.1, STOPPED_S.get(name, 4.0)))
        self._plant.signal(name, signal.SIGCONT)
        return f"stopped {name}"

    async def _weather(self, choose: random.Random) -> str:
        name = choose.choice(list(WEATHER))
        link, faults = self._plant.links[name], choose.choice(WEATHER[name])
        link.change(f"{faults},seed={choose.randrange(1000)}")
        await self._waited(choose.uniform(1.0, 6.0))
        if choose.random() < 0.2:
            link.reset()
        link.change("")
        return f"{name}: {faults.partition('=')[0]}"

    async def _garbage(self, choose: random.Random) -> str:
        kind = choose.choice(("tcp", "udp"))
        port = choose.choice((await asyncio.to_thread(self._plant.listening))[kind])
        await asyncio.to_thread(_throw, kind, port)
        return f"garbage: {kind}"


def _throw(kind: str, port: int) -> None:
    """Random bytes at a port.

    On TCP half of them from peers that stay for a while and say no more.
    """
    if kind == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            for data in noise(30, 3000):
                peer.sendto(data, ("127.0.0.1", port))
        return
    with contextlib.ExitStack() as held:
        for data in noise(10, 2000):
            with contextlib.suppress(OSError):  # cut off, as it should be
                peer = held.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=2.0)
                )
                peer.sendall(data)

"""A world of drones and a person that are filmed at known places, for outputs that serve poses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np

from tests.support.events import until
from tests.support.motions import DANCER, Dance
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.interfaces.ports import Output
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

PERSON = "person"
_V_MPS = np.array([0.3, -0.2, 0.1])
_W_RADPS = np.array([0.2, -0.1, 0.4])


class FilmedRoom:
    """Drones that fly straight and turn evenly, and a dancing person.

    Attributes:
        filmed: true poses (n, 3) and (n, 4) of the drones by the capture of their frame.
    """

    def __init__(self, drones: int, *, person: bool = False) -> None:
        self.names = tuple(f"cf{i}" for i in range(drones))
        actors = [Actor(name, ActorKind.VEHICLE, "mocap", name) for name in self.names]
        people = [Actor(PERSON, ActorKind.HUMAN, "mocap", PERSON)] if person else []
        self.world = World({"mocap": Transform.identity()}, [*actors, *people])
        self.filmed: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._dance = Dance(skeleton_models=(replace(DANCER, name=PERSON),))
        self._person = person
        self._start_ns = now_ns()

    def film(self, lost: Collection[str] = ()) -> int:
        """Let the world take a frame of now; return its capture."""
        t_ns = now_ns()
        t_s = (t_ns - self._start_ns) / NS_PER_S
        first_m = np.stack([[i % 5, i // 5, 1.0] for i in range(len(self.names))])
        p_m = first_m + _V_MPS * t_s
        q_xyzw = q_exp(np.outer(1.0 + np.arange(len(self.names)), _W_RADPS) * 0.1 + _W_RADPS * t_s)
        self.filmed[t_ns] = p_m, q_xyzw
        tracked = np.array([name not in lost for name in self.names])
        skeletons = (
            self._dance.at(t_ns - self._start_ns + NS_PER_S).skeletons if self._person else ()
        )
        frame = SourceFrame(
            "mocap", 0, None, t_ns, self.names, p_m, q_xyzw, tracked, skeletons=skeletons
        )
        self.world.ingest(frame)
        return t_ns


@asynccontextmanager
async def serving(
    room: FilmedRoom, output: Output, lost: Collection[str] = ()
) -> AsyncIterator[asyncio.Task[None]]:
    """Run an output while the room is filmed 200 times a second.

    ``lost`` names the drones that are not tracked now.
    """

    async def film() -> None:
        while True:
            room.film(lost)
            await asyncio.sleep(0.005)

    running = asyncio.create_task(output.run(room.world))
    filming = asyncio.create_task(film())
    try:
        yield running
    finally:
        running.cancel()
        filming.cancel()
        await asyncio.wait([running, filming])
        output.close()


async def port_of(output: Output) -> int:
    """Return the port that an output names, once it runs."""
    await until(lambda: "address" in output.status.facts)
    return int(output.status.facts["address"].rpartition(":")[2])

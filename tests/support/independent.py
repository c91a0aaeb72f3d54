"""PyPI ``motioncapture`` (libmotioncapture, the vendors' and the official libraries) as an
independent reader.

It runs in a child process, since it has no time-out and would block the interpreter.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from tests.support.programs import Program

__all__ = ["Bodies", "motioncapture_reads"]

Bodies = dict[str, list[float]]
"""Position and attitude (x, y, z, qx, qy, qz, qw) of every body that the client lists."""

_CLIENT = """
import json, os, sys
import motioncapture
out = os.dup(1)
os.dup2(2, 1)  # the library prints
mocap = motioncapture.connect(sys.argv[1], json.loads(sys.argv[2]))
while True:
    mocap.waitForNextFrame()
    bodies = {
        name: [*map(float, body.position), body.rotation.x, body.rotation.y, body.rotation.z,
            body.rotation.w]
        for name, body in mocap.rigidBodies.items()
    }
    os.write(out, (json.dumps(bodies) + "\\n").encode())
"""
_TIMEOUT_S = 20.0


@asynccontextmanager
async def motioncapture_reads(
    system: str, keys: Mapping[str, str]
) -> AsyncIterator[Callable[[], Awaitable[Bodies]]]:
    """The client connected to a system.

    Yields how to wait for its next frame (20 s for all of them).
    """
    with Program(
        sys.executable, "-c", _CLIENT, system, json.dumps(dict(keys)), split=True
    ) as child:
        numbers = itertools.count(1)

        async def frame() -> Bodies:
            number = next(numbers)
            await child.until(lambda: child.text().count("\n") >= number, f"frame {number}")
            bodies: Bodies = json.loads(child.text().splitlines()[number - 1])
            return bodies

        async with asyncio.timeout(_TIMEOUT_S):
            yield frame

"""Worlds of a scene server whose program goes while they open."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from tests.support.common import free_port
from vil_bridge.core.errors import VilBridgeError
from vil_simulation.airsim.standalone.scenes import SceneServer

pytestmark = pytest.mark.wire

HOST = "127.0.0.1"


class Gate:
    """Opens worlds once it is lifted. ``ended``: ports of those that have ended."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked, self.lifted = asyncio.Event(), asyncio.Event()
        self.ended: list[int] = []
        self._fails = fails

    async def open(self, port: int) -> GatedWorld:
        self.asked.set()
        await self.lifted.wait()
        if self._fails:
            raise VilBridgeError("no memory")
        return GatedWorld(port, self)


class GatedWorld:
    alive = True

    def __init__(self, port: int, gate: Gate) -> None:
        self.port = port
        self._gate = gate

    async def stop(self) -> None:
        self._gate.ended.append(self.port)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_world_that_opens_after_its_program_has_gone_ends(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(fails=fails)
    port = free_port(socket.SOCK_STREAM)
    server = SceneServer(HOST, port, gate.open)
    await server.start()
    _, writer = await asyncio.open_connection(HOST, port)
    writer.write(msgspec.msgpack.encode((0, 0, "reopen_scenes", (HOST, [1]))))
    async with asyncio.timeout(30.0):
        await gate.asked.wait()
        writer.close()
        await writer.wait_closed()
        while any(task.get_name() == "rpc reopen_scenes" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.001)
        gate.lifted.set()
        await server.close()
    assert len(gate.ended) == (0 if fails else 1) and server.ports == []
    assert ("did not open: no memory" in caplog.text) is fails

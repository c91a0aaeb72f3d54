"""Scene server of the AirVLN family.

Opens AirSim worlds for a program, each a process with its own port.

Protocol of AirVLN, TravelUAV, UAV_ON and CityNavAgent (airsim_plugin/AirVLNSimulatorServerTool.py):
``ping``, ``reopen_scenes``, ``close_scenes``, ``reopen_scene_from_port``. Worlds end when their
owner is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from vil_bridge.core.errors import SinkError
from vil_simulation.airsim.msgpack_rpc import Caller, RpcError, RpcServer
from vil_simulation.airsim.standalone.ray_scenes import ray_worlds
from vil_simulation.airsim.standalone.world_process import (
    LocalWorld,
    SceneWorld,
    WorldOptions,
    prepare_worlds,
)

logger = logging.getLogger(__name__)

_MOST_WORLDS: Final = 32
_START_S: Final = 300.0
_GRACE_S: Final = 3.0
"""Time in which an owner that lost its connection may come back to its worlds."""
_POLL_S: Final = 0.05
_PING_S: Final = 5.0
_PING: Final = msgspec.msgpack.encode((0, 0, "ping", ()))
_PONG: Final = msgspec.msgpack.encode((1, 0, None, True))


OpenWorld = Callable[[int], Awaitable[SceneWorld]]
"""Opens the world of a port; returns before the world answers."""


class SceneServer:
    """Server that opens and closes worlds.

    Args:
        bind: address of this server and of the worlds' ports.
        port: of this server; worlds get the free ports above it.
        open_world: opens each world.
    """

    def __init__(self, bind: str, port: int, open_world: OpenWorld) -> None:
        self._bind = bind
        self._open_world = open_world
        self._port = port
        self._rpc = RpcServer("scene server", self._call, on_gone=self._on_gone)
        self._worlds: dict[str, list[SceneWorld]] = {}
        self._owners: dict[str, Caller] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Listen. Raises SinkError: the port is taken."""
        try:
            self._port = await self._rpc.start(self._bind, self._port)
        except OSError as exc:
            raise SinkError(f"scene server: {self._bind}:{self._port}: {exc}") from None
        logger.info("scene server on %s port %d", self._bind, self._port)

    async def close(self) -> None:
        """End every world and close the port."""
        await self._rpc.close()
        for end in self._ends.values():
            end.cancel()
        for host in tuple(self._worlds):
            await self._end(host)
        await asyncio.gather(*self._late)

    @property
    def ports(self) -> list[int]:
        """Ports of the worlds that are open."""
        return [world.port for worlds in self._worlds.values() for world in worlds]

    async def _call(self, caller: Caller, method: str, arguments: Sequence[Any]) -> object:
        self._retain(caller)
        match method, list(arguments):
            case "ping", []:
                return True
            case "reopen_scenes", [str() | bytes() as address, list(scenes)]:
                return await self._reopen(caller, address, scenes)
            case "close_scenes", [str() | bytes()]:
                async with self._lock:
                    await self._end(caller.host)
                return True
            case "reopen_scene_from_port", [int(port)]:
                return await self._reopen_one(caller, port)
        raise RpcError(
            f"rpclib: server could not find function '{method[:60]}' with argument count "
            f"{len(arguments)}."
        )

    async def _reopen(self, caller: Caller, address: str | bytes, scenes: list[Any]) -> object:
        """End the caller's worlds and open new ones.

        [True, [address, ports]] in the order of the scenes.
        """
        if len(scenes) > _MOST_WORLDS:
            raise RpcError(f"{len(scenes)} worlds: at most {_MOST_WORLDS}")
        async with self._lock:
            await self._end(caller.host)
            worlds = self._worlds[caller.host] = []
            while len(worlds) < len(scenes):
                worlds.append(await self._opened(self._free_port()))
            if not all(await asyncio.gather(*(self._started(world) for world in worlds))):
                await self._end(caller.host)
                return [False, None]
        return [True, [address, [world.port for world in worlds]]]

    async def _reopen_one(self, caller: Caller, port: int) -> bool:
        """Open the world of a port again."""
        async with self._lock:
            for index, world in enumerate(self._worlds.get(caller.host, [])):
                if world.port == port:
                    await world.stop()
                    self._worlds[caller.host][index] = again = await self._opened(port)
                    return await self._started(again)
        return False

    async def _opened(self, port: int) -> SceneWorld:
        """Open a world; where the call ends before that is done, end the world once it opens."""
        opening = asyncio.ensure_future(self._open_world(port))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            late = asyncio.create_task(_end_when_open(opening))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise

    def _free_port(self) -> int:
        """Return the lowest free port above the server's own.

        A port that anything listens on is left alone.
        """
        used = set(self.ports)
        for port in range(self._port + 1, 65536):
            if port not in used and _is_free(self._bind, port):
                return port
        raise RpcError("no port above the scene server's is free")

    async def _started(self, world: SceneWorld) -> bool:
        """Wait until a world answers; False = its process ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while world.alive:
                    if await _answers(self._bind, world.port):
                        return True
                    await asyncio.sleep(_POLL_S)
        logger.warning("the world of port %d did not start", world.port)
        return False

    async def _end(self, host: str) -> None:
        await asyncio.gather(*(world.stop() for world in self._worlds.pop(host, [])))

    def _retain(self, caller: Caller) -> None:
        """Let the worlds of a host live as long as the connection that called last."""
        self._owners[caller.host] = caller
        end = self._ends.pop(caller.host, None)
        if end is not None:
            end.cancel()

    def _on_gone(self, caller: Caller) -> None:
        if self._worlds.get(caller.host) and self._owners.get(caller.host) is caller:
            self._ends[caller.host] = asyncio.create_task(self._end_later(caller.host))

    async def _end_later(self, host: str) -> None:
        await asyncio.sleep(_GRACE_S)
        async with self._lock:
            logger.info("the owner at %s is gone: its worlds end", host)
            self._ends.pop(host, None)
            await self._end(host)


def serve_scenes(options: WorldOptions, port: int, ray: str | None = None) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        options: of every world.
        port: of the scene server; 0 = any free one.
        ray: address of a Ray cluster whose hosts run the worlds; None = this host runs them.

    Raises:
        SinkError: the port is taken.
        VilBridgeError: see :func:`~vil_simulation.airsim.standalone.ray_scenes.ray_worlds`.
    """
    if ray is None:
        prepare_worlds()
        asyncio.run(_serve(SceneServer(options.bind, port, partial(LocalWorld.open, options))))
    else:
        with ray_worlds(options, ray) as open_world:
            asyncio.run(_serve(SceneServer(options.bind, port, open_world)))


async def _serve(server: SceneServer) -> None:
    """Serve until a signal. Raises SinkError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await server.start()
    try:
        await stop.wait()
    finally:
        await server.close()


async def _end_when_open(opening: asyncio.Future[SceneWorld]) -> None:
    try:
        world = await opening
    except Exception as exc:
        logger.warning("a world that no program waits for any more did not open: %s", exc)
    else:
        await world.stop()


async def _answers(bind: str, port: int) -> bool:
    """Return True if a world answers a ping.

    A connection with itself, which TCP may make, does not.
    """
    try:
        reader, writer = await asyncio.open_connection(bind, port)
    except OSError:
        return False
    try:
        writer.write(_PING)
        return await asyncio.wait_for(reader.read(len(_PONG)), _PING_S) == _PONG
    except (TimeoutError, OSError):
        return False
    finally:
        writer.close()


def _is_free(bind: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((bind, port))
        except OSError:
            return False
        return True

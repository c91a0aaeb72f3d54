"""Worlds of a scene server on the hosts of a Ray cluster: an actor with a process for each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import wait as wait_for_end
from multiprocessing.context import ForkServerProcess
from pathlib import PurePath
from typing import Any, Final

from vil_adapters.lab.link_spec import Address, Way
from vil_adapters.lab.relays import LinkDirection, TcpRelay
from vil_bridge.config.bind_address import is_loopback
from vil_bridge.core.errors import VilBridgeError
from vil_simulation.airsim.standalone.world_process import WorldOptions, start_world, stop_world
from vil_simulation.demo.child_processes import free_ports
from vil_simulation.learning.ray_cluster import ray_cluster

logger = logging.getLogger(__name__)

_STOP_S: Final = 10.0
"""Time in which a world on another host ends in order."""
_THREADS: Final = 2
"""Of an actor: one waits for the end of the world, the other ends it."""


@contextlib.contextmanager
def ray_worlds(
    options: WorldOptions, address: str
) -> Iterator[Callable[[int], Awaitable[ClusterWorld]]]:
    """Yield a function that opens the world of a port on a host of a Ray cluster.

    Args:
        options: of every world.
        address: of the cluster, as Ray writes it (``auto``, ``host:port``); this host is one of its
            hosts.

    Raises:
        VilBridgeError: Ray is not installed, no cluster answers, or the options do not suit several
            hosts.
    """
    if address.startswith("ray://"):
        raise VilBridgeError(
            f"--ray {address}: a scene server runs on a host of the cluster. Start it "
            "there, --ray auto"
        )
    if "/" in options.scene or PurePath(options.scene).suffix:
        raise VilBridgeError(
            f"--scene {options.scene}: other hosts lack this file. Name a shipped scene, "
            "or omit --ray"
        )
    with ray_cluster(address, log_to_driver=True) as ray:
        home = ray.get_runtime_context().get_node_id()
        nodes = {
            node["NodeID"]: str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]
        }
        others = sorted(host for node, host in nodes.items() if node != home)
        if not options.insecure and not all(map(is_loopback, others)):
            raise VilBridgeError(
                f"worlds on {', '.join(others)} can be reached from the network and need "
                "no keys. Add --insecure on a "
                "private network, or omit --ray"
            )
        logger.info("worlds run on the Ray hosts %s", ", ".join(sorted(nodes.values())))

        async def open_world(port: int) -> ClusterWorld:
            return ClusterWorld(
                ray, await asyncio.to_thread(_place, ray, options, port, home), options.bind, port
            )

        yield open_world


class WorldActor:
    """Ray actor that has the process of one world on its host, which ends with the actor.

    Args:
        options: of the world.
        port: where programs dial it on the scene server's host.
        home: Ray's id of the scene server's host.
    """

    def __init__(self, options: WorldOptions, port: int, home: str) -> None:
        self._options = options
        self._port = port
        self._home = home
        self._process: ForkServerProcess | None = None

    def start(self) -> Address:
        """Start the world.

        Return its address and port: on the scene server's host those that programs dial.
        """
        import ray

        cluster: Any = ray  # some of its functions have no types
        options = self._options
        port = self._port
        if cluster.get_runtime_context().get_node_id() != self._home:
            options = replace(options, bind=cluster.util.get_node_ip_address())
            (port,) = free_ports(1, socket.SOCK_STREAM, options.bind)
        self._process = start_world(options, port)
        return options.bind, port

    def wait(self) -> None:
        """Wait for the end of the world."""
        if self._process is not None:
            wait_for_end([self._process.sentinel])

    def stop(self) -> None:
        """End the world."""
        if self._process is not None:
            stop_world(self._process)


class ClusterWorld:
    """A world on a host of a Ray cluster; one on another host has a relay on this one.

    Args:
        ray: the module.
        actor: handle of a :class:`WorldActor`.
        bind: address of the port.
        port: where programs dial the world.
    """

    def __init__(self, ray: Any, actor: Any, bind: str, port: int) -> None:
        self.port = port
        self._ray = ray
        self._actor = actor
        self._bind = bind
        self._placed = False
        self._task = asyncio.create_task(self._run(), name=f"world {port}")

    @property
    def alive(self) -> bool:
        """Return True until the process, its actor or its host has ended."""
        return not self._task.done()

    async def stop(self) -> None:
        """See :class:`SceneWorld`."""
        if not self._placed and self.alive:
            logger.warning(
                "the world of port %d waited for a host with a free CPU (ray start --num-cpus)",
                self.port,
            )
        elif self.alive:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    with contextlib.suppress(self._ray.exceptions.RayError):
                        await self._actor.stop.remote()
                    await asyncio.wait([self._task])
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Start the world, relay to it, and release everything after its end."""
        try:
            host, port = await self._actor.start.remote()
            self._placed = True
            logger.info("the world of port %d is on %s port %d", self.port, host, port)
            async with self._relayed(host, port):
                await self._actor.wait.remote()
            logger.info("the world of port %d has ended", self.port)
        except (self._ray.exceptions.RayError, OSError) as exc:
            logger.warning("the world of port %d is lost: %s", self.port, exc)
        finally:
            await asyncio.to_thread(self._ray.kill, self._actor)

    @contextlib.asynccontextmanager
    async def _relayed(self, host: str, port: int) -> AsyncIterator[None]:
        """Relay the world's port until the block is left, unless the world has it itself.

        Raises OSError.
        """
        if (host, port) == (self._bind, self.port):
            yield
            return
        relay = TcpRelay(LinkDirection(Way()), LinkDirection(Way()))
        await relay.open((self._bind, self.port), (host, port))
        try:
            yield
        finally:
            await relay.close()


def _place(ray: Any, options: WorldOptions, port: int, home: str) -> Any:
    """Return the handle of a new actor; Ray spreads actors over the hosts that have a CPU left."""
    actor = ray.remote(WorldActor).options(
        num_cpus=1, max_concurrency=_THREADS, scheduling_strategy="SPREAD"
    )
    return actor.remote(options, port, home)

"""Processes of the worlds that a scene server opens, forked from one that has a bridge's code
already.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from typing import Final, Protocol

from vil_bridge.core.errors import VilBridgeError

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_PRELOADED: Final = (
    "vil_bridge.cli.main",
    "vil_simulation.airsim.standalone.world",
    "vil_bridge.daemon.bridge",
    "vil_simulation.airsim.service",
    "vil_bridge.daemon.http_app",
    "vil_simulation.source.source",
    "vil_renderer.queries.client",
)
"""Modules that every world imports: 1.5 s of a core, once for all worlds.

What is not installed is left out.
"""
_STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Options of every world of a scene server.

    AirSim's settings, what is drawn, and the address of all ports.

    Attributes:
        settings: text of AirSim's settings.json; worlds on other hosts cannot read the file.
        compat: multirotors fly as AirSim's own code does, its slips included.
    """

    settings: str
    scene: str
    profile: str
    bind: str
    insecure: bool = False
    compat: bool = False


class SceneWorld(Protocol):
    """A world that a scene server has opened. ``port``: where programs dial it."""

    port: int

    @property
    def alive(self) -> bool:
        """Return True until the world has ended."""
        ...

    async def stop(self) -> None:
        """End the world and wait for its end."""
        ...


class LocalWorld:
    """A world in a process of this host."""

    def __init__(self, port: int, process: ForkServerProcess) -> None:
        self.port = port
        self._process = process

    @classmethod
    async def open(cls, options: WorldOptions, port: int) -> LocalWorld:
        """Start the process of a world. Raises OSError."""
        return cls(port, await asyncio.to_thread(start_world, options, port))

    @property
    def alive(self) -> bool:
        """Return True until the process has ended."""
        return self._process.is_alive()

    async def stop(self) -> None:
        """See :class:`SceneWorld`."""
        await asyncio.to_thread(stop_world, self._process)


def prepare_worlds() -> None:
    """Start the process that worlds are forked from; it ends with this one."""
    _CONTEXT.set_forkserver_preload(list(_PRELOADED))
    forkserver.ensure_running()


def start_world(options: WorldOptions, port: int) -> ForkServerProcess:
    """Start a process that serves AirSim programs on a port until SIGTERM, or until this process
    is gone.
    """
    process = _CONTEXT.Process(target=_serve, args=(options, port), name=f"world {port}")
    process.start()
    return process


def stop_world(process: ForkServerProcess) -> None:
    """End the process of a world: SIGTERM, then SIGKILL."""
    process.terminate()
    process.join(_STOP_S)
    if process.is_alive():
        process.kill()
        process.join()


def _serve(options: WorldOptions, port: int) -> None:
    """Run a world in this process."""
    import logging

    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_bridge.run import run_bridge
    from vil_simulation.airsim.settings import parse_settings
    from vil_simulation.airsim.standalone.world import airsim_bridge

    setup_logging(level=logging.INFO)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        config = airsim_bridge(
            parse_settings(options.settings),
            scene=options.scene,
            profile=options.profile,
            port=port,
            bind=options.bind,
            insecure=options.insecure,
            http_port=0,
            compat=options.compat,
        )
        run_bridge(config)
    except VilBridgeError as exc:
        sys.exit(f"world of port {port}: {exc}")


def _end_with_parent() -> None:
    """End this process in order when the scene server is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)

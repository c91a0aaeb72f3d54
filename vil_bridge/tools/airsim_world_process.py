"""Processes of the worlds that a scene server opens, forked from one that has a bridge's code already."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from vil_bridge.core.errors import VilBridgeError

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_PRELOADED: Final = (
    "vil_bridge.cli.main",
    "vil_bridge.tools.airsim_world",
    "vil_bridge.daemon.bridge",
    "vil_bridge.daemon.airsim_service",
    "vil_bridge.daemon.http_app",
    "vil_adapters.simulated.source",
    "vil_renderer.queries.client",
)
"""Modules that every world imports: 1.5 s of a core, once for all worlds; what is not installed is left out."""


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Options of every world of a scene server: AirSim's settings, what is drawn, and the address of all ports."""

    settings: Path | None
    scene: str
    profile: str
    bind: str
    insecure: bool = False


def prepare_worlds() -> None:
    """Start the process that worlds are forked from; it ends with this one."""
    _CONTEXT.set_forkserver_preload(list(_PRELOADED))
    forkserver.ensure_running()


def start_world(options: WorldOptions, port: int) -> ForkServerProcess:
    """Start a process that serves AirSim programs on a port until SIGTERM, or until this process is gone."""
    process = _CONTEXT.Process(target=_serve, args=(options, port), name=f"world {port}")
    process.start()
    return process


def _serve(options: WorldOptions, port: int) -> None:
    """Run a world in this process."""
    import logging

    from vil_bridge.daemon.bridge import run_daemon
    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_bridge.servers.airsim.settings import load_settings
    from vil_bridge.tools.airsim_world import airsim_bridge

    setup_logging(level=logging.INFO)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        config = airsim_bridge(
            load_settings(options.settings),
            scene=options.scene,
            profile=options.profile,
            port=port,
            bind=options.bind,
            insecure=options.insecure,
            http_port=0,
        )
        run_daemon(config)
    except VilBridgeError as exc:
        sys.exit(f"world of port {port}: {exc}")


def _end_with_parent() -> None:
    """End this process in order when the scene server is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)

"""Run a whole bridge in this process: the entry for programs that bring a configuration."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.services.recording.service import RecordingService

__all__ = ["run_bridge"]

logger = logging.getLogger(__name__)


def run_bridge(
    config: BridgeConfig,
    reread: Callable[[], BridgeConfig] | None = None,
    record: Path | None = None,
) -> None:
    """Run a bridge until SIGINT or SIGTERM.

    Args:
        config: what to run.
        reread: reads the configuration again, when people or SIGHUP ask for that; None = there is
            no file.
        record: file to record into from the start; None = as the configuration says.

    Raises:
        RecordingError: the file to record into exists, or cannot be created.
        RequiredSourceLost: a source that the configuration requires stayed away.
        VilBridgeError: a service cannot listen or draw.
        ExceptionGroup: a component has a bug.
    """
    bridge = Bridge(config, reread)
    recordings = cast(RecordingService, bridge.context.services["recording"].service)
    recordings.first_file = record
    try:
        asyncio.run(bridge.run())
    except ExceptionGroup as group:
        lost, bugs = group.split(VilBridgeError)
        if lost is None or bugs is not None:
            raise
        raise lost.exceptions[0] from None
    logger.info(
        "stopped: %s",
        json.dumps({n: dict(c.relay.delivered) for n, c in bridge.context.cameras.items()}),
    )

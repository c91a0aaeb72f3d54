"""Methods of the world as a whole: the log, and the level."""

from __future__ import annotations

import logging
from typing import Final

from vil_bridge.core.text import printable_lines
from vil_bridge.servers.airsim.methods import method

logger = logging.getLogger(__name__)

_LEVELS: Final = (logging.INFO, logging.INFO, logging.WARNING, logging.ERROR)
_LONGEST: Final = 1000


class WorldMethods:
    """The world. ``scene`` is the name of what is drawn."""

    def __init__(self, scene: str) -> None:
        self._scene = scene

    @method("simPrintLogMessage")
    async def print_log_message(self, message: str, message_param: str = "", severity: int = 0) -> None:
        """Write a line into the log."""
        level = _LEVELS[min(max(severity, 0), len(_LEVELS) - 1)]
        logger.log(level, "program: %s", printable_lines(f"{message}{message_param}"[:_LONGEST]))

    @method("simLoadLevel")
    async def load_level(self, level_name: str) -> bool:
        """Return True for the scene that is drawn: no other one can be loaded while the bridge runs."""
        if level_name != self._scene:
            logger.warning("a program asked for the level %r; this bridge draws %s", level_name[:60], self._scene)
        return level_name == self._scene

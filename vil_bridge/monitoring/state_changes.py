"""Changes of states, logged without flooding the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from vil_bridge.core.clock import NS_PER_S

PAUSE_NS: Final = 2 * NS_PER_S


class TransitionLog:
    """Log of the states of things, one line per change.

    The first change of a thing is logged at once, further ones at most every 2 s; what changed back
    within that time is not logged.

    Args:
        names: of the things. state: of all of them now, without a line.
    """

    def __init__(self, logger: logging.Logger, names: Iterable[str], state: str) -> None:
        self._logger = logger
        self._logged: dict[str, tuple[str, int]] = dict.fromkeys(names, (state, -PAUSE_NS))

    def update(self, name: str, state: str, text: str, level: int, t_ns: int) -> None:
        """Log ``NAME: text`` if the state differs from the logged one.

        ``t_ns`` is of the machine's clock.
        """
        before, t_logged_ns = self._logged[name]
        if state != before and t_ns - t_logged_ns >= PAUSE_NS:
            self._logged[name] = state, t_ns
            self._logger.log(level, "%s: %s", name, text)

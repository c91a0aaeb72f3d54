"""Commands of foreign pilots: who may command a vehicle, and how often."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable
from typing import Final

from vil_bridge.interfaces.setpoints import FlyActor, Setpoint
from vil_bridge.runtime.rates import RateLimiter
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_OWNED_S: Final = 1.0
"""A pilot who is silent for longer owns the vehicle no more."""
_COMMANDS_PER_S: Final = 1000.0
_COMMANDS_AT_ONCE: Final = 500


class PilotCommands:
    """Commands to the vehicles of some actors; any thread.

    The first pilot owns a vehicle until it has been silent for a second: commands of others are
    refused. A vehicle takes a thousand commands a second. What follows a pilot's silence is the
    vehicle's own ``on_timeout``.

    Args:
        actors: who may be commanded.
        fly: gives a set-point to an actor's vehicle.
        status: counts ``commands`` passed on and ``commands_refused``; its fact ``refused`` is the
            newest reason.
        clock: seconds that never run backwards.
    """

    def __init__(
        self,
        actors: Collection[str],
        fly: FlyActor,
        status: Status,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._actors = frozenset(actors)
        self._fly = fly
        self._status = status
        self._clock = clock
        self._limit = RateLimiter(_COMMANDS_PER_S, _COMMANDS_AT_ONCE, clock)
        self._owners: dict[str, tuple[Hashable, float]] = {}
        self._lock = threading.Lock()

    def command(self, actor: str, pilot: Hashable, setpoint: Setpoint) -> None:
        """Pass a command on, or refuse it.

        Args:
            actor: whose vehicle is meant.
            pilot: identity of the sender.
            setpoint: in the world.
        """
        with self._lock:
            reason = self._refusal(actor, pilot)
            if not reason:
                try:
                    self._fly(actor, setpoint)
                except ValueError as exc:
                    reason = str(exc)
                else:
                    self._owners[actor] = pilot, self._clock()
                    self._status.counters["commands"] += 1
        if reason:
            self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """Count a command that is not passed on."""
        if not self._status.counters["commands_refused"]:
            logger.warning("%s: command refused: %s", self._status.name, reason)
        self._status.counters["commands_refused"] += 1
        self._status.facts["refused"] = reason

    def _refusal(self, actor: str, pilot: Hashable) -> str:
        """Return why a command of this pilot is not passed on; empty = it is."""
        if actor not in self._actors:
            return f"{actor} is not among the actors of this output"
        owner, last_s = self._owners.get(actor, (pilot, 0.0))
        if owner != pilot and self._clock() - last_s <= _OWNED_S:
            return f"another pilot flies {actor}; stop it, and send again {_OWNED_S:g} s later"
        # Behind the owner's right: a stranger's flood takes none of its commands.
        if self._limit.wait_s(actor):
            return f"more than {_COMMANDS_PER_S:g} commands a second to {actor}; send fewer"
        self._limit.take(actor)
        return ""

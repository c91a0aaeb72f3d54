"""Supervision of components: retry, back-off and the status that people read.

A component runs until cancelled. While its peer is merely silent it says so through its
:class:`Status` and goes on listening; when it cannot go on it raises ``SourceUnavailable`` (or any
``VilBridgeError`` or ``OSError``) and is started again after a back-off. Other exceptions are bugs
and end the process.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import VilBridgeError

logger = logging.getLogger(__name__)

BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LIMIT_S: Final = 10.0
_STABLE_S: Final = 10.0


class ComponentState(StrEnum):
    """State of a component."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StatusReport:
    """An immutable copy of a :class:`Status` for REST and logs."""

    name: str
    state: ComponentState
    reason: str
    since_ns: int
    last_error: str | None
    retries: int
    counters: dict[str, int]
    facts: dict[str, Any]


class Status:
    """State, reason, since-when, last error and counters of one component; thread-safe.

    Attributes:
        counters: events by name (``malformed``, ``lost``, ``superseded``...), only ever growing.
        facts: what is worth knowing about the peer (version, address, name of the GPU...).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.counters: Counter[str] = Counter()
        self.facts: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._state = ComponentState.STARTING
        self._reason = ""
        self._since_ns = now_ns()
        self._last_error: str | None = None
        self._retries = 0

    @property
    def state(self) -> ComponentState:
        """The current state."""
        return self._state

    def running(self) -> None:
        """Report that data flow. Cheap when nothing changed: call it for every message."""
        if self._state is not ComponentState.RUNNING:
            self._change(ComponentState.RUNNING, "")

    def waiting(self, reason: str) -> None:
        """Report that the peer is silent; ``reason`` says what was tried and what to check."""
        if self._state is not ComponentState.WAITING or self._reason != reason:
            self._change(ComponentState.WAITING, reason)

    def retrying(self, error: str) -> None:
        """Report that the component failed and will be started again."""
        self._retries += 1
        self._last_error = error
        self._change(ComponentState.RETRYING, error)

    def stopped(self) -> None:
        """Report that the component ended on request."""
        self._change(ComponentState.STOPPED, "")

    def report(self) -> StatusReport:
        """Return a consistent copy."""
        with self._lock:
            return StatusReport(
                name=self.name,
                state=self._state,
                reason=self._reason,
                since_ns=self._since_ns,
                last_error=self._last_error,
                retries=self._retries,
                counters=dict(self.counters),
                facts=dict(self.facts),
            )

    def _change(self, state: ComponentState, reason: str) -> None:
        with self._lock:
            if state is not self._state:
                self._since_ns = now_ns()
                logger.info("%s: %s%s", self.name, state, f" ({reason})" if reason else "")
            self._state = state
            self._reason = reason


async def supervise(
    run: Callable[[Status], Awaitable[None]],
    status: Status,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run a component for ever: after a failure wait 0.5 s, doubling to 10 s, and start it again.

    Ten seconds of life reset the back-off. Returns only by cancellation.

    Raises:
        Exception: whatever is not a ``VilBridgeError`` or ``OSError``, since that is a bug.
    """
    backoff_s = BACKOFF_FIRST_S
    try:
        while True:
            started_ns = now_ns()
            try:
                await run(status)
                error = "ended by itself"
            except (VilBridgeError, OSError) as exc:
                error = str(exc) or type(exc).__name__
            if now_ns() - started_ns > _STABLE_S * NS_PER_S:
                backoff_s = BACKOFF_FIRST_S
            status.retrying(error)
            await sleep(backoff_s)
            backoff_s = min(BACKOFF_LIMIT_S, 2.0 * backoff_s)
    finally:
        status.stopped()

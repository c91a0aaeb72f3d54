"""Replay in a running bridge: recorded events take the place of live ones, which are held back and counted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vil_bridge.core.errors import RecordingError
from vil_bridge.core.loop_calls import LoopBusyError, in_loop
from vil_bridge.core.names import source_of
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SourceEvent, SourceReset
from vil_bridge.recording.player import Player
from vil_bridge.recording.reader import Recording
from vil_bridge.web.schemas.recordings import ReplayView

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge

__all__ = ["ReplayService"]

logger = logging.getLogger(__name__)


class ReplayService:
    """Of one bridge. ``play`` and ``stop`` are for any thread but the loop's."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._lines: dict[str, tuple[Emit, Status]] = {}
        self._holds: frozenset[str] = frozenset()
        self._held_back: Counter[str] = Counter()
        self._view = ReplayView()
        self._player: Player | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def gate(self, status: Status, into_world: Emit) -> Emit:
        """An ``emit`` for the live source of that status, which holds back what a replay stands in for."""
        source = status.name
        self._lines[source] = into_world, status

        def emit(event: SourceEvent) -> None:
            if source in self._holds:
                self._held_back[source] += 1
                status.counters["held_back"] += 1
            else:
                into_world(event)

        return emit

    def view(self) -> ReplayView:
        """How it goes, or the last one went."""
        view, player = self._view, self._player
        position_s = view.position_s if player is None else max(0.0, player.position_s)
        return ReplayView(
            view.state,
            view.file,
            round(position_s, 3),
            view.duration_s,
            view.rate,
            view.loop,
            dict(self._held_back),
            view.reason,
        )

    def play(self, path: Path, opened: IO[bytes], rate: float, loop: bool) -> None:
        """Let a recording, a file that is open already, take the place of the live sources that it holds.

        Raises:
            RecordingError: it cannot be read, or holds no source of this bridge.
        """
        recording = Recording(path, opened)
        sources = frozenset(recording.sources) & frozenset(self._lines)
        if not sources:
            recording.close()
            live, recorded = (", ".join(names) or "none" for names in (self._lines, recording.sources))
            raise RecordingError(f"{path.name} holds {recorded}, this bridge has {live}: no source in common")
        try:
            self._in_loop(self._begin(recording, sources, rate, loop))
        except RecordingError:
            recording.close()
            raise

    def stop(self) -> None:
        """Back to the live sources."""
        self._in_loop(self.end())

    async def end(self) -> None:
        """The same, in the loop."""
        async with self._turn:
            await self._ended()

    async def _ended(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _begin(self, recording: Recording, sources: frozenset[str], rate: float, loop: bool) -> None:
        async with self._turn:
            await self._ended()
            self._held_back = Counter()
            self._view = ReplayView("playing", recording.path.name, 0.0, recording.duration_s, rate, loop)
            self._player = Player(recording, sources, self._emit, rate=rate)
            self._task = asyncio.create_task(self._run(recording, self._player, sources, loop), name="replay")
            await asyncio.sleep(0)  # a task that is cancelled before its first step gives nothing back

    def _emit(self, event: SourceEvent) -> None:
        self._lines[source_of(event.source)][0](event)

    async def _run(self, recording: Recording, player: Player, sources: frozenset[str], loop: bool) -> None:
        name = recording.path.name
        state, reason = "idle", ""
        self._take(sources, f"{name} takes its place")
        try:
            await player.play(loop=loop)
            state = "done"
        except RecordingError as exc:
            state, reason = "failed", str(exc)
        except Exception as exc:
            logger.exception("the replay of %s has a bug", name)
            state, reason = "failed", repr(exc)
        finally:
            recording.close()
            self._give_back(sources, f"{name} no longer takes its place")
            view = self.view()
            self._player = None
            self._view = ReplayView(state, name, view.position_s, view.duration_s, view.rate, view.loop, {}, reason)
            logger.info("replay of %s: %s%s", name, state, f" ({reason})" if reason else "")

    def _take(self, sources: frozenset[str], reason: str) -> None:
        self._holds = sources
        self._reset(sources, reason)
        for source in sources:
            self._lines[source][1].facts["replay"] = self._view.file
        logger.info("replay of %s in place of %s", self._view.file, ", ".join(sorted(sources)))

    def _give_back(self, sources: frozenset[str], reason: str) -> None:
        self._holds = frozenset()
        self._reset(sources, reason)
        for source in sources:
            self._lines[source][1].facts.pop("replay", None)

    def _reset(self, sources: frozenset[str], reason: str) -> None:
        """Whoever stamps its poses next does so by another clock."""
        for source in sources:
            self._lines[source][0](SourceReset(source, reason))

    def _in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            in_loop(self._bridge.loop, work)
        except LoopBusyError as exc:
            raise RecordingError(str(exc)) from None

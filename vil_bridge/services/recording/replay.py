"""Replay in a running bridge.

Recorded events take the place of live ones, which are held back and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import IO, Any

from vil_bridge.core.errors import RecordingError
from vil_bridge.core.names import source_of
from vil_bridge.core.types import SourceEvent, SourceReset
from vil_bridge.interfaces.event_loop import LoopBusyError, in_loop
from vil_bridge.recording.player import Player
from vil_bridge.recording.reader import Recording
from vil_bridge.services.service import SourceGate
from vil_bridge.web.schemas.recordings import ReplayView

logger = logging.getLogger(__name__)


class ReplayService:
    """Replays in one bridge. ``play`` and ``stop`` are for any thread but the loop's.

    Args:
        sources: the live ones, by name.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(self, sources: Mapping[str, SourceGate]) -> None:
        self._sources = sources
        self._replaced: tuple[SourceGate, ...] = ()
        self._view = ReplayView()
        self._player: Player | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def begin(self) -> None:
        """Take the running loop, in which replays run."""
        self._loop = asyncio.get_running_loop()

    def view(self) -> ReplayView:
        """Return how the replay goes, or how the last one went."""
        view = self._view
        player = self._player
        position_s = view.position_s if player is None else max(0.0, player.position_s)
        return ReplayView(
            view.state,
            view.file,
            round(position_s, 3),
            view.duration_s,
            view.rate,
            view.loop,
            {source.status.name: source.held_back for source in self._replaced if source.held_back},
            view.reason,
        )

    def play(self, path: Path, opened: IO[bytes], rate: float, loop: bool) -> None:
        """Replace the live sources that a recording, a file that is open already, holds.

        Raises:
            RecordingError: it cannot be read, or holds no source of this bridge.
        """
        recording = Recording(path, opened)
        sources = frozenset(recording.sources) & self._sources.keys()
        if not sources:
            recording.close()
            live, recorded = (
                ", ".join(names) or "none" for names in (self._sources, recording.sources)
            )
            raise RecordingError(
                f"{path.name} holds {recorded}, this bridge has {live}: no source in common"
            )
        try:
            self._in_loop(self._begin(recording, sources, rate, loop))
        except RecordingError:
            recording.close()
            raise

    def stop(self) -> None:
        """End the replay; the live sources are back."""
        self._in_loop(self.end())

    async def end(self) -> None:
        """Do what :meth:`stop` does, in the loop."""
        async with self._turn:
            await self._ended()

    async def _ended(self) -> None:
        task = self._task
        self._task = None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _begin(
        self, recording: Recording, sources: frozenset[str], rate: float, loop: bool
    ) -> None:
        async with self._turn:
            await self._ended()
            self._replaced = tuple(self._sources[name] for name in sources)
            self._view = ReplayView(
                "playing", recording.path.name, 0.0, recording.duration_s, rate, loop
            )
            self._player = Player(recording, sources, self._into_world, rate=rate)
            self._task = asyncio.create_task(
                self._run(recording, self._player, loop), name="replay"
            )
            # A task that is cancelled before its first step gives nothing back.
            await asyncio.sleep(0)

    def _into_world(self, event: SourceEvent) -> None:
        self._sources[source_of(event.source)].into_world(event)

    async def _run(self, recording: Recording, player: Player, loop: bool) -> None:
        name = recording.path.name
        state = "idle"
        reason = ""
        self._replace(name)
        try:
            await player.play(loop=loop)
            state = "done"
        except RecordingError as exc:
            state = "failed"
            reason = str(exc)
        except Exception as exc:
            logger.exception("the replay of %s has a bug", name)
            state = "failed"
            reason = repr(exc)
        finally:
            recording.close()
            self._give_back(name)
            view = self.view()
            self._player = None
            self._view = ReplayView(
                state, name, view.position_s, view.duration_s, view.rate, view.loop, {}, reason
            )
            logger.info("replay of %s: %s%s", name, state, f" ({reason})" if reason else "")

    def _replace(self, file: str) -> None:
        for source in self._replaced:
            source.replaced = True
            source.held_back = 0
            source.status.facts["replay"] = file
            _reset(source, f"{file} takes its place")
        logger.info(
            "replay of %s in place of %s",
            file,
            ", ".join(sorted(r.status.name for r in self._replaced)),
        )

    def _give_back(self, file: str) -> None:
        for source in self._replaced:
            source.replaced = False
            source.status.facts.pop("replay", None)
            _reset(source, f"{file} no longer takes its place")

    def _in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            in_loop(self._loop, work)
        except LoopBusyError as exc:
            raise RecordingError(str(exc)) from None


def _reset(source: SourceGate, reason: str) -> None:
    """Start the source's history over: the next poses are stamped by another clock."""
    source.into_world(SourceReset(source.status.name, reason))

"""A recorded source as a source.

What came over the wire then comes again, with the stamps of its own clock.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError, RecordingError
from vil_bridge.core.types import SourceEvent, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.recording.config import McapConfig
from vil_bridge.recording.player import LEAD_NS, Player
from vil_bridge.recording.reader import Recording
from vil_bridge.runtime.supervisor import Status

_TOGETHER_NS: Final = NS_PER_S


class McapSource:
    """Plays one source of a recording, once or for ever (implements ``PoseSource``).

    Raises:
        ConfigError: the recording cannot be read; reported at once, before anything runs.
    """

    def __init__(self, name: str, config: McapConfig) -> None:
        self.name = name
        self._config = config
        self._recorded = config.source or name
        try:
            with Recording(config.path) as recording:
                self._check(recording)
        except RecordingError as exc:
            raise ConfigError(f"source {name}: {exc}") from exc
        self._played = False

    def _check(self, recording: Recording) -> None:
        if self._recorded not in recording.sources:
            known = ", ".join(recording.sources) or "none"
            raise RecordingError(
                f"{recording.path} holds no source {self._recorded!r}; it has: {known}"
            )

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Play until cancelled; after the end of a recording that does not loop, wait."""
        config = self._config

        def renamed(event: SourceEvent) -> None:
            status.facts["position_s"] = round(player.position_s, 3)
            status.running()
            # Its subject, of a source with several IMUs.
            part = event.source.removeprefix(self._recorded)
            emit(replace(event, source=self.name + part) if self.name != self._recorded else event)

        with Recording(config.path) as recording:
            status.facts.update(
                recording=config.path.name,
                recorded_by=recording.bridge,
                duration_s=recording.duration_s,
            )
            if self._played:
                emit(SourceReset(self.name, "the recording begins again"))
            self._played = True
            start_ns = _TIMELINES.start_ns(config.path, config.rate)
            player = Player(
                recording, {self._recorded}, renamed, rate=config.rate, start_ns=start_ns
            )
            await player.play(loop=config.loop)
        status.waiting(f"{config.path.name} has ended; set loop to play it again")
        await asyncio.Event().wait()


class _Timelines:
    """Sources of one recording that start together keep their common time to the nanosecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: dict[tuple[Path, float], tuple[int, int]] = {}

    def start_ns(self, path: Path, rate: float) -> int:
        """Return the bridge time at which a recording begins, the same for all calls within a
        second.
        """
        t_ns = now_ns()
        with self._lock:
            self._starts = {
                k: v for k, v in self._starts.items() if 0 <= t_ns - v[0] < _TOGETHER_NS
            }
            return self._starts.setdefault((path, rate), (t_ns, t_ns + LEAD_NS))[1]


_TIMELINES: Final = _Timelines()

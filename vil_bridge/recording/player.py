"""A recording's events once more, with the spacing that they had, in bridge time.

Both clocks of every stamp are mapped by a line: bridge times by where the replay begins, a source's
own times by its first stamp, each at the replay's rate. So the clock models find the offset and the
jitter that were there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.names import source_of
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import ClockExchange, ImuSample, SourceEvent, SourceFrame, SourceReset
from vil_bridge.recording.event_codec import StampedEvent
from vil_bridge.recording.reader import Recording
from vil_bridge.runtime.delay_line import DelayLine

LEAD_NS: Final = 100 * NS_PER_MS
"""Time to read the first events."""
_BATCH: Final = 256
_LOW: Final = 128


class _Due(NamedTuple):
    t_ns: int
    event: SourceEvent


class Player:
    """Plays some sources of a recording, once or for ever.

    Args:
        recording: an open one; stays the caller's to close.
        sources: names of those to play; None = all.
        emit: takes the events, in the loop.
        rate: recorded seconds per second.
        start_ns: bridge time at which it begins.

    Attributes:
        position_s: of the newest event, from the start of the recording.
    """

    def __init__(
        self,
        recording: Recording,
        sources: Collection[str] | None,
        emit: Callable[[SourceEvent], None],
        *,
        rate: float = 1.0,
        start_ns: int | None = None,
    ) -> None:
        self.position_s = 0.0
        self._recording = recording
        self._sources = None if sources is None else frozenset(sources)
        self._emit = emit
        self._rate = rate
        self._begin_ns = recording.started_utc_ns - recording.utc_offset_ns
        self._start_ns = now_ns() + LEAD_NS if start_ns is None else start_ns
        self._first_foreign_ns: dict[str, int] = {}
        self._heard: set[str] = set()
        self._low = asyncio.Event()
        self._failure: Exception | None = None
        self._line: DelayLine[_Due] = DelayLine(self._deliver)

    async def play(self, *, loop: bool = False) -> None:
        """Return at the end of the recording, or never; at once when it holds nothing to play.

        Raises:
            RecordingError: the file is damaged.
        """
        try:
            while True:
                await self._pass()
                if not loop or not self._heard:
                    return
                self._start_ns += (
                    round(self._recording.duration_s * NS_PER_S / self._rate) + LEAD_NS
                )
                for source in sorted(self._heard):
                    self._line.enqueue(self._start_ns - 1, _Due(self._start_ns - 1, _again(source)))
        finally:
            self._line.close()

    async def _pass(self) -> None:
        batches = self._batches()
        while batch := await asyncio.to_thread(next, batches, None):
            for due in batch:
                self._line.enqueue(due.t_ns, due)
            await self._until_few_wait(_LOW)
        await self._until_few_wait(0)

    async def _until_few_wait(self, count: int) -> None:
        while len(self._line) > count:
            self._low.clear()
            await self._low.wait()
        if self._failure is not None:
            raise self._failure

    def _deliver(self, due: _Due) -> None:
        self.position_s = (due.t_ns - self._start_ns) * self._rate / NS_PER_S
        try:
            self._emit(due.event)
        except Exception as exc:  # a bug of the receiver: raised where the replay is awaited
            self._failure = exc
            self._line.clear()
        if len(self._line) in (0, _LOW):
            self._low.set()

    def _batches(self) -> Iterator[list[_Due]]:
        """Read and mapped in a thread; a batch is never empty."""
        batch: list[_Due] = []
        for stamped in self._recording.stamped_events():
            if self._sources is not None and source_of(stamped.event.source) not in self._sources:
                continue
            if isinstance(stamped.event, ImuSample | SensorReadings) and self._rate != 1.0:
                continue  # at another speed the same motion has other rates and forces
            self._heard.add(stamped.event.source)
            batch.append(_Due(self._here(stamped.t_ns), self._mapped(stamped)))
            if len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _here(self, t_ns: int) -> int:
        since_ns = t_ns - self._begin_ns
        return self._start_ns + (since_ns if self._rate == 1.0 else round(since_ns / self._rate))

    def _foreign(self, source: str, t_foreign_ns: int) -> int:
        first_ns = self._first_foreign_ns.setdefault(source, t_foreign_ns)
        if self._rate == 1.0:
            return t_foreign_ns
        return first_ns + round((t_foreign_ns - first_ns) / self._rate)

    def _mapped(self, stamped: StampedEvent) -> SourceEvent:
        event = stamped.event
        source = event.source
        here = self._here
        match event:
            case SourceFrame(t_foreign_ns=t_ns):
                return SourceFrame(
                    source,
                    event.frame_number,
                    None if t_ns is None else self._foreign(source, t_ns),
                    here(event.t_arrival_ns),
                    event.subjects,
                    event.p_m,
                    event.q_xyzw,
                    event.tracked,
                    event.skeletons,
                    event.markers,
                    round(event.latency_ns / self._rate),
                )
            case ImuSample(t_foreign_ns=t_ns):
                foreign_ns = None if t_ns is None else self._foreign(source, t_ns)
                return ImuSample(
                    source, foreign_ns, here(event.t_arrival_ns), event.w_radps, event.f_mps2
                )
            case SensorReadings():
                return replace(event, t_ns=here(event.t_ns), t_arrival_ns=here(event.t_arrival_ns))
            case ClockExchange():
                foreign_ns = self._foreign(source, event.t_foreign_ns)
                return ClockExchange(
                    source, here(event.t_sent_ns), foreign_ns, here(event.t_received_ns)
                )
            case SourceReset():
                return event


def _again(source: str) -> SourceReset:
    return SourceReset(source, "the recording begins again")

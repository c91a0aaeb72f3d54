"""The frame ledger: every latency is a difference of two stamps of one frame."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from itertools import islice
from operator import attrgetter
from typing import Final

from msgspec import UNSET

from vil_bridge.core.frame_header import FrameHeader, FrameStamps
from vil_bridge.core.types import ImageArray, Stamps
from vil_bridge.interfaces.ports import COMPENSATED, FrameSink, GraySink
from vil_bridge.monitoring.frame_records import STAGES, FrameRow
from vil_bridge.monitoring.latency import StageHistogram

RETAINED_FRAMES: Final = 10_000
_SENT: Final = frozenset({"encode", "send"})
_RECEIVED: Final = frozenset({"received"})
_MADE: Final = frozenset(end for _, end in STAGES.values()) - _SENT - _RECEIVED
"""Ends of the stages that are accounted when the picture is complete.

The other two when it left, and arrived.
"""
_BATCH: Final = 32
"""So many frames are accounted at once.

One by one, each finds the code and the counts in no cache.
"""

_Stage = tuple[Callable[[Stamps], int | None], Callable[[Stamps], int | None], StageHistogram]


class FrameLedger:
    """One camera's frames.

    Stage latencies since the start, and rows of the newest :data:`RETAINED_FRAMES`.

    The relay thread opens rows, the sender completes them, the control channel closes them when the
    far end reports.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[int, FrameRow] = OrderedDict()
        self._histograms = {name: StageHistogram() for name in STAGES}
        self._made, self._sent, self._received = (
            self._ending(ends) for ends in (_MADE, _SENT, _RECEIVED)
        )
        self._unaccounted: deque[tuple[Stamps, tuple[_Stage, ...]]] = deque()

    @property
    def stages(self) -> Mapping[str, StageHistogram]:
        """Latencies by stage, of all frames so far."""
        self._account()
        return self._histograms

    def record_offer(self, header: FrameHeader) -> None:
        """Record a picture that is handed over.

        Of a frame's the first counts, or the first compensated one.
        """
        with self._lock:
            row = self._rows.get(header.frame_id)
            if row is None:
                self._open(header, ledger_stamps(header))
            elif row.variant != COMPENSATED == header.variant:
                self._open(header, row.stamps)

    def record_output(self, frame_id: int, stamps: Stamps) -> None:
        """Record that a frame is complete, with or without a reader."""
        row = self._rows.get(frame_id)
        if row is not None:
            row.stamps.output = stamps.output
        self._unaccounted.append((stamps, self._made))

    def record_send(self, frame_id: int, stamps: FrameStamps) -> None:
        """Record that a frame leaves for its first reader."""
        with self._lock:
            row = self._rows.get(frame_id)
            if row is not None and row.stamps.send is None:
                row.stamps.encode = stamps.encode or None
                row.stamps.send = stamps.send or None
                self._unaccounted.append((row.stamps, self._sent))

    def settle(self) -> None:
        """Account the stages of the last frames once they are many.

        Call it where no picture waits for that.
        """
        if len(self._unaccounted) >= _BATCH:
            self._account()

    def record_reception(self, frame_id: int, t_received_ns: int) -> Stamps | None:
        """Record a reader's report and return the stamps.

        None = unknown, or not the frame's first reader.
        """
        with self._lock:
            row = self._rows.get(frame_id)
            if row is None or row.stamps.send is None or row.stamps.received is not None:
                return None
            row.stamps.received = t_received_ns
            self._unaccounted.append((row.stamps, self._received))
            return row.stamps

    def rows(self, last: int = RETAINED_FRAMES) -> list[FrameRow]:
        """Return the newest frames, oldest first; what is still under way goes on changing."""
        with self._lock:
            return list(islice(reversed(self._rows.values()), last))[::-1]

    def _open(self, header: FrameHeader, stamps: Stamps) -> None:
        self._rows[header.frame_id] = frame_row(header, stamps)
        if len(self._rows) > RETAINED_FRAMES:
            self._rows.popitem(last=False)

    def _ending(self, ends: frozenset[str]) -> tuple[_Stage, ...]:
        """Return the stages with these ends, ready to be accounted."""
        return tuple(
            (attrgetter(begin), attrgetter(end), self._histograms[name])
            for name, (begin, end) in STAGES.items()
            if end in ends
        )

    def _account(self) -> None:
        with self._lock:
            while self._unaccounted:
                stamps, stages = self._unaccounted.popleft()
                for begin, end, histogram in stages:
                    a = begin(stamps)
                    b = end(stamps)
                    if a is not None and b is not None:
                        histogram.record(b - a, b)


def ledger_stamps(header: FrameHeader) -> Stamps:
    """Return the stamps of a header as the ledger goes on with them."""
    stamps = header.stamps_ns
    return Stamps(stamps.capture, stamps.arrival, stamps.request, stamps.image, stamps.warp)


def frame_row(header: FrameHeader, stamps: Stamps) -> FrameRow:
    """Return the ledger's row of a picture."""
    return FrameRow(
        header.frame_id,
        header.variant,
        header.t_display_ns,
        header.tracking,
        header.compensation,
        stamps,
    )


class LedgerSink:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` that records in the ledger what it hands on
    to another one.

    A rendering that is shown again is not another frame, and has no row of its own.
    """

    def __init__(self, sink: FrameSink, ledger: FrameLedger) -> None:
        self._sink = sink
        self._ledger = ledger
        self.wanted = sink.wanted
        self.flush = sink.flush
        self.close = sink.close
        self._gray = sink if isinstance(sink, GraySink) else None

    def wants_gray(self, variant: str) -> bool:
        """Return the answer of the sink behind."""
        return self._gray is not None and self._gray.wants_gray(variant)

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Record the frame before it can be sent."""
        if header.render_age_ns is UNSET:
            self._ledger.record_offer(header)
        self._sink.offer(header, pixels)

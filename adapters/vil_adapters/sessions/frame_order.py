"""Judge frame numbers: losses, repeats, late datagrams and restarts of the server."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from vil_adapters.sessions.reports import ResetReporter
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.supervisor import Status


class FrameVerdict(Enum):
    """Result of judging one frame number."""

    NEW = auto()
    DUPLICATE = auto()
    REORDERED = auto()
    OUT_OF_SEQUENCE = auto()
    RESTARTED = auto()


DROPPED: Final = {
    FrameVerdict.DUPLICATE: "duplicates",
    FrameVerdict.REORDERED: "reordered",
    FrameVerdict.OUT_OF_SEQUENCE: "out_of_sequence",
}
"""Counter of each verdict whose frame must not be used."""

SKIPPED: Final = 1000
FASTEST_HZ: Final = 2000
"""The next number is at most :data:`SKIPPED` further, and :data:`FASTEST_HZ` more for each
second since the last.
"""

_NEW: Final = FrameVerdict.NEW


class _Frame(NamedTuple):
    number: int
    t_capture_ns: int | None


class _Candidate(NamedTuple):
    number: int
    t_arrival_ns: int


class FrameOrder:
    """Sequence of frame numbers of one server.

    A number that does not follow is either a late datagram or the first frame after a restart. One
    such frame proves nothing and is dropped. A second one that follows it, with no frame of the old
    sequence between, proves the restart: at most 8 numbers later, and 2000 more for each second
    between both (a server may send every tenth frame). If it may be a late frame of the old
    sequence as well, the old sequence must have been silent for 0.5 s; the second frame may then
    repeat the first (paused playback). A frame may be late when its number and its capture time lie
    within what was received of this sequence or of the one before it.

    Attributes:
        lost: skipped numbers so far; includes numbers that came late.
        repeated: the number that the last frame shared with the one before it; None when it
            differed.
    """

    _WINDOW: Final = 8
    _SILENCE_NS: Final = 500 * NS_PER_MS

    def __init__(self) -> None:
        self.lost = 0
        self.repeated: int | None = None
        self._first: _Frame | None = None
        self._previous: tuple[_Frame, _Frame] | None = None
        self._newest = _Frame(0, None)
        self._t_newest_ns = 0
        self._candidate: _Candidate | None = None

    def restart(self) -> None:
        """Accept the next number as the first one."""
        self._first = self._previous = self._candidate = self.repeated = None

    @property
    def newest(self) -> tuple[int, int | None, int] | None:
        """Number, capture and arrival of the frame accepted last.

        None where any may be the first.
        """
        if self._first is None:
            return None
        return self._newest.number, self._newest.t_capture_ns, self._t_newest_ns

    def follow(self, number: int, t_capture_ns: int | None, t_arrival_ns: int, lost: int) -> None:
        """Go on behind new frames that were judged elsewhere; this is the last of them."""
        self._newest = _Frame(number, t_capture_ns)
        self._t_newest_ns = t_arrival_ns
        self.lost = lost
        self._candidate = self.repeated = None

    def judge(
        self, number: int, t_arrival_ns: int, t_capture_ns: int | None = None
    ) -> FrameVerdict:
        """Place a received frame.

        Args:
            number: of the frame.
            t_arrival_ns: bridge time of arrival.
            t_capture_ns: the server's own capture time, None where the stream has none.
        """
        frame = _Frame(number, t_capture_ns)
        if self._first is None:
            self._accept_first(frame, t_arrival_ns)
            return _NEW
        newest = self._newest
        step = number - newest.number
        self.repeated = None if step else number
        if step == 0:
            self._candidate = None
            return FrameVerdict.DUPLICATE
        elapsed_ns = t_arrival_ns - self._t_newest_ns
        most = SKIPPED + elapsed_ns * FASTEST_HZ // NS_PER_S
        if 0 < step <= most and not _before(t_capture_ns, newest.t_capture_ns):
            self.lost += step - 1
            self._newest = frame
            self._t_newest_ns = t_arrival_ns
            self._candidate = None
            return _NEW
        candidate = self._candidate
        self._candidate = _Candidate(number, t_arrival_ns)
        if candidate is not None and self._is_proof(candidate, frame, t_arrival_ns):
            self._accept_first(frame, t_arrival_ns)
            return FrameVerdict.RESTARTED
        return FrameVerdict.REORDERED if -self._WINDOW <= step < 0 else FrameVerdict.OUT_OF_SEQUENCE

    def _accept_first(self, frame: _Frame, t_arrival_ns: int) -> None:
        self._previous = None if self._first is None else (self._first, self._newest)
        self._first = frame
        self._newest = frame
        self._t_newest_ns = t_arrival_ns
        self._candidate = None

    def _is_proof(self, candidate: _Candidate, frame: _Frame, t_arrival_ns: int) -> bool:
        """Return whether a frame that came after the candidate proves a restart."""
        silent = t_arrival_ns - self._t_newest_ns >= self._SILENCE_NS
        step = frame.number - candidate.number
        most = self._WINDOW + (t_arrival_ns - candidate.t_arrival_ns) * FASTEST_HZ // NS_PER_S
        return (0 if silent else 1) <= step <= most and (silent or not self._may_be_late(frame))

    def _may_be_late(self, frame: _Frame) -> bool:
        """Return whether the frame can belong to this sequence, as far as it came, or to the one
        before it.
        """
        assert self._first is not None
        spans = [(self._first, self._newest)]
        if self._previous is not None:
            spans.append(self._previous)
        return any(
            first.number <= frame.number <= newest.number
            and not _before(newest.t_capture_ns, frame.t_capture_ns)
            and not _before(frame.t_capture_ns, first.t_capture_ns)
            for first, newest in spans
        )


def _before(t_ns: int | None, other_ns: int | None) -> bool:
    return t_ns is not None and other_ns is not None and t_ns < other_ns


class FrameFilter:
    """Frame order of one run of a source.

    Counts what is dropped and reports restarts of the server.

    Counters of the status: ``lost`` and those of :data:`DROPPED`.
    """

    def __init__(self, source: str, emit: Emit, status: Status) -> None:
        self._order = FrameOrder()
        self._resets = ResetReporter(source, emit, status)
        self._counters = status.counters

    def judge(
        self, number: int, t_arrival_ns: int, t_capture_ns: int | None = None
    ) -> FrameVerdict | None:
        """Place a received frame as :meth:`FrameOrder.judge` does; None = it must not be used."""
        verdict = self._order.judge(number, t_arrival_ns, t_capture_ns)
        self._counters["lost"] = self._order.lost
        if verdict is _NEW:
            return verdict
        if verdict in DROPPED:
            self._counters[DROPPED[verdict]] += 1
            return None
        if verdict is FrameVerdict.RESTARTED:
            self._resets.report(f"frame numbers go on from {number}")
        return verdict

"""Receiver for any transport: caches blocks, judges frame numbers, converts and emits."""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from vil_adapters.sessions.frame_order import DROPPED, FrameOrder, FrameVerdict
from vil_adapters.sessions.reports import DropLog, ExpectedSubjects, ResetReporter
from vil_adapters.vicon.blocks import (
    DYNAMIC,
    FRAME_INFO,
    FRAME_RATE_INFO,
    HARDWARE_FRAME_INFO,
    LATENCY_INFO,
    OBJECT_QUALITY,
    STATIC,
    SUBJECT_INFO,
    TICKS_PER_S,
    TIMECODE,
)
from vil_adapters.vicon.codec import CONTENTS, Blocks
from vil_adapters.vicon.convert import ViconConverter, latency_ns, period_ticks, ticks_to_ns
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.supervisor import Status


class BlockCache:
    """The last known blocks of a stream.

    Static and dynamic blocks are two groups. A packet without any block of a group leaves the whole
    group as it was; otherwise a type that is missing stays only if the packet lists it as
    unchanged, and is gone if not (vicon_datastream.md section 3).

    Attributes:
        blocks: bodies by type, packet and cache together. A list that did not change is the same
            object.
    """

    def __init__(self) -> None:
        self.blocks: Blocks = {}

    def update(self, packet: Blocks) -> None:
        """Update the blocks with a packet.

        Raises:
            ProtocolError: the packet's table of contents is malformed; the cache does not change.
        """
        contents = CONTENTS.first(packet)
        unchanged: AbstractSet[int] = contents.unchanged if contents is not None else frozenset()
        merged: dict[int, list[bytes]] = {}
        for group in (STATIC, DYNAMIC):
            brought = group & packet.keys()
            retained = (group & unchanged) - brought if brought else group
            merged.update((kind, self.blocks[kind]) for kind in retained & self.blocks.keys())
            merged.update((kind, self._same_or_new(kind, packet[kind])) for kind in brought)
        self.blocks = merged

    def _same_or_new(self, kind: int, bodies: list[bytes]) -> list[bytes]:
        """Return the known list for a repeated static block, so that it is not read again."""
        known = self.blocks.get(kind)
        return known if kind in STATIC and known is not None and known == bodies else bodies


_FACTS_PERIOD_NS: Final = 1 * NS_PER_S
_CLOCK_TOLERANCE_NS: Final = 100 * NS_PER_MS
_MAX_ROUND_TRIPS: Final = 300
_ENOUGH_PINGS: Final = 50
_NO_TIMECODE: Final = 0xFFFFFFFF
_MS_PER_S: Final = 1e3


class FrameClock:
    """The frame number as the server's clock, since the stream carries no other.

    Args:
        datagrams: frames may come late; a number that goes back then needs proof to be a new clock.

    Attributes:
        lost: numbers that never came.
        period_ticks: of a frame, in ticks of 135 MHz; 0 = unknown.
    """

    def __init__(self, *, datagrams: bool = False) -> None:
        self.lost = 0
        self.period_ticks = 0
        self._order = FrameOrder() if datagrams else None
        self._last: int | None = None
        self._last_arrival_ns = 0
        self._reconnected = False

    def reconnected(self) -> None:
        """Record a new connection: perhaps to another server."""
        self._reconnected = True

    def judge(self, frame_id: int, ticks: int, t_arrival_ns: int) -> FrameVerdict:
        """Place a frame after the ones before it.

        A number that goes back, another period, or after a pause of the connection a number that
        does not fit the time that passed, all mean that the clock is a new one.
        """
        last = self._last
        before_ns = self._last_arrival_ns
        verdict = FrameVerdict.NEW
        if self._order is not None:
            verdict = self._order.judge(frame_id, t_arrival_ns)
        if frame_id == last and ticks == self.period_ticks:
            return FrameVerdict.DUPLICATE
        if verdict in DROPPED:
            return verdict
        if last is not None and verdict is FrameVerdict.NEW:
            if (
                frame_id < last
                or ticks != self.period_ticks
                or self._is_other_server(frame_id - last, t_arrival_ns)
            ):
                verdict = FrameVerdict.RESTARTED
            else:
                self.lost += frame_id - last - 1
        self._last = frame_id
        self._last_arrival_ns = max(before_ns, t_arrival_ns)
        self._reconnected = False
        self.period_ticks = ticks
        return verdict

    def stamp_ns(self, frame_id: int) -> int | None:
        """Return the capture time in the server's clock; None while the period is unknown."""
        return ticks_to_ns(frame_id * self.period_ticks) if self.period_ticks else None

    def _is_other_server(self, frames: int, t_arrival_ns: int) -> bool:
        if not self._reconnected or not self.period_ticks:
            return False
        expected_ns = t_arrival_ns - self._last_arrival_ns
        return abs(ticks_to_ns(frames * self.period_ticks) - expected_ns) > _CLOCK_TOLERANCE_NS


class PingTimes:
    """Round trips of pings, as a bound of the transit time.

    The answer waits for the server's next packet, for up to a frame. The part of the shortest round
    trip of several seconds beyond a frame is transit time for certain. A longer estimate would stay
    in the lower envelope of the stamps, and not be corrected for long.
    """

    def __init__(self) -> None:
        self._round_trips_ns: deque[int] = deque(maxlen=_MAX_ROUND_TRIPS)

    def add(self, round_trip_ns: int) -> None:
        """Add the round trip of a ping."""
        self._round_trips_ns.append(round_trip_ns)

    @property
    def shortest_ns(self) -> int | None:
        """Return the shortest round trip, its waiting included; None while nothing is known."""
        return min(self._round_trips_ns, default=None)

    def one_way_ns(self, period_ns: int) -> int:
        """Return the shortest transit time of a packet; 0 until enough pings came back."""
        if len(self._round_trips_ns) < _ENOUGH_PINGS:
            return 0
        return max(0, min(self._round_trips_ns) - period_ns) // 2


class _Frame(NamedTuple):
    """A frame that is not handed on yet, with what was remembered when it came.

    A packet without one may follow.
    """

    id: int
    blocks: Blocks
    t_arrival_ns: int


class ViconReceiver:
    """Stream of one server across connections.

    Args:
        name: of the source.
        subjects: names that must be there; a missing one is warned of once.
        datagrams: frames come by multicast, hence may overtake each other.

    Attributes:
        emitted_ns: arrival of the newest frame that was emitted; 0 before the first.
    """

    def __init__(
        self,
        name: str,
        converter: ViconConverter,
        subjects: tuple[str, ...],
        emit: Emit,
        status: Status,
        *,
        datagrams: bool = False,
    ) -> None:
        self.emitted_ns = 0
        self.clock = FrameClock(datagrams=datagrams)
        self.pings = PingTimes()
        self._converter = converter
        self._expected = ExpectedSubjects(name, subjects)
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._cache = BlockCache()
        self._waiting: _Frame | None = None
        self._facts_ns = 0
        self._drops = DropLog(name, status.counters)

    def connected(self) -> None:
        """Begin a new connection, on which the server repeats all blocks."""
        self._cache = BlockCache()
        self._waiting = None
        self.pings = PingTimes()
        self.clock.reconnected()

    def handle(self, packet: Blocks, t_arrival_ns: int) -> bool:
        """Store a packet; return True when it brought a new frame, which :meth:`deliver` emits.

        Raises:
            ProtocolError: one of its blocks is malformed.
        """
        frame_id = FRAME_INFO.first(packet)
        self._cache.update(packet)
        if frame_id is None:
            return False
        verdict = self.clock.judge(frame_id, period_ticks(self._cache.blocks), t_arrival_ns)
        self._status.counters["lost"] = self.clock.lost
        if verdict in DROPPED:
            self._status.counters[DROPPED[verdict]] += 1
            return False
        if verdict is FrameVerdict.RESTARTED:
            self._resets.report(f"the server's frame clock is a new one, at frame {frame_id + 1}")
        if self._waiting is not None:
            self._status.counters["superseded"] += 1
        self._waiting = _Frame(frame_id, self._cache.blocks, t_arrival_ns)
        return True

    def deliver(self) -> None:
        """Emit the newest frame, if one waits.

        Raises:
            ProtocolError: one of its blocks is malformed.
        """
        if self._waiting is None:
            return
        (frame_id, blocks, t_arrival_ns), self._waiting = self._waiting, None
        converter = self._converter
        if converter.describe(blocks):
            self._report_subjects()
        if SUBJECT_INFO.type not in blocks:
            self._status.counters["undescribed"] += 1
            return
        transit_ns = self.pings.one_way_ns(ticks_to_ns(self.clock.period_ticks))
        known_ns = latency_ns(blocks) + transit_ns
        frame = converter.frame(
            blocks, frame_id + 1, self.clock.stamp_ns(frame_id), known_ns, t_arrival_ns
        )
        self._emit(frame)
        self.emitted_ns = t_arrival_ns
        for reason, count in (
            ("undescribed", converter.undescribed),
            ("invalid", converter.invalid),
        ):
            if count:
                self._status.counters[reason] += count
        self._status.running()
        if t_arrival_ns - self._facts_ns > _FACTS_PERIOD_NS:
            self._facts_ns = t_arrival_ns
            shortest_ns = self.pings.shortest_ns
            ping_ms: float | None = None
            if shortest_ns is not None:
                ping_ms = shortest_ns / NS_PER_MS
            self._status.facts.update(_stream_facts(blocks, self.clock.period_ticks))
            self._status.facts["ping_ms"] = ping_ms

    def malformed(self, what: str, error: ProtocolError) -> None:
        """Count it, log the first."""
        self._drops.count("malformed", "%s: %s", what, error)

    def _report_subjects(self) -> None:
        converter = self._converter
        skeletons = [model.name for model in converter.skeletons]
        self._status.facts.update(
            subjects=list(converter.bodies),
            skeletons=skeletons,
            up_axis="y" if converter.y_up else "z",
        )
        self._expected.compare((*converter.subjects, *converter.bodies))


def _stream_facts(blocks: Blocks, ticks: int) -> dict[str, Any]:
    """Return the facts of a stream for the status.

    Raises:
        ProtocolError: a block is malformed.
    """
    facts: dict[str, Any] = {"frame_rate_hz": None}
    if ticks:
        facts["frame_rate_hz"] = TICKS_PER_S / ticks
    facts["latency_ms"] = {s.name: s.seconds * _MS_PER_S for s in LATENCY_INFO.first(blocks) or ()}
    rates = FRAME_RATE_INFO.first(blocks)
    if rates:
        facts["rates_hz"] = dict(rates)
    names = {subject.id: subject.name for subject in SUBJECT_INFO.all(blocks)}
    quality = {
        names[q.subject]: q.quality for q in OBJECT_QUALITY.all(blocks) if q.subject in names
    }
    if quality:
        facts["quality"] = quality
    timecode = TIMECODE.first(blocks)
    if timecode is not None and timecode.standard != _NO_TIMECODE:
        facts["timecode"] = str(timecode)
    hardware_frame = HARDWARE_FRAME_INFO.first(blocks)
    if hardware_frame is not None:
        facts["hardware_frame"] = hardware_frame
    return facts

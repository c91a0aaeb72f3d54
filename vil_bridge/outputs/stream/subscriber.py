"""One reader of one camera's stream.

Its preferences, its credit, and the one frame that waits for it.

The hub (loop's thread) gives credit back, the sink (relay thread, or the reader's own) spends it;
the lock keeps the two from missing each other.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.outputs.stream.event_encoder import EventCameraEncoder
from vil_bridge.outputs.stream.messages import Register
from vil_bridge.protocols.image_codecs import EncodingOptions
from vil_bridge.runtime.pacing import FrameRateLimiter

CREDIT: Final = 2  # frames on their way at most: one is received while the next is under way
_LOST_AFTER_NS: Final = 300 * NS_PER_MS
_UNHEARD_AFTER_NS: Final = 2 * NS_PER_S  # TCP loses no picture, but its credit may be lost
_GIVEN_UP: Final = 8
"""Frames without a credit whose late acknowledgement still shows how slow the link is."""

_STEP: Final = 10
_FLOOR: Final = 30
_JUDGED: Final = 20
_LOSERS: Final = 5
_CLEAN: Final = 60

_LINK_JUDGED: Final = 5
_LINK_SECOND: Final = 1
"""The second quickest of those judged counts.

A reader that stood still sees one picture come too quickly.
"""
_NOTICED_NS: Final = 5 * NS_PER_MS
_RESERVE: Final = 0.2
_FORGOTTEN_NS: Final = NS_PER_S

T = TypeVar("T")


class AdaptiveQuality:
    """JPEG quality that falls while pictures find no credit, and rises again when none has for a
    while.

    Attributes:
        value: the quality now, in steps, so that readers on similar links share encodings.
    """

    def __init__(self, wanted: int) -> None:
        self.value = wanted
        self._wanted = wanted
        self._seen = self._lost = self._clean = 0

    def record(self, *, superseded: bool) -> None:
        """Account one picture: whether it took the place of one that was still waiting."""
        self._seen += 1
        self._lost += superseded
        self._clean = 0 if superseded else self._clean + 1
        if self._lost >= _LOSERS:
            self.value = max(min(_FLOOR, self._wanted), self.value - _STEP)
        elif self._clean >= _CLEAN:
            self.value = min(self._wanted, self.value + _STEP)
            self._clean = 0
        if self._lost >= _LOSERS or self._seen >= _JUDGED:
            self._seen = self._lost = 0


class LinkEstimate:
    """Model of a link that carries one picture after the other, each as long as those before it.

    Bridge time.

    It learns how long the link is busy with a picture from the receive times that come with the
    credits.
    """

    def __init__(self) -> None:
        self._newest: deque[int] = deque(maxlen=_LINK_JUDGED)
        self._busy_ns = self._delay_ns = 0
        self._t_received_ns = 0

    def delivered(
        self, t_sent_ns: int, t_received_ns: int, *, under_way: bool, delay_ns: int = 0
    ) -> None:
        """Account a picture, sent and received by the reader's clock.

        Args:
            t_sent_ns: when it began to leave.
            t_received_ns: when all of it had come.
            under_way: others are.
            delay_ns: of the way, which keeps the link busy with nothing.
        """
        if self._is_forgotten(t_received_ns, under_way):
            self._newest.clear()
        self._delay_ns = min(delay_ns, t_received_ns - t_sent_ns)
        self._newest.append(
            max(0, t_received_ns - max(t_sent_ns + self._delay_ns, self._t_received_ns))
        )
        self._busy_ns = sorted(self._newest)[min(_LINK_SECOND, (len(self._newest) - 1) // 2)]
        self._t_received_ns = max(t_received_ns, self._t_received_ns)

    def busy_ns(self, t_ns: int, *, under_way: bool) -> int:
        """Return how long a picture occupies the link, as known at ``t_ns``.

        0 where that is too short to matter, and where nothing has come for so long that the link
        has to be tried: by one picture, since while any is ``under_way`` the last known time holds.
        """
        return (
            0
            if self._busy_ns < _NOTICED_NS or self._is_forgotten(t_ns, under_way)
            else self._busy_ns
        )

    def clear_ns(self, sent_ns: Iterable[int]) -> int:
        """Return when the last of the pictures under way is expected at the reader, from when
        they were sent.
        """
        t_ns = self._t_received_ns
        for t_sent_ns in sent_ns:
            t_ns = max(t_ns, t_sent_ns) + self._busy_ns
        return t_ns

    def next_ns(self, t_ns: int, sent_ns: Iterable[int]) -> int:
        """Return when another picture may follow those under way.

        Shortly before the link is free, so that none waits.

        The last fifth of a picture is the reserve that hides the link's own delay.
        """
        busy_ns = self.busy_ns(t_ns, under_way=True)
        return self.clear_ns(sent_ns) - round(_RESERVE * busy_ns) if busy_ns else t_ns

    def transit_ns(self, t_ns: int, sent_ns: list[int]) -> int:
        """Return how long a picture sent at ``t_ns``, behind those under way, takes to the reader.

        0 = unknown.
        """
        if self._is_forgotten(t_ns, bool(sent_ns)):
            return 0
        return self._delay_ns + self._busy_ns + max(0, self.clear_ns(sent_ns) - t_ns)

    def _is_forgotten(self, t_ns: int, under_way: bool) -> bool:
        return not under_way and t_ns - self._t_received_ns > _FORGOTTEN_NS


class SubscriberThread(Protocol):
    """Thread of one reader, which sends what waits for it."""

    def wake(self) -> None:
        """Look for a waiting frame and for credit."""
        ...

    def close(self) -> None:
        """End soon; never blocks."""
        ...

    def report(self) -> dict[str, Any]:
        """Return its state for status pages."""
        ...


class Subscriber(Generic[T]):
    """A registered reader; ``T`` is what waits for it.

    Attributes:
        token, identity: its identity on the data socket, secret, as text and as bytes.
        address: IP address of its control connection when it registered.
        thread: sends to it; None = the relay thread, over the data socket.
        sent, acknowledged: frames so far.
        dropped: frames that it will never see, by reason.
        t_heard_ns: when it last said anything, machine's clock.
        due_ns: bridge time at which to ask again for the frame that waits and that :meth:`pop` held
            back; None = never.
        too_old: frames that arrived, and were not handed over there since they were older than
            ``max_age_ms``.
    """

    def __init__(self, token: str, registration: Register, address: str = "") -> None:
        self.token, self.identity = token, token.encode()
        self.address = address
        self.name = registration.name
        self.camera = registration.camera
        self.modality = registration.modality
        self.variant = registration.variant
        self.transport = registration.transport
        self.thread: SubscriberThread | None = None
        self.sent = 0
        self.acknowledged = 0
        self.dropped: Counter[str] = Counter()
        self.t_registered_ns = now_ns()
        self.t_heard_ns = machine_ns()
        self.due_ns: int | None = None
        self.too_old = 0
        self.clock_uncertainty_ns: int | None = None
        self._lossy = registration.transport == "udp"
        self._options = EncodingOptions(
            registration.encoding, registration.color, registration.quality
        )
        self.events = EventCameraEncoder() if registration.encoding == "events" else None
        self._rate_limiter = (
            None if registration.rate_hz is None else FrameRateLimiter(registration.rate_hz)
        )
        self._quality = (
            AdaptiveQuality(registration.quality)
            if registration.adaptive and registration.encoding == "jpeg"
            else None
        )
        self._lock = threading.Lock()
        self._link = LinkEstimate()
        self._unacknowledged: dict[int, int] = {}  # when sent
        self._given_up: dict[int, int] = {}  # may be under way still
        self._waiting: tuple[int, T] | None = None
        self._offered_ns: deque[int] = deque(maxlen=_LINK_JUDGED)

    @property
    def in_flight(self) -> int:
        """Frames sent and not acknowledged."""
        return len(self._unacknowledged)

    @property
    def encoding_options(self) -> EncodingOptions:
        """Encoding of its pictures at this moment."""
        if self._quality is None:
            return self._options
        return EncodingOptions(self._options.encoding, self._options.color, self._quality.value)

    def enqueue(self, frame_id: int, t_display_ns: int, item: T) -> None:
        """Let ``item`` wait for credit unless it is beyond the wanted rate.

        The one that waited is superseded.
        """
        with self._lock:
            if self._rate_limiter is not None and not self._rate_limiter.passes(t_display_ns):
                self.dropped["thinned"] += 1
                return
            self._offered_ns.append(now_ns())
            superseded = self._waiting is not None
            if superseded:
                self.dropped["superseded"] += 1
            if self._quality is not None:
                self._quality.record(superseded=superseded)
            self._waiting = (frame_id, item)

    def pop(self) -> tuple[int, T] | None:
        """Spend a credit on the waiting frame.

        None when nothing waits, or there is no credit, or the frame would only wait in the link. At
        :attr:`due_ns` a frame on its way counts as lost, or the link is free: then ask again, also
        where no newer frame has come.
        """
        t_ns = now_ns()
        with self._lock:
            oldest_ns = next(iter(self._unacknowledged.values()), t_ns)
            # Most calls, and the cheapest.
            if self._waiting is None and t_ns - oldest_ns <= _LOST_AFTER_NS:
                self.due_ns = None
                return None
            if t_ns - oldest_ns > _LOST_AFTER_NS:
                limit_ns = self._lost_after_ns(t_ns)
                self._lose(
                    [i for i, sent_ns in self._unacknowledged.items() if t_ns - sent_ns > limit_ns]
                )
            self.due_ns = None
            if self._waiting is None:
                return None
            if len(self._unacknowledged) >= CREDIT:
                self.due_ns = min(self._unacknowledged.values()) + self._lost_after_ns(t_ns) + 1
                return None
            if self._unacknowledged:
                due_ns = self._link.next_ns(t_ns, self._unacknowledged.values())
                if due_ns > t_ns:
                    self.due_ns = due_ns
                    return None
            popped = self._waiting
            self._waiting = None
            self._unacknowledged[popped[0]] = t_ns
            return popped

    def transit_ns(self) -> int:
        """Return how long the frame popped last is expected to be under way.

        0 = unknown, or no time to speak of.
        """
        t_ns = now_ns()
        with self._lock:
            return self._link.transit_ns(t_ns, list(self._unacknowledged.values())[:-1])

    def stretch_ns(self) -> int:
        """Return how long a frame occupies the reader's link where frames come faster than it
        carries them; else 0.
        """
        with self._lock:
            busy_ns = self._busy_ns(now_ns())
            offered_ns = self._offered_ns
            return (
                busy_ns if busy_ns * (len(offered_ns) - 1) > offered_ns[-1] - offered_ns[0] else 0
            )

    def busy_ns(self) -> int:
        """Return how long a frame occupies the reader's link.

        0 = unknown, or no time to speak of.
        """
        with self._lock:
            return self._busy_ns(now_ns())

    def _lost_after_ns(self, t_ns: int) -> int:
        """Return the age at which a frame without acknowledgement counts as lost."""
        return max(_LOST_AFTER_NS if self._lossy else _UNHEARD_AFTER_NS, 3 * self._busy_ns(t_ns))

    def _busy_ns(self, t_ns: int) -> int:
        return self._link.busy_ns(t_ns, under_way=bool(self._unacknowledged))

    def drop(self, frame_id: int, reason: str) -> None:
        """Give back the credit of a popped frame that was not sent."""
        with self._lock:
            self._unacknowledged.pop(frame_id, None)
            self.dropped[reason] += 1
            if self._quality is not None and reason == "too_old":
                self._quality.record(superseded=True)

    def dropped_so_far(self) -> Counter[str]:
        """Return a copy of ``dropped``, for other threads."""
        with self._lock:
            return Counter(self.dropped)

    def acknowledge(
        self, frame_id: int, t_received_ns: int, uncertainty_ns: int = 0
    ) -> tuple[int | None, bool]:
        """Give a credit back; frames sent before this one are lost, or their acknowledgements are.

        Args:
            frame_id: the frame.
            t_received_ns: when it came, bridge time, not in the future.
            uncertainty_ns: of that; half the shortest round trip, which is the delay of the way by
                the reader's clock.

        Returns:
            When the frame was sent (None when it was never sent, already acknowledged or given up
                long ago), and
            whether a frame waits for this credit.
        """
        with self._lock:
            t_sent_ns = self._unacknowledged.pop(frame_id, None)
            if t_sent_ns is not None:
                self.acknowledged += 1
                self._lose(
                    [i for i, sent_ns in self._unacknowledged.items() if sent_ns < t_sent_ns]
                )
            elif (t_sent_ns := self._given_up.pop(frame_id, None)) is None:
                return None, self._waiting is not None
            under_way = bool(self._unacknowledged)
            delay_ns = max(0, uncertainty_ns) if self._lossy else 0
            self._link.delivered(
                t_sent_ns, max(t_sent_ns, t_received_ns), under_way=under_way, delay_ns=delay_ns
            )
            return t_sent_ns, self._waiting is not None

    def _lose(self, frame_ids: list[int]) -> None:
        for frame_id in frame_ids:
            self._given_up[frame_id] = self._unacknowledged.pop(frame_id)
            self.dropped["lost"] += 1
        while len(self._given_up) > _GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    def report(self) -> dict[str, Any]:
        """Return its state for status pages."""
        t_ns = now_ns()
        options = self.encoding_options
        return {
            "name": self.name,
            "address": self.address,
            "modality": self.modality,
            "variant": self.variant,
            "transport": self.transport,
            "encoding": options.encoding,
            "color": options.color,
            "quality": options.quality,
            "connected_s": (t_ns - self.t_registered_ns) / NS_PER_S,
            "heard_age_s": (machine_ns() - self.t_heard_ns) / NS_PER_S,
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "in_flight": self.in_flight,
            "dropped": dict(self.dropped_so_far()),
            "too_old": self.too_old,
            "link_busy_ms": self.busy_ns() / NS_PER_MS,
            "clock_uncertainty_ns": self.clock_uncertainty_ns,
            **({} if self.thread is None else self.thread.report()),
        }

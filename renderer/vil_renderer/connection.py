"""Base of the bridge's clients of all renderer protocols.

Sockets, subscriptions, requests in flight, status.

The bridge binds both ports and renderers connect. High-water marks do not bound a renderer's
backlog (small poses collect in TCP buffers), so only few poses are unanswered at a time. A renderer
that is new, loading or silent is *opening*; each protocol defines how it is opened.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from vil_bridge.core.clock import NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import Modality, RenderedFrame, RenderRequest, View
from vil_bridge.runtime.supervisor import Status
from vil_renderer.connection_config import ConnectionConfig
from vil_renderer.connection_sockets import RendererSockets
from vil_renderer.refusals import RefusalLog

logger = logging.getLogger(__name__)

REPEAT_BASE: Final = 1 << 62
"""First number of repeated poses: beyond all frame ids, which are times in nanoseconds."""
_SUBSCRIPTIONS_PER_CALL: Final = 64
_COUNTERS: Final = (
    *(
        "sent",
        "repeats",
        "answered",
        "unanswered",
        "skipped",
        "refused",
        "malformed",
        "unsupported",
        "blank",
    ),
)
_FLAPPING: Final = 2
_STEADY_TIMEOUTS: Final = 10
"""Time-outs for which a renderer that was overdue twice must answer in time before it counts as
running.
"""

Message = TypeVar("Message")


@dataclass(slots=True)
class PendingRequest(Generic[Message]):
    """A request that went out, perhaps several times.

    ``lost``: why a message of it got no answer.
    """

    request: RenderRequest
    message: Message
    sent: bool = False
    answered: bool = False
    lost: str = ""


class RendererConnection(ABC, Generic[Message]):
    """One renderer connection.

    What ``vil_bridge.interfaces.ports.RendererClient`` promises and no protocol changes.

    ``ready``, ``request`` and ``keep_alive`` belong to one thread, ``receive`` to another.
    Counters: ``sent`` (poses; each becomes one of ``answered``, ``unanswered`` = given up, and
    ``skipped`` = a later one was answered, unless it is in flight or the newest), ``repeats``,
    ``refused`` (could not be sent), ``malformed``, ``unsupported`` (pictures left out), ``blank``
    (all pixels alike), and those of :class:`~vil_bridge.protocols.zmq.peer_socket.PeerCounter`.

    Attributes:
        pose_port, image_port: the ports bound.
        topic: of the poses, which a renderer subscribes to.
        lost_by_newcomers: counter of poses that a renderer had not received when it came.
    """

    topic: ClassVar[bytes]
    lost_by_newcomers: ClassVar[str] = "unanswered"

    def __init__(
        self, name: str, config: ConnectionConfig, scene: str, counters: Sequence[str]
    ) -> None:
        """Bind the ports.

        Args:
            name: of the connection.
            config: of the connection.
            scene: what should be loaded, for people.
            counters: the protocol's own.

        Raises:
            RendererError: a port is taken.
        """
        self.name = name
        self.status = Status(name)
        self.status.counters.update(dict.fromkeys((*_COUNTERS, *counters), 0))
        self._bind = config.bind
        self._scene = scene
        self._max_picture_mib = config.max_picture_mib
        self._answer_timeout_ns = round(config.answer_timeout_s * NS_PER_S)
        self._keep_alive_ns = round(config.keep_alive_s * NS_PER_S)
        self._lock = threading.Lock()  # guards the in-flight table, the state and the status
        self._in_flight: dict[int, tuple[PendingRequest[Message], int]] = {}
        self._topics: Counter[bytes] = Counter()  # subscriptions of all connections
        self._opening = True
        self._seen_picture = False
        self._refusals = RefusalLog(logger, name)
        self._newest: PendingRequest[Message] | None = None
        self._repeats = 0
        self._t_sent_ns = 0
        self._t_heard_ns = 0
        self._overdues = 0
        self._t_overdue_ns = 0
        self._sockets = RendererSockets(
            config.bind,
            config.pose_port,
            config.image_port,
            config.max_picture_mib << 20,
            self.status.counters,
        )
        self.pose_port = self._sockets.pose_port
        self.image_port = self._sockets.image_port
        self._report_waiting()

    # --- for each protocol ---------------------------------------------------------------------

    @abstractmethod
    def _may_send(self, now: int) -> bool:
        """Return whether a connected renderer may be given one more message.

        Gives up what is overdue (lock held).
        """

    @abstractmethod
    def _ask(self, request: RenderRequest) -> None:
        """Send a request. Raises RendererError: it cannot be expressed."""

    @abstractmethod
    def _encode(self, message: Message, number: int) -> Sequence[bytes]:
        """Return the parts of a pose of this number."""

    @abstractmethod
    def _handle(self, parts: list[memoryview], t_image_ns: int) -> RenderedFrame | None:
        """Match a message with its request; None = nothing to show. Raises ProtocolError."""

    @abstractmethod
    def _picture_bytes(self, view: View) -> int:
        """Return the most that the pixels of a view take on the wire."""

    @abstractmethod
    def _why_nothing_comes(self) -> str:
        """Return what to check while a connected renderer does not answer."""

    @abstractmethod
    def _how_to_start(self) -> str:
        """Return what to start where no renderer is connected."""

    # --- the loop's side -----------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Return the number of requests sent and not answered yet."""
        return len(self._in_flight)

    def ready(self) -> bool:
        """Return True when a renderer is connected and may be given one more message."""
        if self._sockets.closed:
            return False
        self._read_subscriptions()
        now = machine_ns()
        with self._lock:
            return self._may_send(now) and bool(self._topics)

    def request(self, request: RenderRequest) -> None:
        """Send a request now.

        One that comes while not :meth:`ready`, or that cannot be expressed, is refused.
        """
        try:
            if not self.ready():
                raise RendererError("the renderer was not ready")
            self._check(request)
            self._ask(request)
        except RendererError as exc:
            self._refuse(str(exc))

    def keep_alive(self) -> None:
        """Repeat the last message when none was sent for ``keep_alive_s``; count peers."""
        if self._sockets.closed:
            return
        with self._lock:
            self._sockets.count_peers()
        # Asked every time, so that a renderer that went away is noticed while it is idle.
        ready = self.ready()
        if ready and self._newest is not None:
            self._repeat(self._newest)

    def _repeat(self, asked: PendingRequest[Message]) -> None:
        if machine_ns() - self._t_sent_ns >= self._keep_alive_ns:
            self._repeats += 1
            self._send(asked, REPEAT_BASE + self._repeats)

    def _check(self, request: RenderRequest) -> None:
        if not 0 < request.frame_id < REPEAT_BASE:
            raise RendererError(f"frame id {request.frame_id} is out of range")
        for view in request.views:
            if self._picture_bytes(view) > self._max_picture_mib << 20:
                raise RendererError(
                    f"pictures of {view.key!r} exceed max_picture_mib = {self._max_picture_mib}"
                )

    def _send(self, asked: PendingRequest[Message], number: int) -> None:
        parts = self._encode(asked.message, number)
        now = machine_ns()
        with self._lock:
            self._repeat_from_now(asked)
            self._in_flight[number] = (asked, now)
            self._t_sent_ns = now
            self.status.counters["repeats" if asked.sent else "sent"] += 1
            asked.sent = True
        self._sockets.send(parts)

    def _refuse(self, reason: str) -> None:
        with self._lock:
            self.status.counters["refused"] += 1
            self.status.facts["refused"] = reason
            self._record_refusal(f"a request was refused: {reason}")

    def _read_subscriptions(self) -> None:
        """Read from the pose socket whether a renderer is connected."""
        for _ in range(_SUBSCRIPTIONS_PER_CALL):
            data = self._sockets.subscription()
            if data is None:
                return
            kind = data[:1]
            topic = data[1:]
            with self._lock:
                if kind not in (b"\x00", b"\x01"):
                    self._count_malformed(f"{len(data)} bytes on the pose port are no subscription")
                elif not self.topic.startswith(topic):
                    continue
                elif kind == b"\x01":
                    self._overdues = 0  # of another renderer
                    # Further ones change nothing: any peer may subscribe repeatedly.
                    first = not self._topics
                    self._topics[topic] += 1
                    if first:
                        self._refusals.reset()
                        self.status.facts.pop("refusals", None)
                        self._reopen(self.lost_by_newcomers)
                else:
                    self._topics -= Counter([topic])
                    # Else a newer connection took its place before the old one was seen to end.
                    if not self._topics:
                        self._reopen("unanswered")

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self, lost: str) -> None:
        """Restart with a new, absent or silent renderer: count its missing answers as ``lost``."""
        self._give_up(lost)
        self._opening = True
        self._report_waiting()

    def _give_up(self, lost: str) -> None:
        given_up = [asked for asked, _ in self._in_flight.values()]
        self._in_flight.clear()
        for asked in given_up:
            self._lose(asked, lost)

    def _lose(self, asked: PendingRequest[Message], lost: str) -> None:
        """Record that one message of a pose gets no answer, and why."""
        asked.lost = lost
        self._account(asked)

    def _account(self, asked: PendingRequest[Message]) -> None:
        """Count a lost pose, once, when no other message of it is in flight or will be sent."""
        open_still = asked is self._newest or any(
            asked is other for other, _ in self._in_flight.values()
        )
        if asked.lost and not asked.answered and not open_still:
            self.status.counters[asked.lost] += 1
            asked.lost = ""

    def _repeat_from_now(self, asked: PendingRequest[Message]) -> None:
        """Make this the pose that is repeated; the one before it gets no further answer."""
        before = self._newest
        self._newest = asked
        if before is not None:
            self._account(before)

    def _overdue(self, now: int) -> bool:
        """Return True when nothing has come for too long since the oldest unanswered pose."""
        if not self._in_flight:
            return False
        _, t_oldest_ns = next(iter(self._in_flight.values()))
        overdue = now - max(t_oldest_ns, self._t_heard_ns) > self._answer_timeout_ns
        if overdue:
            if now - self._t_overdue_ns <= self._steady_ns:
                self._overdues += 1
            else:
                self._overdues = 1
            self._t_overdue_ns = now
        return overdue

    @property
    def _steady_ns(self) -> int:
        return _STEADY_TIMEOUTS * self._answer_timeout_ns

    @property
    def _too_slow(self) -> str:
        """Return the reason to wait although answers come: they were overdue repeatedly.

        Empty without one.
        """
        if self._overdues < _FLAPPING or machine_ns() - self._t_overdue_ns > self._steady_ns:
            return ""
        timeout_s = self._answer_timeout_ns / NS_PER_S
        return (
            f"the renderer is too slow: it left poses unanswered for {timeout_s:g} s more "
            "than once in the last "
            f"{_STEADY_TIMEOUTS * timeout_s:g} s. Ask for fewer or smaller pictures, "
            "choose a plainer profile, or "
            "raise answer_timeout_s"
        )

    def _works(self) -> None:
        """Report that images come: running, unless the renderer answers too late repeatedly."""
        if reason := self._too_slow:
            self.status.facts["too_slow"] = True
            self.status.waiting(reason)
        else:
            self.status.facts.pop("too_slow", None)
            self.status.running()

    def _settle(self, number: int) -> PendingRequest[Message]:
        """Remove an answered pose from the table, and those before it.

        Their answers will not come.
        """
        while True:
            oldest = next(iter(self._in_flight))
            asked, _ = self._in_flight.pop(oldest)
            if oldest == number:
                return asked
            self._lose(asked, self.lost_by_newcomers if self._opening else "skipped")

    def _report_waiting(self) -> None:
        if self._topics:
            self.status.waiting(self._too_slow or self._why_nothing_comes())
        else:
            self.status.facts.pop("connected_since_ns", None)
            self.status.facts.pop("too_slow", None)
            self.status.waiting(
                f"no renderer has connected to {self._bind}:{self.pose_port}: start one: "
                f"{self._how_to_start()}"
            )

    def _count_malformed(self, reason: str) -> None:
        self.status.counters["malformed"] += 1
        self._record_refusal(f"a message was dropped: {reason}")

    def _record_refusal(self, reason: str) -> None:
        self._refusals.add(reason)
        self.status.facts["refusals"] = self._refusals.counts()

    # --- the relay thread's side ---------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor of the image socket, edge-triggered.

        Call :meth:`receive` until it returns None.
        """
        return self._sockets.fileno()

    def receive(self) -> RenderedFrame | None:
        """Return the next answer, None when nothing is waiting."""
        while (parts := self._sockets.receive()) is not None:
            t_image_ns = now_ns()
            try:
                frame = self._handle(parts, t_image_ns)
            except ProtocolError as exc:
                with self._lock:
                    self._count_malformed(str(exc))
                    if self._opening and self._topics:
                        self.status.waiting(
                            f"a renderer is connected, but its answers cannot be read: {exc}"
                        )
                continue
            if frame is not None:
                return frame
        return None

    def close(self) -> None:
        """Release the sockets at once; may be called twice."""
        self._sockets.close()
        self.status.stopped()

    def _judge(self, frame: RenderedFrame, problems: list[str]) -> None:
        """Report problems of the images; only the first ones are checked for content."""
        with self._lock:
            if problems:
                self.status.counters["unsupported"] += len(problems)
                self.status.facts["left_out"] = problems[0]
                for problem in problems:
                    self._record_refusal(f"a picture was left out: {problem}")
                if not frame.images:
                    self.status.waiting(f"no usable picture came: {problems[0]}")
                    return
            if self._seen_picture or self._shows_something(frame):
                self._works()

    def _shows_something(self, frame: RenderedFrame) -> bool:
        """Return False, and report it, where the first picture in colour has one colour only.

        Lock held.
        """
        colour = next((i for i in frame.images if i.view.modality is Modality.RGB), None)
        if colour is None:
            return True
        self._seen_picture = not (colour.pixels == colour.pixels[0, 0]).all()
        if not self._seen_picture:
            self.status.counters["blank"] += 1
            self.status.waiting(
                f"the pictures of {colour.view.key!r} have one colour only: is scene "
                f"{self._scene} loaded, "
                "and does the camera see it?"
            )
        return self._seen_picture

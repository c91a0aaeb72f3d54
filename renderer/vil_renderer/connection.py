"""What the bridge's clients of all renderer protocols share: sockets, subscriptions, requests in flight, words.

The bridge binds both ports and renderers dial in. High-water marks do not bound a renderer's backlog (small
poses pile up in TCP buffers), so only few poses are unanswered at a time. A renderer that is new, loading or
silent is *opening*; how it is opened is the protocol's affair.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from vil_bridge.core.clock import NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import Modality, RenderedFrame, RenderRequest, View
from vil_renderer.connection_config import ConnectionConfig
from vil_renderer.connection_sockets import RendererSockets

__all__ = ["REPEAT_BASE", "Asked", "Connection"]

logger = logging.getLogger(__name__)

REPEAT_BASE: Final = 1 << 62
"""First number of repeated poses: beyond all frame ids, which are times in nanoseconds."""
_SUBSCRIPTIONS_PER_CALL: Final = 64
_COUNTERS: Final = (
    *("sent", "repeats", "answered", "unanswered", "skipped", "refused", "malformed", "unsupported", "blank"),
)

Message = TypeVar("Message")


@dataclass(slots=True)
class Asked(Generic[Message]):
    """A request that went out, perhaps several times."""

    request: RenderRequest
    message: Message
    answered: bool = False


class Connection(ABC, Generic[Message]):
    """One renderer connection: what ``vil_bridge.core.ports.RendererClient`` promises and no protocol changes.

    ``ready``, ``request`` and ``keep_alive`` belong to one thread, ``receive`` to another.
    Counters: ``sent`` (poses), ``repeats``, ``answered``, ``unanswered`` (given up), ``skipped`` (a later one was
    answered), ``refused`` (could not be sent), ``malformed``, ``unsupported`` (pictures left out), ``blank`` (all
    pixels alike), and those of :class:`~vil_bridge.core.wire.zmq_peers.PeerCounter`.

    Attributes:
        pose_port, image_port: the ports bound.
        topic: of the poses, which a renderer subscribes to.
        lost_by_newcomers: counts poses that a renderer had not heard or read when it came.
    """

    topic: ClassVar[bytes]
    lost_by_newcomers: ClassVar[str] = "unanswered"

    def __init__(self, name: str, config: ConnectionConfig, scene: str, counters: Sequence[str]) -> None:
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
        self._in_flight: dict[int, tuple[Asked[Message], int]] = {}
        self._topics: set[bytes] = set()
        self._opening = True
        self._seen_picture = False
        self._newest: Asked[Message] | None = None
        self._repeats = 0
        self._t_sent_ns = 0
        self._t_heard_ns = 0
        self._sockets = RendererSockets(
            config.bind, config.pose_port, config.image_port, config.max_picture_mib << 20, self.status.counters
        )
        self.pose_port, self.image_port = self._sockets.pose_port, self._sockets.image_port
        self._await_renderer()

    # --- what each protocol says for itself ----------------------------------------------------

    @abstractmethod
    def _may_send(self, now: int) -> bool:
        """Whether a connected renderer may be given one more message; gives up what is overdue (lock held)."""

    @abstractmethod
    def _ask(self, request: RenderRequest) -> None:
        """Send a request. Raises RendererError: it cannot be expressed."""

    @abstractmethod
    def _encode(self, message: Message, number: int) -> Sequence[bytes]:
        """The parts of a pose of this number."""

    @abstractmethod
    def _take(self, parts: list[memoryview], t_image_ns: int) -> RenderedFrame | None:
        """Match a message with its request; None = nothing to show. Raises ProtocolError."""

    @abstractmethod
    def _picture_bytes(self, view: View) -> int:
        """The most that the pixels of a view take on the wire."""

    @abstractmethod
    def _why_nothing_comes(self) -> str:
        """What to check while a connected renderer does not answer."""

    @abstractmethod
    def _how_to_start(self) -> str:
        """What to start where no renderer is connected."""

    # --- the loop's side -----------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered yet."""
        return len(self._in_flight)

    def ready(self) -> bool:
        """True when a renderer is connected and may be given one more message."""
        if self._sockets.closed:
            return False
        self._read_subscriptions()
        now = machine_ns()
        with self._lock:
            return self._may_send(now) and bool(self._topics)

    def request(self, request: RenderRequest) -> None:
        """Send a request now. One that comes while not :meth:`ready`, or that cannot be expressed, is refused."""
        try:
            if not self.ready():
                raise RendererError("the renderer was not ready")
            self._check(request)
            self._ask(request)
        except RendererError as exc:
            self._refuse(str(exc))

    def keep_alive(self) -> None:
        """Say again what was said last when nothing was for ``keep_alive_s``; count peers."""
        if self._sockets.closed:
            return
        with self._lock:
            self._sockets.count_peers()
        ready = self.ready()  # asked every time, so that a renderer that went away is noticed while it is idle
        if ready and self._newest is not None:
            self._say_again(self._newest)

    def _say_again(self, asked: Asked[Message]) -> None:
        if machine_ns() - self._t_sent_ns >= self._keep_alive_ns:
            self._repeats += 1
            self._send(asked, REPEAT_BASE + self._repeats)

    def _check(self, request: RenderRequest) -> None:
        if not 0 < request.frame_id < REPEAT_BASE:
            raise RendererError(f"frame id {request.frame_id} is out of range")
        for view in request.views:
            if self._picture_bytes(view) > self._max_picture_mib << 20:
                raise RendererError(f"pictures of {view.key!r} exceed max_picture_mib = {self._max_picture_mib}")

    def _send(self, asked: Asked[Message], number: int) -> None:
        parts = self._encode(asked.message, number)
        self._newest = asked
        now = machine_ns()
        with self._lock:
            self._in_flight[number] = (asked, now)
            self._t_sent_ns = now
            self.status.counters["sent" if number < REPEAT_BASE else "repeats"] += 1
        self._sockets.send(parts)

    def _refuse(self, reason: str) -> None:
        with self._lock:
            self.status.counters["refused"] += 1
            self.status.facts["refused"] = reason
            first = self.status.counters["refused"] == 1
        logger.log(logging.WARNING if first else logging.DEBUG, "%s: a request was refused: %s", self.name, reason)

    def _read_subscriptions(self) -> None:
        """Learn from the pose socket whether a renderer is connected."""
        for _ in range(_SUBSCRIPTIONS_PER_CALL):
            data = self._sockets.subscription()
            if data is None:
                return
            kind, topic = data[:1], data[1:]
            with self._lock:
                if kind not in (b"\x00", b"\x01"):
                    self._count_malformed(f"{len(data)} bytes on the pose port are no subscription")
                elif not self.topic.startswith(topic):
                    continue
                elif kind == b"\x01":
                    self._topics.add(topic)
                    self._reopen(self.lost_by_newcomers)
                else:
                    self._topics.discard(topic)
                    self._reopen("unanswered")

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self, lost: str) -> None:
        """The renderer is new, gone or silent: what it owes will not come, and is counted as ``lost``."""
        self._give_up(lost)
        self._opening = True
        self._await_renderer()

    def _give_up(self, lost: str) -> None:
        self.status.counters[lost] += len(self._in_flight)
        self._in_flight.clear()

    def _overdue(self, now: int) -> bool:
        """Nothing has come for too long since the oldest unanswered pose."""
        if not self._in_flight:
            return False
        _, t_oldest_ns = next(iter(self._in_flight.values()))
        return now - max(t_oldest_ns, self._t_heard_ns) > self._answer_timeout_ns

    def _settle(self, number: int) -> Asked[Message]:
        """Take an answered pose from the table, and those before it: their answers will not come."""
        while True:
            oldest = next(iter(self._in_flight))
            asked, _ = self._in_flight.pop(oldest)
            if oldest == number:
                return asked
            self.status.counters[self.lost_by_newcomers if self._opening else "skipped"] += 1

    def _await_renderer(self) -> None:
        if self._topics:
            self.status.waiting(self._why_nothing_comes())
        else:
            self.status.facts.pop("connected_since_ns", None)
            self.status.waiting(
                f"no renderer has connected to {self._bind}:{self.pose_port}: start one: {self._how_to_start()}"
            )

    def _count_malformed(self, reason: str) -> None:
        self.status.counters["malformed"] += 1
        level = logging.WARNING if self.status.counters["malformed"] == 1 else logging.DEBUG
        logger.log(level, "%s: dropped a message: %s", self.name, reason)

    # --- the relay thread's side ---------------------------------------------------------------

    def fileno(self) -> int:
        """Descriptor of the image socket, edge-triggered: call :meth:`receive` until it returns None."""
        return self._sockets.fileno()

    def receive(self) -> RenderedFrame | None:
        """The next answer, None when nothing is waiting."""
        while (parts := self._sockets.receive()) is not None:
            t_image_ns = now_ns()
            try:
                frame = self._take(parts, t_image_ns)
            except ProtocolError as exc:
                with self._lock:
                    self._count_malformed(str(exc))
                    if self._opening and self._topics:
                        self.status.waiting(f"a renderer is connected, but its answers cannot be read: {exc}")
                continue
            if frame is not None:
                return frame
        return None

    def close(self) -> None:
        """Release the sockets at once; may be called twice."""
        self._sockets.close()
        self.status.stopped()

    def _judge(self, frame: RenderedFrame, problems: list[str]) -> None:
        """Say what is wrong with the pictures; whether they show anything is asked of the first ones only."""
        with self._lock:
            if problems:
                self.status.counters["unsupported"] += len(problems)
                self.status.facts["left_out"] = problems[0]
                if not frame.images:
                    self.status.waiting(f"no usable picture came: {problems[0]}")
                    return
            colour = next((i for i in frame.images if i.view.modality is Modality.RGB), None)
            if not self._seen_picture and colour is not None:
                if (colour.pixels == colour.pixels[0, 0]).all():
                    self.status.counters["blank"] += 1
                    self.status.waiting(
                        f"the pictures of {colour.view.key!r} have one colour only: is scene {self._scene} loaded, "
                        "and does the camera see it?"
                    )
                    return
                self._seen_picture = True
            self.status.running()

"""Two bridges over ZeroMQ: one TCP connection each way through firewalls, CURVE where keys are given.

The publisher's ROUTER sends a frame only to those whose line keeps up: each subscriber acknowledges
what it got, and the number of frames on their way is cut when acknowledgements grow late. So a slow or
broken line loses old frames at the sender instead of queueing them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

import zmq

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError, SourceUnavailable
from vil_bridge.core.wire.curve import CurveGuard, KeyPair
from vil_bridge.core.wire.drain import DrainSocket
from vil_bridge.core.wire.federation import (
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_BYTES,
    Kind,
    decode_ack,
    encode_ack,
    message_kind,
)
from vil_bridge.core.wire.zmq_peers import PeerCounter

__all__ = ["Answer", "OnMessage", "PublisherLink", "SubscriberLink", "ZmqPublisherLink", "ZmqSubscriberLink"]

Answer = Callable[[bytes], bytes | None]
OnMessage = Callable[[bytes, int], None]

MAX_SUBSCRIBERS: Final = 32
_FORGET_NS: Final = 3 * NS_PER_S
_HANDSHAKE_MS: Final = 3000
_HEARTBEAT_MS: Final = 1000
_QUEUE_MESSAGES: Final = 256
_CREDIT: Final = (2.0, 16.0, 64.0)  # least, at first, most
_LATE_NS: Final = 30_000_000
_FRAME_PART: Final = b"f"
_ANSWER_PART: Final = b"a"


class PublisherLink(Protocol):
    """The publisher's end of one transport.

    Attributes:
        endpoint: where it can be reached, once open.
        counters: ``sent`` (frames, once per subscriber), and what was dropped or refused, by reason.
    """

    endpoint: str
    counters: Counter[str]

    def open(self) -> None:
        """Bind and serve; needs the running loop. Raises SinkError when the address cannot be had."""
        ...

    @property
    def subscribers(self) -> int:
        """How many listen now. Any thread."""
        ...

    def housekeep(self) -> None:
        """Called a few times a second, in the loop's thread."""
        ...

    def publish(self, frame: bytes) -> None:
        """Send a frame to all whose line keeps up; never blocks."""
        ...

    def close(self) -> None:
        """Release the address; may be called twice."""
        ...


class SubscriberLink(Protocol):
    """The subscriber's end of one transport; hands messages over in the loop's thread."""

    async def open(self) -> bool:
        """Connect or begin to, False when nobody answered. Raises SourceUnavailable when it cannot even begin."""
        ...

    def ask(self, request: bytes) -> bool:
        """Send a request now or never, which False says; its answer comes as a message."""
        ...

    def close(self) -> None:
        """Leave; may be called twice."""
        ...


class _Line:
    """One subscriber as the publisher sees it: what is on its way and how much may be."""

    def __init__(self, t_ns: int) -> None:
        self.t_heard_ns = t_ns
        self._credit = _CREDIT[1]
        self._sent: deque[int] = deque()
        self._acknowledged = 0
        self._best_ns = NS_PER_S
        self._cut_ns = t_ns

    def may_send(self) -> bool:
        """True while fewer frames are on their way than the line carries without a queue."""
        return len(self._sent) < self._credit

    def sent(self, t_ns: int) -> None:
        """A frame left."""
        self._sent.append(t_ns)

    def acknowledge(self, received: int, t_ns: int) -> None:
        """So many frames arrived in all; late news means a queue on the way."""
        t_sent_ns = t_ns
        while self._acknowledged < received and self._sent:
            t_sent_ns = self._sent.popleft()
            self._acknowledged += 1
        trip_ns = t_ns - t_sent_ns
        if not trip_ns:
            return
        self._best_ns = min(trip_ns, self._best_ns + self._best_ns // 1000)
        if trip_ns <= 2 * self._best_ns + _LATE_NS:
            self._credit = min(_CREDIT[2], self._credit + 0.25)
        elif t_ns - self._cut_ns > trip_ns:  # once per round trip
            self._credit, self._cut_ns = max(_CREDIT[0], 0.5 * self._credit), t_ns


class ZmqPublisherLink:
    """Serves one TCP port.

    Args:
        bind: ``tcp://ADDRESS:PORT``, port 0 = any free one.
        answer: answers requests; raises ProtocolError for malformed ones.
        keys: the publisher's own keys; None = no encryption.
        allowed: public keys that may connect.
    """

    def __init__(
        self, bind: str, answer: Answer, keys: KeyPair | None = None, allowed: frozenset[bytes] = frozenset()
    ) -> None:
        self.endpoint = bind
        self.counters: Counter[str] = Counter()
        self._answer = answer
        self._keys = keys
        self._allowed = allowed
        self._lines: dict[bytes, _Line] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._guard: CurveGuard | None = None
        self._peers: PeerCounter | None = None
        self._drain: DrainSocket | None = None

    def open(self) -> None:
        """Bind and serve; needs the running loop.

        Raises:
            SinkError: the address cannot be had.
        """
        context = self._context = zmq.Context()
        if self._keys is not None:
            self._guard = CurveGuard(context, self._allowed, self.counters)
        socket = context.socket(zmq.ROUTER)
        _limit(socket, self.endpoint, MAX_REQUEST_BYTES)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # says which subscriber is gone, and which does not read
        if self._keys is not None:
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = self._keys.public, self._keys.secret
            socket.zap_domain = b"rooms"
        self._peers = PeerCounter(socket, self.counters)
        try:
            socket.bind(self.endpoint)
        except zmq.ZMQError as exc:
            socket.close()
            self.close()
            raise SinkError(f"cannot publish at {self.endpoint}: {exc.strerror}") from exc
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._drain = DrainSocket(socket, self._on_request)

    @property
    def subscribers(self) -> int:
        """How many were heard in the last seconds."""
        return len(self._lines)

    def housekeep(self) -> None:
        """Forget who is silent, count who was turned away."""
        if self._peers is not None:
            self._peers.update()
        t_ns = now_ns()
        for identity in [i for i, line in self._lines.items() if t_ns - line.t_heard_ns > _FORGET_NS]:
            del self._lines[identity]
            self.counters["timed_out"] += 1

    def publish(self, frame: bytes) -> None:
        """Send to all whose line keeps up; the others lose this frame (``superseded``)."""
        t_ns = now_ns()
        for identity, line in tuple(self._lines.items()):
            if not line.may_send():
                self.counters["superseded"] += 1
            elif self._send(identity, _FRAME_PART, frame):
                line.sent(t_ns)
                self.counters["sent"] += 1

    def close(self) -> None:
        """Release the address; may be called twice."""
        if self._peers is not None:
            self._peers.update()
            self._peers.close()
        for drain in (self._drain, self._guard):
            if drain is not None:
                drain.close()
        if self._context is not None:
            self._context.term()
        self._context = self._guard = self._peers = self._drain = None
        self._lines.clear()

    def _on_request(self, frames: list[bytes]) -> None:
        if len(frames) != 2:
            self.counters["malformed"] += 1
            return
        identity, request = frames
        try:
            received = decode_ack(request) if message_kind(request) is Kind.ACK else None
            answer = self._answer(request) if received is None else None
        except ProtocolError:
            self.counters["malformed"] += 1
            return
        t_ns = now_ns()
        line = self._line(identity, t_ns)
        if line is None:
            return
        line.t_heard_ns = t_ns
        if received is not None:
            line.acknowledge(received, t_ns)
        elif answer is not None:
            self._send(identity, _ANSWER_PART, answer)

    def _line(self, identity: bytes, t_ns: int) -> _Line | None:
        line = self._lines.get(identity)
        if line is None and len(self._lines) < MAX_SUBSCRIBERS:
            line = self._lines[identity] = _Line(t_ns)
        self.counters["too_many"] += line is None
        return line

    def _send(self, identity: bytes, part: bytes, message: bytes) -> bool:
        if self._drain is None:
            return False
        try:
            taken = self._drain.send((identity, part, message))
        except zmq.ZMQError:  # no such peer any more
            self._lines.pop(identity, None)
            return False
        self.counters["unsent"] += not taken
        return taken


class ZmqSubscriberLink:
    """One connection to a publisher; a broken one is not mended but opened anew by its owner.

    Args:
        address: ``tcp://HOST:PORT``.
        on_message: called with each message and its arrival time.
        keys: own keys, and ``server_key`` the publisher's public one; None = no encryption.
    """

    def __init__(
        self, address: str, on_message: OnMessage, keys: KeyPair | None = None, server_key: bytes | None = None
    ) -> None:
        self._address = address
        self._on_message = on_message
        self._keys = keys
        self._server_key = server_key
        self._received = 0
        self._drain: DrainSocket | None = None

    async def open(self) -> bool:
        """Begin to connect.

        Raises:
            SourceUnavailable: the address cannot be used.
        """
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        _limit(socket, self._address, MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        if self._keys is not None and self._server_key is not None:
            socket.curve_publickey, socket.curve_secretkey = self._keys.public, self._keys.secret
            socket.curve_serverkey = self._server_key
        try:
            socket.connect(self._address)
        except zmq.ZMQError as exc:
            socket.close()
            raise SourceUnavailable(f"cannot connect to {self._address}: {exc.strerror}") from exc
        self._drain = DrainSocket(socket, self._on_frames)
        return True

    def ask(self, request: bytes) -> bool:
        """Send now or never; never before the connection stands."""
        return self._drain is not None and self._drain.send((request,))

    def close(self) -> None:
        """Leave; may be called twice."""
        if self._drain is not None:
            self._drain.close()
            self._drain = None

    def _on_frames(self, frames: list[bytes]) -> None:
        t_arrival_ns = now_ns()
        if frames[0] == _FRAME_PART:
            self._received += 1
            self.ask(encode_ack(self._received))
        self._on_message(frames[-1], t_arrival_ns)


def _limit(socket: zmq.Socket[bytes], address: str, message_bytes: int) -> None:
    """Bounds on sizes, queues and patience."""
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, message_bytes),
        (zmq.SNDHWM, _QUEUE_MESSAGES),
        (zmq.RCVHWM, _QUEUE_MESSAGES),
        (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
        (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
        (zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS),
        (zmq.IPV6, int("[" in address)),
    ):
        socket.setsockopt(option, value)

"""Two bridges over ZeroMQ.

One TCP connection each way through firewalls, CURVE where keys are given.

The publisher's ROUTER sends a frame only to those whose line keeps up: each subscriber acknowledges
what it got, and the number of frames on their way is cut when acknowledgements grow late. So a slow
or broken line loses old frames at the sender instead of queueing them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError, SourceUnavailable
from vil_bridge.protocols.federation.flow_control import SubscriberLine
from vil_bridge.protocols.federation.messages import (
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_BYTES,
    FederationKind,
    decode_ack,
    encode_ack,
    message_kind,
)
from vil_bridge.protocols.zmq.connection_watch import CONTROL_BUDGET, ConnectionWatch
from vil_bridge.protocols.zmq.curve import CurveGuard, KeyPair
from vil_bridge.protocols.zmq.drain_socket import DrainSocket
from vil_bridge.protocols.zmq.peer_socket import (
    Peer,
    PeerCounter,
    PeerSocket,
    end_dead_connections,
    sent_by,
)
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import RateLimiter, peer_of

Answer = Callable[[bytes], bytes | None]
OnMessage = Callable[[bytes, int], None]

MAX_SUBSCRIBERS: Final = 32
_SUBSCRIBERS_OF_ONE: Final = 16  # of one key, or without keys of one address
_REQUESTS_PER_S: Final = 2500.0  # of one connection; each frame is acknowledged by one
_REQUESTS_AT_ONCE: Final = 5000
_QUESTION_COST: Final = 50.0
_REFUSED_AT_ONCE: Final = 16
_PAUSE_S: Final = 0.012
_FORGET_NS: Final = 3 * NS_PER_S
_HANDSHAKE_MS: Final = 3000
_QUEUE_MESSAGES: Final = 256
_WATCH_S: Final = 0.02
_FRAME_PART: Final = b"f"
_ANSWER_PART: Final = b"a"


class PublisherLink(Protocol):
    """The publisher's end of one transport.

    Attributes:
        endpoint: where it can be reached, once open.
        counters: ``sent`` (frames, once per subscriber), and what was dropped or refused, by
            reason.
        peer_faults: the senders of what was refused, as far as the transport names them.
    """

    endpoint: str
    counters: Counter[str]
    peer_faults: PeerFaults

    def open(self) -> None:
        """Bind and serve; needs the running loop.

        Raises SinkError when the address cannot be had.
        """
        ...

    @property
    def subscribers(self) -> int:
        """Number of listening subscribers. Any thread."""
        ...

    def housekeep(self) -> None:
        """Drop silent subscribers; called a few times a second, in the loop's thread."""
        ...

    def publish(self, frame: bytes) -> None:
        """Send a frame to all whose line keeps up; never blocks."""
        ...

    def close(self) -> None:
        """Release the address; may be called twice."""
        ...


class Refusal(StrEnum):
    """Ways in which a handshake with keys ends."""

    KEY_NOT_ALLOWED = "key not allowed"
    KEYS_DIFFER = "keys differ"


_REFUSALS: Final[Mapping[int, Refusal]] = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: Refusal.KEY_NOT_ALLOWED,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: Refusal.KEYS_DIFFER,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: Refusal.KEYS_DIFFER,
}


class SubscriberLink(Protocol):
    """The subscriber's end of one transport; hands messages over in the loop's thread."""

    async def open(self) -> bool:
        """Connect or begin to, False without an answer.

        Raises SourceUnavailable when it cannot even begin.
        """
        ...

    def ask(self, request: bytes) -> bool:
        """Send a request now or never, which False says; its answer comes as a message."""
        ...

    def refusal(self) -> Refusal | None:
        """Return why the other end did not let this one in, None when it did or has not
        answered.
        """
        ...

    def close(self) -> None:
        """Leave; may be called twice."""
        ...


class ZmqPublisherLink:
    """Server of one TCP port.

    Args:
        bind: ``tcp://ADDRESS:PORT``, port 0 = any free one.
        answer: answers requests; raises ProtocolError for malformed ones.
        keys: the publisher's own keys; None = no encryption.
        allowed: public keys that may connect, with their names.
    """

    def __init__(
        self,
        bind: str,
        answer: Answer,
        keys: KeyPair | None = None,
        allowed: Mapping[bytes, str] | None = None,
    ) -> None:
        self.endpoint = bind
        self.counters: Counter[str] = Counter()
        self.peer_faults = PeerFaults("publish")
        self._rate = RateLimiter(_REQUESTS_PER_S, _REQUESTS_AT_ONCE)
        self._refused = 0  # requests since the last pause
        self._answer = answer
        self._keys = keys
        self._allowed = {} if allowed is None else allowed
        self._lines: dict[bytes, SubscriberLine] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._guard: CurveGuard | None = None
        self._peers: PeerCounter | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._drain: DrainSocket | None = None

    def open(self) -> None:
        """Bind and serve; needs the running loop.

        Raises:
            SinkError: the address cannot be had.
        """
        context = self._context = zmq.Context()
        if self._keys is not None:
            self._guard = CurveGuard(context, self._allowed, self.counters)
        socket = PeerSocket(context, zmq.ROUTER)
        socket.asks_keys = self._keys is not None
        _limit(socket, self.endpoint, MAX_REQUEST_BYTES)
        # Says which subscriber is gone, and which does not read.
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if self._keys is not None:
            socket.curve_server = True
            socket.curve_publickey = self._keys.public
            socket.curve_secretkey = self._keys.secret
            socket.zap_domain = b"rooms"
        self._peers = PeerCounter(
            socket, self.counters, ConnectionWatch(CONTROL_BUDGET, self.counters, self.peer_faults)
        )
        try:
            self._peers.bind(self.endpoint)
        except zmq.ZMQError as exc:
            self._peers.close()
            self._peers = None
            socket.close()
            self.close()
            raise SinkError(f"cannot publish at {self.endpoint}: {exc.strerror}") from exc
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._drain = DrainSocket(socket, self._on_request)
        self._watch_peers()

    @property
    def subscribers(self) -> int:
        """Number of subscribers heard in the last seconds."""
        return len(self._lines)

    def housekeep(self) -> None:
        """Forget who is silent."""
        t_ns = now_ns()
        for identity in [
            i for i, line in self._lines.items() if t_ns - line.t_heard_ns > _FORGET_NS
        ]:
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
        if self._watching is not None:
            self._watching.cancel()
        for drain in (self._drain, self._guard):
            if drain is not None:
                drain.close()
        if self._context is not None:
            self._context.term()
        self._context = self._guard = self._peers = self._drain = self._watching = None
        self._lines.clear()

    def _watch_peers(self) -> None:
        """Count who was turned away, and end connections beyond their limits."""
        if self._peers is not None:
            self._peers.update()
            self._watching = asyncio.get_running_loop().call_later(_WATCH_S, self._watch_peers)

    def _on_request(self, frames: list[bytes]) -> None:
        peer, parts = sent_by(frames)
        # Connections of one address that have no line yet share a rate.
        sender = peer.identity if peer.identity in self._lines else peer.address
        if self._rate.wait_s(sender):  # before decoding, which costs more
            self._refuse(peer, "flood")
            return
        self._rate.take(sender)
        try:
            if len(parts) != 1:
                raise ProtocolError("a request is one frame", length=len(parts))
            self._handle(peer, sender, parts[0])
        except ProtocolError:
            self._refuse(peer, "malformed")

    def _handle(self, peer: Peer, sender: bytes | str, request: bytes) -> None:
        received = decode_ack(request) if message_kind(request) is FederationKind.ACK else None
        t_ns = now_ns()
        line = self._line(peer, t_ns)
        if line is None:
            self._refuse(peer, "too_many")
            return
        line.t_heard_ns = t_ns
        if received is not None:
            line.acknowledge(received, t_ns)
            return
        self._rate.take(sender, _QUESTION_COST)
        answer = self._answer(request)
        if answer is not None:
            self._send(peer.identity, _ANSWER_PART, answer)

    def _refuse(self, peer: Peer, reason: str) -> None:
        """Count it and its sender.

        After some the socket rests, so that a flood waits at its origin.
        """
        self.counters[reason] += 1
        self.peer_faults.add(reason, peer.address, peer.key)
        self._refused += 1
        if self._refused >= _REFUSED_AT_ONCE and self._drain is not None:
            self._refused = 0
            self._drain.pause(_PAUSE_S)

    def _line(self, peer: Peer, t_ns: int) -> SubscriberLine | None:
        """Return the line of a subscriber, a new one where there is room; None otherwise."""
        line = self._lines.get(peer.identity)
        if line is not None:
            return line
        owner = peer.key or peer_of(peer.address)
        taken = sum(line.owner == owner for line in self._lines.values())
        if len(self._lines) >= MAX_SUBSCRIBERS or taken >= _SUBSCRIBERS_OF_ONE:
            return None
        line = self._lines[peer.identity] = SubscriberLine(t_ns, owner)
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
    """One connection to a publisher; its owner replaces a broken one.

    Args:
        address: ``tcp://HOST:PORT``.
        on_message: called with each message and its arrival time.
        keys: own keys, and ``server_key`` the publisher's public one; None = no encryption.
    """

    def __init__(
        self,
        address: str,
        on_message: OnMessage,
        keys: KeyPair | None = None,
        server_key: bytes | None = None,
    ) -> None:
        self._address = address
        self._on_message = on_message
        self._keys = keys
        self._server_key = server_key
        self._received = 0
        self._drain: DrainSocket | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._socket: zmq.Socket[bytes] | None = None

    async def open(self) -> bool:
        """Begin to connect.

        Raises:
            SourceUnavailable: the address cannot be used.
        """
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        _limit(socket, self._address, MAX_MESSAGE_BYTES)
        end_dead_connections(socket)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        if self._keys is not None and self._server_key is not None:
            socket.curve_publickey = self._keys.public
            socket.curve_secretkey = self._keys.secret
            socket.curve_serverkey = self._server_key
        self._socket, self._monitor = socket, socket.get_monitor_socket(sum(_REFUSALS))
        try:
            socket.connect(self._address)
        except zmq.ZMQError as exc:
            self._close_monitor()
            socket.close()
            raise SourceUnavailable(f"cannot connect to {self._address}: {exc.strerror}") from exc
        self._drain = DrainSocket(socket, self._on_frames)
        return True

    def refusal(self) -> Refusal | None:
        """Return why the publisher refused this connection, None when it did not."""
        if self._monitor is None or not self._monitor.poll(0):
            return None
        event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]
        return _REFUSALS[event]

    def ask(self, request: bytes) -> bool:
        """Send now or never; never before the connection stands."""
        return self._drain is not None and self._drain.send((request,))

    def close(self) -> None:
        """Leave; may be called twice."""
        self._close_monitor()
        if self._drain is not None:
            self._drain.close()
            self._drain = None

    def _close_monitor(self) -> None:
        if self._socket is not None and self._monitor is not None:
            self._socket.disable_monitor()
            self._monitor.close()
            self._socket = self._monitor = None

    def _on_frames(self, frames: list[bytes]) -> None:
        t_arrival_ns = now_ns()
        if frames[0] == _FRAME_PART:
            self._received += 1
            self.ask(encode_ack(self._received))
        self._on_message(frames[-1], t_arrival_ns)


def _limit(socket: zmq.Socket[bytes], address: str, message_bytes: int) -> None:
    """Bound sizes, queues and time-outs of a socket."""
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, message_bytes),
        (zmq.SNDHWM, _QUEUE_MESSAGES),
        (zmq.RCVHWM, _QUEUE_MESSAGES),
        (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
        (zmq.IPV6, int("[" in address)),
    ):
        socket.setsockopt(option, value)

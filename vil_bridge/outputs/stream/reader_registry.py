"""The registered readers.

Their slots by key and address, their names, and the connections that they come from.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.outputs.stream.messages import Register
from vil_bridge.outputs.stream.subscriber import Subscriber
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.protocols.zmq.peer_socket import Peer
from vil_bridge.runtime.rates import peer_of

MAX_SUBSCRIBERS: Final = 256
SEATS_OF_ONE: Final = 64
"""Of one key, or without keys of one address."""
_LEFT_NS: Final = 10 * NS_PER_S
_PRESENT_NS: Final = NS_PER_S
"""A reader pings five times a second: after this silence another may take its slot and its name."""


@dataclass(frozen=True, slots=True)
class Camera:
    """A camera as the hub offers it; see :meth:`StreamHub.add_camera`."""

    sink: ZmqStreamSink
    info: Mapping[str, Any]
    wake: Callable[[], None]


@dataclass(slots=True)
class RegisteredReader:
    """A registered reader of one camera.

    Attributes:
        peer: its control connection, which changes when it connects again.
    """

    peer: Peer
    subscriber: Subscriber[EncodedPicture]
    camera: Camera

    @property
    def owner(self) -> str:
        """Return the key, or without keys the address, that its slot counts for."""
        return _owner(self.peer)

    def is_silent(self) -> bool:
        """Return True when it has said nothing for a second."""
        return machine_ns() - self.subscriber.t_heard_ns > _PRESENT_NS


class Seats:
    """The readers in the order in which they registered.

    Args:
        on_leave: called with a reader that lost its slot to its own successor.
    """

    def __init__(self, on_leave: Callable[[RegisteredReader], None]) -> None:
        self._on_leave = on_leave
        self._by_token: dict[str, RegisteredReader] = {}
        self._connections: Counter[bytes] = Counter()
        self._left_ns: OrderedDict[bytes, int] = OrderedDict()
        # Name -> token that sends inertial samples, and when last.
        self._speakers: dict[str, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[RegisteredReader]:
        return iter(tuple(self._by_token.values()))

    def __len__(self) -> int:
        return len(self._by_token)

    def __contains__(self, identity: bytes) -> bool:
        """Return True for a connection that a reader comes from."""
        return identity in self._connections

    def knows(self, identity: bytes) -> bool:
        """Return True for a connection that a reader comes from, or came from in the last ten
        seconds.

        What a radio held back may arrive after the slot was lost, and does not come from a
        stranger.
        """
        return (
            identity in self._connections
            or machine_ns() - self._left_ns.get(identity, -_LEFT_NS) < _LEFT_NS
        )

    def heard(self, token: str, peer: Peer) -> RegisteredReader | None:
        """Return the reader that a message is from; None for a wrong token, or another key's."""
        reader = self._by_token.get(token)
        if reader is None or reader.peer.key != peer.key:
            return None
        if reader.peer.identity != peer.identity:
            self._disconnect(reader)
            self._connections[peer.identity] += 1
        reader.peer = peer
        reader.subscriber.t_heard_ns = machine_ns()
        return reader

    def get(self, token: str) -> RegisteredReader:
        """Return the reader of a token. Raises KeyError."""
        return self._by_token[token]

    def problem(self, peer: Peer, registration: Register) -> str | None:
        """Return the reason why no slot is free.

        A silent reader of the same owner and name makes room.
        """
        owner = _owner(peer)
        if len(self) < MAX_SUBSCRIBERS and self._taken_by(owner) < SEATS_OF_ONE:
            return None
        mine = [
            r
            for r in self
            if r.owner == owner and r.subscriber.name == registration.name and r.is_silent()
        ]
        if mine:
            self._on_leave(min(mine, key=lambda r: r.subscriber.t_heard_ns))
        if len(self) >= MAX_SUBSCRIBERS:
            return f"{MAX_SUBSCRIBERS} subscribers already"
        if self._taken_by(owner) >= SEATS_OF_ONE:
            return f"{SEATS_OF_ONE} subscribers of {owner} already"
        return None

    def add(self, reader: RegisteredReader) -> None:
        """Give a reader its slot."""
        self._by_token[reader.subscriber.token] = reader
        self._connections[reader.peer.identity] += 1

    def remove(self, reader: RegisteredReader) -> None:
        """Free its slot."""
        token = reader.subscriber.token
        name = reader.subscriber.name
        del self._by_token[token]
        if self._speakers.get(name, ("", 0))[0] == token:
            del self._speakers[name]
        self._disconnect(reader)

    def may_speak(self, reader: RegisteredReader) -> bool:
        """Return True for the reader whose inertial samples are taken for its name.

        With keys the one of the key's readers that speaks; without, the one that registered the
        name first.
        """
        name = reader.subscriber.name
        if not reader.peer.key:
            return (
                next((r for r in self if r.subscriber.name == name and not r.is_silent()), reader)
                is reader
            )
        token, t_ns = self._speakers.get(name, ("", 0))
        return token == reader.subscriber.token or machine_ns() - t_ns >= _PRESENT_NS

    def spoke(self, reader: RegisteredReader) -> None:
        """Account inertial samples of a reader."""
        self._speakers[reader.subscriber.name] = reader.subscriber.token, machine_ns()

    def _disconnect(self, reader: RegisteredReader) -> None:
        identity = reader.peer.identity
        self._connections[identity] -= 1
        if not self._connections[identity]:
            del self._connections[identity]
            self._left_ns[identity] = machine_ns()
            self._left_ns.move_to_end(identity)
            if len(self._left_ns) > MAX_SUBSCRIBERS:
                self._left_ns.popitem(last=False)

    def _taken_by(self, owner: str) -> int:
        return sum(reader.owner == owner for reader in self)


def _owner(peer: Peer) -> str:
    return _owner_of(peer.key, peer.address)


@lru_cache(MAX_SUBSCRIBERS)
def _owner_of(key: str, address: str) -> str:
    return f"the key {key!r}" if key else f"the address {peer_of(address)}"

"""The two directions of one VRPN connection.

Names to ids on the way out, ids to names on the way in; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.vrpn.codec import (
    COOKIE_BYTES,
    SENDER_DESCRIPTION,
    TYPE_DESCRIPTION,
    VrpnMessage,
    decode_cookie,
    decode_message,
    decode_name,
    encode_message,
    encode_name,
    message_bytes,
)

CONTROL: Final = "VRPN Control"
"""Sender of a server's messages about connections; no device."""

_MAX_NAMES: Final = 4096
_LENGTH_BYTES: Final = 4

ReadPoses = Callable[[bytes, int], int]


class ResolvedMessage(NamedTuple):
    """A message whose ids are resolved; ``t_ns`` is the sender's clock."""

    sender: str
    kind: str
    t_ns: int
    payload: bytes


class Incoming:
    """Messages of the peer.

    Bytes are held back until their message is complete, 64 KiB at most. A broken stream stays
    broken, since it does not mark where a message begins: connect again.

    Args:
        read_poses: reads messages itself from an offset of the bytes on, and returns the offset of
            the first other one.
        forget_ids: called when an id got another meaning.

    Attributes:
        version: the peer's, None before its cookie came.
        senders, kinds: names that the peer described, by id.
        undescribed: messages whose sender or type the peer never described; they are skipped.
    """

    def __init__(
        self, read_poses: ReadPoses | None = None, forget_ids: Callable[[], None] | None = None
    ) -> None:
        self.version: str | None = None
        self.senders: dict[int, str] = {}
        self.kinds: dict[int, str] = {}
        self.undescribed = 0
        self._read_poses = read_poses
        self._forget_ids = forget_ids
        self._pending = b""

    def feed(self, data: bytes) -> Iterator[ResolvedMessage]:
        """Add the next bytes and yield the messages that they complete.

        Exhaust it before the next call.

        Raises:
            ProtocolError: the cookie or a message is malformed.
        """
        data = self._pending + data
        at = 0
        if self.version is None and len(data) >= COOKIE_BYTES:
            self.version = decode_cookie(data[:COOKIE_BYTES])
            at = COOKIE_BYTES
        while self.version is not None and len(data) - at >= _LENGTH_BYTES:
            if self._read_poses is not None:
                at = self._read_poses(data, at)
                if len(data) - at < _LENGTH_BYTES:
                    break
            size = message_bytes(data[at : at + _LENGTH_BYTES])
            if len(data) - at < size:
                break
            resolved = self._resolve(decode_message(data[at : at + size]))
            at += size
            if resolved is not None:
                yield resolved
        self._pending = data[at:]

    def _resolve(self, message: VrpnMessage) -> ResolvedMessage | None:
        if message.type == SENDER_DESCRIPTION:
            self._describe(self.senders, message)
        elif message.type == TYPE_DESCRIPTION:
            self._describe(self.kinds, message)
        elif message.type >= 0:
            kind = self.kinds.get(message.type)
            sender = self.senders.get(message.sender)
            if kind is None or sender is None:
                self.undescribed += 1
                return None
            return ResolvedMessage(sender, kind, message.t_ns, message.payload)
        return None

    def _describe(self, table: dict[int, str], message: VrpnMessage) -> None:
        if not 0 <= message.sender < _MAX_NAMES:
            raise ProtocolError(f"description of id {message.sender}")
        table[message.sender] = decode_name(message.payload)
        if self._forget_ids is not None:
            self._forget_ids()


class Outgoing:
    """Messages of this side, with numbers for its names."""

    def __init__(self) -> None:
        self._senders: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._sequence = 0

    def describe(self, senders: tuple[str, ...], kinds: tuple[str, ...]) -> bytes:
        """Encode the descriptions that must be sent before the first message with these names."""
        return b"".join(
            self._message(description, table.setdefault(name, len(table)), 0, encode_name(name))
            for description, table, names in (
                (SENDER_DESCRIPTION, self._senders, senders),
                (TYPE_DESCRIPTION, self._kinds, kinds),
            )
            for name in names
        )

    def message(self, sender: str, kind: str, t_ns: int, payload: bytes = b"") -> bytes:
        """Encode a message of described names.

        Raises:
            KeyError: a name was not described.
        """
        return self._message(self._kinds[kind], self._senders[sender], t_ns, payload)

    def _message(self, kind: int, sender: int, t_ns: int, payload: bytes) -> bytes:
        self._sequence += 1
        return encode_message(VrpnMessage(kind, sender, t_ns, payload, self._sequence))

"""Answers of a NatNet server to its clients' requests; no I/O."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from vil_bridge.protocols.natnet.clients import ClientTable
from vil_bridge.protocols.natnet.codec import (
    BITSTREAM_SINCE,
    TICKS_SINCE,
    EchoReply,
    MessageId,
    ServerInfo,
    Version,
    decode_connect,
    decode_echo_request,
    decode_text,
    encode,
    encode_echo_reply,
    encode_server_info,
    encode_text,
    message_id,
    parse_version,
)
from vil_bridge.protocols.natnet.model import Models
from vil_bridge.protocols.natnet.model_codec import encode_models
from vil_bridge.protocols.natnet.reader import HEADER_BYTES
from vil_bridge.runtime.datagrams import Address

_I32: Final = Struct("<i")
_F32: Final = Struct("<f")
_OK: Final = encode(MessageId.RESPONSE, _I32.pack(0))
_REFUSED: Final = encode(MessageId.RESPONSE, _I32.pack(-1))
_UNRECOGNIZED: Final = encode(MessageId.UNRECOGNIZED_REQUEST)
METRES_MM: Final = 1000.0


@dataclass(frozen=True, slots=True)
class ResponderHooks:
    """Statements of a server about itself.

    Attributes:
        info: returns its announcement. models: returns its descriptions.
        ticks: returns its clock at a bridge time. rate_hz: returns its frames per second.
        units_mm: millimetres per streamed unit of length.
        stale: returns the bytes behind its name, as Motive leaves them.
    """

    info: Callable[[], ServerInfo]
    models: Callable[[], Models]
    ticks: Callable[[int], int]
    rate_hz: Callable[[], float]
    units_mm: float = METRES_MM
    stale: Callable[[], bytes] = bytes


class NatNetResponder:
    """Answers requests and registers unicast clients.

    Args:
        version: of the server. multicast: it sends to a group, and registers no client.
        clients: table of unicast clients. hooks: its statements.
    """

    def __init__(
        self, version: Version, clients: ClientTable, hooks: ResponderHooks, *, multicast: bool
    ) -> None:
        self._version = version
        self._clients = clients
        self._hooks = hooks
        self._multicast = multicast

    def reply(self, datagram: bytes, address: Address, t_ns: int) -> bytes | None:
        """Return the answer to a datagram, None = none is due.

        Raises:
            ProtocolError: it is malformed.
        """
        # Old clients announce four bytes of payload where there is none, and real servers answer
        # them.
        bare = len(datagram) == HEADER_BYTES
        identity = message_id(datagram[:2] + b"\0\0" if bare else datagram)
        self._clients.renew(address, t_ns)
        match identity:
            case MessageId.CONNECT:
                connect = decode_connect(datagram)
                if not self._multicast:
                    self._clients.register(connect, address, t_ns)
                return self._server_info()
            case MessageId.DISCOVERY:
                decode_connect(datagram)
                return self._server_info()
            case MessageId.REQUEST_MODELDEF:
                return encode_models(self._hooks.models(), self._clients.version(address))
            case MessageId.ECHOREQUEST if self._version >= TICKS_SINCE:
                return encode_echo_reply(
                    EchoReply(decode_echo_request(datagram), self._hooks.ticks(t_ns))
                )
            case MessageId.REQUEST:
                return self._command_reply(decode_text(datagram), address)
            case MessageId.DISCONNECT:
                self._clients.remove(address)
                return None
            case MessageId.KEEPALIVE:
                return None
            case _:
                return _UNRECOGNIZED

    def _server_info(self) -> bytes:
        return encode_server_info(self._hooks.info(), self._hooks.stale())

    def _command_reply(self, command: str, address: Address) -> bytes:
        name, _, argument = command.partition(",")
        subscriptions = self._clients.subscriptions(address)
        match name:
            case "FrameRate":
                return encode(MessageId.RESPONSE, _F32.pack(self._hooks.rate_hz()))
            case "UnitsToMillimeters":
                return encode(MessageId.RESPONSE, _F32.pack(self._hooks.units_mm))
            case "CurrentMode":
                return _OK
            case "Bitstream" if (
                address in self._clients.addresses and self._version >= BITSTREAM_SINCE
            ):
                return self._bitstream_reply(argument, address)
            case "SubscribeToData" | "SubscribeByID" if subscriptions is not None:
                return _OK if subscriptions.command(name, argument) else _REFUSED
        return _UNRECOGNIZED

    def _bitstream_reply(self, wanted: str, address: Address) -> bytes:
        if not wanted:
            version = self._clients.version(address)
            return encode_text(MessageId.RESPONSE, f"Bitstream,{version[0]}.{version[1]}")
        with contextlib.suppress(ValueError):
            if self._clients.set_version(address, parse_version(wanted)):
                return _OK
        return _REFUSED

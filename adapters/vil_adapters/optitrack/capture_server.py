"""A captured NatNet server on real sockets.

The same datagrams with the same spacing, to a new client.

Frames, and all else that the server sent without a request or broken, are sent unchanged. The
announcement, descriptions and answers to commands are those that the server gave to the same
question at that time. Only echoes are new, since they return the client's own stamp. Their time is
the captured server's clock, extrapolated from the echo with the smallest uncertainty.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Final, NamedTuple, Self

from vil_adapters.emulation.capture_playback import Playback
from vil_adapters.sessions.callbacks import guarded
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError, ProtocolError
from vil_bridge.protocols.natnet.codec import (
    TICKS_SINCE,
    EchoReply,
    MessageId,
    decode_echo_reply,
    decode_echo_request,
    decode_server_info,
    encode_echo_reply,
    message_id,
)
from vil_bridge.protocols.sockets import send_multicast_from, udp_socket, waiting_datagrams
from vil_bridge.runtime.datagrams import Address, Datagram

_MAX_CLIENTS: Final = 16
_MAX_ANSWERS: Final = 256
_MAX_PORTS: Final = 64
_ANSWERS: Final = frozenset(
    {
        MessageId.SERVERINFO,
        MessageId.MODELDEF,
        MessageId.RESPONSE,
        MessageId.UNRECOGNIZED_REQUEST,
        MessageId.ECHORESPONSE,
    }
)
_IDENTITIES: Final = frozenset(MessageId)
_MAX_TICKS: Final = (1 << 64) - 1
_BROKEN: Final = -1
_DRIFT_ONE_IN: Final = 10_000
"""Clocks of two computers drift apart by less than 100 ppm."""

Question = tuple[int, bytes]
"""Message id; the whole datagram of a command, since only those differ."""


class _Echo(NamedTuple):
    """Reading of the server's clock, exact within half of the round trip.

    Attributes:
        t_ns: middle of question and answer, time of the capture.
        ticks: of the server's clock.
        half_ns: half of the round trip.
    """

    t_ns: int
    ticks: int
    half_ns: int

    @classmethod
    def between(cls, t_asked_ns: int, t_answered_ns: int, ticks: int) -> Self:
        """Return the echo of a question and its answer, times of the capture."""
        return cls((t_asked_ns + t_answered_ns) // 2, ticks, abs(t_answered_ns - t_asked_ns) // 2)

    def ticks_at(self, t_ns: int, ticks_per_s: int) -> int:
        """Return the reading at another time of the capture."""
        return self.ticks + (t_ns - self.t_ns) * ticks_per_s // NS_PER_S

    def uncertainty_ns_at(self, t_ns: int) -> int:
        """Return the uncertainty of that, which grows with the drift."""
        return self.half_ns + abs(t_ns - self.t_ns) // _DRIFT_ONE_IN


class CapturedSession:
    """Answers of the captured server, as of the last recorded datagram.

    Args:
        announcement: its first SERVERINFO.
        server: its command address. client: that it answers.

    Attributes:
        begin_ns: of its announcement, time of the capture.

    Raises:
        ProtocolError: the announcement is malformed.
    """

    def __init__(self, announcement: Datagram, server: Address, client: Address) -> None:
        self._info = decode_server_info(announcement.payload)
        self.begin_ns = announcement.t_ns
        self._server = server
        self._client_ip = client[0]
        self._client_ports = {client[1]}
        self._ports = {server[1]}
        self._answers: dict[Question, bytes] = {}
        self._command: Question | None = None
        self._echo_asked: tuple[int, int] | None = None
        self._clock: _Echo | None = None
        self.record(announcement)

    @classmethod
    def find(cls, datagrams: Iterator[Datagram]) -> CapturedSession:
        """Return the session that begins in a capture; reads as far as that.

        Raises:
            ConfigError: no session begins in it.
        """
        server: Address | None = None
        client = "", 0
        for datagram in datagrams:
            if _is_connect(datagram):
                client = datagram.sender
                server = datagram.receiver
            elif _identity(datagram.payload) == MessageId.SERVERINFO and datagram.sender == server:
                with contextlib.suppress(ProtocolError):
                    return cls(datagram, datagram.sender, client)
        raise ConfigError(
            "no NatNet server announces itself in it: it never answered, or the "
            "beginning is missing. "
            "Start the capture before the client connects"
        )

    def record(self, datagram: Datagram) -> None:
        """Update the answers, ports and clock from a datagram of the capture."""
        with contextlib.suppress(ProtocolError):
            if datagram.receiver == self._server:
                self._asked(datagram)
            elif datagram.sender == self._server:
                self._answered(datagram)
            if _identity(datagram.payload) == MessageId.FRAMEOFDATA and self._is_for_client(
                datagram
            ):
                self._learn(self._ports, datagram.sender[1])

    def streamed(self, datagram: Datagram) -> bool:
        """Return whether the server sent it without a request, to the client or its group, from
        its own port.
        """
        own = datagram.sender[1] in self._ports or datagram.sender[1] == self._info.data_port
        return own and self._is_for_client(datagram) and _identity(datagram.payload) not in _ANSWERS

    def _is_for_client(self, datagram: Datagram) -> bool:
        """Return whether it went from the server's host to the destination of its frames."""
        (ip, port), info = datagram.receiver, self._info
        if datagram.sender[0] != self._server[0] or datagram.receiver == self._server:
            return False
        if IPv4Address(ip).is_multicast:
            return (ip, port) == (info.group, info.data_port) or info.natnet_version < TICKS_SINCE
        return ip == self._client_ip and (port in self._client_ports or port == info.data_port)

    def _learn(self, ports: set[int], port: int) -> None:
        if len(ports) < _MAX_PORTS:
            ports.add(port)

    def answer(self, asked: bytes, t_ns: int) -> bytes | None:
        """Return the answer to a question at a time of the capture.

        None where the server gave none.
        """
        identity = _identity(asked)
        if identity != MessageId.ECHOREQUEST:
            return self._answers.get((identity, asked if identity == MessageId.REQUEST else b""))
        if self._clock is None:
            return None
        ticks = min(max(0, self._clock.ticks_at(t_ns, self._info.ticks_per_s)), _MAX_TICKS)
        return encode_echo_reply(EchoReply(decode_echo_request(asked), ticks))

    def _asked(self, datagram: Datagram) -> None:
        identity = _identity(datagram.payload)
        if identity == MessageId.REQUEST:
            self._command = identity, datagram.payload
        elif identity == MessageId.ECHOREQUEST:
            self._echo_asked = decode_echo_request(datagram.payload), datagram.t_ns
        elif identity == MessageId.CONNECT and datagram.sender[0] == self._client_ip:
            self._learn(self._client_ports, datagram.sender[1])

    def _answered(self, datagram: Datagram) -> None:
        match _identity(datagram.payload):
            case MessageId.SERVERINFO:
                self._answers[MessageId.CONNECT, b""] = datagram.payload
                self._info = decode_server_info(datagram.payload)
            case MessageId.MODELDEF:
                self._answers[MessageId.REQUEST_MODELDEF, b""] = datagram.payload
            case MessageId.RESPONSE | MessageId.UNRECOGNIZED_REQUEST if self._command is not None:
                if len(self._answers) < _MAX_ANSWERS:
                    self._answers[self._command] = datagram.payload
                self._command = None
            case MessageId.ECHORESPONSE:
                reply = decode_echo_reply(datagram.payload)
                if self._echo_asked is not None and self._echo_asked[0] == reply.client:
                    self._learn_clock(
                        _Echo.between(self._echo_asked[1], datagram.t_ns, reply.ticks)
                    )

    def _learn_clock(self, echo: _Echo) -> None:
        """Use an echo unless the clock is known better.

        One that contradicts it shows that the clock was set.
        """
        known = self._clock
        if known is not None:
            uncertainty_ns = known.uncertainty_ns_at(echo.t_ns)
            apart_ns = abs(echo.ticks - known.ticks_at(echo.t_ns, self._info.ticks_per_s))
            apart_ns = apart_ns * NS_PER_S // max(1, self._info.ticks_per_s)
            if uncertainty_ns < echo.half_ns and apart_ns <= uncertainty_ns + echo.half_ns:
                return
        self._clock = echo


class ReplayedMotive:
    """Playback of the server's part of a capture, once, from the moment at which a client connects.

    Attributes:
        port: its UDP command port.

    Raises:
        ConfigError: no server announces itself in the capture.
        RecordingError: it is damaged before that.
        OSError: the port is taken.
    """

    def __init__(self, datagrams: Iterator[Datagram], bind: str, port: int) -> None:
        self._datagrams = datagrams
        self._session = CapturedSession.find(datagrams)
        self._clients: list[Address] = []
        self._command = udp_socket(bind, port)
        self.port: int = self._command.getsockname()[1]
        self._data = udp_socket(bind)
        send_multicast_from(self._data, bind)

    async def run(self) -> None:
        """Serve until the capture ends."""
        loop = asyncio.get_running_loop()
        playback = Playback(
            self._datagrams, self._session.begin_ns, self._send, self._session.record
        )
        with self._command, self._data, contextlib.closing(playback):
            loop.add_reader(self._command, guarded(playback.ended, self._receive), playback)
            try:
                await playback.ended
            finally:
                loop.remove_reader(self._command)

    def _send(self, datagram: Datagram) -> None:
        if not self._session.streamed(datagram):
            return
        group = IPv4Address(datagram.receiver[0]).is_multicast
        for destination in [datagram.receiver] if group else self._clients:
            with contextlib.suppress(OSError):  # a client has gone, or a buffer is full
                self._data.sendto(datagram.payload, destination)

    def _receive(self, playback: Playback) -> None:
        for asked, client, _ in waiting_datagrams(self._command):
            with contextlib.suppress(ProtocolError, OSError):
                answer = self._reply(asked, client, playback)
                if answer is not None:
                    self._command.sendto(answer, client)

    def _reply(self, asked: bytes, client: Address, playback: Playback) -> bytes | None:
        identity = _identity(asked)
        if identity == MessageId.CONNECT:
            if client not in self._clients and len(self._clients) < _MAX_CLIENTS:
                self._clients.append(client)
            if not playback.begun:
                playback.start()
        elif identity == MessageId.DISCONNECT and client in self._clients:
            self._clients.remove(client)
        return self._session.answer(asked, playback.capture_ns())


def is_natnet(datagram: Datagram) -> bool:
    """Return whether a datagram is a complete message of NatNet."""
    return _identity(datagram.payload) in _IDENTITIES


def _is_connect(datagram: Datagram) -> bool:
    return _identity(datagram.payload) == MessageId.CONNECT


def _identity(datagram: bytes) -> int:
    try:
        return message_id(datagram)
    except ProtocolError:
        return _BROKEN

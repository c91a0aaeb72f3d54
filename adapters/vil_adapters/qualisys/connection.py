"""One connection to a QTM server.

The vendor's client, guarded against what would stop or fill it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from qtm_rt import QRTCommandException, QRTConnection
from qtm_rt.protocol import QTMProtocol

from vil_adapters.qualisys.codec import DataFrame, Event, Framing, PacketType, decode_data
from vil_adapters.qualisys.parameters import Parameters, decode_parameters
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError

REPLY_S: Final = 1.5
"""Longest time that a server needs to answer a command."""

_VERSIONS: Final = ("1.25", "1.22", "1.19", "1.13")
_HEADER_BYTES: Final = 8
_RECEIVE_BUFFER_BYTES: Final = 1 << 20
_HANDED_ON: Final = {PacketType.ERROR, PacketType.COMMAND, PacketType.XML}


class QualisysConnection(QTMProtocol):  # type: ignore[misc]
    """The vendor's protocol for commands and replies; frames and events are read here.

    The vendor's receiver trusts every size and type, so it is given whole packets that it knows.

    Args:
        on_frame: called with the newest of the new frames that arrived together, and their arrival.
        counters: ``malformed``, ``duplicates``, ``superseded``.

    Attributes:
        closed: done when the connection has ended, with the exception of ``on_frame`` if there was
            one.
        version: of the protocol, as agreed.
        outdated: the server announced that its settings changed.
        refusal: its answer to the request for frames, empty without one.
    """

    def __init__(self, on_frame: Callable[[DataFrame, int], None], counters: Counter[str]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self.closed: asyncio.Future[None] = loop.create_future()
        self.version = ""
        self.outdated = False
        self.refusal = ""
        self._commands = QRTConnection(self, timeout=REPLY_S)
        self._on_frame = on_frame
        self._counters = counters
        self._framing = Framing()
        self._last: DataFrame | None = None

    # --- commands ---------------------------------------------------------------------------------

    async def agree(self) -> str:
        """Agree on the newest version that both sides speak; return the server's title.

        Raises:
            TimeoutError: it does not answer. ConnectionError: it disconnected. QRTCommandException:
                it refused.
        """
        for version in _VERSIONS:
            try:
                async with asyncio.timeout(REPLY_S):
                    await self.set_version(version)
            except QRTCommandException:
                if version == _VERSIONS[-1]:
                    raise
            else:
                self.version = version
                break
        return _text(await self._commands.qtm_version()).replace("QTM Version is", "QTM")

    async def describe(self) -> Parameters:
        """Ask what is streamed.

        Raises:
            ProtocolError: the answer cannot be read. Otherwise as :meth:`agree`.
        """
        self.outdated = False
        try:
            return decode_parameters(await self._commands.get_parameters(["3d", "6d", "skeleton"]))
        except QRTCommandException:  # a server that knows no skeletons
            return decode_parameters(await self._commands.get_parameters(["3d", "6d"]))

    def stream(self, *, skeletons: bool) -> None:
        """Ask for every frame; may be repeated."""
        if self.transport is not None:
            components = "6d skeleton:global" if skeletons else "6d"
            self.send_command(f"streamframes allframes {components}", callback=False)

    async def probe(self) -> None:
        """Check that the server answers.

        Raises:
            TimeoutError, ConnectionError: it is not.
        """
        await self._commands.byte_order()

    def close(self) -> None:
        """Close at once."""
        transport: Any = self.transport
        if transport is not None:
            transport.abort()

    # --- receiving --------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Store the connection (called by the loop)."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail pending replies.

        Called by the loop, with the exception of a callback if that was the end.
        """
        super().connection_lost(exc)
        bug = None if isinstance(exc, OSError) else exc
        for waiting in self.request_queue:
            if not waiting.done():
                waiting.set_exception(bug or ConnectionResetError("the server disconnected"))
        if self.closed.done():
            return
        if bug is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(bug)
            self.closed.exception()  # no task may await it

    def data_received(self, data: bytes) -> None:
        """Handle each packet; pass on the newest frame, if it is a new one (called by the loop)."""
        t_arrival_ns = now_ns()
        newest: DataFrame | None = None
        try:
            for kind, packet in self._framing.feed(data):
                try:
                    frame = self._handle(kind, packet)
                except ProtocolError:
                    self._counters["malformed"] += 1
                    continue
                if frame is not None and self._is_new(frame):
                    self._counters["superseded"] += newest is not None
                    newest = frame
        except ProtocolError:  # the stream is out of step: only a new connection helps
            self._counters["malformed"] += 1
            self.close()
        if newest is not None:
            self._on_frame(newest, t_arrival_ns)

    def _is_new(self, frame: DataFrame) -> bool:
        """Return whether a frame differs from the one before it, emitted or not."""
        before = self._last
        self._last = frame
        if before is None or (frame.number, frame.t_us) != (before.number, before.t_us):
            return True
        self._counters["duplicates"] += 1
        return False

    def _handle(self, kind: int, packet: bytes) -> DataFrame | None:
        if kind == PacketType.DATA:
            return decode_data(packet[_HEADER_BYTES:])
        if kind == PacketType.EVENT:
            self.outdated |= packet[_HEADER_BYTES:] == bytes([Event.CAMERA_SETTINGS_CHANGED])
        elif kind == PacketType.ERROR and not self.request_queue:
            self.refusal = _text(packet[_HEADER_BYTES:])
        elif kind in _HANDED_ON:
            super().data_received(packet)
        elif kind != PacketType.NO_MORE_DATA:
            raise ProtocolError(f"packet of type {kind}", offset=4, length=len(packet))
        return None


async def connect(
    host: str, port: int, on_frame: Callable[[DataFrame, int], None], counters: Counter[str]
) -> QualisysConnection:
    """Connect to a server.

    Raises:
        OSError: it is unknown, refuses or is out of reach. TimeoutError: nothing answers.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(REPLY_S):
        _, link = await loop.create_connection(
            lambda: QualisysConnection(on_frame, counters), host, port
        )
    return link


def local_address(host: str, port: int) -> str:
    """Return the interface of the route to a server, in words."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return f"via interface {probe.getsockname()[0]}"
    except OSError as exc:
        return f"({exc.strerror or exc})"


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace").strip()

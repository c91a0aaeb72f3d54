"""Clients of an emulated DataStream server: requests of each, and packets that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from vil_adapters.vicon.codec import (
    CONTENTS,
    ENUMS,
    FILTER,
    NEXT_FRAME,
    PING,
    REQUEST_FRAME,
    START_MULTICAST,
    STOP_MULTICAST,
    Blocks,
    Deframer,
    MulticastSender,
    encode_packet,
    split_datagram,
    split_packet,
)
from vil_bridge.core.errors import ProtocolError

_RECEIVE_BYTES: Final = 65536
_HEADER_BYTES: Final = 8
_MAX_PENDING: Final = 2
_MAX_PINGS: Final = 64


class Client:
    """One TCP connection.

    At most one packet waits behind the one that is being written; a newer one replaces it.

    Args:
        sock: accepted, non-blocking.
        split_bytes: write in parts of so many bytes; 0 = as a whole.
        remove: called once when the connection ended.
        count: called with the name of each event worth counting.

    Attributes:
        wanted: types it asked for. filters: ids of subjects that pass, by type.
        pushing: gets every frame. pending: frames that it asked for one by one.
        greeted: was sent the supported types.
        expected: encoded descriptions that it should have. described: those that were written to
            it.
        multicast: group that it asked for, None = none.
    """

    def __init__(
        self,
        sock: socket.socket,
        split_bytes: int,
        remove: Callable[[Client], None],
        count: Callable[[str], None],
    ) -> None:
        self.wanted: AbstractSet[int] = frozenset()
        self.filters: Mapping[int, AbstractSet[int]] = {}
        self.pushing = False
        self.pending = 0
        self.greeted = False
        self.expected = b""
        self.described = b""
        self.multicast: MulticastSender | None = None
        self._sock = sock
        self._split_bytes = split_bytes
        self._remove = remove
        self._count = count
        self._deframer = Deframer()
        self._pings: list[int] = []
        self._writing = b""
        self._next: bytes | None = None

    def serve(self, guarded: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Begin to read."""
        self._write_ready = guarded(self._flush)
        asyncio.get_running_loop().add_reader(self._sock, guarded(self._read))

    def close(self) -> None:
        """Release the socket at once; may be called twice."""
        if self._sock.fileno() >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._sock)
            loop.remove_writer(self._sock)
            self._sock.close()

    # --- in ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            chunk = self._sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._remove(self)
            return
        self._deframer.feed(chunk)
        try:
            for content in self._deframer.packets():
                self._handle(split_packet(content))
        except ProtocolError:
            self._count("malformed")
            self._remove(self)

    def _handle(self, blocks: Blocks) -> None:
        """Follow requests, in any order."""
        wanted = ENUMS.first(blocks)
        if wanted is not None:
            self.wanted = wanted
            self.described = b""
        filters = FILTER.first(blocks)
        if filters is not None:
            self.filters = filters
        for mode in REQUEST_FRAME.all(blocks):
            self.pushing = mode == 1
            self.pending = int(mode != 1)
        for frames in NEXT_FRAME.all(blocks):
            self.pushing = False
            self.pending = min(self.pending + frames, _MAX_PENDING)
        self._pings = (self._pings + PING.all(blocks))[-_MAX_PINGS:]
        self.multicast = START_MULTICAST.first(blocks) or self.multicast
        if STOP_MULTICAST.type in blocks:
            self.multicast = None

    # --- out --------------------------------------------------------------------------------------

    def deliver(self, packet: bytes) -> None:
        """Write a packet when the one before it is written."""
        if self._sock.fileno() < 0:
            return
        if self._next is not None:
            self._count("superseded")
        self._next = packet
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._writing or self._next is not None:
                if not self._writing and self._next is not None:
                    if self.expected not in (b"", self.described) and self.expected in self._next:
                        self.described = self.expected
                    self._writing = self._with_pings(self._next)
                    self._next = None
                part = self._writing[: self._split_bytes or None]
                self._writing = self._writing[self._sock.send(part) :]
        except (BlockingIOError, InterruptedError):
            loop.add_writer(self._sock, self._write_ready)
            return
        except OSError:
            self._remove(self)
            return
        loop.remove_writer(self._sock)

    def _with_pings(self, packet: bytes) -> bytes:
        """Add the echoes to the packet that is written next, and to its table of contents."""
        if not self._pings:
            return packet
        with contextlib.suppress(ProtocolError):  # injected garbage carries no echo
            contents = CONTENTS.first(split_datagram(packet))
            if contents is not None:
                tokens = self._pings
                self._pings = []
                rest = packet[_HEADER_BYTES + len(CONTENTS.encode(contents)) :]
                counted = replace(contents, counts={**contents.counts, PING.type: len(tokens)})
                return encode_packet(CONTENTS.encode(counted), rest, *map(PING.encode, tokens))
        return packet

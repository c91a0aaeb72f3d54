"""Frames from the socket to poses in one call of the compiled kernel.

``vil_bridge/kernel/natnet_stream.c``.

Twin of the usual case of :mod:`~vil_adapters.optitrack.source`, which judges every datagram that is
anything else.
"""

from __future__ import annotations

import ctypes
import os
import socket
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.compiled_frame import PackedFrame, read_frame
from vil_adapters.optitrack.convert import NatNetConverter
from vil_adapters.sessions.frame_order import FASTEST_HZ, SKIPPED, FrameOrder
from vil_bridge.core.bridge_time import REAL_TIME, bridge_clock
from vil_bridge.kernel.library import KERNEL
from vil_bridge.kernel.structs import VilNatNetStream
from vil_bridge.protocols.natnet.codec import SIZED_SINCE, TICKS_SINCE, ServerInfo, Version
from vil_bridge.runtime.datagrams import Address

_receive: Final[Any] = None if KERNEL is None else KERNEL.vil_natnet_receive
_DATAGRAM_BYTES: Final = 65536
_MOST_TICKS_PER_S: Final = 10_000_000_000
_UNKNOWN_NS: Final = -(2**63)
_FRAME: Final = 1
_ODD: Final = 2
_IP_BYTES: Final = 4

_OF_FRAME: Final[Any] = attrgetter(
    "number",
    "t_capture_ns",
    "t_newest_ns",
    "lost",
    "superseded",
    "latency_ns",
    "params",
    "unread",
    "converted",
)


@dataclass(slots=True, eq=False)
class StreamedBatch:
    """Result of one wake-up.

    Attributes:
        number to unread: of the newest frame; its poses are in the arrays of the converter where
            ``converted``.
        lost: skipped numbers so far. superseded: older frames of this wake-up.
        has_frame: False when only ``odd`` came.
        odd: a datagram that was not judged, its sender and its arrival; more may wait behind it.
    """

    number: int
    t_foreign_ns: int
    t_arrival_ns: int
    lost: int
    superseded: int
    latency_ns: int
    params: int
    unread: int
    converted: bool
    all_poses: bool
    has_frame: bool
    odd: tuple[bytes, Address, int] | None


class CompiledStream:
    """Reception of a server's frames while server, layout and converter stay.

    Args:
        server_ip: of the server.
    """

    def __init__(self, server_ip: str) -> None:
        self._buffers = np.zeros(3 * _DATAGRAM_BYTES, np.uint8)
        self._start = self._buffers.ctypes.data
        self._stream = VilNatNetStream(
            server_ip=int.from_bytes(socket.inet_aton(server_ip), "little"),
            most_skipped=SKIPPED,
            fastest_hz=FASTEST_HZ,
            bytes=self._buffers,
            held=1,
            shown=2,
        )
        self._address = self._stream.pointer
        self._key: tuple[object, ...] = ()
        self._version: Version = (0, 0, 0, 0)

    def bind(
        self,
        converter: NatNetConverter | None,
        info: ServerInfo | None,
        version: Version,
        frame_port: int | None,
        order: FrameOrder,
    ) -> None:
        """Expect frames that follow on the ones judged so far, or none where the kernel cannot
        take them.
        """
        self._key = ()
        newest = order.newest
        rows = None if converter is None else converter.settled_rows
        if (
            rows is None
            or info is None
            or newest is None
            or frame_port is None
            or version < TICKS_SINCE
        ):
            return
        if not 0 < info.ticks_per_s < _MOST_TICKS_PER_S:
            return
        number, t_capture_ns, t_newest_ns = newest
        self._key = (converter, info, version)
        self._version = version
        self._stream.assign(
            frame_port=frame_port,
            sized=version >= SIZED_SINCE,
            ticks_per_s=info.ticks_per_s,
            binding=rows.struct,
            number=number,
            t_capture_ns=_UNKNOWN_NS if t_capture_ns is None else t_capture_ns,
            t_newest_ns=t_newest_ns,
            lost=order.lost,
            taken=0,
        )

    def takes(
        self, converter: NatNetConverter | None, info: ServerInfo | None, version: Version
    ) -> bool:
        """Return whether the kernel can judge the frames of now.

        Nothing has changed since :meth:`bind`.
        """
        key = self._key
        return (
            bool(key)
            and key[0] is converter
            and key[1] is info
            and key[2] is version
            and bridge_clock().mapping is REAL_TIME
        )

    def receive(self, fd: int) -> StreamedBatch | None:
        """Read what waits in a socket, up to the first datagram that is not a usual frame.

        None = nothing waited.

        Raises:
            OSError: the socket failed.
        """
        found = _receive(self._address, fd)
        if found <= 0:
            if found < 0:
                raise OSError(-found, os.strerror(-found))
            return None
        (
            number,
            t_capture_ns,
            t_newest_ns,
            lost,
            superseded,
            latency_ns,
            params,
            unread,
            converted,
        ) = _OF_FRAME(self._stream)
        odd = self._odd() if found & _ODD else None
        done = odd is None and converted >= 0
        return StreamedBatch(
            *(number, t_capture_ns, t_newest_ns, lost, superseded, latency_ns, params, unread),
            *(done, converted == 0, bool(found & _FRAME), odd),
        )

    def _odd(self) -> tuple[bytes, Address, int]:
        stream = self._stream
        return (
            self._datagram(stream.spare, stream.size),
            (socket.inet_ntoa(stream.odd_ip.to_bytes(_IP_BYTES, "little")), stream.odd_port),
            stream.odd_t_ns,
        )

    def _datagram(self, place: int, size: int) -> bytes:
        return ctypes.string_at(self._start + _DATAGRAM_BYTES * place, size)

    def frame(self, *, held: bool = False) -> PackedFrame:
        """Return the frame converted last, or the newest one where that was ``held`` back
        unconverted.
        """
        stream = self._stream
        if held:
            datagram = self._datagram(stream.held, stream.held_size)
        else:
            datagram = self._datagram(stream.shown, stream.shown_size)
        frame = read_frame(datagram, self._version)
        assert isinstance(frame, PackedFrame), "the kernel has checked it"
        return frame

    def update(self, order: FrameOrder) -> None:
        """Let the order go on behind the frames that the kernel took."""
        stream = self._stream
        if not stream.taken:
            return
        t_capture_ns = None if stream.t_capture_ns == _UNKNOWN_NS else stream.t_capture_ns
        order.follow(stream.number, t_capture_ns, stream.t_newest_ns, stream.lost)
        stream.taken = 0


def compiled_stream(server_ip: str, *, usable: bool) -> CompiledStream | None:
    """Return a stream where the kernel is there and the source is one that can use it."""
    return CompiledStream(server_ip) if usable and KERNEL is not None else None

"""Ends of TCP connections that libzmq owns, by which it does not abort the process.

libzmq stops reading a connection whose messages find no room. If that connection breaks now (by a reset, a time limit
of the kernel or the shutdown of both directions) and a PING is among the messages that wait, libzmq answers it on what
is broken and aborts (its issues 4364 and 4841). Any peer may send PINGs. Thus our listening sockets ignore resets, and
connections end by the end of their input, which libzmq reads when it has room.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import threading
from collections import deque
from typing import Final

from vil_bridge.core.clock import NS_PER_S, machine_ns

__all__ = ["borrowed", "end", "end_silenced", "has_ended", "ignore_resets"]

_SO_ATTACH_FILTER: Final = 26  # asm-generic/socket.h
# linux/filter.h: code, jump if true, jump if false, operand. A packet of 0 bytes is dropped.
_DROP_ALL: Final = ((0x06, 0, 0, 0),)
_DROP_RESETS: Final = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x04), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))  # TCP's flags
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
_SILENCE_NS: Final = 10 * NS_PER_S
_MOST_SILENCED: Final = 256  # each has a descriptor
_PIECE_BYTES: Final = 1 << 16
_silenced: Final[deque[tuple[int, int]]] = deque()  # instants of their ends, descriptors
_lock: Final = threading.Lock()


def ignore_resets(descriptor: int) -> None:
    """Let the kernel drop the resets that come to a listening socket's connections. Raises OSError.

    The caller has to end connections whose peer does not answer any more.
    """
    with borrowed(descriptor) as listener:
        _filter(listener, _DROP_RESETS)


def end(tcp: socket.socket, quietly: bool) -> None:
    """End a connection: libzmq gets no more of it, and closes it when it has handled what it has read.

    Args:
        tcp: its socket, borrowed.
        quietly: the peer sees the end 10 s later: one that comes back as soon as its connection ends costs more
            than a silenced one. Only so many at a time; the others see it at once.

    Raises:
        OSError: it has ended.
    """
    with contextlib.suppress(OSError):  # where the system refuses, libzmq reads what it still sends
        _filter(tcp, _DROP_ALL)
    with contextlib.suppress(BlockingIOError):
        while tcp.recv(_PIECE_BYTES, socket.MSG_DONTWAIT):
            pass
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    tcp.shutdown(socket.SHUT_RD)
    if quietly:
        with _lock:
            if len(_silenced) < _MOST_SILENCED:
                _silenced.append((machine_ns() + _SILENCE_NS, os.dup(tcp.fileno())))  # it stays as long as one has it


def end_silenced() -> None:
    """End the silenced connections whose time has come; called often, in any thread."""
    with _lock:
        while _silenced and _silenced[0][0] <= machine_ns():
            os.close(_silenced.popleft()[1])


def has_ended(tcp: socket.socket) -> bool:
    """Return True for a connection that :func:`end` ended and libzmq still has. Raises OSError."""
    return tcp.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET_AT_CLOSE)) == _RESET_AT_CLOSE


def borrowed(descriptor: int) -> socket.socket:
    """Return a duplicate of a descriptor as a socket, to be closed. Raises OSError when it is none."""
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)
        raise


def _filter(tcp: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    tcp.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))

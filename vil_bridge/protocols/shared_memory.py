"""Pictures to another process of the same user on the same host, through memory that both have
mapped.

The writer owns an anonymous file (``memfd``) with a few slots, writes each message's pictures into
the next slot and sends the reader the sequence number to fetch by other means. Nothing has a name
in a file system: the reader opens ``/proc/PID/fd/FD``, which the kernel grants to the same user
only, and the memory is gone with the last of the two processes, however they end. The file is
sealed against shrinking, so that a reader is never killed by a page that went away.

A slot holds (sequence, size) and the bytes. The writer clears the sequence before it touches the
bytes and sets it when they are complete; the reader copies them out and looks at the sequence
before and after, so that a picture that was overwritten during the copy is noticed and not used. As
many slots as messages that can be unread, and two more, keep that from happening at all.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import secrets
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ImageArray

SLOTS: Final = 6
"""For up to four unread messages."""
MAX_RING_BYTES: Final = 512 << 20
_NAME: Final = "vil-ring"
_LINK: Final = re.compile(rf"/memfd:{_NAME}( \(deleted\))?")
_HEADER: Final = struct.Struct("<8sII16s")  # magic, slots, bytes per slot, nonce
_MAGIC: Final = b"VILRING\x01"
_SLOT_HEADER: Final = struct.Struct("<QQ")  # sequence (0 = being written), size
_PAGE: Final = mmap.PAGESIZE
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class RingAddress(NamedTuple):
    """Address of a ring, which one process sends the other.

    Attributes:
        pid, fd: of the writer: its descriptor ``fd`` is the memory.
        nonce: 32 hexadecimal digits that the memory holds: a process that finds them is on the same
            host.
    """

    pid: int
    fd: int
    nonce: str


class RingWriter:
    """The process that makes the pictures; not for several threads.

    Raises:
        OSError: this system has no such memory, or not enough of it.
    """

    def __init__(self, slot_bytes: int, slots: int = SLOTS) -> None:
        self.slot_bytes = _pages(slot_bytes)
        self._slots = slots
        self._sequence = 0
        size = _file_bytes(self.slot_bytes, slots)
        if size > MAX_RING_BYTES:
            raise OSError(f"a ring of {size} bytes exceeds {MAX_RING_BYTES}")
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(fd, 0o600)
            os.posix_fallocate(fd, 0, size)  # now, since later its absence would kill the process
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            self._map = mmap.mmap(fd, size)
        except OSError:
            os.close(fd)
            raise
        nonce = secrets.token_bytes(16)
        _HEADER.pack_into(self._map, 0, _MAGIC, slots, self.slot_bytes, nonce)
        self.address = RingAddress(os.getpid(), fd, nonce.hex())

    def write(self, arrays: Sequence[ImageArray]) -> int:
        """Copy arrays of any strides, one after the other in C order, into the next slot.

        Returns its sequence number.

        Raises:
            ValueError: they are larger than a slot.
        """
        size = sum(array.nbytes for array in arrays)
        if size > self.slot_bytes:
            raise ValueError(f"{size} bytes do not fit into slots of {self.slot_bytes}")
        self._sequence += 1
        at = _slot_offset(self._sequence, self._slots, self.slot_bytes)
        _SLOT_HEADER.pack_into(self._map, at, 0, size)
        offset = at + _PAGE
        for array in arrays:
            np.copyto(np.ndarray(array.shape, array.dtype, self._map, offset), array)
            offset += array.nbytes
        _SLOT_HEADER.pack_into(self._map, at, self._sequence, size)
        return self._sequence

    def close(self) -> None:
        """Give the memory back as soon as the reader has, too; the ring must not be used again."""
        self._map.close()
        os.close(self.address.fd)


class RingReader:
    """The process that takes the pictures; not for several threads.

    Raises:
        OSError: there is no such memory that this process may read: another host, user or
            container.
        ProtocolError: it is not the ring that was announced.
    """

    def __init__(self, address: RingAddress) -> None:
        self.address = address
        fd = _open_ring(address)
        try:
            size = _checked_size(fd)
            self._map = mmap.mmap(fd, size, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        magic, self._slots, self._slot_bytes, nonce = _HEADER.unpack_from(self._map)
        slots_fit = self._slots > 0 and _file_bytes(self._slot_bytes, self._slots) == size
        if magic != _MAGIC or nonce.hex() != address.nonce or not slots_fit:
            self._map.close()
            raise ProtocolError("the shared memory is not the ring that was announced", length=size)

    def read(self, sequence: int, size: int) -> npt.NDArray[np.uint8]:
        """Return a copy of the bytes written under a sequence number, shape (size,).

        Raises:
            ProtocolError: the slot holds something else, before or after it was copied.
        """
        if not (0 < sequence < 1 << 63 and 0 <= size <= self._slot_bytes):
            raise ProtocolError(f"no slot of the ring holds {size} bytes under number {sequence}")
        at = _slot_offset(sequence, self._slots, self._slot_bytes)
        expected = (sequence, size)
        taken = np.empty(size, np.uint8)
        if _SLOT_HEADER.unpack_from(self._map, at) == expected:
            np.copyto(taken, np.frombuffer(self._map, np.uint8, size, at + _PAGE))
            if _SLOT_HEADER.unpack_from(self._map, at) == expected:
                return taken
        raise ProtocolError(
            f"number {sequence} is no longer, or was never, in the ring", length=size
        )

    def close(self) -> None:
        """Unmap; the ring must not be used again."""
        self._map.close()


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _file_bytes(slot_bytes: int, slots: int) -> int:
    """Return a page of header and the slots, each with a page of header, since pixels begin on a
    page.
    """
    return _PAGE + slots * (_PAGE + slot_bytes)


def _slot_offset(sequence: int, slots: int, slot_bytes: int) -> int:
    return _PAGE + (sequence % slots) * (_PAGE + slot_bytes)


def _open_ring(address: RingAddress) -> int:
    """Return a descriptor of the announced memory.

    Nothing else is ever opened, whatever was announced.
    """
    if address.pid <= 0 or address.fd < 0:
        raise ProtocolError(f"process {address.pid} with descriptor {address.fd} cannot be")
    path = Path(f"/proc/{address.pid}/fd/{address.fd}")
    link = str(path.readlink())
    if not _LINK.fullmatch(link):
        raise ProtocolError(
            f"descriptor {address.fd} of process {address.pid} is {link[:80]!r}, not a ring"
        )
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _checked_size(fd: int) -> int:
    """Return the size of a ring's file after a check of owner, mode, seals and size."""
    found = os.fstat(fd)
    private = (
        stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    )
    if not private or fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise ProtocolError("the announced memory belongs to another user or can shrink")
    if not _file_bytes(_PAGE, 1) <= found.st_size <= MAX_RING_BYTES:
        raise ProtocolError("the announced memory has an unreasonable size", length=found.st_size)
    return found.st_size

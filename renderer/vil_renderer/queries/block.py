"""Memory that a scene's process and its owner share: one message at a time, and its arrays.

The memory has no name (``memfd``): it is gone with the last of the two processes, however they end.
It is allocated when it grows, since memory that is absent later would kill the process that touches
it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_renderer.queries.messages import (
    MOST_BYTES,
    ArrayPlace,
    QueryMessage,
    decode_message,
    encode,
)

BLOCK_BYTES: Final = 4 << 20
"""Size at the start, and after an answer that took much more."""
_STORED_BYTES: Final = 64 << 20
_ALIGNMENT: Final = 64
_MESSAGE_BYTES: Final = 64 << 20
"""Bound on a message without its arrays."""

Array = npt.NDArray[Any]


class SharedBlock:
    """One process's mapping of the memory.

    Args:
        fd: the memory; the block owns it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None
        self.size = 0

    @classmethod
    def create(cls) -> SharedBlock:
        """Return new memory.

        Raises:
            RendererError: this system does not have as much.
        """
        block = cls(os.memfd_create("vil-scene", os.MFD_CLOEXEC))
        block.reserve(BLOCK_BYTES)
        return block

    def reserve(self, size: int) -> None:
        """Make the memory at least this large.

        Raises:
            RendererError: this system does not have as much.
        """
        if size <= self.size:
            return
        if size > MOST_BYTES + _MESSAGE_BYTES:
            raise RendererError(
                f"{size} bytes exceed {MOST_BYTES}: ask for fewer or smaller pictures"
            )
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            os.posix_fallocate(self.fd, 0, size)
        except OSError as exc:
            raise RendererError(f"no shared memory of {size} bytes: {exc}") from exc
        self.map(size)

    def map(self, size: int) -> None:
        """Use the size that the other process chose.

        Raises:
            ProtocolError: the memory is not that large.
        """
        if size == self.size:
            return
        if not 0 < size <= os.fstat(self.fd).st_size:
            raise ProtocolError("the shared memory is smaller than announced", length=size)
        # Arrays may still need the old mapping.
        self._map = mmap.mmap(self.fd, size)
        self.size = size

    def trim(self) -> None:
        """Give much memory back; nothing in it is needed any more."""
        if self.size > _STORED_BYTES:
            os.ftruncate(self.fd, BLOCK_BYTES)
            self.map(BLOCK_BYTES)

    def close(self) -> None:
        """Give the memory back as soon as the other process has, too."""
        self._map = None
        os.close(self.fd)

    def write(
        self, body: bytes, arrays: Sequence[Array] = (), error: str = "", work_ns: int = 0
    ) -> tuple[int, int]:
        """Copy a message with its arrays into the memory; returns its offset and length.

        Raises:
            RendererError: it is too large.
        """
        places = list(places_of(arrays))
        end = _end(places)
        message = encode(QueryMessage(msgspec.Raw(body), tuple(places), error, work_ns))
        if len(message) > _MESSAGE_BYTES:
            raise RendererError(f"a message of {len(message)} bytes exceeds {_MESSAGE_BYTES}")
        self.reserve(end + len(message))
        for place, array in zip(places, arrays, strict=True):
            np.copyto(self.view(place), array)
        assert self._map is not None
        self._map[end : end + len(message)] = message
        return end, len(message)

    def read(self, offset: int, length: int) -> QueryMessage:
        """Return the message at a place; its arrays stay in the memory.

        Raises:
            ProtocolError: there is none.
        """
        if self._map is None or not 0 <= offset <= offset + length <= self.size:
            raise ProtocolError(
                "a message lies outside of the shared memory", offset=offset, length=length
            )
        return decode_message(self._map[offset : offset + length])

    def view(self, place: ArrayPlace) -> Array:
        """Return an array in the memory, valid until the next message.

        Raises:
            ProtocolError: it does not lie there.
        """
        if self._map is None:
            raise ProtocolError("the shared memory is closed")
        try:
            return np.ndarray(place.shape, np.dtype(place.dtype), self._map, place.offset)
        except (TypeError, ValueError) as exc:
            raise ProtocolError(
                f"an array lies outside of the shared memory: {exc}", offset=place.offset
            ) from exc


def places_of(arrays: Iterable[Array]) -> Iterable[ArrayPlace]:
    """Yield where arrays go, one after the other from the start."""
    offset = 0
    for array in arrays:
        yield ArrayPlace(offset, array.dtype.str, array.shape)
        offset = -(-(offset + array.nbytes) // _ALIGNMENT) * _ALIGNMENT


def _end(places: Sequence[ArrayPlace]) -> int:
    if not places:
        return 0
    last = places[-1]
    nbytes = int(np.prod(last.shape, dtype=np.int64)) * np.dtype(last.dtype).itemsize
    return -(-(last.offset + nbytes) // _ALIGNMENT) * _ALIGNMENT

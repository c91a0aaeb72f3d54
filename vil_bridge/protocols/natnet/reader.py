"""A bounds-checked cursor over one NatNet datagram."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from vil_bridge.core.errors import ProtocolError

HEADER_BYTES: Final = 4
"""Message id and payload size before every payload."""

_I32: Final = Struct("<i")


class DatagramReader:
    """A cursor over part of a datagram that never reads past its end.

    Attributes:
        data: the whole datagram.
        offset: next byte to read.
        end: first byte that does not belong to this part.
    """

    __slots__ = ("data", "end", "offset")

    def __init__(self, data: bytes, offset: int = HEADER_BYTES, end: int | None = None) -> None:
        self.data = data
        self.offset = offset
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Return the number of bytes not read yet."""
        return self.end - self.offset

    def error(self, message: str) -> ProtocolError:
        """Return a ProtocolError for the current position."""
        return ProtocolError(message, offset=self.offset, length=len(self.data))

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns the offset of the first."""
        start = self.offset
        if not 0 <= size <= self.end - start:
            raise self.error(f"{size} bytes wanted, {self.end - start} left")
        self.offset = start + size
        return start

    def take(self, layout: Struct) -> tuple[Any, ...]:
        """Read one packed structure."""
        return layout.unpack_from(self.data, self.skip(layout.size))

    def i32(self) -> int:
        """Read one signed integer."""
        value: int = self.take(_I32)[0]
        return value

    def count(self, least_bytes: int) -> int:
        """Read a number of elements that take at least ``least_bytes`` each.

        Bounded by what is left.
        """
        start = self.offset
        count = self.i32()
        if not 0 <= count * least_bytes <= self.left:
            message = (
                f"count {count} of elements of {least_bytes} bytes or more, {self.left} bytes left"
            )
            raise ProtocolError(message, offset=start, length=len(self.data))
        return count

    def part(self, size: int) -> DatagramReader:
        """Return a reader of the next ``size`` bytes, over which this one passes."""
        start = self.skip(size)
        return DatagramReader(self.data, start, start + size)

    def text(self) -> str:
        """Read one NUL-terminated string."""
        stop = self.data.find(b"\0", self.offset, self.end)
        if stop < 0:
            raise self.error("string without end")
        value = self.data[self.offset : stop].decode("utf-8", "replace")
        self.offset = stop + 1
        return value

    def finish(self) -> None:
        """Check that everything was read."""
        if self.offset != self.end:
            raise self.error(f"{self.left} bytes too many")

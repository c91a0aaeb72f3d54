"""Depth of MessagePack before it is unpacked.

An unpacker allocates an array as soon as its header has come.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FIX_MAP: Final = 0x80
_FIX_ARRAY: Final = 0x90
_FIX_TEXT: Final = 0xA0
_NIL: Final = 0xC0
_NEGATIVE: Final = 0xE0

_FIXED: Final[Mapping[int, int]] = {
    **dict(zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True)),
    **dict(zip(range(0xD4, 0xD9), (2, 3, 5, 9, 17), strict=True)),
}
"""Bytes after the header of floats, integers and extensions of a fixed size."""
_SIZED: Final[Mapping[int, int]] = dict(
    zip((0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB), (1, 2, 4, 1, 2, 4), strict=True)
)
"""Bytes of the length of bytes and texts."""
_EXTENSIONS: Final[Mapping[int, int]] = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_CONTAINERS: Final[Mapping[int, tuple[int, int]]] = {
    0xDC: (2, 1),
    0xDD: (4, 1),
    0xDE: (2, 2),
    0xDF: (4, 2),
}
"""Bytes of the count of arrays and maps, and items for each."""


class NestingLimit:
    """Limit of how deep arrays and maps stand in each other, over messages that come in any pieces.

    Args:
        most: arrays and maps in each other.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._items_left: list[int] = []
        self._skipped_bytes = 0
        self._cut = b""

    def check(self, piece: bytes | memoryview) -> None:
        """Follow the next bytes. Raises ValueError: they are nested too deep."""
        data = self._cut + bytes(piece)
        left = self._items_left
        end = len(data)
        place = self._skipped_bytes
        while place < end:
            header = data[place]
            begin = place
            place += 1
            items = 0
            if header < _FIX_MAP or header >= _NEGATIVE:
                pass
            elif header < _FIX_ARRAY:
                items = 2 * (header - _FIX_MAP)
            elif header < _FIX_TEXT:
                items = header - _FIX_ARRAY
            elif header < _NIL:
                place += header - _FIX_TEXT
            elif header in _FIXED:
                place += _FIXED[header]
            elif header in _CONTAINERS:
                size, each = _CONTAINERS[header]
                if place + size > end:
                    self._cut = data[begin:]
                    self._skipped_bytes = 0
                    return
                items = each * int.from_bytes(data[place : place + size], "big")
                place += size
            elif header in _SIZED or header in _EXTENSIONS:
                size = _SIZED.get(header) or _EXTENSIONS[header]
                if place + size > end:
                    self._cut = data[begin:]
                    self._skipped_bytes = 0
                    return
                place += (
                    size
                    + int.from_bytes(data[place : place + size], "big")
                    + (header in _EXTENSIONS)
                )
            if left:
                left[-1] -= 1
            if items:
                if len(left) >= self._most:
                    raise ValueError(f"arrays and maps are nested more than {self._most} deep")
                left.append(items)
            while left and not left[-1]:
                left.pop()
        self._cut = b""
        self._skipped_bytes = place - end

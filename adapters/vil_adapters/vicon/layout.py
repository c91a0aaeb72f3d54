"""Layouts of CGStream: little-endian, packed, counted vectors; each layout reads and writes.

A layout is built from smaller ones, so that a block is described once for both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError

T = TypeVar("T")
K = TypeVar("K", int, str)
_COUNT: Final = Struct("<I")


@dataclass(frozen=True, slots=True)
class ValueLayout(Generic[T]):
    """One kind of value in bytes.

    Attributes:
        read: (data, offset) to (value, offset behind it); raises ProtocolError when data are too
            short.
        write: value to bytes.
        smallest: fewest bytes that such a value takes; bounds counts before anything is allocated.
    """

    read: Callable[[bytes, int], tuple[T, int]]
    write: Callable[[T], bytes]
    smallest: int


def _need(data: bytes, at: int, size: int) -> None:
    if len(data) - at < size:
        raise ProtocolError(f"{size} bytes needed", offset=at, length=len(data))


def number(code: str) -> ValueLayout[Any]:
    """Return one number by its letter in :mod:`struct`."""
    packed = Struct("<" + code)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        _need(data, at, packed.size)
        return packed.unpack_from(data, at)[0], at + packed.size

    return ValueLayout(read, packed.pack, packed.size)


def numbers(code: str) -> ValueLayout[tuple[Any, ...]]:
    """Return a fixed array of numbers."""
    packed = Struct("<" + code)

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        _need(data, at, packed.size)
        return packed.unpack_from(data, at), at + packed.size

    return ValueLayout(read, lambda values: packed.pack(*values), packed.size)


def _read_count(data: bytes, at: int, smallest: int) -> tuple[int, int]:
    """Return a count that the rest of the data can hold."""
    _need(data, at, _COUNT.size)
    count: int = _COUNT.unpack_from(data, at)[0]
    at += _COUNT.size
    if count * smallest > len(data) - at:
        raise ProtocolError(f"count {count} exceeds the data", offset=at, length=len(data))
    return count, at


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read_count(data, at, 1)
    return data[at : at + size].decode(errors="replace"), at + size


def _write_text(text: str) -> bytes:
    encoded = text.encode()
    return _COUNT.pack(len(encoded)) + encoded


TEXT: Final = ValueLayout(_read_text, _write_text, _COUNT.size)


def vector(item: ValueLayout[T]) -> ValueLayout[tuple[T, ...]]:
    """Return a counted sequence."""

    def read(data: bytes, at: int) -> tuple[tuple[T, ...], int]:
        count, at = _read_count(data, at, item.smallest)
        items = []
        for _ in range(count):
            value, at = item.read(data, at)
            items.append(value)
        return tuple(items), at

    def write(items: tuple[T, ...]) -> bytes:
        return _COUNT.pack(len(items)) + b"".join(map(item.write, items))

    return ValueLayout(read, write, _COUNT.size)


def rows(dtype: np.dtype[Any]) -> ValueLayout[npt.NDArray[Any]]:
    """Return a counted sequence of rows without variable parts, as a structured array.

    A view of the data.
    """

    def read(data: bytes, at: int) -> tuple[npt.NDArray[Any], int]:
        count, at = _read_count(data, at, dtype.itemsize)
        return np.frombuffer(data, dtype, count, at), at + count * dtype.itemsize

    def write(array: npt.NDArray[Any]) -> bytes:
        return _COUNT.pack(len(array)) + array.tobytes()

    return ValueLayout(read, write, _COUNT.size)


def set_of(item: ValueLayout[K]) -> ValueLayout[AbstractSet[K]]:
    """Return a counted set, written in ascending order."""
    items = vector(item)

    def read(data: bytes, at: int) -> tuple[AbstractSet[K], int]:
        found, at = items.read(data, at)
        return frozenset(found), at

    return ValueLayout(read, lambda values: items.write(tuple(sorted(values))), _COUNT.size)


def mapping(key: ValueLayout[K], value: ValueLayout[T]) -> ValueLayout[Mapping[K, T]]:
    """Return a counted map, written by ascending keys."""

    def read_pair(data: bytes, at: int) -> tuple[tuple[K, T], int]:
        name, at = key.read(data, at)
        found, at = value.read(data, at)
        return (name, found), at

    pair = ValueLayout(
        read_pair,
        lambda both: key.write(both[0]) + value.write(both[1]),
        key.smallest + value.smallest,
    )
    pairs = vector(pair)

    def read(data: bytes, at: int) -> tuple[Mapping[K, T], int]:
        found, at = pairs.read(data, at)
        return dict(found), at

    def write(values: Mapping[K, T]) -> bytes:
        return pairs.write(tuple((name, values[name]) for name in sorted(values)))

    return ValueLayout(read, write, _COUNT.size)


def record(kind: type[T], *parts: ValueLayout[Any]) -> ValueLayout[T]:
    """Return a dataclass, one layout per field in order."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    assert len(names) == len(parts)

    def read(data: bytes, at: int) -> tuple[T, int]:
        values = []
        for part in parts:
            value, at = part.read(data, at)
            values.append(value)
        return kind(*values), at

    def write(value: T) -> bytes:
        return b"".join(
            part.write(getattr(value, name)) for name, part in zip(names, parts, strict=True)
        )

    return ValueLayout(read, write, sum(part.smallest for part in parts))

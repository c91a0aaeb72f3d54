"""Bytes of buffer views that EXT_meshopt_compression packed.

Written from the extension's appendix A. Every read is bounded; a stream that is broken raises
ValueError with the reason. The caller bounds the size of what comes out.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.gltf.meshopt_filters import FILTERS
from vil_renderer.embedded.assets.gltf.schema import Meshopt

_Bytes = npt.NDArray[np.uint8]
_GROUP: Final = 16
_BLOCK_BYTES: Final = 8192
_MOST_ELEMENTS: Final = 256
_TAIL: Final = 32


def _sentinels(bits: int, most: int) -> list[int]:
    """Return how many values of a byte are the largest, for each byte."""
    counts = []
    for byte in range(256):
        values = [byte >> shift & most for shift in range(0, 8, bits)]
        counts.append(values.count(most))
    return counts


_SENTINELS: Final = (_sentinels(2, 3), _sentinels(4, 15))
"""Of each byte.

How many of its values say that the delta follows as a byte, for values of 2 and of 4 bits.
"""
_EDGES: Final = 16
_WORD: Final = 0xFFFFFFFF


def decode_view(described: Meshopt, data: bytes) -> bytes:
    """Return the bytes of a view.

    Raises:
        ValueError: the description or the stream is broken; the message says how.
    """
    stride = described.byte_stride
    count = described.count
    if described.mode == "ATTRIBUTES":
        if stride % 4:
            raise ValueError(f"a stride of {stride} bytes, but attributes have a multiple of 4")
        values = _attributes(data, count, stride)
        change = FILTERS[described.filter]
        if change is None:
            return values.tobytes()
        return change(values).tobytes()
    if stride not in (2, 4) or described.filter != "NONE":
        raise ValueError(
            f"indices of {stride} bytes with filter {described.filter}; they have 2 or 4 and none"
        )
    if described.mode == "TRIANGLES":
        if count % 3:
            raise ValueError(f"{count} indices are no triangles")
        indices = _triangles(data, count // 3)
    else:
        indices = _indices(data, count)
    return indices.astype("<u2" if stride == 2 else "<u4").tobytes()


def _check_header(data: bytes, expected: int) -> None:
    found = data[0] if data else 0
    if found >> 4 == expected >> 4 and found != expected:
        raise ValueError(
            f"version {found & 15} of the stream is not read. Pack it with gltfpack -c"
        )
    if found != expected:
        raise ValueError(f"the stream begins with {found:#04x} instead of {expected:#04x}")


# --- attributes --------------------------------------------------------------------------------


def _attributes(data: bytes, count: int, stride: int) -> _Bytes:
    """Return elements as bytes (count, stride): running sums of deltas, byte by byte."""
    _check_header(data, 0xA0)
    tail = len(data) - max(_TAIL, stride)
    if tail < 1:
        raise ValueError("the stream is cut short")
    deltas = np.zeros((-(-count // _GROUP) * _GROUP, stride), np.uint8)
    _write_deltas(deltas, data, _groups(data, tail, count, stride))
    deltas = np.where(deltas & 1, ~(deltas >> 1), deltas >> 1)
    # Blocks end at full groups, except for the last one: rows are elements.
    deltas[0] += np.frombuffer(data, np.uint8, stride, len(data) - stride)
    return np.cumsum(deltas, axis=0, dtype=np.uint8)[:count]


def _groups(data: bytes, tail: int, count: int, stride: int) -> tuple[list[list[int]], ...]:
    """Return, for the coded modes 1 to 3, the groups.

    First element, byte of the element, place in the stream.
    """
    found: tuple[list[list[int]], ...] = ([], [], [])
    most = min(_BLOCK_BYTES // stride & ~(_GROUP - 1), _MOST_ELEMENTS)
    at = 1
    for first in range(0, count, most):
        groups = math.ceil(min(count - first, most) / _GROUP)
        for byte in range(stride):
            header = data[at : at + math.ceil(groups / 4)]
            at += math.ceil(groups / 4)
            if at > tail:
                raise ValueError("the stream is cut short")
            for group in range(groups):
                mode = header[group >> 2] >> 2 * (group & 3) & 3
                if not mode:
                    continue
                found[mode - 1].append([first + group * _GROUP, byte, at])
                at += _group_bytes(data, at, mode)
    if at > tail:
        raise ValueError("the stream is cut short")
    if at < tail:
        raise ValueError(f"{tail - at} bytes of the stream are left over")
    return found


def _group_bytes(data: bytes, at: int, mode: int) -> int:
    """Return the length of a group: its values, and a byte for each that did not fit."""
    if mode == 3:
        return _GROUP
    packed = data[at : at + 4 * mode]
    table = _SENTINELS[mode - 1]
    return 4 * mode + sum([table[byte] for byte in packed])


def _write_deltas(deltas: _Bytes, data: bytes, found: tuple[list[list[int]], ...]) -> None:
    stream = np.frombuffer(data, np.uint8)
    for mode, groups in enumerate(found, start=1):
        if not groups:
            continue
        first, byte, at = np.array(groups).T
        rows = first[:, None] + np.arange(_GROUP)
        if mode == 3:
            deltas[rows, byte[:, None]] = stream[at[:, None] + np.arange(_GROUP)]
            continue
        bits = 2 * mode
        # The first value is in the highest bits.
        shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
        packed = stream[at[:, None] + np.arange(4 * mode)]
        values = (packed[:, :, None] >> shifts & np.uint8(2**bits - 1)).reshape(-1, _GROUP)
        escaped = values == 2**bits - 1
        place = at[:, None] + 4 * mode + np.cumsum(escaped, axis=1) - 1
        values[escaped] = stream[place[escaped]]
        deltas[rows, byte[:, None]] = values


# --- indices -----------------------------------------------------------------------------------


def _indices(data: bytes, count: int) -> npt.NDArray[np.uint32]:
    """Return indices (count,), each a step from one of two running ones."""
    _check_header(data, 0xD1)
    stream = np.frombuffer(data[1:-4], np.uint8).astype(np.uint64)
    ends = np.flatnonzero(stream < 128)
    if len(ends) != count or (count and ends[-1] != len(stream) - 1):
        raise ValueError(f"the stream holds {len(ends)} numbers instead of {count}")
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.intp)
    length = ends - starts + 1
    if count and length.max() > 5:
        raise ValueError("a number has more than 5 bytes")
    place = np.arange(len(stream)) - np.repeat(starts, length)
    parts = (stream & np.uint64(127)) << (7 * place).astype(np.uint64)
    values = np.add.reduceat(parts, starts) if count else parts
    values = (values & np.uint64(_WORD)).astype(np.uint32)
    steps = np.where(values & 2, ~(values >> 2), values >> 2)
    made = np.zeros(count, np.uint32)
    for baseline in range(2):
        own = (values & 1) == baseline
        made[own] = np.cumsum(steps[own], dtype=np.uint32)
    return made


def _triangles(data: bytes, count: int) -> npt.NDArray[np.uint32]:
    """Return the corners of triangles (3 count,)."""
    _check_header(data, 0xE1)
    reader = _TriangleReader(data, count)
    try:
        for code in data[1 : 1 + count]:
            reader.add(code)
    except IndexError:
        raise ValueError("the stream is cut short") from None
    if reader.at != len(data) - _EDGES:
        raise ValueError("the stream has not the length that its triangles need")
    return np.array(reader.corners, np.uint64).astype(np.uint32)


class _TriangleReader:
    """State of the triangle decoder.

    Attributes:
        corners: of the triangles so far. at: place in the data behind the codes.
    """

    def __init__(self, data: bytes, count: int) -> None:
        if len(data) < 1 + count + _EDGES:
            raise ValueError("the stream is cut short")
        self.corners: list[int] = []
        self.at = 1 + count
        self._data = data
        self._end = len(data) - _EDGES
        self._table = data[-_EDGES:]
        self._next = 0
        self._last = 0
        # The newest comes last: fifo[-1 - k] is the k-th.
        self._edges: list[tuple[int, int]] = [(0, 0)] * _EDGES
        self._vertices: list[int] = [0] * _EDGES

    def add(self, code: int) -> None:
        """Decode a triangle."""
        high = code >> 4
        low = code & 15
        if high == 15:
            self._add_free(low)
            return
        a, b = self._edges[-1 - high]
        if low == 0:
            c = self._new()
        elif low < 13:
            c = self._vertices[-1 - low]
        elif low == 15:
            c = self._read_index()
        elif low == 14:
            c = self._last = (self._last + 1) & _WORD
        else:
            c = self._last = (self._last - 1) & _WORD
        if low == 0 or low >= 13:
            self._push(c)
        self._edges += ((c, b), (a, c))
        self._emit(a, b, c)

    def _add_free(self, low: int) -> None:
        """Decode a triangle that shares no recent edge."""
        pair = self._table[low] if low < 14 else self._byte()
        if low >= 14 and pair == 0:
            self._next = 0
        a = self._read_index() if low == 15 else self._new()
        b, is_new_b = self._corner(pair >> 4, explicit=low >= 14)
        c, is_new_c = self._corner(pair & 15, explicit=low >= 14)
        self._push(a)
        if is_new_b:
            self._push(b)
        if is_new_c:
            self._push(c)
        self._edges += ((b, a), (c, b), (a, c))
        self._emit(a, b, c)

    def _corner(self, which: int, *, explicit: bool) -> tuple[int, bool]:
        """Return a corner, and whether it is new to the recent vertices."""
        if which == 0:
            return self._new(), True
        if which < 15:
            return self._vertices[-which], False
        if not explicit:
            raise ValueError("its table holds a value that must not be there")
        return self._read_index(), True

    def _emit(self, a: int, b: int, c: int) -> None:
        self.corners += (a, b, c)
        if len(self._edges) > 4096:
            del self._edges[:-_EDGES]

    def _push(self, vertex: int) -> None:
        self._vertices.append(vertex)
        if len(self._vertices) > 4096:
            del self._vertices[:-_EDGES]

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _byte(self) -> int:
        if self.at >= self._end:
            raise ValueError("the stream is cut short")
        self.at += 1
        return self._data[self.at - 1]

    def _read_index(self) -> int:
        """Return an index that is written as a step from the last such one."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            if shift > 28:
                raise ValueError("a number has more than 5 bytes")
        step = value >> 1
        if value & 1:
            step = ~step
        self._last = (self._last + step) & _WORD
        return self._last

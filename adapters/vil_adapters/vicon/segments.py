"""Segments of all subjects of a frame as one table.

The hot path, read and written by runs of equal blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_adapters.vicon.blocks import LIGHTWEIGHT_SEGMENTS
from vil_bridge.core.errors import ProtocolError

Table = npt.NDArray[Any]

ROW: Final = np.dtype([("subject", "<u4"), ("id", "<u4"), ("p", "<f8", 3), ("R", "<f8", (3, 3))])
"""Local and global segments: millimetres, row-major rotation (parent or world from segment)."""
LIGHT_ROW: Final = np.dtype(
    [("subject", "<u4"), ("id", "<u4"), ("p", "<f4", 3), ("rotvec", "<f4", 3)]
)
"""Lightweight segments: millimetres, rotation vector in radians, relative to the parent."""

_HEAD: Final = Struct("<II")  # subject, count


def row_type(kind: int) -> np.dtype[Any]:
    """Return the row of a type of block."""
    return LIGHT_ROW if kind == LIGHTWEIGHT_SEGMENTS.type else ROW


@lru_cache(maxsize=256)
def _block(row: np.dtype[Any], count: int, *, headed: bool) -> np.dtype[Any]:
    """Return a whole block of ``count`` segments, with or without the block's header."""
    assert row.names is not None
    segment = np.dtype([(name, row[name]) for name in row.names[1:]])
    header = [("type", "<u4"), ("length", "<u4")] if headed else []
    return np.dtype(
        [*header, ("subject", "<u4"), ("count", "<u4"), ("segments", segment, (count,))]
    )


def decode_segments(bodies: Sequence[bytes], row: np.dtype[Any]) -> Table:
    """Return all segments of a frame, shape (k,), in the order of the stream.

    Args:
        bodies: of the segment blocks, one per subject.
        row: ``ROW`` or ``LIGHT_ROW``.

    Raises:
        ProtocolError: a body is shorter than its count says.
    """
    parts = [_decode_run(list(run), size, row) for size, run in itertools.groupby(bodies, len)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, row)


def _decode_run(bodies: list[bytes], size: int, row: np.dtype[Any]) -> Table:
    """Return the bodies of one size."""
    if size < _HEAD.size:
        raise ProtocolError("segments without a count", length=size)
    count: int = _HEAD.unpack_from(bodies[0])[1]
    needed = _HEAD.size + count * (row.itemsize - 4)
    if needed != size:
        return _decode_odd(bodies, row)
    blocks = np.frombuffer(b"".join(bodies), _block(row, count, headed=False))
    if (blocks["count"] != count).any():
        return _decode_odd(bodies, row)
    table = np.empty((len(blocks), count), row)
    table["subject"] = blocks["subject"][:, None]
    assert row.names is not None
    for name in row.names[1:]:
        table[name] = blocks["segments"][name]
    return table.reshape(-1)


def _decode_odd(bodies: list[bytes], row: np.dtype[Any]) -> Table:
    """Return the bodies of one size with different counts.

    Data was appended to them, or they are wrong.
    """
    cut = []
    for body in bodies:
        count: int = _HEAD.unpack_from(body)[1]
        needed = _HEAD.size + count * (row.itemsize - 4)
        if needed > len(body):
            raise ProtocolError(f"{count} segments need {needed} bytes", offset=0, length=len(body))
        cut.append(_decode_run([body[:needed]], needed, row))
    return np.concatenate(cut)


def encode_segments(kind: int, table: Table) -> bytes:
    """Return blocks of one type, one per run of rows of the same subject.

    Inverse of :func:`decode_segments`.
    """
    if not len(table):
        return b""
    row = row_type(kind)
    starts = np.flatnonzero(np.diff(table["subject"], prepend=table["subject"][:1] + 1))
    counts = np.diff(starts, append=len(table))
    parts = []
    at = 0
    for count, run in itertools.groupby(counts.tolist()):
        subjects = len(list(run))
        part = table[at : at + subjects * count].reshape(subjects, count)
        blocks = np.empty(subjects, _block(row, count, headed=True))
        blocks["type"] = kind
        blocks["count"] = count
        blocks["length"] = _HEAD.size + count * (row.itemsize - 4)
        blocks["subject"] = part["subject"][:, 0]
        assert row.names is not None
        for name in row.names[1:]:
            blocks["segments"][name] = part[name]
        parts.append(blocks.tobytes())
        at += subjects * count
    return b"".join(parts)

"""Tracker's UDP object stream (vicon_datastream.md section 5).

Pure functions for both directions.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import q_exp, q_mul, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.runtime.datagrams import Address, Datagram

_BLOCK: Final = Struct("<IB")
_ITEM_HEADER: Final = Struct("<BH")
ITEM: Final = np.dtype([("name", "S24"), ("p", "<f8", 3), ("euler", "<f8", 3)])
"""An object: name, millimetres, intrinsic X-Y-Z angles in radians."""
_OBJECT: Final = 0


@dataclass(frozen=True, slots=True, eq=False)
class ObjectBlock:
    """One datagram. ``items``: rows of ``ITEM``, shape (n,)."""

    frame_number: int
    items: npt.NDArray[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the object names, cut at 24 bytes by the stream."""
        return tuple(name.decode(errors="replace") for name in self.items["name"].tolist())


def decode_objects(datagram: bytes) -> ObjectBlock:
    """Read a datagram; items that are no objects are passed over by their size, padding is left.

    Raises:
        ProtocolError: the datagram is shorter than its own counts say.
    """
    size = len(datagram)
    if size < _BLOCK.size:
        raise ProtocolError("block header truncated", offset=0, length=size)
    frame_number, count = _BLOCK.unpack_from(datagram)
    at = _BLOCK.size
    rows = []
    for _ in range(count):
        if size - at < _ITEM_HEADER.size:
            raise ProtocolError("item header truncated", offset=at, length=size)
        kind, item_size = _ITEM_HEADER.unpack_from(datagram, at)
        at += _ITEM_HEADER.size
        if item_size > size - at:
            raise ProtocolError(f"item of {item_size} bytes truncated", offset=at, length=size)
        if kind == _OBJECT:
            if item_size < ITEM.itemsize:
                raise ProtocolError(f"an object of {item_size} bytes", offset=at, length=size)
            rows.append(datagram[at : at + ITEM.itemsize])
        at += item_size
    return ObjectBlock(frame_number, np.frombuffer(b"".join(rows), ITEM))


def receiver_of_objects(datagrams: Iterable[Datagram]) -> Address | None:
    """Return where most datagrams with objects went; None when there is none with an object."""
    receivers: Counter[Address] = Counter()
    for datagram in datagrams:
        with contextlib.suppress(ProtocolError):
            receivers[datagram.receiver] += len(decode_objects(datagram.payload).items) > 0
    ((receiver, count),) = receivers.most_common(1) or [(("", 0), 0)]
    return receiver if count else None


def renamed_objects(datagram: bytes, rename: Callable[[str], str]) -> bytes | None:
    """Return a datagram with other names of its objects.

    None when it is not one, or holds anything else.
    """
    try:
        block = decode_objects(datagram)
    except ProtocolError:
        return None
    if not len(block.items) or encode_objects(block, len(datagram)) != datagram:
        return None
    items = block.items.copy()
    items["name"] = [rename(name).encode() for name in block.names]
    return encode_objects(ObjectBlock(block.frame_number, items), len(datagram))


def encode_objects(block: ObjectBlock, block_bytes: int = 0) -> bytes:
    """Encode the datagram, padded with zeros to ``block_bytes``."""
    header = _ITEM_HEADER.pack(_OBJECT, ITEM.itemsize)
    items = b"".join(header + item.tobytes() for item in block.items)
    return (_BLOCK.pack(block.frame_number, len(block.items)) + items).ljust(block_bytes, b"\0")


def q_from_euler_xyz(euler_rad: FloatArray) -> FloatArray:
    """Return the attitudes (n, 4) of intrinsic X-Y-Z angles (n, 3): R = Rx Ry Rz."""
    q_x, q_y, q_z = (q_exp(euler_rad * axis) for axis in np.eye(3))
    return q_mul(q_mul(q_x, q_y), q_z)


def euler_xyz(q_xyzw: FloatArray) -> FloatArray:
    """Invert :func:`q_from_euler_xyz`."""
    R = q_to_matrix(q_xyzw)
    x = np.arctan2(-R[..., 1, 2], R[..., 2, 2])
    y = np.arctan2(R[..., 0, 2], np.hypot(R[..., 0, 0], R[..., 0, 1]))
    z = np.arctan2(-R[..., 0, 1], R[..., 0, 0])
    return np.stack((x, y, z), axis=-1)

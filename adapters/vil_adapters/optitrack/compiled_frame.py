"""Frames of NatNet 3.0 and newer through the compiled kernel.

``vil_bridge/kernel/natnet.c``.

Twin of :mod:`~vil_adapters.optitrack.fast_codec` and of the conversion in
:mod:`~vil_adapters.optitrack.convert`. One call checks a datagram before it is judged, another
converts its poses into arrays whose addresses are looked up once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.sessions.plausible_range import FARTHEST_M
from vil_bridge.core.types import FloatArray
from vil_bridge.kernel.library import KERNEL
from vil_bridge.kernel.structs import VilNatNetBinding
from vil_bridge.protocols.natnet.codec import SIZED_SINCE, TICKS_SINCE, Version
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import last_suffix
from vil_bridge.protocols.natnet.reader import HEADER_BYTES

_scan: Final[Any] = (lambda *_: -1) if KERNEL is None else KERNEL.vil_natnet_scan
_convert: Final[Any] = None if KERNEL is None else KERNEL.vil_natnet_convert
_I32: Final = Struct("<i")
_POSE_BYTES: Final = 56


# Not frozen: that would make one of the costliest steps of a frame.
@dataclass(slots=True, eq=False)
class PackedFrame:
    """One frame whose layout was checked and whose poses are bytes still.

    Attributes:
        unread: bytes of the frame that this codec does not know.
        version: layout of the datagram, 3.0 or newer.
    """

    number: int
    suffix: Suffix
    unread: int
    datagram: bytes
    version: Version


StreamedFrame = NatNetFrame | PackedFrame


def read_frame(datagram: bytes, version: Version) -> StreamedFrame:
    """Check a frame in the kernel.

    Decode what is not plain, or all frames where the kernel is absent.

    Raises:
        ProtocolError: counts, sizes or the end mark contradict the datagram's length.
    """
    if (
        version < TICKS_SINCE
        or (unread := _scan(datagram, len(datagram), version >= SIZED_SINCE)) < 0
    ):
        return decode_poses(datagram, version)
    (number,) = _I32.unpack_from(datagram, HEADER_BYTES)
    return PackedFrame(number, last_suffix(datagram, version), unread, datagram, version)


class PoseRows:
    """Rows of the poses of all frames of one layout, and the memory into which the kernel converts
    them.

    Attributes:
        struct: in the kernel's memory.
        numbers: layout, rows, rows without a record and parents, as ``natnet.h`` explains them.

    Args:
        frame: one of the layout.
        rows: row of each body, asset's body and bone of the frame in this order, -1 for none.
        parents: for each row the row to which its pose is relative, -1 for none; parents come
            first.
        axes: factors by which streamed pose rows (n, 7) become room poses: one in each column.
    """

    def __init__(
        self, frame: NatNetFrame, rows: Sequence[int], parents: Sequence[int], axes: FloatArray
    ) -> None:
        absent = sorted({*range(len(parents))}.difference(rows))
        rows_out = len(parents)
        poses = _POSE_BYTES * rows_out
        self._buffer = np.zeros(poses + rows_out, np.uint8)
        self._block = self._buffer.ctypes.data, len(self._buffer)
        self.numbers = [
            np.array(values, np.int32) for values in (_layout(frame), rows, absent, parents)
        ]
        layout, rows_of_records, rows_without, rows_above = self.numbers
        axis = np.abs(axes).argmax(axis=0)
        self.struct = VilNatNetBinding(
            words=len(layout),
            rows_out=rows_out,
            absent_count=len(rows_without),
            has_local=any(parent >= 0 for parent in parents),
            layout=layout,
            rows=rows_of_records,
            absent=rows_without,
            parents=rows_above,
            pose=self._buffer[:poses].view(np.float64),
            tracked=self._buffer[poses:],
            farthest_m=FARTHEST_M,
            factor=tuple(axes[axis, range(7)]),
            axis=tuple(axis.tolist()),
        )
        self._pointer = self.struct.pointer

    def convert(self, frame: PackedFrame) -> bool:
        """Convert a frame into the arrays; False where it has another layout."""
        sized = frame.version >= SIZED_SINCE
        found = _convert(frame.datagram, len(frame.datagram), sized, self._pointer)
        self.all_poses: bool = found == 0
        return bool(found >= 0)

    def block(self) -> bytes:
        """Return the frame that was converted last.

        Poses (n, 7) in the room, metres, and which are tracked (n,).
        """
        return ctypes.string_at(*self._block)

    @property
    def nonfinite(self) -> int:
        """Return the number of tracked poses of the last frame that are none."""
        return self.struct.nonfinite

    @property
    def implausible(self) -> int:
        """Return the number of tracked poses of the last frame that lie too far away."""
        return self.struct.implausible


def _layout(frame: NatNetFrame) -> list[int]:
    """Return the counts and ids of a frame in the order of ``natnet.h``."""
    words = [len(frame.bodies), *frame.bodies["id"].tolist()]
    for parts in (
        [(asset.id, asset.bodies) for asset in frame.assets],
        [(skeleton.id, skeleton.bones) for skeleton in frame.skeletons],
    ):
        words.append(len(parts))
        for identity, records in parts:
            words += [identity, len(records), *records["id"].tolist()]
    return words

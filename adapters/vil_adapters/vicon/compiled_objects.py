"""Tracker's UDP object stream through the compiled kernel.

``vil_bridge/kernel/vicon_objects.c``.

Twin of :mod:`~vil_adapters.vicon.udp_codec` and :mod:`~vil_adapters.vicon.object_tracker`.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_adapters.sessions.plausible_range import FARTHEST_M
from vil_adapters.vicon.object_tracker import LARGEST_RAD, MAX_OBJECTS, REPEATS, ObjectTracker
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, decode_objects
from vil_bridge.core.types import BoolArray, SourceFrame
from vil_bridge.kernel.library import KERNEL
from vil_bridge.kernel.structs import VilObjectsBinding

_scan: Final[Any] = (lambda *_: -1) if KERNEL is None else KERNEL.vil_vicon_objects_scan
_convert: Final[Any] = None if KERNEL is None else KERNEL.vil_vicon_objects
_FRAME_NUMBER: Final = Struct("<I")


@dataclass(slots=True, eq=False)
class PackedObjects:
    """One datagram whose layout was checked and whose objects are bytes still."""

    frame_number: int
    datagram: bytes


def read_objects(datagram: bytes) -> PackedObjects | ObjectBlock:
    """Check a datagram in the kernel.

    Decode what is malformed, or all of them where the kernel is absent.

    Raises:
        ProtocolError: the datagram is shorter than its own counts say.
    """
    if _scan(datagram, len(datagram)) < 0:
        return decode_objects(datagram)
    (frame_number,) = _FRAME_NUMBER.unpack_from(datagram)
    return PackedObjects(frame_number, datagram)


class CompiledObjectTracker(ObjectTracker):
    """Tracker of objects whose datagrams the kernel converts.

    The decoded ones of its twin go the twin's way.
    """

    def __init__(self, source: str, rate_hz: float | None) -> None:
        super().__init__(source, rate_hz)
        self._last = np.zeros(MAX_OBJECTS, ITEM)
        self._times = np.zeros(MAX_OBJECTS, np.int64)
        self._pose = np.zeros((0, 7))
        self._tracked: BoolArray = np.zeros(0, dtype=np.bool_)
        self._unknown = 0
        self._bind(np.zeros(0, ITEM))

    def restart(self) -> None:
        """Forget the poses: the server sends another sequence."""
        super().restart()
        self._times[:] = 0

    def next_frame(self, block: PackedObjects | ObjectBlock, t_arrival_ns: int) -> SourceFrame:
        """Return the next frame with all known objects, in the room frame."""
        if isinstance(block, ObjectBlock):
            return self.frame(block, t_arrival_ns)
        datagram = block.datagram
        if _convert(datagram, len(datagram), self._address) != 0:
            self._bind(decode_objects(datagram).items)
            _convert(datagram, len(datagram), self._address)
        self.refused += self._unknown
        self.invalid += self._binding.invalid
        self._binding.invalid = 0
        pose = self._pose.copy()
        return SourceFrame(
            self._source,
            block.frame_number,
            self._stamp_ns(block.frame_number),
            t_arrival_ns,
            self._subjects,
            pose[:, :3],
            pose[:, 3:],
            self._tracked.copy(),
        )

    def _bind(self, items: npt.NDArray[Any]) -> None:
        """Give the objects of such datagrams their rows."""
        names = ObjectBlock(0, items).names
        refused = self.refused
        self._learn(names)
        self._unknown = self.refused - refused
        self.refused = refused
        rows = np.array([self._row.get(name, -1) for name in names], np.int32)
        self._pose = np.zeros((len(self._subjects), 7))
        self._tracked = np.zeros(len(self._subjects), dtype=np.bool_)
        self._binding = VilObjectsBinding(
            objects=len(items),
            rows_out=len(self._subjects),
            repeats=REPEATS,
            names=items["name"].copy(),
            rows=rows,
            last=self._last,
            times=self._times,
            pose=self._pose,
            tracked=self._tracked,
            farthest_m=FARTHEST_M,
            largest_rad=LARGEST_RAD,
        )
        self._address = self._binding.pointer

"""Segments of the DataStream through the compiled kernel (``vil_bridge/kernel/vicon.c``).

Twin of :mod:`~vil_adapters.vicon.segments` and of the poses in :mod:`~vil_adapters.vicon.convert`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from vil_adapters.sessions.plausible_range import FARTHEST_M
from vil_adapters.vicon.segments import Table
from vil_bridge.core.types import BoolArray
from vil_bridge.kernel.library import KERNEL
from vil_bridge.kernel.structs import VilViconBinding

IS_COMPILED: Final = KERNEL is not None
_segments: Final[Any] = None if KERNEL is None else KERNEL.vil_vicon_segments


class SegmentRows:
    """Rows of the segments of all frames of one layout, and the arrays into which the kernel
    converts them.

    Attributes:
        pose: shape (n, 7), position in metres and attitude in the room, of the frame that was
            converted last.
        tracked: shape (n,).
        undescribed: segments without a row.

    Args:
        table: segments of one such frame.
        slots: row of each, -1 for none.
        parents: for each row the row to which its pose is relative when it is lightweight, -1 for
            none; parents come first.
        light: the segments are lightweight.
        y_up: the server's world has its y axis up.
        rotation_tolerance: largest difference of an entry of a matrix from that of a rotation.
    """

    def __init__(
        self,
        table: Table,
        slots: Sequence[int],
        parents: Sequence[int],
        *,
        light: bool,
        y_up: bool,
        rotation_tolerance: float,
    ) -> None:
        self.pose = np.zeros((len(parents), 7))
        self.tracked: BoolArray = np.zeros(len(parents), dtype=np.bool_)
        self.undescribed = len(table) - sum(slot >= 0 for slot in slots)
        keys = np.stack((table["subject"], table["id"]), axis=-1).astype(np.uint32)
        self._light = light
        self._binding = VilViconBinding(
            segments=len(table),
            rows_out=len(parents),
            y_up=y_up,
            keys=keys,
            slots=np.array(slots, np.int32),
            parents=np.array(parents, np.int32),
            pose=self.pose,
            tracked=self.tracked,
            farthest_m=FARTHEST_M,
            rotation_tolerance=rotation_tolerance,
        )
        self._address = self._binding.pointer

    @property
    def invalid(self) -> int:
        """Return the number of segments of the last frame that were no pose."""
        return self._binding.invalid

    def convert(self, bodies: Sequence[bytes], *, light: bool) -> bool:
        """Convert the bodies of a frame's segment blocks.

        False where these have another layout, or are malformed.
        """
        if light != self._light:
            return False
        sizes = array("I", map(len, bodies)).tobytes()
        return bool(_segments(b"".join(bodies), sizes, len(bodies), light, self._address) == 0)

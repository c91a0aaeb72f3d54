"""Frames whose poses are one block of bytes, which the compiled kernel reads and others see as
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vil_bridge.core.types import SkeletonFrame, SkeletonModel, SourceFrame

_ARRAYS: Final = ("p_m", "q_xyzw", "tracked", "skeletons")
_POSE_BYTES: Final = 56


@dataclass(frozen=True, slots=True, eq=False)
class BlockLayout:
    """Meaning of a block: poses, shape (rows, 7), then which are tracked, shape (rows,).

    Attributes:
        subjects: names of the bodies, whose rows come first.
        skeletons: models and first rows.
    """

    rows: int
    subjects: tuple[str, ...]
    skeletons: tuple[tuple[SkeletonModel, int], ...]


class BlockFrame(SourceFrame):
    """A frame in a block; its arrays are made when they are asked for.

    A changed copy (``dataclasses.replace``) has its arrays and no block.
    """

    __slots__ = ("block", "layout")

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.block: bytes | None = None
        self.layout = _NOTHING

    @classmethod
    def of(
        cls,
        source: str,
        frame_number: int,
        t_foreign_ns: int | None,
        t_arrival_ns: int,
        latency_ns: int,
        layout: BlockLayout,
        block: bytes,
    ) -> BlockFrame:
        """Return the frame of a block, in the room frame."""
        frame = cls.__new__(cls)
        frame.source = source
        frame.frame_number = frame_number
        frame.subjects = layout.subjects
        frame.t_foreign_ns = t_foreign_ns
        frame.t_arrival_ns = t_arrival_ns
        frame.latency_ns = latency_ns
        frame.layout = layout
        frame.block = block
        frame.markers = None
        return frame

    def __getattr__(self, name: str) -> Any:
        if name not in _ARRAYS or self.block is None:
            raise AttributeError(name, name=name, obj=self)
        layout = self.layout
        poses = np.frombuffer(self.block, np.float64, 7 * layout.rows).reshape(-1, 7).copy()
        tracked = np.frombuffer(self.block, np.bool_, layout.rows, _POSE_BYTES * layout.rows).copy()
        bodies = slice(0, len(layout.subjects))
        self.p_m = poses[bodies, :3]
        self.q_xyzw = poses[bodies, 3:]
        self.tracked = tracked[bodies]
        skeletons = []
        for model, first in layout.skeletons:
            bones = slice(first, first + len(model.bones))
            skeletons.append(
                SkeletonFrame(model, poses[bones, :3], poses[bones, 3:], tracked[bones])
            )
        self.skeletons = tuple(skeletons)
        return getattr(self, name)


_NOTHING: Final = BlockLayout(0, (), ())

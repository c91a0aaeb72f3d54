"""Rows of a real recording as motion of one body, for emulated servers."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_benchmarks.recordings import BenchRecording
from vil_bridge.core.types import MotionFrame

__all__ = ["RecordedBody"]


class RecordedBody:
    """Motion whose nanosecond n is row n of :attr:`ROWS` that are spread over a whole recording."""

    ROWS: Final = 800
    subjects = ("body",)
    skeleton_models = ()

    def __init__(self, recording: BenchRecording) -> None:
        self._recording = recording

    def at(self, t_ns: int) -> MotionFrame:
        """Return the pose of a row."""
        row = t_ns * len(self._recording.p_m) // self.ROWS
        pose = self._recording.p_m[row : row + 1], self._recording.q_xyzw[row : row + 1]
        return MotionFrame(self.subjects, *pose, np.ones(1, dtype=np.bool_))

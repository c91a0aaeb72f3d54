"""Objects of Tracker's UDP stream: frames, with the tracking flags that the stream lacks."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_adapters.sessions.plausible_range import within_reach
from vil_adapters.vicon.convert import M_PER_MM
from vil_adapters.vicon.udp_codec import ObjectBlock, q_from_euler_xyz
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import BoolArray, SourceFrame

REPEATS: Final = 5
MAX_OBJECTS: Final = 1024
LARGEST_RAD: Final = 100.0
"""Angles are sent within a turn; larger numbers are not an attitude."""


class ObjectTracker:
    """Conversion of datagrams to frames, with the tracking flags that the stream lacks.

    A measured pose never repeats to the last bit: five equal ones in a row are a lost object whose
    last pose is sent again. A known object that is missing is lost as well.

    Args:
        source: name of the source.
        rate_hz: of the system; None = unknown.

    Attributes:
        invalid: poses that are not finite, or beyond 10 km.
        refused: objects beyond the 1024 that are remembered.
    """

    def __init__(self, source: str, rate_hz: float | None) -> None:
        self.invalid = 0
        self.refused = 0
        self._source = source
        self._rate_hz = rate_hz
        self._row: dict[str, int] = {}
        self._subjects: tuple[str, ...] = ()
        # Bytes of the last pose, how often they came.
        self._poses: dict[str, tuple[bytes, int]] = {}

    def restart(self) -> None:
        """Forget the poses: the server sends another sequence."""
        self._poses.clear()

    # Any bits may arrive; invalid poses are marked below.
    @np.errstate(invalid="ignore", over="ignore")
    def frame(self, block: ObjectBlock, t_arrival_ns: int) -> SourceFrame:
        """Return the next frame with all known objects, in the room frame."""
        self._learn(block.names)
        count = len(self._subjects)
        p_m = np.zeros((count, 3))
        q_xyzw = np.zeros((count, 4))
        tracked = np.zeros(count, dtype=np.bool_)
        q_xyzw[:, 3] = 1.0
        numbers = np.hstack((block.items["p"], block.items["euler"]))
        finite: BoolArray = np.isfinite(numbers).all(axis=1) & within_reach(
            block.items["p"] * M_PER_MM
        )
        finite &= np.abs(block.items["euler"]).max(axis=1, initial=0.0) < LARGEST_RAD
        self.invalid += int(np.count_nonzero(~finite))
        q_read = q_from_euler_xyz(np.where(finite[:, None], block.items["euler"], 0.0))
        for i, name in enumerate(block.names):
            row = self._row.get(name)
            if row is not None and self._moved(name, block.items[i].tobytes()) and finite[i]:
                p_m[row], q_xyzw[row], tracked[row] = (
                    block.items["p"][i] * M_PER_MM,
                    q_read[i],
                    True,
                )
        return SourceFrame(
            source=self._source,
            frame_number=block.frame_number,
            t_foreign_ns=self._stamp_ns(block.frame_number),
            t_arrival_ns=t_arrival_ns,
            subjects=self._subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
        )

    def _stamp_ns(self, number: int) -> int | None:
        return None if self._rate_hz is None else round(number * NS_PER_S / self._rate_hz)

    def _learn(self, names: tuple[str, ...]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._row]
        left = MAX_OBJECTS - len(self._row)
        self.refused += max(0, len(new) - left)
        for name in new[:left]:
            self._row[name] = len(self._row)
            self._subjects = (*self._subjects, name)

    def _moved(self, name: str, pose: bytes) -> bool:
        """Return whether the pose differs from those of the last frames."""
        before, times = self._poses.get(name, (b"", 0))
        times = times + 1 if pose == before else 1
        self._poses[name] = pose, times
        return times < REPEATS

"""What the pictures of a frame are shown for: agreed on once, by whichever relay comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vil_bridge.pipeline.warp.frame_warp import Method
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.world.prediction import PredictedPose

__all__ = ["DisplayTarget", "DisplayTimes"]

_KEPT: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class DisplayTarget:
    """What the pictures of one frame are shown for, the same for both cameras of a stereo pair.

    Attributes:
        t_ns: the instant.
        carriers: poses of the carrier over the readout, that of ``t_ns`` in the middle.
        plane: the homography's, in the axes of the carrier at the pose rendered for; None = none was looked for.
        mode: what to do, which is less than configured where ``fallback`` says why.
        fallback: why the frame is not warped, or not as configured; empty = it is.
    """

    t_ns: int
    carriers: tuple[PredictedPose, ...]
    mode: Method
    plane: FittedPlane | None
    fallback: str


class DisplayTimes:
    """Agreements on the newest frames; the two relays of a stereo pair share one, and who comes first decides."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[int, DisplayTarget] = {}

    def of(self, frame_id: int, decide: Callable[[], DisplayTarget]) -> DisplayTarget:
        """The agreement on a frame."""
        with self._lock:
            made = self._made.get(frame_id)
            if made is None:
                made = self._made[frame_id] = decide()
                if len(self._made) > _KEPT:
                    del self._made[next(iter(self._made))]
            return made

"""Motions of the virtual world's bodies: sums of sines, cheap, and true at any instant."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonFrame, SkeletonModel

_NOISE_M: Final = 2e-5
_QUICKLY: Final = 1e5
"""Factor of the noise's phases: from frame to frame it has nothing in common."""
_REACH_M: Final = np.array((0.9, 0.7, 0.3))
_RATES_RADPS: Final = np.array((0.7, 0.9, 1.3))


class SwayingBodies:
    """Bodies that sway about places of their own and turn about the vertical.

    Implements ``MocapMotion``.

    Measured positions have noise that depends on the instant: poses that repeat to the bit are
    those of a system that has frozen.

    Args:
        subjects: names of the bodies. human: sways with them, in this posture.
    """

    def __init__(self, *subjects: str, human: SkeletonFrame | None = None) -> None:
        self.subjects = subjects
        self.skeleton_models: tuple[SkeletonModel, ...] = () if human is None else (human.model,)
        self._human = human
        names = (*subjects, *(model.name for model in self.skeleton_models))
        self._rows = {name: row for row, name in enumerate(names)}
        self._numbers = np.arange(float(len(names)))[:, None]
        self._centres_m = self._numbers * (2.0, 0.5, 0.0) + (0.0, 0.0, 1.2)
        if human is not None:
            self._centres_m[-1] = human.p_m[0]
        self._tracked = np.ones(len(subjects), np.bool_)

    def truth(self, subject: str, t_ns: int) -> FloatArray:
        """Return the position of a body, or of a human's root, in its room at an instant,
        metres.
        """
        row = self._rows[subject]
        place: FloatArray = self._centres_m[row] + _REACH_M * np.sin(self._turned(t_ns)[row])
        return place

    def at(self, t_ns: int) -> MotionFrame:
        """Return all bodies at one instant."""
        turned = self._turned(t_ns)
        p_m = self._centres_m + _REACH_M * np.sin(turned) + _NOISE_M * np.sin(_QUICKLY * turned)
        bodies = len(self.subjects)
        half_rad = 0.2 * np.sin(turned[:bodies, 0])
        q_xyzw = np.zeros((bodies, 4))
        q_xyzw[:, 2] = np.sin(half_rad)
        q_xyzw[:, 3] = np.cos(half_rad)
        human = self._human
        skeletons = (
            () if human is None else (replace(human, p_m=human.p_m + (p_m[-1] - human.p_m[0])),)
        )
        return MotionFrame(self.subjects, p_m[:bodies], q_xyzw, self._tracked, skeletons)

    def _turned(self, t_ns: int) -> FloatArray:
        """Return the phases of all bodies and axes, radians, shape (n, 3)."""
        return _RATES_RADPS * (t_ns / NS_PER_S) + self._numbers

"""Motions of the virtual world's bodies: sums of sines, cheap, and true at any instant."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_adapters.motions.walking_human import WalkMotion
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel

_NOISE_M: Final = 2e-5
_REACH_M: Final = (0.9, 0.7, 0.3)
_RATES_RADPS: Final = (0.7, 0.9, 1.3)


class SwayingBodies:
    """Bodies that sway about places of their own and turn about the vertical (implements ``MocapMotion``).

    Measured positions have noise that depends on the instant: poses that repeat to the bit are those of a system that
    has frozen.

    Args:
        subjects: names of the bodies. human: that walks among them.
    """

    def __init__(self, *subjects: str, human: WalkMotion | None = None) -> None:
        self.subjects = subjects
        self.skeleton_models: tuple[SkeletonModel, ...] = () if human is None else human.skeleton_models
        self._human = human

    def truth(self, subject: str, t_ns: int) -> FloatArray:
        """Return the position of a body in its room at an instant, metres."""
        number = self.subjects.index(subject)
        turned = np.array(_RATES_RADPS) * (t_ns / NS_PER_S) + number
        centre = np.array((2.0 * number, 0.5 * number, 1.2))
        return np.asarray(centre + np.array(_REACH_M) * np.sin(turned), np.float64)

    def at(self, t_ns: int) -> MotionFrame:
        """Return all bodies at one instant."""
        count = len(self.subjects)
        noise = np.random.default_rng(t_ns % 2**63).normal(0.0, _NOISE_M, (count, 3))
        p_m = np.array([self.truth(subject, t_ns) for subject in self.subjects]) + noise
        half_rad = 0.2 * np.sin(0.5 * t_ns / NS_PER_S + np.arange(count))
        q_xyzw = np.zeros((count, 4))
        q_xyzw[:, 2] = np.sin(half_rad)
        q_xyzw[:, 3] = np.cos(half_rad)
        skeletons = () if self._human is None else self._human.at(t_ns).skeletons
        return MotionFrame(self.subjects, p_m, q_xyzw, np.ones(count, np.bool_), skeletons)

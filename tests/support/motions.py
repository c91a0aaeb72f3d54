"""Motions to be filmed, in which everything differs from body to body."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from vil_bridge.bodies.skeleton import local_to_global
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonFrame, SkeletonModel

DANCER = SkeletonModel(
    name="Actor",
    bones=("Hip", "Ab", "Head", "LThigh", "LShin"),
    parents=(-1, 0, 1, 0, 3),
    offsets_m=np.array(
        [[0.0, 0.0, 0.93], [0.01, 0.0, 0.2], [0.0, 0.0, 0.5], [0.0, 0.1, -0.02], [0.0, 0.0, -0.42]]
    ),
)


@dataclass
class Dance:
    """Bodies on circles beside a skeleton that turns and bends.

    ``occluded`` ones are not tracked.
    """

    subjects: tuple[str, ...] = ("drone", "gate")
    occluded: set[str] = field(default_factory=set)
    skeleton_models: tuple[SkeletonModel, ...] = (DANCER,)

    def at(self, t_ns: int) -> MotionFrame:
        angle = 2.0 * t_ns * 1e-9
        p_m = np.array(
            [[math.cos(angle + i), math.sin(angle + i), 1.0 + i] for i in range(len(self.subjects))]
        )
        q = np.array([q_from_euler_zyx(angle + i, 0.3, -0.2) for i in range(len(self.subjects))])
        tracked = np.array([name not in self.occluded for name in self.subjects], dtype=np.bool_)
        return MotionFrame(
            self.subjects,
            p_m,
            q,
            tracked,
            tuple(self._posed(m, angle) for m in self.skeleton_models),
        )

    def _posed(self, model: SkeletonModel, angle: float) -> SkeletonFrame:
        p_m = model.offsets_m.copy()
        p_m[0] = 2.0 + math.cos(angle), math.sin(angle), 0.95
        q = np.array(
            [q_from_euler_zyx(0.1 * i, 0.3 * math.sin(angle + i), 0.2) for i in range(len(p_m))]
        )
        q[0] = q_from_euler_zyx(angle, 0.1, 0.05)
        tracked = np.full(len(p_m), model.name not in self.occluded)
        return SkeletonFrame(model, *local_to_global(p_m, q, model.parents), tracked)


class Circling:
    """Bodies on circles of their own, always turning; everything differs from body to body."""

    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects

    def at(self, t_ns: int) -> MotionFrame:
        poses = [self.pose(i, t_ns * 1e-9) for i in range(len(self.subjects))]
        return MotionFrame(
            self.subjects,
            np.array([p for p, _ in poses]),
            np.array([q for _, q in poses]),
            np.ones(len(poses), dtype=np.bool_),
        )

    @staticmethod
    def pose(i: int, t: float) -> tuple[FloatArray, FloatArray]:
        p = np.array(
            [
                math.cos(t + i) + 0.1 * i,
                2.0 * math.sin(0.7 * t),
                1.0 + 0.3 * math.sin(2.0 * t) + 0.2 * i,
            ]
        )
        return p, q_from_euler_zyx(0.8 * math.sin(t), 0.3 * math.cos(1.3 * t), 0.2 + 0.1 * i)

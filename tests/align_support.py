"""Somebody who makes the moves that `vil-bridge align` asks for: curved, trembling, not quite straight."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vil_bridge.align.track import PoseTrack
from vil_bridge.core.geometry import Transform, q_exp, q_from_matrix, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel

REST_S: Final = 0.9
MOVE_S: Final = 0.8
TILT_S: Final = 2.4
S: Final = 1_000_000_000

SIGNED: Final = [
    np.array([[sign[row] * (column == order[row]) for column in range(3)] for row in range(3)], dtype=np.float64)
    for order in itertools.permutations(range(3))
    for sign in itertools.product((1.0, -1.0), repeat=3)
]
"""All 48 signed permutations: 24 rotations and 24 mirrors."""
ROTATIONS: Final = [m for m in SIGNED if np.linalg.det(m) > 0]
MIRRORS: Final = [m for m in SIGNED if np.linalg.det(m) < 0]


def _ease(fraction: float) -> float:
    """The minimum-jerk course from 0 to 1."""
    f = min(1.0, max(0.0, fraction))
    return f**3 * (10.0 - 15.0 * f + 6.0 * f**2)


@dataclass
class Moves:
    """A body led by hand through the five moves in a z-up room (implements ``Motion``).

    Attributes:
        yaw_rad: heading of the nose, and of the move forward.
        scale: size of the three moves against half a metre.
        tilt_axes: how many axes the body is tilted about.
    """

    T_body_markers: Transform = field(default_factory=Transform.identity)
    yaw_rad: float = 0.0
    scale: float = 1.0
    tilt_axes: int = 2
    subject: str = "drone"
    start_m: FloatArray = field(default_factory=lambda: np.array([0.3, -0.2, 0.9]))
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __post_init__(self) -> None:
        self.subjects = (self.subject,)

    @property
    def seconds(self) -> float:
        return 6 * REST_S + 4 * MOVE_S + TILT_S

    def at(self, t_ns: int) -> MotionFrame:
        T = self.T_room_body(t_ns / S) @ self.T_body_markers
        return MotionFrame(self.subjects, T.p_m[None], T.q_xyzw[None], np.array([True]))

    def T_room_body(self, t_s: float) -> Transform:  # noqa: N802
        begins = [REST_S + i * (REST_S + MOVE_S) for i in range(5)]
        forward, left, up, turn = (_ease((t_s - begin) / MOVE_S) for begin in begins[:4])
        heading = q_exp(np.array([0.0, 0.0, self.yaw_rad]))
        # The hand rises a little on the way and drifts aside: 4 degrees here, 6 there.
        moved = np.array([0.55 * forward - 0.05 * left, 0.04 * forward + 0.5 * left, 0.03 * left + 0.5 * up])
        moved[2] += 0.06 * np.sin(np.pi * forward)
        tremor_m = 0.002 * np.sin(2 * np.pi * np.array([1.1, 1.3, 0.9]) * t_s + [0.0, 1.0, 2.0])
        shake_rad = np.radians(1.0) * np.sin(2 * np.pi * np.array([0.7, 0.9, 0.5]) * t_s + [1.0, 0.0, 2.0])
        q = q_mul(heading, q_exp(shake_rad + np.array([0.0, 0.0, np.radians(85.0) * turn])))
        tilting = min(1.0, max(0.0, (t_s - begins[4]) / TILT_S))
        swing = np.radians(40.0) * np.sin(np.pi * tilting)
        roll, pitch = swing * np.sin(4 * np.pi * tilting), swing * np.cos(4 * np.pi * tilting)
        q = q_mul(q, q_exp(np.array([roll, pitch if self.tilt_axes > 1 else 0.0, 0.0])))
        return Transform(self.start_m + q_rotate(heading, self.scale * moved) + tremor_m, q)


def recorded(moves: Moves, rate_hz: float = 60.0, noise_m: float = 0.0005, seed: int = 0) -> PoseTrack:
    """What a z-up system with half a millimetre of noise records."""
    rng = np.random.default_rng(seed)
    t_ns = np.arange(0, round(moves.seconds * S), round(S / rate_hz), dtype=np.int64)
    frames = [moves.at(int(t)) for t in t_ns]
    p = np.array([f.p_m[0] for f in frames]) + rng.normal(0.0, noise_m, (len(t_ns), 3))
    noise_rad = rng.normal(0.0, 0.002, (len(t_ns), 3))
    return PoseTrack(t_ns, p, q_mul(np.array([f.q_xyzw[0] for f in frames]), q_exp(noise_rad)))


def streamed(track: PoseTrack, S_room: FloatArray, *, body_axes_too: bool = True) -> PoseTrack:
    """The same track in other axes: p' = S p, and R' = S R Sᵀ, or S R where only the room's axes change."""
    R = S_room @ q_to_matrix(track.q_room_markers)
    if body_axes_too:
        R = R @ S_room.T
    return PoseTrack(track.t_ns, track.p_room_m @ S_room.T, np.array([q_from_matrix(m) for m in R]))

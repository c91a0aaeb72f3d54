"""Somebody who leads and shakes a body as `vil-bridge align` and `calibrate` ask, trembling and
not quite straight.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vil_bridge.core.geometry import (
    GRAVITY_MPS2,
    Transform,
    q_conj,
    q_exp,
    q_from_matrix,
    q_log,
    q_mul,
    q_rotate,
    q_to_matrix,
)
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.setup.align.segmentation import PoseTrack

REST_S: Final = 0.8
MOVE_S: Final = 0.6
TILT_S: Final = 1.8
S: Final = 1_000_000_000

SIGNED: Final = [
    np.array(
        [[sign[row] * (column == order[row]) for column in range(3)] for row in range(3)],
        dtype=np.float64,
    )
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
    """A body led by hand through the five moves in a z-up room (implements ``MocapMotion``).

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
    def tilt(self) -> tuple[int, int]:
        """Begin and length of the tilt and of the rest before and after it, ns."""
        return round(4 * (REST_S + MOVE_S) * S), round((REST_S + TILT_S + REST_S) * S)

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
        moved = np.array(
            [0.55 * forward - 0.05 * left, 0.04 * forward + 0.5 * left, 0.03 * left + 0.5 * up]
        )
        moved[2] += 0.06 * np.sin(np.pi * forward)
        tremor_m = 0.002 * np.sin(2 * np.pi * np.array([1.1, 1.3, 0.9]) * t_s + [0.0, 1.0, 2.0])
        shake_rad = np.radians(1.0) * np.sin(
            2 * np.pi * np.array([0.7, 0.9, 0.5]) * t_s + [1.0, 0.0, 2.0]
        )
        q = q_mul(heading, q_exp(shake_rad + np.array([0.0, 0.0, np.radians(85.0) * turn])))
        tilting = min(1.0, max(0.0, (t_s - begins[4]) / TILT_S))
        swing = np.radians(40.0) * np.sin(np.pi * tilting)
        roll, pitch = swing * np.sin(4 * np.pi * tilting), swing * np.cos(4 * np.pi * tilting)
        q = q_mul(q, q_exp(np.array([roll, pitch if self.tilt_axes > 1 else 0.0, 0.0])))
        return Transform(self.start_m + q_rotate(heading, self.scale * moved) + tremor_m, q)


def recorded(
    moves: Moves, rate_hz: float = 60.0, noise_m: float = 0.0005, seed: int = 0
) -> PoseTrack:
    """What a z-up system with half a millimetre of noise records."""
    rng = np.random.default_rng(seed)
    t_ns = np.arange(0, round(moves.seconds * S), round(S / rate_hz), dtype=np.int64)
    frames = [moves.at(int(t)) for t in t_ns]
    p = np.array([f.p_m[0] for f in frames]) + rng.normal(0.0, noise_m, (len(t_ns), 3))
    noise_rad = rng.normal(0.0, 0.002, (len(t_ns), 3))
    return PoseTrack(t_ns, p, q_mul(np.array([f.q_xyzw[0] for f in frames]), q_exp(noise_rad)))


def streamed(track: PoseTrack, S_room: FloatArray, *, body_axes_too: bool = True) -> PoseTrack:
    """The same track in other axes.

    P' = S p, and R' = S R Sᵀ, or S R where only the room's axes change.
    """
    R = S_room @ q_to_matrix(track.q_room_markers)
    if body_axes_too:
        R = R @ S_room.T
    return PoseTrack(track.t_ns, track.p_room_m @ S_room.T, q_from_matrix(R))


@dataclass
class Led:
    """A motion that stands at its beginning until somebody says begin (implements ``MocapMotion``).

    Attributes:
        last: begin and length of the part that is repeated at the end, ns, since a busy machine may
            miss it once.
        slower: how many times slower than the motion, since a busy machine may cut a short rest in
            two.
    """

    motion: MocapMotion
    begun_ns: int | None = None
    now_ns: int = 0
    last: tuple[int, int] | None = None
    slower: int = 1

    def __post_init__(self) -> None:
        self.subjects, self.skeleton_models = self.motion.subjects, self.motion.skeleton_models

    def begin(self) -> None:
        """Move from now on."""
        self.begun_ns = self.now_ns

    def at(self, t_ns: int) -> MotionFrame:
        self.now_ns = t_ns
        since_ns = 0 if self.begun_ns is None else (t_ns - self.begun_ns) // self.slower
        if self.last is not None and since_ns > self.last[0]:
            since_ns = self.last[0] + (since_ns - self.last[0]) % self.last[1]
        return self.motion.at(since_ns)


GRAVITY: Final = np.array([0.0, 0.0, -GRAVITY_MPS2])


@dataclass
class Shaken:
    """A body turned to and fro about all its axes, with its IMU.

    Implements ``MocapMotion`` and ``InertialMotion``.

    Attributes:
        size_rad: how far about each axis. T_imu_markers: where its markers are.
    """

    T_imu_markers: Transform
    size_rad: tuple[float, float, float] = (0.7, 0.6, 0.8)
    bias_w_radps: tuple[float, float, float] = (0.08, -0.05, 0.03)
    bias_f_mps2: tuple[float, float, float] = (0.1, -0.2, 0.15)
    subjects: tuple[str, ...] = ("drone",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def attitude(self, t_s: FloatArray) -> FloatArray:
        """q_room_imu, shape (n, 4)."""
        phase = 2 * np.pi * np.array([0.9, 0.7, 1.1]) * t_s[:, None] + [0.0, 1.0, 2.0]
        angles = np.array(self.size_rad) * np.sin(phase)
        yaw, pitch, roll = (
            q_exp(axis * a[:, None]) for axis, a in zip(np.eye(3), angles.T, strict=True)
        )
        return q_mul(q_mul(yaw, pitch), roll)

    def place(self, t_s: FloatArray) -> FloatArray:
        """p_room_imu_m, shape (n, 3)."""
        return 0.2 * np.sin(2 * np.pi * np.array([0.4, 0.5, 0.3]) * t_s[:, None] + [0.0, 0.5, 1.0])

    def felt(self, t_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Angular rates and specific forces (n, 3), biases included, noise not."""
        h = 1e-4
        ahead, here, behind = (self.attitude(t_s + d) for d in (h, 0.0, -h))
        w = q_log(q_mul(q_conj(behind), ahead)) / (2 * h)
        acceleration = (self.place(t_s + h) - 2 * self.place(t_s) + self.place(t_s - h)) / h**2
        return w + self.bias_w_radps, q_rotate(
            q_conj(here), acceleration - GRAVITY
        ) + self.bias_f_mps2

    def at(self, t_ns: int) -> MotionFrame:
        t_s = np.array([t_ns / S])
        T = Transform(self.place(t_s)[0], self.attitude(t_s)[0]) @ self.T_imu_markers
        return MotionFrame(self.subjects, T.p_m[None], T.q_xyzw[None], np.array([True]))

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        period_ns = S // 200
        stamps = np.arange(after_ns // period_ns + 1, until_ns // period_ns + 1) * period_ns
        if not len(stamps):
            return []
        w, f = self.felt(stamps / S)
        return [(int(t), w[i], f[i]) for i, t in enumerate(stamps)]


@dataclass
class Carried:
    """A body carried from mark to mark, resting at each (implements ``MocapMotion``).

    Attributes:
        places_m: shape (k, 3). pause_s, way_s: rest at each, and way to the next.
    """

    places_m: FloatArray
    pause_s: float
    way_s: float
    subjects: tuple[str, ...] = ("wand",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        leg, within_s = divmod(max(0.0, t_ns / S), self.pause_s + self.way_s)
        index = min(int(leg), len(self.places_m) - 1)
        target = min(index + 1, len(self.places_m) - 1)
        way = self.places_m[target] - self.places_m[index]
        p = self.places_m[index] + way * _ease((within_s - self.pause_s) / self.way_s)
        return MotionFrame(
            self.subjects, p[None], np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True])
        )

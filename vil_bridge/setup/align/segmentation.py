"""Recorded motion: the poses of one body, its inertial samples, and the moves between its rests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_normalize
from vil_bridge.core.types import FloatArray

Stamps = npt.NDArray[np.int64]

STILL_WINDOW_NS: Final = 150 * NS_PER_MS
STILL_WITHIN_M: Final = 0.015
STILL_WITHIN_RAD: Final = np.radians(4.0)
REST_NS: Final = 600 * NS_PER_MS
_MOVED_M: Final = 0.06
_MOVED_RAD: Final = np.radians(15.0)


class CalibrationError(VilBridgeError):
    """Insufficient or contradictory recorded motion.

    The message says why and what to do differently.
    """


@dataclass(frozen=True, slots=True)
class PoseTrack:
    """Tracked poses of one rigid body in its room's frame.

    Attributes:
        t_ns: capture times, increasing, shape (n,). p_room_m: shape (n, 3). q_room_markers: shape
            (n, 4).
    """

    t_ns: Stamps
    p_room_m: FloatArray
    q_room_markers: FloatArray

    def __len__(self) -> int:
        return len(self.t_ns)

    def part(self, begin: int, end: int) -> PoseTrack:
        """Return the poses from index ``begin`` up to ``end``, that one excluded."""
        return PoseTrack(
            self.t_ns[begin:end], self.p_room_m[begin:end], self.q_room_markers[begin:end]
        )


@dataclass(frozen=True, slots=True)
class ImuTrack:
    """Inertial samples in the IMU's FLU axes.

    Attributes:
        t_ns: increasing, shape (n,). w_radps: shape (n, 3). f_mps2: shape (n, 3), +g on z at rest.
    """

    t_ns: Stamps
    w_radps: FloatArray
    f_mps2: FloatArray


@dataclass(frozen=True, slots=True)
class Rest:
    """A span of a track in which the body stood still; indices, the end excluded."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class MotionSegment:
    """Move of a body between two rests.

    Attributes:
        before, after: T_room_markers of the two rests.
        path: the poses in between.
    """

    before: Transform
    after: Transform
    path: PoseTrack

    @property
    def displacement_m(self) -> FloatArray:
        """From rest to rest, room axes, shape (3,)."""
        return self.after.p_m - self.before.p_m

    @property
    def turn_rad(self) -> FloatArray:
        """Rotation vector from rest to rest, room axes, shape (3,)."""
        return q_log(q_mul(self.after.q_xyzw, q_conj(self.before.q_xyzw)))


def mean_pose(track: PoseTrack) -> Transform:
    """Return the median position and mean attitude of a body that stands still."""
    q = track.q_room_markers
    same_side = q * np.where(q @ q[len(q) // 2] < 0.0, -1.0, 1.0)[:, None]
    return Transform(np.median(track.p_room_m, axis=0), q_normalize(same_side.sum(axis=0)))


def find_rests(track: PoseTrack) -> list[Rest]:
    """Find spans of at least 0.6 s in which the body hardly moved, as a hand holds it."""
    if len(track) < 2:
        return []
    before = np.searchsorted(track.t_ns, track.t_ns - STILL_WINDOW_NS)
    after = np.minimum(np.searchsorted(track.t_ns, track.t_ns + STILL_WINDOW_NS), len(track) - 1)
    moved_m = np.linalg.norm(track.p_room_m[after] - track.p_room_m[before], axis=1)
    q = track.q_room_markers
    turned_rad = np.linalg.norm(q_log(q_mul(q_conj(q[before]), q[after])), axis=1)
    still = np.concatenate(
        ([False], (moved_m < STILL_WITHIN_M) & (turned_rad < STILL_WITHIN_RAD), [False])
    )
    edges = np.flatnonzero(still[1:] != still[:-1])
    spans = [Rest(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    return [s for s in spans if track.t_ns[s.end - 1] - track.t_ns[s.begin] >= REST_NS]


def find_moves(track: PoseTrack) -> list[MotionSegment]:
    """Return the moves between the rests.

    Twitches of less than 6 cm and 15 degrees are part of the rest.
    """
    moves: list[MotionSegment] = []
    rests = find_rests(track)
    for earlier, later in itertools.pairwise(rests):
        before, after = (mean_pose(track.part(r.begin, r.end)) for r in (earlier, later))
        path = track.part(earlier.end, later.begin)
        far_m = np.linalg.norm(path.p_room_m - before.p_m, axis=1).max(initial=0.0)
        turned = q_log(q_mul(q_conj(before.q_xyzw), path.q_room_markers))
        if far_m > _MOVED_M or np.linalg.norm(turned, axis=1).max(initial=0.0) > _MOVED_RAD:
            moves.append(MotionSegment(before, after, path))
    return moves

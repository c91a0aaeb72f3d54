"""Binding of a source's frames to the world's tracks.

The room's frame, and the column of each actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_mul, q_rotate
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.world.actors import Actor
from vil_bridge.world.prediction import InertialPredictor

Rows = npt.NDArray[np.int64] | slice
"""Rows of the tracks, or columns of a frame."""


class RoomFrame:
    """``T_world_room``, ready to be applied to whole frames.

    Attributes:
        turn, shift: shapes (7, 7) and (7,): a pose in the room, as a row, times the one plus the
            other is in the world.
        is_world: they change nothing.
    """

    def __init__(self, T_world_room: Transform) -> None:
        # A row (x, y, z, qx, qy, qz, qw) times one matrix turns both; the shift adds nothing to
        # attitudes.
        self.turn = np.zeros((7, 7))
        self.turn[:3, :3] = T_world_room.rotation().T
        self.turn[3:, 3:] = q_mul(T_world_room.q_xyzw, np.eye(4))
        self.shift = np.concatenate((T_world_room.p_m, np.zeros(4)))
        self.is_world = not self.shift.any() and np.array_equal(self.turn, np.eye(7))

    def poses(self, p_m: FloatArray, q_xyzw: FloatArray) -> FloatArray:
        """Transform poses in the room, shapes (k, 3) and (k, 4), to poses in the world, shape.

        K, 7.
        """
        poses = np.concatenate((p_m, q_xyzw), axis=1)
        if self.is_world:
            return poses
        poses = poses @ self.turn
        poses += self.shift
        return poses


def compact(indices: list[int]) -> Rows:
    """Return a slice where the indices allow it: views cost less than copies."""
    first = indices[0] if indices else 0
    if indices == list(range(first, first + len(indices))):
        return slice(first, first + len(indices))
    return np.array(indices, dtype=np.int64)


def indices(rows: Rows) -> npt.NDArray[np.int64]:
    """Return rows as indices."""
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, slice) else rows


@dataclass(frozen=True, slots=True)
class Binding:
    """Columns of a source's frames, the rows of the bank that they feed, and the transform between
    them.

    Attributes:
        room: of the source.
        p_markers_body_m, q_markers_body: shapes (count, 3) and (count, 4); ``markers_turned`` is
            False when none of them does anything.
        predictors: of the rows that have an IMU.
    """

    subjects: tuple[str, ...]
    room: RoomFrame
    columns: Rows
    rows: Rows
    count: int
    p_markers_body_m: FloatArray
    q_markers_body: FloatArray
    markers_turned: bool
    predictors: tuple[tuple[int, InertialPredictor], ...]

    def bodies(self, frame: SourceFrame) -> FloatArray:
        """Return the bodies in the world, shape (count, 7), from their markers in the room."""
        poses = self.room.poses(frame.p_m[self.columns], frame.q_xyzw[self.columns])
        if self.markers_turned:
            p_m = poses[:, :3]
            q_xyzw = poses[:, 3:]
            p_m += q_rotate(q_xyzw, self.p_markers_body_m)
            q_xyzw[:] = q_mul(q_xyzw, self.q_markers_body)
        return poses


def bind(
    frame: SourceFrame,
    room: RoomFrame,
    actors: Sequence[Actor],
    predictors: Mapping[str, InertialPredictor],
) -> Binding:
    """Return the binding of frames with the same subjects as this one; rows count the actors."""
    bound = [
        (frame.subjects.index(a.subject), row)
        for row, a in enumerate(actors)
        if a.source == frame.source
        and a.kind is not ActorKind.HUMAN
        and a.subject in frame.subjects
    ]
    inverse = [actors[row].T_body_markers.inverse() for _, row in bound]
    return Binding(
        frame.subjects,
        room,
        columns=compact([column for column, _ in bound]),
        rows=compact([row for _, row in bound]),
        count=len(bound),
        p_markers_body_m=np.array([t.p_m for t in inverse]).reshape(-1, 3),
        q_markers_body=np.array([t.q_xyzw for t in inverse]).reshape(-1, 4),
        markers_turned=any(t.p_m.any() or t.q_xyzw[:3].any() for t in inverse),
        predictors=tuple(
            (row, predictors[actors[row].name]) for _, row in bound if actors[row].imu is not None
        ),
    )

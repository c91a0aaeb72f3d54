"""Placement of a room in the world (or in another room), from measurements of both.

Kabsch's algorithm; gravity aligned both rooms already, so that by default only the heading is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_from_matrix, q_to_matrix, yaw_matrix
from vil_bridge.core.types import FloatArray

_MIN_SPREAD_M: Final = 0.05
"""Points nearer to each other than this (to one line, for a free rotation) give no direction."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A fitted transform and how well it explains the measurements.

    Attributes:
        residuals_m: distance left at each pair, shape (n,).
    """

    T_world_room: Transform
    residuals_m: FloatArray

    @property
    def rms_m(self) -> float:
        """Root mean square of the residuals."""
        return float(np.sqrt(np.mean(self.residuals_m**2)))


def place_by_points(
    p_world_m: npt.ArrayLike, p_room_m: npt.ArrayLike, *, yaw_only: bool = True
) -> Placement:
    """Return the placement that brings points of a room onto the same points in the world.

    Args:
        p_world_m: shape (n, 3), n >= 2, or 3 not in one line for a free rotation.
        p_room_m: the same points in the room's frame, shape (n, 3).
        yaw_only: both frames are z up, only the heading is unknown.

    Raises:
        ValueError: there are too few points, they lie too close together, or they are not finite.
    """
    world = np.asarray(p_world_m, dtype=np.float64)
    room = np.asarray(p_room_m, dtype=np.float64)
    if world.ndim != 2 or world.shape[1:] != (3,) or world.shape != room.shape:
        raise ValueError(
            f"points must come in pairs of x, y, z; got shapes {world.shape} and {room.shape}"
        )
    if not (np.isfinite(world).all() and np.isfinite(room).all()):
        raise ValueError("a point is not finite")
    _require_spread(world, yaw_only)
    _require_spread(room, yaw_only)
    covariance = (world - world.mean(axis=0)).T @ (room - room.mean(axis=0))
    R = _heading(covariance) if yaw_only else _rotation(covariance)
    return _placed(R, world, room)


def place_by_poses(
    T_world_body: Sequence[Transform], T_room_body: Sequence[Transform], *, yaw_only: bool = True
) -> Placement:
    """Return the placement from a body (a wand) whose pose was measured in both rooms, once or more
    often.

    Attitudes decide the rotation, since a single place gives one too; positions the translation.

    Raises:
        ValueError: no pose, or not as many in one room as in the other.
    """
    if not T_world_body or len(T_world_body) != len(T_room_body):
        raise ValueError(
            f"poses must come in pairs; got {len(T_world_body)} and {len(T_room_body)}"
        )
    world = np.array([T.p_m for T in T_world_body])
    room = np.array([T.p_m for T in T_room_body])
    q_world = np.array([T.q_xyzw for T in T_world_body])
    q_room = np.array([T.q_xyzw for T in T_room_body])
    turns = (q_to_matrix(q_world) @ q_to_matrix(q_room).transpose(0, 2, 1)).sum(axis=0)
    return _placed(_heading(turns) if yaw_only else _rotation(turns), world, room)


def _require_spread(points_m: FloatArray, yaw_only: bool) -> None:
    seen = points_m[:, :2] if yaw_only else points_m
    spread_m = np.linalg.svd(seen - seen.mean(axis=0), compute_uv=False)
    needed = 1 if yaw_only else 2
    if len(points_m) < needed + 1 or spread_m[needed - 1] < _MIN_SPREAD_M:
        apart = "apart on the floor" if yaw_only else "that are not in one line"
        raise ValueError(
            f"at least {needed + 1} points {apart} are needed, {_MIN_SPREAD_M * 100:.0f} cm or more"
        )


def _heading(covariance: FloatArray) -> FloatArray:
    """Return the rotation about z that fits best, from a sum of outer products (world, room)."""
    sine = covariance[1, 0] - covariance[0, 1]
    cosine = covariance[0, 0] + covariance[1, 1]
    return yaw_matrix(float(np.arctan2(sine, cosine)))


def _rotation(covariance: FloatArray) -> FloatArray:
    """Return the rotation that fits best; never a reflection."""
    u, _, vt = np.linalg.svd(covariance)
    u[:, 2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
    rotation: FloatArray = u @ vt
    return rotation


def _placed(R: FloatArray, world: FloatArray, room: FloatArray) -> Placement:
    T = Transform(world.mean(axis=0) - R @ room.mean(axis=0), q_from_matrix(R))
    return Placement(T, np.linalg.norm(T.apply(room) - world, axis=1))

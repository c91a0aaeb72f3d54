"""Motion of each part of a rig in one frame, and its nodes and capsules that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_exp, q_from_matrix, q_log, q_mul, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.anatomy import PART_INDEX, PARTS
from vil_renderer.embedded.actors.rig import Rig
from vil_renderer.embedded.actors.turning import shortest_turn, unit

_HIPS = PART_INDEX["hips"]
_CHEST = PART_INDEX["chest"]
_Parts = Sequence[int] | npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class PosedRig:
    """A posed rig.

    Attributes:
        world_from_node: (n, 4, 4). node_light: (n,), None = all 1. capsules: (k, 8).
    """

    world_from_node: FloatArray
    node_light: FloatArray | None
    capsules: FloatArray


class RigPose:
    """Pose of a rig.

    Part p moves as ``x_world = linear[p] (x - anchor[p]) + place[p]``, x in the rig's axes at rest.

    Attributes:
        linear: (20, 3, 3). anchor, place: (20, 3).
    """

    def __init__(self, rig: Rig, scale: float) -> None:
        self._rig = rig
        self._scale = scale
        self.linear = np.zeros((len(PARTS), 3, 3))
        self.place = np.zeros((len(PARTS), 3))
        self.anchor = rig.joint_m.copy()
        self.twist_rad = np.zeros(len(rig.twist_part))

    def moved(self, part: int, points_m: FloatArray) -> FloatArray:
        """Return points (..., 3) of the rig at rest, carried by a part."""
        return np.asarray((points_m - self.anchor[part]) @ self.linear[part].T + self.place[part])

    def stretch(self, parts: _Parts, R: FloatArray, a_m: FloatArray, b_m: FloatArray) -> FloatArray:
        """Turn bones (k) by R (k, 3, 3), then the shortest way, and stretch them to reach from a to
        b (k, 3).

        Returns:
            Their rotations, (k, 3, 3).
        """
        along = self._rig.along[parts]
        length_m = self._rig.length_m[parts]
        span = b_m - a_m
        turned = shortest_turn((R @ along[..., None])[..., 0], unit(span)) @ R
        reach = np.sqrt((span * span).sum(axis=-1))
        ratio = np.divide(
            reach, length_m, out=np.full(len(reach), self._scale), where=length_m > 0.0
        )
        lengthen = (ratio - self._scale)[:, None, None] * along[:, :, None] * along[:, None, :]
        self.linear[parts] = turned @ (self._scale * np.eye(3) + lengthen)
        self.place[parts] = a_m
        return turned

    def collapse(self, parts: _Parts, at_m: FloatArray) -> None:
        """Shrink parts of unknown place to a point."""
        self.linear[parts] = 0.0
        self.place[parts] = at_m

    def finish(self, R_trunk: FloatArray, light: FloatArray) -> PosedRig:
        """Return nodes and capsules in the world.

        Args:
            R_trunk: rotations of hips and chest, (2, 3, 3), between which the spine is bent.
            light: of each part, (20,).
        """
        rig = self._rig
        linear, place, light = self._with_spine(R_trunk, light)
        groups = len(linear)
        linear, place, light = self._with_twists(linear, place, light)
        matrices = np.zeros((len(linear), 4, 4))
        matrices[:, :3, :3] = linear
        matrices[:, :3, 3] = place
        matrices[:, 3, 3] = 1.0
        node_light = light[rig.driver] if light.min() < 1.0 else None
        return PosedRig(
            matrices[rig.driver] @ rig.asset_from_node,
            node_light,
            rig.capsules.carried(linear[:groups], place[:groups], self._scale),
        )

    def share_twists(self, begin_rad: FloatArray, end_rad: FloatArray) -> None:
        """Share out the twist of each limb's part evenly between its ends.

        Args:
            begin_rad: how much each part is twisted against the part above it, (20,).
            end_rad: how much the part below it is twisted against it, (20,).
        """
        part = self._rig.twist_part
        share = self._rig.twist_share
        self.twist_rad = share * end_rad[part] - (1.0 - share) * begin_rad[part]

    def _with_twists(
        self, linear: FloatArray, offset: FloatArray, light: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return linear parts, offsets and light, with the joints that share out twists
        appended.
        """
        part = self._rig.twist_part
        if not len(part):
            return linear, offset, light
        axis = unit((self.linear[part] @ self._rig.along[part][..., None])[..., 0])
        turned = q_to_matrix(q_exp(self.twist_rad[:, None] * axis)) @ self.linear[part]
        placed = self.place[part] - (turned @ self.anchor[part][..., None])[..., 0]
        return (
            np.concatenate((linear, turned)),
            np.concatenate((offset, placed)),
            np.concatenate((light, light[part])),
        )

    def _with_spine(
        self, R_trunk: FloatArray, light: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return linear parts, offsets (x_world = linear x + offset) and light, with the spine's
        joints appended.
        """
        offset = self.place - (self.linear @ self.anchor[..., None])[..., 0]
        share = self._rig.spine
        if not len(share):
            return self.linear, offset, light
        # Joints of the spine lie between where hips and chest would carry them.
        low = self.moved(_HIPS, self._rig.spine_m)
        high = self.moved(_CHEST, self._rig.spine_m)
        at = low + share[:, None] * (high - low)
        size = [
            R.T @ linear for R, linear in zip(R_trunk, self.linear[[_HIPS, _CHEST]], strict=True)
        ]
        bent = between(R_trunk[0], R_trunk[1], share) @ (
            size[0] + share[:, None, None] * (size[1] - size[0])
        )
        dim = light[_HIPS] + share * (light[_CHEST] - light[_HIPS])
        return (
            np.concatenate((self.linear, bent)),
            np.concatenate((offset, at - (bent @ self._rig.spine_m[..., None])[..., 0])),
            np.concatenate((light, dim)),
        )


def between(R_a: FloatArray, R_b: FloatArray, share: FloatArray) -> FloatArray:
    """Return rotations (k, 3, 3) on the shortest path from one to another, at shares (k,) of it."""
    q = q_from_matrix(np.stack((R_a, R_a.T @ R_b)))
    return np.asarray(q_to_matrix(q_mul(q[0], q_exp(share[:, None] * q_log(q[1])))))

"""Centre of a body in its marker frame: the point that stays in place while the body is tilted.

All poses of the tilting satisfy p_i + R_i v = c with the pivot v (marker axes) and the centre c
(room): a linear sphere fit over both. v is seen only across the axis of a turn, so two axes are
needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_conj, q_log, q_mul, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.robust import fit
from vil_bridge.setup.align.segmentation import CalibrationError, PoseTrack

LEAST_TILT_RAD: Final = np.radians(12.0)
_WORST_RESIDUAL_M: Final = 0.05


@dataclass(frozen=True, slots=True)
class Pivot:
    """The point about which a body was turned.

    Attributes:
        p_markers_m: shape (3,), in the marker frame. p_room_m: shape (3,), where it stayed.
        residual_m: how much it wandered, root mean square.
        tilt_deg: how far the body was turned about the second-most used axis, root mean square.
    """

    p_markers_m: FloatArray
    p_room_m: FloatArray
    residual_m: float
    tilt_deg: float


def find_pivot(track: PoseTrack) -> Pivot:
    """Fit the pivot; outliers (a label swap, a slip of the hand) weigh less.

    Raises:
        CalibrationError: the body was not turned about two axes, or no point of it stayed in place.
    """
    if len(track) < 20:
        raise CalibrationError(
            "the body was hardly seen while it was tilted: keep its markers in sight of the cameras"
        )
    tilt_rad = _second_axis_rad(track)
    if tilt_rad < LEAST_TILT_RAD:
        raise CalibrationError(
            f"the tilting turned the body about one axis only ({np.degrees(tilt_rad):.0f} "
            "degrees about a second one): "
            "tilt it forward and back and to both sides by 45 degrees or more, its centre in place"
        )
    rotation = q_to_matrix(track.q_room_markers)
    A = np.concatenate((rotation, np.broadcast_to(-np.eye(3), rotation.shape)), axis=2)
    solution, weight = fit(A, -track.p_room_m)
    residual = A @ solution + track.p_room_m
    wander_m = float(np.sqrt(np.average((residual**2).sum(axis=1), weights=weight)))
    if wander_m > _WORST_RESIDUAL_M:
        raise CalibrationError(
            f"no point of the body stayed in place while it was tilted (the best one wandered "
            f"{100 * wander_m:.0f} cm): rest its centre on something, a ball or the edge "
            "of a table, and tilt it again"
        )
    return Pivot(solution[:3], solution[3:], wander_m, float(np.degrees(tilt_rad)))


def _second_axis_rad(track: PoseTrack) -> float:
    """Return the root-mean-square rotation about the second principal axis of the tilting."""
    middle = track.q_room_markers[len(track) // 2]
    turned = q_log(q_mul(q_conj(middle), track.q_room_markers))
    spread = np.linalg.eigvalsh(np.cov((turned - turned.mean(axis=0)).T))
    return float(np.sqrt(max(0.0, spread[1])))

"""Poses of the camera while a picture is shown: one, or one for each row that is read out.

With a rolling shutter the rows are read from the top to the bottom. The instant of the picture is
that of its middle: row v of h belongs to the instant + ((v + 0.5) / h - 0.5) * readout time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_normalize, q_rotate, q_to_matrix
from vil_bridge.core.types import FloatArray

KNOTS: Final = 5
"""Poses that a readout is described by; between them the camera moves evenly."""


class CameraMotion(NamedTuple):
    """From the camera of the rendered picture to the cameras of rows.

    The length 1 stands for all rows.

    Attributes:
        R_rn: shape (n, 3, 3), now-camera to render-camera coordinates.
        dp_render_m: shape (n, 3), displacement of the camera centre in the render camera's axes,
            metres.
    """

    R_rn: FloatArray
    dp_render_m: FloatArray

    def turned_only(self) -> CameraMotion:
        """Return the motion without its displacement: what a scene infinitely far away sees."""
        return CameraMotion(self.R_rn, np.zeros_like(self.dp_render_m))


class ShutterPoses(NamedTuple):
    """World poses of the optical camera, evenly spaced over the readout.

    One alone is a global shutter.
    """

    poses: tuple[Transform, ...]

    @property
    def middle(self) -> Transform:
        """The pose of the picture's instant."""
        return self.poses[len(self.poses) // 2]

    @property
    def rolls(self) -> bool:
        """True when rows belong to different poses."""
        return len(self.poses) > 1

    def motion_from(
        self, T_world_render: Transform, rows: FloatArray, height_px: int
    ) -> CameraMotion:
        """Return the motion between a rendered picture and the given rows.

        Args:
            T_world_render: pose of the optical camera that the picture was rendered for.
            rows: shape (n,), in pixels; a little beyond the picture the camera moves on as at its
                border.
            height_px: of the picture that is shown.
        """
        q_render_world = q_conj(T_world_render.q_xyzw)
        q_rn = q_mul(q_render_world, np.array([pose.q_xyzw for pose in self.poses]))
        p_m = np.array([pose.p_m for pose in self.poses]) - T_world_render.p_m
        if self.rolls:
            share = (rows + 0.5) / height_px * (len(self.poses) - 1)
            first = np.clip(share.astype(np.intp), 0, len(self.poses) - 2)
            part = (share - first)[:, None]
            near = q_rn[first]
            far = q_rn[first + 1]
            far = np.where((near * far).sum(axis=1, keepdims=True) < 0.0, -far, far)
            q_rn = q_normalize(near + part * (far - near))  # knots lie so near that this is a slerp
            p_m = p_m[first] + part * (p_m[first + 1] - p_m[first])
        return CameraMotion(q_to_matrix(q_rn), q_rotate(q_render_world, p_m))


def knot_offsets_ns(readout_ns: int) -> tuple[int, ...]:
    """Return the instants of an exposure's poses, relative to the picture's.

    One for a global shutter.
    """
    if not readout_ns:
        return (0,)
    return tuple(round(readout_ns * (k / (KNOTS - 1) - 0.5)) for k in range(KNOTS))

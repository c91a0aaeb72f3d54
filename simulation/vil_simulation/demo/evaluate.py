"""Accuracy of the compensation.

Delivered pictures against pictures rendered afterwards at the true pose.

For each delivered picture the embedded renderer draws what the camera really saw at the instant of
use. Corners of that reference are found again in the delivered picture; the distance is the
reprojection error. The homography itself never enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vil_adapters.lab.motions import Scenario
from vil_bridge.core.types import FloatArray, ImageArray, Modality, View
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.protocols import opencv as cv2
from vil_renderer import embedded

_CORNERS = 200
_QUALITY = 0.02
_SPACING_PX = 12.0
_BACKWARD_PX = 0.5
_PYRAMID_LEVELS = 5
_WINDOW_PX = (21, 21)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A picture as the onboard computer got it.

    Gray, and the instant (bridge time) it is used at.
    """

    frame_id: int
    t_use_ns: int
    gray: ImageArray
    header: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Reprojection errors over all corners of all pictures, pixels."""

    median_px: float | None
    p95_px: float | None
    corners: int
    pictures: int

    @classmethod
    def of(cls, errors: list[FloatArray]) -> Evaluation:
        """Summarise; None where no corner was found again."""
        joined = np.concatenate(errors) if errors else np.zeros(0)
        if not joined.size:
            return cls(None, None, 0, len(errors))
        return cls(
            float(np.median(joined)),
            float(np.percentile(joined, 95)),
            int(joined.size),
            len(errors),
        )


class Evaluator:
    """Renderer of references at the true pose.

    It owns a GL context: one thread, close when done.
    """

    def __init__(self, scenario: Scenario, epoch_ns: int) -> None:
        self._scenario = scenario
        self._epoch_ns = epoch_ns
        self._renderer = embedded.EmbeddedRenderer(scene="hall")

    def close(self) -> None:
        """Release the GL context."""
        self._renderer.close()

    def reference(self, camera: CameraInfo, t_use_ns: int) -> ImageArray | None:
        """Return the camera's true picture, gray; None where the vehicle's pose is unknown."""
        snapshot = self._scenario.snapshot(t_use_ns - self._epoch_ns)
        if snapshot is None:
            return None
        carrier = next(a for a in snapshot.actors if a.name == camera.actor)
        T_world_camera = carrier.T_world_body @ camera.T_body_optical
        view = View(camera.model, Modality.GRAY, T_world_camera, t_use_ns, hide=(camera.actor,))
        return self._renderer.render((view,), snapshot)[0].pixels

    def error_px(self, camera: CameraInfo, picture: Delivered) -> FloatArray | None:
        """Return the reprojection errors of one picture's corners.

        None where the vehicle's pose is unknown.
        """
        reference = self.reference(camera, picture.t_use_ns)
        return None if reference is None else reprojection_px(reference, picture.gray)


def reprojection_px(reference: ImageArray, delivered: ImageArray) -> FloatArray:
    """Return the distances between expected and found corners, shape (n,), pixels.

    Shi-Tomasi corners of the reference, pyramidal Lucas-Kanade with a forward-backward check of
    0.5 px; corners that left the picture, or that the warp's black border covers, do not count.

    Args:
        reference: gray picture, uint8 (h, w).
        delivered: gray picture of the same size.
    """
    border = cv2.dilate((delivered == 0).astype(np.uint8), np.ones((25, 25), np.uint8))
    corners: Any = cv2.goodFeaturesToTrack(reference, _CORNERS, _QUALITY, _SPACING_PX)
    if corners is None:
        return np.zeros(0)
    found, ok = _track(reference, delivered, corners)
    back, ok_back = _track(delivered, reference, found)
    agree = np.linalg.norm(back - corners, axis=2)[:, 0] < _BACKWARD_PX
    pixel = np.round(found[:, 0]).astype(int).clip(0, np.array(delivered.shape[::-1]) - 1)
    visible = border[pixel[:, 1], pixel[:, 0]] == 0
    distances: FloatArray = np.linalg.norm(found - corners, axis=2)[
        ok & ok_back & agree & visible, 0
    ]
    return distances.astype(np.float64)


def _track(first: ImageArray, second: ImageArray, points: Any) -> tuple[Any, Any]:
    until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 0.01)
    found, status, _ = cv2.calcOpticalFlowPyrLK(
        first,
        second,
        points,
        points.copy(),
        winSize=_WINDOW_PX,
        maxLevel=_PYRAMID_LEVELS,
        criteria=until,
    )
    return found, status[:, 0] == 1

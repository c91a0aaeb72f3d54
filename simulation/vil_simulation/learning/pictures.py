"""Pictures of a task, drawn by the embedded renderer.

A field with the task's gates, seen from the drones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    Modality,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.courses.course import Course

if TYPE_CHECKING:
    from vil_renderer.embedded import EmbeddedRenderer, Scene

_FOV_RAD: Final = math.radians(90.0)
_T_BODY_EYE: Final = Transform.of((0.1, 0.0, 0.0), (-0.5, 0.5, -0.5, 0.5))
_BACK_M: Final = (-2.5, 0.0, 1.0)
_BEHIND: Final = CameraModel("behind", 640, 480, math.radians(70.0))
_MODALITIES: Final = {"gray": Modality.GRAY, "rgb": Modality.RGB, "depth": Modality.DEPTH32}
_MOST_VIEWS: Final = 64


class Eyes:
    """Cameras on n drones; each drone is alone in its world.

    The renderer is started by the first picture.

    Args:
        course: gates that stand in the field. size_px: width and height of what the drones see.
    """

    def __init__(self, course: Course, size_px: int) -> None:
        self._course: Final = course
        self._camera: Final = CameraModel("eye", size_px, size_px, _FOV_RAD)
        self._renderer: EmbeddedRenderer | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which starts a renderer of its own."""
        return self.__dict__ | {"_renderer": None}

    def see(self, observed: str, x: FloatArray) -> npt.NDArray[Any]:
        """Return pictures from drones in states (n, dx), (n, size, size, channels).

        Gray, rgb, or depth in metres.

        Raises:
            RendererError: no OpenGL; the message names what to install.
        """
        poses = [Transform(row[0:3], row[6:10]) @ _T_BODY_EYE for row in x]
        views = [View(self._camera, _MODALITIES[observed], pose, 0) for pose in poses]
        drawn: list[npt.NDArray[Any]] = []
        for start in range(0, len(views), _MOST_VIEWS):
            images = self._started().render(
                views[start : start + _MOST_VIEWS], WorldSnapshot(0, ())
            )
            drawn += [image.pixels for image in images]
        return np.array(drawn).reshape(len(x), self._camera.height_px, self._camera.width_px, -1)

    def behind(self, x: FloatArray) -> npt.NDArray[np.uint8]:
        """Return a drone in state (dx,) from behind and above, level, (480, 640, 3)."""
        body = Transform(x[0:3], x[6:10])
        drone = ActorState(
            "drone", ActorKind.VEHICLE, TrackingState.TRACKED, 0, body, size_m=(0.4, 0.4, 0.15)
        )
        forward = body.rotation()[:, 0]
        half = 0.5 * math.atan2(forward[1], forward[0])
        level = Transform(x[0:3], np.array([0.0, 0.0, math.sin(half), math.cos(half)]))
        camera = level @ Transform.of(_BACK_M, _T_BODY_EYE.q_xyzw)
        (image,) = self._started().render(
            [View(_BEHIND, Modality.RGB, camera, 0)], WorldSnapshot(0, (drone,))
        )
        return np.array(image.pixels, np.uint8)

    def close(self) -> None:
        """Close the renderer; the next picture starts another."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _started(self) -> EmbeddedRenderer:
        if self._renderer is None:
            from vil_renderer.embedded import EmbeddedRenderer

            self._renderer = EmbeddedRenderer(field_with(self._course))
        return self._renderer


def field_with(course: Course) -> Scene:
    """Return the empty scene with the gates of a course."""
    from vil_renderer.embedded import load_scene
    from vil_renderer.embedded.scenes.race import with_course

    return with_course(load_scene("empty"), course)

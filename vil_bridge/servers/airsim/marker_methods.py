"""Methods that draw points, lines and words into the pictures (simPlot...)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.scene_queries import MarkerKind, SceneMarker
from vil_bridge.core.types import FloatArray
from vil_bridge.servers.airsim.clock_methods import FRAME_HZ
from vil_bridge.servers.airsim.frames import attitude_of, world_of
from vil_bridge.servers.airsim.methods import method
from vil_bridge.servers.airsim.scene import ServedScene
from vil_bridge.servers.airsim.values import Pose, Vector3r
from vil_bridge.servers.airsim.vehicles import ServedVehicles

_AXES: Final = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
"""Colours of the x, y and z axis of a transform."""
_M_PER_CM: Final = 0.01
_HEAD: Final = 0.3
"""Length of an arrow's head for a size of 1, metres."""
_TEXT_PX: Final = 16
_LARGEST_PX: Final = 64
_LONGEST: Final = 1e6
_BODY_FRD: Final[FloatArray] = np.diag([1.0, -1.0, -1.0])


class MarkerMethods:
    """Markers in the world: for some simulated seconds, or until they are flushed."""

    def __init__(self, vehicles: ServedVehicles, scene: ServedScene) -> None:
        self._vehicles = vehicles
        self._scene = scene

    @method("simPlotPoints")
    async def points(
        self, points: list[Vector3r], color_rgba: list[float], size: float, duration: float, is_persistent: bool
    ) -> None:
        """Draw points."""
        await self._draw(MarkerKind.POINTS, _world(points), color_rgba, size, None if is_persistent else duration)

    @method("simPlotLineStrip")
    async def line_strip(
        self, points: list[Vector3r], color_rgba: list[float], thickness: float, duration: float, is_persistent: bool
    ) -> None:
        """Draw lines from each point to the next."""
        p_m = _world(points)
        ends = np.repeat(p_m, 2, axis=0)[1:-1]
        await self._draw(MarkerKind.LINES, ends, color_rgba, thickness, None if is_persistent else duration)

    @method("simPlotLineList")
    async def line_list(
        self, points: list[Vector3r], color_rgba: list[float], thickness: float, duration: float, is_persistent: bool
    ) -> None:
        """Draw lines between the first and the second of two points each."""
        p_m = _world(points)
        even = p_m[: len(p_m) // 2 * 2]
        await self._draw(MarkerKind.LINES, even, color_rgba, thickness, None if is_persistent else duration)

    @method("simPlotArrows")
    async def arrows(
        self,
        points_start: list[Vector3r],
        points_end: list[Vector3r],
        color_rgba: list[float],
        thickness: float,
        arrow_size: float,
        duration: float,
        is_persistent: bool,
    ) -> None:
        """Draw arrows."""
        _check_length(arrow_size)
        lines = [
            _arrow(a, b, _HEAD * arrow_size) for a, b in zip(_world(points_start), _world(points_end), strict=False)
        ]
        p_m = np.concatenate(lines) if lines else np.zeros((0, 3))
        await self._draw(MarkerKind.LINES, p_m, color_rgba, thickness, None if is_persistent else duration)

    @method("simPlotStrings")
    async def strings(
        self, strings: list[str], positions: list[Vector3r], scale: float, color_rgba: list[float], duration: float
    ) -> None:
        """Draw words."""
        p_m = _world(positions)[: len(strings)]
        texts = tuple(strings[: len(p_m)])
        await self._draw(MarkerKind.TEXT, p_m, color_rgba, _TEXT_PX * scale, duration, texts)

    @method("simPlotTransforms")
    async def transforms(
        self, poses: list[Pose], scale: float, thickness: float, duration: float, is_persistent: bool
    ) -> None:
        """Draw the axes of poses; the scale is in centimetres."""
        _check_length(scale)
        for axis, colour in enumerate(_AXES):
            lines = [_axis(pose, axis, _M_PER_CM * scale) for pose in poses]
            p_m = np.concatenate(lines) if lines else np.zeros((0, 3))
            await self._draw(MarkerKind.LINES, p_m, colour, thickness, None if is_persistent else duration)

    @method("simPlotTransformsWithNames")
    async def transforms_with_names(
        self,
        poses: list[Pose],
        names: list[str],
        tf_scale: float,
        tf_thickness: float,
        text_scale: float,
        text_color_rgba: list[float],
        duration: float,
    ) -> None:
        """Draw the axes of poses, and names at them."""
        await self.transforms(poses, tf_scale, tf_thickness, duration, is_persistent=False)
        await self.strings(names, [pose.position for pose in poses], text_scale, text_color_rgba, duration)

    @method("simFlushPersistentMarkers")
    async def flush(self) -> None:
        """Remove every marker."""
        await self._scene.clear_markers()

    async def _draw(
        self,
        kind: MarkerKind,
        p_m: FloatArray,
        colour: list[float],
        size: float,
        duration_s: float | None,
        texts: tuple[str, ...] = (),
    ) -> None:
        """Add a marker; a duration that is not positive is one frame, None = for good."""
        if not len(p_m):
            return
        until_ns = None
        if duration_s is not None:
            seconds = min(max(duration_s, 1.0 / FRAME_HZ), 1e6) if not math.isnan(duration_s) else 1.0 / FRAME_HZ
            until_ns = self._vehicles.snapshot().t_ns + round(seconds * NS_PER_S)
        size_px = int(min(max(size, 1.0), _LARGEST_PX)) if not math.isnan(size) else 1
        await self._scene.mark(SceneMarker(kind, p_m, _rgb(colour), size_px, texts, until_ns))


def _world(points: list[Vector3r]) -> FloatArray:
    """Return points (NED) in the world, (n, 3)."""
    return np.array([world_of(p) for p in points]).reshape(-1, 3)


def _check_length(length: float) -> None:
    """Raise ValueError where a length cannot be drawn."""
    if not 0.0 <= length <= _LONGEST:
        raise ValueError(f"a scale or size must be from 0 to {_LONGEST:g}, not {length:g}")


def _rgb(colour: list[float]) -> tuple[int, int, int]:
    """Return a colour of 0 to 1 in levels. Raises ValueError: it has fewer than three parts."""
    if len(colour) < 3 or not all(math.isfinite(part) for part in colour[:3]):
        raise ValueError(f"a colour has red, green, blue and alpha from 0 to 1, not {colour!r:.60}")
    red, green, blue = (round(255.0 * min(max(part, 0.0), 1.0)) for part in colour[:3])
    return red, green, blue


def _arrow(a_m: FloatArray, b_m: FloatArray, head_m: float) -> FloatArray:
    """Return the lines of an arrow, (6, 3): its shaft, and two strokes at its tip."""
    way = b_m - a_m
    length_m = float(np.linalg.norm(way))
    if length_m == 0.0:
        return np.stack((a_m, b_m))
    along = way / length_m
    across = np.cross(along, (0.0, 0.0, 1.0) if abs(along[2]) < 0.9 else (1.0, 0.0, 0.0))
    across /= np.linalg.norm(across)
    back = b_m - min(head_m, 0.5 * length_m) * along
    side = 0.5 * min(head_m, 0.5 * length_m) * across
    return np.stack((a_m, b_m, b_m, back + side, b_m, back - side))


def _axis(pose: Pose, axis: int, length_m: float) -> FloatArray:
    """Return the line of one axis (FRD) of a pose, (2, 3)."""
    origin = world_of(pose.position)
    direction = q_to_matrix(attitude_of(pose.orientation)) @ _BODY_FRD[:, axis]
    return np.stack((origin, origin + length_m * direction))

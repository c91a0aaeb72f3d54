"""Methods that draw points, lines and words into the pictures (simPlot...)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_simulation.airsim.clock_methods import FRAME_HZ
from vil_simulation.airsim.frames import attitude_of, world_of, world_points
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import DrawnLength, DrawnSize, Duration, Share
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.values import DrawnPose, Points, Pose
from vil_simulation.airsim.vehicles import ServedVehicles

_AXES: Final = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
"""Colours of the x, y and z axis of a transform."""
_M_PER_CM: Final = 0.01
_HEAD: Final = 0.3
"""Length of an arrow's head for a size of 1, metres."""
_TEXT_PX: Final = 16
_LARGEST_PX: Final = 64
_AT_ONCE: Final = 8
"""Arrows or axes that are computed without other clients' turns between."""
_BODY_FRD: Final[FloatArray] = np.diag([1.0, -1.0, -1.0])


class MarkerMethods:
    """Markers in the world: for some simulated seconds, or until they are flushed."""

    def __init__(self, vehicles: ServedVehicles, scene: ServedScene) -> None:
        self._vehicles = vehicles
        self._scene = scene

    @method("simPlotPoints")
    async def points(
        self,
        points: Points,
        color_rgba: list[Share],
        size: DrawnSize,
        duration: Duration,
        is_persistent: bool,
    ) -> None:
        """Draw points."""
        await self._draw(
            MarkerKind.POINTS,
            world_points(points),
            color_rgba,
            size,
            _lifetime_s(duration, is_persistent),
        )

    @method("simPlotLineStrip")
    async def line_strip(
        self,
        points: Points,
        color_rgba: list[Share],
        thickness: DrawnSize,
        duration: Duration,
        is_persistent: bool,
    ) -> None:
        """Draw lines from each point to the next."""
        p_m = world_points(points)
        ends = np.repeat(p_m, 2, axis=0)[1:-1]
        await self._draw(
            MarkerKind.LINES, ends, color_rgba, thickness, _lifetime_s(duration, is_persistent)
        )

    @method("simPlotLineList")
    async def line_list(
        self,
        points: Points,
        color_rgba: list[Share],
        thickness: DrawnSize,
        duration: Duration,
        is_persistent: bool,
    ) -> None:
        """Draw lines between the first and the second of two points each."""
        p_m = world_points(points)
        even = p_m[: len(p_m) // 2 * 2]
        await self._draw(
            MarkerKind.LINES, even, color_rgba, thickness, _lifetime_s(duration, is_persistent)
        )

    @method("simPlotArrows")
    async def arrows(
        self,
        points_start: Points,
        points_end: Points,
        color_rgba: list[Share],
        thickness: DrawnSize,
        arrow_size: DrawnLength,
        duration: Duration,
        is_persistent: bool,
    ) -> None:
        """Draw arrows."""
        arrows = list(zip(world_points(points_start), world_points(points_end), strict=False))
        p_m = await _lines(lambda ends: _arrow(ends[0], ends[1], _HEAD * arrow_size), arrows)
        await self._draw(
            MarkerKind.LINES, p_m, color_rgba, thickness, _lifetime_s(duration, is_persistent)
        )

    @method("simPlotStrings")
    async def strings(
        self,
        strings: list[str],
        positions: Points,
        scale: DrawnSize,
        color_rgba: list[Share],
        duration: Duration,
    ) -> None:
        """Draw words."""
        p_m = world_points(positions)[: len(strings)]
        texts = tuple(strings[: len(p_m)])
        await self._draw(MarkerKind.TEXT, p_m, color_rgba, _TEXT_PX * scale, duration, texts)

    @method("simPlotTransforms")
    async def transforms(
        self,
        poses: list[DrawnPose],
        scale: DrawnLength,
        thickness: DrawnSize,
        duration: Duration,
        is_persistent: bool,
    ) -> None:
        """Draw the axes of poses; the scale is in centimetres."""
        for axis, colour in enumerate(_AXES):
            p_m = await _lines(partial(_axis, axis=axis, length_m=_M_PER_CM * scale), poses)
            await self._draw(
                MarkerKind.LINES, p_m, colour, thickness, _lifetime_s(duration, is_persistent)
            )

    @method("simPlotTransformsWithNames")
    async def transforms_with_names(
        self,
        poses: list[DrawnPose],
        names: list[str],
        tf_scale: DrawnLength,
        tf_thickness: DrawnSize,
        text_scale: DrawnSize,
        text_color_rgba: list[Share],
        duration: Duration,
    ) -> None:
        """Draw the axes of poses, and names at them."""
        await self.transforms(poses, tf_scale, tf_thickness, duration, is_persistent=False)
        await self.strings(names, await _places(poses), text_scale, text_color_rgba, duration)

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
            seconds = min(max(duration_s, 1.0 / FRAME_HZ), 1e6)
            until_ns = self._vehicles.snapshot().t_ns + round(seconds * NS_PER_S)
        size_px = int(min(max(size, 1.0), _LARGEST_PX))
        await self._scene.mark(SceneMarker(kind, p_m, _rgb(colour), size_px, texts, until_ns))


def _lifetime_s(duration_s: float, is_persistent: bool) -> float | None:
    if is_persistent:
        return None
    return duration_s


async def _lines(lines_of: Callable[[Any], FloatArray], things: Sequence[Any]) -> FloatArray:
    """Return the lines of arrows or poses, (n, 3), some at a time."""
    pieces = [np.zeros((0, 3))]
    for begin in range(0, len(things), _AT_ONCE):
        pieces.append(
            np.concatenate([lines_of(thing) for thing in things[begin : begin + _AT_ONCE]])
        )
        await asyncio.sleep(0)
    return np.concatenate(pieces)


async def _places(poses: Sequence[Pose]) -> FloatArray:
    """Return the positions of poses (NED), (n, 3)."""
    return await _lines(
        lambda p: np.array([[p.position.x_val, p.position.y_val, p.position.z_val]]), poses
    )


def _rgb(colour: list[float]) -> tuple[int, int, int]:
    """Return a colour of 0 to 1 in levels. Raises ValueError: it has fewer than three parts."""
    if len(colour) < 3:
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

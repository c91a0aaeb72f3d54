"""Drawing of what falls: streaks, flakes and leaves as instances of one square."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_bridge.core.weather import Weather
from vil_renderer.embedded.engine.particles import particles_at
from vil_renderer.embedded.engine.programs import Programs
from vil_renderer.embedded.geometry.sky_cover import SkyCover

if TYPE_CHECKING:
    import moderngl

_ROW_BYTES: Final = 40


class _View(Protocol):
    """Part of a view that is needed here."""

    @property
    def camera(self) -> CameraModel: ...
    @property
    def T_world_camera(self) -> Transform: ...  # noqa: N802 - the project's name of a pose
    @property
    def t_ns(self) -> int: ...


class ParticleDraws:
    """Particles of the weather for one profile; nothing is made before something falls."""

    def __init__(
        self, ctx: moderngl.Context, programs: Programs, shading: int, *, toned: bool
    ) -> None:
        self._ctx = ctx
        self._programs = programs
        self._shading = shading
        self._toned = toned
        self._rows = 0
        self._places: moderngl.Buffer | None = None
        self._square: moderngl.Buffer | None = None
        self._array: moderngl.VertexArray | None = None

    def any(self, weather: Weather) -> bool:
        """Return whether anything falls."""
        return particles_at(weather, 0) is not None

    def draw(self, weather: Weather, view: _View, cover: SkyCover | None) -> None:
        """Draw what a view sees fall, hidden by what is nearer.

        The caller blends, and writes colour only.
        """
        found = particles_at(weather, view.t_ns)
        if found is None:
            return
        T = view.T_world_camera
        rows = found.around(T.p_m, T.rotation()[:, 2], _corner_cos(view.camera), cover)
        if not len(rows):
            return
        array, places = self._buffers(len(rows))
        places.orphan()
        places.write(rows)
        self._ctx.disable(self._ctx.CULL_FACE)
        array.render(self._ctx.TRIANGLE_STRIP, instances=len(rows))

    def _buffers(self, rows: int) -> tuple[moderngl.VertexArray, moderngl.Buffer]:
        if self._array is None or self._places is None or rows > self._rows:
            for old in (self._array, self._places, self._square):
                if old is not None:
                    old.release()
            ctx = self._ctx
            self._rows = 2 * rows
            self._places = ctx.buffer(reserve=self._rows * _ROW_BYTES, dynamic=True)
            self._square = ctx.buffer(
                np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]], np.float32).tobytes()
            )
            instance = cast("Any", (self._places, "3f 3f 4f/i", "in_place", "in_v", "in_look"))
            program = self._programs.particles(self._shading, toned=self._toned)
            self._array = ctx.vertex_array(program, [(self._square, "2f", "in_p"), instance])
        return self._array, self._places


def _corner_cos(camera: CameraModel) -> float:
    """Return the cosine of the angle from the optical axis to the farthest corner."""
    fx, fy, cx, cy = camera.intrinsics_px
    x = max(cx, camera.width_px - 1 - cx) / fx
    y = max(cy, camera.height_px - 1 - cy) / fy
    return 1.0 / math.sqrt(1.0 + x * x + y * y)

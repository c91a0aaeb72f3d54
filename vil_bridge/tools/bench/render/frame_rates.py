"""Pictures per second on a GPU, where the minimal loop says little: by size and number of cameras."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_bridge.tools.bench.render.stage import CAMERA, STEP_NS, camera_pose, stage_scene
from vil_bridge.tools.bench.report import Row
from vil_renderer.embedded import EmbeddedRenderer

__all__ = ["frame_rate_rows", "on_gpu"]

_SIZES_PX: Final = ((320, 240), (640, 480), (1024, 768))
_CAMERAS: Final = (1, 8, 64)
_WARM_UP: Final = 3
_FEWEST: Final = 10
_LEAST_S: Final = 1.0
_SOFTWARE: Final = ("llvmpipe", "softpipe", "swrast", "software")


def on_gpu(gl_renderer: str) -> bool:
    """Return True when OpenGL's renderer string names hardware."""
    return not any(name in gl_renderer.lower() for name in _SOFTWARE)


def frame_rate_rows() -> Iterator[Row]:
    """Yield ``fps_<w>x<h>_<n>cameras``: requests per second, each for RGB of n cameras at profile high."""
    with EmbeddedRenderer(stage_scene(), "high") as renderer:
        for width_px, height_px in _SIZES_PX:
            for cameras in _CAMERAS:
                yield _rate(renderer, (width_px, height_px), cameras)


def _rate(renderer: EmbeddedRenderer, size_px: tuple[int, int], cameras: int) -> Row:
    width_px, height_px = size_px
    models = [replace(CAMERA, name=f"c{i}", width_px=width_px, height_px=height_px) for i in range(cameras)]
    drawn, started_s = -_WARM_UP, time.perf_counter()
    while drawn < _FEWEST or time.perf_counter() - started_s < _LEAST_S:
        if drawn == 0:
            started_s = time.perf_counter()
        step = drawn + _WARM_UP
        t_ns = step * STEP_NS
        views = [
            View(model, Modality.RGB, camera_pose(step % 100, -8.0 + 0.1 * i), t_ns) for i, model in enumerate(models)
        ]
        renderer.render(views, WorldSnapshot(t_ns, ()))
        drawn += 1
    rate_hz = drawn / (time.perf_counter() - started_s)
    return Row(f"fps_{width_px}x{height_px}_{cameras}cameras", rate_hz, "Hz", drawn)

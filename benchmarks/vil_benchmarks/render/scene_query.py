"""Time that asking a scene's process adds to a picture: transport and waiting, without drawing."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

import numpy as np

from vil_benchmarks.report import Row, ratio_row
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig

_SIZES_PX: Final = ((256, 144), (640, 480))
_PER_REPETITION: Final = 10
_RAYS: Final = 10_000
_NS_PER_S: Final = 1e9


def scene_query_rows(repetitions: int) -> list[Row]:
    """Return, for each size, the time of a question minus that of its drawing, and their ratio.

    And that of rays.

    Both times are of the same picture: the process states how long it drew.

    Raises:
        RendererError: no OpenGL, or no Embree.
    """
    return asyncio.run(_rows(_PER_REPETITION * repetitions))


async def _rows(count: int) -> list[Row]:
    scene = EmbeddedSceneQueries("bench", EmbeddedQueriesConfig(scene="hall"))
    try:
        await scene.open()
        rows: list[Row] = []
        for width_px, height_px in _SIZES_PX:
            size = f"{width_px}x{height_px}"
            asked_s, drawn_s = await _pictures(
                scene, CameraModel(size, width_px, height_px, math.radians(60.0)), count
            )
            added_ms = 1e3 * float(np.median(np.subtract(asked_s, drawn_s)))
            rows += [
                Row(f"scene_query_added_ms_{size}", added_ms, "ms", len(asked_s)),
                ratio_row(f"scene_query_ratio_{size}", asked_s, drawn_s),
            ]
        cast_s = await _rays(scene, count)
        return [
            *rows,
            Row(f"scene_query_ms_{_RAYS}_rays", 1e3 * float(np.median(cast_s)), "ms", len(cast_s)),
        ]
    finally:
        await scene.close()


async def _pictures(
    scene: EmbeddedSceneQueries, camera: CameraModel, count: int
) -> tuple[list[float], list[float]]:
    """Return seconds of questions, and of their drawing.

    Each picture and snapshot is another one.
    """
    asked_s: list[float] = []
    drawn_s: list[float] = []
    for number in range(count):
        pose = Transform.of((-2.0 + 0.01 * (number % 50), 0.0, 1.5), (-0.5, 0.5, -0.5, 0.5))
        started_s = time.perf_counter()
        (image,) = await scene.images(
            [View(camera, Modality.RGB, pose, number)], WorldSnapshot(number, ())
        )
        asked_s.append(time.perf_counter() - started_s)
        drawn_s.append(scene.process.work_ns / _NS_PER_S)
        assert image.pixels.any(), "the picture is black"
    return asked_s, drawn_s


async def _rays(scene: EmbeddedSceneQueries, count: int) -> list[float]:
    """Return seconds of questions of rays in all directions."""
    directions = np.random.default_rng(1).normal(size=(_RAYS, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    origins = np.tile((0.0, 0.0, 1.5), (_RAYS, 1))
    asked_s: list[float] = []
    for number in range(count):
        started_s = time.perf_counter()
        hits = await scene.cast(origins, directions, 100.0, WorldSnapshot(number, ()))
        asked_s.append(time.perf_counter() - started_s)
        assert np.isfinite(hits.range_m).all(), "the hall is closed"
    return asked_s

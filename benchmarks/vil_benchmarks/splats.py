"""`vil-bridge bench splats`: pictures of a synthetic hall of Gaussian splats, on two cores at most.

All cases take turns, so that a change of the machine's speed meets all of them. The CPU time of a
picture depends less on other programs than its wall time does.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np

from vil_benchmarks.render.measure import Costs, interleaved
from vil_benchmarks.report import Row, percentile_row, ratio_row
from vil_benchmarks.splats_hall import hall_splats
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.splats import SplatField, arranged, project, rasterise
from vil_renderer.embedded.splats.cloud import cloud_of
from vil_renderer.embedded.splats.field import DETAIL_PX

CAMERA: Final = CameraModel("splats", 640, 480, math.radians(80.0))
FEW: Final = 200_000
MANY: Final = 1_000_000
REPETITIONS: Final = 15
_CORES: Final = 2
_PLACES: Final = 12
_WORLD: Final = np.eye(4)


def bench_splats(few: int = FEW, many: int = MANY, repetitions: int = REPETITIONS) -> list[Row]:
    """Measure; half a minute on idle cores.

    Args:
        few: splats of the smaller hall.
        many: of the larger one.
        repetitions: pictures of each case that count.

    Raises:
        RendererError: numba is not installed.
    """
    small, large = (arranged(cloud_of(hall_splats(count), "hall")) for count in (few, many))
    cases: dict[str, Callable[[int], object]] = {
        "200k_640x480_2_threads": partial(picture, small),
        "200k_640x480_1_thread": partial(_on_one_core, small),
        "1m_lod_640x480": partial(picture, large, detail_px=DETAIL_PX),
        "1m_640x480": partial(picture, large),
    }
    with _cores(_CORES):
        costs = interleaved(cases, repetitions)
    rows = [row for name, cost in costs.items() for row in _rows(name, cost)]
    wall = {name: cost.wall_ms for name, cost in costs.items()}
    rows.append(
        ratio_row(
            "ratio_2_threads_200k", wall["200k_640x480_2_threads"], wall["200k_640x480_1_thread"]
        )
    )
    rows.append(
        ratio_row("ratio_1m_lod", costs["1m_lod_640x480"].cpu_ms, costs["1m_640x480"].cpu_ms)
    )
    quality = [
        psnr_db(picture(large, n, detail_px=DETAIL_PX), picture(large, n)) for n in range(_PLACES)
    ]
    return [*rows, Row("psnr_db_1m_lod_least", min(quality), "dB", _PLACES)]


def picture(field: SplatField, number: int, *, detail_px: float = 0.0) -> FloatArray:
    """Return the hall from one of the places of a flight, display colours over black (480, 640,
    3).
    """
    depth = np.full((CAMERA.height_px, CAMERA.width_px), 1e6, np.float32)
    made = rasterise(
        project(field, CAMERA, camera_pose(number), _WORLD, detail_px=detail_px), depth
    )
    colours: FloatArray = made[..., :3].astype(np.float64)
    return colours


def camera_pose(number: int) -> Transform:
    """Return the pose of the camera at one of twelve places along the hall, looking from side to
    side.
    """
    step = number % _PLACES
    place = (-8.0 + 1.3 * step, 0.6 * math.sin(1.0 * step), 1.6)
    turn = q_from_euler_zyx(0.5 * math.sin(0.8 * step), 0.1 * math.sin(0.5 * step), 0.0)
    return Transform.of(place, turn) @ T_FLU_OPTICAL


def psnr_db(made: FloatArray, wanted: FloatArray) -> float:
    """Return the peak signal-to-noise ratio of colours in 0..1."""
    return 10.0 * math.log10(1.0 / max(float(np.mean((made - wanted) ** 2)), 1e-12))


def _rows(name: str, cost: Costs) -> list[Row]:
    return [
        percentile_row(f"ms_{name}", cost.wall_ms, 50, "ms"),
        percentile_row(f"ms_{name}_p10", cost.wall_ms, 10, "ms"),
        percentile_row(f"cpu_ms_{name}", cost.cpu_ms, 50, "ms"),
    ]


def _on_one_core(field: SplatField, number: int) -> None:
    with _cores(1):
        picture(field, number)


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """Let this thread and those that it starts use a number of its cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

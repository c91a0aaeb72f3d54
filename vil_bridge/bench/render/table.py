"""``vil-bridge bench render``: all rows, in the order in which they are read."""

from __future__ import annotations

from typing import Final

from vil_bridge.bench.graphics import gl_machine, one_drawing_thread
from vil_bridge.bench.render.drawing import drawing_rows
from vil_bridge.bench.render.frame_rates import frame_rate_rows, on_gpu
from vil_bridge.bench.render.loop_delay import loop_delay_rows
from vil_bridge.bench.render.outsiders import outsider_rows
from vil_bridge.bench.render.rays import ray_rows
from vil_bridge.bench.report import Row

__all__ = ["bench_render"]

_REPETITIONS: Final = 24
_PHASES: Final = 3


def bench_render() -> list[Row]:
    """Run all measurements; about two minutes on two cores without a GPU.

    Raises:
        RendererError: no OpenGL, or no Embree.
    """
    rows = [one_drawing_thread()]
    rows += drawing_rows(_REPETITIONS)
    rows += ray_rows(_REPETITIONS)
    rows += outsider_rows({row.name: row for row in rows}, _REPETITIONS)
    rows += loop_delay_rows(_PHASES)
    if on_gpu(gl_machine()["gl_renderer"]):
        rows += frame_rate_rows()
    return rows

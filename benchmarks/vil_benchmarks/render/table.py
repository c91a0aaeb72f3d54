"""``vil-bridge bench render``: all rows, in the order in which they are read."""

from __future__ import annotations

from typing import Final

from vil_benchmarks.render.drawing import drawing_rows, frame_rate_rows, ray_rows
from vil_benchmarks.render.loop_delay import loop_delay_rows
from vil_benchmarks.render.rivals import outsider_rows
from vil_benchmarks.render.scene_query import scene_query_rows
from vil_benchmarks.render.thread_cost import thread_cost_rows
from vil_benchmarks.render.yardstick import gl_machine, one_drawing_thread
from vil_benchmarks.report import Row
from vil_renderer.embedded.engine.devices import is_software

_REPETITIONS: Final = 24
_QUICK_REPETITIONS: Final = 6
_PHASES: Final = 3


def bench_render(*, quick: bool = False) -> list[Row]:
    """Run all measurements; about two minutes on two cores without a GPU.

    Args:
        quick: a quarter of the repetitions, and what this process measures alone.

    Raises:
        RendererError: no OpenGL, or no Embree.
    """
    rows = [one_drawing_thread()]
    repetitions = _QUICK_REPETITIONS if quick else _REPETITIONS
    rows += drawing_rows(repetitions)
    rows += ray_rows(repetitions)
    if quick:
        return rows
    rows += thread_cost_rows(repetitions)
    rows += outsider_rows({row.name: row for row in rows}, repetitions)
    rows += loop_delay_rows(_PHASES)
    rows += scene_query_rows(repetitions)
    if not is_software(gl_machine()["gl_renderer"]):
        rows += frame_rate_rows()
    return rows

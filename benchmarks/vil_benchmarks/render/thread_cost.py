"""CPU time of the rendering thread outside calls into the OpenGL binding, for each camera and
each moving prop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType, TracebackType
from typing import Any, Final, Self

import moderngl
import numpy as np

from vil_benchmarks.render.measure import WARM_UP, in_turns
from vil_benchmarks.render.yardstick import (
    CAMERA,
    FIVE,
    STEP_NS,
    camera_pose,
    crowd,
    stage_scene,
)
from vil_benchmarks.report import Row, percentile_row
from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.servers.main import answer

_BINDING: Final = (
    *(
        moderngl.Buffer,
        moderngl.Context,
        moderngl.Framebuffer,
        moderngl.Renderbuffer,
        moderngl.Texture,
    ),
    *(moderngl.VertexArray, moderngl.Uniform, moderngl.UniformBlock),
)
_ENTERS: Final = ("__enter__", "__exit__")
_CAMERAS: Final = 16
_PROPS: Final = 1000


class BindingClock:
    """Clock of the CPU time that the calling thread spends inside moderngl while this context is
    entered.

    Methods and setters of moderngl's classes count; a call within a call counts once. Reading the
    clock costs about a microsecond for each call, half of which counts as time outside.

    Attributes:
        inside_ns: time since it was entered.
    """

    def __init__(self) -> None:
        self.inside_ns = 0
        self._inside = False
        self._original: list[tuple[type, str, Any]] = []

    def __enter__(self) -> Self:
        for owner in _BINDING:
            for name, value in list(vars(owner).items()):
                if isinstance(value, FunctionType) and (
                    name in _ENTERS or not name.startswith("_")
                ):
                    self._replace(owner, name, self._timed(value))
                elif isinstance(value, property) and value.fset is not None:
                    self._replace(owner, name, property(value.fget, self._timed(value.fset)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for owner, name, value in self._original:
            setattr(owner, name, value)

    def _replace(self, owner: type, name: str, value: object) -> None:
        self._original.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            if self._inside:
                return call(*args, **options)
            self._inside, started_ns = True, time.thread_time_ns()
            try:
                return call(*args, **options)
            finally:
                self.inside_ns += time.thread_time_ns() - started_ns
                self._inside = False

        return timed


def outside_ms(
    cases: Mapping[str, Callable[[int], object]], repetitions: int
) -> dict[str, list[float]]:
    """Return the thread's CPU time outside the binding, milliseconds of each repetition, by
    case.
    """
    spent: dict[str, list[float]] = {name: [] for name in cases}
    with BindingClock() as clock:
        for n, name, work in in_turns(cases, repetitions):
            started_ns = time.thread_time_ns() - clock.inside_ns
            work(n)
            outside_ns = time.thread_time_ns() - clock.inside_ns - started_ns
            if n >= WARM_UP:
                spent[name].append(1e-6 * outside_ns)
    return spent


def thread_cost_rows(repetitions: int) -> list[Row]:
    """Return the rows of 16 cameras, RGB at 640x480, and of 1000 props in the five modalities of
    one camera.

    The latter is a request as the renderer's process answers it, with range and beacons.
    """
    crowds = [crowd(n, _PROPS) for n in range(WARM_UP + repetitions)]
    with (
        EmbeddedRenderer(stage_scene(), "low") as still,
        EmbeddedRenderer(stage_scene(), "low") as busy,
    ):
        cases: dict[str, Callable[[int], object]] = {
            "cameras": lambda n: _cameras(still, n),
            "still": lambda n: _five(still, n, WorldSnapshot(n * STEP_NS, ())),
            "props": lambda n: _five(busy, n, crowds[n]),
        }
        spent = outside_ms(cases, repetitions)
    per_camera = np.array(spent["cameras"]) / _CAMERAS
    per_prop = 1e3 / _PROPS * np.subtract(spent["props"], spent["still"])
    return [
        percentile_row("cpu_outside_gl_ms_per_camera", per_camera.tolist(), 50, "ms"),
        percentile_row("us_per_moving_prop", per_prop.tolist(), 50, "us"),
    ]


def _cameras(renderer: EmbeddedRenderer, n: int) -> object:
    models = [replace(CAMERA, name=f"camera{i}") for i in range(_CAMERAS)]
    poses = [camera_pose(n, -8.0 + 0.5 * i) for i in range(_CAMERAS)]
    views = [
        View(model, Modality.RGB, pose, n * STEP_NS)
        for model, pose in zip(models, poses, strict=True)
    ]
    return renderer.render(views, WorldSnapshot(n * STEP_NS, ()))


def _five(renderer: EmbeddedRenderer, n: int, snapshot: WorldSnapshot) -> object:
    return answer(
        renderer, tuple(View(CAMERA, m, camera_pose(n), n * STEP_NS) for m in FIVE), snapshot
    )

"""The engine's pictures, rays and frame rates, pictures and rays in turn with the plainest loop
and with Embree.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_benchmarks.render.measure import WARM_UP, Costs, interleaved, ratio_rows
from vil_benchmarks.render.yardstick import (
    CAMERA,
    FIVE,
    STEP_NS,
    MinimalLoop,
    camera_pose,
    crowd,
    stage_scene,
    walker,
    yardstick_scene,
)
from vil_benchmarks.report import Row, percentile_row
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.engine.profiles import PROFILES, Profile, Shading
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import static_triangles

_RGB: Final = (Modality.RGB,)
_RGB_DEPTH: Final = (Modality.RGB, Modality.DEPTH32)
_MEDIUM: Final = PROFILES["medium"]
_PBR_SUN: Final = Profile(
    "pbr_sun", Shading.PBR, _MEDIUM.texture_limit_px, shadow_px=_MEDIUM.shadow_px
)
_CAMERAS: Final = 8
_SMALL: Final = "_160x120"
_CROWD: Final = 1000

_Case = Callable[[int], object]


def drawing_rows(repetitions: int) -> list[Row]:
    """Return the rows of everything that is drawn.

    ``rgb_depth`` is what :mod:`rivals` compares with.
    """
    with contextlib.ExitStack() as stack:
        cases = dict(_cases(stack, repetitions))
        costs = interleaved(cases, repetitions)
    reference = costs["minimal"]
    rows = [
        percentile_row("cpu_ms_minimal", reference.cpu_ms, 50, "ms"),
        percentile_row("wall_ms_minimal", reference.wall_ms, 50, "ms"),
    ]
    for name in ("rgb", "rgb_baked", "rgb_depth", "five_modalities", "medium", "pbr_sun", "high"):
        rows += ratio_rows(f"ratio_{name}", costs[name], reference)
    for size in ("", _SMALL):
        rows += ratio_rows(
            f"ratio_cameras_8{size}",
            costs[f"cameras_together{size}"],
            costs[f"cameras_apart{size}"],
        )
    rows += ratio_rows("ratio_skinned_human", _added(costs, "human"), reference)
    rows += ratio_rows("ratio_1000_nodes", _added(costs, "nodes"), reference)
    return rows


def _added(costs: dict[str, Costs], what: str) -> Costs:
    return costs[f"with_{what}"] - costs[f"without_{what}"]


def _cases(stack: contextlib.ExitStack, repetitions: int) -> Iterator[tuple[str, _Case]]:
    scene = stage_scene()

    def renderer(
        profile: str | Profile, *, gloss: bool = False, baked: bool = False
    ) -> EmbeddedRenderer:
        shown = stage_scene(gloss=True) if gloss else scene
        return stack.enter_context(EmbeddedRenderer(shown, profile, baked=baked))

    minimal = MinimalLoop(scene, CAMERA)
    stack.callback(minimal.close)
    low = renderer("low")
    yield "minimal", lambda n: minimal.render(camera_pose(n))
    yield "rgb", _pictures(low, "rgb", _RGB)
    yield "rgb_baked", _pictures(renderer("low", baked=True), "rgb_baked", _RGB)
    yield "rgb_depth", _pictures(low, "rgb_depth", _RGB_DEPTH)
    yield "five_modalities", _pictures(low, "five", FIVE)
    yield "medium", _pictures(renderer("medium"), "medium", FIVE)
    yield "pbr_sun", _pictures(renderer(_PBR_SUN, gloss=True), "pbr", FIVE)
    yield "high", _pictures(renderer("high"), "high", FIVE)
    yield from _many_cameras(low, CAMERA, "")
    yield from _many_cameras(low, replace(CAMERA, width_px=160, height_px=120), _SMALL)
    steps = range(WARM_UP + repetitions)
    for what, snapshots in (
        ("human", [walker(n) for n in steps]),
        ("nodes", [crowd(n, _CROWD) for n in steps]),
    ):
        yield f"without_{what}", _pictures(low, f"without_{what}", FIVE)
        yield f"with_{what}", _pictures(low, f"with_{what}", FIVE, snapshots)


def _pictures(
    renderer: EmbeddedRenderer,
    camera: str,
    modalities: Sequence[Modality],
    snapshots: Sequence[WorldSnapshot] = (),
) -> _Case:
    """Return one camera's pictures in one request.

    It has a name of its own, so that flow is its own too.
    """
    model = replace(CAMERA, name=camera)

    def draw(n: int) -> object:
        snapshot = snapshots[n] if snapshots else WorldSnapshot(n * STEP_NS, ())
        return renderer.render(
            [View(model, m, camera_pose(n), n * STEP_NS) for m in modalities], snapshot
        )

    return draw


def _many_cameras(
    renderer: EmbeddedRenderer, model: CameraModel, size: str
) -> Iterator[tuple[str, _Case]]:
    """Yield cases of eight cameras along the hall: in one request, and each in its own."""
    models = [replace(model, name=f"camera{i}{size}") for i in range(_CAMERAS)]

    def views(n: int) -> list[View]:
        return [
            View(c, Modality.RGB, camera_pose(n, -8.0 + i), n * STEP_NS)
            for i, c in enumerate(models)
        ]

    def apart(n: int) -> None:
        snapshot = WorldSnapshot(n * STEP_NS, ())
        for view in views(n):
            renderer.render([view], snapshot)

    yield (
        f"cameras_together{size}",
        lambda n: renderer.render(views(n), WorldSnapshot(n * STEP_NS, ())),
    )
    yield f"cameras_apart{size}", apart


_RAYS: Final = 100_000


def ray_rows(repetitions: int) -> list[Row]:
    """Cast random rays inside the hall, everything about their first hits.

    Raises:
        RendererError: embreex is not installed.
    """
    scene = yardstick_scene()
    still = static_triangles(scene)
    raw = load_native("embreex.rtcore_scene", "embreex", "rays").EmbreeScene()
    load_native("embreex.mesh_construction", "embreex", "rays").TriangleMesh(
        raw, still.p_m, still.triangles
    )
    world = RayWorld(scene)
    rng = np.random.default_rng(6)
    origins_m = rng.uniform((-9.0, -6.0, 0.5), (9.0, 6.0, 5.5), (_RAYS, 3)).astype(np.float32)
    directions = rng.standard_normal((_RAYS, 3)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    costs = interleaved(
        {
            "raw": lambda _: raw.run(origins_m, directions, output=1),
            "api": lambda _: world.cast(origins_m, directions),
        },
        repetitions,
    )
    return [
        *ratio_rows("ratio_rays_100k", costs["api"], costs["raw"]),
        percentile_row("cpu_ms_embree_100k", costs["raw"].cpu_ms, 50, "ms"),
    ]


_SIZES_PX: Final = ((320, 240), (640, 480), (1024, 768))
_CAMERA_COUNTS: Final = (1, 8, 64)
_WARM_UP: Final = 3
_FEWEST: Final = 10
_LEAST_S: Final = 1.0


def frame_rate_rows() -> Iterator[Row]:
    """Yield ``fps_<w>x<h>_<n>cameras``: requests per second, each for RGB of n cameras at
    profile high.
    """
    with EmbeddedRenderer(stage_scene(), "high") as renderer:
        for width_px, height_px in _SIZES_PX:
            for cameras in _CAMERA_COUNTS:
                yield _rate(renderer, (width_px, height_px), cameras)


def _rate(renderer: EmbeddedRenderer, size_px: tuple[int, int], cameras: int) -> Row:
    width_px, height_px = size_px
    models = [
        replace(CAMERA, name=f"c{i}", width_px=width_px, height_px=height_px)
        for i in range(cameras)
    ]
    drawn = -_WARM_UP
    started_s = time.perf_counter()
    while drawn < _FEWEST or time.perf_counter() - started_s < _LEAST_S:
        if drawn == 0:
            started_s = time.perf_counter()
        step = drawn + _WARM_UP
        t_ns = step * STEP_NS
        views = [
            View(model, Modality.RGB, camera_pose(step % 100, -8.0 + 0.1 * i), t_ns)
            for i, model in enumerate(models)
        ]
        renderer.render(views, WorldSnapshot(t_ns, ()))
        drawn += 1
    rate_hz = drawn / (time.perf_counter() - started_s)
    return Row(f"fps_{width_px}x{height_px}_{cameras}cameras", rate_hz, "Hz", drawn)

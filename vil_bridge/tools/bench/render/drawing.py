"""The engine's pictures against the minimal loop's, all cases in turn in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_bridge.tools.bench.render.measure import WARM_UP, Costs, interleaved, ratio_rows
from vil_bridge.tools.bench.render.reference import MinimalLoop
from vil_bridge.tools.bench.render.stage import CAMERA, STEP_NS, camera_pose, crowd, stage_scene, walker
from vil_bridge.tools.bench.report import Row, percentile_row
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.engine.profiles import PROFILES, Profile, Shading

__all__ = ["FIVE", "drawing_rows"]

FIVE: Final = (Modality.RGB, Modality.DEPTH, Modality.NORMALS, Modality.INSTANCE, Modality.FLOW)
_RGB: Final = (Modality.RGB,)
_RGB_DEPTH: Final = (Modality.RGB, Modality.DEPTH32)
_MEDIUM: Final = PROFILES["medium"]
_PBR_SUN: Final = Profile("pbr_sun", Shading.PBR, _MEDIUM.texture_limit_px, shadow_px=_MEDIUM.shadow_px)
_CAMERAS: Final = 8
_CROWD: Final = 1000

_Case = Callable[[int], object]


def drawing_rows(repetitions: int) -> list[Row]:
    """Return the rows of everything that is drawn; ``rgb_depth`` is what :mod:`outsiders` compares with."""
    with contextlib.ExitStack() as stack:
        cases = dict(_cases(stack, repetitions))
        costs = interleaved(cases, repetitions)
    reference = costs["minimal"]
    rows = [
        percentile_row("cpu_ms_minimal", reference.cpu_ms, 50, "ms"),
        percentile_row("wall_ms_minimal", reference.wall_ms, 50, "ms"),
    ]
    for name in ("rgb", "rgb_depth", "five_modalities", "medium", "pbr_sun", "high"):
        rows += ratio_rows(f"ratio_{name}", costs[name], reference)
    rows += ratio_rows("ratio_cameras_8", costs["cameras_together"], costs["cameras_apart"])
    rows += ratio_rows("ratio_skinned_human", _added(costs, "human"), reference)
    rows += ratio_rows("ratio_1000_nodes", _added(costs, "nodes"), reference)
    return rows


def _added(costs: dict[str, Costs], what: str) -> Costs:
    return costs[f"with_{what}"] - costs[f"without_{what}"]


def _cases(stack: contextlib.ExitStack, repetitions: int) -> Iterator[tuple[str, _Case]]:
    scene = stage_scene()

    def renderer(profile: str | Profile, *, gloss: bool = False) -> EmbeddedRenderer:
        return stack.enter_context(EmbeddedRenderer(stage_scene(gloss=True) if gloss else scene, profile))

    minimal = MinimalLoop(scene, CAMERA)
    stack.callback(minimal.close)
    low = renderer("low")
    yield "minimal", lambda n: minimal.render(camera_pose(n))
    yield "rgb", _pictures(low, "rgb", _RGB)
    yield "rgb_depth", _pictures(low, "rgb_depth", _RGB_DEPTH)
    yield "five_modalities", _pictures(low, "five", FIVE)
    yield "medium", _pictures(renderer("medium"), "medium", FIVE)
    yield "pbr_sun", _pictures(renderer(_PBR_SUN, gloss=True), "pbr", FIVE)
    yield "high", _pictures(renderer("high"), "high", FIVE)
    yield from _many_cameras(low)
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
    """Return one camera's pictures in one request; it has a name of its own, so that flow is its own too."""
    model = replace(CAMERA, name=camera)

    def draw(n: int) -> object:
        snapshot = snapshots[n] if snapshots else WorldSnapshot(n * STEP_NS, ())
        return renderer.render([View(model, m, camera_pose(n), n * STEP_NS) for m in modalities], snapshot)

    return draw


def _many_cameras(renderer: EmbeddedRenderer) -> Iterator[tuple[str, _Case]]:
    """Yield cases of eight cameras along the hall: in one request, and each in its own."""
    models = [replace(CAMERA, name=f"camera{i}") for i in range(_CAMERAS)]

    def views(n: int) -> list[View]:
        return [View(c, Modality.RGB, camera_pose(n, -8.0 + i), n * STEP_NS) for i, c in enumerate(models)]

    def apart(n: int) -> None:
        snapshot = WorldSnapshot(n * STEP_NS, ())
        for view in views(n):
            renderer.render([view], snapshot)

    yield "cameras_together", lambda n: renderer.render(views(n), WorldSnapshot(n * STEP_NS, ()))
    yield "cameras_apart", apart

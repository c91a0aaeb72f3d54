"""Pictures drawn together are those drawn one by one, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.support.opengl import drawing, opengl
from vil_benchmarks.render.yardstick import (
    CAMERA,
    FIVE,
    STEP_NS,
    camera_pose,
    crowd,
    stage_scene,
    walker,
)
from vil_bridge.core.types import CameraModel, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.embedded import view_batches
from vil_renderer.embedded.engine import static

SMALL = replace(CAMERA, width_px=80, height_px=60)
SCENE = stage_scene()


def cameras() -> list[CameraModel]:
    """More than are drawn at once, of three sizes."""
    return [
        replace(SMALL, name=f"c{i}", width_px=80 - 8 * (i % 3))
        for i in range(view_batches._TOGETHER + 3)
    ]


def views(n: int) -> list[View]:
    """Five modalities of every camera; one hides props, one shows a layer alone."""
    t_ns, asked = n * STEP_NS, []
    for i, camera in enumerate(cameras()):
        pose, hide = camera_pose(n, -6.0 + i), ("p1", "p3") if i == 1 else ()
        asked += [
            View(camera, m, pose, t_ns, hide=hide, layer="actors" if i == 2 else "") for m in FIVE
        ]
    return asked


def snapshot(n: int) -> WorldSnapshot:
    """A human and props, in another order every time."""
    actors = (*walker(n).actors, *crowd(n, 40).actors)
    return WorldSnapshot(n * STEP_NS, actors[n:] + actors[:n])


def assert_same(ours: Sequence[RenderedImage], theirs: Sequence[RenderedImage]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.view.key == b.view.key
        np.testing.assert_array_equal(a.pixels, b.pixels, err_msg=a.view.key)
        if b.valid is not None:
            assert a.valid is not None
            np.testing.assert_array_equal(a.valid, b.valid)


@cache
def together(profile: str) -> list[tuple[RenderedImage, ...]]:
    """Return the pictures of two instants, each drawn in one request."""
    with drawing(SCENE, profile) as renderer:
        return [renderer.render(views(n), snapshot(n)) for n in range(2)]


@pytest.mark.gl
@pytest.mark.parametrize("profile", ["low", "high"])
def test_many_cameras_in_one_request_see_what_each_sees_alone(profile: str) -> None:
    with drawing(SCENE, profile) as one_by_one:
        for n, images in enumerate(together(profile)):
            asked = views(n)
            alone = [
                image
                for first in range(0, len(asked), len(FIVE))
                for image in one_by_one.render(asked[first : first + len(FIVE)], snapshot(n))
            ]
            assert_same(images, alone)
            known = [
                i.valid.any()
                for i in images
                if i.view.modality is Modality.FLOW and i.valid is not None
            ]
            assert known == [n > 0] * len(cameras()), "motion is known in the second picture"


@pytest.mark.gl
def test_without_indirect_draws_the_pictures_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images = together("low")[0]
    if opengl().ctx.version_code < static._INDIRECT_GL:
        pytest.skip("this OpenGL has no indirect draws")
    monkeypatch.setattr(static, "_INDIRECT_GL", 10_000)
    with drawing(SCENE, "low") as renderer:
        assert_same(renderer.render(views(0)[:10], snapshot(0)), images[:10])
        assert not renderer._scene_pass()._static._commands


@pytest.mark.gl
def test_large_pictures_do_not_wait_for_each_other_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [view for view in views(0) if view.modality is Modality.RGB]
    images = [image for image in together("low")[0] if image.view.modality is Modality.RGB]
    monkeypatch.setattr(view_batches, "_TOGETHER_PX", 2 * 80 * 60)
    with drawing(SCENE, "low") as renderer:
        assert_same(renderer.render(asked, snapshot(0)), images)
        slots = {key[-1] for key in renderer._scene_pass()._targets._targets._values}
        most = 1 if renderer._opengl.readback.early else 2
    assert slots == set(range(most)), "as many of this size at a time, unless they share one"

"""The benchmarks of pictures: rows and their units, what they draw, and the measures themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import cv2
import moderngl
import numpy as np
import pytest

from tests.support.common import needs_gl
from vil_benchmarks.klt import follow
from vil_benchmarks.render.drawing import drawing_rows, ray_rows
from vil_benchmarks.render.measure import WARM_UP, Costs, interleaved, ratio_rows
from vil_benchmarks.render.rivals import INTERPRETER_VARIABLE, outsider_rows
from vil_benchmarks.render.thread_cost import outside_ms, thread_cost_rows
from vil_benchmarks.render.yardstick import (
    CAMERA,
    STEP_NS,
    MinimalLoop,
    camera_pose,
    crowd,
    stage_scene,
    walker,
    yardstick_scene,
)
from vil_benchmarks.report import Row
from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.engine.context import open_context
from vil_renderer.embedded.engine.profiles import Profile, Shading
from vil_renderer.embedded.lighting.baked import store

RATIOS = (
    *(
        "ratio_rgb",
        "ratio_rgb_baked",
        "ratio_rgb_depth",
        "ratio_five_modalities",
        "ratio_medium",
        "ratio_pbr_sun",
        "ratio_high",
    ),
    *("ratio_cameras_8", "ratio_cameras_8_160x120", "ratio_skinned_human", "ratio_1000_nodes"),
)


def triangles(asset: Asset) -> int:
    return sum(len(part.triangles) for node in asset.nodes for part in node.primitives)


def test_the_yardstick_is_the_one_that_the_demands_are_about() -> None:
    scene = stage_scene()
    assert len(scene.objects) == 98
    assert sum(triangles(thing.asset) for thing in scene.objects) == 52_032
    assert triangles(scene.prefabs["walker"].asset) == pytest.approx(27_000, abs=2)
    assert len(crowd(3, 1000).actors) == 1000
    (human,) = walker(5).actors
    assert human.skeleton is not None
    ahead = camera_pose(5).inverse().apply(human.T_world_body.p_m)
    assert abs(ahead[0]) < ahead[2] < 7.0, "the human is in the picture"


def test_the_refined_human_has_the_surface_of_the_plain_one() -> None:
    (part,) = stage_scene().prefabs["walker"].asset.nodes[-1].primitives
    assert part.joints is not None
    assert part.weights is not None
    assert (
        len(part.p_m) == len(part.joints) == len(part.weights) == len(part.uv) == len(part.normal)
    )
    corners = part.p_m[part.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outside = np.einsum("ij,ij->i", normals, part.normal[part.triangles[:, 0]])
    assert np.mean(outside > 0.0) > 0.98
    assert part.triangles.max() == len(part.p_m) - 1


def test_cases_take_turns_and_only_what_comes_after_the_warm_up_counts() -> None:
    called: list[tuple[str, int]] = []
    costs = interleaved(
        {"a": lambda n: called.append(("a", n)), "b": lambda n: called.append(("b", n))}, 2
    )
    assert called == [(name, n) for n in range(WARM_UP + 2) for name in "ab"]
    assert all(len(c.cpu_ms) == len(c.wall_ms) == 2 for c in costs.values())


def test_ratios_are_of_medians_and_differences_of_pairs() -> None:
    with_it, without = (
        Costs([5.0, 30.0, 7.0], [6.0, 9.0, 9.0]),
        Costs([3.0, 9.0, 5.0], [3.0, 3.0, 3.0]),
    )
    cpu, wall = ratio_rows("ratio_x", with_it - without, Costs([4.0, 4.0, 4.0], [2.0, 2.0, 2.0]))
    assert (cpu.name, cpu.value, cpu.unit, cpu.samples) == ("ratio_x", 0.5, "ratio", 3)
    assert (wall.name, wall.value) == ("wall_ratio_x", 3.0)


@pytest.mark.gl
@pytest.mark.long
def test_every_row_of_what_is_drawn_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_gl()
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "RECEIVERS", 10_000)
    monkeypatch.setattr(store, "RAYS", 8)
    rows = {row.name: row for row in drawing_rows(1)}
    assert set(rows) == {
        "cpu_ms_minimal",
        "wall_ms_minimal",
        *RATIOS,
        *(f"wall_{name}" for name in RATIOS),
    }
    for name, row in rows.items():
        assert row.unit == ("ms" if "_ms_" in name else "ratio")
        assert row.samples == 1
        assert row.value is not None
        assert math.isfinite(row.value)
    dear = [
        rows[name].value or 0.0 for name in ("ratio_rgb", "ratio_five_modalities", "ratio_high")
    ]
    assert 0.3 < dear[0] < dear[2] < 50.0


@pytest.mark.gl
def test_time_inside_the_binding_does_not_count() -> None:
    needs_gl()
    plain = moderngl.Buffer.write
    picture = np.zeros(1 << 24, np.uint8)
    with open_context() as ctx:
        buffer = ctx.buffer(reserve=picture.nbytes)
        cases = {"inside": lambda _: buffer.write(picture), "outside": lambda _: picture.copy()}
        spent = outside_ms(cases, 5)
        buffer.release()
    ctx.release()
    assert len(spent["inside"]) == len(spent["outside"]) == 5
    assert np.median(spent["inside"]) < 0.1 * np.median(spent["outside"])
    assert moderngl.Buffer.write is plain, "the binding is as it was"


@pytest.mark.gl
@pytest.mark.long
def test_the_rows_of_the_rendering_thread_are_there() -> None:
    needs_gl()
    cameras, props = thread_cost_rows(3)
    assert (cameras.name, cameras.unit, cameras.samples) == (
        "cpu_outside_gl_ms_per_camera",
        "ms",
        3,
    )
    assert (props.name, props.unit, props.samples) == ("us_per_moving_prop", "us", 3)
    assert cameras.value is not None
    assert props.value is not None
    assert 0.0 < cameras.value < 100.0


@pytest.mark.gl
def test_the_minimal_loop_shows_what_the_engine_shows() -> None:
    needs_gl()
    scene = yardstick_scene()
    minimal = MinimalLoop(scene, CAMERA)
    pose = camera_pose(4)
    with EmbeddedRenderer(scene, Profile("plain", Shading.VERTEX, 1024)) as renderer:
        (image,) = renderer.render(
            [View(CAMERA, Modality.GRAY, pose, STEP_NS)], WorldSnapshot(STEP_NS, ())
        )
        assert renderer.info["profile"] == "plain"
    theirs = cv2.cvtColor(minimal.render(pose), cv2.COLOR_RGB2GRAY)
    minimal.close()
    # Their light differs, their edges do not.
    edges = [cv2.Laplacian(np.asarray(a), cv2.CV_32F).ravel() for a in (image.pixels, theirs)]
    assert np.corrcoef(edges[0], edges[1])[0, 1] > 0.9


def test_rays_are_compared_with_embree_itself() -> None:
    pytest.importorskip("embreex")
    rows = {row.name: row for row in ray_rows(2)}
    assert set(rows) == {"ratio_rays_100k", "wall_ratio_rays_100k", "cpu_ms_embree_100k"}
    ratio = rows["ratio_rays_100k"].value
    assert ratio is not None
    assert 0.8 < ratio < 5.0


@pytest.fixture
def ours() -> Iterator[dict[str, Row]]:
    names = ("ratio_rgb", "ratio_rgb_depth", "wall_ratio_rgb", "wall_ratio_rgb_depth")
    yield {name: Row(name, 1.5, "ratio", 3) for name in names}


@pytest.mark.process
def test_rivals_that_are_absent_have_rows_without_a_value(
    ours: dict[str, Row], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(INTERPRETER_VARIABLE, "/nonexistent/python")
    rows = outsider_rows(ours, 2)
    assert [(row.name, row.value, row.samples) for row in rows] == [
        ("ratio_to_panda3d_rgb", None, 0),
        ("speedup_over_pyrender_rgb_depth", None, 0),
        ("wall_ratio_to_panda3d_rgb", None, 0),
        ("wall_speedup_over_pyrender_rgb_depth", None, 0),
    ]
    assert "panda3d is not compared" in caplog.text


@pytest.mark.process
def test_ratios_to_rivals_are_in_minimal_loops(
    ours: dict[str, Row], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = tmp_path_factory.mktemp("rival") / "python"
    python.write_text("#!/bin/sh\necho warming up\necho '[3.0, 6.0, 4]'\n")
    python.chmod(0o755)
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(python))
    values = {row.name: row.value for row in outsider_rows(ours, 2)}
    assert values["ratio_to_panda3d_rgb"] == 0.5
    assert values["speedup_over_pyrender_rgb_depth"] == 2.0
    assert values["wall_ratio_to_panda3d_rgb"] == 0.25


def test_corners_are_where_the_flow_says() -> None:
    rng = np.random.default_rng(3)
    wide = cv2.GaussianBlur(rng.uniform(0, 255, (300, 400)).astype(np.float32), (0, 0), 2.0)
    wide = np.clip(128 + 6 * (wide - wide.mean()), 0, 255).astype(np.uint8)
    before, after = wide[20:260, 20:340], wide[18:258, 23:343]  # the picture moves by (-3, 2)
    flow = np.broadcast_to(np.array([-3.0, 2.0], np.float32), (240, 320, 2)).copy()
    valid = np.ones((240, 320), bool)
    tracks = follow(before.copy(), after.copy(), flow, valid)
    assert tracks.tracked > 0.9 * tracks.corners > 50
    assert np.median(tracks.error_px) < 0.02
    wrong = follow(before.copy(), after.copy(), flow + np.float32(0.5), valid)
    assert np.median(wrong.error_px) == pytest.approx(math.hypot(0.5, 0.5), abs=0.02)
    valid[:, :160] = False
    half = follow(before.copy(), after.copy(), flow, valid)
    assert half.tracked == tracks.tracked
    assert len(half.error_px) < 0.7 * tracks.tracked


def test_a_blank_wall_has_no_corners() -> None:
    blank = np.full((48, 64), 90, np.uint8)
    tracks = follow(blank, blank, np.zeros((48, 64, 2), np.float32), np.ones((48, 64), bool))
    assert (tracks.corners, tracks.tracked, len(tracks.error_px)) == (0, 0, 0)

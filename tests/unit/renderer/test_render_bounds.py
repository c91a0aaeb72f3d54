"""What the renderer keeps, and what it does with requests at the edge of sense."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.flightgoggles import human
from tests.support.opengl import drawing
from tests.support.render import (
    AHEAD,
    Renderers,
    at,
    camera,
    everybody,
    facing,
    moved,
    plate,
    scene_of,
    shot,
    shots,
    srgb,
    thing,
    turn,
)
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    Lighting,
    Modality,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Material
from vil_renderer.embedded.engine import detail, models, targets
from vil_renderer.embedded.engine.devices import is_software
from vil_renderer.embedded.engine.scene_pass import ViewRequest
from vil_renderer.embedded.engine.targets import PassOutput, TargetCache
from vil_renderer.embedded.geometry.raycast_renderer import RaycastRenderer
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.optics.lens import distort, pixel_rays
from vil_renderer.embedded.posed_models import PosedModels
from vil_renderer.embedded.scene import Sun
from vil_renderer.flightgoggles.codec import decode_pose
from vil_renderer.flightgoggles.convert_renderer import read_pose

pytestmark = pytest.mark.gl


WALL = scene_of(thing("wall", facing(10.0, 30.0)))


# --- memory ------------------------------------------------------------------------------------


def test_kept_gives_up_what_was_used_longest_ago() -> None:
    gone: list[bytes] = []
    kept: LruByteCache[str, bytes] = LruByteCache(10, len, gone.append)
    for key, size in (("a", 4), ("b", 4), ("a", 4), ("c", 4)):
        assert kept.get(key, lambda k=key, n=size: k.encode() * n) == key.encode() * size  # type: ignore[misc]
    assert gone == [b"bbbb"] and len(kept) == 2
    assert kept.get("d", lambda: b"d" * 99) == b"d" * 99, (
        "one that is too large alone is kept alone"
    )
    assert gone == [b"bbbb", b"aaaa", b"cccc"] and len(kept) == 1
    assert kept.get("d", bytes) == b"d" * 99, "and not made anew"


def test_targets_are_bounded_by_their_memory(
    monkeypatch: pytest.MonkeyPatch, renderers: Renderers
) -> None:
    monkeypatch.setattr(targets, "_TARGET_BYTES", 1 << 20)
    ctx = renderers.of(WALL)._ctx
    with ctx:
        cache = TargetCache(ctx)
        first = cache.get((64, 48), PassOutput.COLOUR)
        assert cache.get((64, 48), PassOutput.COLOUR) is first
        for width in range(100, 200):
            cache.get((width, 100), PassOutput.COLOUR | PassOutput.Z)
            cache.tidy()
        assert len(cache._targets) < 12
        assert cache.get((64, 48), PassOutput.COLOUR) is not first
        too_wide = 1 + min(ctx.info["GL_MAX_TEXTURE_SIZE"], ctx.info["GL_MAX_RENDERBUFFER_SIZE"])
        with pytest.raises(RendererError, match=f"{too_wide}x4 pixels"):
            cache.get((too_wide, 4), PassOutput.COLOUR)


def test_skeletons_without_end_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_MOST_ASSETS", 3)
    renderer = drawing(WALL)
    rows = np.array([[0.0, 0.0, 3.0], [0.0, -0.5, 3.0], [0.3, -1.0, 3.0]])
    still = np.tile((0.0, 0.0, 0.0, 1.0), (3, 1))
    pictures = []
    for i in range(8):
        model = SkeletonModel(
            "s",
            ("a", "b", "c"),
            (-1, 0, 1),
            np.array([[0, 0, 0], [0, -0.5, 0], [0.3, -0.5, 0.001 * i]]),
        )
        frame = SkeletonFrame(model, rows, still, np.ones(3, bool))
        somebody = ActorState("s", ActorKind.PROP, TrackingState.TRACKED, 0, at(), frame)
        pictures.append(shot(renderer, camera(), Modality.INSTANCE, snapshot=everybody(somebody)))
        assert (pictures[-1] >= 32768).sum() > 200, "it is drawn"
    batch = renderer._scene_pass()._models
    assert len(batch._extents) == 3 and {key for key, _ in batch._parts} <= set(batch._extents)
    renderer.close()


# --- what is too small to be drawn -------------------------------------------------------------


def test_vehicles_are_drawn_at_any_distance_and_of_no_size(renderers: Renderers) -> None:
    renderer = renderers.of(WALL)
    for z_m in (2.0, 5.0, 9.0):
        for size_m in ((0.3, 0.3, 0.1), (0.01, 0.01, 0.01), (0.0, 0.0, 0.0), (0.5, 0.5, 0.0)):
            drone = ActorState(
                "d", ActorKind.VEHICLE, TrackingState.TRACKED, 0, at((0, 0, z_m)), None, "", size_m
            )
            snapshot = everybody(drone)
            view = View(camera(), Modality.RGB, at(R=turn((1, 0, 0), 90.0)), 0)
            shot(renderer, camera(), snapshot=snapshot)
            renderer.range_m(view, snapshot)
            renderer.collision(view, snapshot)
    for far_m in (30.0, 60.0, 120.0, 500.0):
        drone = ActorState("d", ActorKind.VEHICLE, TrackingState.TRACKED, 0, at((0, 0, -far_m)))
        shot(
            renderer,
            camera(),
            T_world_camera=at(R=turn((0, 1, 0), 180.0)),
            snapshot=everybody(drone),
        )


def test_of_two_with_one_name_the_last_is_drawn(renderers: Renderers) -> None:
    first, last = (
        ActorState(
            "d",
            ActorKind.PROP,
            TrackingState.TRACKED,
            0,
            at((x_m, 0, 4.0)),
            None,
            "crate",
            (0.5, 0.5, 0.5),
        )
        for x_m in (-1.0, 1.0)
    )
    ids = shot(renderers.of(WALL), camera(), Modality.INSTANCE, snapshot=everybody(first, last))
    assert not (ids[:, :160] >= 32768).any() and (ids[:, 160:] >= 32768).any()


# --- what is not in view -----------------------------------------------------------------------


def crowd(seed: int) -> WorldSnapshot:
    """Vehicles of all shapes and a human, everywhere about the origin."""
    rng = np.random.default_rng(seed)
    actors = [
        ActorState(
            f"v{i}",
            ActorKind.VEHICLE,
            TrackingState.TRACKED,
            0,
            at(rng.uniform(-3.0, 3.0, 3), turn(rng.normal(size=3), rng.uniform(0.0, 360.0))),
            size_m=(0.2, 2.0, 0.5),
        )
        for i in range(30)
    ]
    walker = human(0.1 * seed)
    assert walker.skeleton is not None
    moved_m = Transform.of(
        rng.uniform(-2.0, 2.0, 3) - walker.T_world_body.p_m, (0.0, 0.0, 0.0, 1.0)
    )
    there = replace(
        walker, skeleton=walker.skeleton.moved(moved_m), T_world_body=moved_m @ walker.T_world_body
    )
    return WorldSnapshot(0, (*actors, there))


def test_what_is_left_out_would_not_be_seen(
    monkeypatch: pytest.MonkeyPatch, renderers: Renderers
) -> None:
    renderer = renderers.of(WALL)
    rng = np.random.default_rng(3)
    poses = [
        at(rng.uniform(-1.0, 1.0, 3), turn(rng.normal(size=3), rng.uniform(0.0, 360.0)))
        for _ in range(12)
    ]
    drawn: list[int] = []
    send = models.ModelBatch._send_rows

    def counted(batch: models.ModelBatch, part: Any, rows: Any) -> None:
        drawn.append(len(rows))
        send(batch, part, rows)

    monkeypatch.setattr(models.ModelBatch, "_send_rows", counted)

    def pictures() -> list[Any]:
        drawn.clear()
        return [
            shot(renderer, camera(), Modality.INSTANCE, pose, crowd(i))
            for i, pose in enumerate(poses)
        ]

    culled, few = pictures(), sum(drawn)
    monkeypatch.setattr(
        detail.ViewPoints, "sees", lambda self, carried, *_: np.ones((1, len(carried)), bool)
    )
    monkeypatch.setattr(detail.ViewPoints, "sees_blended", lambda *_: np.ones(1, bool))
    whole, all_of_them = pictures(), sum(drawn)
    np.testing.assert_array_equal(culled, whole)
    assert few < 0.5 * all_of_them
    assert all((picture > 1).any() for picture in whole)


def test_what_stands_before_a_wall_is_drawn_before_it(renderers: Renderers) -> None:
    box = thing("box", facing(5.0, 0.5), instance=2)
    renderer = renderers.of(scene_of(*WALL.objects, box))
    with renderer._ctx as ctx:
        passed = ctx.query(samples=True)
        with passed:
            (view,) = renderer._scene_pass().draw(
                [ViewRequest(camera(), AHEAD, PassOutput.IDS)], PosedModels()
            )
        instances = view.ids() & 0xFFFF
        assert np.unique(instances).tolist() == [1, 2]
        assert passed.samples == instances.size, "no pixel of the wall is shaded that the box hides"


# --- lenses that fold --------------------------------------------------------------------------


def test_beyond_the_fold_of_a_lens_nothing_is_seen(renderers: Renderers) -> None:
    lens = Distortion(LensModel.PLUMB_BOB, (-0.5, 0.0, 0.0, 0.0, 0.0))
    model = camera(distortion=lens, fov_deg=80.0)
    f = model.f_px
    u, v = np.meshgrid(np.arange(320) - 159.5, np.arange(240) - 119.5)
    radius = np.hypot(u, v) / f
    # r (1 - r^2 / 2) is largest at r^2 = 2 / 3.
    edge = (2 / 3) ** 0.5 * (2 / 3)
    rays = pixel_rays(model).reshape(240, 320, 3)
    seen = ~np.isnan(rays[..., 0])
    assert (
        (seen[radius < edge - 2 / f]).all()
        and not seen[radius > edge + 1e-3 / f].any()
        and not seen.all()
    )
    again = distort(lens, rays[seen][:, :2])
    np.testing.assert_allclose(again, np.stack((u[seen], v[seen]), axis=1) / f, atol=1e-6)
    assert (rays[seen][:, :2] * again >= 0.0).all(), "nothing is seen on the other side"
    renderer = renderers.of(WALL)
    wanted = (Modality.DEPTH, Modality.INSTANCE, Modality.RGB, Modality.NORMALS, Modality.DEPTH32)
    depth, ids, rgb, normals, depth32 = (image.pixels for image in shots(renderer, model, wanted))
    inner = radius < edge - 3 / f
    assert (
        (depth[~seen] == 65535).all() and (depth32[~seen] == 100.0).all() and not ids[~seen].any()
    )
    assert not normals[~seen].any() and not rgb[radius > edge + 2 / f].any()
    assert np.abs(depth[inner].astype(int) - 6554).max() <= 1 and (ids[inner] == 1).all()
    oracle = RaycastRenderer(WALL).render_aux(model, at())
    np.testing.assert_allclose(oracle.depth32[~seen], 100.0)
    np.testing.assert_allclose(oracle.depth32[inner], 10.0, atol=1e-3)


def test_a_lens_that_shows_nothing_says_so(renderers: Renderers) -> None:
    model = camera(
        distortion=Distortion(LensModel.EQUIDISTANT, (-1e6, 0.0, 0.0, 0.0)), size=(32, 24)
    )
    with pytest.raises(RendererError, match="coefficients"):
        shot(renderers.of(WALL), model)


# --- light and layers --------------------------------------------------------------------------


def test_alpha_of_a_layer_is_that_of_a_premultiplied_picture(renderers: Renderers) -> None:
    glass = Material(base_colour=(1.0, 1.0, 1.0, 0.5), alpha="blend")
    scene = scene_of(
        thing("pane", facing(2.0, 0.5, glass)),
        thing("wall", facing(3.0, 0.9, at_m=(0.9, 0.0)), instance=2),
    )
    renderer = renderers.of(scene, "medium")
    rgba = shot(renderer, camera(), Modality.RGBA, layer="scene")
    beside, before = rgba[120, 140], rgba[120, 180]
    assert abs(int(beside[3]) - 128) <= 1 and np.abs(beside[:3].astype(int) - 128).max() <= 1
    # OpenGL may round both products of a blend to the eight bits of the picture, up or down;
    # llvmpipe's are exact.
    least = 254 if is_software(renderer.info["gl_renderer"]) else 254 - 2
    assert before[3] == 255 and before[:3].min() >= least, "a pane takes nothing from what is solid"


def ground() -> Any:
    """Level ground in the world, the sun above."""
    sun = Sun(np.array([0.0, 0.0, 1.0]), np.full(3, 0.6))
    floor = plate((0.0, 0.0, 0.0), (20.0, 0.0, 0.0), (0.0, 20.0, 0.0))
    roof = plate((5.0, 0.0, 3.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    return scene_of(thing("floor", floor), thing("roof", roof, instance=2), ambient=0.2, sun=sun)


def test_shadows_do_not_depend_on_what_was_drawn_before(renderers: Renderers) -> None:
    renderer = renderers.of(ground(), "medium")
    over = at((5.0, 1.0, 1.5), turn((1, 0, 0), 180.0))

    def picture(lighting: Lighting | None) -> Any:
        view = View(camera(), Modality.RGB, over, 0)
        return renderer.render((view,), WorldSnapshot(0, (), lighting))[0].pixels

    first = picture(None)
    picture(Lighting(9.0))
    again = picture(None)
    np.testing.assert_array_equal(first, again)
    assert abs(float(first.min()) - srgb(0.2)) < 2 and abs(float(first.max()) - srgb(0.8)) < 2, (
        "shade and sun"
    )


def test_what_flies_above_everything_casts_a_shadow(renderers: Renderers) -> None:
    renderer = renderers.of(ground(), "ultra")
    down = at((0.0, 0.0, 6.0), turn((1, 0, 0), 180.0))
    crate = ActorState(
        "c",
        ActorKind.PROP,
        TrackingState.TRACKED,
        0,
        at((0.0, 0.0, 8.0)),
        None,
        "crate",
        (1.0, 1.0, 1.0),
    )
    lit = shot(renderer, camera(), T_world_camera=down)
    shaded = shot(renderer, camera(), T_world_camera=down, snapshot=everybody(crate))
    dark = lit[..., 1].astype(int) - shaded[..., 1] > 30
    wanted = (camera().f_px / 6.0) ** 2
    assert 0.8 * wanted < dark.sum() < 1.2 * wanted


# --- requests ----------------------------------------------------------------------------------


def asked(sizes: list[tuple[int, int]], **camera_keys: Any) -> list[bytes]:
    cameras = [
        {"ID": f"c{i}", "position": [0, 0, 0], "rotation": [0, 0, 0, 1]} for i in range(len(sizes))
    ]
    extended = [
        {"width": w, "height": h, "fov": 70.0, "modality": "rgb", **camera_keys} for w, h in sizes
    ]
    vil = {"v": 2, "cameras": extended}
    message = {
        "ntime": 1,
        "camWidth": 4,
        "camHeight": 4,
        "camFOV": 70.0,
        "cameras": cameras,
        "vil": vil,
    }
    return [b"Pose", json.dumps(message).encode()]


def test_pictures_without_bounds_are_refused_before_they_are_drawn() -> None:
    read_pose(decode_pose(asked([(4096, 4096)] * 10)))
    for sizes in ([(8192, 8192)], [(4096, 4096)] * 11):
        with pytest.raises(ProtocolError, match="MiB are asked for"):
            read_pose(decode_pose(asked(sizes)))
    with pytest.raises(ProtocolError):
        decode_pose(asked([(4, 4)], hide=[""] * 5000))
    with pytest.raises(ProtocolError):
        decode_pose(asked([(4, 4)], pinhole=[1e-300, 1.0, 0.0, 0.0]))


def test_two_renderers_take_turns_and_one_survives_the_other(renderers: Renderers) -> None:
    near, far = scene_of(thing("a", facing(2.0, 9.0))), scene_of(thing("b", facing(4.0, 9.0)))
    with EmbeddedRenderer(far, "medium") as stays:
        gone = EmbeddedRenderer(near, "low")
        for _ in range(2):
            for renderer, z_m in ((gone, 2.0), (stays, 4.0)):
                depth = shot(
                    renderer,
                    camera(),
                    Modality.DEPTH32,
                    snapshot=everybody(moved("x", (0, 0, 1.5 * z_m))),
                )
                assert abs(float(depth[120, 160]) - z_m) < 1e-3
        gone.close()
        assert abs(float(shot(stays, camera(), Modality.DEPTH32)[120, 160]) - 4.0) < 1e-3

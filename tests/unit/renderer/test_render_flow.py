"""Optical flow of the drawn picture against closed forms: cameras, things and bones that move."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.geometry_scenes import box_primitive
from tests.support.render import (
    AHEAD,
    PERIOD_NS,
    Renderers,
    at,
    camera,
    everybody,
    facing,
    moved,
    pixels_of,
    plate,
    projected,
    rays,
    scene_of,
    shots,
    thing,
    turn,
)
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, CameraModel, FloatArray, Modality, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Asset, Material, Node, Primitive, Skin
from vil_renderer.embedded.geometry.surfaces import TriangleSurface
from vil_renderer.embedded.scene import Prefab, Scene, SceneObject

pytestmark = pytest.mark.gl

BOUND_PX = 0.01
PROFILES = ("low", "medium", "high")
NUMBER = itertools.count()

WALL_Z_M = 5.0
WALL = scene_of(thing("wall", plate((0, 0, WALL_Z_M), (60, 0, 0), (0, -60, 0)), instance=5))


def _room() -> Scene:
    """Walls all around and blocks in between: every depth from 1 to 12 m."""
    rng = np.random.default_rng(4)
    walls = [
        plate(c, r, u)
        for c, r, u in (
            ((0, 0, 8), (6, 0, 0), (0, -6, 0)), ((0, 0, -4), (-6, 0, 0), (0, -6, 0)),
            ((-6, 0, 2), (0, 0, 6), (0, -6, 0)), ((6, 0, 2), (0, 0, -6), (0, -6, 0)),
            ((0, 6, 2), (6, 0, 0), (0, 0, 6)), ((0, -6, 2), (6, 0, 0), (0, 0, -6)),
        )
    ]  # fmt: skip
    objects = [thing("walls", *walls, instance=1)]
    for i in range(14):
        m = np.eye(4)
        m[:3, :3], m[:3, 3] = (
            turn(rng.normal(size=3), rng.uniform(0, 180)),
            rng.uniform((-2, -2, 2), (2, 2, 7)),
        )
        asset = Asset.of("block", [box_primitive(rng.uniform(0.1, 0.5, 3))])
        objects.append(SceneObject(f"block{i}", asset, m, 6, 10 + i))
    return scene_of(*objects)


ROOM = _room()


def _movable(name: str, instance: int, *parts: Primitive) -> SceneObject:
    return SceneObject(name, Asset.of(name, parts), np.eye(4), 6, instance, movable=True)


CARDS = scene_of(
    thing("back", facing(9.0, 40.0), instance=1),
    _movable("card", 2, facing(0.0, 0.5)),
    _movable("second", 3, facing(0.0, 0.3)),
)


def fresh() -> CameraModel:
    """A camera that has seen nothing yet."""
    return camera(f"cam{next(NUMBER)}")


def flow(
    renderer: EmbeddedRenderer,
    model: CameraModel,
    T_world_camera: Transform,
    t_ns: int,
    snapshot: WorldSnapshot | None = None,
) -> tuple[FloatArray, BoolArray, FloatArray, FloatArray]:
    """Flow (h, w, 2), where it is known, z-depth, ids."""
    asked = (Modality.FLOW, Modality.DEPTH32, Modality.INSTANCE)
    made = shots(
        renderer, model, asked, T_world_camera, snapshot or WorldSnapshot(t_ns, ()), t_ns=t_ns
    )
    assert made[0].valid is not None
    assert np.all(made[0].pixels[~made[0].valid] == 0.0)
    return (
        made[0].pixels.astype(np.float64),
        made[0].valid,
        made[1].pixels.astype(np.float64),
        made[2].pixels,
    )


def after(
    renderer: EmbeddedRenderer, before: Transform, now: Transform
) -> tuple[FloatArray, BoolArray, FloatArray, CameraModel]:
    model = fresh()
    flow(renderer, model, before, 0)
    made, valid, z_m, _ = flow(renderer, model, now, PERIOD_NS)
    return made, valid, z_m, model


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("axis", "angle_deg"),
    [((0, 1, 0), 4.0), ((1, 0, 0), -3.0), ((0, 0, 1), 10.0), ((1, 2, -1), 6.0)],
)
def test_flow_of_a_turning_camera_does_not_depend_on_depth(
    renderers: Renderers, profile: str, axis: tuple[float, float, float], angle_deg: float
) -> None:
    place = (0.3, -0.2, 0.5)
    R_before, R_now = turn((0, 1, 0), 5.0), turn((0, 1, 0), 5.0) @ turn(axis, angle_deg)
    made, valid, z_m, model = after(
        renderers.of(ROOM, profile), at(place, R_before), at(place, R_now)
    )
    # X_now = R X_before, so the point seen now was at K R^T K^-1 p.
    was = projected(model, rays(model) @ (R_before.T @ R_now).T)
    assert valid.all()
    assert np.ptp(z_m) > 4.0
    assert np.abs(made - (pixels_of(model) - was)).max() <= BOUND_PX


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "step_m", [(0.0, 0.0, 0.4), (0.0, 0.0, -0.25), (0.15, 0.0, 0.0), (0.0, -0.2, 0.0)]
)
def test_flow_of_a_camera_moving_before_a_wall(
    renderers: Renderers, profile: str, step_m: tuple[float, float, float]
) -> None:
    made, valid, _, model = after(renderers.of(WALL, profile), AHEAD, at(step_m))
    fx, fy, cx, cy = model.intrinsics_px
    tx, ty, tz = step_m
    z_now_m = WALL_Z_M - tz
    p = pixels_of(model)
    forward = (p - (cx, cy)) * tz / (z_now_m + tz)
    sideways = -np.array([fx * tx, fy * ty]) / z_now_m
    assert valid.all()
    assert np.abs(made - forward - sideways).max() <= BOUND_PX


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("step_m", [(0.07, -0.03, 0.0), (-0.02, 0.05, 0.15)])
def test_a_moving_thing_has_flow_and_the_rest_has_exactly_none(
    renderers: Renderers, profile: str, step_m: tuple[float, float, float]
) -> None:
    renderer, model = renderers.of(CARDS, profile), fresh()
    aside = moved("second", (1.2, 0.5, 3.0))
    was_m, now_m = np.array([0.2, 0.1, 3.0]), np.array([0.2, 0.1, 3.0]) + step_m
    flow(renderer, model, AHEAD, 0, everybody(moved("card", was_m), aside))
    made, valid, _, ids = flow(
        renderer, model, AHEAD, PERIOD_NS, everybody(moved("card", now_m), aside)
    )
    on = ids == 2
    assert valid.all()
    assert on.sum() > 2500
    assert np.all(made[~on] == 0.0)
    here_m = rays(model) * now_m[2]
    expected = pixels_of(model) - projected(model, here_m - np.array(step_m))
    assert np.abs(made - expected)[on].max() <= BOUND_PX
    if step_m[2] == 0.0:
        assert np.abs(made[on] - model.f_px * np.array(step_m[:2]) / 3.0).max() <= BOUND_PX


@pytest.mark.parametrize("profile", PROFILES)
def test_a_turning_thing_moves_as_its_surface_does(renderers: Renderers, profile: str) -> None:
    renderer, model = renderers.of(CARDS, profile), fresh()
    place = np.array([-0.3, 0.2, 2.5])
    R_was, R_now = turn((0, 1, 0.2), 20.0), turn((0, 1, 0.2), 26.0) @ turn((0, 0, 1), 5.0)
    T_was, T_now = at((0.0, 0.1, 0.0), turn((0, 1, 0), 1.0)), at((0.02, 0.1, 0.03))
    flow(renderer, model, T_was, 0, everybody(moved("card", place, R_was)))
    made, valid, z_m, ids = flow(
        renderer, model, T_now, PERIOD_NS, everybody(moved("card", place, R_now))
    )
    on = ids == 2
    world_m = T_now.apply((rays(model) * z_m[..., None])[on])
    was_m = T_was.inverse().apply((world_m - place) @ R_now @ R_was.T + place)
    assert valid.all()
    assert np.abs(made[on] - (pixels_of(model)[on] - projected(model, was_m))).max() <= BOUND_PX


# --- a skin on two bones -----------------------------------------------------------------------

REV_PER_S = 0.9


def _arm() -> Prefab:
    """A tube along x that hangs on two joints.

    The second, in the middle, spins about z and bends it.
    """
    rings, around = 33, 24
    s, a = np.meshgrid(
        np.linspace(-0.8, 0.8, rings), np.linspace(0, 2 * np.pi, around + 1), indexing="ij"
    )
    normal = np.stack((0 * s, np.cos(a), np.sin(a)), -1).reshape(-1, 3)
    p = 0.15 * normal + np.stack((s, 0 * s, 0 * s), -1).reshape(-1, 3)
    i = np.arange(rings * (around + 1)).reshape(rings, around + 1)[:-1, :-1].ravel()
    faces = np.concatenate(
        (
            np.stack((i, i + around + 1, i + 1), 1),
            np.stack((i + 1, i + around + 1, i + around + 2), 1),
        )
    )
    share = np.clip(s.ravel() / 0.3 + 0.5, 0.0, 1.0)
    weights = np.stack((1 - share, share, 0 * share, 0 * share), -1).astype(np.float32)
    joints = np.tile(np.array([0, 1, 0, 0], np.uint16), (len(p), 1))
    skin_of = Primitive(
        p.astype(np.float32), normal.astype(np.float32), np.zeros((len(p), 2), np.float32),
        faces.astype(np.uint32),
        Material(double_sided=True), joints=joints, weights=weights,
    )  # fmt: skip
    nodes = (
        Node("shoulder", p=np.array([-0.8, 0.0, 0.0])),
        Node("elbow", parent=0, p=np.array([0.8, 0.0, 0.0])),
        Node("skin", primitives=(skin_of,)),
    )
    skin = Skin(
        (0, 1), np.asarray(np.linalg.inv(Asset("arm", nodes).asset_from_node())[:2], np.float64)
    )
    asset = Asset("arm", (*nodes[:2], replace(nodes[2], skin=skin)))
    return Prefab(asset, 44, spin={"elbow": REV_PER_S})


ARM = _arm()
ARMS = scene_of(thing("back", facing(9.0, 40.0), instance=1), prefabs={"arm": ARM})
PLACE = (0.1, -0.2, 2.2)
R_ARM = turn((1, 0.4, 0.2), 30.0)


def _skinned_m(t_ns: int) -> FloatArray:
    """Where the vertices are at an instant.

    Each half turns about the elbow by its weight's share of the matrices.
    """
    part = ARM.asset.nodes[2].primitives[0]
    assert part.weights is not None
    turned = part.p_m.astype(float) @ turn((0, 0, 1), 360.0 * REV_PER_S * t_ns * 1e-9).T
    share = part.weights[:, 1:2].astype(float)
    p_m: FloatArray = ((1 - share) * part.p_m + share * turned) @ R_ARM.T + PLACE
    return p_m


@pytest.mark.parametrize("profile", PROFILES)
def test_a_skin_moves_as_its_bones_carry_it(renderers: Renderers, profile: str) -> None:
    renderer, model = renderers.of(ARMS, profile), fresh()
    times = (100_000_000, 100_000_000 + PERIOD_NS)
    for t_ns in times:
        snapshot = everybody(moved("arm", PLACE, R_ARM, prefab="arm"), t_ns=t_ns)
        made, valid, z_m, ids = flow(renderer, model, AHEAD, t_ns, snapshot)
    part = ARM.asset.nodes[2].primitives[0]
    was_m, now_m = (_skinned_m(t_ns) for t_ns in times)
    d = rays(model).reshape(-1, 3).astype(np.float32)
    reach, face, u, v = TriangleSurface(now_m.astype(np.float32), part.triangles).strike(
        np.zeros_like(d), d, np.full(len(d), 1e9, np.float32)
    )
    shape = ids.shape
    hit = (face >= 0).reshape(shape)
    seen = ids >= 32768
    assert (hit != seen).sum() <= 0.01 * seen.sum()
    corners = part.triangles[face]
    shares = np.stack((1.0 - u - v, u, v), axis=-1)[..., None]
    before = projected(model, (was_m[corners] * shares).sum(axis=1)).reshape(*shape, 2)
    # Where one fold lies before another the two may disagree about which is seen.
    same = hit & seen & (np.abs(reach.reshape(shape) - z_m) < 1e-3)
    assert same.sum() > 0.98 * seen.sum()
    error = np.abs(made - (pixels_of(model) - before)).max(axis=-1)
    moving = same & (np.linalg.norm(made, axis=-1) > 1.0)
    assert moving.sum() > 1000
    assert error[same].max() <= BOUND_PX
    assert np.all(made[~seen] == 0.0)
    assert valid.all()


# --- what is not known -------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["low", "high"])
def test_the_first_picture_and_the_one_after_a_leap_know_no_flow(
    renderers: Renderers, profile: str
) -> None:
    renderer, model = renderers.of(ROOM, profile), fresh()
    assert not flow(renderer, model, AHEAD, 0)[1].any()
    assert flow(renderer, model, at((0.01, 0, 0)), PERIOD_NS)[1].all()
    # Four metres in one period.
    assert not flow(renderer, model, at((0.0, 0.0, 4.0)), 2 * PERIOD_NS)[1].any()
    assert flow(renderer, model, at((0.0, 0.0, 4.01)), 3 * PERIOD_NS)[1].all()
    assert not flow(renderer, model, at((0.0, 0.0, 4.01), turn((0, 1, 0), 120.0)), 4 * PERIOD_NS)[
        1
    ].any()
    # A pause.
    assert not flow(renderer, model, at((0.0, 0.0, 4.01), turn((0, 1, 0), 120.0)), 10**10)[1].any()
    # Time went back.
    assert not flow(renderer, model, at((0.0, 0.0, 4.01), turn((0, 1, 0), 120.0)), 10**9)[1].any()


@pytest.mark.parametrize("profile", ["low", "high"])
def test_what_appears_or_leaps_has_no_flow_and_the_rest_has(
    renderers: Renderers, profile: str
) -> None:
    renderer, model = renderers.of(ARMS, profile), fresh()
    arm, spare = (
        moved("new", PLACE, R_ARM, prefab="arm"),
        moved("old", (-0.9, 0.3, 3.0), prefab="arm"),
    )
    flow(renderer, model, AHEAD, 0, everybody(spare))
    for t_ns, actors in (
        (PERIOD_NS, (spare, arm)),
        (2 * PERIOD_NS, (spare, moved("new", (0.1, -0.2, 6.0), R_ARM, prefab="arm"))),
    ):
        _, valid, _, ids = flow(renderer, model, AHEAD, t_ns, everybody(*actors, t_ns=t_ns))
        on = ids == renderer.instances["new"]
        assert on.sum() > 300
        assert not valid[on].any()
        assert valid[~on].all()
        assert (ids == renderer.instances["old"]).sum() > 300
    _, valid, _, _ = flow(
        renderer, model, AHEAD, 3 * PERIOD_NS, everybody(*actors, t_ns=3 * PERIOD_NS)
    )
    assert valid.all()


def test_each_camera_moves_from_its_own_previous_picture(renderers: Renderers) -> None:
    renderer, one, other = renderers.of(WALL), fresh(), fresh()
    flow(renderer, one, AHEAD, 0)
    flow(renderer, other, at((-0.3, 0, 0)), PERIOD_NS)
    first, _, _, _ = flow(renderer, one, at((0.1, 0, 0)), 2 * PERIOD_NS)
    second, _, _, _ = flow(renderer, other, at((0.1, 0, 0)), 2 * PERIOD_NS)
    assert np.abs(first[..., 0] + one.f_px * 0.1 / WALL_Z_M).max() <= BOUND_PX
    assert np.abs(second[..., 0] + one.f_px * 0.4 / WALL_Z_M).max() <= BOUND_PX
    # A camera that was there without being due has not moved.
    unasked = View(one, Modality.FLOW, at((0.9, 0, 0)), 3 * PERIOD_NS, due=False)
    assert renderer.render((unasked,), WorldSnapshot(0, ())) == ()
    again, _, _, _ = flow(renderer, one, at((0.2, 0, 0)), 4 * PERIOD_NS)
    assert np.abs(again[..., 0] + one.f_px * 0.1 / WALL_Z_M).max() <= BOUND_PX


@pytest.mark.parametrize("profile", PROFILES)
def test_depth_and_flow_agree_in_a_scene_of_many_things(renderers: Renderers, profile: str) -> None:
    """Every point, put back by its depth and seen from the previous place, lies where its flow
    says.
    """
    renderer, model = renderers.of(ROOM, profile), fresh()
    T_was = at((0.2, 0.1, -0.3), turn((0.2, 1, 0.1), -8.0))
    T_now = at((0.32, 0.05, -0.2), turn((0.3, 1, -0.1), -5.0))
    _, _, z_was, _ = flow(renderer, model, T_was, 0)
    made, valid, z_now, _ = flow(renderer, model, T_now, PERIOD_NS)
    before_m = (
        T_was.inverse()
        .apply(T_now.apply((rays(model) * z_now[..., None]).reshape(-1, 3)))
        .reshape(*z_now.shape, 3)
    )
    assert valid.all()
    assert np.abs(made - (pixels_of(model) - projected(model, before_m))).max() <= BOUND_PX
    # And there stood the same depth, but where something hid it.
    u, v = np.rint(np.moveaxis(projected(model, before_m), -1, 0)).astype(int)
    inside = (u >= 0) & (v >= 0) & (u < model.width_px) & (v < model.height_px)
    nearer = before_m[..., 2][inside] - z_was[v[inside], u[inside]]
    assert (np.abs(nearer) < 0.03).mean() > 0.93
    assert math.isclose(float(inside.mean()), 1.0, abs_tol=0.2)

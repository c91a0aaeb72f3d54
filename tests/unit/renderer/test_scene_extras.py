"""What moves in a scene by itself: places and clips by closed forms, and all that follows them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.gltf import textured_square
from tests.support.render import Renderers, camera, everybody, facing, moved, scene_of, shots, thing
from tests.support.scenefile import problems, read
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, yaw_matrix
from vil_bridge.core.types import ActorKind, FloatArray, Modality, WorldSnapshot
from vil_renderer.embedded.actors.moving_objects import MovingObjects
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.actors.skinning import skinned_points
from vil_renderer.embedded.assets.animation import sample
from vil_renderer.embedded.assets.model import Animation, Channel
from vil_renderer.embedded.geometry.collision import CollisionWorld
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.geometry.separation import Sphere
from vil_renderer.embedded.scene import Clip, Posed, Scene, SceneObject
from vil_renderer.embedded.scene_motion import LineMotion, seconds_into

S = 1_000_000_000
SCENE = """\
scene: moving
objects:
  - {name: floor, plane: {size_m: [20, 20]}}
  - name: round
    box: {size_m: [0.4, 0.2, 1]}
    p_m: [5, 1, 0.5]
    yaw_deg: 30
    path: {circle: {centre_m: [2, 1, 7], period_s: 8}}
  - name: back
    box: {size_m: [1, 1, 1]}
    p_m: [-5, 0, 0]
    path: {circle: {centre_m: [-5, 2, 0], period_s: 8, clockwise: true}}
  - name: lift
    box: {size_m: [1, 1, 0.2]}
    p_m: [0, -4, 1]
    scale: 2
    path: {line: {to_m: [0, -4, 3], period_s: 4}}
  - name: cart
    box: {size_m: [1, 1, 1]}
    path:
      poses:
        - {t_s: 0, p_m: [0, 8, 0]}
        - {t_s: 2, p_m: [4, 8, 0]}
        - {t_s: 3, p_m: [4, 8, 0], yaw_deg: 90}
        - {t_s: 4, p_m: [0, 8, 0], yaw_deg: 180}
"""


def at(scene: Scene, name: str, t_s: float) -> Posed:
    (found,) = (posed for posed in MovingObjects(scene).pose(round(t_s * S)) if posed.name == name)
    return found


def place(scene: Scene, name: str, t_s: float) -> FloatArray:
    """The world from a one-node object at a time, (4, 4)."""
    matrix: FloatArray = at(scene, name, t_s).world_from_node[0]
    return matrix


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return read(tmp_path_factory.mktemp("moving"), SCENE)


@pytest.mark.parametrize("rounds", [0, 1, 123_456_789])
@pytest.mark.parametrize("t_s", [0.0, 0.5, 3.0, 7.9])
def test_a_circle_is_where_its_angle_says(moving: Scene, t_s: float, rounds: int) -> None:
    angle = 2.0 * math.pi * t_s / 8.0
    now = at(moving, "round", t_s + 8 * rounds).world_from_node[0]
    np.testing.assert_allclose(
        now[:3, 3], (2 + 3 * math.cos(angle), 1 + 3 * math.sin(angle), 0.5), atol=1e-9
    )
    np.testing.assert_allclose(now[:3, :3], yaw_matrix(math.radians(30.0) + angle), atol=1e-9)
    back = place(moving, "back", t_s)
    np.testing.assert_allclose(
        back[:3, 3], (-5 - 2 * math.sin(angle), 2 - 2 * math.cos(angle), 0.0), atol=1e-9
    )


@pytest.mark.parametrize(
    ("t_s", "z_m"), [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0), (0.5, 1.2929)]
)
def test_a_line_is_gentle_at_its_ends(moving: Scene, t_s: float, z_m: float) -> None:
    now = place(moving, "lift", t_s)
    np.testing.assert_allclose(now[:3, 3], (0.0, -4.0, z_m), atol=1e-4)
    np.testing.assert_allclose(now[:3, :3], 2.0 * np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("t_s", "x_m", "yaw_deg"),
    [
        (0.0, 0.0, 0.0),
        (0.5, 1.0, 0.0),
        (2.0, 4.0, 0.0),
        (2.5, 4.0, 45.0),
        (3.5, 2.0, 135.0),
        (4.5, 1.0, 0.0),
    ],
)
def test_a_tour_goes_straight_and_evenly_and_then_anew(
    moving: Scene, t_s: float, x_m: float, yaw_deg: float
) -> None:
    now = place(moving, "cart", t_s)
    np.testing.assert_allclose(now[:3, 3], (x_m, 8.0, 0.0), atol=1e-9)
    np.testing.assert_allclose(now[:3, :3], yaw_matrix(math.radians(yaw_deg)), atol=1e-9)


def test_time_in_a_round_is_exact_after_a_month() -> None:
    month_ns = 30 * 24 * 3600 * S
    assert seconds_into(0.3, month_ns + 1) == 1e-9
    assert seconds_into(-0.3, month_ns + 1) == pytest.approx(0.3 - 1e-9, abs=1e-15)


def test_a_perturbation_moves_the_way_too(tmp_path: Path) -> None:
    (tmp_path / "moves.txt").write_text("round: 0.5,0,-90\ncart: 0,-1,0\nlift: 0,0,-90\n")
    scene = read(tmp_path, SCENE + "obstacle_perturbation: moves.txt\n")
    # 0.5 m north, turned by +90 degrees about its own origin: the circle's middle is south of it
    # now.
    np.testing.assert_allclose(place(scene, "round", 4.0)[:3, 3], (5.0, 1.5 - 6.0, 0.5), atol=1e-9)
    np.testing.assert_allclose(place(scene, "cart", 0.5)[:3, 3], (2.0, 8.0, 0.0), atol=1e-9)
    np.testing.assert_allclose(place(scene, "lift", 2.0)[:3, 3], (0.0, -4.0, 3.0), atol=1e-9)


@pytest.mark.parametrize(("speed", "phase_s"), [(1.0, 0.0), (0.5, 0.2), (-2.0, 0.1), (0.0, 0.7)])
@pytest.mark.parametrize("t_s", [0.0, 0.4, 1.3, 1e6 + 0.25])
def test_a_clip_is_its_animation_at_that_time(
    tmp_path: Path, speed: float, phase_s: float, t_s: float
) -> None:
    textured_square().write(tmp_path, "square.glb")
    scene = read(
        tmp_path,
        f"""\
scene: clip
objects:
  - name: door
    file: square.glb
    p_m: [1, 2, 3]
    yaw_deg: 90
    animation: turn
    animation_speed: {speed}
    animation_phase_s: {phase_s}
    path: {{line: {{to_m: [1, 2, 5], period_s: 2}}}}
""",
    )
    (door,) = scene.objects
    assert door.movable
    inside = sample(door.asset, door.asset.animations["turn"], phase_s + speed * t_s)
    moved_to = door.world_from_asset.copy()
    moved_to[2, 3] += 1.0 - math.cos(math.pi * t_s)
    expected = moved_to @ door.asset.asset_from_node(inside)
    np.testing.assert_allclose(at(scene, "door", t_s).world_from_node, expected, atol=1e-7)


def test_what_is_wrong_with_ways_and_clips_is_told(tmp_path: Path) -> None:
    textured_square().write(tmp_path, "square.glb")
    said = problems(
        tmp_path,
        """\
scene: s
objects:
  - {name: a, sphere: {radius_m: 1}, path: {}}
  - {name: b, sphere: {radius_m: 1}, path: {poses: [{t_s: 1}, {t_s: 2}]}}
  - {name: c, sphere: {radius_m: 1}, p_m: [1, 0, 0], path: {poses: [{t_s: 0}, {t_s: 2}]}}
  - {name: d, sphere: {radius_m: 1}, animation: turn}
  - {name: e, sphere: {radius_m: 1}, animation_speed: 2}
  - {name: f, sphere: {radius_m: 1}, path: {line: {to_m: [1, 0, 0], period_s: 0}}}
""",
    )
    for line, words in {
        3: "give exactly one of circle, line, poses",
        4: "the first at t_s 0",
        5: "leave p_m and its rotation out",
        6: "animation belongs to a file",
        7: "belong to `animation`",
        8: "path.line.period_s",
    }.items():
        assert any(text.startswith(f"test.yaml:{line}:") and words in text for text in said), (
            words,
            said,
        )
    (unknown,) = problems(
        tmp_path, "scene: s\nobjects:\n  - {name: d, file: square.glb, animation: trun}\n"
    )
    assert unknown.startswith("test.yaml:3:") and "'trun' (did you mean 'turn'?)" in unknown
    with pytest.raises(RendererError, match="no animation 'x'; known: none"):
        MovingObjects(scene_of(thing("a", facing(2, 1), movable=True, clip=Clip("x"))))


def test_an_actor_takes_an_object_over_and_gives_it_back(moving: Scene) -> None:
    extras = MovingObjects(moving)
    assert "lift" not in [p.name for p in extras.pose(0, {"lift"})]
    assert [p.name for p in extras.pose(0)] == ["round", "back", "lift", "cart"]


# --- what follows ---------------------------------------------------------------------------------


CAMERA = camera("still", (160, 120))
Z_M, PERIOD_S = 4.0, 2.0


@pytest.fixture(scope="module")
def obstacle() -> Scene:
    """A wall, and before it a square that goes to the right and back."""
    way = LineMotion(np.array([1.0, 0.0, 0.0]), PERIOD_S)
    square = thing("square", facing(Z_M, 0.5, at_m=(-0.4, 0.0)), instance=2, movable=True, path=way)
    return scene_of(thing("wall", facing(8.0, 20.0)), square)


def shift(t_s: float) -> float:
    return 0.5 * (1.0 - math.cos(2.0 * math.pi * t_s / PERIOD_S))


@pytest.mark.gl
def test_flow_of_a_moving_obstacle_under_a_still_camera(
    renderers: Renderers, obstacle: Scene
) -> None:
    renderer = renderers.of(obstacle)
    asked = (Modality.FLOW, Modality.INSTANCE)
    before, now = WorldSnapshot(21 * S // 4, ()), WorldSnapshot(43 * S // 8, ())
    shots(renderer, CAMERA, asked, snapshot=before, t_ns=before.t_ns)
    flow, ids = shots(renderer, CAMERA, asked, snapshot=now, t_ns=now.t_ns)
    f = CAMERA.intrinsics_px[0]
    expected = f * (shift(5.375) - shift(5.25)) / Z_M
    on = ids.pixels == 2
    assert (
        flow.valid is not None
        and flow.valid.all()
        and on.sum() == pytest.approx((f * 1.0 / Z_M) ** 2, rel=0.06)
    )
    assert abs(expected) > 1.0
    assert np.abs(flow.pixels[on] - (expected, 0.0)).max() < 0.01
    assert np.all(flow.pixels[~on] == 0.0)


@pytest.mark.gl
def test_the_same_time_gives_the_same_picture_and_an_actor_comes_first(
    renderers: Renderers, obstacle: Scene
) -> None:
    renderer = renderers.of(obstacle)
    first, _, again = (
        shots(renderer, CAMERA, (Modality.INSTANCE,), snapshot=everybody(t_ns=t))[0].pixels
        for t in (S, 3 * S // 2, S)
    )
    assert np.array_equal(first, again)
    driven = everybody(moved("square", (0.0, 0.4, 0.0)), t_ns=S)
    (elsewhere,) = shots(renderer, CAMERA, (Modality.INSTANCE,), snapshot=driven)
    rows, columns = np.nonzero(elsewhere.pixels == 2)
    f, _, cx, cy = CAMERA.intrinsics_px
    assert rows.mean() == pytest.approx(cy + f * 0.4 / Z_M, abs=0.6)
    assert columns.mean() == pytest.approx(cx - f * 0.4 / Z_M, abs=0.6)


@pytest.mark.parametrize("collider", ["mesh", "box"])
@pytest.mark.parametrize("t_s", [0.0, 0.6, 1.0])
def test_rays_and_collisions_follow(obstacle: Scene, t_s: float, collider: str) -> None:
    scene = replace(
        obstacle,
        objects=tuple(replace(o, collider=collider) for o in obstacle.objects),  # type: ignore[arg-type]
    )
    posed = MovingObjects(scene).pose(round(t_s * S))
    rays, bumps = RayWorld(scene), CollisionWorld(scene)
    rays.update(posed)
    bumps.update(posed)
    edge = 0.1 + shift(t_s)
    for x, hit in ((edge - 0.01, True), (edge + 0.01, False)):
        found = rays.cast(np.array([[x, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]]))
        assert (float(found.distance_m[0]) == pytest.approx(Z_M if hit else 8.0, abs=1e-5)) and int(
            found.instance[0]
        ) == (2 if hit else 1)
    near = Sphere(np.array([edge + 0.05, 0.0, Z_M]), 0.08)
    (contact,) = bumps.contacts("drone", near)
    assert contact.other == "square"
    assert contact.depth_m == pytest.approx(0.03, abs=1e-6)
    assert bumps.contacts("drone", Sphere(near.centre, 0.04)) == []


def test_what_hangs_on_joints_is_round_cones_that_follow_the_clip() -> None:
    human = built_in("", ActorKind.HUMAN)[1].asset
    arm = next(
        i
        for i, node in enumerate(human.nodes)
        if "arm" in node.name.lower() and "l" in node.name.lower()[:4]
    )
    q = np.array([[0.0, 0.0, 0.0, 1.0], [math.sin(math.pi / 4), 0.0, 0.0, math.cos(math.pi / 4)]])
    raise_arm = Animation("raise", (Channel(arm, "rotation", "linear", np.array([0.0, 1.0]), q),))
    place_m = np.eye(4)
    place_m[:3, 3] = (3.0, 1.0, 0.0)
    statue = SceneObject(
        "statue",
        replace(human, animations={"raise": raise_arm}),
        place_m,
        42,
        7,
        movable=True,
        clip=Clip("raise"),
    )
    scene = scene_of(statue)
    extras, rays, bumps = MovingObjects(scene), RayWorld(scene), CollisionWorld(scene)
    for t_ns in (0, 9 * S // 10):
        (posed,) = extras.pose(t_ns)
        rays.update([posed])
        bumps.update([posed])
        points = np.concatenate(skinned_points(posed.asset, posed.world_from_node))
        # The furthest point of the raised or hanging arm, with a ray from the front.
        tip = points[np.argmax(points[:, 1])] - (0.0, 0.03, 0.0)
        before, beside = tip + np.array([[2.0, 0.0, 0.0], [2.0, 0.3, 0.0]])
        back = np.array([[-1.0, 0.0, 0.0]])
        hit = rays.cast(before[None], back)
        assert int(hit.instance[0]) == 7
        assert float(hit.distance_m[0]) == pytest.approx(2.0, abs=0.12)
        assert bumps.contacts("drone", Sphere(tip, 0.05))[0].other == "statue"
        assert rays.cast(beside[None], back).owner[0] == -1
    low, high = points.min(axis=0), points.max(axis=0)
    body: Transform = posed.T_world_body
    assert np.all(np.abs(body.p_m - 0.5 * (low + high)) < 0.5) and posed.half_size_m[2] > 0.7

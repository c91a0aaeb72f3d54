"""Files that nobody here made, drawn: a warehouse, people on a real walk, a character's clips."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import cv2
import numpy as np
import pytest

from tests.support.actors import human, points, pose_one, rig, step_of, walk
from tests.support.assets import CAMERA, S, scene_file
from tests.support.embedded import looking
from tests.support.render import (
    Renderers,
    camera,
    linear,
    plate,
    projected,
    rays,
    scene_of,
    shots,
    thing,
)
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorState,
    FloatArray,
    ImageArray,
    Modality,
    SkeletonFrame,
    WorldSnapshot,
)
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.moving_objects import MovingObjects
from vil_renderer.embedded.assets.animation import sample
from vil_renderer.embedded.assets.model import Asset, Material
from vil_renderer.embedded.assets.skins import skinned
from vil_renderer.embedded.geometry.raycast_renderer import AuxPictures, RaycastRenderer
from vil_renderer.embedded.geometry.surfaces import TriangleSurface
from vil_renderer.embedded.scene import Prefab, Scene

pytestmark = pytest.mark.gl

PROFILES = ("low", "medium", "high")
PEOPLE = ("human_male_cmu", "human_female_cmu", "human_male_fingers")
PLACES = {
    "aisle": looking((-9.5, 0.5, 2.0), 0.0, 5.0),
    "back": looking((9.5, 0.0, 3.0), 180.0, 12.0),
    "shelves": looking((0.0, -3.5, 1.6), 90.0),
    "down": looking((-2.0, 2.0, 6.0), -60.0, 35.0),
}


# --- the warehouse --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    text = """\
scene: warehouse
environment: {sky: [0.8, 0.8, 0.8], ground: [0.8, 0.8, 0.8], sun: null}
objects:
  - {name: warehouse, file: ASSETS/aws_small_warehouse.glb, class: building, instance: 9}
"""
    return scene_file(tmp_path_factory.mktemp("warehouse"), text)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("place", PLACES)
def test_the_warehouse_is_all_around_and_the_right_way_up(
    renderers: Renderers, warehouse: Scene, place: str, profile: str
) -> None:
    """Against rays: its ids on every pixel, its depth, and normals that show which way is up."""
    asked = (Modality.INSTANCE, Modality.DEPTH32, Modality.NORMALS, Modality.RGB)
    images = shots(renderers.of(warehouse, profile), CAMERA, asked, PLACES[place])
    ids, depth, normals, rgb = (image.pixels for image in images)
    traced = _traced(warehouse, place)
    assert ((ids == 9) == (traced.instance == 9)).mean() >= 0.995
    assert (ids == 9).mean() > 0.995, "it fills the picture"
    smooth = _smooth(traced.depth32) & _smooth(depth.astype(np.float32))
    assert smooth.mean() > 0.5
    # Its boxes hang a little into each other and lines lie 0.1 mm over the floor: not all agree on
    # who is in front.
    error = np.abs(depth.astype(float) - traced.depth32) / traced.depth32
    assert (error[smooth] < 1e-3).mean() > 0.998
    R_world_camera = PLACES[place].rotation()
    up = (normals.astype(float) @ R_world_camera.T)[..., 2]
    v, u = np.nonzero(smooth & (ids == 9))
    f, _, cx, cy = CAMERA.intrinsics_px
    ray = np.stack(((u - cx) / f, (v - cy) / f, np.ones(len(u))), axis=-1)
    z_m = PLACES[place].apply(np.asarray(depth[v, u, None] * ray, np.float64))[:, 2]
    floor, roof = z_m < 0.06, z_m > 9.5
    assert floor.sum() > 500 and (up[v, u][floor] > 0.99).mean() > 0.97
    assert not roof.any() or v[roof].mean() < v[floor].mean()
    assert 25 < rgb.mean() < 220 and rgb.std() > 15


@cache
def _caster(scene: Scene) -> RaycastRenderer:
    return RaycastRenderer(scene)


@cache
def _traced(scene: Scene, place: str) -> AuxPictures:
    return _caster(scene).render_aux(CAMERA, PLACES[place])


def _smooth(depth: ImageArray) -> ImageArray:
    kernel = np.ones((3, 3), np.uint8)
    even: ImageArray = cv2.dilate(depth, kernel) / cv2.erode(depth, kernel) < 1.02
    return even


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("place", ["aisle", "shelves"])
def test_the_warehouses_textures_are_where_they_belong(
    renderers: Renderers, warehouse: Scene, place: str, profile: str
) -> None:
    """Colour of every pixel against its texture looked up by rays.

    Light and shade change how bright it is only.
    """
    (image,) = shots(renderers.of(warehouse, profile), CAMERA, (Modality.RGB,), PLACES[place])
    texels, known = _texels(warehouse, PLACES[place])
    # The plainest profile multiplies what is displayed, the others light.
    shown, expected = (
        p.astype(float) if profile == "low" else linear(p) for p in (image.pixels, texels)
    )
    found, wanted = (cv2.blur(p, (3, 3)) for p in (shown, expected))
    hue = [
        p[known] / np.maximum(p[known].sum(axis=-1, keepdims=True), 1e-6) for p in (found, wanted)
    ]
    assert known.mean() > 0.97
    error = np.abs(hue[0] - hue[1]).max(axis=-1)
    # Highlights have the colour of the light.
    assert np.median(error) < 0.006 and (error < (0.1 if profile == "high" else 0.05)).mean() > 0.93
    # What is printed on things: brightness beside brightness a few pixels on.
    fine = [np.log(p.sum(axis=-1) + 1e-3) for p in (found, wanted)]
    fine = [(p - cv2.blur(p, (9, 9)))[known] for p in fine]
    assert np.corrcoef(*fine)[0, 1] > 0.75


@cache
def _texels(scene: Scene, T_world_camera: Transform) -> tuple[ImageArray, ImageArray]:
    """The texture's colour in every pixel, the mean of 3 x 3 rays, and where there is any."""
    corners, uv, owner = [], [], []
    textures: list[ImageArray] = []
    for node, m in zip(
        scene.objects[0].asset.nodes, scene.objects[0].asset.asset_from_node(), strict=True
    ):
        for part in node.primitives:
            assert part.material.base is not None
            corners.append((part.p_m @ m[:3, :3].T + m[:3, 3])[part.triangles])
            uv.append(part.uv[part.triangles])
            owner.append(np.full(len(part.triangles), len(textures)))
            textures.append(part.material.base.texture.pixels)
    flat = np.concatenate(corners).reshape(-1, 3).astype(np.float32)
    mesh = TriangleSurface(flat, np.arange(len(flat), dtype=np.uint32).reshape(-1, 3))
    coordinates, owners = np.concatenate(uv), np.concatenate(owner)
    fine = camera("fine", (3 * CAMERA.width_px, 3 * CAMERA.height_px))
    way = (rays(fine).reshape(-1, 3) @ T_world_camera.rotation().T).astype(np.float32)
    start = np.tile(T_world_camera.p_m.astype(np.float32), (len(way), 1))
    _, hit, u, v = mesh.strike(start, way, np.full(len(way), np.inf, np.float32))
    weights = np.stack((1 - u - v, u, v), axis=1)[..., None]
    at_uv = (weights * coordinates[hit]).sum(axis=1) % 1.0
    colour = np.zeros((len(way), 3))
    for index, pixels in enumerate(textures):
        mine = np.flatnonzero((hit >= 0) & (owners[hit] == index))
        x, y = ((at_uv[mine] * pixels.shape[1::-1]).astype(int) % pixels.shape[1::-1]).T
        colour[mine] = pixels[y, x, :3]
    size = (CAMERA.height_px, 3, CAMERA.width_px, 3)
    mean = colour.reshape(*size, 3).mean(axis=(1, 3))
    return mean, np.asarray((hit.reshape(size) >= 0).all(axis=(1, 3)))


# --- people ---------------------------------------------------------------------------------------


FLOOR = plate((0, 0, 0), (6, 0, 0), (0, 6, 0), Material(base_colour=(0.3, 0.3, 0.3, 1.0)), 12)


@cache
def stage() -> Scene:
    """A grey floor and everybody who may act on it."""
    prefabs = {name: Prefab(rig(name), 42) for name in (*PEOPLE, "kaykit_rogue")}
    return scene_of(thing("floor", FLOOR), ambient=0.7, prefabs=prefabs)


def standing(row: int) -> SkeletonFrame:
    """A step of the walk in the middle of the room."""
    frame = step_of(walk(), row)
    return frame.moved(Transform.of((-frame.p_m[0, 0], -frame.p_m[0, 1], 0.0)))


def ahead_deg(row: int) -> float:
    hips = walk().bones.p_m[:, 0]
    way = hips[row + 10] - hips[row - 10]
    return math.degrees(math.atan2(way[1], way[0]))


def around(row: int, side_deg: float, distance_m: float = 3.0) -> Transform:
    """A camera that looks at the middle from where the walker has its front (0), left (90) or
    back (180).
    """
    yaw = math.radians(ahead_deg(row) + side_deg)
    place = (distance_m * math.cos(yaw), distance_m * math.sin(yaw), 0.9)
    return looking(place, math.degrees(yaw) + 180.0)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", PEOPLE)
def test_people_stand_on_the_floor_with_hands_at_the_ends_of_their_arms(
    renderers: Renderers, name: str, profile: str
) -> None:
    for row in (100, 230):
        actor = human(standing(row), name)
        renderer = renderers.of(stage(), profile)
        for side in (0.0, 90.0, 180.0):
            T = around(row, side)
            asked = (Modality.INSTANCE, Modality.DEPTH32, Modality.RGB)
            ids, depth, rgb = (
                i.pixels for i in shots(renderer, TALL, asked, T, WorldSnapshot(0, (actor,)))
            )
            seen = ids == renderer.instances["h"]
            assert 0.03 < seen.mean() < 0.3
            _stands(seen, actor, T)
            _has_hands(seen, depth, actor, T)
            # Dressed: several colours, none of them the floor's grey.
            colours = rgb[seen].astype(float)
            assert np.ptp(colours.mean(axis=0)) > 4 and colours.std(axis=0).max() > 12


TALL = camera("tall", (240, 320), 50.0)


@cache
def _cast() -> ActorModels:
    return ActorModels(stage())


def _stands(seen: ImageArray, actor: ActorState, T_world_camera: Transform) -> None:
    """The lowest pixels are where the soles touch z = 0, and its head is up."""
    vertices = points(pose_one(_cast(), actor))
    soles, head = vertices[:, 2].min(), vertices[:, 2].max()
    assert -0.04 < soles < 0.06
    assert 1.4 < head < 1.85
    pixel = projected(TALL, T_world_camera.inverse().apply(vertices))
    v = np.nonzero(seen.any(axis=1))[0]
    assert v.min() == pytest.approx(pixel[:, 1].min(), abs=1.5)
    assert v.max() == pytest.approx(pixel[:, 1].max(), abs=1.5)


def _has_hands(
    seen: ImageArray, depth: ImageArray, actor: ActorState, T_world_camera: Transform
) -> None:
    """Where the recording has the hands, the picture has the person, at the hands' depth where
    nothing hides them.
    """
    assert actor.skeleton is not None
    bones = actor.skeleton.model.bones
    hidden = 0
    for hand in ("LeftHand", "RightHand"):
        p_camera = T_world_camera.inverse().apply(actor.skeleton.p_m[bones.index(hand)][None])
        u, v = np.rint(projected(TALL, p_camera)[0]).astype(int)
        assert seen[v - 1 : v + 2, u - 1 : u + 2].any()
        nearest = float(depth[v - 1 : v + 2, u - 1 : u + 2].min())
        assert nearest < p_camera[0, 2] + 0.05
        hidden += nearest < p_camera[0, 2] - 0.12
    assert hidden <= 1


# --- a character's own clips ----------------------------------------------------------------------


CLIPS = ("Walking_A", "Jump_Full_Long", "1H_Melee_Attack_Chop")
APART_M = 30.0
"""Aside, where no camera before another sees it."""


@pytest.fixture(scope="module")
def rogues(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """One file, read once: a character for each clip, far from each other."""
    text = """\
scene: clips
environment: {sky: [0.7, 0.7, 0.7], ground: [0.7, 0.7, 0.7], sun: null}
objects:
"""
    for index, clip in enumerate(CLIPS):
        text += f"""\
  - {{name: rogue{index}, file: ASSETS/kaykit_rogue.glb, class: human, instance: {5 + index},
        animation: {clip},
     yaw_deg: 20, p_m: [0, {APART_M * index}, 0]}}
"""
    return scene_file(tmp_path_factory.mktemp("rogues"), text)


@pytest.mark.parametrize("profile", ["low", "high"])
def test_the_character_plays_its_own_clips(
    renderers: Renderers, rogues: Scene, profile: str
) -> None:
    renderer = renderers.of(rogues, profile)
    for index, clip in enumerate(CLIPS):
        rogue = rogues.objects[index]
        T = looking((5.0, APART_M * index + 0.6, 1.2), 187.0)
        m = rogue.world_from_asset
        shapes = []
        for t_s in (0.0, 0.3, 0.55):
            snapshot = WorldSnapshot(round(t_s * S), ())
            ids, rgb = (
                i.pixels
                for i in shots(renderer, CAMERA, (Modality.INSTANCE, Modality.RGB), T, snapshot)
            )
            seen = ids == rogue.instance
            vertices = _posed_points(rogue.asset, clip, t_s) @ m[:3, :3].T + m[:3, 3]
            pixel = projected(CAMERA, T.inverse().apply(vertices))
            rows, columns = (np.nonzero(seen.any(axis=axis))[0] for axis in (1, 0))
            for found, expected in ((columns, pixel[:, 0]), (rows, pixel[:, 1])):
                # The tips of knives are thinner than a pixel.
                assert found.min() == pytest.approx(expected.min(), abs=4)
                assert found.max() == pytest.approx(expected.max(), abs=4)
            # Green clothes, brown hair.
            red, green, blue = rgb[seen].astype(float).T
            assert (green > red + 20).mean() > 0.1 and (red > blue + 20).mean() > 0.2
            shapes.append(seen)
        assert all((a != b).sum() > 100 for a, b in pairwise(shapes))


def _posed_points(asset: Asset, clip: str, t_s: float) -> FloatArray:
    """All vertices while a clip plays, (n, 3), as glTF defines skins."""
    nodes = asset.asset_from_node(sample(asset, asset.animations[clip], t_s))
    parts = [(i, node, part) for i, node in enumerate(asset.nodes) for part in node.primitives]
    return np.concatenate([skinned(nodes, node.skin, i, part) for i, node, part in parts])


def test_rays_meet_the_character_where_it_is_drawn(renderers: Renderers, rogues: Scene) -> None:
    scene = replace(rogues, objects=(replace(rogues.objects[0], world_from_asset=np.eye(4)),))
    renderer = renderers.of(scene)
    T = looking((5.0, 0.0, 1.2), 180.0)
    ids, depth = (
        i.pixels
        for i in shots(
            renderer, CAMERA, (Modality.INSTANCE, Modality.DEPTH32), T, WorldSnapshot(S // 3, ())
        )
    )
    traced = RaycastRenderer(scene).render_aux(CAMERA, T, MovingObjects(scene).pose(S // 3))
    drawn, met = ids == 5, traced.instance == 5
    assert (drawn & met).sum() / (drawn | met).sum() > 0.75
    assert np.abs(depth - traced.depth32)[drawn & met].mean() < 0.12

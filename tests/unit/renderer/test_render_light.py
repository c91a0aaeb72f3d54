"""Light, shadows and materials of the drawn picture against their formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.geometry_scenes import box_primitive
from tests.support.render import (
    AHEAD,
    Renderers,
    at,
    camera,
    facing,
    linear,
    pixels_of,
    plate,
    projected,
    rays,
    scene_of,
    shot,
    shots,
    srgb,
    texture,
    thing,
    turn,
)
from vil_bridge.core.camera_model import Effects
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_renderer.embedded.assets.model import Asset, Material
from vil_renderer.embedded.scene import Lamp, Scene, SceneObject, Sun

pytestmark = pytest.mark.gl

CAMERA = camera()
LINEAR = ("medium", "high")
ALL = ("low", "high")
TO_CARD = np.array([0.0, 0.0, -1.0])


def paint(albedo: float) -> Material:
    return Material(base_colour=(albedo, albedo, albedo, 1.0))


def halves(
    material: Material, z_m: float = 2.0, half_m: float = 4.0, cells: int = 16
) -> tuple[SceneObject, SceneObject]:
    """A wall across the view.

    Its left half stands still, its right half is something that may move.
    """
    left, right = (
        plate((side * half_m / 2, 0, z_m), (half_m / 2, 0, 0), (0, -half_m, 0), material, cells)
        for side in (-1, 1)
    )
    return thing("left", left), thing("right", right, instance=2, movable=True)


def card(material: Material, **light: object) -> Scene:
    return scene_of(*halves(material), **light)  # type: ignore[arg-type]


def patches(picture: ImageArray) -> FloatArray:
    """Mean colours on both sides of the middle of a picture, (2, 3)."""
    h, w = picture.shape[:2]
    mean: FloatArray = np.array(
        [
            picture[h // 2 - 4 : h // 2 + 4, u : u + 8].mean(axis=(0, 1))
            for u in (w // 2 - 12, w // 2 + 4)
        ]
    )
    return mean


# --- exposure ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", LINEAR)
def test_a_grey_card_is_as_bright_as_predicted(renderers: Renderers, profile: str) -> None:
    for albedo, ambient, sunlight, slant_deg, exposure in (
        (0.18, 1.0, 0.0, 0.0, 1.0), (0.5, 0.3, 0.6, 40.0, 1.0), (0.03, 0.0, 1.0, 0.0, 1.0),
        (0.4, 0.4, 0.3, 60.0, 1.7),
    ):  # fmt: skip
        sun = Sun(turn((1, 0, 0), slant_deg) @ TO_CARD, np.full(3, sunlight)) if sunlight else None
        scene = card(paint(albedo), ambient=ambient, sun=sun)
        scene = replace(scene, environment=replace(scene.environment, exposure=exposure))
        light = ambient + sunlight * math.cos(math.radians(slant_deg))
        expected = srgb(albedo * light * exposure)
        assert np.abs(patches(shot(renderers.of(scene, profile), CAMERA)) - expected).max() <= 1.0


def test_the_plainest_profile_multiplies_display_values(renderers: Renderers) -> None:
    for level, light in ((188, 1.0), (40, 1.0), (188, 0.5), (118, 0.25)):
        material = Material(base=texture(np.full((2, 2, 3), level)))
        seen = patches(shot(renderers.of(card(material, ambient=light)), CAMERA))
        assert np.abs(seen - level * light ** (1 / 2.2)).max() <= 1.0
        assert np.abs(seen - srgb(linear(level) * light)).max() <= (1.0 if light == 1.0 else 3.0)


@pytest.mark.parametrize("profile", ALL)
def test_a_stop_doubles_the_light(renderers: Renderers, profile: str) -> None:
    renderer = renderers.of(
        card(Material(base=texture(np.full((2, 2, 3), 118))), ambient=0.5), profile
    )
    for ev in (-1.0, 0.0, 1.0, 2.0):
        model = camera(f"ev{ev}", effects=Effects(exposure_ev=ev))
        expected = srgb(linear(118) * 0.5 * 2.0**ev)
        assert np.abs(patches(shot(renderer, model)) - expected).max() <= (
            3.0 if profile == "low" else 1.0
        )


# --- lamps and sun -----------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["low", "medium"])
def test_a_lamp_falls_with_the_square_of_the_distance(renderers: Renderers, profile: str) -> None:
    for distance_m, light in ((1.0, 0.8), (2.0, 3.2)):
        lamp = Lamp("lamp", np.array([0.3, 0.1, 3.0 - distance_m]), np.full(3, light))
        scene = scene_of(*halves(paint(0.5), 3.0, 3.2, 60), ambient=0.0, lamps=(lamp,))
        seen = shot(renderers.of(scene, profile), CAMERA).astype(float)
        at_m = rays(CAMERA) * 3.0
        aside2 = ((at_m - lamp.p_m)[..., :2] ** 2).sum(axis=-1)
        received = light * distance_m / (distance_m**2 + aside2) ** 1.5
        expected = 255 * (0.5 * received) ** (1 / 2.2) if profile == "low" else srgb(0.5 * received)
        bright = received > 0.03
        assert bright.mean() > 0.3
        assert np.abs(seen[..., 1] - expected)[bright].max() <= 2.0


def test_a_spot_ends_at_its_cone(renderers: Renderers) -> None:
    cone = (0.2, 0.4)
    lamp = Lamp("spot", np.zeros(3), np.full(3, 7.2), np.array([0.0, 0.0, 1.0]), cone)
    scene = scene_of(*halves(paint(0.5), 3.0, 3.2, 180), ambient=0.0, lamps=(lamp,))
    seen = shot(renderers.of(scene, "medium"), CAMERA)[..., 0].astype(float)
    d = rays(CAMERA)
    cosine = 1.0 / np.linalg.norm(d, axis=-1)
    share = (
        np.clip((cosine - math.cos(cone[1])) / (math.cos(cone[0]) - math.cos(cone[1])), 0.0, 1.0)
        ** 2
    )
    received = 7.2 * cosine**3 / 9.0 * share
    assert np.all(seen[np.arccos(cosine) > cone[1] + 0.01] == 0.0)
    lit = received > 0.03
    assert lit.sum() > 2000
    assert np.abs(seen - srgb(0.5 * received))[lit].max() <= 3.0


FLOOR_M = 6.0
HALF_BOX_M = np.array([0.6, 0.5, 0.2])
BOX_M = np.array([-0.8, 0.0, 1.4])
TO_SUN = np.array([-0.45, 0.1, 0.88]) / np.linalg.norm([-0.45, 0.1, 0.88])


def _yard(*, movable: bool, cells: int = 60) -> Scene:
    """A floor, and a box that hangs over it in the sun; the world's z is up."""
    ground = plate((0, 0, 0), (FLOOR_M, 0, 0), (0, FLOOR_M, 0), paint(0.5), cells)
    m = np.eye(4)
    m[:3, 3] = BOX_M
    box = SceneObject("box", Asset.of("box", [box_primitive(HALF_BOX_M)]), m, 6, 2, movable=movable)
    sun = Sun(TO_SUN, np.full(3, 0.8))
    return scene_of(thing("floor", ground), box, ambient=0.2, sun=sun)


DOWN = at((1.0, 0.0, 4.0), turn((1, 0, 0), 180.0))  # sees the world from above, its x to the right


def _shadow_edge_m(picture: ImageArray) -> float:
    """Where along x the shadow ends on the row that sees y = 0."""
    light = linear(picture[120, :, 1])
    full, dark = 0.5 * (0.2 + 0.8 * TO_SUN[2]), 0.5 * 0.2
    share = (light - dark) / (full - dark)
    edge = int(np.flatnonzero((share[:-1] < 0.5) & (share[1:] >= 0.5))[-1])
    u = edge + (0.5 - share[edge]) / (share[edge + 1] - share[edge])
    fx, _, cx, _ = CLOSE.intrinsics_px
    return float(1.0 + (u - cx) / fx * 4.0)


CLOSE = camera("close", (640, 240), pinhole_px=(900.0, 900.0, 319.5, 119.5))


@pytest.mark.parametrize(
    ("profile", "movable"), [("medium", False), ("high", False), ("ultra", True)]
)
def test_a_shadow_ends_where_the_sun_says(
    renderers: Renderers, profile: str, movable: bool
) -> None:
    picture = shot(renderers.of(_yard(movable=movable), profile), CLOSE, Modality.RGB, DOWN)
    # The upper edge on the far side of the box from the sun casts the end of the shadow.
    height_m = BOX_M[2] + (HALF_BOX_M[2] if TO_SUN[0] > 0 else -HALF_BOX_M[2])
    ends = [
        BOX_M[0] + HALF_BOX_M[0] - TO_SUN[0] / TO_SUN[2] * h
        for h in (height_m, BOX_M[2] + HALF_BOX_M[2])
    ]
    texel_m = 2.0 * math.hypot(FLOOR_M, FLOOR_M) / (4096 if profile == "ultra" else 2048)
    assert _shadow_edge_m(picture) == pytest.approx(max(ends), abs=2.0 * texel_m)


@pytest.mark.parametrize("profile", ALL)
def test_what_moves_casts_no_shadow_below_ultra(renderers: Renderers, profile: str) -> None:
    """Fixed shadows are drawn once; at low they are baked into the vertices."""
    fixed = shot(renderers.of(_yard(movable=False), profile), CLOSE, Modality.RGB, DOWN)
    moving = shot(renderers.of(_yard(movable=True), profile), CLOSE, Modality.RGB, DOWN)
    # X = 0.3 m lies in the shadow, beside the box.
    u = round(CLOSE.intrinsics_px[2] + (0.3 - 1.0) / 4.0 * 900.0)
    light = 0.2 + 0.8 * TO_SUN[2]
    assert fixed[120, u, 1] == pytest.approx(srgb(0.5 * 0.2), abs=3.0)
    assert moving[120, u, 1] == pytest.approx(
        srgb(0.5 * light), abs=3.0 if profile == "low" else 1.0
    )


# --- materials ---------------------------------------------------------------------------------

GLYPH = np.kron(
    np.array([[3, 0, 0, 0], [3, 0, 1, 0], [3, 0, 0, 0], [3, 3, 2, 0]], np.uint8),
    np.ones((16, 16), np.uint8),
)
INKS = np.array([[235, 235, 235], [200, 40, 40], [40, 160, 60], [30, 50, 180]], np.uint8)
PRINT = INKS[GLYPH]
SQUARE = camera("square", (128, 128), pinhole_px=(64.0, 64.0, 63.5, 63.5))


@pytest.mark.parametrize("profile", ALL)
def test_a_texture_is_the_right_way_round(renderers: Renderers, profile: str) -> None:
    """Four posters in a row, two that may move, two mirrored; each camera sees one of them."""

    def poster(x: float, mirror: float, movable: bool) -> SceneObject:
        m = np.diag([mirror, 1.0, 1.0, 1.0])
        m[0, 3] = x
        asset = Asset.of("poster", [facing(1.0, 1.0, Material(base=texture(PRINT)))])
        return SceneObject(f"poster{x}", asset, m, 6, 1 + int(x), movable=movable)

    row = [(0.0, 1.0, False), (3.0, 1.0, True), (6.0, -1.0, False), (9.0, -1.0, True)]
    renderer = renderers.of(scene_of(*(poster(*one) for one in row)), profile)
    expected = np.kron(PRINT, np.ones((2, 2, 1), np.uint8)).astype(int)
    for x, mirror, _ in row:
        asked = (Modality.RGB, Modality.INSTANCE, Modality.NORMALS)
        picture, ids, normals = (i.pixels for i in shots(renderer, SQUARE, asked, at((x, 0, 0))))
        assert np.all(ids == 1 + int(x))
        assert np.all(normals == (0.0, 0.0, -1.0))
        difference = np.abs(picture - (expected if mirror > 0 else expected[:, ::-1])).max(axis=-1)
        assert (difference <= 2).mean() > 0.9


@pytest.mark.parametrize("profile", ALL)
def test_colours_of_vertices_are_linear_factors(renderers: Renderers, profile: str) -> None:
    left, right = (
        facing(2.0, 1.0, paint(0.8), 8, (x, 0.0), (200, 90, 30, 255)) for x in (-1.0, 1.0)
    )
    scene = scene_of(thing("left", left), thing("right", right, movable=True))
    expected = srgb(0.8 * np.array([200, 90, 30]) / 255.0)
    error = patches(shot(renderers.of(scene, profile), CAMERA)) - expected
    assert np.abs(error).max() <= (4.0 if profile == "low" else 1.0)


@pytest.mark.parametrize(("profile", "movable"), [("low", False), ("low", True), ("high", False)])
def test_one_sees_through_the_holes_of_a_mask(
    renderers: Renderers, profile: str, movable: bool
) -> None:
    pixels = np.full((64, 64, 4), 255, np.uint8)
    pixels[16:48, 8:24, 3] = 0
    fence = facing(2.0, 1.0, Material(base=texture(pixels), alpha="mask"))
    scene = scene_of(
        thing("back", facing(4.0, 9.0)), thing("fence", fence, instance=2, movable=movable)
    )
    asked = (Modality.INSTANCE, Modality.DEPTH32)
    ids, depth = (i.pixels for i in shots(renderers.of(scene, profile), CAMERA, asked))
    p = (rays(CAMERA) * 2.0)[..., :2]
    on = np.all(np.abs(p) < 1.0, axis=-1)
    hole = np.all((p > (-0.75, -0.5)) & (p < (-0.25, 0.5)), axis=-1)
    sure = ~(
        np.all((p > (-0.79, -0.54)) & (p < (-0.21, 0.54)), axis=-1)
        ^ np.all((p > (-0.71, -0.46)) & (p < (-0.29, 0.46)), axis=-1)
    )
    assert np.array_equal((ids == 2)[sure], (on & ~hole)[sure])
    assert np.allclose(depth, np.where(ids == 2, 2.0, 4.0), atol=1e-4)


@pytest.mark.parametrize("profile", ["low", "high"])
@pytest.mark.parametrize("near_first", [False, True])
@pytest.mark.parametrize("movable", [False, True])
def test_panes_are_blended_the_far_one_first(
    renderers: Renderers, profile: str, near_first: bool, movable: bool
) -> None:
    def pane(z_m: float, rgb: tuple[float, float, float], instance: int) -> SceneObject:
        material = Material(base_colour=(*rgb, 0.5), alpha="blend")
        return thing(
            f"pane{instance}", facing(z_m, 0.5 * z_m, material), instance=instance, movable=movable
        )

    panes = [pane(2.0, (0.0, 0.6, 0.0), 2), pane(3.0, (0.6, 0.0, 0.0), 3)]
    things = panes if near_first else panes[::-1]
    scene = scene_of(thing("back", facing(4.0, 9.0, paint(0.2)), instance=1), *things)
    asked = (Modality.RGB, Modality.INSTANCE, Modality.DEPTH32)
    rgb, ids, depth = (i.pixels for i in shots(renderers.of(scene, profile), CAMERA, asked))
    shown = srgb if profile != "low" else lambda c: 255 * np.asarray(c) ** (1 / 2.2)
    behind = 0.5 * shown(np.array([0.6, 0.0, 0.0])) + 0.5 * shown(np.full(3, 0.2))
    expected = 0.5 * shown(np.array([0.0, 0.6, 0.0])) + 0.5 * behind
    assert np.abs(patches(rgb) - expected).max() <= 2.0
    assert np.all(ids[110:130, 150:170] == 1), "what lets light through is colour only"
    assert np.allclose(depth[110:130, 150:170], 4.0, atol=1e-4)


@pytest.mark.parametrize("profile", ALL)
def test_what_glows_needs_no_light_and_what_is_unlit_takes_none(
    renderers: Renderers, profile: str
) -> None:
    glow = Material(base_colour=(0.0, 0.0, 0.0, 1.0), emissive_light=(0.5, 0.2, 0.05))
    mapped = replace(glow, emissive=texture(np.full((2, 2, 3), 188)))
    unlit = replace(paint(0.4), unlit=True)
    light = np.array([0.5, 0.2, 0.05])
    for materials, expected in (
        ((glow, mapped), (light, light * linear(188))),
        ((unlit, glow), (np.full(3, 0.4), light)),
    ):
        sides = [thing("left", facing(2.0, 1.0, materials[0], at_m=(-1.0, 0.0))),
                 thing("right", facing(2.0, 1.0, materials[1], at_m=(1.0, 0.0)),
                 movable=True)]  # fmt: skip
        seen = patches(shot(renderers.of(scene_of(*sides, ambient=0.0), profile), CAMERA))
        assert np.abs(seen - srgb(expected)).max() <= (5.0 if profile == "low" else 1.0)


@pytest.mark.parametrize(("profile", "movable"), [("low", False), ("high", True)])
def test_both_sides_of_a_sheet_face_whoever_looks(
    renderers: Renderers, profile: str, movable: bool
) -> None:
    sheet = Material(double_sided=True)
    scene = scene_of(
        thing("two", facing(2.0, 0.5, sheet, at_m=(-0.6, 0.0)), instance=2, movable=movable),
        thing("one", facing(2.0, 0.5, at_m=(0.6, 0.0)), instance=3, movable=movable),
    )
    renderer = renderers.of(scene, profile)
    asked = (Modality.NORMALS, Modality.INSTANCE)
    for T_world_camera, seen in (
        (AHEAD, {0, 2, 3}),
        (at((0, 0, 4), turn((0, 1, 0), 180.0)), {0, 2}),
    ):
        normals, ids = (i.pixels for i in shots(renderer, CAMERA, asked, T_world_camera))
        assert set(np.unique(ids).tolist()) == seen
        assert np.abs(normals[ids > 0].astype(float) - (0.0, 0.0, -1.0)).max() < 1e-6


def test_pixels_and_projection_agree() -> None:
    """The support's own pinhole, by hand: 0.5 m aside at 2 m is a quarter of the focal length."""
    fx, fy, cx, cy = CAMERA.intrinsics_px
    assert projected(CAMERA, np.array([0.5, -0.5, 2.0])) == pytest.approx(
        (cx + 0.25 * fx, cy - 0.25 * fy)
    )
    assert np.allclose(projected(CAMERA, rays(CAMERA)), pixels_of(CAMERA))

"""Finishes of glTF materials as drawn.

Mirror, varnish, fibres, glass, glow, and maps with coordinates of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import SQUARE_UV, GltfFile
from tests.support.gltf_pictures import (
    EVEN,
    PROFILES,
    SUNNY,
    WAYS,
    add_square,
    drawn,
    middle,
    paint,
    picture_use,
    to_display,
    to_linear,
)
from vil_bridge.core.types import Modality
from vil_bridge.optics.tone_curve import toned
from vil_renderer.embedded.lighting.baked import store

pytestmark = pytest.mark.gl

K = "KHR_materials_"
GLOSS: dict[str, Any] = {
    "baseColorFactor": [0.3, 0.2, 0.1, 1.0],
    "metallicFactor": 0.0,
    "roughnessFactor": 0.4,
}


def seen(
    folder: Path, material: dict[str, Any], profile: str = "high", light: Any = EVEN, **more: Any
) -> Any:
    """The linear light of the middle of a square of a material."""
    file = GltfFile()
    add_square(file, material)
    return to_linear(middle(drawn(folder, file, light, profile, **more)))


def with_finish(pbr: dict[str, Any] = GLOSS, **extensions: Any) -> dict[str, Any]:
    return {
        "pbrMetallicRoughness": pbr,
        "extensions": {K + name: value for name, value in extensions.items()},
    }


# --- glow --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [1.0, 4.0, 9.0])
def test_emissive_strength_scales_linear_light(strength: float, tmp_path: Path) -> None:
    glow = paint(0, 0, 0, emissiveFactor=[0.1, 0.05, 0.0])
    glow["extensions"] = {K + "emissive_strength": {"emissiveStrength": strength}}
    for profile in ("medium", "high"):
        found = seen(tmp_path, glow, profile)
        np.testing.assert_allclose(found, np.array([0.1, 0.05, 0.0]) * strength, atol=0.006)


@WAYS
def test_unlit_shows_its_colour_whatever_the_light(
    profile: str, movable: bool, tmp_path: Path
) -> None:
    """Neither sun nor glow change it; the colours of vertices do."""
    file = GltfFile()
    look = paint(0.4, 0.2, 0.1, emissiveFactor=[1, 1, 1], extensions={K + "unlit": {}})
    half = file.accessor(np.tile(np.array([0.5, 0.5, 0.5], "f4"), (4, 1)))
    add_square(file, look, COLOR_0=half)
    expected = (
        to_display([0.2, 0.1, 0.05])
        if profile != "low"
        else 255 * np.array([0.2, 0.1, 0.05]) ** (1 / 2.2)
    )
    for light in (EVEN, SUNNY):
        found = middle(drawn(tmp_path, file, light, profile, movable=movable))
        np.testing.assert_allclose(found, expected, atol=2.5)


# --- mirror ------------------------------------------------------------------------------------


def test_the_default_index_of_refraction_changes_nothing(tmp_path: Path) -> None:
    plain = seen(tmp_path, with_finish())
    np.testing.assert_allclose(seen(tmp_path, with_finish(ior={})), plain, atol=1e-6)
    np.testing.assert_allclose(seen(tmp_path, with_finish(specular={})), plain, atol=1e-6)


def test_the_mirror_grows_with_the_index_of_refraction(tmp_path: Path) -> None:
    """Face on, even light of 0.5.

    A share f0 (1 - rough / 2) of it is mirrored, besides a rim that all have.
    """
    rough = GLOSS["roughnessFactor"]

    def mirrored(n: float, **specular: Any) -> Any:
        return seen(tmp_path, with_finish(ior={"ior": n}, specular=specular)) - 0.5 * np.array(
            [0.3, 0.2, 0.1]
        )

    for n in (1.5, 2.0, 3.0):
        f0 = ((n - 1) / (n + 1)) ** 2
        np.testing.assert_allclose(mirrored(n), 0.5 * f0 * (1 - rough / 2), atol=0.006)
    tinted = mirrored(3.0, specularColorFactor=[1.0, 0.5, 0.0], specularFactor=0.5)
    np.testing.assert_allclose(
        tinted, 0.5 * 0.25 * 0.5 * np.array([1, 0.5, 0]) * (1 - rough / 2), atol=0.006
    )
    np.testing.assert_allclose(mirrored(2.0, specularFactor=0.0), 0.0, atol=0.004)


def test_specular_maps_are_factors(tmp_path: Path) -> None:
    def shown(pixels: Any, name: str) -> Any:
        file = GltfFile()
        described = {"specularFactor": 1.0, name: picture_use(file, pixels)}
        add_square(file, with_finish(ior={"ior": 3.0}, specular=described))
        return to_linear(middle(drawn(tmp_path, file, EVEN, "high")))

    half_weight = np.full((4, 4, 4), (255, 255, 255, 128), np.uint8)
    expected = seen(tmp_path, with_finish(ior={"ior": 3.0}, specular={"specularFactor": 128 / 255}))
    np.testing.assert_allclose(shown(half_weight, "specularTexture"), expected, atol=0.004)
    colour = np.full((4, 4, 3), (255, 188, 0), np.uint8)
    factor = to_linear([255, 188, 0]).tolist()
    expected = seen(
        tmp_path, with_finish(ior={"ior": 3.0}, specular={"specularColorFactor": factor})
    )
    np.testing.assert_allclose(shown(colour, "specularColorTexture"), expected, atol=0.004)


def test_specular_glossiness_is_the_same_metal(tmp_path: Path) -> None:
    """A metal, written in either workflow, with the sun's highlight.

    And its maps against its factors.
    """
    gold, rough = [0.9, 0.6, 0.3], 0.5
    metal = {"baseColorFactor": [*gold, 1.0], "metallicFactor": 1.0, "roughnessFactor": rough}
    expected = seen(tmp_path, {"pbrMetallicRoughness": metal}, light=SUNNY)
    glossy = {"diffuseFactor": [0, 0, 0, 1], "specularFactor": gold, "glossinessFactor": 1 - rough}
    found = seen(tmp_path, with_finish({}, pbrSpecularGlossiness=glossy), light=SUNNY)
    np.testing.assert_allclose(found, expected, atol=0.004)
    file = GltfFile()
    pixels = np.empty((4, 4, 4), np.uint8)
    pixels[:, :] = (*np.rint(to_display(gold)), round(255 * (1 - rough)))
    mapped = {"diffuseFactor": [0, 0, 0, 1], "specularGlossinessTexture": picture_use(file, pixels)}
    add_square(file, with_finish({}, pbrSpecularGlossiness=mapped))
    found = to_linear(middle(drawn(tmp_path, file, SUNNY, "high")))
    np.testing.assert_allclose(found, expected, atol=0.012)


# --- varnish, fibres ---------------------------------------------------------------------------


def test_varnish_mirrors_over_what_it_covers(tmp_path: Path) -> None:
    """Face on, even light: 4 % of it from the varnish, the rest from below."""
    bare = seen(tmp_path, with_finish({**GLOSS, "roughnessFactor": 0.9}))
    for factor, rough in ((1.0, 0.0), (1.0, 0.5), (0.5, 0.0)):
        coat = {"clearcoatFactor": factor, "clearcoatRoughnessFactor": rough}
        found = seen(tmp_path, with_finish({**GLOSS, "roughnessFactor": 0.9}, clearcoat=coat))
        expected = bare * (1 - 0.04 * factor) + factor * 0.5 * 0.04 * (1 - 0.5 * rough)
        np.testing.assert_allclose(found, expected, atol=0.006)
    none = seen(
        tmp_path, with_finish({**GLOSS, "roughnessFactor": 0.9}, clearcoat={"clearcoatFactor": 0.0})
    )
    np.testing.assert_allclose(none, bare, atol=1e-6)


def test_varnish_maps_are_factors(tmp_path: Path) -> None:
    base = {**GLOSS, "roughnessFactor": 0.9}

    def shown(name: str, pixels: Any, **coat: float) -> Any:
        file = GltfFile()
        add_square(file, with_finish(base, clearcoat={**coat, name: picture_use(file, pixels)}))
        return to_linear(middle(drawn(tmp_path, file, SUNNY, "high")))

    half = np.full((4, 4, 3), (128, 0, 0), np.uint8)
    expected = seen(
        tmp_path, with_finish(base, clearcoat={"clearcoatFactor": 128 / 255}), light=SUNNY
    )
    np.testing.assert_allclose(
        shown("clearcoatTexture", half, clearcoatFactor=1.0), expected, atol=0.004
    )
    half = np.full((4, 4, 3), (0, 128, 0), np.uint8)
    coat = {"clearcoatFactor": 1.0, "clearcoatRoughnessFactor": 0.8 * 128 / 255}
    expected = seen(tmp_path, with_finish(base, clearcoat=coat), light=SUNNY)
    found = shown(
        "clearcoatRoughnessTexture", half, clearcoatFactor=1.0, clearcoatRoughnessFactor=0.8
    )
    np.testing.assert_allclose(found, expected, atol=0.004)
    flat = np.full((4, 4, 3), (128, 128, 255), np.uint8)
    expected = seen(tmp_path, with_finish(base, clearcoat={"clearcoatFactor": 1.0}), light=SUNNY)
    np.testing.assert_allclose(
        shown("clearcoatNormalTexture", flat, clearcoatFactor=1.0), expected, atol=0.004
    )


def test_fibres_shine_aside_and_take_from_what_is_below(tmp_path: Path) -> None:
    matt = {**GLOSS, "roughnessFactor": 1.0}
    sheen = {"sheenColorFactor": [0.8, 0.0, 0.0], "sheenRoughnessFactor": 0.5}
    bare, face_on = (
        seen(tmp_path, with_finish(matt, ior={})),
        seen(tmp_path, with_finish(matt, sheen=sheen)),
    )
    aside = seen(tmp_path, with_finish(matt, sheen=sheen), ypr_deg=[75.0, 0.0, 0.0])
    bare_aside = seen(tmp_path, with_finish(matt, ior={}), ypr_deg=[75.0, 0.0, 0.0])
    gained, lost = aside - bare_aside, bare_aside - aside
    assert gained[0] > 0.05 > face_on[0] - bare[0]
    # Of the other colours only as much is left as the fibres let through.
    assert (lost[1:] > 0.0).all()
    taken = lost[1] / bare_aside[1]
    np.testing.assert_allclose(taken, lost[2] / bare_aside[2], atol=0.05)
    # The energy that one colour gains is not more than that the light had.
    assert gained[0] <= 0.5 * taken + 0.02


def test_sheen_maps_are_factors(tmp_path: Path) -> None:
    matt = {**GLOSS, "roughnessFactor": 1.0}
    file = GltfFile()
    pixels = np.full((4, 4, 4), (188, 255, 255, 128), np.uint8)
    use = picture_use(file, pixels)
    sheen: dict[str, Any] = {"sheenColorFactor": [1, 1, 1], "sheenRoughnessFactor": 1.0}
    add_square(
        file,
        with_finish(matt, sheen={**sheen, "sheenColorTexture": use, "sheenRoughnessTexture": use}),
    )
    found = to_linear(middle(drawn(tmp_path, file, SUNNY, "high")))
    same = {
        "sheenColorFactor": to_linear([188, 255, 255]).tolist(),
        "sheenRoughnessFactor": 128 / 255,
    }
    np.testing.assert_allclose(
        found, seen(tmp_path, with_finish(matt, sheen=same), light=SUNNY), atol=0.006
    )


# --- glass -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "movable", "volume"),
    [("low", False, True), ("medium", True, True), ("medium", False, False)],
)
def test_glass_filters_what_is_behind(
    profile: str, movable: bool, volume: bool, tmp_path: Path
) -> None:
    """Light that passes is multiplied with base colour and tint, in linear values."""
    file = GltfFile()
    add_square(file, paint(0.8, 0.8, 0.8, extensions={K + "unlit": {}}), z=-0.5, size=2.0)
    glass = with_finish(
        paint(0.5, 1.0, 0.25)["pbrMetallicRoughness"], transmission={"transmissionFactor": 1.0}
    )
    tint = np.ones(3)
    if volume:
        through = {
            "thicknessFactor": 2.0,
            "attenuationDistance": 1.0,
            "attenuationColor": [0.9, 0.5, 1.0],
        }
        glass["extensions"][K + "volume"] = through
        tint = np.array([0.81, 0.25, 1.0])
    add_square(file, glass)
    found = middle(drawn(tmp_path, file, EVEN, profile, movable=movable))
    expected = 0.8 * np.array([0.5, 1.0, 0.25]) * tint
    shown = to_display(expected) if profile != "low" else 255 * expected ** (1 / 2.2)
    np.testing.assert_allclose(found, shown, atol=6.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_glass_that_lets_nothing_through_is_paint(profile: str, tmp_path: Path) -> None:
    bare = seen(tmp_path, with_finish(), profile)
    file = GltfFile()
    add_square(file, paint(1, 0, 0), z=-0.5, size=2.0)
    black = picture_use(file, np.zeros((4, 4, 3), np.uint8))
    add_square(
        file, with_finish(transmission={"transmissionFactor": 1.0, "transmissionTexture": black})
    )
    found = to_linear(middle(drawn(tmp_path, file, EVEN, profile)))
    np.testing.assert_allclose(found, bare, atol=0.004)


# --- coordinates -------------------------------------------------------------------------------

QUADRANTS = np.zeros((64, 64, 3), np.uint8)
QUADRANTS[:32, :32], QUADRANTS[:32, 32:], QUADRANTS[32:, :32] = (
    (250, 40, 40),
    (40, 250, 40),
    (40, 40, 250),
)
TRANSFORM: dict[str, Any] = {"offset": [0.25, 0.1], "rotation": 0.7, "scale": [1.5, -0.5]}


def moved(uv: Any) -> Any:
    """Coordinates by TRANSFORM, as the extension's text has it: scaled, turned, moved."""
    c, s = np.cos(0.7), np.sin(0.7)
    turned = np.asarray(uv) * [1.5, -0.5] @ np.array([[c, s], [-s, c]]).T
    return (turned + np.array([0.25, 0.1])).astype("f4")


@WAYS
@pytest.mark.parametrize("own", [False, True])
def test_a_transform_is_the_same_as_transformed_coordinates(
    profile: str, movable: bool, own: bool, tmp_path: Path
) -> None:
    """Also where another map of the material has another transform."""
    pictures = []
    for transformed in (False, True):
        file = GltfFile()
        more: dict[str, Any] = (
            {"extensions": {"KHR_texture_transform": TRANSFORM}} if transformed else {}
        )
        look: dict[str, Any] = {
            "pbrMetallicRoughness": {
                "metallicFactor": 0.0,
                "baseColorTexture": picture_use(file, QUADRANTS, **more),
            }
        }
        if own:
            # No light of its own, but a map with other coordinates.
            black: dict[str, Any] = {"extensions": {"KHR_texture_transform": {"scale": [3, 3]}}}
            glow = picture_use(file, np.zeros((4, 4, 3), np.uint8), **black)
            look |= {"emissiveTexture": glow, "emissiveFactor": [1, 1, 1]}
        uv = SQUARE_UV if transformed else moved(SQUARE_UV)
        add_square(file, look, TEXCOORD_0=file.accessor(uv))
        pictures.append(drawn(tmp_path, file, EVEN, profile, movable=movable).astype(int))
    difference = np.abs(pictures[0] - pictures[1]).max(axis=2)
    assert np.percentile(difference, 97) <= 3
    assert pictures[0].std(axis=(0, 1)).max() > 40


@pytest.mark.parametrize(
    ("profile", "movable", "mirror"),
    [("low", False, True), ("medium", True, True), ("high", False, False)],
)
def test_maps_have_coordinates_of_their_own(
    profile: str, movable: bool, mirror: bool, tmp_path: Path
) -> None:
    """Glow by the second coordinates, over black by the first.

    The same as glow by the first alone.
    """
    other = (np.asarray(SQUARE_UV) * 2 - 0.3).astype("f4")
    sampler = {"wrapS": 33648, "wrapT": 33648} if mirror else None
    pictures = []
    for second in (False, True):
        file = GltfFile()
        glow = picture_use(file, QUADRANTS, sampler, texCoord=int(second))
        look: dict[str, Any] = {"emissiveTexture": glow, "emissiveFactor": [1, 1, 1]}
        surface: dict[str, Any] = {"metallicFactor": 0.0, "baseColorFactor": [0, 0, 0, 1]}
        sets = {"TEXCOORD_0": file.accessor(other)}
        if second:
            surface["baseColorTexture"] = picture_use(file, QUADRANTS)
            sets = {"TEXCOORD_0": file.accessor(SQUARE_UV), "TEXCOORD_1": file.accessor(other)}
        add_square(file, {**look, "pbrMetallicRoughness": surface}, **sets)
        pictures.append(drawn(tmp_path, file, EVEN, profile, movable=movable).astype(int))
    assert np.percentile(np.abs(pictures[0] - pictures[1]).max(axis=2), 97) <= 3


def test_second_coordinates_follow_their_vertices_into_baked_light(
    tmp_path: Path, run_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Baking divides vertices; the glow by the second coordinates stays where it was."""
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(run_cache))
    monkeypatch.setattr(store, "RECEIVERS", 2000)
    monkeypatch.setattr(store, "RAYS", 16)
    file = GltfFile()
    surface = {
        "metallicFactor": 0.0,
        "baseColorFactor": [0, 0, 0, 1],
        "baseColorTexture": picture_use(file, QUADRANTS),
    }
    glow = {
        "emissiveTexture": picture_use(file, QUADRANTS, texCoord=1),
        "emissiveFactor": [1, 1, 1],
    }
    other = file.accessor((np.asarray(SQUARE_UV) * 2 - 0.3).astype("f4"))
    # Another surface before it, so that the numbers of its vertices change.
    add_square(file, paint(0.5, 0.5, 0.5), z=-0.5, size=3.0)
    add_square(file, {**glow, "pbrMetallicRoughness": surface}, TEXCOORD_1=other)
    plain, baked = (
        drawn(tmp_path, file, EVEN, "low", baked=baked).astype(int) for baked in (False, True)
    )
    assert np.percentile(np.abs(255.0 * toned(plain / 255.0) - baked).max(axis=2), 97) <= 3
    assert plain.std(axis=(0, 1)).max() > 40


def test_a_mask_by_the_second_coordinates_cuts_in_all_passes(tmp_path: Path) -> None:
    file = GltfFile()
    pixels = np.full((64, 64, 4), 255, np.uint8)
    pixels[:, :32, 3] = 0
    use = picture_use(file, pixels, texCoord=1)
    glow = picture_use(file, np.zeros((4, 4, 3), np.uint8))
    look = {
        "pbrMetallicRoughness": {"baseColorTexture": use, "metallicFactor": 0.0},
        "emissiveTexture": glow,
        "emissiveFactor": [1, 1, 1],
        "alphaMode": "MASK",
    }
    flipped = file.accessor((np.asarray(SQUARE_UV) * [-1, 1] + [1, 0]).astype("f4"))
    add_square(file, look, TEXCOORD_1=flipped)
    found = drawn(tmp_path, file, EVEN, "medium", modality=Modality.INSTANCE)
    assert (found[:, :30] > 0).all() and (found[:, 34:] == 0).all()


@pytest.mark.parametrize("profile", ["low", "high"])
def test_the_nearest_filter_keeps_edges(profile: str, tmp_path: Path) -> None:
    """Two pixels on 64: a step if the sampler says nearest, else a slope."""
    levels = {}
    for name, sampler in (
        ("nearest", {"magFilter": 9728}),
        ("linear", {"magFilter": 9729}),
        ("none", None),
    ):
        file = GltfFile()
        pixels = np.zeros((1, 2, 3), np.uint8)
        pixels[:, 1] = 255
        use = picture_use(file, pixels, {"wrapS": 33071, "wrapT": 33071, **(sampler or {})})
        add_square(
            file,
            paint(1, 1, 1, extensions={K + "unlit": {}})
            | {"pbrMetallicRoughness": {"baseColorTexture": use}},
        )
        row = drawn(tmp_path, file, EVEN, profile)[32, :, 0]
        levels[name] = len(np.unique(row))
    assert levels["nearest"] == 2
    assert levels["linear"] > 20 and levels["none"] > 20

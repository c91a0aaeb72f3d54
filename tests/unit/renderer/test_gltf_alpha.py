"""Alpha of glTF materials as drawn.

Cut out pixel by pixel, blended by the formula and in the right order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.embedded import NOBODY, looking
from tests.support.gltf import GltfFile
from tests.support.gltf_pictures import (
    AWAY_M,
    CAMERA,
    EVEN,
    SUNNY,
    TWO_WAYS,
    add_square,
    drawn,
    middle,
    paint,
    picture_use,
    to_display,
)
from tests.support.opengl import drawing
from vil_bridge.core.types import Modality, View

pytestmark = pytest.mark.gl

LEVELS = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
"""Alpha of 8 x 8 pixels, all different."""
UNLIT: dict[str, Any] = {"extensions": {"KHR_materials_unlit": {}}}


def before_black() -> GltfFile:
    """A file with a black wall behind what is added to it."""
    file = GltfFile()
    add_square(file, paint(0, 0, 0, **UNLIT), z=-2.0, size=8.0)
    return file


def checks(alpha: Any) -> Any:
    """A white picture of 64 x 64 with these 8 x 8 alphas."""
    pixels = np.full((64, 64, 4), 255, np.uint8)
    pixels[:, :, 3] = np.kron(alpha, np.ones((8, 8), np.uint8))
    return pixels


def textured(
    file: GltfFile, pixels: Any, factor: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0), **more: Any
) -> Any:
    surface = {
        "baseColorFactor": factor,
        "metallicFactor": 0.0,
        "baseColorTexture": picture_use(file, pixels),
    }
    return {"pbrMetallicRoughness": surface, **more}


def inner(pixels: Any) -> Any:
    """The picture without the pixels at the edges of its 8 x 8 fields, where filters mix them.

    (8, 8, 4, 4, c).
    """
    return pixels.reshape(8, 8, 8, 8, -1).swapaxes(1, 2)[:, :, 2:6, 2:6]


@pytest.mark.parametrize(
    ("profile", "cutoff", "factor"),
    [
        ("low", 0.5, 1.0),
        ("medium", 0.3, 0.5),
        ("high", 0.5, 1.0),
        ("low", 0.0, 1.0),
        ("low", 1.1, 1.0),
    ],
)
def test_a_mask_cuts_pixel_by_pixel(
    profile: str, cutoff: float, factor: float, tmp_path: Path
) -> None:
    file = before_black()
    add_square(
        file,
        textured(file, checks(LEVELS), (1, 1, 1, factor), alphaMode="MASK", alphaCutoff=cutoff),
    )
    seen = inner(drawn(tmp_path, file, EVEN, profile)).max(axis=4) > 20
    expected = np.broadcast_to((LEVELS / 255.0 * factor >= cutoff)[:, :, None, None], seen.shape)
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize(
    ("profile", "movable", "unlit"),
    [("low", False, True), ("medium", True, False), ("high", False, False)],
)
def test_the_alpha_of_vertices_cuts_too(
    profile: str, movable: bool, unlit: bool, tmp_path: Path
) -> None:
    """From 0 at the bottom to 1 at the top; cut off below 0.75, the upper quarter remains."""
    file = before_black()
    colour = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1]], "f4")
    more = UNLIT if unlit else {}
    add_square(
        file,
        paint(1, 1, 1, alphaMode="MASK", alphaCutoff=0.75, **more),
        COLOR_0=file.accessor(colour),
    )
    red = drawn(tmp_path, file, EVEN, profile, movable=movable)[:, 32, 0] > 20
    assert red[:15].all() and not red[17:].any()
    depth = drawn(tmp_path, file, EVEN, profile, movable=movable, modality=Modality.DEPTH32)[:, 32]
    np.testing.assert_array_equal(depth.ravel() < AWAY_M + 0.5, red)


@TWO_WAYS
def test_opaque_materials_ignore_alpha(profile: str, movable: bool, tmp_path: Path) -> None:
    file = GltfFile()
    colour = np.tile(np.array([1, 1, 1, 0.2], "f4"), (4, 1))
    add_square(file, textured(file, checks(LEVELS), (1, 1, 1, 0.1)), COLOR_0=file.accessor(colour))
    pixels = drawn(tmp_path, file, EVEN, profile, movable=movable)
    assert pixels.min() > 150


@pytest.mark.parametrize(
    ("profile", "movable", "of_vertices"),
    [("low", False, True), ("medium", True, False), ("high", False, False), ("high", True, True)],
)
def test_blending_follows_the_formula(
    profile: str, movable: bool, of_vertices: bool, tmp_path: Path
) -> None:
    """In display values, as glTF viewers show it: front alpha + back (1 - alpha)."""
    file = before_black()
    add_square(file, paint(0.5, 0.0, 0.0, **UNLIT), size=2.0, z=-0.5)
    alpha, colours = 0.25, {}
    if of_vertices:
        colours = {"COLOR_0": file.accessor(np.tile(np.array([1, 1, 1, 0.5], "f4"), (4, 1)))}
        alpha = 0.25 * 0.5
    add_square(file, paint(0.0, 0.0, 0.5, 0.25, alphaMode="BLEND", **UNLIT), **colours)
    seen = middle(drawn(tmp_path, file, EVEN, profile, movable=movable))
    one = to_display(0.5) if profile != "low" else 255 * 0.5 ** (1 / 2.2)
    np.testing.assert_allclose(seen, [one * (1 - alpha), 0, one * alpha], atol=2.0)


@TWO_WAYS
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_far_ones_are_blended_first(
    profile: str, order: tuple[int, ...], movable: bool, tmp_path: Path
) -> None:
    """Three panes of a half, in any order of the file: the nearest one weighs most."""
    file = before_black()
    for which in order:
        colour = np.eye(3)[which].tolist()
        add_square(file, paint(*colour, 0.5, alphaMode="BLEND", **UNLIT), z=-0.3 * which, size=1.5)
    seen = middle(drawn(tmp_path, file, EVEN, profile, movable=movable))
    np.testing.assert_allclose(seen, [127.5, 63.75, 31.9], atol=2.0)


def test_still_and_moving_panes_are_sorted_together(tmp_path: Path) -> None:
    objects = []
    for which, movable in enumerate((False, True, False)):
        file = before_black() if which == 2 else GltfFile()
        add_square(
            file, paint(*np.eye(3)[which].tolist(), 0.5, alphaMode="BLEND", **UNLIT), size=1.5
        )
        name = f"pane{which}"
        file.write(tmp_path, f"{name}.glb")
        place = {"p_m": [-0.3 * which, 0, 0], "movable": movable}
        objects.append({"name": name, "file": f"{name}.glb", **place})
    scene = tmp_path / "scene.yaml"
    scene.write_text(yaml.safe_dump({"scene": "panes", "environment": EVEN, "objects": objects}))
    view = View(CAMERA, Modality.RGB, looking((AWAY_M, 0.0, 0.0), 180.0), 0)
    with drawing(scene, "low") as renderer:
        seen = middle(renderer.render((view,), NOBODY)[0].pixels)
    np.testing.assert_allclose(seen, [127.5, 63.75, 31.9], atol=2.0)


@TWO_WAYS
def test_the_back_of_something_translucent_is_drawn_before_its_front(
    profile: str, movable: bool, tmp_path: Path
) -> None:
    """A folded sheet: one half faces us, the other, behind it, turns its back."""
    file = before_black()
    corners = np.array(
        [[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0],
         [-0.5, -0.5, -0.1], [-0.5, 0.5, -0.1], [0.5, 0.5, -0.1], [0.5, -0.5, -0.1]], "f4",
    )  # fmt: skip
    colour = np.array([[1, 0, 0, 1]] * 4 + [[0, 1, 0, 1]] * 4, "f4")
    look = file.add("materials", paint(1, 1, 1, 0.5, alphaMode="BLEND", doubleSided=True, **UNLIT))
    indices = np.array([0, 1, 2, 0, 2, 3, 4, 5, 6, 4, 6, 7], "u2")
    file.node(mesh=file.mesh(corners, indices, material=look, COLOR_0=file.accessor(colour)))
    seen = middle(drawn(tmp_path, file, EVEN, profile, movable=movable))
    np.testing.assert_allclose(seen, [127.5, 63.75, 0], atol=2.0)


def test_a_translucent_pane_casts_no_shadow_and_a_mask_its_own(tmp_path: Path) -> None:
    """The sun shines along -x onto a wall.

    A pane before it, out of the camera's way, hides the sun.
    """
    sun = {**SUNNY, "sun": {"azimuth_deg": 90, "elevation_deg": 30, "light": [0.6, 0.6, 0.6]}}

    def wall_with(material: dict[str, Any] | None, alpha: float = 1.0) -> float:
        file = GltfFile()
        add_square(file, paint(0.8, 0.8, 0.8))
        if material is not None:
            colour = np.tile(np.array([1, 1, 1, alpha], "f4"), (4, 1))
            node = add_square(
                file, {**paint(0.8, 0.8, 0.8), **material}, z=1.0, COLOR_0=file.accessor(colour)
            )
            # Above the line of sight, in the way of the sun.
            file.json["nodes"][node]["translation"][1] = 1.0 * np.tan(np.radians(30.0))
            file.json["nodes"][node]["scale"] = [0.6, 0.6, 0.6]
        return float(middle(drawn(tmp_path, file, sun, "medium", collider="none"))[1])

    lit = wall_with(None)
    assert wall_with({}) < 0.7 * lit
    assert wall_with({"alphaMode": "BLEND"}) == pytest.approx(lit, abs=1.5)
    mask = {"alphaMode": "MASK", "alphaCutoff": 0.5}
    assert wall_with(mask, alpha=0.4) == pytest.approx(lit, abs=1.5)
    assert wall_with(mask, alpha=0.6) < 0.7 * lit

"""glTF as drawn: mirrored textures, and the backs of double-sided surfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import SQUARE, SQUARE_INDICES, SQUARE_UV, GltfFile
from tests.support.gltf_pictures import AWAY, EVEN, PROFILES, SUNNY, drawn

pytestmark = pytest.mark.gl


def square(
    material: dict[str, Any], uv: Any = SQUARE_UV, sampler: dict[str, int] | None = None
) -> GltfFile:
    """A square of 1 m around the origin that faces along our x.

    Its texture has a red left and a dark top.
    """
    file = GltfFile()
    picture = np.full((64, 64, 3), 200, np.uint8)
    picture[:, :32, 1:] = 0
    picture[:16] = 20
    source = {"source": file.image(picture)}
    texture = file.add(
        "textures",
        source if sampler is None else source | {"sampler": file.add("samplers", sampler)},
    )
    surface = {"baseColorTexture": {"index": texture}, "metallicFactor": 0.0}
    look = file.add("materials", {"pbrMetallicRoughness": surface, **material})
    corners = SQUARE - np.array([0.5, 0.5, 0.0])
    mesh = file.mesh(
        corners, SQUARE_INDICES, TEXCOORD_0=file.accessor(np.asarray(uv, "f4")), material=look
    )
    file.add("scenes", {"nodes": [file.node(mesh=mesh)]})
    return file


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("way", ["u", "v"])
def test_every_second_copy_of_a_mirrored_texture_is_turned_around(
    profile: str, way: str, tmp_path: Path
) -> None:
    sampler = {"wrapS" if way == "u" else "wrapT": 33648}
    twice = np.asarray(SQUARE_UV) * ([2, 1] if way == "u" else [1, 2]) - (
        [1, 0] if way == "u" else [0, 1]
    )
    pixels = drawn(tmp_path, square({}, twice, sampler), EVEN, profile).astype(int)
    axis = 1 if way == "u" else 0
    difference = np.abs(pixels - np.flip(pixels, axis)).max(axis=2)
    assert np.percentile(difference, 95) <= 8, "the two copies are mirror images"
    halves = np.abs(pixels - np.roll(pixels, 32, axis)).max(axis=2)
    assert np.percentile(halves, 95) > 60, "and not repetitions"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("movable", [False, True])
def test_the_back_of_a_double_sided_surface_is_lit_by_what_it_faces(
    profile: str, movable: bool, tmp_path: Path
) -> None:
    """The sun shines along -x.

    One side is bright, the other gets the sky alone, whichever of them is the back.
    """
    plain, both = square({}), square({"doubleSided": True})
    lit = drawn(tmp_path, plain, SUNNY, profile, movable=movable).astype(int)
    unlit = drawn(tmp_path, plain, AWAY, profile, movable=movable).astype(int)
    assert lit.mean() > 1.3 * unlit.mean()
    for light, front, back in ((SUNNY, lit, unlit), (AWAY, unlit, lit)):
        seen = drawn(tmp_path, both, light, profile, movable=movable).astype(int)
        assert np.percentile(np.abs(seen - front), 95) <= 3
        behind = drawn(tmp_path, both, light, profile, back=True, movable=movable).astype(int)
        assert np.percentile(np.abs(behind[:, ::-1] - back), 95) <= 3, (
            "as a front that faces this way"
        )

"""Animated morph targets and mirrored nodes as drawn.

Against plain files with the targets added.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.embedded import looking
from tests.support.gltf import SQUARE_INDICES, GltfFile
from tests.support.gltf_pictures import AWAY_M, CAMERA, CORNERS, EVEN, SUNNY, drawn, middle, paint
from tests.support.opengl import drawing
from vil_bridge.core.errors import AssetError
from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_renderer.embedded.assets.animation import morph_weights, most_morphed
from vil_renderer.embedded.assets.gltf import load_gltf

SIDE = np.array([[0.4, 0, 0]] * 4, "f4")
TOWARDS = np.array([[0, 0, 0.5]] * 4, "f4")
LEAN = np.array([[0.6, 0, -0.4]] * 4, "f4")
"""Turns the normal (0, 0, 1) to (0.6, 0, 0.6)."""
UP = np.tile(np.array([0, 0, 1], "f4"), (4, 1))


def morphed(
    weights: Any, *, rest: Any = (0.0, 0.0), interpolation: str = "LINEAR", **attributes: Any
) -> GltfFile:
    """A small square that two targets move aside and towards the camera.

    Weights (k, 2) at 0, 1, 2 ... s.
    """
    file = GltfFile()
    look = file.add("materials", paint(0.8, 0.4, 0.2, doubleSided=True))
    skinned = attributes.pop("skinned", False)
    if skinned:
        attributes["JOINTS_0"] = file.accessor(np.zeros((4, 4), "u1"))
        attributes["WEIGHTS_0"] = file.accessor(np.tile(np.array([1, 0, 0, 0], "f4"), (4, 1)))
    mesh = file.mesh(
        0.5 * CORNERS, SQUARE_INDICES, material=look, NORMAL=file.accessor(UP), **attributes
    )
    targets = [
        {"POSITION": file.accessor(SIDE), "NORMAL": file.accessor(LEAN)},
        {"POSITION": file.accessor(TOWARDS)},
    ]
    file.json["meshes"][mesh]["primitives"][0]["targets"] = targets
    file.json["meshes"][mesh]["weights"] = list(rest)
    node = file.node(mesh=mesh)
    if skinned:
        file.json["nodes"][node]["skin"] = file.add("skins", {"joints": [file.node()]})
    keys = np.arange(len(weights) if interpolation == "LINEAR" else len(weights) // 3, dtype="f4")
    sampler = {
        "input": file.accessor(keys),
        "output": file.accessor(np.asarray(weights, "f4").ravel()),
    }
    channel = {"sampler": 0, "target": {"node": node, "path": "weights"}}
    described = {
        "name": "talk",
        "samplers": [{**sampler, "interpolation": interpolation}],
        "channels": [channel],
    }
    file.add("animations", described)
    return file


def plain(weights: tuple[float, float]) -> GltfFile:
    """The same square with the targets added."""
    file = GltfFile()
    look = file.add("materials", paint(0.8, 0.4, 0.2, doubleSided=True))
    p = 0.5 * CORNERS + weights[0] * SIDE + weights[1] * TOWARDS
    mesh = file.mesh(
        p,
        SQUARE_INDICES,
        material=look,
        NORMAL=file.accessor((UP + weights[0] * LEAN).astype("f4")),
    )
    file.node(mesh=mesh)
    return file


def test_weights_of_a_clip(tmp_path: Path) -> None:
    asset = load_gltf(morphed([[0, 0], [1, 0.5], [0, -2]], rest=(0.25, 0.0)).write(tmp_path))
    (node,) = asset.nodes
    np.testing.assert_allclose(node.weights, [0.25, 0.0])
    for t_s, expected in (
        (0.0, [0, 0]),
        (0.5, [0.5, 0.25]),
        (1.0, [1, 0.5]),
        (1.5, [0.5, -0.75]),
        (2.5, [0.5, 0.25]),
    ):
        beyond = morph_weights(asset, asset.animations["talk"], t_s)[0]
        np.testing.assert_allclose(beyond + np.array([0.25, 0.0]), expected, atol=1e-6)
    np.testing.assert_allclose(most_morphed(asset, 0), [0.75, 2.0])


def test_cubic_weights_stay_within_their_bound(tmp_path: Path) -> None:
    """In-tangents, values, out-tangents of two weights at each key."""
    keys = [[0, 0], [0, 1], [4, 0], [-3, 0], [1, 0], [2, 5], [1, 1], [0, 0], [0, 0]]
    asset = load_gltf(morphed(keys, interpolation="CUBICSPLINE").write(tmp_path))
    clip = asset.animations["talk"]
    seen = np.array([morph_weights(asset, clip, t)[0] for t in np.linspace(0, 2, 201)])
    np.testing.assert_allclose(seen[[0, 100]], [[0, 1], [1, 0]], atol=1e-6)
    assert (np.abs(seen).max(axis=0) <= most_morphed(asset, 0) + 1e-9).all()


def test_what_cannot_be_morphed_is_refused(tmp_path: Path) -> None:
    file = morphed([[0, 0], [1, 1]])
    target = file.json["meshes"][0]["primitives"][0]["targets"][0]
    file.json["meshes"][0]["primitives"][0]["targets"] = [target] * 65
    file.json["meshes"][0]["weights"] = []
    with pytest.raises(
        AssetError, match=r"65 morph targets that an animation moves; 64 are drawn\. Leave out some"
    ):
        load_gltf(file.write(tmp_path))
    file = morphed([[0, 0], [1, 1], [0, 0]])
    file.json["meshes"][0]["primitives"][0]["targets"].pop()
    file.json["meshes"][0]["weights"] = []
    with pytest.raises(AssetError, match="animation 0 channel 0: 6 values do not fit 3 times"):
        load_gltf(file.write(tmp_path))


@pytest.mark.gl
@pytest.mark.parametrize(
    ("profile", "skinned", "t_s", "weights"),
    [
        ("low", False, 0.0, (0.0, 0.0)),
        ("medium", False, 1.0, (1.0, 0.0)),
        ("high", False, 1.5, (0.5, 0.5)),
        ("high", True, 1.0, (1.0, 0.0)),
        ("low", True, 1.5, (0.5, 0.5)),
    ],
)
def test_a_morph_at_its_weights_is_the_mesh_of_targets_added(
    profile: str, skinned: bool, t_s: float, weights: tuple[float, float], tmp_path: Path
) -> None:
    moving = morphed([[0, 0], [1, 0], [0, 1]], rest=(0.5, 0.0), skinned=skinned)
    found = drawn(tmp_path, moving, SUNNY, profile, t_s=t_s, animation="talk").astype(int)
    expected = drawn(tmp_path, plain(weights), SUNNY, profile, movable=True).astype(int)
    assert np.percentile(np.abs(found - expected).max(axis=2), 98) <= 2
    assert (np.ptp(expected.reshape(-1, 3), axis=0) > 40).any()


@pytest.mark.gl
def test_a_morph_that_leaves_its_place_at_rest_is_still_drawn(tmp_path: Path) -> None:
    """Its ball at rest lies outside of the view."""
    far = np.array([[0, 5.0, 0]] * 4, "f4")
    file = morphed([[0, 0], [1, 0]])
    targets = file.json["meshes"][0]["primitives"][0]["targets"]
    targets[0]["POSITION"] = file.accessor(-far)
    file.json["nodes"][0]["translation"] = [0, 5.0, 0]
    depth = drawn(
        tmp_path, file, EVEN, "low", t_s=0.99999, animation="talk", modality=Modality.DEPTH32
    )
    assert middle(depth.reshape(64, 64, 1)) == pytest.approx(AWAY_M, abs=1e-3)


@pytest.mark.gl
@pytest.mark.parametrize("skinned", [False, True])
def test_the_flow_of_a_morph(skinned: bool, tmp_path: Path) -> None:
    """Two pictures 0.1 s apart: it moves aside by 0.04 m, which are 0.04 x 64 pixels here."""
    morphed([[0, 0], [1, 0]], skinned=skinned).write(tmp_path, "m.glb")
    scene = tmp_path / "scene.yaml"
    thing = {"name": "m", "file": "m.glb", "animation": "talk"}
    scene.write_text(yaml.safe_dump({"scene": "s", "environment": EVEN, "objects": [thing]}))
    view = View(CAMERA, Modality.FLOW, looking((AWAY_M, 0.0, 0.0), 180.0), 0)
    with drawing(scene, "low") as renderer:
        flows = [renderer.render((view,), WorldSnapshot(round(t * 1e8), ()))[0] for t in (1, 2)]
    found = flows[1].pixels[32, 30]
    # The file's x is our left, and the picture's right as seen from the front.
    np.testing.assert_allclose(found, [0.04 * 64, 0.0], atol=0.05)


@pytest.mark.gl
@pytest.mark.parametrize("movable", [False, True])
@pytest.mark.parametrize(
    ("scale", "front"),
    [((1, 1, 1), True), ((-1, 1, 1), True), ((1, 1, -1), False), ((-1, -1, -1), False)],
)
def test_mirrored_nodes_show_their_outside(
    movable: bool, scale: tuple[int, int, int], front: bool, tmp_path: Path
) -> None:
    """Mirrored aside, the square still faces us.

    Mirrored along our line of sight, it turns its back.
    """
    file = GltfFile()
    look = file.add("materials", paint(0.8, 0.1, 0.1))
    node = file.node(mesh=file.mesh(CORNERS, SQUARE_INDICES, material=look), scale=list(scale))
    file.node(children=[node])
    for back in (False, True):
        red = middle(drawn(tmp_path, file, EVEN, "medium", movable=movable, back=back))
        assert (red[0] > 2 * red[2]) == (front != back)

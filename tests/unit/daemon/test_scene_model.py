"""The geometry of the renderer's scene for pages.

The same triangles, few bytes, made outside the bridge.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.splat import Splat, write
from vil_bridge.daemon import scene_geometry as scene_model
from vil_bridge.daemon.scene_geometry import SceneGeometryCache, SceneModel
from vil_renderer.embedded.assets.gltf.read import load_gltf
from vil_renderer.embedded.scene import Scene, static_triangles
from vil_renderer.embedded.scenes import SCENES
from vil_renderer.embedded.servers.browser_scene import main, write_glb

pytestmark = pytest.mark.process


MAKING_S = 300.0


@pytest.fixture(scope="module")
def lab() -> Scene:
    return SCENES["lab"]()


@pytest.fixture(scope="module")
def glb(lab: Scene) -> bytes:
    return write_glb(lab)


def corners(p_m: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Corners of all triangles, in an order that does not depend on theirs, (n, 9)."""
    flat = np.round(p_m[triangles].reshape(-1, 9).astype(np.float64), 3)
    return np.asarray(flat[np.lexsort(flat.T)])


def test_a_reader_of_gltf_sees_every_triangle_where_it_is_in_the_world(
    tmp_path: Path, lab: Scene, glb: bytes
) -> None:
    path = tmp_path / "lab.glb"
    path.write_bytes(glb)
    asset = load_gltf(path)
    parts = [
        corners(part.p_m @ matrix[:3, :3].T + matrix[:3, 3], part.triangles)
        for node, matrix in zip(asset.nodes, asset.asset_from_node(), strict=True)
        for part in node.primitives
    ]
    seen = np.concatenate(parts)
    truth = static_triangles(lab, solid_only=False)
    assert corners(seen.reshape(-1, 3), np.arange(3 * len(seen)).reshape(-1, 3)) == pytest.approx(
        corners(truth.p_m, truth.triangles), abs=2e-3
    )


def test_normals_colours_and_pictures_are_those_of_the_scene(
    tmp_path: Path, lab: Scene, glb: bytes
) -> None:
    path = tmp_path / "lab.glb"
    path.write_bytes(glb)
    floors = {
        part.material.name: part for node in load_gltf(path).nodes for part in node.primitives
    }
    drawn = {
        part.material.name: part
        for thing in lab.objects
        for node in thing.asset.nodes
        for part in node.primitives
    }
    assert floors.keys() == drawn.keys()
    for name, part in floors.items():
        assert np.linalg.norm(part.normal, axis=1) == pytest.approx(1.0, abs=0.02), name
        assert part.material.base_colour == pytest.approx(drawn[name].material.base_colour)
        base, painted = part.material.base, drawn[name].material.base
        assert (base is None) == (painted is None)
        if base is not None and painted is not None:
            assert max(base.texture.pixels.shape[:2]) <= 512
            mean, truth = (t.texture.pixels[..., :3].mean(axis=(0, 1)) for t in (base, painted))
            assert mean == pytest.approx(truth, abs=4.0), name


def test_it_is_small_and_tells_the_gates(lab: Scene, glb: bytes) -> None:
    assert len(glb) < 5_000_000
    model = SceneModel.read("lab", glb)
    assert [gate.name for gate in model.gates] == [gate.name for gate in lab.gates]
    for told, gate in zip(model.gates, lab.gates, strict=True):
        assert told.p_m == pytest.approx(gate.T_world_gate.p_m)
        assert told.q_xyzw == pytest.approx(gate.T_world_gate.q_xyzw)
        assert (told.width_m, told.height_m) == (gate.width_m, gate.height_m)


def test_an_empty_scene_is_a_file_without_triangles(tmp_path: Path, lab: Scene) -> None:
    made = write_glb(Scene("nothing", (), lab.environment))
    assert SceneModel.read("nothing", made).gates == ()
    assert struct.unpack_from("<I", made, 8) == (len(made),)


@pytest.mark.parametrize(
    "glb",
    [b"", b"glTF", b"GIF89a" + bytes(40), struct.pack("<4sIIII", b"glTF", 2, 24, 4, 0) + b"{{{{"],
)
def test_what_is_no_model_is_refused(glb: bytes) -> None:
    with pytest.raises(ValueError):
        SceneModel.read("x", glb)


def test_only_shipped_scenes_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["../../etc/passwd"]) == 2
    names = "alphapilot, blocks, course, empty, forest, garage, hall, lab, street, yard"
    assert f"known: {names}" in capsys.readouterr().err


def scanned_hall(folder: Path) -> Path:
    """Scene file of a red splat on the floor and a green one a metre above, in a unit of 2 m, y
    down.
    """
    flat = (0.2, 0.2, 0.01)
    write(
        folder / "hall.ply",
        [Splat((1, 0, 0), flat, (1, 0, 0), 0.9), Splat((1, -0.5, 0), flat, (0, 0.5, 0), 0.9)],
    )
    path = folder / "my hall.yaml"
    path.write_text("scene: mine\nsplats: {file: hall.ply, scale: 2, up: -y, p_m: [0, 0, 0.5]}\n")
    return path


def test_splats_are_their_surface_in_their_colours(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["--scene", str(scanned_hall(tmp_path))]) == 0
    path = tmp_path / "hall.glb"
    path.write_bytes(capfdbinary.readouterr().out)
    asset = load_gltf(path)
    (node,) = (node for node in asset.nodes if node.primitives)
    (part,) = node.primitives
    assert part.material.unlit and part.colour is not None
    matrix = asset.asset_from_node()[asset.nodes.index(node)]
    p_m = part.p_m @ matrix[:3, :3].T + matrix[:3, 3]
    for colour, height_m in (((255, 0, 0), 0.5), ((0, 55, 0), 1.5)):
        mine = np.abs(part.colour[:, :3].astype(int) - colour).max(axis=1) <= 1
        assert p_m[mine].mean(axis=0)[2] == pytest.approx(height_m, abs=1e-3)
        assert mine.sum() >= 4


def test_a_broken_scene_file_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("scene: mine\nobjects: 3\n")
    assert main(["--scene", str(path)]) == 2
    assert "mine.yaml" in capsys.readouterr().err


@pytest.mark.long
def test_a_scene_file_is_shown_instead_of_what_the_renderer_says(tmp_path: Path) -> None:
    models = SceneGeometryCache(lambda: "empty", str(scanned_hall(tmp_path)))
    try:
        wait_until(lambda: models.newest() is not None, MAKING_S, "made")
        made = models.newest()
        assert made is not None and made.name == "my hall"
    finally:
        models.close()


@pytest.mark.long
def test_a_child_process_makes_it_once_and_another_scene_takes_its_place() -> None:
    wanted: str | None = None
    models = SceneGeometryCache(lambda: wanted)
    try:
        assert models.newest() is None
        wanted = "empty"
        assert models.newest() is None
        wait_until(lambda: models.newest() is not None, MAKING_S, "made")
        made = models.newest()
        assert made is not None
        assert made.name == "empty"
        assert models.newest() is made
        assert models.glb() == made.glb
        wanted = "nowhere"  # the child refuses it
        assert models.newest() is None
        wanted = "empty"
        wait_until(lambda: models.newest() is made, MAKING_S, "the one before")
    finally:
        models.close()


def test_what_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    maker = scene_model._MAKER
    models = SceneGeometryCache(lambda: "empty")
    try:
        monkeypatch.setattr(scene_model, "_MAKER", ("no such program",))
        assert (models.newest(), models.newest()) == (None, None)
        ours = [record for record in caplog.records if "scene empty" in record.getMessage()]
        assert len(ours) == 1  # not again at once
        assert "no geometry of scene empty for 60 s" in caplog.text
        monkeypatch.setattr(scene_model, "_MAKER", maker)
        models._not_before_s = 0.0
        wait_until(lambda: models.newest() is not None, MAKING_S, "made")
    finally:
        models.close()

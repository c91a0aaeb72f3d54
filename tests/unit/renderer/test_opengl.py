"""Renderers on one OpenGL.

The pictures of renderers that have their own, in any order, and nothing left behind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from moderngl import InvalidObject

from tests.support.common import needs_gl
from tests.support.embedded import drone, looking, person
from tests.support.render import camera, plate, scene_of, shots, texture, thing
from tests.support.splat import Splat, write
from vil_bridge.core.types import ImageArray, Lighting, Modality, WorldSnapshot
from vil_bridge.core.weather import Weather
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Material
from vil_renderer.embedded.engine.devices import egl_library, gl_function
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.engine.readback import RingReadback
from vil_renderer.embedded.scene import Lamp, Scene, SplatSet, Sun
from vil_renderer.embedded.servers.queries import SceneAnswers
from vil_renderer.queries.messages import Load, ObjectState, SetObjects

pytestmark = pytest.mark.gl

EYE = looking((0.0, 0.0, 1.5), pitch_deg=10.0)
CHECKS = texture(
    np.kron(np.indices((8, 8)).sum(axis=0) % 2, np.ones((4, 4)))[..., None].repeat(3, axis=2) * 255
)
FLOOR = thing(
    "floor", plate((5.0, 0.0, 0.0), (5.0, 0.0, 0.0), (0.0, 5.0, 0.0), Material(base=CHECKS))
)
ROOF = thing("roof", plate((6.0, 0.0, 3.0), (0.0, 2.0, 0.0), (2.0, 0.0, 0.0)), instance=2)
GLASS = Material(base_colour=(0.2, 0.9, 0.3, 0.5), alpha="blend")
PANE = thing("pane", plate((2.0, 0.4, 1.3), (0.0, -0.4, 0.0), (0.0, 0.0, 0.4), GLASS), instance=3)
MODALITIES = (Modality.RGB, Modality.NORMALS, Modality.INSTANCE)
PROFILES = ("low", "ultra")
_MOST_NAMES = 3000


def sunny() -> tuple[Scene, WorldSnapshot]:
    """A shadow map, mipmaps, a pane that blends, skinned and rigid models."""
    lamp = Lamp("lamp", np.array((3.0, -1.0, 2.0)), np.ones(3))
    scene = scene_of(
        FLOOR, PANE, ambient=0.3, sun=Sun.towards((-0.3, 0.4, 0.8), (0.6, 0.6, 0.5)), lamps=(lamp,)
    )
    return scene, WorldSnapshot(0, (person("human", (4.0, -0.5, 0.0)), drone("d", (3.0, 0.3, 1.0))))


def stormy() -> tuple[Scene, WorldSnapshot]:
    """A map of roofs, air, and rain and snow that blend."""
    weather = Weather(rain=0.8, snow=0.5, fog=0.1, ground_wetness=1.0, ground_snow=0.4)
    return scene_of(FLOOR, ROOF, ambient=0.5), WorldSnapshot(10**9, (), Lighting(weather=weather))


def scanned(folder: Path) -> tuple[Scene, WorldSnapshot]:
    """Splats with a proxy, and a model between them."""
    path = write(
        folder / "scan.ply",
        [Splat((3.0 + i, 0.3 * i - 0.5, 1.2), (0.4, 0.2, 0.1)) for i in range(5)],
    )
    scene = replace(scene_of(FLOOR, ambient=0.7), splats=SplatSet(path, np.eye(4), ("floor",)))
    return scene, WorldSnapshot(0, (drone("d", (2.5, 0.0, 1.2)),))


def pictures(renderer: EmbeddedRenderer, snapshot: WorldSnapshot) -> list[ImageArray]:
    return [
        np.array(image.pixels)
        for image in shots(renderer, camera(size=(96, 72)), MODALITIES, EYE, snapshot)
    ]


def assert_same(ours: list[ImageArray], theirs: list[ImageArray]) -> None:
    for kind, a, b in zip(MODALITIES, ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=kind)


@pytest.fixture
def opengl() -> Iterator[OpenGL]:
    needs_gl()
    with OpenGL() as opened:
        yield opened


def test_the_pictures_are_those_of_renderers_of_their_own_in_any_order(
    opengl: OpenGL, tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    alone: list[tuple[Scene, str, WorldSnapshot, list[ImageArray]]] = []
    for scene, snapshot in (sunny(), stormy(), scanned(tmp_path)):
        for profile in PROFILES:
            with EmbeddedRenderer(scene, profile) as own:
                alone.append((scene, profile, snapshot, pictures(own, snapshot)))
    for scene, profile, snapshot, expected in (*alone, *reversed(alone)):
        with EmbeddedRenderer(scene, profile, device=opengl) as shared:
            assert_same(pictures(shared, snapshot), expected)


def test_one_that_closes_releases_its_memory_and_leaves_the_others_theirs(
    opengl: OpenGL, tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    if isinstance(opengl.readback, RingReadback):
        pytest.skip("buffers of pictures stay for the next ones")
    (scene, snapshot), others = sunny(), (sunny(), stormy(), scanned(tmp_path))
    with EmbeddedRenderer(scene, "ultra", device=opengl) as stays:
        expected = pictures(stays, snapshot)
        held = _names_in_use(opengl)
        for other, seen in others:
            for profile in PROFILES:
                with EmbeddedRenderer(other, profile, device=opengl) as gone:
                    pictures(gone, seen)
                    assert _names_in_use(opengl) > held
                assert _names_in_use(opengl) == held
                assert_same(pictures(stays, snapshot), expected)


def test_a_scene_of_the_same_kind_compiles_nothing(opengl: OpenGL) -> None:
    counts = []
    for _ in range(2):
        scene, snapshot = sunny()
        with EmbeddedRenderer(scene, "high", device=opengl) as renderer:
            pictures(renderer, snapshot)
        counts.append(len(opengl.programs._built))
    assert counts[0] == counts[1] > 0


def test_a_renderer_closes_its_own_opengl_and_not_one_that_is_shared(opengl: OpenGL) -> None:
    own = EmbeddedRenderer(scene_of(FLOOR))
    shared = EmbeddedRenderer(scene_of(FLOOR), device=opengl)
    for renderer in (own, shared):
        renderer.close()
        renderer.close()
    assert isinstance(own._ctx.mglo, InvalidObject)
    assert shared._ctx is opengl.ctx and not isinstance(opengl.ctx.mglo, InvalidObject)


def test_an_object_that_comes_back_is_drawn_on_the_opengl_of_before() -> None:
    needs_gl()
    answers = SceneAnswers(Load("empty", "low", None, 100.0))
    first = answers._scene.renderer
    gone = ObjectState(
        "Floor1", "", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0), 1, gone=True
    )
    answers.answer(SetObjects((gone,), 0), ())
    answers.answer(SetObjects((), 0), ())
    assert answers._scene.renderer is not first
    assert answers._scene.renderer._opengl is first._opengl


def _names_in_use(opengl: OpenGL) -> int:
    """Number of buffers, textures, framebuffers and arrays of vertices that OpenGL has."""
    egl = egl_library()
    assert egl is not None
    asked = (b"glIsBuffer", b"glIsTexture", b"glIsFramebuffer", b"glIsVertexArray")
    with opengl.ctx:
        functions = [
            gl_function(egl, function, ctypes.c_ubyte, ctypes.c_uint) for function in asked
        ]
        return sum(bool(exists(name)) for exists in functions for name in range(1, _MOST_NAMES))

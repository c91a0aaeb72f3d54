"""Objects of a scene that are taken out while it is drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.embedded import looking
from tests.support.geometry_scenes import box, floor, scene_of
from tests.support.opengl import drawing
from vil_bridge.core.types import CameraModel, ImageArray, Modality, View, WorldSnapshot
from vil_renderer.embedded.engine.shader_frame import LIGHT_ONE
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.scene import Environment, Lamp
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.embedded.static_scene import StaticScene

pytestmark = pytest.mark.gl

CAMERA = CameraModel("front", 96, 72, math.radians(70.0))
NOW = WorldSnapshot(0, ())


BESIDE_THE_PALLETS = looking((2.0, -3.6, 1.2), pitch_deg=25.0)
GONE = frozenset(("Pallets3", "Cone4"))


def pictures(renderer: EmbeddedRenderer) -> dict[Modality, ImageArray]:
    kinds = (Modality.RGB, Modality.DEPTH32, Modality.INSTANCE)
    images = renderer.render([View(CAMERA, kind, BESIDE_THE_PALLETS, 0) for kind in kinds], NOW)
    return {image.view.modality: image.pixels for image in images}


@pytest.mark.parametrize("profile", ["low", "high"])
def test_a_scene_without_objects_looks_as_if_it_never_had_them(profile: str) -> None:
    scene = load_scene("hall")
    with drawing(scene, profile) as edited:
        before = pictures(edited)
        edited.take_out(GONE)
        after = pictures(edited)
        assert not GONE & set(edited.instances)
        assert edited.rays is not None and not GONE & set(edited.rays.names)
    rest = replace(scene, objects=tuple(thing for thing in scene.objects if thing.name not in GONE))
    with drawing(rest, profile) as never:
        expected = pictures(never)
    for kind, pixels in expected.items():
        assert (before[kind] != pixels).any()
        np.testing.assert_array_equal(after[kind], pixels)


def test_a_plate_hides_a_lamp_if_it_casts_a_shadow_and_while_it_is_there() -> None:
    dark = Environment(np.zeros(3), np.zeros(3))
    lamp = Lamp("lamp", np.array((0.0, 0.0, 3.0)), np.ones(3))

    def light_below(static: StaticScene) -> int:
        """Level of the floor's vertex below the plate."""
        levels = static.light.bake(dark, (lamp,), display=False).vertices
        (vertex,) = np.flatnonzero((static.mesh.vertices["p"] == 0.0).all(axis=1))
        return int(levels[vertex, 0])

    shading, clear = (
        StaticScene(
            scene_of(floor(), box("plate", (1.0, 1.0, 0.05), (0.0, 0.0, 1.5), casts_shadow=casts))
        )
        for casts in (True, False)
    )
    assert light_below(shading) == 0
    assert light_below(clear) == round(LIGHT_ONE / 3.0)  # the root of a ninth
    shading.take_out(frozenset(("plate",)))
    assert light_below(shading) == light_below(clear)

"""The rasteriser against the ray caster.

Two implementations that share the scene and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import pytest

from tests.support.embedded import looking, prop, rotation
from tests.support.render import PERIOD_NS, Renderers, camera, shots
from vil_benchmarks.render.yardstick import yardstick_scene
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorState, ImageArray, Modality, WorldSnapshot
from vil_renderer.embedded.geometry.raycast_renderer import AuxPictures, RaycastRenderer
from vil_renderer.embedded.postprocess.images import depth16
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenefile import load_scene

pytestmark = pytest.mark.gl

CAMERA = camera("two", (640, 480))
ASKED = (Modality.INSTANCE, Modality.SEMANTIC, Modality.DEPTH, Modality.NORMALS, Modality.FLOW)


@dataclass(frozen=True)
class Case:
    """Two pictures of a moving camera among moving props; the first is only there to move from.

    Attributes:
        unsure: share of the pixels that may see the other of two faces of one thing, a finger's
            breadth behind.
    """

    scene: Scene
    unsure: float
    poses: tuple[Transform, Transform]
    moving: tuple[tuple[ActorState, ...], tuple[ActorState, ...]]


def _props(step: float) -> tuple[ActorState, ...]:
    return (
        prop(
            "crate",
            (-4.0 + 0.06 * step, 0.8, 1.2),
            (0.8, 0.5, 0.6),
            rotation(20.0 + 3.0 * step, 10.0),
        ),
        prop(
            "plank",
            (-2.5, -0.6 - 0.04 * step, 2.0),
            (1.8, 0.2, 0.1),
            rotation(-30.0, 25.0 + 2.0 * step, 4.0 * step),
        ),
        prop("post", (-1.0, 0.3, 1.0), (0.2, 0.2, 2.0)),
    )


CASES = {
    "yardstick": lambda: Case(
        yardstick_scene(),
        0.0,
        (looking((-8.0, 0.3, 2.2), 2.0, 5.0), looking((-7.95, 0.33, 2.18), 3.0, 5.4, 0.5)),
        (_props(0.0), _props(1.0)),
    ),
    "hall": lambda: Case(
        load_scene("hall"),
        1e-4,
        (looking((-8.0, 0.5, 1.8), 4.0, 3.0), looking((-7.96, 0.52, 1.81), 5.2, 3.4, -0.4)),
        (_props(0.0), _props(1.0)),
    ),
}


def both_ways(
    renderers: Renderers, case: Case, profile: str
) -> tuple[dict[Modality, ImageArray], ImageArray, AuxPictures]:
    """What was drawn, where flow is known, and what the rays found."""
    drawn = renderers.of(case.scene, profile)
    earlier, now = (WorldSnapshot(i * PERIOD_NS, actors) for i, actors in enumerate(case.moving))
    shots(drawn, CAMERA, ASKED, case.poses[0], earlier, t_ns=0)
    made = shots(drawn, CAMERA, ASKED, case.poses[1], now, t_ns=PERIOD_NS)
    before = case.poses[0], drawn.pose(earlier)
    traced = RaycastRenderer(case.scene).render_aux(CAMERA, case.poses[1], drawn.pose(now), before)
    valid = made[-1].valid
    assert valid is not None
    return {image.view.modality: image.pixels for image in made}, valid, traced


@pytest.mark.parametrize(
    ("name", "profile"), [("yardstick", "low"), ("yardstick", "high"), ("hall", "low")]
)
def test_raster_and_rays_see_the_same(renderers: Renderers, name: str, profile: str) -> None:
    case = CASES[name]()
    drawn, valid, traced = both_ways(renderers, case, profile)
    same = (drawn[Modality.INSTANCE] == traced.instance) & (
        drawn[Modality.SEMANTIC] == traced.semantic
    )
    assert same.mean() >= 0.999
    assert len(set(np.unique(drawn[Modality.INSTANCE])) & {32768, 32769, 32770}) >= 2, (
        "the props are not in view"
    )
    # Over edges within one object (a box's, say) the two may fall to different sides.
    depth_traced = traced.depth32.astype(np.float64)
    inside = _inside(drawn[Modality.INSTANCE]) & same & ~_creased(traced.normals, depth_traced)
    assert inside.mean() > 0.7
    depth_error = np.abs(drawn[Modality.DEPTH].astype(int) - depth16(traced.depth32.copy()))[inside]
    assert (depth_error > 1).mean() <= case.unsure
    normal = drawn[Modality.NORMALS].astype(np.float64)
    normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-9)
    apart = 2.0 * np.arcsin(0.5 * np.linalg.norm(normal - traced.normals, axis=-1))[inside]
    assert (np.degrees(apart) > 0.1).mean() <= case.unsure
    known = inside & valid & traced.valid
    assert known.sum() >= 0.99 * inside.sum()
    flow_error = np.linalg.norm(drawn[Modality.FLOW] - traced.flow, axis=-1)[known]
    assert (flow_error > 0.01).mean() <= case.unsure
    assert np.linalg.norm(drawn[Modality.FLOW], axis=-1)[known].max() > 3.0, "nothing moved"


def _inside(ids: ImageArray) -> ImageArray:
    """Pixels whose 3 x 3 neighbours are all of the same object, and of an object."""
    wide = ids.astype(np.float32)
    kernel = np.ones((3, 3), np.uint8)
    whole: ImageArray = (cv2.erode(wide, kernel) == cv2.dilate(wide, kernel)) & (ids > 0)
    return whole


def _creased(normals: ImageArray, z_m: ImageArray) -> ImageArray:
    """Pixels beside an edge between faces of one object, or beside a step in its depth."""
    kernel = np.ones((3, 3), np.uint8)
    bend = np.max(
        [cv2.dilate(n, kernel) - cv2.erode(n, kernel) for n in np.moveaxis(normals, -1, 0).copy()],
        axis=0,
    )
    step = cv2.dilate(z_m, kernel) / np.maximum(cv2.erode(z_m, kernel), 1e-6)
    edges: ImageArray = (bend > 0.05) | (step > 1.2)
    return edges

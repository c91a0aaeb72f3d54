"""The quadrotor and the gate that strangers made.

Their size, their propellers, a gate that stands upright and open.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.actors import pose_one, prop, rig
from tests.support.assets import CAMERA, S, scene_file
from tests.support.embedded import looking
from tests.support.render import Renderers, camera, projected, scene_of, shots, thing
from vil_bridge.core.types import FloatArray, Modality
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import Scene

pytestmark = pytest.mark.gl


@cache
def lone(name: str) -> Scene:
    return scene_of(replace(thing(name, instance=5), asset=rig(name)), ambient=0.7)


SIZES_M = {
    # Over everything, along x, y and z, as drawn in the file's own rest.
    "quad_250": (0.288, 0.272, 0.092),
    "crazyflie_2": (0.100, 0.096, 0.027),
    "gate_square": (0.12, 2.1, 2.1),
}


@pytest.mark.parametrize("profile", ["low", "high"])
@pytest.mark.parametrize("name", SIZES_M)
def test_vehicles_and_gate_have_their_size(renderers: Renderers, name: str, profile: str) -> None:
    """Their silhouettes from afar, from the front, the side and above: metres by pixels."""
    size = np.array(SIZES_M[name])
    distance = 40.0 * float(size.max())
    model = camera("far", (200, 200), math.degrees(2 * math.atan(0.6 / 40.0)))
    f = model.intrinsics_px[0]
    renderer = renderers.of(lone(name), profile)
    low, high = _extent(rig(name))
    middle = 0.5 * (low + high)
    for axis, (yaw, pitch) in enumerate(((180.0, 0.0), (-90.0, 0.0), (0.0, 90.0))):
        place = middle + distance * np.eye(3)[axis]
        T = looking((float(place[0]), float(place[1]), float(place[2])), yaw, pitch)
        (ids,) = (i.pixels for i in shots(renderer, model, (Modality.INSTANCE,), T))
        seen = ids == 5
        across = (
            np.array([np.ptp(np.nonzero(seen.any(axis=k))[0]) + 1 for k in (0, 1)]) * distance / f
        )
        expected = {0: size[[1, 2]], 1: size[[0, 2]], 2: size[[1, 0]]}[axis]
        np.testing.assert_allclose(across, expected, rtol=0.03, atol=2.0 * distance / f)


def _extent(asset: Asset) -> tuple[FloatArray, FloatArray]:
    vertices = np.concatenate(
        [
            part.p_m @ m[:3, :3].T + m[:3, 3]
            for node, m in zip(asset.nodes, asset.asset_from_node(), strict=True)
            for part in node.primitives
        ]
    )
    return vertices.min(axis=0), vertices.max(axis=0)


@pytest.mark.parametrize(("name", "height_m"), [("quad_250", 0.6), ("crazyflie_2", 0.2)])
def test_propellers_are_on_top(renderers: Renderers, name: str, height_m: float) -> None:
    """From above one sees all of them; from below motors and arms hide their middles."""
    above = camera("above", (240, 240), 40.0)
    renderer = renderers.of(lone(name))
    middles = _propeller_middles(rig(name))
    shown = []
    for z, pitch in ((height_m, 90.0), (-height_m, -90.0)):
        T = looking((0.0, 0.0, z), 0.0, pitch)
        (depth,) = (i.pixels for i in shots(renderer, above, (Modality.DEPTH32,), T))
        p_camera = T.inverse().apply(middles)
        u, v = np.rint(projected(above, p_camera)).astype(int).T
        shown.append((np.abs(depth[v, u] - p_camera[:, 2]) < 0.005).mean())
    assert shown[0] > 0.8
    assert shown[1] < shown[0] - 0.1


def _propeller_middles(asset: Asset) -> FloatArray:
    """Middles of the propellers' triangles, (n, 3)."""
    places = zip(asset.nodes, asset.asset_from_node(), strict=True)
    corners = [
        (part.p_m @ m[:3, :3].T + m[:3, 3])[part.triangles]
        for node, m in places
        for part in node.primitives
        if "prop" in node.name
    ]
    middles: FloatArray = np.concatenate(corners).mean(axis=1)
    return middles


def test_the_gate_stands_upright_and_open(renderers: Renderers) -> None:
    (ids,) = (
        i.pixels
        for i in shots(renderers.of(lone("gate_square")), CAMERA, (Modality.INSTANCE,), GATE_AHEAD)
    )
    f, _, cx, cy = CAMERA.intrinsics_px
    half = f * 0.7 / 3.44
    assert not ids[
        round(cy - half + 2) : round(cy + half - 1), round(cx - half + 2) : round(cx + half - 1)
    ].any()
    for du, dv in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        assert ids[round(cy + 1.2 * dv * half), round(cx + 1.2 * du * half)] == 5


GATE_AHEAD = looking((-3.5, 0.0, 0.0))


def test_the_quadrotor_turns_its_propellers_as_a_prefab(
    renderers: Renderers, tmp_path: Path
) -> None:
    """Its file looks along glTF's x.

    Turned by -90 degrees its camera is ahead, and its propellers turn.
    """
    text = """\
scene: prefab
prefabs:
  quad: {file: ASSETS/quad_250.glb, yaw_deg: -90, spin: {prop_0: 3, prop_1: -3, prop_2: 3,
      prop_3: -3}}
"""
    scene = scene_file(tmp_path, text)
    prefab = scene.prefabs["quad"]
    cast = ActorModels(scene)
    start, later = (
        pose_one(cast, prop("quad", (1.0, 2.0, 3.0), prefab="quad"), t_ns) for t_ns in (0, S // 18)
    )
    lens, blades = (prefab.asset.node_named(name) for name in ("camera", "prop_0"))
    (part,) = prefab.asset.nodes[lens].primitives
    place = start.world_from_node[lens]
    middle = (part.p_m @ place[:3, :3].T + place[:3, 3]).mean(axis=0)
    np.testing.assert_allclose(middle - (1.0, 2.0, 3.0), (0.055, 0.0, 0.016), atol=0.003)
    turned = np.linalg.inv(start.world_from_node[blades]) @ later.world_from_node[blades]
    # A sixth of a turn about its own axis, which stands upright.
    assert np.degrees(np.arccos(0.5 * (np.trace(turned[:3, :3]) - 1.0))) == pytest.approx(
        60.0, abs=1e-3
    )
    axis = start.world_from_node[blades][:3, 2]
    assert abs(axis[2]) > 0.999

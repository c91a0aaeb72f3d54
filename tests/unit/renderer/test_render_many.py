"""Many things are cheap, and drawn as few are.

Drawing order, rays among a crowd, shade on the ground.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.geometry_scenes import (
    box_primitive,
    floor,
    human,
    posed,
    scene_of,
    sphere_primitive,
)
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Primitive
from vil_renderer.embedded.engine.vertices import in_drawing_order
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.lighting.ground_shade import GroundShade
from vil_renderer.embedded.posed_models import PosedModels


def corners(part: Primitive) -> FloatArray:
    """Positions, normals and texture coordinates at each triangle's corners, (m, 3, 8), in an
    order of their own.
    """
    rows = np.concatenate((part.p_m, part.normal, part.uv), axis=1)[part.triangles].astype(
        np.float64
    )
    first = rows[:, :, :3].round(6) @ np.array([1.0, 1e3, 1e6])
    turned = np.array(
        [np.roll(row, -int(np.argmin(key)), axis=0) for row, key in zip(rows, first, strict=True)]
    )
    ordered: FloatArray = turned[np.lexsort(turned.reshape(len(turned), -1).T)]
    return ordered


def shaded(part: Primitive) -> int:
    """Vertices shaded by a renderer that remembers 256 of them by the low byte of their index."""
    remembered: dict[int, int] = {}
    count = 0
    for index in part.triangles.ravel().tolist():
        if remembered.get(index % 256) != index:
            remembered[index % 256] = index
            count += 1
    return count


def test_drawing_order_keeps_the_surface_and_shades_vertices_once() -> None:
    smooth = sphere_primitive(1.0)
    shuffle = np.random.default_rng(5).permutation(len(smooth.triangles))
    part = replace(smooth, triangles=smooth.triangles[shuffle])
    ordered = in_drawing_order(part)
    np.testing.assert_array_equal(corners(ordered), corners(part))
    used = len(np.unique(part.triangles))
    assert shaded(part) > 2 * used
    assert shaded(ordered) < 1.2 * used


def test_a_part_of_several_islands_and_spare_vertices_is_ordered_too() -> None:
    box = box_primitive((1, 2, 3))
    spare = replace(box, triangles=box.triangles[2:5])
    np.testing.assert_array_equal(corners(in_drawing_order(spare)), corners(spare))


def test_few_rays_among_a_crowd_hit_what_many_rays_hit() -> None:
    rng = np.random.default_rng(11)
    asset = Asset.of("ball", [box_primitive((0.1, 0.2, 0.3))])
    world = RayWorld(scene_of(floor()))
    crowd = [
        posed(f"p{i}", asset, Transform.of(rng.uniform((-4, -4, 0.5), (4, 4, 4))))
        for i in range(300)
    ]
    world.update(crowd)
    o, d = rng.uniform((-4, -4, 4.5), (4, 4, 5), (600, 3)), rng.standard_normal((600, 3))
    d[::2, 2] = -np.abs(d[::2, 2])  # half of them into the crowd
    many = world.cast(o, d)
    assert np.mean(many.part > 0) > 0.2
    for ray in range(0, 600, 12):
        few = world.cast(o[ray : ray + 2], d[ray : ray + 2])
        np.testing.assert_array_equal(few.part, many.part[ray : ray + 2])
        np.testing.assert_allclose(few.distance_m, many.distance_m[ray : ray + 2], rtol=1e-6)
        way = np.minimum(few.distance_m, 20.0)[:, None] * d[ray : ray + 2]
        assert not world.occluded(o[ray : ray + 2], o[ray : ray + 2] + 0.98 * way).any()
        behind = world.occluded(o[ray : ray + 2], o[ray : ray + 2] + 1.05 * way)
        np.testing.assert_array_equal(behind, few.part >= 0)


def test_shade_lies_on_the_ground_below_those_who_are_shown() -> None:
    asset = Asset.of("box", [box_primitive((0.2, 0.2, 0.2))])
    low, high, gone = (
        posed(name, asset, Transform.of(p_m))
        for name, p_m in (("low", (1, 2, 0.5)), ("high", (-1, 0, 3.0)), ("gone", (0, 0, 9.0)))
    )
    tiny = posed("tiny", asset, Transform.of((0, 3, 0.5)), (0.02, 0.02, 0.02))
    models = PosedModels.of([low, high, gone, tiny])
    shade = GroundShade(models, RayWorld(scene_of(floor())))
    rows = shade.of(models.shown((), ""))
    np.testing.assert_allclose(rows[:, :3], [[1, 2, 0], [-1, 0, 0]], atol=1e-5)
    assert rows[1, 3] > rows[0, 3] > 0.2, "wider with height"
    assert rows[1, 4] == pytest.approx(0.55 / 4.0)
    np.testing.assert_array_equal(shade.of(models.shown(("low",), "")), rows[1:])
    assert len(GroundShade(models, None).of(models.shown((), ""))) == 0


@pytest.mark.parametrize("sunk_m", [0.0, 0.02])
def test_what_stands_on_the_ground_is_shaded_along_its_length(sunk_m: float) -> None:
    """A box of 4 m by 1 m, turned: its patches lie under it and reach out on both sides.

    The same one above has one.
    """
    asset = Asset.of("box", [box_primitive((2.0, 0.5, 0.5))])
    turned = Transform.of((1, 2, 0.5 - sunk_m), (0, 0, math.sin(0.3), math.cos(0.3)))
    boxes = [
        posed(n, asset, T, (2.0, 0.5, 0.5))
        for n, T in (("on", turned), ("up", Transform.of((-2, -2, 1.5))))
    ]
    models = PosedModels.of(boxes)
    shade = GroundShade(models, RayWorld(scene_of(floor())))
    rows = shade.of(models.shown(("up",), ""))
    in_box = (rows[:, :2] - (1, 2)) @ np.array(
        [[math.cos(0.6), -math.sin(0.6)], [math.sin(0.6), math.cos(0.6)]]
    )
    np.testing.assert_allclose(in_box, [[-1.5, 0], [-0.5, 0], [0.5, 0], [1.5, 0]], atol=1e-5)
    np.testing.assert_allclose(rows[:, 2], 0.0, atol=1e-5)
    assert (rows[:, 3] > 0.6).all()
    assert len(shade.of(models.shown(("on",), ""))) == 1


def test_what_is_higher_than_long_is_shaded_below_its_middle() -> None:
    """A person without a skeleton stands between the ends of her arms."""
    asset = Asset.of("person", [box_primitive((0.2, 0.6, 0.9))])
    models = PosedModels.of([posed("on", asset, Transform.of((1, 2, 0)), (0.2, 0.6, 0.9))])
    rows = GroundShade(models, RayWorld(scene_of(floor()))).of(models.shown((), ""))
    np.testing.assert_allclose(rows[:, :3], [[1, 2, 0]], atol=1e-5)


def test_feet_have_patches_of_their_own() -> None:
    feet = [(x, y, 0.05, x + 0.2, y, 0.05, 0.05, 0.04) for x, y in ((0.0, 0.1), (0.4, -0.1))]
    trunk = (0.2, 0, 0.9, 0.2, 0, 1.4, 0.15, 0.15)
    T = Transform.of((0.2, 0.0, 0.9))
    person = replace(human("person", [*feet, trunk]), T_world_body=T, half_size_m=(0.3, 0.3, 0.9))
    models = PosedModels.of(
        [
            person,
            posed("box", Asset.of("box", [box_primitive((0.2,) * 3)]), Transform.of((3, 3, 1))),
        ]
    )
    rows = GroundShade(models, RayWorld(scene_of(floor()))).of(models.shown(("box",), ""))
    wide, near = rows[rows[:, 3] > 0.2], rows[rows[:, 3] < 0.2]
    np.testing.assert_allclose(wide[:, :3], [[0.2, 0, 0]], atol=1e-5)
    assert len(near) == 6, "both ends and the middle of each foot"
    assert sorted(set(np.rint(near[:, 1] * 10).tolist())) == [-1, 1]
    assert (near[:, 4] > wide[0, 4]).all(), "darker than the wide one"
    lifted = np.add(person.capsules, (0, 0, 0.5, 0, 0, 0.5, 0, 0))
    jump = PosedModels.of([replace(person, capsules=lifted)])
    assert len(GroundShade(jump, RayWorld(scene_of(floor()))).of(jump.shown((), ""))) == 1

"""glTF files that nobody here made.

A warehouse, people, a character with clips, two vehicles, a gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import trimesh

from tests.support.common import data_dir
from vil_renderer.embedded.assets.animation import sample
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.model import Asset, Node, Primitive

# Nodes, triangles, materials in use, clips.
FILES = {
    "aws_small_warehouse": (54, 15003, 14, 0),
    "crazyflie_2": (7, 3754, 6, 0),
    "gate_square": (4, 48, 1, 0),
    "human_female_cmu": (33, 27036, 1, 0),
    "human_male_cmu": (33, 27036, 1, 0),
    "human_male_fingers": (55, 27036, 1, 0),
    "kaykit_rogue": (54, 6377, 1, 76),
    "quad_250": (24, 1488, 6, 0),
}
PEOPLE = {
    "human_female_cmu": (31, 1.60),
    "human_male_cmu": (31, 1.74),
    "human_male_fingers": (53, 1.74),
}


@cache
def asset(name: str) -> Asset:
    return load_gltf(data_dir("assets") / f"{name}.glb")


def parts(of: Asset) -> Iterator[tuple[Node, Primitive, Any]]:
    """Every primitive with its node and its rigid place in our axes."""
    for node, matrix in zip(of.nodes, of.asset_from_node(), strict=True):
        for part in node.primitives:
            yield node, part, matrix


def corners(of: Asset) -> Any:
    """Positions of all corners of all triangles in our axes, (m, 3, 3), float64, skins left
    aside.
    """
    found = [(p.p_m.astype(float) @ m[:3, :3].T + m[:3, 3])[p.triangles] for _, p, m in parts(of)]
    return np.concatenate(found)


@pytest.mark.parametrize("name", FILES)
def test_every_file_loads(name: str) -> None:
    found = asset(name)
    used = {id(part.material) for _, part, _ in parts(found)}
    triangles = sum(len(part.triangles) for _, part, _ in parts(found))
    assert (len(found.nodes), triangles, len(used), len(found.animations)) == FILES[name]
    for index, node in enumerate(found.nodes):
        assert -1 <= node.parent < index
    for _, part, _ in parts(found):
        np.testing.assert_allclose(np.linalg.norm(part.normal, axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", FILES)
def test_an_independent_reader_sees_the_same(name: str) -> None:
    """Corners of all triangles, texture coordinates and base colours against trimesh's glTF
    reader.
    """
    found = asset(name)
    scene = trimesh.load_scene(
        data_dir("assets") / f"{name}.glb", process=False, merge_primitives=False
    )
    theirs, their_uv = [], []
    for place in scene.graph.nodes_geometry:
        matrix, key = scene.graph[place]
        mesh = scene.geometry[key]
        points = mesh.vertices @ matrix[:3, :3].T + matrix[:3, 3]
        theirs.append((points @ found.root[:3, :3].T)[mesh.faces])
        # They count v from the bottom.
        their_uv.append((np.asarray(mesh.visual.uv) * [1, -1] + [0, 1])[mesh.faces])
    ours, expected = corners(found), np.concatenate(theirs)
    our_uv = np.concatenate([part.uv[part.triangles] for _, part, _ in parts(found)])
    assert ours.shape == expected.shape
    order, their_order = by_place(ours), by_place(expected)
    np.testing.assert_allclose(ours[order], expected[their_order], atol=2e-5)
    # Triangles in the same place (both sides of a sheet) have no order of their own: compare them
    # all together.
    np.testing.assert_allclose(
        np.sort(our_uv.reshape(-1, 2), 0), np.sort(np.vstack(their_uv).reshape(-1, 2), 0), atol=1e-5
    )
    for part, mesh in (
        (part, scene.geometry[node.name])
        for node, part, _ in parts(found)
        if node.name in scene.geometry
    ):
        factor = mesh.visual.material.baseColorFactor
        if factor is not None:
            np.testing.assert_allclose(np.array(part.material.base_colour) * 255, factor, atol=1.0)


def by_place(triangles: Any) -> Any:
    """An order of triangles that does not depend on how they are stored: by rounded corners."""
    rounded = np.round(triangles.reshape(len(triangles), 9), 3) + 0.0
    return np.lexsort(rounded.T[::-1])


def test_warehouse() -> None:
    points = corners(asset("aws_small_warehouse")).reshape(-1, 3)
    np.testing.assert_allclose(np.ptp(points, axis=0), (20.9, 14.0, 10.2), atol=0.1)
    assert points[:, 2].min() == pytest.approx(-0.09, abs=0.02)
    textures = {
        id(p.material.base.texture): p.material.base
        for _, p, _ in parts(asset("aws_small_warehouse"))
        if p.material.base
    }
    assert len(textures) == 14
    assert all(use.texture.pixels.dtype == np.uint8 for use in textures.values())


def test_warehouse_with_small_textures() -> None:
    small = load_gltf(data_dir("assets") / "aws_small_warehouse.glb", texture_limit_px=64)
    sides = {
        max(p.material.base.texture.pixels.shape) for _, p, _ in parts(small) if p.material.base
    }
    assert sides and max(sides) <= 64


def skinned(of: Asset, node: Node, part: Primitive, world: Any) -> Any:
    """Positions of a skinned primitive's vertices in our axes, as glTF defines them."""
    assert node.skin is not None and part.joints is not None and part.weights is not None
    matrices = world[list(node.skin.joints)] @ node.skin.inverse_bind
    blended = np.einsum("nk,nkij->nij", part.weights.astype(float), matrices[part.joints])
    homogeneous = np.column_stack((part.p_m.astype(float), np.ones(len(part.p_m))))
    return np.einsum("nij,nj->ni", blended, homogeneous)[:, :3]


@pytest.mark.parametrize("name", PEOPLE)
def test_people_stand_on_the_floor(name: str) -> None:
    joints, height_m = PEOPLE[name]
    found = asset(name)
    ((node, part, _),) = parts(found)
    assert node.skin is not None
    assert len(node.skin.joints) == joints
    points = skinned(found, node, part, found.asset_from_node())
    # At rest the bones change nothing: what is left are the axes.
    np.testing.assert_allclose(points, part.p_m @ found.root[:3, :3].T, atol=1e-5)
    assert points[:, 2].min() == pytest.approx(0.0, abs=0.01)
    assert points[:, 2].max() == pytest.approx(height_m, abs=0.01)
    # Both arms to the sides, the toes ahead of the heels.
    assert points[:, 1].max() == pytest.approx(-points[:, 1].min(), abs=0.01)
    feet = points[points[:, 2] < 0.05]
    assert feet[:, 0].max() > -feet[:, 0].min()
    assert part.weights is not None
    np.testing.assert_allclose(part.weights.sum(axis=1), 1.0, atol=1e-5)


def test_a_turned_bone_moves_what_hangs_on_it() -> None:
    found = asset("human_male_cmu")
    ((node, part, _),) = parts(found)
    arm = found.node_named("LeftArm")
    assert arm >= 0
    local = found.rest_local()
    rest = skinned(found, node, part, found.asset_from_node())
    local[arm, :3, :3] @= [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    moved = np.linalg.norm(skinned(found, node, part, found.asset_from_node(local)) - rest, axis=1)
    # The left is +y; traces of weight reach over the chest.
    assert moved[rest[:, 1] < -0.1].max() < 0.002
    assert moved[rest[:, 1] > 0.5].min() > 0.2


def test_clips_of_the_character_move_its_joints_continuously() -> None:
    found = asset("kaykit_rogue")
    assert len(found.animations) >= 75
    assert {"Idle", "Walking_A"} <= set(found.animations)
    skins = {id(node.skin): node.skin for node in found.nodes if node.skin is not None}
    (skin,) = skins.values()
    joints = list(skin.joints)
    for name in ("Idle", "Walking_A", "Running_A", "Jump_Full_Long"):
        clip = found.animations[name]
        times = np.arange(0.0, clip.duration_s, 1 / 60)
        path = np.array(
            [found.asset_from_node(sample(found, clip, t))[joints, :3, 3] for t in times]
        )
        assert np.isfinite(path).all()
        assert np.ptp(path, axis=0).max() > 0.02, f"{name} does not move"
        # A joint of a character of 2 m is slower than 20 m/s.
        assert np.linalg.norm(np.diff(path, axis=0), axis=2).max() < 20 / 60


def test_walking_begins_where_it_ends() -> None:
    found = asset("kaykit_rogue")
    clip = found.animations["Walking_A"]
    start, end = (
        found.asset_from_node(sample(found, clip, t, loop=False)) for t in (0.0, clip.duration_s)
    )
    np.testing.assert_allclose(start, end, atol=1e-2)
    again = found.asset_from_node(sample(found, clip, 2.3 * clip.duration_s))
    np.testing.assert_allclose(
        again, found.asset_from_node(sample(found, clip, 0.3 * clip.duration_s)), atol=1e-9
    )

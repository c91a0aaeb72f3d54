"""Point clouds and occupancy against the surfaces they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from scipy.spatial import KDTree

from tests.support.geometry_scenes import (
    box,
    floor,
    opened_points,
    place,
    posed,
    primitive,
    scene_of,
    sphere_primitive,
    thing,
)
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_exp, q_to_matrix
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.geometry.occupancy import OccupancyGrid
from vil_renderer.embedded.geometry.point_cloud import Box, sample_cloud, voxel_cloud, write_ply
from vil_renderer.embedded.geometry.separation import OrientedBox

BALL = thing(
    "ball",
    Asset.of("ball", [sphere_primitive(1.0, 64)]),
    place((0, 0, 1.5)),
    semantic=7,
    instance=3,
)


def test_voxels_are_the_cells_whose_sphere_meets_the_surface() -> None:
    """All cells of a box about a ball, each judged by the ball's equation, but for those at the
    very edge.
    """
    cell = 0.1
    area = Box(np.array([0.1, 0.0, 1.5]), np.array([2.6, 2.4, 2.6]))
    cloud = voxel_cloud(scene_of(BALL), cell, area)
    n = [26, 24, 26]
    steps = [
        area.centre_m[i] - 0.5 * area.size_m[i] + cell * (np.arange(n[i]) + 0.5) for i in range(3)
    ]
    grid = np.stack(np.meshgrid(*steps, indexing="ij"), -1).reshape(-1, 3)
    gap = np.abs(np.linalg.norm(grid - (0, 0, 1.5), axis=1) - 1.0)
    sure, never = grid[gap < cell - 2e-3], gap > cell + 2e-3
    got = {tuple(p) for p in np.round(cloud.p_m / 0.01).astype(int)}
    assert got.issuperset(tuple(p) for p in np.round(sure / 0.01).astype(int))
    assert got.isdisjoint(tuple(p) for p in np.round(grid[never] / 0.01).astype(int))
    assert len(got) == len(cloud.p_m)
    assert set(cloud.semantic) == {7}


def test_voxels_of_one_sloped_triangle_by_brute_force() -> None:
    corners = np.array([[-3.0, -2.0, 0.1], [4.0, 0.5, 1.3], [0.5, 3.0, 2.9]])
    scene = scene_of(thing("t", Asset.of("t", [primitive(corners, [[0, 1, 2]])])))
    cell = 0.4
    cloud = voxel_cloud(scene, cell, Box(np.zeros(3), np.full(3, 8.0)))
    u, v = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201))
    u, v = u[u + v <= 1], v[u + v <= 1]
    on = (
        corners[0] + u[:, None] * (corners[1] - corners[0]) + v[:, None] * (corners[2] - corners[0])
    )
    steps = np.arange(-4 + cell / 2, 4, cell)
    tree = KDTree(on)
    grid = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    distance = tree.query(grid)[0]
    got = {tuple(p) for p in np.round(cloud.p_m * 1000).astype(int)}
    assert got.issuperset(tuple(p) for p in np.round(grid[distance <= cell] * 1000).astype(int))
    assert got.isdisjoint(
        tuple(p) for p in np.round(grid[distance > cell + 0.02] * 1000).astype(int)
    )


def test_box_has_flightmares_number_of_cells() -> None:
    """20 m in steps of 0.15 m: 133 cells, the last centre at +9.875 m."""
    wide = thing(
        "plane", Asset.of("p", [primitive([[-50, -50, 0], [50, -50, 0], [0, 90, 0]], [[0, 1, 2]])])
    )
    cloud = voxel_cloud(scene_of(wide), 0.15, Box(np.zeros(3), np.array([20.0, 20.0, 0.3])))
    x = np.unique(cloud.p_m[:, 0])
    assert len(x) == 133
    np.testing.assert_allclose((x[0], x[-1]), (-9.925, 9.875), atol=1e-5)
    assert len(cloud.p_m) == 133 * 133 * 2


def test_sampled_points_lie_on_the_surface_evenly() -> None:
    scene = scene_of(floor(), box("crate", (0.5, 1.0, 1.5), (3, 0, 4), movable=True))
    cloud = sample_cloud(scene, 0.1, seed=4)
    on_floor = cloud.instance == 10
    crate_area = 8 * (0.5 * 1.0 + 1.0 * 1.5 + 0.5 * 1.5)
    assert len(cloud.p_m) == round((400 + crate_area) / 0.01)
    assert on_floor.sum() == pytest.approx(40000, abs=2)
    np.testing.assert_allclose(cloud.p_m[on_floor, 2], 0.0, atol=1e-6)
    away, _ = OrientedBox(np.array([3.0, 0, 4]), np.eye(3), np.array([0.5, 1.0, 1.5])).distance(
        cloud.p_m[~on_floor].astype(float)
    )
    np.testing.assert_allclose(away, 0.0, atol=1e-5)
    quarter = on_floor & (cloud.p_m[:, 0] > 0) & (cloud.p_m[:, 1] > 0)
    assert quarter.sum() == pytest.approx(10000, rel=0.03)
    np.testing.assert_array_equal(cloud.p_m, sample_cloud(scene, 0.1, seed=4).p_m)
    part = sample_cloud(scene, 0.1, Box(np.array([3.0, 0, 4]), np.array([1.2, 2.2, 3.2])))
    assert set(part.instance) == {20}


@pytest.mark.parametrize("labels", [False, True])
def test_trimesh_opens_the_file(tmp_path: Path, labels: bool) -> None:
    cell = 0.2
    cloud = voxel_cloud(scene_of(BALL, floor()), cell, Box(np.array([0, 0, 1.0]), np.full(3, 4.0)))
    path = tmp_path / "made" / "cloud.ply"
    write_ply(path, cloud, labels=labels)
    p_m = opened_points(path)
    np.testing.assert_array_equal(p_m, cloud.p_m)
    ball = np.abs(np.linalg.norm(p_m - (0, 0, 1.5), axis=1) - 1.0)
    assert np.minimum(ball, np.abs(p_m[:, 2])).max() <= cell
    header = path.read_bytes().split(b"end_header\n")[0].decode().splitlines()
    assert header[:3] == [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(cloud.p_m)}",
    ]
    assert len(header) == 3 + (8 if labels else 3)
    assert path.stat().st_size == len("\n".join(header)) + 12 + len(cloud.p_m) * (
        28 if labels else 12
    )
    assert [p.name for p in path.parent.iterdir()] == ["cloud.ply"]


def test_labels_arrive_in_the_file(tmp_path: Path) -> None:
    cloud = sample_cloud(scene_of(BALL, floor()), 0.5)
    write_ply(tmp_path / "c.ply", cloud, labels=True)
    raw = trimesh.load(tmp_path / "c.ply").metadata["_ply_raw"]["vertex"]["data"]
    np.testing.assert_array_equal(np.ravel(raw["semantic"]), cloud.semantic)
    np.testing.assert_array_equal(np.ravel(raw["instance"]), cloud.instance)
    np.testing.assert_array_equal(np.ravel(raw["nz"]), cloud.normal[:, 2])


def test_too_much_is_refused_before_it_is_made() -> None:
    scene = scene_of(floor())
    with pytest.raises(RendererError, match=r"4e\+10 points are too many .* wider spacing"):
        sample_cloud(scene, 1e-4)
    with pytest.raises(RendererError, match="coarser"):
        voxel_cloud(scene, 1e-4)
    with pytest.raises(RendererError, match="coarser"):
        voxel_cloud(scene, 0.0015, Box(np.zeros(3), np.full(3, 6.0)))
    with pytest.raises(RendererError, match="too large"):
        OccupancyGrid(scene, 0.001)
    for spacing in (0.0, -1.0, float("nan")):
        with pytest.raises(RendererError, match="positive"):
            sample_cloud(scene, spacing)
        with pytest.raises(RendererError, match="positive"):
            voxel_cloud(scene, spacing)


def test_a_folder_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RendererError, match=r"cannot write the point cloud .*file"):
        write_ply(tmp_path / "file" / "c.ply", sample_cloud(scene_of(floor()), 2.0))


def test_empty_scenes_give_empty_clouds(tmp_path: Path) -> None:
    clouds = sample_cloud(scene_of(), 0.1), voxel_cloud(scene_of(), 0.1)
    assert [len(c.p_m) for c in clouds] == [0, 0]
    write_ply(tmp_path / "c.ply", clouds[0])
    assert not OccupancyGrid(scene_of(), 0.1).occupied(np.zeros((2, 3)), 0.5).any()


def test_occupancy_agrees_with_the_true_distance() -> None:
    rotation = q_to_matrix(q_exp(np.array([0.3, 0.2, 0.1])))
    crate = thing("c", box("c", (0.5, 0.4, 0.3), (0, 0, 0)).asset, place((0.2, 0.1, 0.0), rotation))
    grid = OccupancyGrid(scene_of(crate, BALL), 0.1, 0.6)
    rng = np.random.default_rng(8)
    p = rng.uniform(-1.5, 2.5, (3000, 3))
    brick = OrientedBox(np.array([0.2, 0.1, 0.0]), rotation.T, np.array([0.5, 0.4, 0.3]))
    true = np.minimum(
        np.abs(brick.distance(p)[0]), np.abs(np.linalg.norm(p - (0, 0, 1.5), axis=1) - 1.0)
    )
    error = np.abs(grid.distance_m(p) - np.minimum(true, 0.6))
    assert error.max() < 0.1
    assert np.median(error) < 0.01
    got = grid.occupied(p, 0.3)
    assert got[true < 0.2].all()
    assert not got[true > 0.4].any()
    assert not grid.occupied(np.array([[50.0, 0, 0]]), 0.3).any()
    with pytest.raises(RendererError, match="reaches farther"):
        grid.occupied(p, 0.6)


def test_actors_are_not_part_of_the_cloud() -> None:
    """A cloud is of the scene: clouds take no actors, and movable objects lie where they rest."""
    gate = box("gate", (0.5, 0.5, 0.5), (0, 0, 2), movable=True)
    assert posed("gate", gate.asset, Transform.of((9, 9, 9))).name == "gate"
    assert sample_cloud(scene_of(gate), 0.1).p_m.max() <= 2.5 + 1e-6
    ghost = box("ghost", (0.5, 0.5, 0.5), (0, 0, 2), solid=False)
    assert not len(sample_cloud(scene_of(ghost), 0.1).p_m)

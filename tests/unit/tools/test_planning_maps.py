"""Occupancy maps: counted as OctoMap counts, made from scenes, inflated for a vehicle."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import KDTree

from tests.support.scenes import built, directions, first_hits, of_faces
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.interfaces.voxel_box import keys_at
from vil_bridge.interfaces.voxels import Occupancy
from vil_bridge.protocols.octomap import codes_of, write_full
from vil_bridge.world.occupancy.map_file import read_map, write_map
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.free_space import FreeSpace
from vil_simulation.planning.scene_map import map_of_scene
from vil_simulation.planning.surface_cells import surface_cells

GOLDEN = Path(__file__).parents[2] / "golden" / "octomap" / "wall.ot"
SENSOR = np.array([0.05, 0.05, 0.55])


def wall() -> FloatArray:
    """The 220 points of the golden tree."""
    y, z = np.meshgrid(np.arange(-0.95, 0.951, 0.1), np.arange(0.05, 1.051, 0.1))
    return np.column_stack((np.full(y.size, 2.05), y.ravel(), z.ravel()))


def seen_wall() -> OccupancyMap:
    found = OccupancyMap(0.1)
    found.insert_points(wall(), SENSOR)
    return found


def test_the_golden_tree_is_measured() -> None:
    assert write_full(seen_wall().tree()) == GOLDEN.read_bytes()


def test_states_are_three_and_unknown_is_not_free() -> None:
    places = np.array(
        [[2.05, 0.05, 0.55], [1.05, 0.05, 0.55], [2.15, 0.05, 0.55], [5000.0, 0.0, 0.0], SENSOR]
    )
    expected = [
        Occupancy.OCCUPIED,
        Occupancy.FREE,
        Occupancy.UNKNOWN,
        Occupancy.UNKNOWN,
        Occupancy.FREE,
    ]
    assert seen_wall().state(places).tolist() == expected
    assert OccupancyMap(0.1).state(places).tolist() == [Occupancy.UNKNOWN] * 5


def test_hits_and_misses_are_clamped() -> None:
    found, hit, beyond = (
        OccupancyMap(0.1),
        np.array([[1.05, 0.05, 0.05]]),
        np.array([[2.05, 0.05, 0.05]]),
    )
    sensor = np.array([0.05, 0.05, 0.05])
    values = []
    for points in [hit] * 12 + [beyond] * 10:
        found.insert_points(points, sensor)
        values.append(float(found.log_odds[found.codes == codes_of(keys_at(hit, 0.1))][0]))
    assert values[1] == pytest.approx(1.6945957, abs=1e-6)
    assert values[11] == pytest.approx(3.5110307, abs=1e-6)
    assert values[21] == pytest.approx(-0.5436205, abs=2e-6)


def test_points_of_one_measurement_count_once_and_unusable_ones_do_not() -> None:
    found = OccupancyMap(0.1)
    found.insert_points(np.repeat([[1.05, 0.05, 0.05]], 50, axis=0), np.array([0.05, 0.05, 0.05]))
    assert found.log_odds.max() == pytest.approx(0.8472979)
    before = len(found.codes)
    found.insert_points(
        np.array([[math.nan, 0.0, 0.0], [math.inf, 0.0, 0.0], [9e4, 0.0, 0.0]]), SENSOR
    )
    assert len(found.codes) == before
    with pytest.raises(ValueError, match="outside the map"):
        found.insert_points(wall(), np.array([9e4, 0.0, 0.0]))


def test_a_point_beyond_the_range_clears_and_hits_nothing() -> None:
    found = OccupancyMap(0.1)
    found.insert_points(np.array([[10.05, 0.05, 0.05]]), np.array([0.05, 0.05, 0.05]), range_m=2.0)
    assert (found.log_odds < 0.0).all() and len(found.codes) == 20


@pytest.mark.parametrize("resolution_m", [0.1, 0.07])
def test_random_measurements_give_the_bytes_of_octomap(resolution_m: float) -> None:
    pyoctomap = pytest.importorskip("pyoctomap", reason="the package is not installed (extra dev)")
    rng = np.random.default_rng(1)
    theirs, ours = pyoctomap.OcTree(resolution_m), OccupancyMap(resolution_m)
    for _ in range(4):
        sensor, way = rng.normal(size=3), rng.normal(size=(800, 3))
        points = sensor + way / np.linalg.norm(way, axis=1)[:, None] * rng.uniform(
            1.0, 4.0, (800, 1)
        )
        theirs.insertPointCloud(points, sensor, 3.0)
        ours.insert_points(points, sensor, 3.0)
    assert write_full(ours.tree()) == theirs.write()


def test_a_depth_picture_is_a_measurement() -> None:
    """A wall at 3 m over the left half, nothing over the right one; the camera looks along x."""
    camera = CameraModel("front", 64, 48, math.radians(60.0))
    depth = np.full((48, 64), 3.0, np.float32)
    depth[:, 32:] = 100.0
    along_x = Transform(np.array([0.0, 0.0, 1.0]), np.array([-0.5, 0.5, -0.5, 0.5]))
    assert np.allclose(along_x.apply(np.array([1.0, 2.0, 3.0])), [3.0, -1.0, -1.0])
    found = OccupancyMap(0.1)
    found.insert_depth(depth, camera, along_x, range_m=5.0)
    occupied = found.occupied_m()
    assert (np.abs(occupied[:, 0] - 3.0) <= 0.05 + 1e-6).all() and (occupied[:, 1] > -0.1).all()
    states = found.state(np.array([[2.5, 0.5, 1.0], [4.0, -0.5, 1.0], [3.5, 0.5, 1.0]]))
    assert states.tolist() == [Occupancy.FREE, Occupancy.FREE, Occupancy.UNKNOWN]
    with pytest.raises(ValueError, match="not one of the camera front"):
        found.insert_depth(depth[1:], camera, along_x)


def test_no_cell_that_a_triangle_passes_is_left_out() -> None:
    rng = np.random.default_rng(0)
    corners = rng.normal(0.0, 4.0, (200, 3, 3))
    low, high = np.full(3, -6), np.full(3, 8)
    cells = np.concatenate(list(surface_cells(corners, low, high)))
    found = set(map(tuple, cells.tolist()))
    samples = np.einsum("sk,nkd->nsd", rng.dirichlet((1, 1, 1), 4000), corners).reshape(-1, 3)
    passed = np.floor(samples).astype(np.int64)
    inside = ((passed >= low) & (passed <= high)).all(axis=1)
    passed_set = set(map(tuple, passed[inside].tolist()))
    assert passed_set <= found
    assert len(found) < 1.3 * len(passed_set)
    assert ((cells >= low) & (cells <= high)).all()


@pytest.mark.parametrize("through_unknown", [False, True])
def test_free_space_has_room_for_the_vehicle_and_no_more_is_blocked(through_unknown: bool) -> None:
    rng = np.random.default_rng(3)
    low, high = np.array([-0.5, -0.6, -0.2]), np.array([2.5, 0.8, 1.4])
    found = seen_wall()
    space = FreeSpace(found, 0.25, low, high, through_unknown=through_unknown)
    places = rng.uniform(low - 0.2, high + 0.2, (3000, 3))
    around = np.stack(np.meshgrid(*[np.arange(-0.65, 3.5, 0.1)] * 3), axis=-1).reshape(-1, 3) - [
        1.0,
        1.0,
        1.0,
    ]
    state = found.state(around)
    obstacles = around[state == Occupancy.OCCUPIED if through_unknown else state != Occupancy.FREE]
    nearest, _ = KDTree(obstacles).query(places)
    inside = ((places >= low) & (places <= high)).all(axis=1)
    free = space.free(places)
    assert [space.free_at(*place) for place in places.tolist()] == free.tolist()
    assert not free[~inside].any()
    assert nearest[free].min(initial=math.inf) >= 0.25 + 0.5 * math.sqrt(3.0) * 0.1
    assert free[inside & (nearest > 0.25 + 1.5 * math.sqrt(3.0) * 0.1)].all()
    assert free.any() == through_unknown or free.any()


def test_a_line_is_free_where_all_of_it_is() -> None:
    space = FreeSpace(
        seen_wall(),
        0.2,
        np.array([0.0, -3.0, 0.0]),
        np.array([5.0, 3.0, 2.0]),
        through_unknown=True,
    )
    before, behind, aside = (
        np.array([1.0, 0.0, 0.5]),
        np.array([3.0, 0.0, 0.5]),
        np.array([1.0, 2.5, 0.5]),
    )
    assert space.line_free(before, aside) and not space.line_free(before, behind)
    assert not space.line_free(before, np.array([1.0, 0.0, 2.5])), "outside the box"


def test_maps_are_written_and_read(tmp_path: Path) -> None:
    found = seen_wall()
    for name in ("wall.ot", "wall.bt", "wall.ply"):
        write_map(tmp_path / name, found)
    for name in ("wall.ot", "wall.bt"):
        again = read_map(tmp_path / name)
        assert np.array_equal(again.codes, found.codes)
        assert np.array_equal(again.log_odds >= 0.0, found.log_odds >= 0.0)
    header, _, points = (tmp_path / "wall.ply").read_bytes().partition(b"end_header\n")
    assert b"element vertex 220" in header
    assert np.allclose(np.frombuffer(points, "<f4").reshape(-1, 3)[:, 0], 2.05)
    with pytest.raises(ConfigError, match=r"written as \.ot, \.bt or \.ply"):
        write_map(tmp_path / "wall.xyz", found)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_map(tmp_path / "no.bt")
    (tmp_path / "bad.bt").write_bytes(b"# Octomap")
    with pytest.raises(ConfigError, match=r"bad\.bt: not an OctoMap file"):
        read_map(tmp_path / "bad.bt")


def test_what_rays_hit_in_a_scene_is_occupied_in_its_map() -> None:
    """Rays by Embree, which share no code with the voxels."""
    hall = map_of_scene(built("hall"), 0.1)
    way, sensor = directions(20_000), np.array([-2.0, 0.0, 1.5])
    triangle, distance = first_hits("hall", np.tile(sensor, (len(way), 1)), way)
    solid = np.array([thing.solid for thing in built("hall").objects])[
        of_faces("hall", "owner")[triangle]
    ]
    solid &= triangle >= 0
    seen = OccupancyMap(0.1)
    seen.insert_points(sensor + distance[solid, None] * way[solid], sensor)
    occupied = seen.occupied_m()
    assert len(occupied) > 5000
    assert (hall.state(occupied) == Occupancy.OCCUPIED).mean() > 0.995, (
        "less what rounds to the other side of a face"
    )

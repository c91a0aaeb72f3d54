"""Skinned models of fewer triangles.

How far the surface moves, what the vertices carry, and that no hole opens.
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial import KDTree

from tests.support.geometry_scenes import sphere_primitive
from vil_bridge.core.geometry import q_exp
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.actors.people.builds import BUILDS
from vil_renderer.embedded.assets.collapse import collapsed
from vil_renderer.embedded.assets.model import Asset, Primitive, trs_matrix
from vil_renderer.embedded.assets.skins import skinned
from vil_renderer.embedded.assets.thinned import _cut, thinned
from vil_renderer.embedded.disk_cache import save_arrays

LIMITS_M = (0.0016, 0.0031, 0.0062)


@pytest.fixture(autouse=True)
def made_by_this_code(run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache may hold what an earlier version has made."""
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(run_cache))


def _part(asset: Asset) -> Primitive:
    return next(p for n in asset.nodes for p in n.primitives if p.joints is not None)


def _posed(asset: Asset, part: Primitive, turned_rad: float) -> FloatArray:
    """Return places (n, 3) with every joint turned by a random angle."""
    turns = np.random.default_rng(1).normal(0.0, turned_rad, (len(asset.nodes), 3))
    local = np.array([trs_matrix(np.zeros(3), q_exp(turn[None])[0], np.ones(3)) for turn in turns])
    index = next(i for i, node in enumerate(asset.nodes) if node.skin is not None)
    return skinned(
        asset.asset_from_node(asset.rest_local() @ local), asset.nodes[index].skin, index, part
    )


def _samples(p_m: FloatArray, part: Primitive, step_m: float) -> FloatArray:
    """Return points of a surface, about a step apart."""
    corners = p_m[part.triangles]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    cells_of = np.ceil(longest / step_m).astype(int)
    found = []
    for cells in np.unique(cells_of).tolist():
        i, j = (a.ravel() for a in np.meshgrid(np.arange(cells + 1), np.arange(cells + 1)))
        shares = np.stack((i, j, cells - i - j), axis=1)[i + j <= cells] / cells
        found.append((shares @ corners[cells_of == cells]).reshape(-1, 3))
    return np.concatenate(found)


def _open_edges(part: Primitive) -> set[tuple[bytes, bytes]]:
    """Return edges that are not there as often one way as the other, by places."""
    place_m, place = np.unique(part.p_m, axis=0, return_inverse=True)
    corners = place.reshape(-1)[part.triangles]
    a, b, c = corners.T
    corners = corners[(a != b) & (b != c) & (c != a)]
    ways = np.concatenate([corners[:, (k, (k + 1) % 3)] for k in range(3)])
    low, high = ways.min(axis=1), ways.max(axis=1)
    keys, which = np.unique(low * (corners.max() + 1) + high, return_inverse=True)
    sums = np.bincount(which.reshape(-1), np.where(ways[:, 0] < ways[:, 1], 1, -1))
    ends = np.stack(np.divmod(keys[sums != 0], corners.max() + 1), axis=1)
    return {(place_m[a].tobytes(), place_m[b].tobytes()) for a, b in ends}


@pytest.mark.parametrize("build", ["human", "woman_slim"])
@pytest.mark.parametrize("turned_rad", [0.0, 0.2])
def test_the_surface_stays_within_the_error_at_rest_and_bent(build: str, turned_rad: float) -> None:
    asset = figure(build)
    full = _part(asset)
    before = KDTree(
        _samples(_posed(asset, full, turned_rad), full, 0.003), leafsize=32, balanced_tree=False
    )
    for limit_m, made in zip(LIMITS_M, thinned(asset, 1.0, LIMITS_M), strict=True):
        part = _part(made)
        p_m = _posed(asset, part, turned_rad)
        away_m = before.query(_samples(p_m, part, 0.01))[0]
        assert np.sqrt(np.mean(away_m**2)) < limit_m + 0.001
        assert np.percentile(away_m, 99) < 2.0 * limit_m + 0.002, limit_m


@pytest.mark.parametrize("build", sorted(BUILDS))
def test_fewer_and_fewer_vertices_of_the_original_with_all_they_carry(build: str) -> None:
    full = _part(figure(build))
    levels = [_part(made) for made in thinned(figure(build), 1.0, LIMITS_M)]
    counts = [len(part.triangles) for part in (full, *levels)]
    assert all(fewer < 0.75 * more for more, fewer in pairwise(counts)), counts
    assert counts[2] < 0.5 * counts[0]
    known = _rows(full)
    for part in levels:
        assert part.material is full.material
        assert part.weights is not None
        assert np.abs(part.weights.sum(axis=1) - 1.0).max() < 1e-5
        assert _rows(part) <= known
        assert np.array_equal(np.unique(part.triangles), np.arange(len(part.p_m)))


def _rows(part: Primitive) -> set[bytes]:
    columns = (part.p_m, part.normal, part.uv, part.joints, part.weights)
    return {row.tobytes() for row in np.column_stack([np.asarray(c, np.float64) for c in columns])}


@pytest.mark.parametrize("build", sorted(BUILDS))
def test_no_hole_opens(build: str) -> None:
    full = _part(figure(build))
    openings = _open_edges(full)
    border = {end for edge in openings for end in edge}
    for made in thinned(figure(build), 1.0, LIMITS_M):
        # Sleeves and hems are open; their edges become fewer, and none opens elsewhere, as along
        # seams of the texture.
        left = _open_edges(_part(made))
        assert len(left) <= len(openings)
        assert {end for edge in left for end in edge} <= border


def test_a_ball_stays_closed_and_round() -> None:
    ball = sphere_primitive(0.5, 48)
    # Both ends of each ring at one place.
    ball = replace(ball, p_m=np.round(ball.p_m, 6) + np.float32(0.0))
    assert not _open_edges(ball)
    p_m, limits_m = ball.p_m.astype(np.float64), (0.002, 0.01)
    fixed = np.zeros(len(p_m), np.bool_)
    made = collapsed(
        p_m, 0.01 * ball.normal.astype(np.float64), ball.triangles.astype(np.intp), limits_m, fixed
    )
    for limit_m, triangles in zip(limits_m, made, strict=True):
        assert 20 < len(triangles) < 0.7 * len(ball.triangles)
        assert not _open_edges(replace(ball, triangles=triangles.astype(np.uint32)))
        a, b, c = (p_m[triangles[:, k]] for k in range(3))
        volume = np.einsum("mi,mi->m", a, np.cross(b, c)).sum() / 6.0
        assert volume == pytest.approx(4 / 3 * np.pi * 0.5**3, rel=12.0 * limit_m)


@pytest.mark.parametrize("radius_m", [0.002, 0.0])
def test_a_part_far_below_the_error_or_without_a_surface_does_no_harm(radius_m: float) -> None:
    full = _part(figure("human"))
    turns = np.linspace(0.0, 2.0 * np.pi, 9)[:-1]
    rim_m = radius_m * np.column_stack([np.cos(turns), np.sin(turns), np.zeros(8)]) + full.p_m[0]
    disc = np.array([(0, k, k + 1) for k in range(1, 7)], np.uint32)
    values = np.zeros((8, 3))
    for triangles in collapsed(
        rim_m, values, disc.astype(np.intp), (0.001, 0.01, 0.1), np.zeros(8, np.bool_)
    ):
        assert len(triangles) <= len(disc)
    eight = _cut(full, np.array([(0, 1, 2), (3, 4, 5), (5, 6, 7)]))
    small = replace(eight, triangles=disc, p_m=rim_m.astype(np.float32))
    for made in thinned(_with_parts(full, small), 1.0, LIMITS_M):
        assert len(_part(made).triangles) < 0.75 * len(full.triangles)


def _some(full: Primitive) -> Primitive:
    """Return the legs below the knee."""
    low = full.p_m[full.triangles].mean(axis=1)[:, 2] < 0.4
    return _cut(full, full.triangles[low].astype(np.intp))


def _with_parts(*parts: Primitive) -> Asset:
    asset = figure("human")
    return replace(
        asset,
        nodes=tuple(n if n.skin is None else replace(n, primitives=parts) for n in asset.nodes),
    )


def test_no_crack_opens_between_two_parts() -> None:
    full = _part(figure("human"))
    upper = full.p_m[full.triangles].mean(axis=1)[:, 2] > np.median(full.p_m[:, 2])
    parts = [_cut(full, full.triangles[chosen].astype(np.intp)) for chosen in (upper, ~upper)]
    border = _places(parts[0]) & _places(parts[1])
    assert len(border) > 20
    for made in thinned(_with_parts(*parts), 1.0, LIMITS_M):
        (node,) = [n for n in made.nodes if n.skin is not None]
        assert all(border <= _places(part) for part in node.primitives)


def _places(part: Primitive) -> set[bytes]:
    return {p_m.tobytes() for p_m in part.p_m[part.triangles].reshape(-1, 3)}


def test_a_place_where_thousands_of_triangles_meet_takes_little_memory() -> None:
    count = 20_000
    turns = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    p_m = np.concatenate(
        [np.zeros((1, 3)), np.column_stack([np.cos(turns), np.sin(turns), 0.0 * turns])]
    )
    fan = np.array([(0, 1 + k, 1 + (k + 1) % count) for k in range(count)], np.intp)
    (left,) = collapsed(p_m, np.zeros((count + 1, 1)), fan, (0.01,), np.zeros(count + 1, np.bool_))
    assert len(left) <= count


def test_the_same_levels_are_made_once_and_always_the_same() -> None:
    asset = _with_parts(_some(_part(figure("human"))))
    assert thinned(asset, 1.0, LIMITS_M) is thinned(asset, 1.0, LIMITS_M)
    twin = replace(asset, name="twin")
    for one, other in zip(thinned(asset, 1.0, LIMITS_M), thinned(twin, 1.0, LIMITS_M), strict=True):
        assert np.array_equal(_part(one).triangles, _part(other).triangles)


def test_levels_come_from_the_disk_unless_the_file_is_damaged_or_of_another_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(tmp_path))
    asset = _with_parts(_some(_part(figure("human"))))

    def triangles() -> list[bytes]:
        return [_part(made).triangles.tobytes() for made in thinned(replace(asset), 1.0, LIMITS_M)]

    made = triangles()
    (path,) = tmp_path.rglob("*.npz")
    written = path.read_bytes()
    assert triangles() == made
    assert not caplog.records
    for content in (b"", written[:100], _file_of(np.full((1, 3), 10**6, np.uint32))):
        path.write_bytes(content)
        assert triangles() == made
        assert caplog.records.pop().levelname == "WARNING"
        caplog.clear()
        assert path.read_bytes()[:2] == b"PK", "the file is replaced"
    # Another error is another file.
    thinned(replace(asset), 1.0, (0.004,))
    assert len(list(tmp_path.rglob("*.npz"))) == 2
    assert path.stat().st_mode & 0o444 == 0o444, "others may read it"


def test_what_a_killed_process_left_in_the_cache_goes_away(tmp_path: Path) -> None:
    old, new = tmp_path / "a.part", tmp_path / "b.part"
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    save_arrays(tmp_path / "c.npz", {"a": np.zeros(3)})
    assert {path.name for path in tmp_path.iterdir()} == {"b.part", "c.npz"}


def _file_of(level: npt.NDArray[np.uint32]) -> bytes:
    file = io.BytesIO()
    np.savez(file, level0=level, level1=level, level2=level)
    return file.getvalue()


def test_a_folder_that_takes_no_files_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(tmp_path / "file"))
    some = _some(_part(figure("human")))
    (made,) = thinned(_with_parts(some), 1.0, (0.003,))
    assert len(_part(made).triangles) < 0.6 * len(some.triangles)


def test_parts_without_a_skin_or_with_morph_targets_stay() -> None:
    asset = figure("human")
    node = next(n for n in asset.nodes if n.skin is not None)
    targets = np.zeros((len(_part(asset).p_m), 1, 2, 3), np.float32)
    morphing = replace(node, primitives=(replace(_part(asset), targets=targets),))
    rigid = replace(node, primitives=(sphere_primitive(0.1, 24),), skin=None)
    nodes = (*(morphing if n is node else n for n in asset.nodes), rigid)
    for made in thinned(replace(asset, nodes=nodes), 1.0, LIMITS_M):
        assert made.nodes[-1] is rigid
        assert _part(made) is morphing.primitives[0]

"""Filling of holes.

The farthest neighbour in sight of each, and the way back to the edge of the background.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from vil_bridge.core.types import BoolArray
from vil_bridge.pipeline.warp.disocclusion import background_of, last_visible

_Float32 = npt.NDArray[np.float32]


def by_hand(holes: BoolArray, z_m: _Float32, row: int, column: int) -> tuple[int, int] | None:
    """Go left, right, up and down from a hole until something is known.

    Of the far ones the nearest.
    """
    met = []
    for down, right in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        r, c, steps = row, column, 0
        while 0 <= r < holes.shape[0] and 0 <= c < holes.shape[1] and holes[r, c]:
            r, c, steps = r + down, c + right, steps + 1
        if 0 <= r < holes.shape[0] and 0 <= c < holes.shape[1]:
            met.append((steps, r, c))
    if not met:
        return None
    farthest = max(z_m[r, c] for _, r, c in met)
    return min((m for m in met if z_m[m[1], m[2]] >= 0.9 * farthest), key=lambda m: m[0])[1:]


def test_the_background_of_every_hole_is_found() -> None:
    """Random holes in scenes of three depths, against a walk from each hole in four directions."""
    rng = np.random.default_rng(6)
    walls = 0
    for _ in range(40):
        holes = rng.random((9, 13)) < rng.choice([0.2, 0.6, 0.9])
        z_m = rng.choice(np.array([1.0, 2.0, 2.1, 7.0], np.float32), (9, 13))
        found = background_of(holes, z_m)
        got = {(row, column): edge for row, column, *edge in np.transpose(found).tolist()}
        for row, column in np.argwhere(holes):
            expected = by_hand(holes, z_m, row, column)
            edge = got.pop((row, column), None)
            assert (edge is None) == (expected is None)
            if edge is not None and expected is not None:
                apart = [abs(r - row) + abs(c - column) for r, c in (edge, expected)]
                assert apart[0] == apart[1] and z_m[tuple(edge)] >= 0.9 * z_m[expected]
                walls += z_m[tuple(edge)] == 7.0
        assert not got, "known nodes are left alone"
    assert walls > 100


def test_behind_a_post_the_wall_goes_on_though_the_post_is_nearer() -> None:
    """A row: post, hole, hole, hole, wall.

    Every hole belongs to the wall; with walls at both ends, to the nearer.
    """
    holes = np.array([[False, True, True, True, False]])
    for depths, edges in (
        ([1, 0, 0, 0, 6], [4, 4, 4]),
        ([6, 0, 0, 0, 1], [0, 0, 0]),
        ([6, 0, 0, 0, 5.7], [0, 0, 4]),
    ):
        for turned in (False, True):
            z_m = np.array([depths], np.float32)
            found = background_of(holes.T, z_m.T) if turned else background_of(holes, z_m)
            along, across = (
                (found.edge_row, found.edge_column)
                if turned
                else (found.edge_column, found.edge_row)
            )
            assert along.tolist()[::2] == edges[::2] and not across.any()
            assert along[1] in {edges[1], 4 if depths[4] == 5.7 else edges[1]}


def test_a_picture_that_is_one_hole_has_no_background() -> None:
    assert all(
        len(part) == 0
        for part in background_of(np.ones((4, 5), np.bool_), np.ones((4, 5), np.float32))
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("ends_px", [(40.0, 100.0), (100.0, 40.0)])
def test_the_background_is_taken_where_it_first_comes_into_sight(
    axis: int, ends_px: tuple[float, float]
) -> None:
    """On the way from behind a post, 30 to 70 pixels, to the edge.

    The first of the wall, within a 15th of the way.
    """

    def depth_m_at(x: _Float32, y: _Float32) -> _Float32:
        place = y if axis else x
        return np.where((place >= 30.0) & (place <= 70.0), 2.0, 6.0).astype(np.float32)

    hidden, edge = (np.full((2, 3), 11.0, np.float32) for _ in range(2))
    hidden[axis] = (50.0, 60.0, 44.0)
    edge[axis] = ends_px[1] if ends_px[1] > 70.0 else 5.0
    found = last_visible(depth_m_at, hidden, edge, np.full(3, 6.0, np.float32))
    step_px = np.abs(edge[axis] - hidden[axis]) / 15.0
    beyond = found[axis] - 70.0 if ends_px[1] > 70.0 else 30.0 - found[axis]
    assert ((beyond > 0.0) & (beyond <= step_px + 1e-3)).all()
    assert (found[1 - axis] == 11.0).all()


def test_a_point_in_sight_stays_and_one_never_in_sight_takes_the_edge() -> None:
    hidden, edge = np.array([[10.0], [20.0]], np.float32), np.array([[40.0], [5.0]], np.float32)
    z_m = np.array([6.0], np.float32)
    for depth_m, expected in (
        (6.0, hidden),
        (5.6, hidden),
        (9.0, hidden),
        (2.0, edge),
        (5.0, edge),
    ):
        found = last_visible(
            lambda x, y, m=depth_m: np.full(x.shape, m, np.float32),  # type: ignore[misc]
            hidden,
            edge,
            z_m,
        )
        np.testing.assert_array_equal(found, expected)

"""Alignment of a scan with the room: uncertainty, weights of its points, and many points."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.support.embedded import rotation
from vil_bridge.core.geometry import Transform, q_from_matrix, q_to_matrix
from vil_renderer.scan.alignment import align

pytestmark = pytest.mark.pure

SCALE = 0.37
"""Metres in one unit of the scan."""
T_WORLD_SCAN = Transform.of((1.5, -0.7, 0.4), tuple(q_from_matrix(rotation(40.0, -65.0)).tolist()))
SURE = np.zeros((250, 3, 3))
"""Covariance of places in a scan that are exact."""


def test_the_uncertainty_of_a_narrow_set_is_that_of_repeated_measurements() -> None:
    """Tags in a band of 0.4 m along a wall of 6 m.

    The turn about the band is the least sure one.
    """
    rng = np.random.default_rng(2)
    p_world = rng.uniform((-3.0, -0.2, 0.8), (3.0, 0.2, 1.2), (5, 3))
    p_scan = T_WORLD_SCAN.inverse().apply(p_world) / SCALE
    errors, stated = [], []
    for _ in range(20):
        found = align(
            [str(i) for i in range(5)],
            p_world + rng.normal(0.0, 0.003, p_world.shape),
            p_scan,
            SURE[:5],
        )
        turn = (T_WORLD_SCAN.inverse() @ found.T_world_scan).q_xyzw
        errors.append((2.0 * float(np.linalg.norm(turn[:3])), found.scale / SCALE - 1.0))
        stated.append((found.rotation_rad, found.scale_share))
    ratios = np.sqrt(np.mean(np.square(errors), axis=0)) / np.sqrt(
        np.mean(np.square(stated), axis=0)
    )
    assert (ratios > 0.6).all() and (ratios < 1.6).all(), ratios


def test_points_weigh_by_what_their_pictures_know() -> None:
    """Three far tags are seen from one direction: wrong by 8 cm along it, and known to be so."""
    rng = np.random.default_rng(6)
    p_world = np.array(
        [(0, 0, 0.1), (1.5, 0.4, 0.8), (-1.2, 1.3, 1.6), (9, 2, 3), (-8, 6, 3.2), (0, -7, 3.4)]
    )
    along = p_world / np.linalg.norm(p_world, axis=1)[:, None]
    deviation_m = np.array([0.0, 0.0, 0.0, 0.08, 0.08, 0.08])
    checked = rng.uniform(-2.0, 2.0, (5, 3))
    errors_m = []
    for _ in range(20):
        seen_m = (
            p_world
            + (rng.normal(0.0, 1.0, 6) * deviation_m)[:, None] * along
            + rng.normal(0.0, 0.001, (6, 3))
        )
        turn = q_to_matrix(T_WORLD_SCAN.q_xyzw).T
        vectors = (deviation_m[:, None] * along) @ turn.T / SCALE
        covariance = vectors[:, :, None] * vectors[:, None, :] + 1e-6 / SCALE**2 * np.eye(3)
        found = align(
            list("abcdef"), p_world, T_WORLD_SCAN.inverse().apply(seen_m) / SCALE, covariance
        )
        assert found.used.all()
        errors_m.append(found.apply(T_WORLD_SCAN.inverse().apply(checked) / SCALE) - checked)
    rms_m = float(np.sqrt(np.mean(np.square(errors_m).sum(axis=2))))
    assert rms_m < 0.006


def test_many_points_are_aligned_in_little_memory() -> None:
    """Corners and middles of fifty tags, a third of them measured wrong."""
    rng = np.random.default_rng(3)
    p_world = rng.uniform(-5.0, 5.0, (250, 3))
    p_scan = T_WORLD_SCAN.inverse().apply(p_world) / SCALE
    p_world[::3] += 0.5
    tracemalloc.start()
    try:
        found = align([str(i) for i in range(250)], p_world, p_scan, SURE)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert found.scale == pytest.approx(SCALE)
    assert found.used.tolist() == [i % 3 != 0 for i in range(250)]

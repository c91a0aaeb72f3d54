"""Placing a room.

Exact on exact points, honest residuals on noisy ones, refusal of what tells nothing.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.geometry import Transform, q_conj, q_from_euler_zyx, q_log, q_mul
from vil_bridge.core.room_registration import Placement, place_by_points, place_by_poses

POINTS = np.array([[0.0, 0.0, 0.0], [3.0, 0.2, 1.1], [-1.0, 2.5, 0.4], [0.5, -2.0, 1.9]])


def error_rad(found: Placement, true: Transform) -> float:
    return float(np.linalg.norm(q_log(q_mul(q_conj(found.T_world_room.q_xyzw), true.q_xyzw))))


@pytest.mark.parametrize("yaw_deg", [0.0, 37.0, 120.0, 180.0, -91.0])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_heading_and_a_place_come_back(yaw_deg: float, count: int) -> None:
    true = Transform.of((4.0, -1.0, 0.3), q_from_euler_zyx(math.radians(yaw_deg), 0.0, 0.0))
    found = place_by_points(true.apply(POINTS[:count]), POINTS[:count])
    assert error_rad(found, true) < 1e-9
    np.testing.assert_allclose(found.T_world_room.p_m, true.p_m, atol=1e-9)
    assert found.rms_m < 1e-9


def test_a_free_rotation_comes_back() -> None:
    true = Transform.of((4.0, -1.0, 0.3), q_from_euler_zyx(2.0, -0.4, 1.2))
    found = place_by_points(true.apply(POINTS), POINTS, yaw_only=False)
    assert error_rad(found, true) < 1e-9
    assert found.residuals_m.max() < 1e-9


def test_a_mirrored_room_is_not_hidden_by_a_reflection() -> None:
    mirrored = POINTS * [1.0, 1.0, -1.0]
    found = place_by_points(mirrored, POINTS, yaw_only=False)
    assert np.linalg.det(found.T_world_room.rotation()) > 0.0
    assert found.rms_m > 0.3


def test_residuals_tell_the_noise_and_the_outlier() -> None:
    noise = np.random.default_rng(3).normal(0.0, 0.002, (200, 3))
    points = np.random.default_rng(4).uniform(-3.0, 3.0, (200, 3))
    true = Transform.of((1.0, 2.0, 0.0), q_from_euler_zyx(0.7, 0.0, 0.0))
    measured = true.apply(points) + noise
    found = place_by_points(measured, points)
    assert found.rms_m == pytest.approx(0.002 * math.sqrt(3.0), rel=0.1)
    assert error_rad(found, true) < 2e-4
    measured[17] += [0.5, 0.0, 0.0]
    assert int(np.argmax(place_by_points(measured, points).residuals_m)) == 17


@pytest.mark.parametrize("yaw_only", [True, False])
def test_one_pose_of_a_wand_is_enough(yaw_only: bool) -> None:
    tilt = (0.0, 0.0) if yaw_only else (0.3, -0.2)
    true = Transform.of((4.0, -1.0, 0.3), q_from_euler_zyx(2.2, *tilt))
    wands = [
        Transform.of(p, q_from_euler_zyx(0.1 * i, 0.5, -0.7 * i)) for i, p in enumerate(POINTS)
    ]
    for count in (1, 4):
        found = place_by_poses([true @ T for T in wands[:count]], wands[:count], yaw_only=yaw_only)
        assert error_rad(found, true) < 1e-9
        assert found.rms_m < 1e-9


def test_what_tells_no_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 points apart on the floor"):
        place_by_points(POINTS[:1], POINTS[:1])
    pole = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
    with pytest.raises(ValueError, match="apart on the floor"):
        place_by_points(pole, pole)
    line = np.outer(np.arange(4.0), [1.0, 2.0, 0.5])
    with pytest.raises(ValueError, match="not in one line"):
        place_by_points(line, line, yaw_only=False)
    with pytest.raises(ValueError, match="pairs"):
        place_by_points(POINTS, POINTS[:3])
    with pytest.raises(ValueError, match="finite"):
        place_by_points(POINTS * np.nan, POINTS)
    with pytest.raises(ValueError, match="pairs"):
        place_by_poses([], [])

"""Poses of simulated vehicles in the past.

Between states, at placements, and outside what is known.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.source.past_poses import PastPoses


def states(*vehicles: tuple[float, float]) -> FloatArray:
    """Return states of vehicles by x and yaw."""
    rows = np.zeros((len(vehicles), 13))
    for row, (x_m, yaw_rad) in zip(rows, vehicles, strict=True):
        row[0] = x_m
        row[8] = math.sin(0.5 * yaw_rad)
        row[9] = math.cos(0.5 * yaw_rad)
    return rows


def at(past: PastPoses, number: int, t_ns: int, slack_ns: int = 0) -> tuple[float, float]:
    T = past.at(number, t_ns, slack_ns)
    assert T is not None
    return float(T.p_m[0]), 2.0 * math.atan2(T.q_xyzw[2], T.q_xyzw[3])


def test_between_two_states_a_pose_is_interpolated_and_beyond_them_it_stays() -> None:
    past = PastPoses()
    assert past.at(0, 5) is None
    past.add(10, states((1.0, 0.0)), [])
    past.add(20, states((2.0, 0.4), (7.0, 0.0)), [])
    past.add(30, states((4.0, 0.4), (9.0, 0.0)), [])
    assert at(past, 0, 14) == pytest.approx((1.4, 0.16))
    assert at(past, 0, 20) == pytest.approx((2.0, 0.4))
    assert at(past, 0, 0) == (1.0, 0.0) and at(past, 0, 99) == pytest.approx((4.0, 0.4))
    assert at(past, 1, 12) == (7.0, 0.0)  # it was added later
    assert past.at(2, 20) is None
    past.clear()
    assert past.at(0, 20) is None


def test_a_vehicle_that_was_put_elsewhere_is_in_its_old_place_until_then() -> None:
    past = PastPoses()
    past.add(10, states((1.0, 0.0), (1.0, 0.0)), [])
    past.add(20, states((50.0, 0.0), (2.0, 0.0)), [0])
    past.add(20, states((60.0, 0.0), (2.0, 0.0)), [0])
    past.add(30, states((61.0, 0.0), (3.0, 0.0)), [])
    assert [at(past, 0, t_ns)[0] for t_ns in (11, 19, 20)] == [1.0, 1.0, 1.0]
    assert at(past, 0, 22)[0] == pytest.approx(60.2)
    assert at(past, 0, 22, slack_ns=2)[0] == 1.0 and at(past, 0, 23, slack_ns=2)[
        0
    ] == pytest.approx(60.3)
    assert at(past, 1, 15)[0] == pytest.approx(1.5) and at(past, 1, 22, slack_ns=2)[
        0
    ] == pytest.approx(2.2)

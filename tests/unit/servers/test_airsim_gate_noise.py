"""Errors of the poses of gates that programs of the drone racing lab see."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.courses.course import CourseGate
from vil_simulation.airsim.race_methods import GateNoise


def gates(count: int) -> list[CourseGate]:
    return [
        CourseGate(f"Gate{i}", Transform.of((i, 0.0, 2.0)), width_m=2.0, height_m=1.2)
        for i in range(count)
    ]


def test_errors_leave_the_middle_half_of_an_opening_never() -> None:
    noise = GateNoise(3)
    errors = [noise.of(gate) for gate in gates(300)]
    apart_m = np.abs([error.p_m for error in errors])
    turns_rad = np.abs([q_to_euler_zyx(error.q_xyzw)[0] for error in errors])
    assert (apart_m <= (0.5, 0.5, 0.3)).all() and (turns_rad <= np.radians(10.0)).all()
    assert (apart_m.max(axis=0) > (0.45, 0.45, 0.27)).all() and turns_rad.max() > np.radians(9.0)


def test_errors_last_until_the_next_start_and_follow_the_seed() -> None:
    (gate,) = gates(1)
    noise = GateNoise(3)
    same = GateNoise(3)
    other = GateNoise(4)
    first = noise.of(gate).p_m
    assert (noise.of(gate).p_m == first).all() and (same.of(gate).p_m == first).all()
    assert (other.of(gate).p_m != first).any()
    noise.begin()
    assert (noise.of(gate).p_m != first).any()

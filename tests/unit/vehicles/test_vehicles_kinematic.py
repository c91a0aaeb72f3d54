"""The kinematic body.

At rest without a command, the commanded twist exactly, the same by its derivative.
"""

from __future__ import annotations

import math

import numpy as np

from vil_bridge.core.geometry import q_from_euler_zyx
from vil_simulation.vehicles.kinematic import KinematicBody

MODEL = KinematicBody()


def test_it_stays_where_it_is_put() -> None:
    x = MODEL.initial(2)
    x[1, :3], x[1, 6:10] = (1.0, 2.0, 3.0), q_from_euler_zyx(0.3, 0.1, 0.0)
    moved = MODEL.step(x, MODEL.neutral(2), MODEL.calm(2), 0.01)
    assert np.allclose(moved, x)


def test_a_twist_is_held_exactly() -> None:
    x, u = MODEL.initial(1), np.array([[1.0, -2.0, 0.5, 0.0, 0.0, 0.4]])
    for _ in range(100):
        x = MODEL.step(x, u, MODEL.calm(1), 0.01)
    assert np.allclose(x[0, :3], (1.0, -2.0, 0.5)) and np.allclose(x[0, 3:6], (1.0, -2.0, 0.5))
    assert np.allclose(x[0, 6:10], (0.0, 0.0, math.sin(0.2), math.cos(0.2))) and np.allclose(
        x[0, 10:], (0, 0, 0.4)
    )


def test_the_derivative_is_that_of_the_step() -> None:
    x, u = MODEL.initial(1), np.array([[1.0, 0.0, 0.0, 0.2, -0.3, 0.4]])
    x[0, 6:10] = q_from_euler_zyx(0.3, -0.2, 0.1)
    small = (MODEL.step(x, u, MODEL.calm(1), 1e-6) - x) / 1e-6
    assert np.allclose(
        MODEL.derivative(x, u, MODEL.calm(1))[0, [0, 1, 2, 6, 7, 8, 9]],
        small[0, [0, 1, 2, 6, 7, 8, 9]],
    )

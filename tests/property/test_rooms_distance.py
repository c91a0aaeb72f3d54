"""The distance of moving bodies against a general solver, and against what can be seen at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from vil_bridge.core.geometry import q_normalize, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.world.geofence import HORIZON_S, ActorVolume, closest


def exact(a: ActorVolume, b: ActorVolume) -> float:
    """The same problem for each pair of boxes, by bounded least squares."""
    v = a.v_mps - b.v_mps
    best = np.inf
    for i in range(len(a.center_m)):
        for j in range(len(b.center_m)):
            columns = np.hstack(
                (a.axes[i] * a.half_m[i], b.axes[j] * b.half_m[j], HORIZON_S * v[:, None])
            )
            bounds = ([-1.0] * 6 + [0.0], [1.0] * 7)
            solved = lsq_linear(columns, b.center_m[j] - a.center_m[i], bounds, tol=1e-14)
            best = min(best, float(np.linalg.norm(solved.fun)))
    return max(0.0, best - a.radius_m - b.radius_m)


def random_shape(rng: np.random.Generator, boxes: int, place_m: FloatArray) -> ActorVolume:
    axes = q_to_matrix(q_normalize(rng.normal(size=(boxes, 4))))
    half_m = rng.uniform(0.0, 0.5, (boxes, 3)) * (rng.random((boxes, 3)) > 0.3)
    return ActorVolume(
        place_m + rng.normal(0.0, 0.3, (boxes, 3)), axes, half_m, 0.1, rng.normal(0.0, 1.5, 3)
    )


@pytest.mark.parametrize("seed", range(25))
def test_distance_agrees_with_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = random_shape(rng, 3, np.zeros(3)), random_shape(rng, 2, rng.normal(0.0, 1.5, 3))
    distance_m, in_s = closest(a, b)
    assert distance_m == pytest.approx(exact(a, b), abs=0.01)
    assert 0.0 <= in_s <= HORIZON_S + 1e-9

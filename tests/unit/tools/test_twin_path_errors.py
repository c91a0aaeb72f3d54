"""Dynamic time warping and relative errors of twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.geometry import q_exp
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.metrics import hausdorff_m, rms
from vil_bridge.world.twin.pose_series import PairedPoses, PoseSeries, paired
from vil_simulation.twins.path_errors import relative_errors, warped_distance


def on_circle(share: FloatArray) -> FloatArray:
    return 10.0 * np.column_stack((np.cos(2.0 * math.pi * share), np.sin(2.0 * math.pi * share)))


def test_golden_of_a_late_path() -> None:
    share = np.linspace(0.0, 1.0, 200)
    x, y = on_circle(share), on_circle(share + 0.02 * np.sin(math.pi * share) ** 2)
    found = warped_distance(x, y)
    assert found.sum_m == pytest.approx(14.348799, abs=5e-7)
    assert found.pairs == 204
    assert rms(x - y) == pytest.approx(0.767235, abs=5e-7)
    assert hausdorff_m(x, y) == pytest.approx(0.160361, abs=5e-7)


def plain_dtw(a: FloatArray, b: FloatArray) -> float:
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0.0
    for i in range(len(a)):
        for j in range(len(b)):
            best = min(table[i, j], table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = np.linalg.norm(a[i] - b[j]) + best
    return float(table[-1, -1])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 9), (9, 1), (17, 30), (30, 17)])
def test_warping_equals_the_plain_recurrence(n: int, m: int) -> None:
    rng = np.random.default_rng(n * 100 + m)
    a, b = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    found = warped_distance(a, b)
    assert found.sum_m == pytest.approx(plain_dtw(a, b), abs=1e-12)
    assert max(n, m) <= found.pairs < n + m


def flown(t_s: FloatArray, yaw_drift_radps: float = 0.0, scale: float = 1.0) -> PoseSeries:
    yaw = 0.2 * t_s
    drifted = yaw + yaw_drift_radps * t_s
    p_m = scale * np.column_stack((t_s, np.sin(t_s), np.ones(len(t_s))))
    return PoseSeries(t_s, p_m, q_exp(np.column_stack((0 * t_s, 0 * t_s, drifted))))


def pairs(a: PoseSeries, b: PoseSeries) -> PairedPoses:
    return paired(a, b, 0.01)


def test_relative_errors_grow_with_the_length_by_scale_and_drift() -> None:
    t_s = np.arange(0.0, 20.0, 0.01)
    a = flown(t_s)
    assert all(e.translation_m.max() < 1e-9 for e in relative_errors(pairs(a, a)))
    found = relative_errors(pairs(a, flown(t_s, scale=1.02)), (2.0, 8.0))
    assert [e.length_m for e in found] == [2.0, 8.0]
    chords = [0.02 * 2.0, 0.02 * 8.0]
    for errors, chord_m in zip(found, chords, strict=True):
        assert 0.6 * chord_m < float(np.median(errors.translation_m)) <= chord_m * 1.01
        assert errors.yaw_deg.max() < 1e-6
    drifting = relative_errors(pairs(a, flown(t_s, yaw_drift_radps=0.01)), (5.0,))[0]
    assert np.degrees(0.01 * 3.0) < np.median(drifting.yaw_deg) < np.degrees(0.01 * 5.0)


def test_stretches_do_not_cross_gaps() -> None:
    t_s = np.arange(0.0, 20.0, 0.01)
    a = flown(t_s)
    seen = (t_s < 9.0) | (t_s > 11.0)
    both = pairs(
        a,
        PoseSeries(
            t_s[seen], a.p_m[seen] + (0.0, 0.0, 1.0) * (t_s[seen] > 10.0)[:, None], a.q_xyzw[seen]
        ),
    )
    (errors,) = relative_errors(both, (3.0,))
    assert errors.translation_m.max() < 1e-9
    assert not relative_errors(both, (50.0,))
    assert not relative_errors(both._replace(t_s=both.t_s[:1]), (3.0,))

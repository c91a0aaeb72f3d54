"""Simulated flights, and the judge of a filter's stated uncertainty."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.flight_judge import Judged, autocorrelation, consistency, judged, table
from tests.support.flights import CLASSES, EPOCH_NS, Flight, flights, fly
from vil_bridge.core.geometry import GRAVITY_MPS2, Transform, q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.error_state import (
    ACCEL_BIAS,
    ATTITUDE,
    GYRO_BIAS,
    LATE,
    LEVER,
    MOUNT,
    POSITION,
    SCALE,
    SIZE,
    VELOCITY,
    FilterState,
)

STD = np.repeat([2e-3, 0.02, 5e-4, 1e-3, 0.03, 1e-4, 1e-3, 1e-3, 1e-3], [3, 3, 3, 3, 3, 1, 3, 3, 3])


class Oracle:
    """Knows the truth and errs by as much as it is asked to; states ``STD`` all the same."""

    def __init__(self, flight: Flight, factor: float) -> None:
        self.state: Any = None
        self.innovation: Any = None
        self._flight, self._factor, self._rng = flight, factor, np.random.default_rng(flight.seed)

    def add_imu(self, t_ns: int, w_radps: object, f_mps2: object) -> None:
        """Ignore it."""

    def add_pose(self, t_ns: int, p_world_m: object, q_world_xyzw: object) -> None:
        late_ns = round(1e9 * self._flight.errors.late_s)
        truth = self._flight.truth(np.array([t_ns]))
        e = self._factor * STD * self._rng.standard_normal(SIZE)
        residual = self._factor * STD[:6] * self._rng.standard_normal(6)
        S = np.diag(STD[:6] ** 2)
        q_mount = q_exp(-self._flight.errors.mount_rad)
        lever_m = q_rotate(q_conj(q_mount), self._flight.T_imu_body.p_m)
        self.state = FilterState(
            t_ns=t_ns + late_ns,
            q_world_imu_xyzw=q_mul(truth.q_world_imu_xyzw[0], q_exp(-e[ATTITUDE])),
            v_world_mps=truth.v_world_mps[0] - e[VELOCITY],
            p_world_m=truth.p_world_m[0] - e[POSITION],
            w_imu_radps=truth.w_imu_radps[0] + e[GYRO_BIAS],
            gyro_bias_radps=truth.gyro_bias_radps[0] - e[GYRO_BIAS],
            accel_bias_mps2=truth.accel_bias_mps2[0] - e[ACCEL_BIAS],
            late_s=self._flight.errors.late_s - e[LATE],
            mount_rad=q_log(q_mul(q_mount, q_exp(-e[MOUNT]))),
            gyro_scale=-e[SCALE],
            p_imu_body_m=lever_m - e[LEVER],
            P=np.diag(STD**2),
        )
        nis = float(residual @ np.linalg.solve(S, residual))
        self.innovation = SimpleNamespace(t_ns=t_ns, residual=residual, S=S, nis=nis, accepted=True)


def oracle(flight: Flight, factor: float) -> Judged:
    return judged(flight, lambda T_body_imu: Oracle(flight, factor))


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.75, False), (1.4, False)])
def test_judge_sees_too_much_and_too_little_confidence(factor: float, passes: bool) -> None:
    run = oracle(fly("aggressive", 1), factor)
    for mean, share in consistency([run]).values():
        assert mean == pytest.approx(factor**2, rel=0.2)
        assert (0.7 <= mean <= 1.4 and 0.9 <= share <= 0.99) is passes
    assert np.abs(autocorrelation([run.whitened])).max() < 0.06


@pytest.mark.parametrize("kind", CLASSES)
def test_flights_obey_their_own_derivatives(kind: str) -> None:
    """Positions, velocities and attitudes of the truth agree, and so do the samples, less noise,
    biases and scale.
    """
    flight = fly(kind, 4)
    late_ns, half_ns = round(1e9 * flight.errors.late_s), 500_000
    t_ns = flight.imu.t_ns[5:-5] - late_ns
    before, at, after = (flight.truth(t_ns + by) for by in (-half_ns, 0, half_ns))
    np.testing.assert_allclose(
        (after.p_world_m - before.p_world_m) / 1e-3, at.v_world_mps, atol=1e-4
    )
    a_mps2 = (after.v_world_mps - before.v_world_mps) / 1e-3
    f_mps2 = q_rotate(q_conj(at.q_world_imu_xyzw), a_mps2 + np.array([0.0, 0.0, GRAVITY_MPS2]))
    w_radps = q_log(q_mul(q_conj(before.q_world_imu_xyzw), after.q_world_imu_xyzw)) / 1e-3
    w_left = (
        flight.imu.w_radps[5:-5] - w_radps * (1.0 + flight.errors.gyro_scale) - at.gyro_bias_radps
    )
    f_left = flight.imu.f_mps2[5:-5] - f_mps2 - at.accel_bias_mps2
    rate_hz = 1e9 / np.diff(flight.imu.t_ns).mean()
    assert w_left.std() == pytest.approx(flight.errors.gyro_density * np.sqrt(rate_hz), rel=0.05)
    assert f_left.std() == pytest.approx(flight.errors.accel_density * np.sqrt(rate_hz), rel=0.05)
    assert np.abs(w_left.mean(axis=0)).max() < 0.1 * w_left.std()
    assert np.abs(f_left.mean(axis=0)).max() < 0.1 * f_left.std()


@pytest.mark.parametrize("kind", CLASSES)
def test_mocap_sees_the_body_that_carries_the_imu(kind: str) -> None:
    flight = fly(kind, 5)
    truth = flight.truth(flight.poses.t_ns)
    mount = Transform(
        flight.T_body_imu.p_m, q_mul(flight.T_body_imu.q_xyzw, q_exp(flight.errors.mount_rad))
    )
    q = q_mul(flight.poses.q_world_xyzw, mount.q_xyzw)
    p_m = flight.poses.p_world_m + q_rotate(
        flight.poses.q_world_xyzw, np.broadcast_to(mount.p_m, (len(q), 3))
    )
    turn_rad = q_log(q_mul(q_conj(truth.q_world_imu_xyzw), q))
    assert turn_rad.std() == pytest.approx(flight.errors.attitude_rad, rel=0.05)
    # The lever turns with the noisy attitude.
    lever_m = np.linalg.norm(flight.T_body_imu.p_m) * flight.errors.attitude_rad
    assert (p_m - truth.p_world_m).std() <= 1.05 * np.hypot(flight.errors.position_m, lever_m)


def test_seeds_repeat_and_differ() -> None:
    one, again, other = fly("gaps", 3), fly("gaps", 3), fly("gaps", 4)
    np.testing.assert_array_equal(one.imu.w_radps, again.imu.w_radps)
    np.testing.assert_array_equal(one.poses.p_world_m, again.poses.p_world_m)
    assert one.errors.late_s != other.errors.late_s


def test_classes_are_what_they_are_called() -> None:
    gaps, delays, rest = fly("gaps", 0), fly("delays", 0), fly("rest", 0)
    assert np.diff(gaps.poses.t_ns).max() > 90_000_000
    assert (delays.poses.arrival_ns - delays.poses.t_ns).min() >= 20_000_000
    assert np.abs(rest.truth(rest.poses.t_ns).v_world_mps).max() == 0.0
    starts = [flight.rested for flight in flights("aggressive", 12)]
    assert True in starts and False in starts
    assert all(flight.poses.t_ns[0] >= EPOCH_NS for flight in flights("hover", 2))


def check_honest(runs: list[Judged]) -> None:
    """Nothing is surer than it is right.

    Velocity, position and innovations are as right as they say.
    """
    found = consistency(runs)
    for mean, _ in found.values():
        assert mean <= 1.4
    for name in ("velocity", "position", "nis"):
        mean, share = found[name]
        assert mean >= 0.7 and 0.90 <= share <= 0.99


@pytest.mark.long
@pytest.mark.parametrize("kind", CLASSES)
def test_the_filter_knows_how_sure_it_is_in_every_class(kind: str) -> None:
    """Twenty-four flights.

    ``python -m tests.support.flights --flights 72`` flies five hundred in minutes.
    """
    runs = [judged(flight, BodyFilter) for flight in flights(kind, 24)]
    print("\n" + table(kind, runs))
    check_honest(runs)


def test_the_filter_knows_how_sure_it_is() -> None:
    """Four flights, three of them fast: nothing is surer than it is right.

    Clock and accelerometer are found.
    """
    runs = [
        judged(fly(kind, 2), BodyFilter) for kind in ("hover", "aggressive", "gaps", "misaligned")
    ]
    print("\n" + table("four flights", runs))
    check_honest(runs)
    fast = [run for run in runs if run.flight.aggressive]
    assert len(fast) == 3
    assert max(abs(run.late_error_s[-1]) for run in fast) < 2e-4
    assert np.median([np.linalg.norm(run.errors[-1, 12:15]) for run in fast]) < 0.02
    assert np.abs(autocorrelation([run.whitened for run in runs])).max() < 0.1

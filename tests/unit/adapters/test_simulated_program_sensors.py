"""Sensors of autopilots' programs.

When readings come, of which instant they are, and how much noise they have.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_simulation.autopilots.links.link import AutopilotSample
from vil_simulation.source.ipc import PlaceOrder
from vil_simulation.source.program_sensors import ProgramSensors
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, Vehicle, VehicleConfig
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState

pytestmark = pytest.mark.pure

MS = 1_000_000
RATE_HZ = 250
ORIGIN = GeoOrigin(47.0, 8.0, 400.0)
RADIUS_M = 6_389_986.0 * float(np.cos(np.radians(47.0)))
"""Of the circle of latitude, WGS 84, at 400 m."""
SPEED_MPS = 2.0
"""Of all vehicles to the east, so that places tell the time."""


def truth(t_ns: int, vehicles: int) -> TrueState:
    zeros = np.zeros((vehicles, 3))
    p_m, v_mps, up = zeros.copy(), zeros.copy(), zeros.copy()
    p_m[:, 0], v_mps[:, 0], up[:, 2] = SPEED_MPS * 1e-9 * t_ns, SPEED_MPS, 9.81
    level = np.tile((0.0, 0.0, 0.0, 1.0), (vehicles, 1))
    return TrueState(t_ns, p_m, v_mps, zeros, level, zeros, zeros, up, np.zeros((vehicles, 4)))


def measured(
    seconds: float, vehicles: int = 2, seed: int = 5, **keys: Any
) -> list[list[AutopilotSample]]:
    """Return the samples of each instant; the sensors have no noise but what the keys say."""
    ideal = {"preset": "ideal"}
    parts = {"imu": ideal, "magnetometer": ideal, "barometer": ideal, "gps": None}
    config = AutopilotProgramConfig(kind="px4", **(parts | keys))
    own = VehicleConfig(model="flightgoggles", autopilot=config)
    flown = [Vehicle(i, f"quad_{i}", own, (0.0, 0.0, 0.0)) for i in range(vehicles)]
    group = VehicleGroup(flown, Fraction(1, 1000), 0, 1)
    for i in range(vehicles):
        group.place(
            i,
            PlaceOrder(
                i, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (SPEED_MPS, 0.0, 0.0), (0.0, 0.0, 0.0)
            ),
        )
    sensors = ProgramSensors(config, RATE_HZ, group, flown, ORIGIN, seed)
    return [
        sensors.samples(truth(i * 1000 * MS // RATE_HZ, vehicles), [None] * vehicles)
        for i in range(1, round(seconds * RATE_HZ) + 1)
    ]


def test_the_inertial_sensor_the_magnetometer_and_the_barometer_are_read_every_time() -> None:
    for samples in measured(0.1):
        for sample in samples:
            assert (
                sample.imu.t_ns == sample.magnetometer.t_ns == sample.barometer.t_ns == sample.t_ns
            )
            assert sample.imu.f_body_mps2 == pytest.approx((0.0, 0.0, 9.81))
            assert sample.barometer.altitude_m == pytest.approx(400.0, abs=1.0)
            assert 90_000.0 < sample.barometer.pressure_pa < 100_000.0, "pascals"
            assert 2e-5 < np.linalg.norm(sample.magnetometer.b_body_t) < 7e-5, "tesla"


def test_satellite_readings_come_late_and_have_the_time_of_their_places() -> None:
    gps = {"preset": "ideal", "parameters": {"latency_s": 0.11, "startup_s": 0.0}}
    instants = [samples[1] for samples in measured(2.0, gps=gps, gps_hz=10.0)]
    seen = [(sample.t_ns, sample.gps) for sample in instants if sample.gps is not None]
    assert 18 <= len(seen) <= 20, "ten times a second"
    for t_ns, reading in seen:
        assert reading is not None
        assert 110 * MS <= t_ns - reading.t_ns < 114 * MS
        east_m = np.radians(reading.longitude_deg - 8.0) * RADIUS_M
        assert east_m == pytest.approx(SPEED_MPS * 1e-9 * reading.t_ns, abs=0.01)
        assert reading.v_world_mps == pytest.approx((SPEED_MPS, 0.0, 0.0), abs=1e-6)
        assert (reading.valid, reading.fix) == (True, 3)


def test_poses_come_late_with_the_time_of_their_capture() -> None:
    exact = {"position_m": 0.0, "velocity_mps": 0.0, "attitude_rad": 0.0}
    pose = {"rate_hz": 50.0, "delay_ms": 20.0} | exact
    seen = [
        (samples[0].t_ns, samples[0].pose)
        for samples in measured(1.0, pose=pose)
        if samples[0].pose is not None
    ]
    assert len(seen) == pytest.approx(49, abs=1)
    for t_ns, found in seen:
        assert found is not None
        assert t_ns - found.t_ns == 20 * MS
        assert found.motion.p_world_m == pytest.approx(
            (SPEED_MPS * 1e-9 * found.t_ns, 0.0, 0.0), abs=1e-12
        )
        assert found.motion.v_world_mps == (SPEED_MPS, 0.0, 0.0)


def errors(
    position_m: float, attitude_rad: float, seed: int = 5
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return errors of poses, shape (instants, vehicles, 6): metres and radians."""
    pose = {"rate_hz": RATE_HZ, "position_m": position_m, "attitude_rad": attitude_rad}
    found = []
    for samples in measured(4.0, vehicles=3, seed=seed, pose=pose):
        row = []
        for sample in samples:
            assert sample.pose is not None
            motion = sample.pose.motion
            q = q_mul(q_conj(np.array((0.0, 0.0, 0.0, 1.0))), np.array(motion.q_world_body))
            away = np.array(motion.p_world_m) - (SPEED_MPS * 1e-9 * sample.t_ns, 0.0, 0.0)
            row.append(np.concatenate((away, q_log(q))))
        found.append(row)
    return np.array(found)


def test_poses_have_the_noise_that_is_configured() -> None:
    found = errors(0.02, 0.005)
    np.testing.assert_allclose(found[..., :3].std(axis=0), 0.02, rtol=0.1)
    np.testing.assert_allclose(found[..., 3:].std(axis=0), 0.005, rtol=0.1)
    np.testing.assert_allclose(found.mean(axis=0)[:, :3], 0.0, atol=0.003)
    flat = found.reshape(len(found), -1)
    correlations = np.corrcoef(flat.T) - np.eye(flat.shape[1])
    assert np.abs(correlations).max() < 0.15, "each axis of each vehicle has its own"
    later = [np.corrcoef(flat[:-1, k], flat[1:, k])[0, 1] for k in range(flat.shape[1])]
    assert np.abs(later).max() < 0.15, "and each instant"
    np.testing.assert_array_equal(found, errors(0.02, 0.005))
    assert not np.array_equal(found, errors(0.02, 0.005, seed=6))

"""Distance sensors with several beams and lidars.

Directions, bounds, noise, and readings as numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.sensor_readings import DistanceReading, LidarReading, reading_of
from vil_simulation.vehicles.sensors.beams import BeamParameters, LidarParameters, noise_of
from vil_simulation.vehicles.sensors.sensor import SensorMount

NONE = np.zeros(0, np.uint32)
LEFT = SensorMount((0.1, 0.0, 0.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))


def test_beams_are_read_in_the_bodys_axes_within_their_bounds() -> None:
    parameters = BeamParameters(
        max_m=10.0, beams_deg=((0.0, 0.0), (90.0, 0.0), (0.0, 90.0), (0.0, 0.0)), mounting=LEFT
    )
    row = parameters.row(np.array([3.0, 0.1, 10.5, np.inf]), NONE, np.zeros(4))
    reading = reading_of("distance", 7, 0, row)
    assert isinstance(reading, DistanceReading)
    assert (reading.t_ns, reading.min_m, reading.max_m, reading.p_body_m) == (
        7,
        0.2,
        10.0,
        (0.1, 0.0, 0.0),
    )
    assert reading.ranges_m == (3.0, 0.2, 10.0, 10.0)
    expected = [(0, 1, 0), (-1, 0, 0), (0, 0, 1), (0, 1, 0)]
    assert np.array(reading.directions_body) == pytest.approx(np.array(expected), abs=1e-12)


def test_a_lidar_turns_clockwise_from_its_upper_ring_and_leaves_out_what_is_far() -> None:
    parameters = LidarParameters(
        channels=2, points_per_turn=8, upper_deg=0.0, lower_deg=-45.0, max_m=5.0
    )
    directions = parameters.directions()
    assert directions[:4] == pytest.approx(
        np.array([[1, 0, 0], [0, -1, 0], [-1, 0, 0], [0, 1, 0]]), abs=1e-12
    )
    assert directions[4] == pytest.approx(np.array([1, 0, -1]) / math.sqrt(2.0))
    ranges = np.array([1.0, np.inf, 2.0, 6.0, 1.0, 1.0, 1.0, 1.0])
    row = parameters.row(ranges, np.arange(8, dtype=np.uint32), np.zeros(8))
    reading = reading_of("lidar", 7, 0, np.append(row, np.full(8, np.nan)))
    assert isinstance(reading, LidarReading)
    assert reading.instances.tolist() == [0, 2, 4, 5, 6, 7]
    assert reading.points_m[:2] == pytest.approx(np.array([[1, 0, 0], [-2, 0, 0]]), abs=1e-6)
    assert reading.q_body_sensor == (0.0, 0.0, 0.0, 1.0)


def test_noise_has_its_size_and_is_that_of_the_vehicle_and_the_measurement() -> None:
    parameters, stream = (
        BeamParameters(noise_m=0.2, beams_deg=((0.0, 0.0),) * 50),
        NoiseStream(3, 1400),
    )
    drawn = [noise_of(parameters, stream, step, 5) for step in range(1, 41)]
    assert np.std(drawn) == pytest.approx(1.0, rel=0.05)
    assert np.array_equal(drawn[7], noise_of(parameters, stream, 8, 5))
    assert not np.array_equal(drawn[7], noise_of(parameters, stream, 8, 6))
    row = parameters.row(np.full(50, 5.0), NONE, drawn[0])
    assert row[8::4] == pytest.approx(5.0 + 0.2 * drawn[0])


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: BeamParameters(min_m=2.0, max_m=1.0), "min_m"),
        (lambda: BeamParameters(beams_deg=()), "1 to 64 beams, got 0"),
        (lambda: BeamParameters(noise_m=math.nan), "noise_m"),
        (lambda: LidarParameters(channels=0), "channels must be from 1 to 256"),
        (lambda: LidarParameters(channels=8, points_per_turn=7), "points_per_turn must be from 8"),
        (lambda: LidarParameters(max_m=0.0), "max_m must be positive"),
    ],
)
def test_wrong_parameters_are_refused(made: type[object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made()
